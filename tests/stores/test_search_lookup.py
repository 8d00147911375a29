"""The search over a table of terms: bounded, whatever the number of passages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.core.memory.search_terms import is_common, terms
from holdfast.ports.side_stores import PLACE_BITS, IndexSource
from holdfast.stores.search import match

if TYPE_CHECKING:
    from collections.abc import Sequence

EACH = 50
"""Passages of a source."""


class CountedPlaces:
    """Sources of 50 passages. A common word is in two of three of them, another term in one of
    seven, and a name in the last passage. Counts the places that are handed out."""

    def __init__(self, total: int) -> None:
        self._total = total
        self.places = 0

    def _found(self, term: str) -> list[int]:
        numbers = range(self._total)
        if term == "zanzibar":
            numbers = numbers[-1:]
        elif is_common(term):
            numbers = [number for number in numbers if number % 3]  # type: ignore[assignment]
        else:
            numbers = numbers[::7]
        return [((number // EACH) << PLACE_BITS) + number % EACH for number in numbers]

    def _hand_out(self, found: list[int]) -> list[int]:
        self.places += len(found)
        return found

    def count(self, term: str, most: int | None = None) -> int:
        return len(self._hand_out(self._found(term)[:most])) if most else len(self._found(term))

    def total(self) -> int:
        return self._total

    def instances(self, term: str) -> list[int]:
        return self._hand_out(self._found(term))

    def oldest(self, term: str, limit: int) -> list[int]:
        return self._hand_out(self._found(term)[:limit])

    def newest(self, term: str, limit: int) -> list[int]:
        return self._hand_out(self._found(term)[::-1][:limit])

    def exact(self, phrase: Sequence[str], limit: int) -> list[int]:
        return self.newest(min(phrase, key=lambda term: len(self._found(term))), limit)


def sources_of(total: int) -> dict[int, IndexSource]:
    return {
        number: IndexSource(number, "session", f"main/s{number}", "", "", EACH, 9 * EACH, 0.0, 0.0)
        for number in range(total // EACH)
    }


def test_a_query_looks_up_no_more_in_a_large_index() -> None:
    """Ten times the passages: no more places than the bound has."""
    query = dict.fromkeys(terms("what did i say about the harbour in zanzibar"), 1.0)
    handed = {}
    for total in (30_000, 300_000):
        places = CountedPlaces(total)
        found = match(places, query, list(query), sources_of(total))
        handed[total] = places.places
        last = ((total // EACH - 1) << PLACE_BITS) + EACH - 1
        assert last in found.best, "the passage with the rare name"
    assert handed[300_000] <= 1.1 * handed[30_000]


@pytest.mark.parametrize("total", [300, 3_000, 300_000])
def test_a_common_word_is_counted_about_right(total: int) -> None:
    """Its share of all passages is known from the first ones."""
    word = "what"
    assert is_common(word)
    found = match(CountedPlaces(total), {word: 1.0, "harbour": 1.0}, (), sources_of(total))
    assert found.holding[word] == pytest.approx(total * 2 / 3, rel=0.05)
