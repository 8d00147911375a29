"""Rewind and undo, as flows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.flow.arguments import check_number, check_optional_text
from holdfast.core.flow.effects import Append, RunBlocking
from holdfast.core.log.records import Assistant, Compaction, Prune, Rewind, ToolResult, Undo, User
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.records import Record
    from holdfast.engine.session.state import SessionState


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
    path = yield RunBlocking(lambda: list(state.store.read(state.key)))
    starts = _turn_starts(path)
    if len(starts) < turns:
        raise UsageError(
            f"cannot rewind {turns} turns: the session has {len(starts)}",
            hint="pass a smaller number, or a record with `holdfast rewind`",
        )
    place = starts[-turns]
    if place == 0:
        raise UsageError("there is nothing before the first message", hint="start a new session")
    many = "turn" if turns == 1 else f"{turns} turns"
    return (yield from _move(state, path[place - 1].id, f"took back the last {many}"))


def undo(state: SessionState, record: str | None) -> Flow[Undone]:
    """Take back the last rewind, compaction or turn.

    With a `record`, take back that compaction or prune, whatever came after it.
    """
    check_optional_text("record", record)
    if record is not None:
        target = yield RunBlocking(lambda: state.store.find(state.key, record))
        return (yield from _revoke(state, target))
    written = yield RunBlocking(lambda: [entry.record for entry in state.store.read_all(state.key)])
    undone = {record.target for record in written if isinstance(record, Undo)}
    for place in range(len(written) - 1, -1, -1):
        newest = written[place]
        if isinstance(newest, Rewind):
            return (yield from _move(state, written[place - 1].id, "took back the rewind"))
        if isinstance(newest, Compaction) and newest.covers and newest.id not in undone:
            return (yield from _revoke(state, newest))
        if isinstance(newest, User | Assistant | ToolResult):
            return (yield from rewind(state, None, 1))
    raise UsageError("there is nothing to undo", hint="the session is empty")


def _move(state: SessionState, to: str, what: str) -> Flow[Undone]:
    yield Append((Rewind(to=to),))
    head = yield RunBlocking(lambda: state.log.head)
    return Undone(what, head)


def _revoke(state: SessionState, record: Record) -> Flow[Undone]:
    if not isinstance(record, Compaction | Prune):
        raise UsageError(
            f"cannot undo record `{record.id}`, a `{record.kind}`: only a compaction or a prune "
            "can be undone by itself",
            hint="rewind to the record before it instead",
        )
    yield Append((Undo(target=record.id),))
    head = yield RunBlocking(lambda: state.log.head)
    return Undone(f"took back the {record.kind}", head)


def _turn_starts(path: Sequence[Record]) -> list[int]:
    """The indexes of the user messages that begin a turn: the first one after a reply."""
    starts: list[int] = []
    is_user_turn = False
    for place, record in enumerate(path):
        if isinstance(record, User) and not is_user_turn:
            starts.append(place)
        if isinstance(record, User | Assistant):
            is_user_turn = isinstance(record, User)
    return starts
