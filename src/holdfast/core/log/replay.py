"""From stored records to the ones a reader should see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.log.ids import positional_id
from holdfast.core.log.records import Assistant, Compaction, Record, ToolUse, Undo, User, tool_calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.log.records import Content


def without_doubles(records: Iterable[Record]) -> Iterator[Record]:
    """Leave out `tool_use` records that repeat a call of the assistant message before them.

    The seed format stores every call twice; replayed as it stands, such a session is rejected by
    the provider for repeating the call's id.
    """
    seen = SeenCalls()
    for record in records:
        if not seen.doubles(record):
            yield record


class SeenCalls:
    """The tool calls of the step that is being read."""

    def __init__(self) -> None:
        self._message: Content = None
        self._ids: set[str] = set()

    def doubles(self, record: Record) -> bool:
        """Return whether a record only repeats a call that was already made."""
        # By exact type: to ask a struct's class for its instances takes several times as long.
        if type(record) is Assistant:
            self._message = record.content  # looked into when a `tool_use` follows: rarely
            self._ids.clear()
        elif type(record) is User:
            self._message = None
            self._ids.clear()
        elif type(record) is ToolUse:
            calls = (call.get("id") for call in tool_calls(self._message))
            if record.tool_use_id in self._ids or record.tool_use_id in calls:
                return True
            self._ids.add(record.tool_use_id)
        return False


def with_ids(records: Sequence[Record]) -> Sequence[Record]:
    """Records that all have an id; one that was never stored goes by its place among them."""
    if all(record.id for record in records):
        return records
    return [
        record if record.id else msgspec.structs.replace(record, id=positional_id(place))
        for place, record in enumerate(records)
    ]


class Boundaries:
    """Looks for the newest boundary that counts. Shown the path from the head backwards."""

    def __init__(self, window: int | None) -> None:
        self._window = window
        self._undone: set[str] = set()

    def is_one(self, record: Record) -> bool:
        """Return whether a record is a compaction that binds the window and was not undone
        later."""
        if type(record) is Undo:
            self._undone.add(record.target)
        return (
            type(record) is Compaction
            and record.id not in self._undone
            and _binds(record, self._window)
        )


def undone(records: Iterable[Record]) -> set[str]:
    """The decisions that no longer count."""
    return {record.target for record in records if type(record) is Undo}


def _binds(compaction: Compaction, window: int | None) -> bool:
    """A compaction made for one window holds for that and smaller ones, not for larger ones."""
    return window is None or compaction.window is None or window <= compaction.window
