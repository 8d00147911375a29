"""The words of a query: what each is worth, and which of them an exact hit holds."""

from __future__ import annotations

from collections import Counter
from typing import Final

from holdfast.core.memory.search_terms import is_common, terms

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
