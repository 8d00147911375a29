"""Room shared out: as much as fits, never more, and what fits already stays as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import clean_texts
from tests.support.runs import examples

from holdfast.core.extract.fair_share import (
    cuttings,
    fair_share,
    first_and_newest,
    sections_within,
    within_tokens,
)
from holdfast.core.text.cut import cut
from holdfast.core.tokens.counting import Estimator

if TYPE_CHECKING:
    from holdfast.core.text.cut import Keep

COUNTER = Estimator()
KEEPS: tuple[Keep, ...] = ("both", "head", "tail")


class Dear:
    """A vocabulary in which lines together cost more than each by itself."""

    name = "dear"
    is_exact = True

    def count(self, text: str) -> int:
        return len(text) + text.count("\n") ** 2


@given(sizes=st.lists(st.integers(0, 50), max_size=8), room=st.integers(0, 200))
def test_fair_share_is_the_largest_cap_that_fits(sizes: list[int], room: int) -> None:
    """All of them fit under it; under a larger one they do not, or none is cut any more."""
    cap = fair_share(sizes, room)
    assert cap >= 0
    assert sum(min(size, cap) for size in sizes) <= room
    assert cap >= max(sizes, default=0) or sum(min(size, cap + 1) for size in sizes) > room


@given(count=st.integers(0, 12), length=st.integers(0, 10))
def test_first_and_newest_are_as_many_as_asked_for(count: int, length: int) -> None:
    """The newest in order, with the first in the place of the oldest where there are two."""
    items = list(range(length))
    kept = first_and_newest(items, count)
    assert len(kept) == min(count, length)
    assert kept == sorted(kept)
    if count > 1:
        assert kept[:1] == items[:1]
        assert kept[1:] == items[1:][len(items[1:]) - len(kept[1:]) :]
    else:
        assert kept == items[length - len(kept) :]


@pytest.mark.parametrize("keep", KEEPS)
@examples(60)
@given(text=clean_texts(400), chars=st.integers(40, 400))
def test_text_that_fits_comes_back_as_it_is(keep: Keep, text: str, chars: int) -> None:
    """Also one that was cut before, marker and all, and however exactly it fits."""
    for whole in (text.strip(), cut(text * 9, chars).text):
        assert within_tokens(whole, COUNTER.count(whole), COUNTER, keep=keep) == whole
        same = within_tokens(whole, 10**6, COUNTER, keep=keep)
        assert same == whole


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("is_cut", [False, True], ids=["whole", "cut before"])
def test_shorter_text_uses_its_room(keep: Keep, is_cut: bool) -> None:
    """It keeps the ends it is to keep, most of its room, and counts what is gone from the whole."""
    text = "START " + "some words in between " * 500 + "END"
    given_text = cut(text, 2_000).text if is_cut else text
    for tokens in (40, 100, 300):
        short = within_tokens(given_text, tokens, COUNTER, keep=keep)
        assert 0.6 * tokens <= COUNTER.count(short) <= tokens
        assert short.startswith("START") is (keep != "tail")
        assert short.endswith("END") is (keep != "head")
        found = cuttings(short)
        assert found.total == len(text)
        assert sum(map(len, found.pieces)) < found.total


@pytest.mark.parametrize("tokens", [0, 1, 2])
def test_no_room_holds_nothing_or_a_few_letters(tokens: int) -> None:
    """Nothing is torn open to make room: too little of it is empty."""
    short = within_tokens("many words and more of them", tokens, COUNTER)
    assert COUNTER.count(short) <= tokens


@pytest.mark.parametrize("counter", [COUNTER, Dear()], ids=lambda counter: counter.name)
@pytest.mark.parametrize("tokens", [60, 150, 400])
def test_sections_fit_whoever_counts(counter: Estimator | Dear, tokens: int) -> None:
    """A short section is whole, and of a long one it is said that something is missing."""
    lines = [f"- item {number} of a long list" for number in range(40)]
    text = "\n".join(("## Goal", "Ship it.", "## Items", *lines))
    short = sections_within(text, tokens, counter)
    assert 0 < counter.count(short) <= tokens
    assert "## Goal\nShip it." in short
    assert ("…" in short) is (short != text)
    whole = counter.count(text)
    assert sections_within(text, whole, counter) == text
