"""Logs of agents at work, to search with: every kind of call a checkpoint looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from tests.conversations import said

from holdfast.core.checkpoint.capture import capture_state
from holdfast.core.checkpoint.state import to_json
from holdfast.core.log.records import Assistant, Checkpoint, Compaction, Flush, ToolResult, User

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from holdfast.core.log.records import Json, Record

PATHS = ("src/a.py", "src/b.py", "docs/c.md", "/etc/d.conf")
TEXTS = (
    "Please fix the parser.",
    "We decided to use SQLite. Never touch main.",
    "It turns out the cache was stale.\n- [ ] write the test\n- [x] find the bug",
    "[SESSION_SUMMARY] I wrote this myself",
    "ok",
    "",
    "漢字かな 決定 " * 30,
)
COMMANDS = ("pytest -q tests/a.py", "cd /x && pytest tests/a.py", "make build", "git push")


def call(name: str, arguments: Json, number: int = 0) -> Json:
    return {"type": "tool_use", "id": f"c{number}", "name": name, "input": arguments}


def calls() -> SearchStrategy[tuple[str, dict[str, Any]]]:
    """The name and the arguments of a call."""
    paths = st.sampled_from(PATHS)
    texts = st.sampled_from(TEXTS)
    status = st.sampled_from(("pending", "in_progress", "completed", "cancelled"))
    items = st.fixed_dictionaries({"content": st.sampled_from("abcd"), "status": status})
    return st.one_of(
        st.tuples(st.just("Read"), st.fixed_dictionaries({"file_path": paths})),
        st.tuples(st.just("Write"), st.fixed_dictionaries({"file_path": paths, "content": texts})),
        st.tuples(
            st.just("Edit"),
            st.fixed_dictionaries({"file_path": paths, "old_string": texts, "new_string": texts}),
        ),
        st.tuples(st.just("delete_file"), st.fixed_dictionaries({"path": paths})),
        st.tuples(st.just("Bash"), st.fixed_dictionaries({"command": st.sampled_from(COMMANDS)})),
        st.tuples(
            st.just("TodoWrite"), st.fixed_dictionaries({"todos": st.lists(items, max_size=4)})
        ),
        st.tuples(
            st.just("TaskCreate"), st.fixed_dictionaries({"subject": st.sampled_from("xyz")})
        ),
        st.tuples(
            st.just("TaskUpdate"),
            st.fixed_dictionaries({"taskId": st.sampled_from("012"), "status": status}),
        ),
        st.tuples(
            st.just("Task"),
            st.fixed_dictionaries({"subagent_type": st.just("Explore"), "prompt": texts}),
        ),
    )


def results() -> SearchStrategy[tuple[str, bool]]:
    """What came of a call, and whether it failed."""
    return st.tuples(
        st.sampled_from(("done", "Exit code 1\nboom", "Task #1 created", "", "x\n" * 50)),
        st.booleans(),
    )


def working_logs(max_size: int = 25) -> SearchStrategy[list[Record]]:
    """What is said and done, a compaction and a flush here and there, ids as a store gives."""
    step = st.one_of(
        st.builds(lambda text: [User(content=text)], st.sampled_from(TEXTS)),
        st.builds(lambda text: [User(content=text, extra={"meta": True})], st.sampled_from(TEXTS)),
        st.builds(lambda text: [Assistant(content=text)], st.sampled_from(TEXTS)),
        st.builds(_done, calls(), results()),
        st.builds(_done, calls(), results()),
        st.just([Compaction(summary="everything so far")]),
        st.just([Flush(notes=["The deadline is Friday."])]),
        st.builds(_set, st.sampled_from(TEXTS)),
    )
    return st.lists(step, max_size=max_size).map(_numbered)


def _done(made: tuple[str, dict[str, Any]], came: tuple[str, bool]) -> list[Record]:
    text, is_error = came
    return [
        Assistant(content=[call(*made)]),
        ToolResult(tool_use_id="c0", content=text, is_error=is_error),
    ]


def _set(text: str) -> list[Record]:
    """A checkpoint in which the application had set something."""
    state = capture_state([], session="s", trigger="asked", now=1.0, extra={"learnings": [text]})
    return [Checkpoint(state=to_json(state), trigger="asked")]


def _numbered(steps: list[list[Record]]) -> list[Record]:
    return said([record for step in steps for record in step])
