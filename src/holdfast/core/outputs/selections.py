"""Selections: the part of an output that a caller wants, by offset, lines or pattern."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.limits import (
    EXCERPT_CHARS,
    EXCERPT_CHARS_MAX,
    EXCERPT_CHARS_MIN,
    PATTERN_CHARS_MAX,
)
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import UsageError

_RANGE: Final = lazy_pattern(r"(-?[0-9]{1,15})?:(-?[0-9]{1,15})?|(-?[0-9]{1,15})")


class Selection(msgspec.Struct, frozen=True):
    """The part of an output that a caller wants. Made by `selection`, which checks it."""

    max_chars: int = EXCERPT_CHARS
    offset: int = 0
    first: int = 1
    """Lines count from 1; below 0 from the end."""
    last: int | None = None
    pattern: str = ""
    is_by_lines: bool = False

    @property
    def counts_from_end(self) -> bool:
        """The number of lines must be known before anything can be selected."""
        return self.first < 0 or (self.last or 0) < 0

    def count_from_start(self, total_lines: int) -> Selection:
        """The same selection with line numbers from the beginning."""
        last = self.last
        return msgspec.structs.replace(
            self,
            first=max(1, self.first + total_lines + 1) if self.first < 0 else self.first,
            last=max(0, last + total_lines + 1) if last is not None and last < 0 else last,
        )


def selection(
    *,
    offset: int | None = None,
    lines: str | None = None,
    pattern: str | None = None,
    max_chars: int = EXCERPT_CHARS,
) -> Selection:
    """A checked selection. Raises `UsageError`."""
    if not EXCERPT_CHARS_MIN <= max_chars <= EXCERPT_CHARS_MAX:
        raise UsageError(
            f"cannot show {max_chars:,} characters at once",
            hint=f"give max_chars from {EXCERPT_CHARS_MIN} to {EXCERPT_CHARS_MAX:,}",
        )
    if offset is not None and lines is not None:
        raise UsageError(
            "cannot select by offset and by lines at once", hint="give offset or lines, not both"
        )
    if offset is not None and offset < 0:
        raise UsageError(
            f"the offset {offset} is negative",
            hint='give an offset from 0 up, or lines="-50:" for the last 50 lines',
        )
    if pattern == "":
        raise UsageError("an empty pattern matches every line", hint="read by lines or by offset")
    if pattern is not None and len(pattern) > PATTERN_CHARS_MAX:
        raise UsageError(
            f"the pattern has {len(pattern):,} characters",
            hint=f"give one of at most {PATTERN_CHARS_MAX:,}",
        )
    first, last = (1, None) if lines is None else _range(lines)
    return Selection(max_chars, offset or 0, first, last, pattern or "", lines is not None)


def _range(lines: str) -> tuple[int, int | None]:
    """`a:b`, `a:`, `:b` or `a`, from 1 and including both; below 0 from the end."""
    found = _RANGE.fullmatch(lines.strip())
    if found is None:
        raise UsageError(
            f"{lines[:80]!r} is not a range of lines",
            hint='give for example "120:180", "120:", ":50", or "-50:" for the last 50',
        )
    start, end, single = (int(number) if number else None for number in found.groups())
    first, last = (single, single) if single is not None else (start, end)
    if first == 0 or last == 0:
        raise UsageError(f"there is no line 0 in {lines!r}", hint="lines count from 1")
    if first is not None and last is not None and first > last and (first < 0) == (last < 0):
        raise UsageError(
            f"the range {lines!r} ends before it begins", hint=f'give "{last}:{first}"'
        )
    return first or 1, last
