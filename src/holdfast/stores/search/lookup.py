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
_SHARED_POSTINGS_MAX: Final = 8_000
"""Places looked up for terms that sources have in common. Bounds the time of a query."""


class Places(Protocol):
    """A table with the passages of each term."""

    def count(self, term: str) -> int:
        """Return the number of passages that hold a term."""

    def total(self) -> int:
        """Return the number of passages."""

    def instances(self, term: str) -> list[int]:
        """Return the passages that hold a term, each as often as it does."""

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
    everywhere = {term: places.count(term) for term in query}
    total = max(1, places.total())
    # A term counts by its share until the number of its places inside is known.
    holding = {term: math.ceil(count * inside_total / total) for term, count in everywhere.items()}
    room = RECALL_POSTINGS_MAX
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
        often: Counter[int] = Counter()
        for id_, count in inside.items():
            weights[id_] += worth
            often[source_of(id_)] += count
        if inside:
            sources[term] = dict(often)
    exact = places.exact(phrase, _EXACT_MAX) if len(phrase) > 1 else []
    best = sorted(weights, key=lambda id_: (-weights[id_], -id_))[:RECALL_CANDIDATES_MAX]
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


def _rarest_first(holding: Mapping[str, int]) -> list[str]:
    """Return the terms that occur at all; common words last, however rare they are here."""
    return sorted(
        filter(holding.get, holding), key=lambda term: (is_common(term), holding[term], term)
    )
