"""The words of a query, and what each is worth."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.memory.ranking import query_terms
from holdfast.core.memory.search_terms import is_common, terms


@given(st.text(max_size=60) | st.sampled_from(["my heron heron", "用户 heron", "the the"]))
def test_every_word_of_a_query_counts_and_no_other(query: str) -> None:
    """A common one for less than any other, and one that is said again for more."""
    worth = query_terms(query)
    assert worth.keys() == set(terms(query))
    common = [value for term, value in worth.items() if is_common(term)]
    others = [value for term, value in worth.items() if not is_common(term)]
    assert not common or not others or max(common) < min(others)
    twice = query_terms(f"{query} {query}")
    assert all(twice[term] > worth[term] for term in worth)
