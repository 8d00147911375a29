"""Find the sentences that answer a question, by the words and the ranking of memory search."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.extract.statements import split_sentences
from holdfast.core.memory.ranking import Candidate, Weights, query_terms, rank, rarity, weight
from holdfast.core.memory.search_terms import is_common, terms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SENTENCE_CHARS: Final = 400
"""Longer lines are taken in pieces: a quote is to be read."""
_SHARE_MIN: Final = 0.55
"""Of a question's weight, what a sentence and its neighbours have to hold to be worth quoting: of
two words that are equally rare, one is not enough."""
_SCORE_SHARE_MIN: Final = 0.5
"""Of the best score, what another sentence needs to be quoted beside it."""
_WEIGHTS: Final = Weights(opening=0.0)
"""The user's words count double, beside files and other results; nothing opens a session here."""

_ASKING: Final = frozenset(
    (
        *("answer", "anything", "called", "exactly", "mean", "need", "question", "quote"),
        *("remember", "said", "say", "show", "something", "thing", "used"),
    )
)
"""Words of questions that their answers need not have, beside those that are common anywhere."""


class Sentence(msgspec.Struct, frozen=True):
    """A sentence, and where it stands."""

    text: str
    source: str
    place: int = 0
    """Of the message it is in: later ones are newer."""
    is_user: bool = False


def sentences(text: str) -> Iterator[str]:
    """A text's sentences and lines, none of them blank or very long."""
    for piece in split_sentences(text):
        line = (piece or "").strip()
        for at in range(0, len(line), SENTENCE_CHARS):
            yield line[at : at + SENTENCE_CHARS].strip()


def has_terms(text: str) -> bool:
    """A text has words to search for."""
    return bool(_telling_terms(text))


def find_quotes(question: str, known: Sequence[Sentence], count: int) -> list[Sentence]:
    """The sentences that hold most of a question's weight, the best first; of equals, the newest.

    None where nothing holds enough of it. Words of the sentences around one count for it too:
    `The server is called heron. Its port is 1.` says the port of heron.
    """
    wanted = _telling_terms(question)
    words = [Counter(terms(sentence.text)) for sentence in known]
    holding = Counter(term for counts in words for term in counts)
    worth = {term: wanted[term] * rarity(max(1, holding[term]), len(known)) for term in wanted}
    average = sum(counts.total() for counts in words) / max(1, len(words))
    candidates = []
    for at, counts in enumerate(words):
        own = {term: counts[term] for term in worth if term in counts}
        held = {*own, *(term for near in _beside(at, known) for term in words[near])}
        share = sum(worth[term] for term in worth if term in held)
        if not own or share < _SHARE_MIN * sum(worth.values()):
            continue
        score = sum(
            worth[term] * weight(times, counts.total(), average) for term, times in own.items()
        )
        candidates.append(Candidate(at, known[at].place, at, score, is_user=known[at].is_user))
    order = rank(candidates, {}, weights=_WEIGHTS)
    best = order[0].score if order else 0.0
    found: dict[str, Sentence] = {}
    for hit in order:
        if hit.score >= _SCORE_SHARE_MIN * best:
            found.setdefault(" ".join(known[hit.id].text.lower().split()), known[hit.id])
    return list(found.values())[:count]


def _telling_terms(text: str) -> dict[str, float]:
    left_out = {term for word in _ASKING for term in terms(word)}
    return {
        term: worth
        for term, worth in query_terms(text).items()
        if not is_common(term) and term not in left_out
    }


def _beside(at: int, known: Sequence[Sentence]) -> Iterator[int]:
    """The sentences next to one in the same text."""
    here = (known[at].source, known[at].place)
    for other in (at - 1, at + 1):
        if 0 <= other < len(known) and (known[other].source, known[other].place) == here:
            yield other
