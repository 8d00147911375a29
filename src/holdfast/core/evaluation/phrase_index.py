"""Finds sentences in texts word by word, whatever line breaks and marks are between the words."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_WORD: Final = lazy_pattern(r"\w+")
_WORDS_MAX: Final = 60
"""Of a longer phrase, the beginning is looked for: it bounds the work for each word of a text."""
_COVERED_SHARE: Final = 0.75
"""Of the words of a phrase, from which on a line says the same in other words."""
_TELLING_CHARS_MIN: Final = 3
"""Shorter words are in every sentence; scripts that need no more letters are matched exactly."""


def words_of(text: str) -> list[str]:
    """The words of a text in order, in small letters."""
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _WORD.findall(plain.casefold())


class PhraseIndex:
    """Numbered phrases as a tree of their words: a text is read once for all of them."""

    def __init__(self, phrases: Iterable[tuple[int, str]]) -> None:
        self._root: _Node = _Node()
        self._telling: dict[int, frozenset[str]] = {}
        for number, phrase in phrases:
            words = words_of(phrase)[:_WORDS_MAX]
            node = self._root
            for word in words:
                node = node.next.setdefault(word, _Node())
            if words:
                node.ends.append(number)
                self._telling[number] = frozenset(filter(_is_telling, words))

    def find(self, text: str) -> set[int]:
        """The phrases that a text contains."""
        first = self._root.next
        found: set[int] = set()
        if not first:
            return found
        words = words_of(text)
        for place, word in enumerate(words):
            node = first.get(word)
            at = place + 1
            while node is not None:
                found.update(node.ends)
                node = node.next.get(words[at]) if at < len(words) else None
                at += 1
        return found

    def find_paraphrases(self, text: str, among: Iterable[int]) -> set[int]:
        """The phrases of which a line of the text has most words: a summary says it in its own."""
        wanted = [(number, self._telling[number]) for number in among if self._telling.get(number)]
        return _match_lines(wanted, [set(words_of(line)) for line in text.splitlines()])


def _match_lines(wanted: Sequence[tuple[int, frozenset[str]]], lines: list[set[str]]) -> set[int]:
    by_word: dict[str, list[int]] = {}
    for place, line in enumerate(lines):
        for word in line:
            by_word.setdefault(word, []).append(place)
    found = set()
    for number, words in wanted:
        needed = _COVERED_SHARE * len(words)
        counts: dict[int, int] = {}
        for word in words:
            for place in by_word.get(word, ()):
                counts[place] = counts.get(place, 0) + 1
        if max(counts.values(), default=0) >= needed:
            found.add(number)
    return found


class _Node:
    """A word in its place, the words that may follow it, and the phrases that end with it."""

    __slots__ = ("ends", "next")

    def __init__(self) -> None:
        self.next: dict[str, _Node] = {}
        self.ends: list[int] = []


def _is_telling(word: str) -> bool:
    return len(word) >= _TELLING_CHARS_MIN
