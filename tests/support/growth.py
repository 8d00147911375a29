"""Growth of CPU with the size of a text: the same answer on a fast, a slow and a busy machine.

Every bound is a multiple of `unit`, the CPU of the cheapest quadratic reading on this machine.
"""

from __future__ import annotations

import gc
import math
import signal
import sys
import time
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RATIO_MAX: Final = 2.5
"""CPU for twice the text; linear work has 2, quadratic work 4."""
LARGEST: Final = 16_000
_SMALLEST: Final = 15
_STEP: Final = 4
"""Sizes differ by this factor: quadratic work takes 16 times as long, linear work 4 times."""
_SHORT: Final = 1 / 8
"""Units. Faster than this, the largest text was not read in quadratic time."""
GIVEN_UP: Final = 20
"""Units. A reader is stopped here and judged by smaller texts."""
_FAR_OUT: Final = 16 * LARGEST
_GIVEN_UP_FAR_OUT: Final = 200
"""Units, about a second."""
_REPEATS: Final = 3
_SUSPECTED: Final = 6
"""Measurements that must all find a call too slow: few calls are measured more than once."""


class TooLong(BaseException):
    """Raised inside a call that takes more CPU than any reader may; no handler expects it."""


@contextmanager
def _cpu_limit(seconds: float) -> Iterator[None]:
    """Raise `TooLong` in the block after some seconds of CPU, and again until it gets through.

    Python drops what is raised in a finalizer or in a callback of the garbage collector, and
    reports it to a hook that fails the test.
    """

    def give_up(*_: object) -> None:
        raise TooLong

    def report(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is not TooLong:
            hook(unraisable)

    collected, hook = gc.isenabled(), sys.unraisablehook
    before = signal.signal(signal.SIGVTALRM, give_up)
    gc.disable()
    sys.unraisablehook = report
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        sys.unraisablehook = hook
        if collected:
            gc.enable()


def _cpu(call: Callable[[], Any], limit: float) -> float:
    """Seconds of CPU that a call takes, infinite above the limit; an exception is an answer."""
    began = time.thread_time()
    try:
        with _cpu_limit(limit):
            call()
    except TooLong:
        return math.inf
    except Exception:
        pass
    return time.thread_time() - began


@cache
def unit() -> float:
    """CPU of a search for a letter from every place of the largest text; about 5 ms."""
    text = "a" * LARGEST

    def read() -> None:
        for place in range(LARGEST):
            text.find("!", place)

    return min(_cpu(read, limit=60.0) for _ in range(5))


def growth(call: Callable[[int], Any]) -> float:
    """CPU of a call for twice a size by CPU for the size; 0 where it is too short to matter."""
    limit = GIVEN_UP * unit()
    return steepest(lambda size: _cpu(lambda: call(size), limit) / unit())


def is_superlinear(call: Callable[[int], Any]) -> bool:
    """Return True where a call takes too long for twice a size each time it is measured, and for
    the longest texts, too: a loop that begins to work at some length looks steep there alone."""
    return all(growth(call) > RATIO_MAX for _ in range(_SUSPECTED)) and (
        growth_far_out(call) > RATIO_MAX
    )


def growth_far_out(call: Callable[[int], Any]) -> float:
    """The growth of a call between the two longest texts that it can read in bounded time."""
    limit = _GIVEN_UP_FAR_OUT * unit()

    def least(size: int) -> float:
        found = _cpu(lambda: call(size), limit)
        if found == math.inf:  # given up once, it is given up again
            return found
        return min(found, *(_cpu(lambda: call(size), limit) for _ in range(_REPEATS - 1)))

    size = _FAR_OUT
    while (large := least(size)) == math.inf and size > _SMALLEST:
        size //= _STEP
    return math.pow(large / max(least(size // _STEP), 1e-9), 1 / math.log2(_STEP))


def steepest(cost: Callable[[int], float]) -> float:
    """Return the steepest growth per doubling of a cost, which is in units; infinite: given up.

    Judged are the three largest sizes that were not given up: a pattern that looks 200 letters far
    takes quadratic time up to there, and linear time for a text.

    A growth above the bound counts only where the least of several costs shows it, too: another
    process can slow down one call, and the first call of a function may compile a pattern.
    """

    def least(size: int) -> float:
        return min(costs[size], *(cost(size) for _ in range(_REPEATS)))

    size, costs = LARGEST, {LARGEST: cost(LARGEST)}
    while costs[size] == math.inf and size > _SMALLEST:
        size //= _STEP
        costs[size] = cost(size)
    if costs[size] == math.inf:
        return math.inf
    for _ in range(2):
        if costs[size] > _SHORT and size > _SMALLEST:
            size //= _STEP
            costs[size] = cost(size)
    sizes = sorted(costs)
    if len(sizes) > 1:
        costs[size] = least(size)
    found = 0.0
    for small, large in pairwise(sizes):
        if costs[large] > _SHORT and _ratio(costs[small], costs[large]) > RATIO_MAX:
            for size in (small, large):
                costs[size] = least(size)
        if costs[large] > _SHORT:
            found = max(found, _ratio(costs[small], costs[large]))
    return found


def _ratio(small: float, large: float) -> float:
    """Growth per doubling; of a call that was given up, the least that it can be."""
    large = min(large, GIVEN_UP)
    return math.pow(large / max(small, 1e-9), 1 / math.log2(_STEP))
