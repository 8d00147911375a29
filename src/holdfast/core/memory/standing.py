"""Standing instructions: what a person asked for in general or told of themselves, and the other
one took up.

Who accepts a rule says it again: "start attribute names with q_" is answered by "I'll start my
attribute names with q_". So a sentence stands where a sentence of the reply holds its words again.
Often the reply is just "noted", so a sentence with a quotation may stand too; it counts by how much
its words are those of the sentences that were taken up, rather than those of the rest. That needs
no list of words, and no language. Of two of the same matter, with another value, the later one
holds: the words of a matter are those that replies take up.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.extract.statements import raw_sentences
from holdfast.core.memory.search_terms import is_common, is_pair, terms
from holdfast.core.memory.superseded import (
    find_quotations,
    has_quotation,
    values_of,
    without_values,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_TAKEN_UP_LEAST: Final = 2
_TAKEN_UP_SHARE: Final = 0.2
"""Words of a sentence that a sentence of the reply has to hold."""
_SAID_CHARS: Final = 2_000
"""Of a message; rules come in short ones."""
_REPLY_CHARS: Final = 500
"""A longer reply answers: it is about the matter, and holds its words anyway."""
_SHOWN_CHARS: Final = 120
"""A longer sentence counts less: it takes the room of others."""
_LOOKED_AT: Final = 200
_BESIDE: Final = 1.0
"""The weight of a sentence that was not said again."""
_LIKE_RULES: Final = 1.0
_LIKE_RULES_ALONE: Final = 2.0
"""The weight of the likeness of a sentence to those that were said again, and where it was not."""
_ASKED: Final = 6.0
"""The weight of a word that the query has too."""
_MATTER_SHARE: Final = 0.3
"""A word says what a rule is about if so many of the sentences that hold it were answered by it."""
_MARGIN_CHARS: Final = 3
"""Around a sentence in a block."""
_LEFT_OUT: Final = " …"


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


class _Fact(msgspec.Struct, frozen=True):
    """One value in a sentence, and the words that say of what it is."""

    words: frozenset[str]
    values: frozenset[str]
    start: int
    """The beginning and end of its part of the sentence."""
    end: int


class _Sentence:
    """A sentence of a person, with a short reply."""

    def __init__(self, exchange: int, text: str, taken_up: frozenset[str]) -> None:
        self.exchange = exchange
        self.text = text
        self.words = _telling(text)
        self.taken_up = taken_up
        """Those of its words that the reply says again."""
        self.is_quoting = has_quotation(text)

    @cached_property
    def frame(self) -> frozenset[str]:
        """All words without the values, common ones too."""
        return frozenset(terms(without_values(self.text)))


def may_stand(said: str, reply: str) -> bool:
    """Return whether a sentence of what was said may stand, so that the reply is to be found."""
    if not reply or len(reply) > _REPLY_CHARS:
        return False
    exchange = Uptake(0, said, reply)
    return any(part.taken_up or part.is_quoting for part in _read(exchange))


def find_standing(
    exchanges: Sequence[Uptake], query: Mapping[str, float], chars_max: int
) -> list[StandingWords]:
    """The sentences that stand, the most telling first; together at most `chars_max` characters,
    with what a block puts around each.

    `exchanges` are in order of time.
    """
    read = [part for exchange in exchanges for part in _read(exchange)]
    likeness = _Likeness(read)
    said = [part for part in read if part.words and (part.taken_up or part.is_quoting)]
    held = Counter(word for sentence in said for word in sentence.words)

    def worth(sentence: _Sentence) -> float:
        rare = {word: math.log(1 + len(said) / held[word]) for word in sentence.words}
        taken_up = sum(rare[word] for word in sentence.taken_up)
        share = len(sentence.taken_up) / len(sentence.words)
        own = taken_up * math.sqrt(share) if sentence.taken_up else _BESIDE
        own *= 2 if sentence.is_quoting else 1
        own += likeness.of(sentence) * (_LIKE_RULES if sentence.taken_up else _LIKE_RULES_ALONE)
        asked = sum(worth for word, worth in rare.items() if query.get(word, 0.0) >= 1)
        length = max(1.0, len(sentence.text) / _SHOWN_CHARS)
        return (own + _ASKED * asked) / length

    in_force = _InForce(said)
    ordered = sorted(range(len(said)), key=lambda place: (-worth(said[place]), -place))
    found: list[StandingWords] = []
    seen: set[frozenset[str]] = set()
    for place in ordered[:_LOOKED_AT]:
        if chars_max <= _MARGIN_CHARS:
            break
        sentence = said[place]
        if sentence.words in seen:
            continue
        text = in_force.text(place)
        if text and len(text) + _MARGIN_CHARS <= chars_max:
            seen.add(sentence.words)
            chars_max -= len(text) + _MARGIN_CHARS
            found.append(StandingWords(sentence.exchange, text))
    return found


def _read(exchange: Uptake) -> list[_Sentence]:
    """The sentences of a person, with the words that one sentence of the reply says again."""
    replies = [_telling(text) for text in raw_sentences(exchange.reply[:_REPLY_CHARS])]
    found = []
    for text in raw_sentences(exchange.said[:_SAID_CHARS]):
        words = _telling(text)
        both = max((words & reply for reply in replies), key=len, default=frozenset[str]())
        if len(both) < max(_TAKEN_UP_LEAST, _TAKEN_UP_SHARE * len(words)):
            both = frozenset()
        found.append(_Sentence(exchange.id, text, both))
    return found


def _telling(text: str) -> frozenset[str]:
    return frozenset(term for term in terms(text) if not is_common(term) and not is_pair(term))


class _Likeness:
    """The likeness of sentences to rules: to those that quote a value and were taken up, against
    those that do neither."""

    def __init__(self, read: Sequence[_Sentence]) -> None:
        rules = [part.frame for part in read if part.taken_up and part.is_quoting]
        rest = [part.frame for part in read if not part.taken_up and not part.is_quoting]
        self._rules, self._rest = len(rules) + 1, len(rest) + 1
        self._in_rules = Counter(word for words in rules for word in words)
        self._in_rest = Counter(word for words in rest for word in words)

    def of(self, sentence: _Sentence) -> float:
        """At least 0."""
        words = sentence.frame
        odds = sum(
            math.log((self._in_rules[word] + 0.5) / self._rules)
            - math.log((self._in_rest[word] + 0.5) / self._rest)
            for word in sorted(words)  # the order of a sum must not depend on the process
        )
        return max(0.0, odds) / math.sqrt(max(1, len(words)))


class _InForce:
    """The parts of sentences that no later one replaced."""

    def __init__(self, said: Sequence[_Sentence]) -> None:
        """`said` are in order of time."""
        self._said = said
        again = Counter(word for part in said for word in part.taken_up)
        held = Counter(word for part in said if part.taken_up for word in part.words)
        self._matters = {word for word, n in again.items() if n >= _MATTER_SHARE * held[word]}
        self._known: dict[int, list[_Fact]] = {}

    def text(self, place: int) -> str:
        """The sentence without the values that are replaced; empty where nothing else is in it."""
        text, facts = self._said[place].text, self._facts(place)
        holds = [not self._is_replaced(fact, place) for fact in facts]
        if all(holds):
            return text
        if not any(holds):
            return ""
        parts = [
            text[fact.start : fact.end] if is_in_force else _LEFT_OUT
            for fact, is_in_force in zip(facts, holds, strict=True)
        ]
        return "".join(parts).strip()

    def _is_replaced(self, fact: _Fact, place: int) -> bool:
        """Return whether a later sentence gives another value to the same matter."""
        everything = self._matter(self._said[place].text)
        for later in range(place + 1, len(self._said)):
            if len(self._said[later].words & everything) < _TAKEN_UP_LEAST:
                continue
            around = self._matter(self._said[later].text)
            same = [
                other
                for other in self._facts(later)
                if fact.words
                and fact.words <= around
                and other.words <= everything
                and len(other.words & everything) >= _TAKEN_UP_LEAST
            ]
            if same:
                nearest = max(same, key=lambda one: _overlap(one.words, fact.words))
                if nearest.values != fact.values:
                    return True
        return False

    def _facts(self, place: int) -> list[_Fact]:
        if place not in self._known:
            self._known[place] = list(self._find_facts(self._said[place].text))
        return self._known[place]

    def _find_facts(self, text: str) -> Iterator[_Fact]:
        """The values, each with the words before it; all with all words, if some come after."""
        spans = find_quotations(text)
        starts = [0, *(end for _start, end in spans)]
        words = [
            self._matter(text[start:at]) for start, (at, _end) in zip(starts, spans, strict=False)
        ]
        if len(spans) < 2 or not all(words) or self._matter(text[starts[-1] :]):
            values = [text[at:end] for at, end in spans] or values_of(text)
            if values:
                yield _Fact(self._matter(text), frozenset(values), 0, len(text))
            return
        ends = [*(end for _at, end in spans[:-1]), len(text)]
        for start, (at, quoted), end, own in zip(starts, spans, ends, words, strict=False):
            yield _Fact(own, frozenset([text[at:quoted]]), start, end)

    def _matter(self, text: str) -> frozenset[str]:
        return _telling(without_values(text)) & self._matters


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)
