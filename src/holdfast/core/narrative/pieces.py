"""Shortens a text by leaving out whole sentences and lines, those that say least first.

A sentence says much for its length where its words are rare in the session, more so where later
calls and texts use them again: a decision in the middle of a long thought stays, an announcement
goes. Nothing here knows a language: a word is a run of letters, or one character in scripts that
write none between words.
"""

from __future__ import annotations

import math
from collections import Counter as Counted
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.core.narrative.digest import words_of
from holdfast.core.text.cut import cut
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Span = tuple[int, int]
"""A sentence or a line: the places of its first character and behind its last."""
Ranked = tuple[float, Span]
"""The worth of a sentence for its length, negative so that the most telling sorts first."""

_END: Final = lazy_pattern(r"(?:(?:\A|\s)…(?=\s|\Z))+\s?|(?<=[.!?;])\s+|(?<=[。！？；])|\n")
_PLAIN_END: Final = lazy_pattern(r"[.!?;\n](?:(?<=\n)|\s+)")
"""The same for a text without the signs below, found in a tenth of the time."""
_OTHER_ENDS: Final = "…。！？；"
_GAP: Final = " … "
_LEADS: Final = (":", "：")
_LEAD: Final = 0.5
"""A line that only leads to the next ones counts so much."""
_SENTENCE_CHARS_MIN: Final = 40
"""A shorter sentence belongs to the next one of its line."""
_PART_CHARS_MIN: Final = 80
"""Of a sentence that does not fit whole, so much is worth having."""
_LEFT_CHARS: Final = 24
"""Less room holds nothing."""
_RARE: Final = 1.5
"""A rare word counts more than as many common ones as its share of the session says."""
_COMMON: Final = 0.35
"""A word that is no rarer, as a share of the rarest, tells nothing by itself."""
_AGAIN: Final = 2.0
"""A word counts so many times as much where something later uses it again."""
_AHEAD: Final = 3
"""Lines behind a text that are not later: an announced call uses the words that announce it."""
_EDGE: Final = 1.5
"""So does the first and the last sentence of a text: what it is about, and where it leads."""
_KNOWN: Final = 0.2
"""A word that an earlier sentence of the text has counts so much."""
_SHORT_CHARS: Final = 240
"""The words of a longer text are those of its sentences: it will be shortened, and is read once."""
_COST_CHARS: Final = 20
"""Each sentence costs so much beside its length, so that shreds do not win."""
_UNIT: Final = 2.0**40
"""Worth is added up in whole parts of this: a set of words has no order, and sums must not."""


class SentenceWords(NamedTuple):
    """A sentence or a line of a text."""

    span: Span
    text: str
    news: set[str]
    """Its words that none before it in the text has."""
    known: set[str]
    """The others."""


class ReadText:
    """A text, and what was found in it."""

    __slots__ = ("_known", "_sentences", "_words", "text")

    def __init__(self, text: str, known: dict[str, str]) -> None:
        """`known` are words that were read before: a word of many texts is in memory once."""
        self.text = text
        self._known = known
        self._words: set[str] | None = None
        self._sentences: list[SentenceWords] | None = None

    @property
    def words(self) -> set[str]:
        if self._words is None and len(self.text) > _SHORT_CHARS:
            found = [sentence.news for sentence in self.sentences]
            self._words = found[0].union(*found[1:]) if found[1:] else found[0]
        elif self._words is None:
            self._words = self._read(self.text)
        return self._words

    def keep_in(self, known: dict[str, str]) -> None:
        """Let go of the words that other texts have."""
        self._known = known
        words = self._words or ()
        known.update(zip(words, words, strict=True))

    def _read(self, text: str) -> set[str]:
        words = words_of(text)
        return set(map(self._known.setdefault, words, words))

    @property
    def sentences(self) -> list[SentenceWords]:
        if self._sentences is None:
            self._sentences = []
            seen: set[str] = set()
            spans = find_spans(self.text)
            for start, end in spans:
                text = self.text[start:end]
                # The words of a single sentence are those of the text.
                words = self._words if self._words and len(spans) == 1 else self._read(text)
                news, known = (words - seen, words & seen) if seen else (words, set[str]())
                self._sentences.append(SentenceWords((start, end), text, news, known))
                seen |= words
        return self._sentences


class ReadTexts(dict[str, ReadText]):
    """Texts by themselves: each is read once, however often it is told."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self.told: set[str] = set()
        """Texts as a carry-over has them, which the next one reads again."""
        self.folded: dict[tuple[object, ...], tuple[list[Any], int]] = {}
        """Old lines of a long story, and what is told of them."""

    def next(self) -> ReadTexts:
        """The texts for the next carry-over: those of them that were told as they are."""
        new = ReadTexts()
        for text in self.keys() & self.told:
            found = new[text] = self[text]
            found.keep_in(new._known)
        return new

    def __missing__(self, text: str) -> ReadText:
        found = self[text] = ReadText(text, self._known)
        return found


class _Rarity(dict[str, int]):
    """The worth of each word; of one that is in no text, nothing."""

    def __missing__(self, word: str) -> int:
        return 0


class Worth:
    """The worth of the words of a session."""

    def __init__(self, texts: Sequence[set[str]]) -> None:
        """`texts` are the words of each, in order of time."""
        counts = Counted(chain.from_iterable(texts))

        def weigh(share: float) -> int:
            return round(math.pow(math.log(share), _RARE) * _UNIT)

        units = {count: weigh((len(texts) + 1) / count) for count in set(counts.values())}
        self.rarest = weigh(max(2, len(texts) + 1) / 2) / _UNIT
        """The worth of a word that two texts have."""
        self._rarity = _Rarity(zip(counts, map(units.__getitem__, counts.values()), strict=True))
        self._later: list[set[str]] = [set()] * len(texts)
        """For each text its words that one behind it, and not near it, uses again."""
        later: set[str] = set()
        for at in range(len(texts) - _AHEAD - 2, -1, -1):
            later |= texts[at + _AHEAD + 1]
            self._later[at] = texts[at] & later

    def of(self, words: set[str], at: int) -> float:
        """Return the worth of words of the text at this place."""
        rarity = self._rarity.__getitem__
        again = words & self._later[at]
        return (sum(map(rarity, words)) + sum(map(rarity, again)) * (_AGAIN - 1)) / _UNIT

    def count_rare(self, words: set[str]) -> float:
        """Return how many rare words these are, in words as rare as any."""
        floor = int(_COMMON * self.rarest * _UNIT)
        rare = sum(max(0, self._rarity[word] - floor) for word in words)
        return rare / (self.rarest * _UNIT or 1.0)


def rank_spans(
    text: ReadText, at: int, worth: Worth, times: Mapping[str, int] | None = None
) -> list[Ranked]:
    """Return the sentences and lines of a text, those that say most for their length first; `times`
    says how often each of them is said in all."""
    sentences = text.sentences
    last = len(sentences) - 1
    found: list[Ranked] = []
    for number, sentence in enumerate(sentences):
        start, end = sentence.span
        value = worth.of(sentence.news, at)
        if sentence.known:
            value += _KNOWN * worth.of(sentence.known, at)
        if number in (0, last):
            value *= _EDGE
        if sentence.text.endswith(_LEADS):
            value *= _LEAD
        if times is not None:
            value /= times[sentence.text]
        found.append((-value / (end - start + _COST_CHARS), sentence.span))
    return sorted(found)


def find_spans(text: str) -> list[Span]:
    """Return the sentences and lines of a text, in order."""
    spans: list[Span] = []
    start = 0
    for place, end, is_sentence in _ends(text):
        if is_sentence and place - start < _SENTENCE_CHARS_MIN:
            continue
        if place > start:
            spans.append((start, place))
        start = end
    return [*spans, (start, len(text))] if len(text) > start or not spans else spans


def _ends(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield where the white space behind each sentence and line begins and ends, and whether it
    ends a sentence amid a line."""
    if not text.isascii() and any(sign in text for sign in _OTHER_ENDS):
        for match in _END.finditer(text):
            yield match.start(), match.end(), match[0].isspace() and match[0] != "\n"
        return
    for match in _PLAIN_END.finditer(text):
        place, end = match.span()
        place += text[place] != "\n"
        yield place, end, text[place:end] != "\n"


def shorten(text: str, chars: int, order: Sequence[Ranked]) -> str:
    """Return a text within `chars`, made of the sentences and lines that are first in `order`."""
    if len(text) <= chars:
        return text
    room = chars - len(_GAP)
    kept: list[Span] = []
    for _worth, (start, end) in order:
        size = end - start + len(_GAP)
        if size <= room:
            kept.append((start, end))
            room -= size
        elif room >= _PART_CHARS_MIN and not kept:
            half = (room - 2 * len(_GAP)) // 2
            kept += [(start, start + half), (end - half, end)]
            break
        if room < _LEFT_CHARS:
            break
    if not kept:
        return cut(text, chars, marker=_write_gap).text
    parts: list[str] = []
    before = 0
    for start, end in sorted(kept):
        between = text[before:start]
        parts += [_GAP if between.strip() else between, text[start:end]]
        before = end
    if text[before:].strip():
        parts.append(_GAP)
    return "".join(parts).strip()


def _write_gap(_omitted: int, _total: int, _unit: str) -> str:
    return _GAP
