"""Words that are searched for: as whole words or anywhere, in any case, with any apostrophe."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.strategies import clean_texts

from holdfast.core.sentences.phrases import (
    begins,
    holds,
    sentence_spans,
    split_sentences,
)


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("never", True),
        ("You NEVER do.", True),
        ("nevertheless", False),
        ("whenever", False),
        ("don't", True),
        ("don’t", True),
        ("这不要那", True),
        ("nothing of it", False),
    ],
)
def test_holds_finds_whole_words_and_wide_ones_anywhere(text: str, is_found: bool) -> None:
    """Languages without spaces between words are searched without looking for them."""
    assert (holds(("never", "don't"), ("不要",)).search(text) is not None) is is_found


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("Sorry, no", True),
        ('  "Sorry" it is', True),
        ("I can’t", True),
        ("I am sorry", False),
        ("", False),
    ],
)
def test_begins_looks_at_the_beginning_alone(text: str, is_found: bool) -> None:
    """Signs and spaces before the first word do not count."""
    assert (begins(("sorry", "i can't")).match(text) is not None) is is_found


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


BREAK = r"(?<=[.!?。！？])[\"'”’)]*\s+|(?<=[。！？])|\n+"
"""The same rule as a pattern of places: easy to read, and slow to search."""


@given(text=st.text('a.!。\n "”', max_size=12))
@example("。。 a")
@example("a.\n\n.")
@example('a." \nb。"')
@example("a\n\n a.. a")
def test_sentences_are_split_where_the_rule_says(text: str) -> None:
    """Behind a stop and the quotation marks at it, behind a wide stop, and at line ends."""
    assert split_sentences(text) == re.split(BREAK, text)


def test_title_does_not_end_a_sentence() -> None:
    """A name follows, and the sentence is about it."""
    text = "Write to Dr. Osei and Mrs. Lind, e.g. today. Thanks."
    assert split_sentences(text) == ["Write to Dr. Osei and Mrs. Lind, e.g. today.", "Thanks."]
