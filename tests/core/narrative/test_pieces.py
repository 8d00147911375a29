"""Sentences and lines: where they end."""

from __future__ import annotations

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
