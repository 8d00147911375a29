"""Forms of sentences: orders, bans, wishes and facts are told from what only sounds like them."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.core.sentences.wordings import Wording, wordings
from tests.strategies import clean_texts
from tests.support.cases import check_all

from holdfast.core.extract.statements import find_statements, sentences
from holdfast.core.sentences.reading import FACT, LIKELY, NONE, RULE, read_form

COMMON = (
    "the of to and a in is it you that he was for on are with as his they at be this have from or "
    "one had by word but not what all were we when your can said there use an each which she do "
    "how their if will up other about out many then them these so some her would make like him "
    "into time has look two more write go see number no way could people my than first water been "
    "call who oil its now find long down day did get come made may part report server must never"
)


@pytest.mark.parametrize("half", ["chosen", "judged"])
def test_most_wordings_are_found_and_little_else(half: str) -> None:
    """At least 85 % of what is laid down, and at most 3 % of what only sounds like it."""
    chosen = wordings(half)
    assert len(chosen) > 150
    found = [wording.is_found for wording in chosen if wording.is_statement]
    others = [wording.is_found for wording in chosen if not wording.is_statement]
    assert sum(found) >= 0.85 * len(found)
    assert sum(others) <= 0.03 * len(others)


STRENGTHS = [
    ("Never push to main.", RULE),
    ("From now on we write the tests first.", RULE),
    ("Nobody but Ines may approve the release.", RULE),
    ("If the build breaks, page me.", RULE),
    ("I would prefer shorter answers.", RULE),
    ("Could you keep the answers short?", RULE),
    ("Let's not rewrite the parser.", RULE),
    ("Die Tests müssen schnell bleiben.", RULE),
    ("No borres nada sin preguntarme.", RULE),
    ("Ne modifie pas le fichier.", RULE),
    ("必ず確認してください", RULE),
    ("Our auditors are strict about dates.", FACT),
    ("The port is 8443.", FACT),
    ("Deadline: 14 March", FACT),
    ("I live in Utrecht.", FACT),
    ("Rename the flag.", LIKELY),
    ("tabs, not spaces", LIKELY),
    ("I'd like to cancel my flight.", LIKELY),
    ("It never finished.", NONE),
    ("I must have missed it.", NONE),
    ("The README says you must install Node first.", NONE),
    ("Can you see the image?", NONE),
    ("ValueError: x must not be negative", NONE),
    ("12:44:01 DEBUG you must not see this", NONE),
    ("Go on with the next part.", NONE),
    ("Never of to and the in is it you that budget.", NONE),
]


def test_strength_is_of_the_form() -> None:
    """Rules and decisions are surest, then facts, then plain orders."""

    def check(case: tuple[str, int]) -> None:
        sentence, strength = case
        assert read_form(sentence) == strength, sentence

    check_all(STRENGTHS, check)


def test_words_without_grammar_are_hardly_ever_rules() -> None:
    """Of random words, however many of them are `must` and `never`, two in a hundred at most."""
    rng = random.Random(7)
    words = COMMON.split()
    texts = [
        f"{' '.join(rng.choices(words, k=rng.randint(6, 16)))}.".capitalize() for _ in range(3_000)
    ]
    assert sum(read_form(text) == RULE for text in texts) <= 0.02 * len(texts)
    assert sum(read_form(text) != NONE for text in texts) <= 0.08 * len(texts)


@given(text=clean_texts(300))
@example(text=", , ,")
@example(text="no,")
@example(text="please (")
def test_any_text_has_a_strength(text: str) -> None:
    assert read_form(text) in (RULE, FACT, LIKELY, NONE)


@given(place=st.integers(0, 6_000), wording=st.sampled_from(wordings("chosen")))
@example(place=3_000, wording=next(one for one in wordings() if "dark theme" in one.text))
def test_statement_in_a_giant_message_is_found_wherever_it_is(place: int, wording: Wording) -> None:
    """What has a form by itself has it between 400,000 other characters, too."""
    sentence = next(iter(sentences(wording.text)), "")
    lines = [f"kalo miter number {n} went by at {n * 7} in the morning\n" for n in range(6_000)]
    text = "".join((*lines[:place], f"{sentence}\n", *lines[place:]))
    assert len(text) > 300_000
    assert (sentence in find_statements(text)) == (read_form(sentence) != NONE)
