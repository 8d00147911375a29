"""The place of a message in the tree of its session: behind a record that its sender names.

A client that keeps the history itself may go on from any point of it: it edits a message, asks for
another reply, or brings a history that the log does not have. What it brings is appended first, and
what was there stays as a branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from holdfast.core.limits import BATCH_RECORDS_MAX
from holdfast.core.log.damage import Flaw
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Rewind, ToolResult, User, decode, encode
from holdfast.core.text.typed import convert_typed
from holdfast.engine.session.opening import follow_continuation
from holdfast.ports import ANY_HEAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Record
    from holdfast.ports import QueuedMessage, SessionStore

PLACE: Final = "place"
"""In the body of a message: its place."""
_BROUGHT: Final = "broughtBy"
"""The field of a record that a message brought: the key of the message."""


class MessagePlace(msgspec.Struct, frozen=True):
    """The place of a message, as its body holds it."""

    after: str
    """The record that it follows, or what it brings does."""
    history: list[str] = []
    """The records that it brings, each as a line of a log."""


def place_of_records(after: str, records: Sequence[Record]) -> MessagePlace:
    """Return the place behind a record, with records that the message brings."""
    return MessagePlace(after, [encode(record).decode() for record in records])


def place_message(store: SessionStore, message: QueuedMessage) -> bool:
    """Move the head to where a message belongs, and append what it brings; False where it belongs
    at the head. The same again, after a crash, changes nothing more."""
    given = message.body.get(PLACE)
    if given is None:
        return False
    place = convert_typed(given, MessagePlace)
    agent, _, session = message.session.partition("/")
    key = follow_continuation(store, SessionKey(agent, session))
    if store.find_message(key, message.key) is not None:
        return False
    brought = _count_brought(store.back(key), place.after, message.key)
    records = [_read(line, message.key) for line in place.history[brought or 0 :]]
    if brought is None:
        first = [replace(record, parent=place.after) for record in records[:1]]
        records = [*first, *records[1:]] or [Rewind(to=place.after)]
    for start in range(0, len(records), BATCH_RECORDS_MAX):
        store.append(key, records[start : start + BATCH_RECORDS_MAX], expect=ANY_HEAD)
    return bool(records)


def _count_brought(newest: Iterable[Record], after: str, message_key: str) -> int | None:
    """Return how many records of a message stand behind the record that it follows; None where
    others do."""
    brought = 0
    for record in newest:
        if record.id == after:
            return brought
        if record.extra.get(_BROUGHT) == message_key:
            brought += 1
        elif isinstance(record, User | Assistant | ToolResult) and not record.extra.get("meta"):
            return None
    return None


def _read(line: str, message_key: str) -> Record:
    record = decode(line.encode())
    assert not isinstance(record, Flaw), "the line was written from a record"
    return replace(record, extra={**record.extra, _BROUGHT: message_key})
