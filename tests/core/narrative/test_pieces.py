"""Sentences and lines: where they end."""

from __future__ import annotations

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.narrative import digest, pieces

TEXTS = st.text("aB3 .!?;:,\n\r\t\x1c\u00a0é-_$`", max_size=60)


@given(TEXTS)
def test_plain_texts_end_where_all_texts_do(text: str) -> None:
    """The quick pattern for most texts finds what the one for every text finds."""
    every = [
        (found.start(), found.end(), found[0].isspace() and found[0] != "\n")
        for found in pieces._END.finditer(text)
    ]
    assert [*pieces._ends(text)] == every


def test_other_scripts_end_their_sentences() -> None:
    text = "一つ目の文はここで終わります。二つ目の文はもう少し長く続きます。 … end"
    spans = pieces.find_spans(text)
    assert [text[start:end] for start, end in spans] == [
        "一つ目の文はここで終わります。",
        "二つ目の文はもう少し長く続きます。",
        "end",
    ]


@given(TEXTS)
def test_signs_are_counted_as_the_pattern_has_them(text: str) -> None:
    assert digest._count_signs(text) == len(digest._SIGN.findall(text))
    assert digest.words_of(text) == set(digest._SPACED_WORD.findall(text.casefold()))


TALK = [
    "the red fox runs over the hill. then it sleeps under the old oak, and dreams of mice",
    "a hen sleeps. the fox wakes up and runs",
    "nothing to say about that",
    "the hen runs over the old hill.\nthe oak is old",
    "mice dream of nothing",
    "the fox sleeps again",
]


def test_worth_is_of_rare_words_and_more_of_those_used_again() -> None:
    """A word counts by how few texts have it, twice where a text that is not near has it again."""
    texts = [digest.words_of(text) for text in TALK]
    worth = pieces.Worth(texts)
    rarity = {
        word: log(7 / sum(word in said for said in texts)) ** pieces._RARE
        for word in set().union(*texts)
    }
    for at, said in enumerate(texts):
        later = set().union(*texts[at + 4 :])
        value = sum(rarity[word] * (2 if word in later else 1) for word in said)
        assert worth.of(said, at) == pytest.approx(value, rel=1e-9)


def test_a_text_is_told_alike_whether_it_was_read_before() -> None:
    """Sentences of two cuts are those of one, and the words of a text are looked for once."""
    texts = pieces.ReadTexts()
    worth = pieces.Worth([texts[text].words for text in TALK])
    for at, text in enumerate(TALK):
        assert texts[text] is texts[text]
        again = pieces.rank_spans(texts[text], at, worth)
        assert again == pieces.rank_spans(pieces.ReadText(text, {}), at, worth)
        assert [
            text[start:end] for _worth, (start, end) in sorted(again, key=lambda it: it[1])
        ] == [sentence.text for sentence in texts[text].sentences]
    assert len(texts) == len(TALK)
