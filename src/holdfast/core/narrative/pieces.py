"""Shortens a text by leaving out whole sentences and lines: those that say least stay away first.

A sentence says much when its words are rare in the session, and more when later calls and texts
use them again. Nothing here knows a language: a word is a run of letters, or one character in
scripts that write none between words.
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.narrative.digest import words_of
from holdfast.core.text.cut import cut
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_END: Final = lazy_pattern(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n")
GAP: Final = " … "
_PIECES_MAX: Final = 400
_PIECE_CHARS: Final = 600
_PIECE_CHARS_MIN: Final = 40
_AGAIN: Final = 2.0
"""A word counts so many times as much where something later uses it again."""
_FIRST: Final = 1.5
_LAST: Final = 1.5
_COST: Final = 20


class Piece(msgspec.Struct):
    start: int
    end: int
    words: frozenset[str]


class Worth:
    """What the words of a session are worth."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts: dict[str, int] = {}
        last: dict[str, int] = {}
        for at, text in enumerate(texts):
            for word in words_of(text):
                counts[word] = counts.get(word, 0) + 1
                last[word] = at
        self._last = last
        total = len(texts) + 1
        self._rarity = {word: log(total / count) for word, count in counts.items()}

    def of(self, words: Iterable[str], at: int) -> float:
        rarity, last = self._rarity, self._last
        return sum(
            rarity.get(word, 0.0) * (_AGAIN if last.get(word, 0) > at else 1.0) for word in words
        )


def ranked(text: str, at: int, worth: Worth) -> list[tuple[int, int]]:
    """The sentences and lines of a text, those that say most for their length first."""
    spans = _spans(text)
    seen: set[str] = set()
    found = []
    for number, (start, end) in enumerate(spans):
        words = words_of(text[start:end])
        value = worth.of(words - seen, at) + 0.2 * worth.of(words & seen, at)
        seen |= words
        if number == 0:
            value *= _FIRST
        elif number == len(spans) - 1:
            value *= _LAST
        found.append((value / (end - start + _COST), start, end))
    found.sort(key=lambda item: (-item[0], item[1]))
    return [(start, end) for _value, start, end in found]


def _spans(text: str) -> list[tuple[int, int]]:
    spans = []
    start = 0
    for match in _END.finditer(text):
        if match.start() - start < _PIECE_CHARS_MIN and match[0] != "\n":
            continue
        if match.start() > start:
            spans.append((start, match.start()))
        start = match.end()
    if len(text) > start:
        spans.append((start, len(text)))
    return spans


def shorten(text: str, chars: int, order: Sequence[tuple[int, int]]) -> str:
    """The text within `chars`, of its sentences and lines those that stand first in `order`."""
    if len(text) <= chars:
        return text
    room = chars
    kept: list[tuple[int, int]] = []
    for start, end in order:
        if end - start + len(GAP) <= room:
            kept.append((start, end))
            room -= end - start + len(GAP)
        elif room >= 80 and end - start > 2 * _PIECE_CHARS_MIN:
            kept.append((start, start + room - len(GAP)))
            room = 0
        if room < 24:
            break
    if not kept:
        return cut(text, chars, marker=lambda *_: GAP).text
    kept.sort()
    parts = []
    before = 0
    for start, end in kept:
        between = text[before:start]
        if between.strip():
            parts.append(GAP if parts or True else "")
        else:
            parts.append(between)
        parts.append(text[start:end])
        before = end
    if text[before:].strip():
        parts.append(GAP.rstrip())
    return "".join(parts).strip()[:chars]
