"""Searching with patterns that a model wrote: within a deadline, whatever they are."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from holdfast.core.limits import PATTERN_SECONDS
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.outputs.excerpts import Match

_RECURSION: Final = lazy_pattern(r"\(\?(?:R\)|[+-]?\d|&|P>)")
"""A pattern that calls itself takes memory without end long before the deadline."""
_FIRST_SECONDS: Final = 0.05
"""`regex` counts the CPU time of this process, which on a busy machine is a fraction of the time
that passes. A search that this is not enough for begins again with twice as much, as long as the
time that the last try really took leaves room for it."""
_LEAST_SECONDS: Final = 0.01
"""With less left, another try would find nothing that the last one did not."""
_SPECIAL: Final = frozenset(r"\.^$*+?{}[]|()")


def matcher(
    pattern: str,
    *,
    seconds: float = PATTERN_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Match:
    """Return a search for a pattern in line after line that gives up after `seconds` in all."""
    if not _SPECIAL.intersection(pattern):
        return _finder(pattern)
    if _RECURSION.search(pattern):
        raise UsageError(
            f"{pattern[:80]!r} calls itself, which is not allowed here",
            hint="write a pattern without `(?R)`, `(?1)` and the like",
        )
    import regex  # type: ignore[import-untyped]

    try:
        compiled = regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise UsageError(
            f"{pattern[:80]!r} is not a regular expression: {error}",
            hint="put a backslash before what is meant literally: . * + ? ( ) [ ] { } | ^ $",
        ) from None
    left = seconds

    def match(text: str, start: int) -> tuple[int, int] | None:
        nonlocal left
        allowed = _FIRST_SECONDS
        while True:
            began = clock()
            try:
                found = compiled.search(text, start, timeout=max(min(allowed, left), 0.001))
            except MemoryError:
                raise _too_slow(pattern, seconds) from None
            except TimeoutError:
                taken = clock() - began
                left -= taken
                load = max(1.0, taken / allowed)
                allowed = min(2 * allowed, left / load)
                if allowed < _LEAST_SECONDS:
                    raise _too_slow(pattern, seconds) from None
                continue
            left -= clock() - began
            if left <= 0:
                raise _too_slow(pattern, seconds)
            return found.span() if found else None

    return match


def _finder(words: str) -> Match:
    """Plain words need no deadline, and are found several times as fast."""

    def match(text: str, start: int) -> tuple[int, int] | None:
        place = text.find(words, start)
        return None if place < 0 else (place, place + len(words))

    return match


def _too_slow(pattern: str, seconds: float) -> UsageError:
    return UsageError(
        f"searching for {pattern[:80]!r} took longer than {seconds:g} s and was given up",
        hint="use a plainer pattern without nested repetition, or search fewer lines at a time",
    )
