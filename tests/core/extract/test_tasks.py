"""Lists of things to do, as tools and texts write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import json_objects

from holdfast.core.extract.tasks import (
    Change,
    Task,
    apply_change,
    checkboxes,
    entry_change,
    keep_newest,
    merge,
    new_id,
    open_texts,
    replace_list,
    whole_list,
)


def test_a_list_is_one_whose_entries_all_have_a_status() -> None:
    plan = {"plan": [{"step": "Look", "status": "completed"}, {"step": "Leap", "status": "todo"}]}
    assert whole_list(plan) == (Task("Look", "done"), Task("Leap", "open"))
    assert whole_list({"todos": [{"content": "x"}]}) is None
    assert whole_list({"todos": []}) is None


@pytest.mark.parametrize(
    ("tool", "arguments", "change"),
    [
        ("TaskCreate", {"subject": "Add it"}, Change("Add it")),
        ("todo_add", {"text": "Add it"}, Change("Add it")),
        ("TaskUpdate", {"taskId": "3", "status": "in_progress"}, Change("", "doing", "3")),
        ("complete_task", {"id": 3}, Change("", "done", "3")),
        ("finish_todo", {"todo_id": "x"}, Change("", "done", "x")),
        ("edit_task", {"id": 3, "title": "New"}, Change("New", None, "3")),
        (
            "TaskUpdate",
            {"taskId": "3", "subject": "New", "status": "done"},
            Change("New", "done", "3"),
        ),
        ("TaskUpdate", {"id": True, "status": "done"}, None),
        ("todo_add", {"text": "Add it", "status": "done"}, Change("Add it", "done")),
        ("todo_add", {"text": "  "}, None),
        ("TaskOutput", {"task_id": "x", "block": True}, None),
        ("Task", {"prompt": "Look", "subagent_type": "Explore"}, None),
        ("create_file", {"name": "x"}, None),
    ],
)
def test_tools_that_speak_of_one_entry(
    tool: str, arguments: dict[str, Any], change: Change | None
) -> None:
    assert entry_change(tool, arguments) == change


@given(st.text(max_size=40), json_objects())
def test_no_call_is_too_odd(tool: str, arguments: dict[str, Any]) -> None:
    whole_list(arguments)
    entry_change(tool, arguments)


def test_boxes_in_a_text() -> None:
    text = "Plan:\n- [ ] one\n* [x] two\n1. [X] three\n- [link](x)\n```\n- [ ] a file\n```"
    assert [(one.text, one.status) for one in checkboxes(text)] == [
        ("one", "open"),
        ("two", "done"),
        ("three", "done"),
    ]


def test_a_new_list_drops_what_is_not_on_it_and_keeps_what_was_done() -> None:
    before = [Task("a", "done"), Task("b"), Task("box", source="text")]
    after = replace_list(before, [Task("c"), Task("gone", "dropped")])
    assert [one.text for one in after] == ["a", "box", "c"]


def test_an_entry_is_changed_where_it_is_known() -> None:
    tasks = merge([], [Task("Add it", source="entry", id="1"), Task("Test it", id="2")])
    assert apply_change(tasks, Change("", "done", "1"))[-1] == Task("Add it", "done", "entry", "1")
    assert apply_change(tasks, Change("", "done", "7")) == tasks
    assert apply_change(tasks, Change("", "dropped", "1")) == [Task("Test it", id="2")]
    assert merge(tasks, [Task("add it", "done", "text")])[-1].id == "1"


def test_change_of_one_entry_leaves_the_others() -> None:
    """The changed entry is the newest; the rest keeps its order, wherever the entry was."""
    tasks = [Task(text, id=text) for text in "abcd"]
    for place, task in enumerate(tasks):
        others = [*tasks[:place], *tasks[place + 1 :]]
        newer = Task("New", "doing", id=task.id)
        assert apply_change(tasks, Change("New", "doing", task.id)) == [*others, newer]
        assert apply_change(tasks, Change("", None, task.id)) == [*others, task]
        assert apply_change(tasks, Change("", "dropped", task.id)) == others


def test_what_is_done_goes_before_what_is_open() -> None:
    tasks = [Task("a"), Task("b", "done"), Task("c"), Task("d", "done")]
    assert [one.text for one in keep_newest(tasks, 3)] == ["a", "c", "d"]
    assert [one.text for one in keep_newest(tasks, 1)] == ["c"]


def test_the_id_a_tool_gives() -> None:
    assert new_id("Task #12 created successfully: x") == "12"
    assert new_id('{"id": "t-7"}') == "t-7"
    assert new_id("created") == ""


FINISHED = (
    *("completed", "complete", "done", "finished", "closed", "resolved", "fixed", "solved"),
    *("succeeded", "success", "passed", "merged", "shipped", "delivered", "verified"),
)
DROPPED = (
    *("cancelled", "canceled", "deleted", "removed", "skipped", "dropped", "abandoned"),
    *("discarded", "obsolete", "rejected", "declined", "wontfix", "won't fix", "archived"),
    "superseded",
)
STARTED = (
    *("in_progress", "in progress", "inProgress", "active", "doing", "started", "current"),
    *("ongoing", "underway", "wip", "working", "running"),
)
OPEN = ("pending", "todo", "to do", "open", "new", "blocked", "failed", "queued", "")


def spellings(statuses: tuple[str, ...]) -> list[str]:
    """Each status in every case and with every separator that tools use."""
    return [
        form
        for status in statuses
        for plain in (status, status.replace("_", "-"), status.replace("_", " "))
        for form in (plain, plain.upper(), plain.title(), f" {plain} ")
    ]


def test_every_status_is_read_in_any_case() -> None:
    """One reader decides for carry-overs and checkpoints which tasks are finished."""
    expected = {"done": FINISHED, "dropped": DROPPED, "doing": STARTED, "open": OPEN}
    for status, words in expected.items():
        for word in spellings(words):
            found = whole_list({"todos": [{"content": "x", "status": word}]})
            assert found == (Task("x", status),), word  # type: ignore[arg-type]
            assert open_texts(found) == (("x",) if status in ("doing", "open") else ()), word
