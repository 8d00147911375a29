"""The search itself, over whatever table holds the terms: bounded, the rarest terms first.

A query costs what its rarest terms cost: it looks up a bounded number of places, and looks closely
at a bounded number of passages, however many there are.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, Protocol

from holdfast.core.limits import RECALL_CANDIDATES_MAX, RECALL_POSTINGS_MAX
from holdfast.core.memory.ranking import rarity
from holdfast.core.memory.search_terms import is_common
from holdfast.ports.search_index import Matches, source_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.ports.search_index import IndexSource

_EXACT_MAX: Final = 50
"""Passages with the words of the query next to each other; more of them say nothing new."""
_SHARED_POSTINGS_MAX: Final = 3_000
"""Places looked up for terms that sources have in common. Bounds the time of a query."""
_COMMON_COUNTED_MAX: Final = 500
"""Passages of a common word that are counted. Such words are everywhere: the first passages tell
how often."""


class Places(Protocol):
    """A table with the passages of each term."""

    def count(self, term: str, most: int | None = None) -> int:
        """Return the number of passages that hold a term; counting ends at `most`."""

    def total(self) -> int:
        """Return the number of passages."""

    def instances(self, term: str) -> list[int]:
        """Return the passages that hold a term, each as often as it does."""

    def oldest(self, term: str, limit: int) -> list[int]:
        """Return the first passages that hold a term, in their order."""

    def newest(self, term: str, limit: int) -> list[int]:
        """Return the newest passages that hold a term."""

    def exact(self, phrase: Sequence[str], limit: int) -> list[int]:
        """Return the newest passages that hold these terms next to each other."""


def match(
    places: Places,
    query: Mapping[str, float],
    phrase: Sequence[str],
    allowed: Mapping[int, IndexSource],
) -> Matches:
    """Return the passages of the allowed sources that hold terms of the query.

    The rarest terms are looked up first, and all of their places; of terms that are everywhere, as
    many of the newest as there is room for. Common words are looked up only where there is nothing
    else.
    """
    inside_total = sum(source.passages for source in allowed.values())
    weights: defaultdict[int, float] = defaultdict(float)
    sources: dict[str, dict[int, int]] = {}
    total = max(1, places.total())
    everywhere = {term: _count(places, term, total, allowed) for term in query}
    # A term counts by its share until the number of its places inside is known.
    holding = {term: math.ceil(count * inside_total / total) for term, count in everywhere.items()}
    room, full = RECALL_POSTINGS_MAX, 0.0
    for term in _rarest_first(everywhere):
        if room <= 0 or (weights and is_common(term)):
            break
        is_whole = everywhere[term] <= room
        found = places.instances(term) if is_whole else places.newest(term, room)
        inside = Counter(id_ for id_ in found if source_of(id_) in allowed)
        room -= len(found)
        if is_whole:
            holding[term] = len(inside)
        worth = query[term] * rarity(holding[term], inside_total)
        full += worth * (is_whole and term in phrase)
        often: Counter[int] = Counter()
        for id_, count in inside.items():
            weights[id_] += worth
            often[source_of(id_)] += count
        if inside:
            sources[term] = dict(often)
    best = sorted(weights, key=lambda id_: (-weights[id_], -id_))
    # A passage with the whole phrase weighs at least `full`: often all of those are among the best.
    is_sure = full > 0 and all(weights[id_] < full for id_ in best[RECALL_CANDIDATES_MAX:][:1])
    exact = places.exact(phrase, _EXACT_MAX) if len(phrase) > 1 and not is_sure else []
    best = best[:RECALL_CANDIDATES_MAX]
    more = [id_ for id_ in exact if source_of(id_) in allowed]
    return Matches(holding, sources, list(dict.fromkeys([*more, *best])))


def count_by_source(
    places: Places, holding: Mapping[str, int], allowed: Mapping[int, IndexSource]
) -> dict[str, dict[int, int]]:
    """Return how often each term occurs in each of the allowed sources, the rarest first."""
    found: dict[str, dict[int, int]] = {}
    room = _SHARED_POSTINGS_MAX
    for term in _rarest_first(holding):
        if holding[term] > room:
            break
        instances = places.instances(term)
        room -= len(instances)
        often = Counter(source_of(id_) for id_ in instances if source_of(id_) in allowed)
        if often:
            found[term] = dict(often)
    return found


def _count(places: Places, term: str, total: int, allowed: Mapping[int, IndexSource]) -> int:
    """Return the number of passages that hold a term; of a common word in many, about as many."""
    if not is_common(term):
        return places.count(term)
    found = places.oldest(term, _COMMON_COUNTED_MAX)
    inside = [id_ for id_ in found if source_of(id_) in allowed]
    if len(found) < _COMMON_COUNTED_MAX or not inside:
        return len(found)
    last = source_of(inside[-1])
    among = sum(source.passages for source in allowed.values() if source.id <= last)
    return max(len(found), total * len(inside) // max(1, among))


def _rarest_first(holding: Mapping[str, int]) -> list[str]:
    """Return the terms that occur at all; common words last, however rare they are here."""
    return sorted(
        filter(holding.get, holding), key=lambda term: (is_common(term), holding[term], term)
    )
