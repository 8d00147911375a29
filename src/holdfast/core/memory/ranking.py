"""Which passages answer a query best, and in which order they are shown.

Words are weighed by BM25, and meaning by vectors where there are any; both are scaled to the best
of their kind and added. Around a passage counts what stands next to it and what its source as a
whole says; what a person said counts a little more than what was answered, and the newer more than
the older. What the sources that answer best say is asked for once more: a matter is seldom spoken
of only once, and not always in the words of the query. A passage that holds exactly what was asked
for is shown before all others, and more hits from one source come later the more of it has been
shown.

The order does not depend on how many hits are wanted: the first three of six are the three of
three.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from holdfast.core.memory.search_terms import estimate, is_common, is_identifier, terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SATURATION: Final = 1.2
_LENGTH_SHARE: Final = 0.75
"""The usual constants of BM25: how fast repetition stops counting, and how much length does."""
_SOURCE_SATURATION: Final = 2.0
"""In a whole source a term may well be repeated."""
_LEADERS: Final = 3
"""Leading sources that suggest further terms. More of them are more often wrong."""
_TOLD_USUAL: Final = 0.6
"""The share of a short question that a passage says which answers it."""
_DAY_SECONDS: Final = 86_400.0


class Weights(msgspec.Struct, frozen=True):
    """The weight of each signal. The defaults were chosen on one half of three public sets of
    questions and judged on the other: docs/benchmarks/memory.md."""

    similarity: float = 0.6
    """Of meaning, beside words."""
    similarity_least: float = 0.15
    """A similarity that means nothing."""
    neighbour: float = 0.15
    """Of the better one of the two passages beside it."""
    neighbour_alone: float = 0.3
    """The same where there are no vectors."""
    source: float = 1.5
    """Of what the source as a whole says in the words of the query."""
    source_alone: float = 3.0
    """The same where there are no vectors."""
    source_best: float = 0.3
    """Of how near the three best passages of the source come in meaning."""
    source_mean: float = 0.6
    """Of how near the source as a whole does."""
    alike_words: float = 2.0
    """Of what the source has in common, in words, with the sources that answer best."""
    alike_words_alone: float = 2.0
    """The same where there are no vectors."""
    alike_meaning: float = 2.0
    """Of how near it comes to them in meaning."""
    user: float = 1.0
    """For what a person said, against long replies to it."""
    opening: float = 0.5
    """For the words a session begins with: they say what it is about."""
    opening_source: float = 0.5
    """The same, by how well its session answers in the words of the query."""
    told: float = 1.5
    """The power of the share of the query that its best passage says, for what single passages say:
    where none says much of it, the sessions count, and what they begin with."""
    untold: float = 1.0
    """The power of the other share, for what sessions begin with."""
    named_time: float = 0.6
    """For what was said at a time that the question names."""
    recency: float = 1.0
    recency_alone: float = 0.1
    """For the newest; and where there are no vectors, between equals."""
    recency_days: float = 30.0
    """After how many days it is half of that."""
    identifier: float = 0.3
    """For holding the rare names and numbers of the query."""
    again: float = 0.9
    """The factor on a score for each hit from the same source that ranks before it."""


NOTE_WEIGHTS: Final = Weights(
    similarity=1.0,
    neighbour=0.1,
    neighbour_alone=0.1,
    source=0.2,
    source_alone=0.2,
    source_best=0.0,
    source_mean=0.0,
    alike_words=0.0,
    alike_words_alone=0.0,
    alike_meaning=0.0,
    recency=0.1,
    again=0.97,
    user=0.05,
    opening=0.0,
    opening_source=0.0,
    told=0.0,
    untold=0.0,
)
"""A file of notes is no conversation: what stands beside a note says little about it."""


class Candidate(msgspec.Struct, frozen=True):
    """A passage that may answer."""

    id: int
    source: int
    place: int
    """Its position in its source; the neighbours are one less and one more."""
    words: float
    """Its weight by BM25."""
    similarity: float | None = None
    """By vectors, where there are any."""
    is_user: bool = False
    ts: float | None = None
    is_exact: bool = False
    """It holds exactly what was asked for."""
    is_on_asked_day: bool = False
    """It was said on a day that the question names in full."""
    is_at_named_time: bool = False
    """It was said at a time that the question names."""
    identifiers: float = 0.0
    """Which share of the rare names in the query it holds."""


class Alike(msgspec.Struct, frozen=True):
    """The similarity of sources to those that answer best: in words, and in meaning."""

    words: dict[int, float] = {}
    meaning: dict[int, float] = {}


class Ranked(msgspec.Struct, frozen=True):
    id: int
    score: float


def rarity(holding: int, total: int) -> float:
    """Return the weight of a term that so many of all passages hold."""
    holding = min(holding, total)
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))


def is_rare_identifier(term: str, holding: int, total: int) -> bool:
    return is_identifier(term) and 0 < holding <= max(3, total // 500)


def weight(count: int, length: int, average: float, saturation: float = _SATURATION) -> float:
    """Return the weight of a term that occurs `count` times in a text of that many terms."""
    return count * (saturation + 1) / (count + saturation * length_share(length, average))


def length_share(length: int, average: float) -> float:
    """Return how much a text of that many terms has to hold a term for the same weight."""
    return 1 - _LENGTH_SHARE + _LENGTH_SHARE * length / max(average, 1.0)


def words_of_sources(
    counts: Mapping[str, Mapping[int, int]],
    query: Mapping[str, float],
    sizes: Mapping[int, int],
) -> dict[int, float]:
    """BM25 once more, over whole sources.

    `counts` says how often each term stands in which source; `sizes`, how many terms a source has.
    """
    average = sum(sizes.values()) / max(len(sizes), 1)
    shares = {
        source: _SOURCE_SATURATION * length_share(sizes.get(source, 1), average)
        for source in set().union(*counts.values())
    }
    found = dict.fromkeys(shares, 0.0)
    for term, sources in counts.items():
        worth = query[term] * rarity(len(sources), len(sizes)) * (_SOURCE_SATURATION + 1)
        for source, count in sources.items():  # `weight`, without a call for each
            found[source] += worth * count / (count + shares[source])
    return found


# What is asked for once more


def leaders(
    candidates: Sequence[Candidate],
    sources: Mapping[int, float],
    *,
    means: Mapping[int, float] | None = None,
    newest: float = 0.0,
    coverage: float = 1.0,
    told: float | None = None,
    weights: Weights | None = None,
) -> list[tuple[Candidate, float]]:
    """The best passages of the sources that answer best, one of each, with the share of each."""
    weights = weights or Weights()
    scores = _scores(candidates, sources, means or {}, Alike(), newest, coverage, told, weights)
    best: dict[int, Candidate] = {}
    for candidate in sorted(
        candidates,
        key=lambda candidate: (-scores[candidate.id], -(candidate.ts or 0.0), -candidate.id),
    ):
        best.setdefault(candidate.source, candidate)
        if len(best) == _LEADERS:
            break
    total = sum(scores[item.id] for item in best.values())
    return [(item, scores[item.id] / total) for item in best.values() if scores[item.id] > 0]


# The order


def rank(
    candidates: Sequence[Candidate],
    sources: Mapping[int, float],
    *,
    means: Mapping[int, float] | None = None,
    alike: Alike | None = None,
    newest: float = 0.0,
    coverage: float = 1.0,
    told: float | None = None,
    weights: Weights | None = None,
) -> list[Ranked]:
    """The candidates in the order they are shown, best first.

    `sources` and `means` say what whole sources are worth, in words and in meaning; `alike`, what
    they have in common with the best of them; `newest`, when the latest was said; `coverage`, the
    share of all passages that have a vector; `told`, the share of the query that its best passage
    says, if that is known.
    """
    weights = weights or Weights()
    likeness = alike or Alike()
    scores = _scores(candidates, sources, means or {}, likeness, newest, coverage, told, weights)
    return _spread(candidates, scores, weights)


def _scores(
    candidates: Sequence[Candidate],
    sources: Mapping[int, float],
    means: Mapping[int, float],
    alike: Alike,
    newest: float,
    coverage: float,
    told: float | None,
    weights: Weights,
) -> dict[int, float]:
    """Between 0 and 1. Where some passages have no vector, what words alone say counts by their
    share, and what is not known of their meaning is estimated by their words."""
    known = {item.id: item.similarity for item in candidates if item.similarity is not None}
    if coverage >= 1 or not known:
        return _worths(candidates, sources, means, alike, newest, told, weights)
    least = weights.similarity_least
    meaning = {id_: max(0.0, similarity - least) for id_, similarity in known.items()}
    meaning = estimate(meaning, {item.id: item.words for item in candidates})
    filled = [replace(item, similarity=least + meaning[item.id]) for item in candidates]
    bare = [replace(item, similarity=None) for item in candidates]
    likely = Alike(alike.words, estimate(alike.meaning, alike.words))
    full = _worths(filled, sources, estimate(means, sources), likely, newest, told, weights)
    alone = _worths(bare, sources, {}, Alike(alike.words), newest, told, weights)
    return {id_: coverage * full[id_] + (1 - coverage) * alone[id_] for id_ in full}


def _worths(
    candidates: Sequence[Candidate],
    sources: Mapping[int, float],
    means: Mapping[int, float],
    alike: Alike,
    newest: float,
    told: float | None,
    weights: Weights,
) -> dict[int, float]:
    """Between 0 and 1: what each is worth as a share of all there is to be had."""
    has_meaning = any(candidate.similarity is not None for candidate in candidates)
    own = _own(candidates, weights)
    beside = _beside(candidates, own)
    whole = _whole(candidates, sources, means, alike, weights, has_meaning=has_meaning)
    of_passage, of_opening = (1.0, 1.0) if has_meaning else _balance(told, weights)
    by_source = {} if has_meaning else _scale(sources)
    most = _most(weights, of_passage, of_opening, has_meaning=has_meaning)
    most += weights.named_time * any(item.is_at_named_time for item in candidates)
    recency = weights.recency if has_meaning else weights.recency_alone
    neighbour = weights.neighbour if has_meaning else weights.neighbour_alone
    scores = {}
    for item in candidates:
        score = own[item.id] + neighbour * beside[item.id]
        score *= of_passage * (1 + weights.user * item.is_user)
        score += whole[item.source]
        if item.place == 0:
            answers = by_source.get(item.source, 0.0)
            score += of_opening * (weights.opening + weights.opening_source * answers)
        score += weights.identifier * item.identifiers
        score += weights.named_time * item.is_at_named_time
        if item.ts is not None:
            days = max(0.0, newest - item.ts) / _DAY_SECONDS
            score += recency * 0.5 ** (days / weights.recency_days)
        scores[item.id] = score / most
    return scores


def _balance(told: float | None, weights: Weights) -> tuple[float, float]:
    """The factors on what a passage says itself, and on the beginning of a session."""
    if told is None:
        return 1.0, 1.0
    of_passage = (told / _TOLD_USUAL) ** weights.told
    return of_passage, ((1 - told) / (1 - _TOLD_USUAL)) ** weights.untold


def _most(weights: Weights, of_passage: float, of_opening: float, *, has_meaning: bool) -> float:
    """Return the largest possible score of a passage."""
    neighbour = weights.neighbour if has_meaning else weights.neighbour_alone
    own = (1 + weights.similarity * has_meaning) * (1 + neighbour) * (1 + weights.user)
    own *= of_passage
    if not has_meaning:
        whole = weights.source_alone + weights.alike_words_alone
        whole += of_opening * (weights.opening + weights.opening_source)
        return own + whole + weights.identifier + weights.recency_alone
    whole = weights.source + weights.source_best + weights.source_mean
    whole += weights.alike_words + weights.alike_meaning
    return own + whole + weights.opening + weights.identifier + weights.recency


def _whole(
    candidates: Sequence[Candidate],
    sources: Mapping[int, float],
    means: Mapping[int, float],
    alike: Alike,
    weights: Weights,
    *,
    has_meaning: bool,
) -> dict[int, float]:
    """Return the score that each passage gains from its source."""
    if has_meaning:
        parts = [
            (weights.source, sources),
            (weights.source_best, _nearness(candidates, weights)),
            (weights.source_mean, means),
            (weights.alike_words, alike.words),
            (weights.alike_meaning, alike.meaning),
        ]
    else:
        parts = [(weights.source_alone, sources), (weights.alike_words_alone, alike.words)]
    whole = dict.fromkeys({candidate.source for candidate in candidates}, 0.0)
    for share, values in parts:
        most = max(values.values(), default=0.0)
        for source in whole if most > 0 else ():
            whole[source] += share * max(0.0, values.get(source, 0.0)) / most
    return whole


def _own(candidates: Iterable[Candidate], weights: Weights) -> dict[int, float]:
    """Words and meaning, each scaled to the best."""
    words = _scale({candidate.id: candidate.words for candidate in candidates})
    meaning = _scale({candidate.id: _meaning(candidate, weights) for candidate in candidates})
    return {id_: words[id_] + weights.similarity * meaning[id_] for id_ in words}


def _meaning(one: Candidate, weights: Weights) -> float:
    return max(0.0, (one.similarity or 0.0) - weights.similarity_least)


def _beside(candidates: Iterable[Candidate], own: Mapping[int, float]) -> dict[int, float]:
    """For each passage the better one of its neighbours, as far as they are candidates."""
    places = {(candidate.source, candidate.place): own[candidate.id] for candidate in candidates}
    return {
        candidate.id: max(
            places.get((candidate.source, candidate.place - 1), 0.0),
            places.get((candidate.source, candidate.place + 1), 0.0),
        )
        for candidate in candidates
    }


def _nearness(candidates: Iterable[Candidate], weights: Weights) -> dict[int, float]:
    best: defaultdict[int, list[float]] = defaultdict(list)
    for candidate in candidates:
        best[candidate.source].append(_meaning(candidate, weights))
    return {source: sum(heapq.nlargest(3, found)) for source, found in best.items()}


def _scale(values: Mapping[int, float]) -> dict[int, float]:
    """Between 0 and 1: the best is 1, and nothing is 0."""
    most = max(values.values(), default=0.0)
    return {key: max(0.0, value) / most if most > 0 else 0.0 for key, value in values.items()}


def _spread(
    candidates: Sequence[Candidate], scores: Mapping[int, float], weights: Weights
) -> list[Ranked]:
    """Best first, and each source the later the more of it has been shown. Hits of a day that the
    question names in full are first, and exact ones.

    A heap of what each is worth by now: what turns out to be worth less goes back into it.
    """
    by_id = {candidate.id: candidate for candidate in candidates}
    shown: Counter[int] = Counter()

    def worth(one: Candidate) -> tuple[bool, bool, float, float, int]:
        left = scores[one.id] * weights.again ** shown[one.source]
        # Of equals the newer, then the one that was written later.
        return not one.is_on_asked_day, not one.is_exact, -left, -(one.ts or 0.0), -one.id

    heap = [worth(candidate) for candidate in candidates]
    heapq.heapify(heap)
    order: list[Ranked] = []
    while heap:
        then = heapq.heappop(heap)
        one = by_id[-then[-1]]
        now = worth(one)
        if now != then:
            heapq.heappush(heap, now)
            continue
        order.append(Ranked(one.id, -now[2]))
        shown[one.source] += 1
    return order


_COMMON_WEIGHT: Final = 0.2
_EXACT_TERMS_MAX: Final = 6
"""A longer query is a question, and no passage has to hold all of its words."""


def query_terms(query: str) -> dict[str, float]:
    """The terms of a query and what each is worth. What is said twice is worth a little more."""
    return {
        term: (_COMMON_WEIGHT if is_common(term) else 1.0) * 2 * count / (count + 1)
        for term, count in Counter(terms(query)).items()
    }


def essential(query: str) -> tuple[str, ...]:
    """The terms that an exact hit holds next to each other, in order; none where a query is long.

    What an identifier consists of is not asked for again beside the identifier itself.
    """
    found = [term for term in terms(query) if not is_common(term)]
    if not found or len(found) > _EXACT_TERMS_MAX:
        return ()
    return tuple(found)


_SAID_OFTEN: Final = 2
_TERMS_OF_LEADER: Final = 40
_TELLING_TERMS: Final = 20
"""Bounds on terms of leading sources: occurrences of a term, terms weighed, terms asked for."""


def often_said(found: Iterable[str]) -> dict[str, int]:
    """The terms that a source says again and again, and how often."""
    counted = [(term, count) for term, count in Counter(found).items() if count >= _SAID_OFTEN]
    telling = [pair for pair in counted if not is_common(pair[0])]
    return dict(sorted(telling, key=lambda pair: (-pair[1], pair[0]))[:_TERMS_OF_LEADER])


def telling(
    said: Sequence[tuple[float, Mapping[str, int]]], holding: Mapping[str, int], total: int
) -> dict[str, float]:
    """Return the terms that set leading sources apart, each with its weight.

    `said` is the share of each leader with its terms; `holding`, how many of all passages hold a
    term. A long source has no more to say in this than a short one.
    """
    worth: defaultdict[str, float] = defaultdict(float)
    for share, counts in said:
        weighed = {
            term: (1 + math.log(count)) * rarity(holding.get(term, 0), total)
            for term, count in counts.items()
        }
        length = math.hypot(*weighed.values()) or 1.0
        for term, value in weighed.items():
            worth[term] += share * value / length
    return dict(sorted(worth.items(), key=lambda one: (-one[1], one[0]))[:_TELLING_TERMS])
