"""The terms of the sources that answer best, which are asked for once more."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from holdfast.core.memory.ranking import rarity
from holdfast.core.memory.search_terms import is_common

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SAID_OFTEN: Final = 2
_TERMS_OF_LEADER: Final = 40
_TELLING_TERMS: Final = 20
"""Bounds on terms of leading sources: occurrences of a term, terms weighed, terms asked for."""


def often_said(found: Iterable[str]) -> dict[str, int]:
    """The terms that a source says again and again, and how often."""
    counted = Counter(term for term in found if not is_common(term))
    often = sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:_TERMS_OF_LEADER]
    return {term: count for term, count in often if count >= _SAID_OFTEN}


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
