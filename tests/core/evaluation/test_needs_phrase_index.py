"""Sentences are found word by word, or by most of their words in one line of a summary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.growth import is_superlinear

from holdfast.core.evaluation.needs import PhraseIndex, words_of

WORDS = st.lists(st.sampled_from(["never", "push", "to", "main", "Ä", "1"]), min_size=1, max_size=6)


def test_marks_and_line_breaks_do_not_matter() -> None:
    index = PhraseIndex([(7, "Never push to main."), (8, "Use tabs.")])
    assert index.find("> - never PUSH\n> to “main”, please") == {7}
    assert index.find("never push to the main") == set()


@given(st.lists(WORDS, max_size=5), WORDS)
def test_finds_what_a_plain_search_finds(phrases: list[list[str]], text: list[str]) -> None:
    """The tree gives the answer of a search for each phrase among the words."""
    index = PhraseIndex(enumerate(" ".join(phrase) for phrase in phrases))
    joined = f" {' '.join(words_of(' '.join(text)))} "
    plain = {
        number
        for number, phrase in enumerate(phrases)
        if f" {' '.join(words_of(' '.join(phrase)))} " in joined
    }
    assert index.find(" ".join(text)) == plain


def test_a_paraphrase_has_most_words_in_one_line() -> None:
    index = PhraseIndex([(1, "Never push to the main branch without asking me first.")])
    same = "- Constraint: never push the main branch without asking the user first"
    assert index.find_paraphrases(same, [1]) == {1}
    apart = same.replace(" main", "\nmain").replace(" asking", "\nasking")
    assert index.find_paraphrases(apart, [1]) == set()
    assert index.find_paraphrases(same, []) == set()


def test_reading_is_linear() -> None:
    """Also where every word begins a phrase that nearly matches."""
    index = PhraseIndex([(0, "a " * 200 + "b"), (1, "a b")])
    assert not is_superlinear(lambda size: index.find("a " * size))
