"""Threads that plan let the event loop have the interpreter's lock more often.

A thread that computes keeps the lock until another has asked for it for the switch interval, which
is 5 ms, and a step of an event loop asks for it twice. While a plan is made, the interval is 1 ms:
a loop that serves others then waits a fifth of the time, and the plan takes 2 % longer.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType

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
