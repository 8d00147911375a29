"""Slash commands about calls that wait for the approval of a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.engine.operations.approvals import ApproveCall, DenyCall, ListWaitingCalls
from holdfast.surfaces.answers import Cell, CommandAnswer, answer, dim, line
from holdfast.surfaces.formatting import local_time
from holdfast.surfaces.slash_commands.command import AT_LENGTH, for_owner

if TYPE_CHECKING:
    from holdfast.core.turn.calls import ParkedCall
    from holdfast.surfaces.answers import StyledLine
    from holdfast.surfaces.chat_context import ChatContext

_PERSON: Final = "chat"
"""Who decided, where a chat does not say it."""


@for_owner("approvals", ListWaitingCalls, "at once", surfaces=AT_LENGTH)
def _approvals(chat: ChatContext, _asked: ListWaitingCalls) -> CommandAnswer:
    waiting = chat.session.calls.waiting()
    if not waiting:
        return answer("No call waits for approval.")
    return answer(*(row for call in waiting for row in _rows(call)))


@for_owner("approve", ApproveCall, "at once", "key", "always", "arguments", surfaces=AT_LENGTH)
def _approve(chat: ChatContext, asked: ApproveCall) -> CommandAnswer:
    return _tell(asked.decide(chat.session.calls, _PERSON))


@for_owner("deny", DenyCall, "at once", "key", "words", surfaces=AT_LENGTH)
def _deny(chat: ChatContext, asked: DenyCall) -> CommandAnswer:
    return _tell(asked.decide(chat.session.calls, _PERSON))


def _rows(call: ParkedCall) -> list[StyledLine]:
    until = f", until {local_time(call.until)}" if call.until is not None else ""
    return [
        line("  ", Cell(call.key, "name")),
        line(f"    {call.name} {call.arguments}"),
        line(Cell(f"    {call.reason}; since {local_time(call.since)}{until}", "dim")),
    ]


def _tell(call: ParkedCall) -> CommandAnswer:
    return answer(
        line("The call of ", Cell(call.name, "name"), f" is {call.state}."),
        dim("/continue goes on with it"),
    )


COMMANDS: Final = (_approvals, _approve, _deny)
