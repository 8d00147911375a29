"""Rewind and undo, as flows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.flow.arguments import check_number, check_optional_text
from holdfast.core.flow.effects import Append, Read, RunBlocking
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Epoch,
    Prune,
    Rewind,
    ToolResult,
    Undo,
    User,
)
from holdfast.core.log.views import last_written
from holdfast.core.refusals import REFUSED
from holdfast.core.turn.calls import PARKED, find_parked
from holdfast.engine.session.waiting_list import mark_waiting
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.engine.session.state import SessionState
    from holdfast.ports import SessionStore

_WRITTEN_RECORDS: Final = 64
"""Newest records among which an undo first looks for what it takes back."""


class Undone(msgspec.Struct, frozen=True):
    """The result of a rewind or an undo."""

    what: str
    """A sentence for people."""
    record: str
    """The head now."""


def rewind(state: SessionState, to: str | None, turns: int) -> Flow[Undone]:
    """Move the head back: to a record, or to before the last `turns` user messages."""
    check_optional_text("to", to)
    check_number("turns", turns)
    if to is not None:
        target = yield RunBlocking(lambda: state.store.find(state.key, to))
        return (yield from _move(state, target.id, f"rewound to record `{target.id}`"))
    if turns < 1:
        raise UsageError(f"cannot rewind {turns} turns", hint="pass 1 or more")
    found = yield RunBlocking(lambda: record_before(state.store.back(state.key), turns))
    many = "turn" if turns == 1 else f"{turns} turns"
    return (yield from _move(state, found.id, f"took back the last {many}"))


def undo(state: SessionState, record: str | None) -> Flow[Undone]:
    """Take back the last rewind, compaction or turn.

    With a `record`, take back that compaction, prune or repair after a refusal, whatever came
    after it.
    """
    check_optional_text("record", record)
    if record is not None:
        target = yield RunBlocking(lambda: state.store.find(state.key, record))
        return (yield from _revoke(state, target))
    found = yield RunBlocking(lambda: _newest_act(state.store, state.key))
    match found:
        case Rewound(before=before):
            return (yield from _move(state, before, "took back the rewind"))
        case Compaction():
            return (yield from _revoke(state, found))
        case User() | Assistant() | ToolResult():
            return (yield from rewind(state, None, 1))
    raise UsageError("there is nothing to undo", hint="the session is empty")


def _move(state: SessionState, to: str, what: str) -> Flow[Undone]:
    yield Append((Rewind(to=to),))
    found = find_parked((yield Read(state.run.window)), state.run.home)
    if waiting := [call.key for call in found if call.state == PARKED]:  # it is back on the path
        yield RunBlocking(lambda: mark_waiting(state.store, state.key, waiting))
    head = yield RunBlocking(lambda: state.log.head)
    return Undone(what, head)


def _revoke(state: SessionState, record: Record) -> Flow[Undone]:
    is_refusal = isinstance(record, Epoch) and record.cause == REFUSED
    if not is_refusal and not isinstance(record, Compaction | Prune):
        raise UsageError(
            f"cannot undo record `{record.id}`, a `{record.kind}`: only a compaction, a prune or "
            "what was left out after a refusal can be undone by itself",
            hint="rewind to the record before it instead",
        )
    yield Append((Undo(target=record.id),))
    head = yield RunBlocking(lambda: state.log.head)
    what = "what was left out after a refusal" if is_refusal else f"the {record.kind}"
    return Undone(f"took back {what}", head)


def record_before(path: Iterator[Record], turns: int) -> Record:
    """The record before the last `turns` turns of a path that comes newest first.

    A turn begins with the first message of a user after a reply.
    """
    count = 0
    start: User | None = None
    before: Record | None = None
    for record in path:
        if start is not None and before is None:
            before = record
        if isinstance(record, Assistant) and start is not None:
            count += 1
            if count == turns and before is not None:
                return before
            start = before = None
        elif isinstance(record, User):
            start, before = record, None
    count += start is not None
    if count != turns:
        raise UsageError(
            f"cannot rewind {turns} turns: the session has {count}",
            hint="pass a smaller number, or a record with `holdfast rewind`",
        )
    if before is None:
        raise UsageError("there is nothing before the first message", hint="start a new session")
    return before


class Rewound(msgspec.Struct, frozen=True):
    """A rewind that is the newest act of a session."""

    before: str
    """The record that was written before it."""


def _newest_act(store: SessionStore, key: SessionKey) -> Record | Rewound | None:
    """The newest thing that an undo takes back. Reads from the end, as far as it must."""
    count = _WRITTEN_RECORDS
    while True:
        with store.open_log(key) as log:
            written, is_all = last_written(log, count)
        undone = {record.target for record in written if isinstance(record, Undo)}
        for place in range(len(written) - 1, -1, -1):
            newest = written[place]
            if isinstance(newest, Rewind) and place > 0:
                return Rewound(written[place - 1].id)
            if isinstance(newest, Compaction) and newest.covers and newest.id not in undone:
                return newest
            if isinstance(newest, User | Assistant | ToolResult):
                return newest
        if is_all:
            return None
        count *= 4
