"""The user's words in a carry-over: what is written can be read back, and counts go on."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.extract.digest import Digest, Instructions
from holdfast.core.extract.fair_share import fair_share, first_and_newest
from holdfast.core.extract.user_words import (
    _MESSAGE_TOKENS_MIN,
    _count_that_fits,
    instruction_lines,
    quote,
    read_instructions,
    read_quotes,
)

LINES = st.text("ab->()0 漢", min_size=1, max_size=20)


@given(
    sentences=st.lists(LINES, min_size=1, max_size=4),
    omitted=st.sampled_from([0, 1, 2, 999, 12_345]),
)
def test_instructions_can_be_read_back(sentences: list[str], omitted: int) -> None:
    """The list and the number of those that had no room outlive any number of cuts."""
    instructions = Instructions(tuple(sentences), omitted)
    assert read_instructions(instruction_lines(instructions)) == instructions


@pytest.mark.parametrize(
    ("omitted", "first"),
    [(0, "- use tabs"), (1, "(1 other not listed: "), (1_234, "(1,234 others not listed: ")],
)
def test_instructions_without_room_are_counted_in_words(omitted: int, first: str) -> None:
    """The reader of a carry-over learns that there were more, and where they are."""
    line = instruction_lines(Instructions(("use tabs",), omitted))[0]
    assert line.startswith(first)
    assert ("search this session's history" in line) == (omitted > 0)


def test_count_of_an_older_release_can_be_read() -> None:
    """Logs keep the carry-overs of the releases that wrote them."""
    assert read_instructions(["(3 others not listed)", "- use tabs"]) == Instructions(
        ("use tabs",), 3
    )


def test_no_instructions_are_no_list() -> None:
    """Nothing to list is no section, but those without room are always counted."""
    assert instruction_lines(Instructions()) == []
    assert read_instructions(instruction_lines(Instructions((), 7))) == Instructions((), 7)
    assert read_instructions(["some other line", "(no number others not listed)"]) == Instructions()


@given(messages=st.lists(st.lists(LINES, min_size=1, max_size=3).map("\n".join), max_size=4))
def test_quotations_can_be_read_back(messages: list[str]) -> None:
    """Messages of several lines, with an empty line between any two messages."""
    text = "\n\n".join(map(quote, messages))
    assert read_quotes(text.splitlines()) == messages


@given(sizes=st.lists(st.integers(1, 90), max_size=60), room=st.integers(-5, 2_000))
@example(sizes=[1] * 60, room=40)
@example(sizes=[90] * 40, room=500)
@example(sizes=[90, *[2] * 30], room=60)
def test_as_many_messages_stay_as_have_room_to_say_something(sizes: list[int], room: int) -> None:
    """Found without counting all of them: most messages of a long log are never looked at."""
    said = [Digest("", said=f"{place} {size}") for place, size in enumerate(sizes)]
    counted: set[str] = set()

    def size(text: str) -> int:
        counted.add(text)
        return int(text.split()[1])

    def is_too_many(count: int) -> bool:
        kept = first_and_newest(sizes, count)
        return sum(kept) > room and fair_share(kept, room) < _MESSAGE_TOKENS_MIN

    counts = range(1, len(sizes) + 1)
    expected = next((count - 1 for count in counts if is_too_many(count)), len(sizes))
    assert _count_that_fits(said, size, room) == expected
    assert len(counted) <= max(2, 2 * expected + 2)
