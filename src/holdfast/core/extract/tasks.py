"""Tasks that tool calls and texts list, and the latest status of each.

This module alone decides which tasks are finished. A tool that writes the whole list replaces the
one before: a task that is missing from it is no longer open, and a finished one stays finished.
Tools that add or change one entry, and checkboxes in a text, affect that entry alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.extract.statements import same_words
from holdfast.core.text.cut import cut, scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Json

Status = Literal["open", "doing", "done", "dropped"]
Source = Literal["list", "entry", "text"]

_DONE: Final = frozenset(
    (
        *("completed", "complete", "done", "finished", "closed", "resolved", "fixed", "solved"),
        *("succeeded", "success", "passed", "merged", "shipped", "delivered", "verified"),
    )
)
_DROPPED: Final = frozenset(
    (
        *("cancelled", "canceled", "deleted", "removed", "skipped", "dropped", "abandoned"),
        *("discarded", "obsolete", "rejected", "declined", "wontfix", "archived", "superseded"),
    )
)
_DOING: Final = frozenset(
    (
        *("inprogress", "active", "doing", "started", "current", "ongoing", "underway", "wip"),
        *("working", "running"),
    )
)
_SEPARATORS: Final = lazy_pattern(r"[\W_]+")
_TEXT_CHARS: Final = 200
"""A longer text is a description, of which the beginning and the end are enough."""
_TEXTS: Final = ("content", "subject", "title", "step", "task", "text", "name", "description")
_IDS: Final = ("id", "taskId", "task_id", "todoId", "todo_id")
_LISTS: Final = frozenset(("task", "tasks", "todo", "todos", "plan", "checklist"))
_ADDS: Final = frozenset(("create", "add", "new", "write", "append"))
_CHANGES: Final = frozenset(("update", "set", "complete", "finish", "close", "edit", "mark"))
_NAME_WORD: Final = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_BOX: Final = lazy_pattern(
    r"^[^\S\n]*(?:[-*+]|\d+[.)])[^\S\n]*\[([ xX✓✔~-])\][^\S\n]+(.+)$", re.MULTILINE
)
_FENCED: Final = lazy_pattern(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)
_NEW_ID: Final = lazy_pattern(r"#(\w{1,40})|\"(?:id|taskId|task_id)\"\s*:\s*\"?([\w-]{1,40})")


class Task(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A task and its status."""

    text: str
    status: Status = "open"
    source: Source = "list"
    id: str = ""
    """The id that the tool which keeps the list gave it."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """A change of one entry; without an `id` it adds the entry."""

    text: str = ""
    status: Status | None = None
    id: str = ""


def whole_list(arguments: Json) -> tuple[Task, ...] | None:
    """The list that a call writes in place of the one before; None if it writes no list."""
    for value in arguments.values():
        if isinstance(value, list) and value and all(map(_is_entry, value)):
            found = (Task(_text(entry), _status(entry["status"]), "list") for entry in value)
            return tuple(task for task in found if task.text)
    return None


def entry_change(tool: str, arguments: Json) -> Change | None:
    """The change that a call makes to one entry of a list; None if it makes none."""
    words = {word.lower() for word in _NAME_WORD.findall(tool[:200])}
    if not _LISTS & words:
        return None
    given = next((arguments[key] for key in _IDS if key in arguments), "")
    entry = str(given) if isinstance(given, str | int) and not isinstance(given, bool) else ""
    status = arguments.get("status")
    known = _status(status) if isinstance(status, str) else None
    if entry and (known is not None or _CHANGES & words):
        if known is None and {"complete", "finish", "close"} & words:
            known = "done"
        return Change(_text(arguments), known, entry)
    is_new = not entry and bool(_ADDS & words) and bool(_text(arguments))
    return Change(_text(arguments), known) if is_new else None


def new_id(result: str) -> str:
    """The id of a new entry, read from the result of the call that made it."""
    match = _NEW_ID.search(result[:400])
    return (match[1] or match[2]) if match else ""


def checkboxes(text: str) -> list[Task]:
    """The checkboxes in a text, except those between code fences, which quote a file."""
    if "[" not in text:
        return []
    return [
        Task(_line(match[2]), "open" if match[1] in " ~-" else "done", "text")
        for match in _BOX.finditer(_FENCED.sub("\n", text))
    ]


def open_texts(tasks: Iterable[Task]) -> tuple[str, ...]:
    """The texts of the tasks that are neither finished nor dropped."""
    return tuple(task.text for task in tasks if task.status in ("open", "doing"))


def replace_list(tasks: Sequence[Task], listed: Sequence[Task]) -> list[Task]:
    """The tasks after a call wrote a whole list."""
    named = {same_words(task.text) for task in listed}
    kept = [
        task
        for task in tasks
        if same_words(task.text) not in named and (task.source != "list" or task.status == "done")
    ]
    return [*kept, *(task for task in listed if task.status != "dropped")]


def merge(tasks: Sequence[Task], newer: Iterable[Task]) -> list[Task]:
    """The tasks after newer reports on some of them, or on new ones."""
    found = {same_words(task.text): task for task in tasks}
    for task in newer:
        key = same_words(task.text)
        before = found.pop(key, None)
        if task.status != "dropped":
            found[key] = msgspec.structs.replace(task, id=task.id or (before.id if before else ""))
    return list(found.values())


def apply_change(tasks: Sequence[Task], change: Change) -> list[Task]:
    """The tasks after one entry was changed; unchanged if the entry is unknown."""
    for place, task in enumerate(tasks):
        if task.id == change.id:
            newer = msgspec.structs.replace(
                task, text=change.text or task.text, status=change.status or task.status
            )
            rest = [*tasks[:place], *tasks[place + 1 :]]
            return rest if newer.status == "dropped" else [*rest, newer]
    return list(tasks)


def keep_newest(tasks: Sequence[Task], count: int) -> list[Task]:
    """At most `count` tasks: finished ones are dropped before open ones, the oldest first."""
    excess = len(tasks) - count
    if excess <= 0:
        return list(tasks)
    order = sorted(range(len(tasks)), key=lambda place: (tasks[place].status != "done", place))
    gone = set(order[:excess])
    return [task for place, task in enumerate(tasks) if place not in gone]


def _is_entry(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("status"), str)


def _status(value: str) -> Status:
    word = _SEPARATORS.sub("", value).lower()
    if word in _DONE:
        return "done"
    if word in _DROPPED:
        return "dropped"
    return "doing" if word in _DOING else "open"


def _text(entry: Json) -> str:
    texts = (entry.get(key) for key in _TEXTS)
    return next((_line(text) for text in texts if isinstance(text, str) and text.strip()), "")


def _line(text: str) -> str:
    return cut(" ".join(scrub(text).split()), _TEXT_CHARS).text
