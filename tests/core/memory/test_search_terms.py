"""The terms of a text: what a search compares."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.memory.search_terms import TERM_CHARS_MAX, is_common, is_identifier, stem, terms


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("deployed", "deploys"),
        ("memories", "memory"),
        ("running", "run"),
        ("stopped", "stop"),
        ("making", "makes"),
        ("studies", "studied"),
        ("Müller", "muller"),
        ("café", "CAFÉ"),
        ("user's", "users"),
        ("1,000", "1000"),
    ],
)
def test_forms_of_a_word_are_the_same_term(one: str, other: str) -> None:
    """Inflection, case, accents and the spelling of numbers do not count."""
    assert terms(one) == terms(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("universe", "university"), ("news", "new year"), ("bus", "bu"), ("analysis", "analyse")],
)
def test_other_words_are_other_terms(one: str, other: str) -> None:
    """Too little is stemmed rather than too much."""
    assert terms(one) != terms(other)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("parse_config", {"parse_config", "config"}),
        ("getUserName", {"getusernam", "user"}),
        ("src/holdfast/core/terms.py", {"src_holdfast_core_terms_py", "terms_py", "holdfast"}),
        ("HTTPError", {"httperror", "http", "error"}),
        ("v1.2.3", {"v1_2_3"}),
        ("ERR_CONN_REFUSED", {"err_conn_refused"}),
        ("10.0.0.1:8080", {"10_0_0_1_8080", "10_0_0_1", "8080"}),
        ("well-known", {"wellknown", "well", "known"}),
    ],
)
def test_identifiers_count_whole_and_by_their_parts(text: str, held: set[str]) -> None:
    """Either the name or a word of it finds it."""
    assert held <= set(terms(text))


def test_scripts_without_spaces_count_by_characters_and_pairs() -> None:
    """A Chinese or Japanese word is found inside a sentence."""
    assert set(terms("烤鸭")) <= set(terms("我喜欢北京烤鸭"))
    assert set(terms("東京")) <= set(terms("東京に住んでいます"))
    assert set(terms("한국")) <= set(terms("한국어 문장"))


def test_words_with_vowel_marks_stay_whole() -> None:
    assert terms("नमस्ते दुनिया") == ["नमस्ते", "दुनिया"]


def test_common_words_are_known_after_stemming() -> None:
    """What hardly tells texts apart is told by its stem, too."""
    assert all(is_common(term) for term in terms("does this have what they were making"))
    assert not any(is_common(term) for term in terms("server release Tuesday"))


def test_names_and_numbers_are_identifiers_and_words_are_not() -> None:
    assert all(map(is_identifier, ("parse_config", "e4711", "2026")))
    assert not any(map(is_identifier, ("release", "well-known", "7")))


def test_no_character_alone_or_within_a_word_makes_a_term_that_cannot_be_kept() -> None:
    """Accents alone, and signs that Unicode writes out as words with spaces between them."""
    odd = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.combining(chr(code)) or unicodedata.decomposition(chr(code))[:1] == "<"
    ]
    assert len(odd) > 3_000
    for character in odd:
        for text in (character, f"a{character}b", f"a_{character}"):
            assert all(term and not set(term) & set(" \"'\n\t") for term in terms(text)), text


@given(st.text(max_size=300))
def test_terms_can_stand_in_an_index(text: str) -> None:
    """None is empty, has a space or a quote, or is longer than a term may be."""
    for term in terms(text):
        assert term
        assert not set(term) & set(" \"'\n\t")
        assert len(term) <= TERM_CHARS_MAX * 4
    assert terms(text) == terms(text)


@given(st.text("abcdefghijklmnopqrstuvwxyz", max_size=20))
def test_a_stem_is_never_empty_and_never_longer(word: str) -> None:
    assert len(stem(word)) <= len(word)
    assert bool(stem(word)) == bool(word)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("de-stress", "destress"),
        ("Re-elected", "reelect"),
        ("E-Mails", "email"),
        ("анти-стресс", "антистресс"),
    ],
)
def test_a_word_is_found_with_and_without_its_hyphen(one: str, other: str) -> None:
    assert set(terms(one)) & set(terms(other))
    assert not any(map(is_identifier, terms(one)))
