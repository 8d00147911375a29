"""Checkpoints and running summaries of stored sessions: the log is the truth."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from holdfast.core.checkpoint.state import State, to_json
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Checkpoint, Compaction, Record, Rewind, User
from holdfast.core.memory.running_summary import Sidecar, advance
from holdfast.core.models.messages import text_of_blocks
from holdfast.core.projection.project import project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.window import Window
from holdfast.engine.memory.notes import refresh
from holdfast.engine.session import checkpoints
from holdfast.errors import HoldfastWarning, UsageError
from holdfast.importers.checkpoints import read_checkpoint
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing import ScriptedModel
from holdfast.testing.scripted import SCRIPTED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.ports import SessionStore

KEY = SessionKey("main", "trip")


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    made: SessionStore = JsonlStore(tmp_path) if request.param == "files" else MemoryStore()
    made.create(KEY)
    yield made
    made.close()


def say(store: SessionStore, *texts: str) -> str:
    """A turn for each text; returns the head."""
    for text in texts:
        records: list[Record] = [User(content=text), Assistant(content=f"{text} Done.")]
        head = store.append(KEY, records, expect=ANY_HEAD).head
    return head


def clock() -> float:
    return 1_763_259_600.0


def taken(store: SessionStore, key: SessionKey = KEY) -> State:
    return checkpoints.take_checkpoint(store, key, clock=clock).state


def test_records_at_hand_give_the_state_that_the_log_gives(store: SessionStore) -> None:
    """However few of them there are, and whatever was rewound: the log is read where they do not
    reach back to the checkpoint before."""
    for number in range(3):
        say(store, f"Request {number}: look at file_{number}.py.")
    checkpoints.save_checkpoint(store, KEY, taken(store))
    before = say(store, "Then write a haiku.")
    say(store, "Forget that.")
    store.append(KEY, [Rewind(to=before)], expect=ANY_HEAD)
    say(store, "And a second one, about rain.")
    whole, path = taken(store), list(store.read(KEY))
    for count in range(len(path) + 1):
        held = path[len(path) - count :]
        found = checkpoints.take_checkpoint(store, KEY, clock=clock, held=held).state
        assert found == whole, count


def requests(state: State) -> list[str]:
    return [one.text for one in state.requests]


def test_a_checkpoint_goes_on_from_the_one_before(store: SessionStore) -> None:
    """And is what it would be without it."""
    say(store, "Write a haiku.")
    first = checkpoints.save_checkpoint(store, KEY, taken(store))
    say(store, "About rain.")
    state = taken(store)
    assert requests(state) == ["Write a haiku.", "About rain."]
    loaded = checkpoints.load(store, KEY)
    assert loaded.record == first
    assert loaded.state is not None
    assert requests(loaded.state) == ["Write a haiku."]


def test_after_a_rewind_the_abandoned_branch_is_gone(store: SessionStore) -> None:
    """Its checkpoint is not on the path, and what was read up to it does not count."""
    head = say(store, "Write a haiku.")
    say(store, "Delete everything.")
    checkpoints.save_checkpoint(store, KEY, taken(store))
    store.append(KEY, [Rewind(to=head)], expect=ANY_HEAD)
    say(store, "About rain.")
    assert requests(taken(store)) == ["Write a haiku.", "About rain."]
    assert checkpoints.load(store, KEY).state is None


def test_after_a_compaction_the_older_state_is_kept(store: SessionStore) -> None:
    say(store, "Write a haiku.")
    store.append(KEY, [Compaction(summary="A haiku was written.")], expect=ANY_HEAD)
    say(store, "About rain.")
    assert requests(taken(store)) == ["Write a haiku.", "About rain."]


def test_a_bad_checkpoint_is_passed_over_and_named(store: SessionStore) -> None:
    say(store, "Write a haiku.")
    good = checkpoints.save_checkpoint(store, KEY, taken(store))
    bad = store.append(KEY, [Checkpoint(state={"carry": "old"})], expect=ANY_HEAD).ids[0]
    say(store, "About rain.")
    found = checkpoints.take_checkpoint(store, KEY, clock=clock)
    assert requests(found.state) == ["Write a haiku.", "About rain."]
    assert [one.record for one in found.passed_over] == [bad]
    assert checkpoints.load(store, KEY).record == good


def test_two_in_one_moment_are_two_records(store: SessionStore) -> None:
    say(store, "Write a haiku.")
    state = taken(store)
    first, second = (checkpoints.save_checkpoint(store, KEY, state) for _ in range(2))
    assert first != second
    assert [record for record, _state in checkpoints.each(store, KEY)] == [second, first]


def test_a_fresh_session_begins_with_the_state_and_a_fork_with_its_records(
    store: SessionStore,
) -> None:
    say(store, "Write a haiku.")
    new = SessionKey("main", "fresh")
    head = store.create(new)
    store.append(new, [checkpoints.checkpoint_record(taken(store))], expect=head)
    assert requests(taken(store, new)) == ["Write a haiku."]
    assert taken(store, new).from_session == "trip"
    fork = SessionKey("main", "fork")
    store.fork(KEY, fork, at=None)
    assert requests(taken(store, fork)) == ["Write a haiku."]


def test_fresh_sessions_neither_nest_nor_grow_and_know_what_was_said(
    store: SessionStore,
) -> None:
    """A haiku, and follow-ups that only make sense after it, each in a session of its own."""
    say(store, "Write a haiku.")
    old, sizes = KEY, []
    for number in range(40):
        state = checkpoints.take_checkpoint(store, old, trigger="reset", clock=clock).state
        new = SessionKey("main", f"fresh-{number}")
        head = store.create(new, parent_session=str(old), reason="reset")
        asked = User(content=f"Make it about rain, {number}.")
        records: list[Record] = [checkpoints.checkpoint_record(state), asked]
        store.append(new, records, expect=head)
        plan = project(ProjectionRequest(list(store.read(new)), Window(64_000, "test"), SCRIPTED))
        shown = text_of_blocks(plan.prompt.messages[0].blocks)
        answer = f"Make it about rain, {number - 1}. Done." if number else "Write a haiku. Done."
        assert f"- Assistant: {answer}" in shown
        assert shown.count("# Checkpoint\n") == shown.count("</conversation_so_far>") == 1
        sizes.append(len(shown))
        store.append(new, [Assistant(content=f"{asked.content} Done.")], expect=ANY_HEAD)
        old = new
    assert max(sizes[25:]) <= max(sizes[:25]), sizes
    assert taken(store, old).original_request == "Write a haiku."


def test_a_model_adds_what_code_cannot_see(store: SessionStore) -> None:
    """In one call without tools; the answer counts in later checkpoints too."""
    say(store, "Write a haiku about src/rain.py.")
    model = ScriptedModel(['{"learnings": ["The haiku in src/rain.py needs a season word."]}'])
    state = checkpoints.enrich(model, taken(store), list(store.read(KEY)))
    assert state.learnings == ("The haiku in src/rain.py needs a season word.",)
    assert len(model.requests) == 1
    assert "tools" not in model.requests[0]
    checkpoints.save_checkpoint(store, KEY, state)
    say(store, "Go on.")
    assert taken(store).learnings == state.learnings


def test_a_model_that_fails_leaves_the_state_as_it_was(store: SessionStore) -> None:
    say(store, "Write a haiku.")
    before = taken(store)
    model = ScriptedModel([ConnectionError("no network")])
    with pytest.warns(HoldfastWarning, match="no network"):
        assert checkpoints.enrich(model, before, list(store.read(KEY))) is before
    assert checkpoints.enrich(ScriptedModel(window=100), before, list(store.read(KEY))) is before


def test_the_summary_is_what_the_log_says_whatever_happens(
    store: SessionStore, tmp_path: Path
) -> None:
    """Turn after turn, over a rewind, a compaction, and a file that is lost or in the way."""
    head = say(store, "Write a haiku.")

    def check(stored: Sidecar | None = None) -> Sidecar:
        if stored is not None:
            store.summaries.save(KEY, stored)
        found = refresh(store, KEY)
        assert found == advance(Sidecar(), store.read(KEY))
        return found

    old = check()
    say(store, "About rain.", "About rain.")
    check()
    check(old)
    store.append(KEY, [Compaction(summary="Short.")], expect=ANY_HEAD)
    abandoned = check()
    store.append(KEY, [Rewind(to=head)], expect=ANY_HEAD)
    say(store, "About snow.")
    assert [one.text for one in check().items if one.kind == "user"] == [
        "Write a haiku.",
        "About snow.",
    ]
    check(abandoned)
    store.summaries.save(KEY, abandoned)
    check()
    (tmp_path / "agents/main/sessions").mkdir(parents=True, exist_ok=True)
    (tmp_path / "agents/main/sessions/trip.summary.json").write_bytes(b'{"version": 1, "ite')
    check()


# Checkpoints of other tools


def test_files_of_other_tools_are_read_by_all_their_names(tmp_path: Path) -> None:
    """A newer name wins; what is torn is passed over."""
    for name in ("ckpt_1770000000_manual.json", "session_checkpoint.json"):
        (tmp_path / name).write_text(json.dumps({"original_request": name, "odd": 1}))
    assert read_checkpoint(tmp_path).original_request == "session_checkpoint.json"
    (tmp_path / "run_checkpoint.json").write_text('{"original_re')
    assert read_checkpoint(tmp_path).original_request == "session_checkpoint.json"
    (tmp_path / "run_checkpoint.json").write_text(json.dumps(to_json(State(original_request="a"))))
    assert read_checkpoint(tmp_path).original_request == "a"
    (tmp_path / "run_checkpoint.json").unlink()
    (tmp_path / "session_checkpoint.json").write_text("[]")
    assert read_checkpoint(tmp_path).original_request == "ckpt_1770000000_manual.json"


def test_where_nothing_can_be_read_it_is_said_why(tmp_path: Path) -> None:
    (tmp_path / "latest_checkpoint.json").write_text('{"x": 1}')
    with pytest.raises(UsageError, match="no field of a checkpoint") as refused:
        read_checkpoint(tmp_path)
    assert refused.value.hint
    with pytest.raises(UsageError, match="FileNotFoundError"):
        read_checkpoint(tmp_path / "nothing.json")
