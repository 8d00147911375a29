"""A text as a person reads it: without colours, escapes and full-width letters.

A tool colours the part of a key that it found, JSON writes `→` as `\\u2192` right before one, and
`：` stands where a pattern expects `:`. The patterns look at such a text twice: as it is, and as it
reads. The reading knows where each of its characters stands in the text.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

import msgspec

from holdfast.core.text.lazy_pattern import lazy_pattern

_ESC: Final = r"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e(?=\[))"
_VEIL: Final = lazy_pattern(
    rf"{_ESC}\[[0-?]{{0,64}}[ -/]{{0,8}}[@-~]"  # colours and movements
    r"|\x1b\][^\x07\x1b]{0,2048}(?:\x07|\x1b\\)"  # links and titles
    r"|\\u(?P<code>[0-9a-fA-F]{4})"
    r"|\x1b"
)
_WIDE: Final[dict[int, int | str]] = {
    **{code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys(map(ord, "\u201c\u201d\u201e\u300c\u300d\u300e\u300f"), '"'),
    **dict.fromkeys(map(ord, "\u2018\u2019"), "'"),
}
_HAS_WIDE: Final = lazy_pattern("[\uff01-\uff5e\u2018\u2019\u201c-\u201e\u300c-\u300f]")


class PlainReading(msgspec.Struct, frozen=True):
    """The reading, and for each of its stretches its start there, and its place in the text."""

    text: str
    starts: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    """Start in the text, and the width there of each character of the stretch."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the place in the text of a part of the reading that is not empty."""
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, position: int) -> tuple[int, int]:
        index = bisect_right(self.starts, position) - 1
        start, width = self.places[index]
        first = start + (position - self.starts[index]) * width
        return first, first + width


def plain_reading(text: str) -> PlainReading | None:
    """Return how a text reads; None where it reads as it is."""
    is_veiled = "\x1b" in text or ("\\" in text and _VEIL.search(text) is not None)
    if not is_veiled:
        if text.isascii() or _HAS_WIDE.search(text) is None:
            return None
        return PlainReading(text.translate(_WIDE), (0,), ((0, 1),))
    pieces, starts, places = [], [0], [(0, 1)]
    length = place = 0
    for veil in _VEIL.finditer(text):
        pieces.append(text[place : veil.start()])
        length += len(pieces[-1])
        if veil["code"]:
            starts.append(length)
            places.append((veil.start(), veil.end() - veil.start()))
            pieces.append(chr(int(veil["code"], 16)))
            length += 1
        place = veil.end()
        starts.append(length)
        places.append((place, 1))
    pieces.append(text[place:])
    return PlainReading("".join(pieces).translate(_WIDE), tuple(starts), tuple(places))
