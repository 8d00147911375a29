"""Slash commands about a turn and its calls that wait, and what the others do while one runs."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from holdfast.core.limits import TURN_WAIT_SECONDS
from holdfast.engine.operations.approvals import ApproveCall, DenyCall, ListWaitingCalls
from holdfast.engine.session.drivers.lease import TurnScope
from holdfast.engine.session.drivers.lease import wait_for_turn as wait_for_lease
from holdfast.errors import TurnInProgress
from holdfast.surfaces.answers import Cell, CommandAnswer, answer, dim, line, refuse
from holdfast.surfaces.formatting import local_time
from holdfast.surfaces.slash_commands.command import AT_LENGTH, SlashCommand, for_guest, for_owner

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.turn.calls import ParkedCall
    from holdfast.engine.session.session import Session
    from holdfast.ports import LeaseHolder
    from holdfast.surfaces.answers import StyledLine
    from holdfast.surfaces.chat_context import ChatContext

RESET_WAIT_SECONDS: Final = 5.0
"""For the end of a turn that `/reset` cancelled; one that takes longer ends in the old session."""


class Stops:
    """Ends what a command waits for, once its caller is cancelled."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._is_stopped = False
        self._stops: list[Callable[[], object]] = []

    def add(self, stop: Callable[[], object]) -> None:
        """Take the function that ends the next wait; it is called at once if that is due."""
        with self._mutex:
            self._stops.append(stop)
            is_due = self._is_stopped
        if is_due:
            stop()

    def stop(self) -> None:
        with self._mutex:
            self._is_stopped = True
            stops = list(self._stops)
        for stop in stops:
            stop()


STOPS: ContextVar[Stops | None] = ContextVar("holdfast_stops", default=None)
"""Of the command that runs now, where its caller can be cancelled."""


def running_turn(chat: ChatContext) -> LeaseHolder | None:
    """Return the holder of the current session's turn, in whichever process; None without one."""
    return chat.store.leases.current(chat.session.key)


def describe_turn(chat: ChatContext, turn: LeaseHolder | TurnInProgress) -> str:
    """Describe a running turn. Only an operator reads which process runs it."""
    where = f" ({turn.holder})" if chat.audience == "operator" else ""
    return f"running since {local_time(turn.since)}{where}"


def wait_for_turn(chat: ChatContext) -> bool:
    """Wait for the end of the running turn, behind those who wait already; return False if the
    chat has left the session meanwhile."""
    scope, session = TurnScope(), chat.session
    stops = STOPS.get()
    if stops is not None:
        stops.add(scope.is_cancelled.set)
    wait_for_lease(chat.store, session.key, TURN_WAIT_SECONDS, scope, chat.listen)
    return chat.session is session


def refuse_during_turn(
    chat: ChatContext, command: SlashCommand, turn: LeaseHolder | TurnInProgress
) -> CommandAnswer:
    """Build the answer of a command that has to be asked for again after the turn."""
    return refuse(
        f"/{command.name} has to wait: a turn is {describe_turn(chat, turn)}",
        "nothing was changed; /cancel stops the turn, /reset starts a fresh session",
    )


def reset_now(chat: ChatContext, label: str) -> Session:
    """Start a fresh session from the current one. A running turn is cancelled first; one that does
    not end in time, or runs in another process, ends in the session that is left."""
    old = chat.session
    if running_turn(chat) is None:
        return chat.take(old.reset(label, moves_name=chat.moves_name))
    chat.cancel()
    try:
        fresh = old.reset(label, moves_name=chat.moves_name, wait=RESET_WAIT_SECONDS)
    except TurnInProgress:
        fresh = old.reset(label, moves_name=chat.moves_name, at_once=True)
    return chat.take(fresh)


@for_guest("cancel", "cancel the running turn", "at once")
def _cancel(chat: ChatContext, _argument: str) -> CommandAnswer:
    if chat.cancel():
        return answer(
            "The turn is cancelled; everything up to here is stored.",
            dim("/continue answers it after all"),
        )
    turn = running_turn(chat)
    if turn is None:
        return answer("Nothing to cancel: no turn is running.")
    return refuse(
        f"The turn cannot be cancelled from here: another process has it, "
        f"{describe_turn(chat, turn)}",
        "/reset starts a fresh session at once; that turn ends in the old session",
    )


@for_guest("continue", "answer the turn that was interrupted", "refused")
def _continue(_chat: ChatContext, _argument: str) -> CommandAnswer:
    return CommandAnswer(then="resume")


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


COMMANDS: Final = (_approvals, _approve, _deny, _continue, _cancel)
