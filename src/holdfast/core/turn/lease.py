"""One turn at a time, as a flow: it waits until no other turn of the session runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from holdfast.core.flow.arguments import check_argument
from holdfast.core.flow.effects import AcquireTurn, Emit, Sleep
from holdfast.core.flow.events import TurnWaiting
from holdfast.errors import TurnInProgress

if TYPE_CHECKING:
    from holdfast.core.flow.effects import Flow

T = TypeVar("T")

_PAUSE_MIN_SECONDS: Final = 0.002
_PAUSE_MAX_SECONDS: Final = 0.03
"""Between two looks at a lease: short after a short turn, and cheap during a long one."""
_PAUSE_SHARE: Final = 0.05
"""Of the time waited so far."""


def hold_turn(flow: Flow[T], wait_seconds: float) -> Flow[T]:
    """Run a flow while no other turn of the session runs, in whichever process.

    Raises `TurnInProgress` where the other turn takes longer than `wait_seconds`. Until the flow
    begins, nothing is stored.
    """
    check_argument("wait", wait_seconds, int | float, "a number of seconds")
    acquire = AcquireTurn(is_queued=wait_seconds > 0)
    busy: TurnInProgress | None = yield acquire
    if busy is not None and wait_seconds > 0:
        yield Emit(TurnWaiting(busy.holder, busy.since, wait_seconds))
    waited = 0.0
    while busy is not None:
        if waited >= wait_seconds:
            raise TurnInProgress(busy.session, busy.holder, busy.since, waited)
        pause = min(max(_PAUSE_MIN_SECONDS, _PAUSE_SHARE * waited), _PAUSE_MAX_SECONDS)
        yield Sleep(min(pause, wait_seconds - waited))
        waited += pause
        busy = yield acquire
    return (yield from flow)
