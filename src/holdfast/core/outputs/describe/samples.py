"""What the describers of an output look at: its lines by number, all of them or both ends."""

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


class Sample(msgspec.Struct, frozen=True):
    """Lines without their ends, and where in the text they are."""

    lines: list[str]
    gap: int
    """How many lines the second half begins with; as many as there are where nothing is missing."""
    missing: int = 0

    def number(self, place: int) -> int:
        """The line number in the text, from 1."""
        return place + 1 + (self.missing if place >= self.gap else 0)

    @property
    def note(self) -> str:
        """What to say before anything is counted; nothing where all of it was."""
        if not self.missing:
            return ""
        return f"In the first {self.gap:,} and the last {len(self.lines) - self.gap:,} lines: "


def sample_of(text: str) -> Sample:
    """All lines of a text, or those of its two ends."""
    half = _EXAMINED_CHARS // 2
    if len(text) > _EXAMINED_CHARS:
        end = text.rfind("\n", 0, half) + 1
        start = text.find("\n", len(text) - half) + 1 or len(text)
        return _ends(_lines(text[:end]), _lines(text[start:]), text.count("\n", end, start))
    lines = _lines(text)
    if len(lines) > _EXAMINED_LINES:
        middle = len(lines) // 2
        return _ends(lines[:middle], lines[middle:], 0)
    return Sample(lines, len(lines))


def _ends(head: list[str], tail: list[str], missing: int) -> Sample:
    """The outer lines of both halves, with what is missing between them already."""
    most = _EXAMINED_LINES // 2
    missing += max(0, len(head) - most) + max(0, len(tail) - most)
    head, tail = head[:most], tail[-most:]
    return Sample(head + tail, len(head), missing)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def ends_of(lines: Sequence[str], most: int) -> list[str]:
    """The first and the last lines that are not blank, `most` of each."""
    first = [line for line in lines[: 4 * most] if line.strip()][:most]
    rest = lines[max(4 * most, len(lines) - 4 * most) :]
    return first + [line for line in rest if line.strip()][-most:]


def entry(number: int, line: str, *, note: str = "") -> str:
    """A line of the text in a list of them."""
    shown = cut(line.strip(), _ENTRY_CHARS, keep="head", marker=ellipsis).text
    return f"  line {number}{note}: {shown}"


def listed(entries: Sequence[str], room: int) -> list[str]:
    """As many entries as there is room for, from both ends, and how many are left out."""
    if sum(len(one) + 1 for one in entries) <= room:
        return list(entries)
    left = room - len(_more(len(entries))) - 1
    head: list[str] = []
    tail: list[str] = []
    for place in count():
        # The last one first: how something ended tells more than how it began.
        at, side = (place // 2, head) if place % 2 else (-1 - place // 2, tail)
        left -= len(entries[at]) + 1
        if left < 0:
            break
        side.append(entries[at])
    if not tail:
        return []
    return [*head, _more(len(entries) - len(head) - len(tail)), *reversed(tail)]


def fitting(lines: Sequence[str], room: int) -> list[str]:
    """As many lines as there is room for, from the first on."""
    shown: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        shown.append(line)
    return shown


def counted(number: int, what: str) -> str:
    """A number of things, one of them in the singular."""
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"


def _more(number: int) -> str:
    return f"  … {number:,} more"
