"""The words of a query: irregular forms are looked for as well, and count for less."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.memory.irregular_words import other_forms
from holdfast.core.memory.query_terms import query_terms
from holdfast.core.memory.search_terms import is_common, terms


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("What did I buy?", "I bought sandals."),
        ("Who wrote the letter?", "She will write it soon."),
        ("Which flights have I flown?", "Next week I fly to Porto."),
        ("How many children came?", "One child was ill."),
    ],
)
def test_another_form_of_a_word_is_looked_for(asked: str, said: str) -> None:
    found = query_terms(asked).keys() & set(terms(said))

    assert any(not is_common(term) for term in found)


@given(st.text(max_size=60) | st.sampled_from(["buy bought", "went to write", "people"]))
def test_what_was_asked_for_counts_more_than_its_other_forms(query: str) -> None:
    """For all queries: the words themselves are there, with what they are worth without others."""
    asked = set(terms(query))
    worth = query_terms(query)

    assert asked <= worth.keys()
    for form in worth.keys() - asked:
        origins = [term for term in asked if form in other_forms(term)]
        assert origins
        assert all(worth[form] < worth[term] for term in origins[:1])


@given(st.sampled_from(["buy", "bought", "write", "wrote", "written", "go", "heron", ""]))
def test_forms_of_a_word_name_each_other(term: str) -> None:
    for form in other_forms(term):
        assert term in other_forms(form)
        assert term != form
