"""Where the sentences of a text end."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st
from tests.strategies import clean_texts

from holdfast.core.extract.statements import sentence_spans, split_sentences


@given(text=clean_texts(200))
def test_sentences_together_are_the_whole_text(text: str) -> None:
    """No character is lost between two of them."""
    spans = list(sentence_spans(text))
    assert "".join(text[start:end] for start, end in spans) == text
    assert [start for start, _end in spans[1:]] == [end for _start, end in spans[:-1]]


def test_sentences_end_where_they_end() -> None:
    """At a stop with a space behind it, a wide stop, or a line break."""
    text = "One is 1.5 long. Two!\nThree。四"
    assert [text[start:end] for start, end in sentence_spans(text)] == [
        "One is 1.5 long. ",
        "Two!\n",
        "Three。",
        "四",
    ]


BREAK = r"(?<=[.!?。！？])(?<!\b[A-Z]\.)(?<!\b[A-Za-z]\.[A-Za-z]\.)[\"'”’)]*\s+|(?<=[。！？])|\n+"
"""The same rule as a pattern of places: easy to read, and slow to search."""


@given(text=st.text('a.!。\n "”', max_size=12))
@example("。。 a")
@example("a.\n\n.")
@example('a." \nb。"')
@example("a\n\n a.. a")
def test_sentences_are_split_where_the_rule_says(text: str) -> None:
    """Behind a stop and the quotation marks at it, behind a wide stop, and at line ends."""
    assert split_sentences(text) == re.split(BREAK, text)


def test_an_initial_does_not_end_a_sentence() -> None:
    """Initials and short forms, in any language with an alphabet."""
    text = "Write to J. Osei, e.g. today, z.B. now. Thanks."
    assert split_sentences(text) == ["Write to J. Osei, e.g. today, z.B. now.", "Thanks."]
