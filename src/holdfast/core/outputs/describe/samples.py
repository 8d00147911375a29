"""The lines of an output that are described: all of them, or those of its two ends."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.text.cut import cut, ellipsis

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXAMINED_CHARS: Final = 2_000_000
_EXAMINED_LINES: Final = 100_000
"""A longer text is described by its beginning and its end, half of this each."""
_ENTRY_CHARS: Final = 160
"""Two lines of a terminal for an entry of an outline."""


class Sample(msgspec.Struct, frozen=True):
    """Lines without their ends, and their places in the text."""

    lines: list[str]
    gap: int
    """The number of lines before the gap; the number of all lines where there is no gap."""
    missing: int = 0

    def number(self, place: int) -> int:
        """The line number in the text, from 1."""
        return place + 1 + (self.missing if place >= self.gap else 0)

    @property
    def note(self) -> str:
        """The words in front of a count that does not cover the whole text."""
        if not self.missing:
            return ""
        return f"In the first {self.gap:,} and the last {len(self.lines) - self.gap:,} lines: "


def sample_of(text: str) -> Sample:
    """All lines of a text, or those of its two ends."""
    half = _EXAMINED_CHARS // 2
    if len(text) > _EXAMINED_CHARS:
        end = text.rfind("\n", 0, half) + 1
        start = text.find("\n", len(text) - half) + 1 or len(text)
        missing = text.count("\n", end, start)
        return _join(_split_lines(text[:end]), _split_lines(text[start:]), missing)
    lines = _split_lines(text)
    if len(lines) > _EXAMINED_LINES:
        middle = len(lines) // 2
        return _join(lines[:middle], lines[middle:], 0)
    return Sample(lines, len(lines))


def _join(head: list[str], tail: list[str], missing: int) -> Sample:
    """A sample of the outer lines of two ends that have `missing` lines between them."""
    most = _EXAMINED_LINES // 2
    missing += max(0, len(head) - most) + max(0, len(tail) - most)
    head, tail = head[:most], tail[-most:]
    return Sample(head + tail, len(head), missing)


def _split_lines(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def ends_of(lines: Sequence[str], most: int) -> list[str]:
    """The first and the last lines that are not blank, `most` of each."""
    first = [line for line in lines[: 4 * most] if line.strip()][:most]
    rest = lines[max(4 * most, len(lines) - 4 * most) :]
    return first + [line for line in rest if line.strip()][-most:]


# Facts: lines about a text


def entry(number: int, line: str, *, note: str = "") -> str:
    """A line of the text in a list of them."""
    text = cut(line.strip(), _ENTRY_CHARS, keep="head", marker=ellipsis).text
    return f"  line {number}{note}: {text}"


def list_entries(title: str, entries: Sequence[str], room: int) -> list[str]:
    """A title with the entries that fit, from both ends; nothing where none fits."""
    shown = fit_both_ends(entries, room - len(title) - 1) if entries else []
    return [title, *shown] if shown else []


def fit_both_ends(entries: Sequence[str], room: int) -> list[str]:
    """As many entries as there is room for, from both ends, and the number left out."""
    if size_of(entries) <= room:
        return list(entries)
    left = room - len(_more(len(entries))) - 1
    head: list[str] = []
    tail: list[str] = []
    for place in count():
        # The last entry first: the end of an output tells more than its beginning.
        at, side = (place // 2, head) if place % 2 else (-1 - place // 2, tail)
        left -= len(entries[at]) + 1
        if left < 0:
            break
        side.append(entries[at])
    if not tail:
        return []
    return [*head, _more(len(entries) - len(head) - len(tail)), *reversed(tail)]


def fit_first(lines: Sequence[str], room: int) -> list[str]:
    """As many lines as there is room for, from the first on."""
    shown: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    return shown


def fit_line(text: str, room: int) -> str:
    """The beginning of a line that fits together with its line end."""
    return cut(text, max(0, room - 1), keep="head", marker=ellipsis).text


def size_of(lines: Sequence[str]) -> int:
    """The characters of lines with their line ends."""
    return sum(len(line) + 1 for line in lines)


def _more(number: int) -> str:
    return f"  … {number:,} more"
