"""Which passages answer a query best, and in which order they are shown.

Words are weighed by BM25, and meaning by vectors where there are any; both are scaled to the best
of their kind and added. Around a passage counts what stands next to it and what its source as a
whole says; what a person said counts a little more than what was answered, and of equals the newer
is first. A passage that holds exactly what was asked for is shown before all others, and more hits
from one source come later the more of it has been shown.

The order does not depend on how many hits are wanted: the first three of six are the three of
three.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.terms import is_common, is_identifier, terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SATURATION: Final = 1.2
_LENGTH_SHARE: Final = 0.75
"""The usual constants of BM25: how fast repetition stops counting, and how much length does."""
_SOURCE_SATURATION: Final = 2.0
"""In a whole source a term may well be repeated."""
_COMMON_WEIGHT: Final = 0.2
_EXACT_TERMS_MAX: Final = 6
"""A longer query is a question, and no passage has to hold all of its words."""
_DAY_SECONDS: Final = 86_400.0


class Weights(msgspec.Struct, frozen=True):
    """How much everything counts. The defaults were chosen on one half of three public sets of
    questions and judged on the other: docs/benchmarks/memory.md."""

    similarity: float = 1.0
    """Of meaning, beside words."""
    similarity_least: float = 0.15
    """A similarity that means nothing."""
    neighbour: float = 0.3
    """Of the better one of the two passages beside it."""
    source: float = 1.5
    """Of what the source as a whole says in the words of the query."""
    source_alone: float = 3.0
    """The same where there are no vectors."""
    source_best: float = 0.3
    """Of how near the three best passages of the source come in meaning."""
    source_mean: float = 0.6
    """Of how near the source as a whole does."""
    user: float = 0.05
    """For what a person said."""
    recency: float = 0.1
    recency_days: float = 30.0
    """For the newest, and after how many days it is half of that."""
    identifier: float = 0.3
    """For holding the rare names and numbers of the query."""
    again: float = 0.8
    """What is left of a score for each hit from the same source that is shown before it."""
    beside_shown: float = 0.8
    """And where the passage next to it is among them: who reads one is led to the other."""


NOTE_WEIGHTS: Final = Weights(
    neighbour=0.1,
    source=0.2,
    source_alone=0.2,
    source_best=0.0,
    source_mean=0.0,
    again=0.97,
    beside_shown=1.0,
)
"""A file of notes is no conversation: what stands beside a note says little about it."""


class Candidate(msgspec.Struct, frozen=True):
    """A passage that may answer."""

    id: int
    source: int
    place: int
    """Where in its source it stands: its neighbours are one less and one more."""
    words: float
    """Its weight by BM25."""
    similarity: float | None = None
    """By vectors, where there are any."""
    is_user: bool = False
    ts: float | None = None
    is_exact: bool = False
    """It holds exactly what was asked for."""
    identifiers: float = 0.0
    """Which share of the rare names in the query it holds."""


class Ranked(msgspec.Struct, frozen=True):
    id: int
    score: float


# What is asked


def asked(query: str) -> dict[str, float]:
    """The terms of a query and what each is worth. What is said twice is worth a little more."""
    counted = Counter(terms(query))
    return {
        term: (_COMMON_WEIGHT if is_common(term) else 1.0) * 2 * count / (count + 1)
        for term, count in counted.items()
    }


def essential(query: str) -> tuple[str, ...]:
    """The terms that an exact hit holds next to each other, in order; none where a query is long.

    What an identifier consists of is not asked for again beside the identifier itself.
    """
    found = [term for term in terms(query) if not is_common(term)]
    if not found or len(found) > _EXACT_TERMS_MAX:
        return ()
    return tuple(found)


def rarity(holding: int, total: int) -> float:
    """What a term is worth that so many of all passages hold."""
    holding = min(holding, total)
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))


def is_rare_identifier(term: str, holding: int, total: int) -> bool:
    return is_identifier(term) and 0 < holding <= max(3, total // 500)


def weight(count: int, length: int, average: float, saturation: float = _SATURATION) -> float:
    """How much a term counts that stands `count` times in a text of that many terms."""
    norm = 1 - _LENGTH_SHARE + _LENGTH_SHARE * length / max(average, 1.0)
    return count * (saturation + 1) / (count + saturation * norm)


def words_of_sources(
    counts: Mapping[str, Mapping[int, int]],
    query: Mapping[str, float],
    sizes: Mapping[int, int],
) -> dict[int, float]:
    """BM25 once more, over whole sources.

    `counts` says how often each term stands in which source; `sizes`, how many terms a source has.
    """
    average = sum(sizes.values()) / max(len(sizes), 1)
    found: defaultdict[int, float] = defaultdict(float)
    for term, sources in counts.items():
        worth = query[term] * rarity(len(sources), len(sizes))
        for source, count in sources.items():
            size = sizes.get(source, 1)
            found[source] += worth * weight(count, size, average, _SOURCE_SATURATION)
    return dict(found)


# The order


def ranked(
    candidates: Sequence[Candidate],
    sources: Mapping[int, float],
    *,
    means: Mapping[int, float] | None = None,
    newest: float = 0.0,
    weights: Weights | None = None,
) -> list[Ranked]:
    """The candidates in the order they are shown, best first.

    `sources` and `means` say what whole sources are worth, in words and in meaning; `newest`, when
    the latest was said.
    """
    weights = weights or Weights()
    scores = _scores(candidates, sources, means or {}, newest, weights)
    return _spread(candidates, scores, weights)


def _scores(
    candidates: Sequence[Candidate],
    sources: Mapping[int, float],
    means: Mapping[int, float],
    newest: float,
    weights: Weights,
) -> dict[int, float]:
    """Between 0 and 1: what each is worth as a share of all there is to be had."""
    has_meaning = any(one.similarity is not None for one in candidates)
    own = _own(candidates, weights)
    beside = _beside(candidates, own)
    whole = _whole(candidates, sources, means, weights, has_meaning=has_meaning)
    most = _most(weights, has_meaning=has_meaning)
    scores = {}
    for one in candidates:
        score = own[one.id] + weights.neighbour * beside[one.id]
        score *= 1 + weights.user * one.is_user
        score += whole.get(one.source, 0.0)
        score += weights.identifier * one.identifiers
        if one.ts is not None:
            days = max(0.0, newest - one.ts) / _DAY_SECONDS
            score += weights.recency * 0.5 ** (days / weights.recency_days)
        scores[one.id] = score / most
    return scores


def _most(weights: Weights, *, has_meaning: bool) -> float:
    """What a passage is worth that is the best in everything."""
    own = (1 + weights.similarity * has_meaning) * (1 + weights.neighbour) * (1 + weights.user)
    whole = weights.source_alone
    if has_meaning:
        whole = weights.source + weights.source_best + weights.source_mean
    return own + whole + weights.identifier + weights.recency


def _whole(
    candidates: Sequence[Candidate],
    sources: Mapping[int, float],
    means: Mapping[int, float],
    weights: Weights,
    *,
    has_meaning: bool,
) -> dict[int, float]:
    """What a passage gains from its source."""
    words = _scaled(sources)
    if not has_meaning:
        return {source: weights.source_alone * worth for source, worth in words.items()}
    best = _scaled(_nearness(candidates, weights))
    least = weights.similarity_least
    mean = _scaled({source: max(0.0, value - least) for source, value in means.items()})
    return {
        source: weights.source * words.get(source, 0.0)
        + weights.source_best * best.get(source, 0.0)
        + weights.source_mean * mean.get(source, 0.0)
        for source in {one.source for one in candidates}
    }


def _own(candidates: Iterable[Candidate], weights: Weights) -> dict[int, float]:
    """Words and meaning, each scaled to the best."""
    words = _scaled({one.id: one.words for one in candidates})
    meaning = _scaled({one.id: _meaning(one, weights) for one in candidates})
    return {id_: words[id_] + weights.similarity * meaning[id_] for id_ in words}


def _meaning(one: Candidate, weights: Weights) -> float:
    return max(0.0, (one.similarity or 0.0) - weights.similarity_least)


def _beside(candidates: Iterable[Candidate], own: Mapping[int, float]) -> dict[int, float]:
    """For each passage the better one of its neighbours, as far as they are candidates."""
    places = {(one.source, one.place): own[one.id] for one in candidates}
    return {
        one.id: max(
            places.get((one.source, one.place - 1), 0.0),
            places.get((one.source, one.place + 1), 0.0),
        )
        for one in candidates
    }


def _nearness(candidates: Iterable[Candidate], weights: Weights) -> dict[int, float]:
    best: defaultdict[int, list[float]] = defaultdict(list)
    for one in candidates:
        best[one.source].append(_meaning(one, weights))
    return {source: sum(heapq.nlargest(3, found)) for source, found in best.items()}


def _scaled(values: Mapping[int, float]) -> dict[int, float]:
    """Between 0 and 1: the best is 1, and nothing is 0."""
    most = max(values.values(), default=0.0)
    return {key: value / most if most > 0 else 0.0 for key, value in values.items()}


def _spread(
    candidates: Sequence[Candidate], scores: Mapping[int, float], weights: Weights
) -> list[Ranked]:
    """Best first, and each source the later the more of it has been shown. Exact hits are first.

    A heap of what each is worth by now: what turns out to be worth less goes back into it.
    """
    by_id = {one.id: one for one in candidates}
    shown: Counter[int] = Counter()
    places: set[tuple[int, int]] = set()

    def worth(one: Candidate) -> tuple[bool, float, float, int]:
        left = scores[one.id] * weights.again ** shown[one.source]
        if not places.isdisjoint(((one.source, one.place - 1), (one.source, one.place + 1))):
            left *= weights.beside_shown
        # Of equals the newer, then the one that was written later.
        return not one.is_exact, -left, -(one.ts or 0.0), -one.id

    heap = [worth(one) for one in candidates]
    heapq.heapify(heap)
    order: list[Ranked] = []
    while heap:
        is_other, value, ts, id_ = heapq.heappop(heap)
        one = by_id[-id_]
        now = worth(one)
        if now != (is_other, value, ts, id_):
            heapq.heappush(heap, now)
            continue
        order.append(Ranked(one.id, -value))
        shown[one.source] += 1
        places.add((one.source, one.place))
    return order
