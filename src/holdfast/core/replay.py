"""From stored records to the ones a reader should see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.records import Assistant, Compaction, Record, ToolUse, User, tool_calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


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
    """The tool calls made since the user last spoke."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def doubles(self, record: Record) -> bool:
        """Whether a record only repeats a call that was already made."""
        if isinstance(record, User):
            self._ids.clear()
        elif isinstance(record, Assistant):
            calls = (call.get("id") for call in tool_calls(record.content))
            self._ids.update(call for call in calls if isinstance(call, str))
        elif isinstance(record, ToolUse):
            if record.tool_use_id in self._ids:
                return True
            self._ids.add(record.tool_use_id)
        return False


def binds(compaction: Compaction, window: int | None) -> bool:
    """A compaction made for one window holds for that and smaller ones, not for larger ones."""
    return window is None or compaction.window is None or window <= compaction.window
