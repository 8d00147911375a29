"""From stored records to the ones a reader should see."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.damage import Finding, Flaw
from holdfast.core.log.ids import positional_id
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Epoch,
    Record,
    ToolsAdded,
    ToolUse,
    Undo,
    User,
    decode,
    has_odd_names,
    record_decoder,
    text_of,
    tool_calls,
)
from holdfast.core.text.cut import scrub
from holdfast.core.window import AnyWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.log.records import Content
    from holdfast.core.window import WindowFilter


_id_of: Final = attrgetter("id")
_TURNING: Final = frozenset((Compaction, Undo, ToolUse))
"""Records that decide about others in the view."""


def decode_lines(data: bytes, count: int) -> list[Record] | None:
    """Return the records of `count` lines, the last one without its newline.

    The caller knows that `decode` finds a record in each of them. None where that is not so.
    """
    try:
        records: list[Record] = record_decoder().decode_lines(data)  # type: ignore[assignment]
        if len(records) == count and not any(has_odd_names(record) for record in records):
            return records
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass  # fields that this version does not know
    found = [decode(line) for line in data.split(b"\n")]
    records = [item for item in found if not isinstance(item, Flaw)]
    return records if len(records) == count == len(found) else None


def additions(records: Sequence[Record]) -> list[ToolsAdded]:
    """The records of tools that are still added in their place: those since the caller changed the
    tools in another way, which put all of them at the head."""
    found: list[ToolsAdded] = []
    for record in records:
        if type(record) is ToolsAdded:
            found.append(record)
        elif type(record) is Epoch and record.cause == "tools":
            found.clear()
    return found


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
    if all(map(_id_of, records)):
        return records
    return [
        record if record.id else msgspec.structs.replace(record, id=positional_id(place))
        for place, record in enumerate(records)
    ]


class Boundaries:
    """Looks for the newest boundary that counts. Shown the path from the head backwards."""

    def __init__(self, window: WindowFilter) -> None:
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
            and binds(record.window, self._window)
        )


def undone(records: Iterable[Record]) -> set[str]:
    """The decisions that no longer count."""
    return {record.target for record in records if type(record) is Undo}


def binds(made_for: int | None, window: WindowFilter) -> bool:
    """Say whether a decision that was made for a window holds: for that one and smaller ones, and
    for any where its record names none."""
    return isinstance(window, AnyWindow) or made_for is None or window.tokens <= made_for


# The newest part of a log


class Live(msgspec.Struct, frozen=True):
    """The records that the next turn needs: from the newest boundary to the head."""

    records: tuple[Record, ...]
    """The records of the view, oldest first."""
    boundary: Compaction | None
    """The compaction that the view starts with."""
    head: str
    """The newest record of the path."""
    findings: tuple[Finding, ...] = ()
    """Damage that was met on the way."""


def live_at_end(data: bytes, count: int, window: WindowFilter, *, is_whole: bool) -> Live | None:
    """Return what `views.live` returns, from the newest `count` lines of a log, the last one
    without its newline; `is_whole` where these are all.

    The caller knows that each line of the log is a record, and part of an append that is complete.
    None where the lines do not tell: the path leaves them, or an id occurs twice.
    """
    records = decode_lines(data, count)
    if not records or {record.parent for record in records} != {None}:
        return None
    ids = [record.id for record in records]
    if len(set(ids)) < len(ids) or "" in ids:
        return None
    turning = [index for index, record in enumerate(records) if type(record) in _TURNING]
    boundaries = Boundaries(window)
    newest = next((index for index in reversed(turning) if boundaries.is_one(records[index])), None)
    if newest is None:
        found = Live(tuple(without_doubles(records)), None, ids[-1])
        return found if is_whole else None
    boundary = records[newest]
    assert isinstance(boundary, Compaction)
    kept = boundary.first_kept or ids[newest]
    if kept not in ids[: newest + 1]:
        return None
    live_records = records[ids.index(kept) :]
    if any(type(records[index]) is ToolUse for index in turning):
        live_records = list(without_doubles(live_records))
    return Live(tuple(live_records), boundary, ids[-1])


META: Final = "meta"
"""The field of a `user` record that is true where a program wrote all of it."""
ORIGINAL_PROMPT: Final = "original_prompt"
"""The field of a `user` record that holds the user's own words, where a program put more around
them."""
CLIENT_SUMMARY: Final = "client_summary"
"""The field of a `user` record in which a client goes on from a summary of its own model: that
summary, without what the client writes around it."""
SILENT_FIELDS: Final = frozenset(("chain", "terms", "response", "wire", "round"))
"""Fields of a message that the proxy keeps for itself: they say nothing beside its content."""


def is_from_program(record: User) -> bool:
    """Return whether a program wrote all of a user message."""
    return record.extra.get(META) is True


def client_summary(record: User) -> str:
    """The summary that a client goes on from in a message; empty where it holds none."""
    found = record.extra.get(CLIENT_SUMMARY)
    return scrub(found).strip() if isinstance(found, str) else ""


def user_text(record: Record) -> str:
    """The user's own words in a record; empty where there are none."""
    if not isinstance(record, User) or is_from_program(record):
        return ""
    original = record.extra.get(ORIGINAL_PROMPT)
    return scrub(original if isinstance(original, str) else text_of(record.content)).strip()


def assistant_text(record: Record) -> str:
    """The assistant's text in a record; empty where it only called tools."""
    if not isinstance(record, Assistant):
        return ""
    return scrub(text_of(record.content)).strip()


def place_after(records: Sequence[Record], upto: str) -> int | None:
    """Return the index after the record of that id; None where it is not there."""
    if not upto:
        return None
    places = (at for at in range(len(records) - 1, -1, -1) if records[at].id == upto)
    return next((place + 1 for place in places), None)
