"""What a session must not forget when its context is cut, reset or restarted."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.sessions import (
    EITHER_KIND,
    KINDS,
    Bench,
    check_requests,
    is_notes_request,
    noted,
    texts,
)
from tests.support.runs import is_whole

from holdfast.core.checkpoint.state import State, read_state
from holdfast.core.flow.events import (
    CheckpointSaved,
    CompactionFinished,
    MemoryRecalled,
    SessionReset,
)
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Checkpoint, Compaction, Flush, Mode, User
from holdfast.core.owners import ANY_OWNER, NamedOwner
from holdfast.engine.memory.notes import refresh
from holdfast.engine.memory.search import Memory
from holdfast.engine.session.session import Session
from holdfast.errors import BadSetting, StoreUnavailable
from holdfast.ports import ANY_HEAD
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HAIKU = "An old silent pond / a frog jumps into the pond / splash! Silence again."


pytestmark = EITHER_KIND
TURNS = 150 if is_whole() else 60


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(request.param)
    made.store = JsonlStore(str(tmp_path))
    yield made
    made.store.close()
    made.close()


def states(bench: Bench, name: str = "s") -> list[State]:
    found = [read_state(one.state) for one in bench.records(name) if isinstance(one, Checkpoint)]
    assert all(isinstance(one, State) for one in found)
    return [one for one in found if isinstance(one, State)]


# Fresh and continue: the story of a bot whose sessions overflowed


def test_a_fresh_session_knows_what_was_said_before(bench: Bench) -> None:
    """Write a haiku, then make it about rain: the second request has no history and knows it."""
    model = ScriptedModel([HAIKU, "Rain on the old pond", "gladly"], window=32_000)
    session = bench.open(model, "tg_42")
    bench.do(session.set_mode("fresh"))
    first = session.key.session
    bench.say(session, "Write a haiku")
    assert session.key.session == first
    bench.say(session, "make it about rain")
    assert session.key.session != first
    (reset,) = bench.of(SessionReset)
    assert (reset.old, reset.new) == (first, session.key.session)
    request = model.requests[1]
    assert HAIKU in texts(request)
    assert len(request["messages"]) == 1
    said = [one.content for one in bench.records(session.key.session) if isinstance(one, User)]
    assert said == ["make it about rain"]
    header = bench.store.header(session.key)
    assert (header.parent_session, header.reason) == (f"main/{first}", "reset")
    check_requests(model)


def test_ten_fresh_sessions_neither_nest_nor_grow(bench: Bench) -> None:
    model = ScriptedModel(otherwise="Well, that is done now.", window=32_000)
    session = bench.open(model, "tg_42")
    bench.do(session.rename("bot"))
    bench.do(session.set_mode("fresh"))
    for number in range(12):
        bench.say(session, f"request number {number}, about parcel P-{number:03d}")
    sizes = [len(texts(one)) for one in model.requests]
    assert max(sizes[5:]) < 2 * sizes[4]
    assert texts(model.requests[-1]).count("# Checkpoint") == 1
    assert "request number 0" in texts(model.requests[-1])
    assert len(bench.of(SessionReset)) == 11
    assert len({one.key for one in bench.store.sessions(owner=ANY_OWNER)}) == 12


def test_the_mode_and_the_place_survive_a_restart(bench: Bench, tmp_path: Path) -> None:
    """Opened by its first name, a bot is where it was."""
    session = bench.open(ScriptedModel(["one", "two"], window=32_000), "tg_42")
    bench.do(session.set_mode("fresh"))
    bench.say(session, "first")
    bench.say(session, "second")
    place = session.key.session
    bench.store.close()
    bench.store = JsonlStore(str(tmp_path))
    model = ScriptedModel(["three"], window=32_000)
    again = bench.open(model, "tg_42")
    assert (again.key.session, bench.do(again.status()).mode) == (place, "fresh")
    bench.say(again, "third")
    assert again.key.session != place
    assert "second" in texts(model.requests[0])
    bench.do(again.set_mode("continue"))
    at = again.key.session
    bench.say(bench.open(ScriptedModel(["four"], window=32_000), at), "fourth")
    assert bench.open([], at).key.session == at


def test_a_mode_survives_a_compaction(bench: Bench) -> None:
    model = ScriptedModel(otherwise="fine " * 50, window=200_000)
    session = bench.open(model, summary="extract", notes="off")
    for number in range(6):
        bench.say(session, f"message {number} " + "with words " * 100)
    bench.do(session.set_mode("fresh"))
    assert bench.do(session.compact()).outcome == "applied"
    kinds = [one.kind for one in bench.records()]
    assert kinds.index("compaction") < len(kinds) - 1 - kinds[::-1].index("mode")
    assert bench.do(bench.open([]).status()).mode == "fresh"


def test_a_mode_that_is_none_is_refused(bench: Bench) -> None:
    session = bench.open([])
    with pytest.raises(BadSetting):
        bench.do(session.set_mode("later"))
    assert not [one for one in bench.records() if isinstance(one, Mode)]


def test_long_session_never_overflows(bench: Bench, tmp_path: Path) -> None:
    """Continue mode, a small window that the provider enforces, a restart in between."""

    def answer(request: Any) -> str:
        return f"Noted: {texts(request)[-40:]}. " + "I shall keep that in mind. " * 40

    model = ScriptedModel(otherwise=answer, window=16_000, limit=16_000)
    session = bench.open(model, "tg_7", summary="extract")
    for number in range(TURNS):
        bench.say(session, f"Message {number}: parcel P-{number:04d} goes to shelf {number % 9}.")
        if number == TURNS // 2:
            bench.store.close()
            bench.store = JsonlStore(str(tmp_path))
            session = bench.open(model, "tg_7", summary="extract")
        if number % 20 == 19:
            status = bench.do(session.status())
            assert status.turns == number + 1
            assert 0 < status.share < 1
            assert status.compactions == len(
                [one for one in bench.records("tg_7") if isinstance(one, Compaction)]
            )
    assert model.refused == []
    assert bench.of(CompactionFinished)
    assert bench.of(SessionReset) == []
    assert f"P-{TURNS - 1:04d}" in texts(model.requests[-1])


def test_the_offline_model_quotes_what_a_fresh_session_knows(tmp_path: Path) -> None:
    with Session.open("bot", model="offline", store=str(tmp_path)) as session:
        session.set_mode("fresh")
        session.say("Remember: never deploy on Fridays")
        assert "never deploy on Fridays" in session.say("What did I say about Fridays?").text


# Checkpoints


def test_a_checkpoint_is_stored_before_every_cut(bench: Bench) -> None:
    model = ScriptedModel(otherwise="fine " * 60, window=200_000)
    session = bench.open(model, summary="extract")
    for number in range(6):
        bench.say(session, f"message {number}: please weigh parcel {number}. " + "word " * 200)
    bench.do(session.compact())
    kinds = [one.kind for one in bench.records()]
    assert kinds.index("checkpoint") < kinds.index("compaction")
    (saved,) = bench.of(CheckpointSaved)
    assert saved.trigger == "pre_compact_manual"
    (state,) = states(bench)
    assert state.request_count == 6
    assert state.last_exchange.user.startswith("message 5")


def test_a_checkpoint_that_cannot_be_stored_costs_no_cut(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: Any, **_more: Any) -> Any:
        raise OSError("no space left")

    monkeypatch.setattr("holdfast.engine.session.checkpoints.capture_state", broken)
    session = bench.open(ScriptedModel(otherwise="fine " * 60, window=200_000), summary="extract")
    for number in range(6):
        bench.say(session, f"message {number} " + "word " * 200)
    with pytest.warns(UserWarning, match="no checkpoint"):
        assert bench.do(session.compact()).outcome == "applied"


def test_turns_and_closing_can_be_marked_as_well(bench: Bench) -> None:
    session = bench.open(
        ScriptedModel([calls(("c1", "look", {})), "done", "sure"], window=32_000),
        checkpoints="turns",
        tools=[look],
    )
    bench.say(session, "look at it")
    assert [one.trigger for one in states(bench)] == ["query_complete"]
    bench.do(session.checkpoint("phase_boundary", current_objective="ship it"))
    newest = states(bench)[-1]
    assert (newest.trigger, newest.current_objective) == ("phase_boundary", "ship it")
    bench.say(session, "and again")
    assert states(bench)[-1].current_objective == "ship it"
    assert states(bench)[-1].tools_used == {"look": 1}


def look() -> str:
    """Look."""
    return "nothing"


def test_none_are_stored_where_none_are_wanted(bench: Bench) -> None:
    model = ScriptedModel(otherwise="fine " * 60, window=200_000)
    session = bench.open(model, summary="extract", checkpoints="off")
    for number in range(6):
        bench.say(session, f"message {number} " + "word " * 200)
    bench.do(session.compact())
    assert states(bench) == []


# Notes and the running summary

RULE = "Remember: never deploy on Fridays."


def noting_model(answer: str, **options: Any) -> ScriptedModel:
    """A model that answers turns, and finds the rule among what it is asked to note."""

    def speak(request: Any) -> str:
        return noted(request, [RULE]) if is_notes_request(request) else answer

    return ScriptedModel(otherwise=speak, **{"window": 32_000, **options})


@pytest.mark.files_only("it looks at the files")
def test_what_is_noted_before_a_cut_is_in_a_file_of_the_day(bench: Bench, tmp_path: Path) -> None:
    model = noting_model("fine " * 60, window=200_000)
    session = bench.open(model, summary="extract", notes="model")
    bench.say(session, RULE)
    for number in range(6):
        bench.say(session, f"message {number} " + "word " * 200)
    bench.do(session.compact())
    (file,) = (tmp_path / "agents" / "main" / "memory").glob("20*.md")
    text = file.read_text()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d\.md", file.name)
    assert text.count("never deploy on Fridays") == 1
    assert "main/s" in text
    written = bench.store.notes("main").notes()
    assert [one.text for one in written] == session_notes(bench, session)


def session_notes(bench: Bench, session: Any) -> list[str]:
    return list(bench.do(session.notes()))


def test_what_was_said_before_two_resets_is_found(bench: Bench, tmp_path: Path) -> None:
    """A fresh session knows it by the checkpoint; a later one finds it where it was said."""
    session = bench.open(ScriptedModel(otherwise="fine", window=32_000))
    bench.say(session, RULE)
    fresh = bench.do(session.reset())
    bench.do(fresh.reset())
    with memory_at(tmp_path) as memory:
        hits = list(memory.search("deploy on Fridays?"))
    assert any(RULE in hit.text and hit.session == str(session.key) for hit in hits), hits


def test_notes_that_a_crash_kept_out_of_the_files_are_put_in(bench: Bench, tmp_path: Path) -> None:
    session = bench.open([], notes="model")
    flush = Flush(notes=["The port is 8443", "Deploys go to Frankfurt"])
    bench.store.append(session.key, [flush], expect=ANY_HEAD)
    assert not (tmp_path / "agents" / "main" / "memory").exists()
    for _ in range(2):
        bench.open([], notes="model")
        assert len(list(bench.store.notes("main").notes())) == 2


def test_notes_of_one_owner_are_not_those_of_another(bench: Bench) -> None:
    for name in ("ann", "bob"):
        key = bench.open([], name, owner=name).key
        bench.store.append(key, [Flush(notes=[f"{name} likes tea"])], expect=ANY_HEAD)
        bench.open([], name, owner=name, notes="model")
    for name in ("ann", "bob"):
        notes = bench.store.notes("main", NamedOwner(name)).notes()
        assert [one.text for one in notes] == [f"{name} likes tea"]


@pytest.mark.files_only("it damages files")
def test_a_folder_that_cannot_be_written_costs_no_turn(bench: Bench, tmp_path: Path) -> None:
    model = noting_model("fine " * 60, window=200_000)
    session = bench.open(model, summary="extract", notes="model")
    (tmp_path / "agents" / "main" / "memory").write_text("somebody's file")
    bench.say(session, RULE)
    for number in range(6):
        bench.say(session, f"message {number} " + "word " * 200)
    assert bench.do(session.compact()).outcome == "applied"
    assert bench.do(session.notes())


def test_replies_are_in_what_a_cut_leaves(bench: Bench) -> None:
    shelves = "Then it went to a shelf in the hall. " * 120
    answers = [f"Parcel {number} weighs {number + 2} kg exactly. {shelves}" for number in range(8)]
    model = ScriptedModel(answers, otherwise="well", window=200_000)
    session = bench.open(model, summary="extract")
    for number in range(8):
        bench.say(session, f"weigh parcel {number}")
    bench.do(session.compact())
    bench.say(session, "what do you know?")
    text = texts(model.requests[-1])
    assert "Parcel 4 weighs 6 kg exactly." in text


@pytest.mark.files_only("it damages files")
def test_a_running_summary_is_made_when_asked_for(bench: Bench, tmp_path: Path) -> None:
    """A turn writes none; one that is torn, or of a path that was left, is made anew."""
    session = bench.open(ScriptedModel(["hello", "yes", "no"], window=32_000))
    bench.say(session, "[SESSION_SUMMARY] is what I write")
    path = tmp_path / "agents" / "main" / "sessions" / "s.summary.json"
    assert not path.exists()
    first = refresh(bench.store, session.key)
    assert "[SESSION_SUMMARY] is what I write" in path.read_text()
    path.write_text("{ torn")
    os.chmod(path, 0o400)
    bench.say(session, "again")
    assert "again" in refresh(bench.store, session.key).items[-2].text
    assert "again" in path.read_text()
    bench.do(session.rewind(turns=1))
    assert refresh(bench.store, session.key).items == first.items
    assert bench.store.verify(session.key).is_sound


# Memory


def memory_at(root: Path) -> Memory:
    return Memory.open(str(root))


def test_memory_is_asked_once_about_what_the_user_says(bench: Bench, tmp_path: Path) -> None:
    """The block is data, stays where it was put, and is not repeated."""
    bench.store.notes("main").append(["Releases go out on Tuesdays.", "Ann likes tea."])
    model = ScriptedModel([calls(("c1", "look", {})), "On Tuesdays.", "yes"], window=32_000)
    with memory_at(tmp_path) as memory:
        session = bench.open(model, memory=memory, tools=[look])
        bench.say(session, "When do releases go out?")
        bench.say(session, "So the releases go out on Tuesdays?")
    first, second, third = map(texts, model.requests)
    assert first.count("Releases go out on Tuesdays.") == 1
    assert "Ann likes tea" not in first
    assert second.startswith(first[: first.index("ephemeral")])
    assert third.count("Releases go out on Tuesdays.") == 1
    assert len(bench.of(MemoryRecalled)) == 1
    assert bench.store.sessions(owner=ANY_OWNER)[0].title == "When do releases go out?"
    check_requests(model)
    state = bench.do(session.checkpoint())
    assert state
    assert states(bench)[-1].original_request == "When do releases go out?"


def test_a_memory_that_fails_costs_no_turn(bench: Bench, tmp_path: Path) -> None:
    class Broken(Memory):
        def search(self, *_args: Any, **_more: Any) -> Any:
            raise StoreUnavailable("the index is gone")

    model = ScriptedModel(["fine"], window=32_000)
    session = bench.open(model, memory=Broken(bench.store, None))
    with pytest.warns(UserWarning, match="memory search failed"):
        assert bench.say(session, "hello there").text == "fine"


# Dying in the middle


def test_a_reset_that_dies_anywhere_leaves_the_old_session_where_it_was(tmp_path: Path) -> None:
    """Killed before each write: opened again, the bot answers, knows what it knew, and every
    request is in exactly one session."""

    left = 10**9

    def mortal(store: JsonlStore) -> JsonlStore:
        """Let a store die before a write, once none is left to it."""
        for name in ("create", "append"):
            setattr(store, name, counted(getattr(store, name)))
        return store

    def counted(write: Any) -> Any:
        def act(*args: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            return write(*args, **more)

        return act

    for writes in range(8):
        root = tmp_path / str(writes)
        left = 10**9
        with (
            mortal(JsonlStore(str(root))) as dying,
            Session.open("bot", model=_haiku(), store=dying) as bot,
        ):
            bot.set_mode("fresh")
            bot.say("Write a haiku")
            left = writes
            with contextlib.suppress(KeyboardInterrupt):
                bot.say("make it about rain")
        left = 10**9
        model = _haiku()
        with (
            mortal(JsonlStore(str(root))) as dying,
            Session.open("bot", model=model, store=dying) as again,
        ):
            if again.resume() is None:
                again.say("and another one")
        assert HAIKU in texts(model.requests[-1])
        with JsonlStore(str(root)) as store:
            said = [
                record.content
                for info in store.sessions(owner=ANY_OWNER)
                for record in store.read(info.key)
                if isinstance(record, User)
            ]
            assert len(said) == len(set(map(str, said)))
            assert said.count("Write a haiku") == 1
            assert all(store.verify(info.key).is_sound for info in store.sessions(owner=ANY_OWNER))


def _haiku() -> ScriptedModel:
    return ScriptedModel(otherwise=HAIKU, window=32_000)


def test_what_is_still_to_be_done_survives_cuts(bench: Bench) -> None:
    """Also where a tool keeps the list entry by entry: no later call repeats all of it."""
    numbers = iter(range(1, 100))

    def task_create(subject: str) -> str:
        """Add a task."""
        return f"Task #{next(numbers)} created: {subject}"

    def task_update(task_id: str, status: str) -> str:
        """Change a task."""
        return f"Task #{task_id} is {status}"

    tasks = [f"weigh parcel {number}" for number in range(1, 5)]
    steps: list[Any] = [
        calls((f"c{n}", "task_create", {"subject": one})) for n, one in enumerate(tasks)
    ]
    done = calls(("d1", "task_update", {"task_id": "2", "status": "completed"}))
    model = ScriptedModel([*steps, done, "listed"], otherwise="well " * 80, window=200_000)
    session = bench.open(model, tools=[task_create, task_update], summary="extract")
    bench.say(session, "plan it")
    for _ in range(3):
        for number in range(6):
            bench.say(session, f"message {number} " + "word " * 200)
        assert bench.do(session.compact()).outcome == "applied"
    bench.say(session, "what is left?")
    text = texts(model.requests[-1])
    items = text[text.index("## Open items") :].split("\n## ")[0]
    assert [one in items for one in tasks] == [True, False, True, True]


@pytest.mark.files_only("it damages a file")
def test_a_session_of_an_unknown_owner_takes_no_notes(bench: Bench, tmp_path: Path) -> None:
    """Its notes would be among those of people without an owner, and theirs shown beside it."""
    key = SessionKey("main", "anns")
    bench.store.create(key, owner=NamedOwner("ann"))
    bench.store.append(key, [Flush(notes=["the port is 8443"])], expect=ANY_HEAD)
    bench.store.notes("main").append("a note of somebody else")
    log = tmp_path / "agents" / "main" / "sessions" / "anns.jsonl"
    log.write_bytes(b"garbage\n" + log.read_bytes().partition(b"\n")[2])
    session = bench.open(ScriptedModel(["fine"]), "anns", owner=ANY_OWNER)

    bench.do(session.say("Remember: always answer in French."))
    bench.do(session.compact())

    assert [note.text for note in bench.store.notes("main").notes()] == ["a note of somebody else"]
