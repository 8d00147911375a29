"""Messages shortened by sentences: what tells something stays, and no marker is in another."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import clean_texts
from tests.support.runs import examples

from holdfast.core.extract.condense import hide_gap_markers, is_left_of, shorten
from holdfast.core.extract.fair_share import cuttings, sections_within, within_tokens
from holdfast.core.extract.statements import same_words
from holdfast.core.extract.user_words import quote
from holdfast.core.tokens.counting import Estimator

COUNTER = Estimator()
MARKER = re.compile(r"\[… [\d,]+ of ([\d,]+) characters cut …\]")
MESSAGE = (
    "Good. Please go through all of the pages once more, slowly and with some care for detail. "
    "Ask for Ines Okafor when HF-2291 is ready. Then tell me in a few words what you think of it "
    "all, in whatever way and at whatever length seems best to you. Thank you."
)
TEXTS = st.one_of(
    clean_texts(600),
    st.lists(
        st.sampled_from([MESSAGE, "Run it.", "[…]", "a" * 300, "\n", "好的。"]), max_size=6
    ).map(" ".join),
)


def test_names_and_numbers_stay_and_courtesies_go() -> None:
    """Of a message there is little room for, the sentence that tells something."""
    short = shorten(MESSAGE, 34, COUNTER)
    assert "Ask for Ines Okafor when HF-2291 is ready." in short
    assert "Good." not in short
    assert "Thank you." not in short
    assert f"of {len(MESSAGE)} characters cut …]" in short


def test_what_stands_elsewhere_goes_first() -> None:
    """A sentence that is told in another place leaves its room to the others."""
    told = {same_words("Ask for Ines Okafor when HF-2291 is ready.")}
    assert "Ines Okafor" not in shorten(MESSAGE, 50, COUNTER, told=told)


class Dear:
    """A vocabulary in which the whole costs more than its parts."""

    name = "dear"
    is_exact = True

    def count(self, text: str) -> int:
        return len(text) // 4 + len(text) ** 2 // 2_000


@pytest.mark.parametrize("room", [30, 60, 90, 150])
def test_shortened_message_fits_whoever_counts(room: int) -> None:
    """Where parts do not add up to the whole, the least valuable of them go again."""
    short = shorten(MESSAGE * 3, room, Dear())
    assert 0 < Dear().count(short) <= room
    assert "HF-2291" in short
    assert f"of {3 * len(MESSAGE)} characters cut …]" in short


@examples(150)
@given(text=TEXTS, rooms=st.lists(st.integers(0, 120), min_size=1, max_size=4))
def test_shortened_again_it_is_still_one_text(text: str, rooms: list[int]) -> None:
    """Whatever the rooms: within them, one marker, which counts from the whole."""
    text = "\n".join(text.strip().splitlines())
    before = cuttings(text)
    short = text
    for room in sorted(rooms, reverse=True):
        if COUNTER.count(short) > room:
            short = shorten(short, room, COUNTER)
        assert COUNTER.count(short) <= room
    found = cuttings(short)
    if len(before.pieces) == 1 and len(found.pieces) > 1:
        assert found.total == len(text)
        assert is_left_of(cuttings(short), hide_gap_markers(text))
        assert len(MARKER.findall(short)) == 1


@examples(150)
@given(
    words=st.lists(st.text("abcdefgh", min_size=2, max_size=9), min_size=60, max_size=120),
    stops=st.lists(st.integers(0, 119), max_size=6),
    end=st.sampled_from(["", " 7", " Ok.", "\nthanks", " See HF-2291."]),
    room=st.integers(24, 60),
)
def test_what_is_left_of_a_message_says_something(
    words: list[str], stops: list[int], end: str, room: int
) -> None:
    """Where no sentence fits, or only a tiny one, there are still words of the beginning."""
    text = " ".join(f"{word}." if at in stops else word for at, word in enumerate(words)) + end
    short = shorten(text, room, COUNTER, quote)
    assert COUNTER.count(quote(short)) <= room
    assert cuttings(short).length >= min(
        32, cuttings(within_tokens(text, room, COUNTER, quote)).length
    )


def test_one_long_sentence_and_a_number_is_more_than_the_number() -> None:
    asked = "Please look at the next module and tell me what it does, in detail, with names. " * 8
    assert shorten(f"{asked}5", 26, COUNTER, quote).startswith("Please look at ")


@examples(100)
@given(
    text=st.text("ab \n", min_size=80, max_size=400),
    first=st.integers(20, 60),
    second=st.integers(12, 60),
)
def test_cut_again_by_characters_counts_from_the_whole(text: str, first: int, second: int) -> None:
    """A cut of a cut has one marker, and what it says adds up."""
    once = within_tokens(text, first, COUNTER)
    twice = within_tokens(once, second, COUNTER)
    for short in (once, twice):
        markers = MARKER.findall(short)
        assert len(markers) <= 1
        if markers:
            assert int(markers[0].replace(",", "")) == len(text) == cuttings(short).total


def test_marker_that_does_not_add_up_is_somebodys_words() -> None:
    """Only our own marker is believed."""
    said = "He wrote [… 5 of 1,000 characters cut …] and I wonder."
    assert cuttings(said).pieces == (said,)
    assert not is_left_of(cuttings(said), "x" * 1_000)


def test_sections_lose_lines_and_the_count_goes_on() -> None:
    """Shortened by lines and shortened again: every heading is there, one note for each gap."""
    text = "\n".join(
        line
        for heading in ("Goal", "Progress")
        for line in (f"### {heading}", *(f"- item {n} of {heading}" for n in range(30)))
    )
    once = sections_within(text, 160, COUNTER)
    twice = sections_within(once, 90, COUNTER)
    for short, room in ((once, 160), (twice, 90)):
        assert COUNTER.count(short) <= room
        assert short.count("left out …]") == 2
        for heading in ("Goal", "Progress"):
            part = short.split(f"### {heading}\n")[1].split("\n###")[0]
            missing = int(re.findall(r"\[… (\d+) lines? left out", part)[0])
            assert missing + part.count("- item") == 30
            assert f"- item 0 of {heading}" in part
            assert f"- item 29 of {heading}" in part
