"""Growth of CPU with the size of a text, which no other process on the machine changes."""

from __future__ import annotations

import math
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RATIO_MAX: Final = 2.5
"""CPU for twice the text; quadratic work has 4."""
SIZE: Final = 2_000
_LARGEST: Final = 64_000
_SHORT: Final = 0.0015
"""Below this, in seconds, a text of SIZE was not read in quadratic time, and noise is large."""
_CLEAR: Final = 0.02
_LONG: Final = 0.2
_GIVEN_UP: Final = 2.0


class TooLong(BaseException):
    """Raised inside a call that takes more CPU than any reader may; no handler expects it."""


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def cpu(call: Callable[[], Any]) -> float:
    """Seconds of CPU that a call takes; whatever it raises is an answer, too."""
    began = time.thread_time()
    try:
        with cpu_limit(_GIVEN_UP):
            call()
    except TooLong:
        return _GIVEN_UP
    except Exception:
        pass
    return time.thread_time() - began


def growth(call: Callable[[int], Any], *, size: int = SIZE) -> float:
    """CPU for twice a size by CPU for the size; 0 where a text was read too fast to say.

    The size doubles until the numbers are clear. A ratio above the bound counts only where two
    doublings show it too, each measured three times: other processes slow a single call down.
    """

    def cost(chars: int) -> float:
        return cpu(lambda: call(chars))

    if cost(size) < _SHORT:
        return 0.0
    now, twice = cost(size), cost(2 * size)
    while twice < _CLEAR and 2 * size < _LARGEST:
        size *= 2
        now, twice = twice, cost(2 * size)
    if twice <= RATIO_MAX * now:
        return twice / max(now, 1e-9)
    size = size // 2 if twice > _LONG else size
    small = min(cost(size) for _ in range(3))
    large = min(cost(4 * size) for _ in range(3))
    return math.sqrt(large / max(small, 1e-9))
