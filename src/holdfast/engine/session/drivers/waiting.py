"""The turns of this process that wait for a session, in the order of their calls.

Alarms of blocking sessions have one thread for all of them, and none while nothing is due. Threads
that plan let the event loop have the interpreter's lock more often.
"""

from __future__ import annotations

import heapq
import itertools
import os
import sys
import threading
import time
from itertools import count
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.ports import awake_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from holdfast.errors import TurnInProgress


SWITCH_SECONDS: Final = 0.001
"""A fifth of Python's own: shorter ones made no stall shorter, and plans slower."""


class FrequentSwitches:
    """Shortens the interpreter's switch interval while at least one thread is inside.

    The interval is one for the whole process. The last thread that leaves restores it, unless the
    application has set another one meanwhile; a shorter one is left alone.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._inside = 0
        self._before: float | None = None
        """The interval to restore."""
        self._set = 0.0
        """The interval that was set, as the interpreter rounds it."""

    def __enter__(self) -> None:
        with self._mutex:
            self._inside += 1
            interval = sys.getswitchinterval()
            if self._inside == 1 and interval > SWITCH_SECONDS:
                sys.setswitchinterval(SWITCH_SECONDS)
                self._before, self._set = interval, sys.getswitchinterval()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._mutex:
            self._inside -= 1
            if self._inside == 0 and self._before is not None:
                if sys.getswitchinterval() == self._set:
                    sys.setswitchinterval(self._before)
                self._before = None


frequent_switches: Final = FrequentSwitches()
"""The one of this process."""


class Alarm:
    """Something to be done later, unless it is cancelled before."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work

    def cancel(self) -> None:
        self._work = None

    def ring(self) -> None:
        """Do it, once."""
        work, self._work = self._work, None
        if work is not None:
            work()


class AlarmClock:
    """Rings alarms in a thread that lives as long as one is due. The work has to be short."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Alarm]] = []
        self._numbers = itertools.count()
        self._is_running = False

    def set(self, seconds: float, work: Callable[[], None]) -> Alarm:
        """Do `work` after some seconds; never where no thread can be had."""
        alarm = Alarm(work)
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), alarm))
            if self._is_running:
                self._changed.notify()
                return alarm
            try:
                threading.Thread(target=self._ring_all, name="holdfast-alarms", daemon=True).start()
            except RuntimeError:
                self._due.clear()
            else:
                self._is_running = True
        return alarm

    def _ring_all(self) -> None:
        while (alarm := self._wait_for_next()) is not None:
            alarm.ring()

    def _wait_for_next(self) -> Alarm | None:
        with self._changed:
            while self._due:
                left = self._due[0][0] - time.monotonic()
                if left <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(left)
            self._is_running = False
            return None


_clocks = [AlarmClock()]


def set_alarm(seconds: float, work: Callable[[], None]) -> Alarm:
    """Do `work` after some seconds, in a thread that all alarms of the process share."""
    return _clocks[0].set(seconds, work)


def _forget_alarms() -> None:
    """A forked process has no such thread, and the alarms are its parent's."""
    _clocks[0] = AlarmClock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_alarms)


QUEUE_SECONDS: Final = 2.0
"""A turn that has not asked for so long is passed over: its process may have dropped it."""


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
