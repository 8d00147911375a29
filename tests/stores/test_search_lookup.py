"""The search over lists of terms: bounded, whatever the number of passages."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.memory.ranking import query_terms, rarity
from holdfast.core.memory.search_terms import is_common, terms
from holdfast.ports.side_stores import (
    PLACE_BITS,
    IndexPassage,
    IndexSource,
    NewSource,
    source_of,
)
from holdfast.stores.search.segments import PassageFacts
from holdfast.stores.search.sqlite import SqliteSearchIndex
from holdfast.stores.search.tables import match

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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

    def _hand_out(self, found: list[int]) -> dict[int, int]:
        self.places += len(found)
        return dict.fromkeys(found, 1)

    def total(self) -> int:
        return self._total

    def counts(self, terms: Iterable[str]) -> dict[str, int]:
        return {term: len(self._found(term)) for term in terms}

    def lists(self, terms: Iterable[str]) -> dict[str, dict[int, int]]:
        return {term: self._hand_out(self._found(term)) for term in terms}

    def newest(self, term: str, limit: int) -> dict[int, int]:
        return self._hand_out(self._found(term)[::-1][:limit])

    def facts(self, ids: Iterable[int]) -> dict[int, PassageFacts]:
        return {id_: PassageFacts(9, "user", 0.0) for id_ in ids}

    def exact(self, phrase: Sequence[str], limit: int) -> list[int]:
        rarest = min(phrase, key=lambda term: len(self._found(term)))
        return list(self.newest(rarest, limit))


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
        best = {one.id for one in found.best}
        assert last in best, "the passage with the rare name"
    assert handed[300_000] <= 1.1 * handed[30_000]


WORDS = ("harbour", "quokka", "kiln", "glaze", "the", "what", "lantern", "ferry")
PASSAGES = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join))
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(("ann", "bob")), st.integers(0, 3), st.booleans(), PASSAGES, st.booleans()
    ),
    min_size=1,
    max_size=12,
)


@given(changes=CHANGES, query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
def test_segments_answer_as_a_plain_list_does(
    changes: list[tuple[str, int, bool, list[str], bool]], query: list[str]
) -> None:
    """Whatever was replaced, extended, forgotten and merged: what is found, how it is ordered and
    what is counted are those of one owner's passages in a list."""
    index = SqliteSearchIndex(None)
    said: dict[str, tuple[str, list[str]]] = {}
    for owner, number, is_growth, texts, is_gone in changes:
        name = f"{owner}/{number}"
        made = [IndexPassage(text, terms(text), "user") for text in texts]
        known = {source.name: source for source in index.sources()}
        if is_gone and name in known:
            index.forget([known[name].id])
            del said[name]
        elif is_growth and name in known:
            index.extend(known[name], stamp="", head="", passages=made)
            said[name] = (owner, said[name][1] + texts)
        else:
            index.replace([NewSource("session", name, "", "", made, owner)])
            said[name] = (owner, texts)
    for owner in ("ann", "bob"):
        allowed = {one.id: one for one in index.sources() if one.name.startswith(owner)}
        rows = [
            ((id_ << PLACE_BITS) + place, terms(text))
            for id_, one in allowed.items()
            for place, text in enumerate(said[one.name][1])
        ]
        wanted, phrase = query_terms(" ".join(query)), terms(" ".join(query))
        found = index.matches(wanted, phrase, allowed)
        plain = PlainList(rows, wanted)
        if plain.weights:
            for term in plain.terms:
                assert found.holding[term] == plain.holding[term]
                assert found.sources.get(term, {}) == plain.sources[term]
            assert {one.id for one in found.best} == set(plain.weights)
            weights = [round(plain.weights[one.id], 9) for one in found.best]
            assert weights == sorted(weights, reverse=True)
        read = {row.id: row.terms for row in index.passages([one.id for one in found.best])}
        assert read == {id_: words for id_, words in rows if id_ in read}
        assert len(read) == len(found.best)
        for one in found.best:
            words = read[one.id]
            assert (one.length, one.role, one.ts) == (len(words), "user", None)
            assert all(words.count(term) == times for term, times in one.terms.items())
    index.close()


class PlainList:
    """What a search in a list finds: each word that is not common, in each passage."""

    def __init__(self, rows: Sequence[tuple[int, list[str]]], query: Mapping[str, float]) -> None:
        self.terms = [term for term in query if not is_common(term)]
        held = {term: [row for row in rows if term in row[1]] for term in self.terms}
        self.holding = {term: len(found) for term, found in held.items()}
        self.sources: dict[str, dict[int, int]] = {}
        self.weights: dict[int, float] = {}
        for term, found in held.items():
            often: Counter[int] = Counter()
            for id_, words in found:
                often[source_of(id_)] += words.count(term)
                worth = query[term] * rarity(len(found), len(rows))
                self.weights[id_] = self.weights.get(id_, 0.0) + worth
            self.sources[term] = dict(often)
