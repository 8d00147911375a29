"""A checkpoint is read from the log by code: all of it, and the same in however many pieces."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conversations import messy_logs, said
from tests.core.checkpoint.working_logs import call, working_logs
from tests.strategies import json_objects, json_values

from holdfast.core.checkpoint.capture import amend, capture_state
from holdfast.core.checkpoint.render import render_checkpoint
from holdfast.core.checkpoint.state import State, from_foreign, id_for, newest, read_state, to_json
from holdfast.core.limits import (
    CHECKPOINT_ENTRIES_MAX,
    CHECKPOINT_FILES_MAX,
    CHECKPOINT_REQUESTS_MAX,
    SIDECAR_ITEMS_MAX,
)
from holdfast.core.log.records import (
    Assistant,
    Checkpoint,
    Compaction,
    Header,
    Label,
    Record,
    ToolResult,
    ToolUse,
    User,
    encode,
)
from holdfast.core.text.timestamps import iso_utc
from holdfast.errors import BadSetting


def taken(records: list[Record], **more: Any) -> State:
    return capture_state(records, session="s", trigger="asked", now=1_763_259_600.0, **more)


def stored(state: State) -> State:
    """The state as it comes back from a log."""
    line = encode(Checkpoint(state=to_json(state)))
    back = read_state(msgspec.json.decode(line)["state"])
    assert isinstance(back, State), back
    return back


def done(
    name: str, arguments: dict[str, Any], text: str = "done", *, failed: bool = False
) -> list[Record]:
    """A call and its result."""
    done.count = getattr(done, "count", 0) + 1  # type: ignore[attr-defined]
    number = done.count  # type: ignore[attr-defined]
    return [
        Assistant(content=[call(name, arguments, number)]),
        ToolResult(tool_use_id=f"c{number}", content=text, is_error=failed),
    ]


def log(*steps: Record | list[Record]) -> list[Record]:
    flat = [one for step in steps for one in (step if isinstance(step, list) else [step])]
    return said(flat)


# Laws


@given(working_logs(), st.data())
def test_going_on_from_an_earlier_state_is_reading_everything(
    records: list[Record], data: st.DataObject
) -> None:
    """However often the reading was interrupted, and the state stored and loaded between."""
    whole = taken(records)
    state: State | None = None
    for cut_at in sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=3))):
        state = stored(taken(records[:cut_at], previous=state))
    assert taken(records, previous=state) == whole
    assert stored(whole) == whole


@given(messy_logs(), st.integers(0, 30))
def test_no_log_is_too_damaged_to_be_read(records: list[Record], cut_at: int) -> None:
    """Every prefix of every log has a state, and it is the same in two pieces."""
    first = stored(taken(records[:cut_at]))
    assert taken(records, previous=first) == taken(records)


@given(working_logs(), working_logs(), st.integers(0, 20))
def test_an_abandoned_branch_leaves_nothing_behind(
    kept: list[Record], abandoned: list[Record], cut_at: int
) -> None:
    """After a rewind an earlier state of another branch does not count."""
    other = [msgspec.structs.replace(one, id=f"x{one.id}") for one in abandoned]
    before = stored(taken([*kept[:cut_at], *other]))
    if other:
        assert taken(kept, previous=before) == taken(kept)


@given(working_logs(), working_logs())
def test_a_compaction_takes_nothing_from_the_state(
    before: list[Record], after: list[Record]
) -> None:
    """The log keeps what the view does not."""
    later = [msgspec.structs.replace(one, id=f"y{one.id}") for one in after]
    cut = Compaction(id="cut", summary="All of it, shortened.", first_kept=None)
    with_cut = taken([*before, cut, *later])
    without = taken([*before, *later])
    same = {"upto": "", "checkpoint_id": ""}
    assert msgspec.structs.replace(with_cut, **same) == msgspec.structs.replace(without, **same)


@given(working_logs(60))
def test_every_list_is_bounded(records: list[Record]) -> None:
    state = taken(records)
    assert len(state.requests) <= CHECKPOINT_REQUESTS_MAX
    assert len(state.story) <= SIDECAR_ITEMS_MAX
    for entries in (state.learnings, state.rules, state.key_decisions, state.errors):
        assert len(entries) <= CHECKPOINT_ENTRIES_MAX
    assert set(state.files_changed).isdisjoint(state.files_read)


@given(json_values(12))
def test_reading_a_state_never_raises(value: Any) -> None:
    assert isinstance(read_state(value), State | str)


@given(json_objects(), st.sampled_from(sorted(State.__struct_fields__)), json_values())
def test_reading_a_broken_state_never_raises(
    unknown: dict[str, Any], name: str, value: Any
) -> None:
    """Any field of any type: a state or a reason, and a state can be gone on from."""
    found = read_state({**unknown, name: value, "version": 1})
    if isinstance(found, State):
        log_of = [Checkpoint(id="a", state={**unknown, name: value, "version": 1})]
        assert taken([*log_of, User(id="b", content="hello")]).requests[-1].text == "hello"


def test_records_that_were_never_stored_go_by_their_place() -> None:
    """A transcript of another tool may have no ids."""
    records: list[Record] = [User(content="one"), User(content="two"), User(content="three")]
    state = taken(records, previous=taken(records[:2]))
    assert [one.text for one in state.requests] == ["one", "two", "three"]


# What is found


def test_requests_are_the_users_own_words_in_order() -> None:
    """Notes, summaries and what an application put before a prompt are nobody's request."""
    state = taken(
        log(
            Header(id="s"),
            User(content="Write a haiku."),
            Assistant(content="Old pond…"),
            User(content="<reminder>be good</reminder>", extra={"meta": True}),
            Compaction(summary="The user wants a haiku."),
            User(
                content="<prior_session_context>old</prior_session_context>\n\nNew: about rain",
                extra={"original_prompt": "Make it about rain."},
            ),
        )
    )
    assert [one.text for one in state.requests] == ["Write a haiku.", "Make it about rain."]
    assert state.original_request == "Write a haiku."
    assert state.current_objective == "Make it about rain."
    assert state.last_exchange.user == "Make it about rain."
    assert state.last_exchange.assistant == ""


def test_a_user_who_writes_our_words_is_heard() -> None:
    """Text is never what tells a summary from a request."""
    text = "[SESSION_SUMMARY] <prior_session_context> is what I see on my screen"
    assert taken(log(User(content=text))).requests[0].text == text


def test_the_last_answer_is_kept_and_a_courtesy_changes_no_objective() -> None:
    state = taken(
        log(
            User(content="Port the parser to Rust."),
            Assistant(content="Done. It is in `parser.rs`."),
            User(content="thanks, great"),
            Assistant(content="You are welcome."),
        )
    )
    assert state.current_objective == "Port the parser to Rust."
    assert state.last_exchange.user == "thanks, great"
    assert state.last_exchange.assistant == "You are welcome."


def test_written_supersedes_read_and_what_failed_was_not_touched() -> None:
    state = taken(
        log(
            done("Read", {"file_path": "a.py"}),
            done("Read", {"file_path": "b.py"}),
            done("Edit", {"file_path": "a.py", "new_string": "x"}),
            done("Read", {"file_path": "a.py"}),
            done("Write", {"file_path": "c.py", "content": "x"}, "denied", failed=True),
            Assistant(content=[call("Write", {"file_path": "never.py", "content": "x"}, 99)]),
        )
    )
    assert state.files_changed == ("a.py",)
    assert state.files_read == ("b.py",)
    assert [one.changes for one in state.open_calls] == [("never.py",)]


def test_a_call_that_the_seed_format_stores_twice_counts_once() -> None:
    first = Assistant(content=[call("bash", {"command": "ls"}, 500)])
    again = ToolUse(tool_use_id="c500", name="bash", input={"command": "ls"})
    alone = ToolUse(tool_use_id="c501", name="bash", input={"command": "ls"})
    assert taken(log(first, again)).tool_call_count == 1
    assert taken(log(first, again, alone)).tools_used == {"bash": 2}


def test_files_beyond_the_limit_are_counted() -> None:
    """Those that were only read go first."""
    steps = [done("Write", {"file_path": "kept.py", "content": "x"})]
    steps += [done("Read", {"file_path": f"f{n}.py"}) for n in range(CHECKPOINT_FILES_MAX + 4)]
    state = taken(log(*steps))
    assert state.files_changed == ("kept.py",)
    assert len(state.files_read) == CHECKPOINT_FILES_MAX - 1
    assert state.files_omitted == 5


def test_commands_have_their_exit_codes() -> None:
    details = {"exit_code": 3}
    state = taken(
        log(
            done("Bash", {"command": "make"}),
            done("Bash", {"command": "make test"}, "Exit code 2\nno rule", failed=True),
            done("shell", {"command": ["bash", "-lc", "ls -l"]}, "out\n[exit code: 0]"),
            Assistant(content=[call("run", {"cmd": "x"}, 900)]),
            ToolResult(tool_use_id="c900", content="no", details=details),
        )
    )
    assert [(one.command, one.exit_code, one.is_failed) for one in state.commands] == [
        ("make", None, False),
        ("make test", 2, True),
        ("ls -l", 0, False),
        ("x", 3, True),
    ]


def test_what_failed_and_never_worked_is_a_failed_approach() -> None:
    """With the last line of the error; what was repeated and worked is none."""
    state = taken(
        log(
            done(
                "Bash", {"command": "npm install left-pad"}, "npm ERR\n404 Not Found", failed=True
            ),
            done("Bash", {"command": "cd /x && pytest -q tests/a.py"}, "1 failed", failed=True),
            done("Edit", {"file_path": "a.py", "new_string": ""}, "no match", failed=True),
            done("Read", {"file_path": "gone.py"}, "File does not exist", failed=True),
            done("Edit", {"file_path": "a.py", "new_string": "y"}),
            done("Bash", {"command": "pytest tests/a.py 2>&1 | tail -5"}, "1 passed"),
        )
    )
    assert state.failed_approaches == ("npm install left-pad → 404 Not Found",)
    by_error = {one.error: one for one in state.errors}
    assert by_error["1 failed"].is_resolved
    assert by_error["no match"].is_resolved
    assert by_error["404 Not Found"].then == ("cd /x && pytest -q tests/a.py",)
    assert by_error["File does not exist"].tried == ""


def test_an_edit_does_not_make_up_for_a_command_on_the_same_file() -> None:
    state = taken(
        log(
            done("Bash", {"command": "chmod a.py"}, "not permitted", failed=True),
            done("Edit", {"file_path": "a.py", "new_string": "y"}),
        )
    )
    assert state.failed_approaches == ("chmod a.py → not permitted",)


def test_the_newest_state_of_each_task_counts() -> None:
    """Whole lists replace each other; what was done stays done; boxes in text speak for one."""

    def todo(**items: str) -> list[Record]:
        return done(
            "TodoWrite",
            {"todos": [{"content": text, "status": status} for text, status in items.items()]},
        )

    state = taken(
        log(
            User(content="Plan:\n- [ ] review the docs\n- [ ] rename it"),
            todo(parse="in_progress", write="pending", drop="pending"),
            todo(parse="completed", write="in_progress"),
            Assistant(content="- [x] rename it\n```\n- [ ] not mine\n```"),
        )
    )
    assert state.pending_tasks == ("review the docs", "write")
    assert state.completed_tasks == ("parse", "rename it")
    assert state.current_task == "write"
    assert state.overall_progress_pct == 50.0


def test_tasks_that_a_tool_keeps_by_number_are_followed() -> None:
    state = taken(
        log(
            done("TaskCreate", {"subject": "Add a helper"}, "Task #1 created successfully"),
            done("TaskCreate", {"subject": "Test it"}, "Task #2 created successfully"),
            done("TaskCreate", {"subject": "Drop me"}, "Task #3 created successfully"),
            done("TaskUpdate", {"taskId": "1", "status": "completed"}),
            done("TaskUpdate", {"taskId": "3", "status": "deleted"}),
            done("TaskUpdate", {"taskId": "9", "status": "completed"}),
        )
    )
    assert (state.completed_tasks, state.pending_tasks) == (("Add a helper",), ("Test it",))


def test_artifacts_have_the_hash_of_what_was_written() -> None:
    """Until the file is edited, when nobody knows its content any more; a deleted one is gone."""
    content = "# The plan\n\nFirst this.\n"
    write = done("Write", {"file_path": "plan.md", "content": content})
    [artifact] = taken(log(write)).artifacts
    assert artifact.sha256 == hashlib.sha256(content.encode()).hexdigest()
    assert (artifact.path, artifact.type, artifact.summary) == ("plan.md", "document", "The plan")
    edit = done("Edit", {"file_path": "plan.md", "new_string": "x"})
    assert [one.sha256 for one in taken(log(write, edit)).artifacts] == [""]
    assert taken(log(write, done("delete_file", {"path": "plan.md"}))).artifacts == ()


def test_what_other_agents_came_back_with_is_kept() -> None:
    state = taken(
        log(
            done("Task", {"subagent_type": "Explore", "description": "find it"}, "In `a.py`:\n12"),
            done("agent_spawn", {"prompt": "look around"}, "nobody there", failed=True),
            done("TaskOutput", {"task_id": "x"}),
        )
    )
    assert [(one.subagent_type, one.task, one.summary, one.is_failed)
            for one in state.subagent_results] == [
        ("Explore", "find it", "In `a.py`: 12", False),
        ("agent_spawn", "look around", "nobody there", True),
    ]  # fmt: skip


def test_a_later_run_hides_no_earlier_one_with_another_outcome() -> None:
    """Behind a pipe nothing says that the first run failed: its words are what is left of it."""
    command = {"command": "check all | tail"}
    runs = ("boom: a lock was held twice", "all 7 passed in 3s", "all 7 passed in 4s")
    records = [one for result in runs for one in done("run", command, result)]
    text = render_checkpoint(taken(records), 4_000)
    assert "run check all | tail → boom: a lock was held twice" in text
    assert "run check all | tail ×2 → all 7 passed in 4s" in text


def test_what_happened_is_told_by_the_narrative_in_any_language() -> None:
    """What was said stands in it, and a call has its outcome; no list is made of its wording."""
    state = taken(
        log(
            User(content="永远不要推送到 main。请用 SQLite。"),
            Assistant(
                content=[
                    {"type": "text", "text": "La causa era una caché obsoleta."},
                    {"type": "tool_use", "id": "c1", "name": "zurp", "input": {"q": "caché"}},
                ]
            ),
            ToolResult(tool_use_id="c1", content="vacía", is_error=True),
            ToolResult(tool_use_id="c2", content="", refused="no: abre un PR"),
        )
    )
    assert (state.rules, state.key_decisions, state.learnings) == ((), (), ())
    story = render_checkpoint(state).partition("## What happened, in order\n")[2]
    assert story.splitlines() == [
        "- User: 永远不要推送到 main。请用 SQLite。",
        "- Agent: La causa era una caché obsoleta.",
        "- • zurp caché → failed: vacía",
        "- User, refusing the call: no: abre un PR",
    ]


# What others set


def test_what_the_application_sets_wins_and_holds() -> None:
    """Through a restart, until it is set to something else or left to code again."""
    records = log(User(content="Write a haiku."))
    first = taken(records, extra={"current_objective": "Ship 1.0", "priority": "high"})
    assert (first.current_objective, first.extra) == ("Ship 1.0", {"priority": "high"})
    later = [
        *records,
        Checkpoint(id="k", state=to_json(first)),
        User(id="z", content="Make it about the rain."),
    ]
    for previous in (None, stored(first)):
        state = taken(later, previous=previous)
        assert state.current_objective == "Ship 1.0"
        assert state.extra == {"priority": "high"}
        freed = taken(later, previous=previous, extra={"current_objective": None})
        assert freed.current_objective == "Make it about the rain."


def test_measures_are_of_one_checkpoint() -> None:
    records = log(User(content="hi"))
    first = taken(records, extra={"context_tokens_estimate": 1_200})
    assert first.context_tokens_estimate == 1_200
    later = [*records, Checkpoint(id="k", state=to_json(first))]
    assert taken(later).context_tokens_estimate == 0


@pytest.mark.parametrize(
    "extra", [{"learnings": "one"}, {"session_id": "other"}, {"tasks": []}, {"artifacts": [1]}]
)
def test_what_cannot_be_set_is_refused_with_a_hint(extra: dict[str, Any]) -> None:
    with pytest.raises(BadSetting) as refused:
        taken([], extra=extra)
    assert refused.value.hint


def test_fields_of_a_later_version_are_kept() -> None:
    value = {**to_json(taken(log(User(content="hi")))), "mood": {"today": "fine"}}
    state = read_state(value)
    assert isinstance(state, State)
    assert to_json(state) == value


# Sessions that begin with a checkpoint


def test_a_session_begins_with_what_another_left() -> None:
    """Its requests are told apart, and its unfinished calls are not waited for."""
    old = taken(log(User(content="Write a haiku."), Assistant(content="Old pond…")))
    new = capture_state(
        said([Checkpoint(state=to_json(old), trigger="reset"), User(content="About rain.")]),
        session="t",
        trigger="asked",
        now=2.0,
    )
    assert [(one.text, one.session) for one in new.requests] == [
        ("Write a haiku.", "s"),
        ("About rain.", ""),
    ]
    assert (new.session_id, new.from_session) == ("t", "s")
    assert new.original_request == "Write a haiku."


def test_ten_generations_neither_nest_nor_grow() -> None:
    """Each fresh session is seeded by the checkpoint of the one before."""
    records: list[Record] = [User(content="Write a haiku."), Assistant(content="Old pond…")]
    sizes = []
    for number in range(10):
        state = capture_state(
            said(records), session=f"s{number}", trigger="reset", now=float(number)
        )
        sizes.append(len(msgspec.json.encode(to_json(state))))
        records = [
            Checkpoint(state=to_json(state), trigger="reset"),
            User(content=f"Request number {number}."),
            Assistant(content="Done."),
        ]
    assert state.original_request == "Write a haiku."
    assert state.last_exchange.user == "Request number 8."
    assert state.request_count == 10
    steps = [later - earlier for earlier, later in pairwise(sizes)]
    assert max(steps[1:]) < 200, sizes


def test_a_fork_goes_on_from_its_own_records() -> None:
    """The checkpoints that were copied with them do not count twice."""
    first = log(User(content="Write a haiku."))
    copied = [*first, Checkpoint(id="k", state=to_json(taken(first)))]
    fork = capture_state(
        [*copied, User(id="z", content="About rain.")], session="f", trigger="a", now=1.0
    )
    assert [one.text for one in fork.requests] == ["Write a haiku.", "About rain."]
    assert fork.from_session == ""


# Loading


def test_the_newest_good_checkpoint_is_loaded_and_bad_ones_are_named() -> None:
    good = to_json(taken(log(User(content="hi"))))
    records: list[Record] = [
        Checkpoint(id="1", state={**good, "original_request": "older"}),
        Checkpoint(id="2", state=good),
        Checkpoint(id="3", state={"carry": "what an earlier version stored"}),
        Checkpoint(id="4", state={**good, "requests": 7}),
        Checkpoint(id="5", state={**good, "version": 9}),
        Label(id="6", label="x"),
    ]
    found = newest(reversed(records))
    assert found.record == "2"
    assert found.state is not None
    assert [(one.record, one.reason.split(":")[0]) for one in found.passed_over] == [
        ("5", "it was written by a newer Holdfast (version 9, this one reads 1)"),
        ("4", "a field has the wrong shape"),
        ("3", "it has no version, so it is not a state of Holdfast"),
    ]


def test_two_checkpoints_in_one_second_have_two_names() -> None:
    one, other = (id_for("s", "r", "asked", now) for now in (5.1, 5.2))
    assert one != other
    assert one.startswith("ckpt_5_asked_")
    assert id_for("s", "r", "../../etc", 5.0).count("/") == 0


def test_checkpoints_of_other_tools_are_read_field_by_field() -> None:
    state = from_foreign(
        {
            "checkpoint_id": "ckpt_1770000000_manual",
            "session_id": "tg_7",
            "timestamp": "2026-02-04T10:00:00",
            "original_request": "Write a report",
            "completed_tasks": ["outline"],
            "pending_tasks": ["draft"],
            "artifacts": [{"path": "work/a.md", "description": "the outline"}],
            "tools_used": ["Bash", "Read"],
            "overall_progress_pct": "50",
            "learnings": None,
            "failed_approaches": ["by hand"],
            "key_decisions": 7,
            "color": "blue",
        }
    )
    assert isinstance(state, State)
    assert (state.original_request, state.requests[0].text) == ("Write a report",) * 2
    assert state.artifacts[0].summary == "the outline"
    assert state.tools_used == {"Bash": 1, "Read": 1}
    assert (state.overall_progress_pct, state.learnings) == (50.0, ())
    assert state.extra == {"color": "blue", "unread": {"key_decisions": 7}}
    later = capture_state(
        [Checkpoint(id="1", state=to_json(state)), User(id="2", content="Go on.")],
        session="new", trigger="asked", now=1.0,
    )  # fmt: skip
    assert (later.pending_tasks, later.failed_approaches) == (("draft",), ("by hand",))
    assert [render_checkpoint(each).count("by hand") for each in (state, later)] == [1, 1]
    assert "a tool: ;" not in render_checkpoint(state)
    assert isinstance(from_foreign({"what": "ever"}), str)


def test_amending_with_nothing_changes_nothing() -> None:
    state = taken(log(User(content="hi")), extra={"rules": ["Be brief."]})
    assert amend(state) == state


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "1970-01-01T00:00:00Z"),
        (951_827_696.9, "2000-02-29T12:34:56Z"),
        (1_763_259_600.0, "2025-11-16T02:20:00Z"),
        (4_107_542_400.0, "2100-03-01T00:00:00Z"),
        (-5.0, "1970-01-01T00:00:00Z"),
        (float("inf"), "9999-12-31T23:59:59Z"),
        (float("nan"), "1970-01-01T00:00:00Z"),
    ],
)
def test_moments_are_written_as_everybody_does(seconds: float, shown: str) -> None:
    assert iso_utc(seconds) == shown
