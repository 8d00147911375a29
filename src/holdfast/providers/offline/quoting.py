"""Finding the sentences that bear on a question: words, their weight, and no understanding."""

from __future__ import annotations

import collections
import math
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SENTENCE_CHARS: Final = 400
"""Longer lines are taken in pieces: a quote is to be read."""
_SATURATION: Final = 1.2
_LENGTH_SHARE: Final = 0.75
"""The usual two constants of BM25."""
_SHARE_MIN: Final = 0.55
"""Of a question's weight, what a sentence has to hold to be worth quoting: of two words
that are equally rare, one is not enough."""
_NEAR_SHARE: Final = 0.4
"""What a word next door counts."""

_WORD: Final = lazy_pattern(r"[^\W_]+(?:[_.'/-]+[^\W_]+)*")
_PART: Final = lazy_pattern(r"[^\W_]+")
_END: Final = lazy_pattern(r"(?<=[.!?。！？])(?:[\"')\]]*)(?:\s+|(?<=[。！？]))(?=\S)|\n+")
_CJK: Final = lazy_pattern("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

STOPWORDS: Final = frozenset(
    (
        *("use", "used", "using", "mean", "means", "need", "needs", "want", "wants", "thing"),
        *("things", "answer", "question", "called", "exactly", "again", "anything", "something"),
        *("a", "about", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at"),
        *("be", "because", "been", "before", "being", "but", "by", "can", "could", "did", "do"),
        *("does", "doing", "done", "for", "from", "get", "give", "got", "had", "has", "have"),
        *("he", "her", "here", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its"),
        *("itself", "just", "know", "let", "like", "made", "make", "many", "me", "more", "most"),
        *("much", "my", "no", "not", "now", "of", "off", "on", "once", "one", "only", "or"),
        *("other", "our", "out", "over", "own", "please", "quote", "remember", "s", "said"),
        *("same", "say", "says", "she", "should", "show", "so", "some", "such", "t", "tell"),
        *("than", "that", "the", "their", "them", "then", "there", "these", "they", "this"),
        *("those", "through", "to", "too", "under", "until", "up", "us", "very", "was", "we"),
        *("were", "what", "when", "where", "which", "while", "who", "whom", "whose", "why"),
        *("will", "with", "would", "you", "your", "yours"),
    )
)


class Passage(msgspec.Struct, frozen=True):
    """A sentence, and where it stands."""

    text: str
    source: str
    place: int = 0
    """Later places are newer."""
    weight: float = 1.0
    """How much its source counts."""


class Found(msgspec.Struct, frozen=True):
    passage: Passage
    score: float


def sentences(text: str) -> Iterator[str]:
    """A text's sentences and lines, none of them blank or very long."""
    for piece in _END.split(text):
        said = (piece or "").strip()
        for at in range(0, len(said), SENTENCE_CHARS):
            yield said[at : at + SENTENCE_CHARS].strip()


def terms(text: str) -> list[str]:
    """The words that carry meaning, in a form in which their endings do not matter."""
    found = []
    for word in _WORD.findall(text.lower()):
        parts = _PART.findall(word)
        for part in (word, *parts) if len(parts) > 1 else (word,):
            if part not in STOPWORDS:
                found += _pairs(part) if _CJK.search(part) else [stem(part)]
    return found


def stem(word: str) -> str:
    """A word without its most common English endings."""
    for ending in ("ing", "edly", "ed", "ies", "es", "s", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            root = word[: -len(ending)]
            if ending == "ies":
                return f"{root}y"
            return root[:-1] if len(root) > 3 and root[-1] == root[-2] else root.rstrip("e")
    return word.rstrip("e") if len(word) > 3 else word


def _pairs(word: str) -> list[str]:
    """Text without spaces: every two characters, the usual stand-in for words."""
    return [word[at : at + 2] for at in range(max(1, len(word) - 1))]


def best(question: str, passages: Sequence[Passage], count: int) -> list[Found]:
    """The passages that hold most of a question's weight, the best first; of equals, the newest.

    None where nothing holds enough of it. Words of the sentences around one count for it too, if
    less: `The server is called heron. Its port is 1.` says the port of heron.
    """
    asked = dict.fromkeys(terms(question))
    if not asked or not passages:
        return []
    counted = [collections.Counter(terms(passage.text)) for passage in passages]
    weights = _weights(asked, counted)
    known = sum(weights.values())
    average = sum(sum(words.values()) for words in counted) / len(counted) or 1.0
    found = []
    for at, (passage, words) in enumerate(zip(passages, counted, strict=True)):
        own = [term for term in asked if words[term]]
        around = [
            term for term in asked if not words[term] and _is_near(term, at, passages, counted)
        ]
        held = sum(weights[term] for term in (*own, *around))
        if own and known and held / known >= _SHARE_MIN:
            near = _NEAR_SHARE * sum(weights[term] for term in around)
            score = _score(asked, words, weights, average) + near
            found.append(Found(passage, passage.weight * score))
    found.sort(key=lambda one: (-round(one.score, 6), -one.passage.place))
    return _distinct(found, count)


def _is_near(
    term: str, at: int, passages: Sequence[Passage], counted: Sequence[collections.Counter[str]]
) -> bool:
    """Whether a sentence next to one, of the same text, has a word."""
    here = (passages[at].source, passages[at].place)
    return any(
        counted[other][term] and (passages[other].source, passages[other].place) == here
        for other in (at - 1, at + 1)
        if 0 <= other < len(passages)
    )


def _weights(asked: Iterable[str], counted: Sequence[collections.Counter[str]]) -> dict[str, float]:
    """How telling each word is. One that nobody used counts as much as one used once."""
    total = len(counted)
    weights = {}
    for term in asked:
        holding = sum(term in words for words in counted) or 1
        weights[term] = math.log(1 + (total - holding + 0.5) / (holding + 0.5))
    return weights


def _score(
    asked: Iterable[str],
    words: collections.Counter[str],
    weights: dict[str, float],
    average: float,
) -> float:
    length = 1 - _LENGTH_SHARE + _LENGTH_SHARE * sum(words.values()) / average
    return sum(
        weights[term] * words[term] * (_SATURATION + 1) / (words[term] + _SATURATION * length)
        for term in asked
        if words[term]
    )


def _distinct(found: Iterable[Found], count: int) -> list[Found]:
    kept: dict[str, Found] = {}
    for one in found:
        if len(kept) == count:
            break
        kept.setdefault(" ".join(one.passage.text.lower().split()), one)
    return list(kept.values())
