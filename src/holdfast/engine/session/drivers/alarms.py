"""Alarms of blocking sessions: one thread for all of them, and none while nothing is due later."""

from __future__ import annotations

import heapq
import itertools
import os
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


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
