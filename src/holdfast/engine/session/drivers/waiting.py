"""The turns of this process that wait for a session, in the order of their calls.

A message that arrived later is not answered sooner. The first of these turns has a place in the
queue of the store, among those of other processes.
"""

from __future__ import annotations

import os
import threading
from itertools import count
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.ports import awake_time

if TYPE_CHECKING:
    from holdfast.errors import TurnInProgress

QUEUE_SECONDS: Final = 2.0
"""A turn that has not asked for so long is passed over: whoever ran it may have dropped it."""


class Waiter(msgspec.Struct, eq=False):
    """A turn that has begun to ask for its session."""

    place: str
    """The session, by a name that no other session of the process has."""
    number: int
    asking: TurnInProgress
    """For those behind it: that it asks."""
    busy: TurnInProgress
    """The answer it got when it asked last; until then `asking`."""
    asked: float


class WaitingLine:
    """The turns that wait, of all sessions of a process. Safe for threads."""

    def __init__(self) -> None:
        self._numbers = count()
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._waiters: dict[str, list[Waiter]] = {}

    def number(self) -> int:
        """Return the place of a call among all calls."""
        return next(self._numbers)

    def join(self, place: str, number: int, asking: TurnInProgress) -> Waiter:
        """Take the place of a call; `leave` gives it up."""
        if self._pid != os.getpid():
            self._forget()  # a forked child waits for itself alone
        waiter = Waiter(place, number, asking, asking, awake_time())
        with self._mutex:
            waiting = self._waiters.setdefault(place, [])
            waiting.append(waiter)
            waiting.sort(key=lambda other: other.number)
        return waiter

    def ahead(self, waiter: Waiter) -> TurnInProgress | None:
        """Return what the turn before this one was told last; None where this one may ask."""
        waiter.asked = now = awake_time()
        with self._mutex:
            for other in self._waiters.get(waiter.place, ()):
                if other is waiter:
                    return None
                if now - other.asked < QUEUE_SECONDS:
                    # It may have been told to wait for this one, which had asked before it.
                    is_told = other.busy.holder != waiter.asking.holder
                    return other.busy if is_told else other.asking
        return None

    def leave(self, waiter: Waiter) -> None:
        """Give up a place, with the turn taken or not."""
        with self._mutex:
            waiting = self._waiters.get(waiter.place, [])
            if waiter in waiting:
                waiting.remove(waiter)
            if not waiting:
                self._waiters.pop(waiter.place, None)


LINE: Final = WaitingLine()
"""The turns that wait in this process."""
