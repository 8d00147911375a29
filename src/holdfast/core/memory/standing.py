"""Standing instructions: what a person asked for in general or told of themselves, and the other
one took up.

Who accepts a rule says it again: "start attribute names with q_" is answered by "I'll start my
attribute names with q_". So a sentence stands where a sentence of the reply holds its words again,
and so does one with a quotation in the same message: of several rules, one is often said again for
all. That needs no list of words, and no language. Of two that were taken up by the same words, with
another value, the later one holds.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.extract.statements import raw_sentences
from holdfast.core.memory.search_terms import is_common, is_pair, terms
from holdfast.core.memory.superseded import has_quotation, values_of, without_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TAKEN_UP_LEAST: Final = 2
_TAKEN_UP_SHARE: Final = 0.2
"""Words of a sentence that a sentence of the reply has to hold."""
_SAID_CHARS: Final = 1_000
"""Of a message; rules come in short ones."""
_REPLY_CHARS: Final = 500
"""A longer reply answers: it is about the matter, and holds its words anyway."""
_SHOWN_CHARS: Final = 120
"""A longer sentence counts less: it takes the room of others."""
_LOOKED_AT: Final = 60
_BESIDE: Final = 1.0
"""The weight of a sentence that was not said again, in a message of which another was."""
_ASKED: Final = 6.0
"""The weight of a word that the query has too."""


class Uptake(msgspec.Struct, frozen=True):
    """The words of a person, and a reply that may take them up."""

    id: int
    said: str
    reply: str


class StandingWords(msgspec.Struct, frozen=True):
    """A sentence that stands."""

    exchange: int
    """The id of its exchange."""
    text: str


class _Sentence(msgspec.Struct, frozen=True):
    exchange: int
    text: str
    words: frozenset[str]
    taken_up: frozenset[str]

    @property
    def core(self) -> frozenset[str]:
        """The words that say what it is about, without its values."""
        frame = _telling(without_values(self.text))
        return self.taken_up & frame or frame


def is_taken_up(said: str, reply: str) -> bool:
    """Return whether a reply holds the words of a sentence again."""
    return len(reply) <= _REPLY_CHARS and bool(_find_taken_up(Uptake(0, said, reply)))


def find_standing(
    exchanges: Sequence[Uptake], query: Mapping[str, float], chars_max: int
) -> list[StandingWords]:
    """The sentences that stand, the most telling first; together at most `chars_max` characters.

    `exchanges` are in order of time.
    """
    said = [sentence for exchange in exchanges for sentence in _find_taken_up(exchange)]
    held = Counter(word for sentence in said for word in sentence.words)

    def worth(sentence: _Sentence) -> float:
        rare = {word: math.log(1 + len(said) / held[word]) for word in sentence.words}
        taken_up = sum(rare[word] for word in sentence.taken_up)
        share = len(sentence.taken_up) / len(sentence.words)
        own = taken_up * math.sqrt(share) if sentence.taken_up else _BESIDE
        own *= 2 if has_quotation(sentence.text) else 1
        asked = sum(worth for word, worth in rare.items() if query.get(word, 0.0) >= 1)
        length = max(1.0, len(sentence.text) / _SHOWN_CHARS)
        return (own + _ASKED * asked) / length

    places = {id(sentence): place for place, sentence in enumerate(said)}
    ordered = sorted(said, key=lambda one: (-worth(one), -places[id(one)]))
    found: list[StandingWords] = []
    seen: set[frozenset[str]] = set()
    for sentence in ordered[:_LOOKED_AT]:
        later = said[places[id(sentence)] + 1 :]
        if (
            len(sentence.text) > chars_max
            or sentence.words in seen
            or _is_replaced(sentence, later)
        ):
            continue
        seen.add(sentence.words)
        chars_max -= len(sentence.text)
        found.append(StandingWords(sentence.exchange, sentence.text))
    return found


def _find_taken_up(exchange: Uptake) -> list[_Sentence]:
    """The sentences that stand, if any was said again."""
    replies = [_telling(text) for text in raw_sentences(exchange.reply[:_REPLY_CHARS])]
    found = []
    for text in raw_sentences(exchange.said[:_SAID_CHARS]):
        words = _telling(text)
        both = max((words & reply for reply in replies), key=len, default=frozenset[str]())
        if len(both) < max(_TAKEN_UP_LEAST, _TAKEN_UP_SHARE * len(words)):
            both = frozenset()
        if both or (words and has_quotation(text)):
            found.append(_Sentence(exchange.id, text, words, both))
    return found if any(sentence.taken_up for sentence in found) else []


def _telling(text: str) -> frozenset[str]:
    return frozenset(term for term in terms(text) if not is_common(term) and not is_pair(term))


def _is_replaced(sentence: _Sentence, later: Sequence[_Sentence]) -> bool:
    """Return whether a later sentence about the same has another value."""
    values, core = set(values_of(sentence.text)), sentence.core
    if not values or len(core) < _TAKEN_UP_LEAST:
        return False
    for other in later:
        if not core <= other.words:
            continue
        others, again = set(values_of(other.text)), other.core
        is_same = again <= sentence.words and len(core & again) >= _TAKEN_UP_LEAST
        if is_same and others and others != values:
            return True
    return False
