"""Room shared out among texts: the short stay whole, the long are cut to the same size.

A text that was cut before is cut again as the text it came from: one marker, which counts from
there.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from holdfast.core.text.cut import cut, default_marker
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.text.cut import Keep
    from holdfast.core.tokens.counting import Counter

_T = TypeVar("_T")

GAP: Final = "[…]"
"""Stands where something is left out; one of them says how much there is out of how much."""
_SIGN: Final = lazy_pattern(r"\[…(?: ([\d,]{1,15}) of ([\d,]{1,15}) characters cut …)?\]")
_LEFT_OUT: Final = lazy_pattern(r"\[… ([\d,]{1,15}) lines? left out …\]")
_HEADING: Final = lazy_pattern(r"^(?:#{1,6} \S|\d{1,2}\. [^\n]{3,60}:$)", re.MULTILINE)


class Cuttings(msgspec.Struct, frozen=True):
    """The parts left of a text, in order, and the length of the whole."""

    pieces: tuple[str, ...]
    """Something is left out between any two; the first and the last may be empty."""
    total: int

    @property
    def length(self) -> int:
        return sum(map(len, self.pieces))


def cuttings(text: str) -> Cuttings:
    """A text as what is left of a longer one, if its marker says so and its sum is right."""
    if GAP[:2] not in text:
        return Cuttings((text,), len(text))
    signs = list(_SIGN.finditer(text))
    counted = [sign for sign in signs if sign[1]]
    if len(counted) != 1:
        return Cuttings((text,), len(text))
    omitted, total = (int(number.replace(",", "") or 0) for number in counted[0].groups())
    edges = [0, *(place for sign in signs for place in sign.span()), len(text)]
    pieces = tuple(text[edges[at] : edges[at + 1]] for at in range(0, len(edges), 2))
    for found in (Cuttings(pieces, total), Cuttings(tuple(map(str.strip, pieces)), total)):
        if found.length + omitted == total:
            return found
    return Cuttings((text,), len(text))


def fair_share(sizes: Sequence[int], room: int) -> int:
    """The largest cap on each for which all of them together fit."""
    left = len(sizes)
    for size in sorted(sizes):
        if size * left > room:
            return max(0, room // left)
        room -= size
        left -= 1
    return max(sizes, default=0)


def first_and_newest(items: list[_T], count: int) -> list[_T]:
    """The first often says what all of it is about; it goes after the second."""
    if count >= len(items):
        return items
    return [*items[:1], *items[len(items) - count + 1 :]] if count > 1 else items[-1:][:count]


def within_tokens(
    text: str,
    tokens: int,
    counter: Counter,
    *,
    keep: Keep = "both",
    known: int | None = None,
) -> str:
    """As much of a text as fits into `tokens`; empty where nothing does.

    `known` is the count of the text, where the caller has counted it.
    """
    chars = len(text)
    before = cuttings(text)
    whole = _cut_again(text, before, chars, keep)
    taken = counter.count(whole) if known is None else known
    if whole and taken <= tokens:
        return whole
    while chars > 0 and tokens > 0:
        chars = min(chars * 9 // 10, int(chars * tokens / max(1, taken)))
        shorter = _cut_again(text, before, max(chars, 0), keep)
        taken = counter.count(shorter)
        if taken <= tokens:
            return shorter
    return ""


def _cut_again(text: str, before: Cuttings, chars: int, keep: Keep) -> str:
    if len(before.pieces) == 1 or len(text) <= chars:
        return cut(text, chars, keep=keep).text
    left = before.pieces[0] if keep != "tail" else ""
    right = before.pieces[-1] if keep != "head" else ""
    room = chars - len(default_marker(before.total, before.total, "characters"))
    if room <= 0:
        return cut(left or right, chars, keep=keep).text
    right = right[max(0, len(right) - room + min(len(left), room // 2)) :]
    left = left[: room - len(right)]
    omitted = before.total - len(left) - len(right)
    return f"{left}{default_marker(omitted, before.total, 'characters')}{right}"


def sections_within(text: str, tokens: int, counter: Counter) -> str:
    """A text with headings: each section whole where it is short, else its first and last lines."""
    if counter.count(text) <= tokens:
        return text
    starts = (match.start() for match in _HEADING.finditer(text))
    edges = sorted({0, *starts, len(text)})
    sections = [text[start:end].strip() for start, end in itertools.pairwise(edges)]
    sections = [section for section in sections if section]
    sizes = [counter.count(f"{item}\n\n") for item in sections]
    room = tokens
    while room > 0:
        share = fair_share(sizes, room)
        kept = [
            one if size <= share else _lines_within(one, share, counter)
            for one, size in zip(sections, sizes, strict=True)
        ]
        joined = "\n\n".join(filter(None, kept))
        if counter.count(joined) <= tokens:
            return joined
        room = min(room - 1, room * 19 // 20)
    return within_tokens(text, tokens, counter)


def _lines_within(section: str, tokens: int, counter: Counter) -> str:
    """A section's heading and as many of its first and last lines as fit."""
    first, *rest = section.splitlines()
    heading, lines = ([first], rest) if _HEADING.match(first) else ([], [first, *rest])
    notes = [(at, note) for at, line in enumerate(lines) if (note := _LEFT_OUT.fullmatch(line))]
    before = sum(int(note[1].replace(",", "") or 0) for _at, note in notes)
    lines = [line for line in lines if not _LEFT_OUT.fullmatch(line)]
    seam = notes[0][0] if notes else (len(lines) + 1) // 2

    def shorten(left_out: int) -> str:
        count = len(lines) - left_out
        head = min(seam, count - min(len(lines) - seam, count // 2))
        tail = count - head
        missing = before + len(lines) - head - tail
        said = f"[… {missing:,} {'line' if missing == 1 else 'lines'} left out …]"
        return "\n".join((*heading, *lines[:head], said, *lines[len(lines) - tail :]))

    choices = range(1, len(lines))
    place = bisect(choices, 0, key=lambda left_out: counter.count(shorten(left_out)) < tokens)
    if place < len(choices):
        return shorten(choices[place])
    return within_tokens("\n".join((*heading, *lines)), max(0, tokens - 1), counter)
