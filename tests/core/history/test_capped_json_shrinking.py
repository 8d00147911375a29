"""Smaller values: within their numbers, with both ends, and with true counts of what is missing."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import json_values, texts

from holdfast.core.history.capped_json import (
    TEXT_CHARS_MIN,
    Cutter,
    Gap,
    with_gap_in_list,
    with_gap_in_object,
    with_gap_in_text,
)
from holdfast.core.text.cut import scrub

NUMBERS = re.compile(r"\[… ([\d,]+) of ([\d,]+) (\w+) left out; ref r1 …\]")


def counts(text: str) -> tuple[int, int]:
    found = NUMBERS.search(text)
    assert found is not None
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


@given(texts(), st.integers(0, 300))
def test_a_text_is_within_its_characters(text: str, chars: int) -> None:
    cutter = Cutter("r1", chars, 10)
    shown = cutter.text(scrub(text))

    assert len(shown) <= chars
    assert cutter.is_cut == (shown != scrub(text))


@given(st.integers(0, 400_000), st.integers(200, 4_000))
def test_a_gap_is_counted(length: int, chars: int) -> None:
    """What is shown and what is missing make the whole, whether it was looked at or not."""
    text = "".join(chr(97 + place % 26) for place in range(min(length, 26))) * (length // 26 + 1)
    text = text[:length]
    shown = Cutter("r1", chars, 10).text(with_gap_in_text(text, TEXT_CHARS_MIN))

    assert len(shown) <= chars
    if length > chars:
        omitted, total = counts(shown)
        marker = f"\n{NUMBERS.search(shown)[0]}\n"  # type: ignore[index]
        assert total == length
        assert len(shown) - len(marker) == length - omitted
        assert text.startswith(shown.split(marker)[0])
        assert text.endswith(shown.split(marker)[1])


def test_what_was_cut_in_two_at_a_gap_is_not_shown() -> None:
    """Not even where a search cuts around a match that stands beside the gap."""
    side = TEXT_CHARS_MIN // 2
    text = "a " * (side // 2 - 5) + "KEYKEYKEYKEY" * 4 + " b" * TEXT_CHARS_MIN
    halved = with_gap_in_text(text, TEXT_CHARS_MIN)
    assert "KEY" in halved

    for words in ([], ["key"], ["a"], ["b"]):
        assert "KEY" not in Cutter("r1", 4_000, 10, words).text(halved)


def test_no_message_can_pretend_that_something_is_missing() -> None:
    forged = "before\ue0001000000\ue001after"

    assert with_gap_in_text(forged, TEXT_CHARS_MIN) == "beforeafter"


def test_a_gap_is_told_even_where_little_is_left_beside_it() -> None:
    """What a mask has taken away does not take the count with it."""
    shown = Cutter("r1", 4_000, 10).text("[masked]\ue0005000\ue001[masked]")

    assert "5,016 of 5,016 characters left out" in shown
    assert "\ue000" not in shown


@given(st.integers(0, 3_000), st.integers(2, 400))
def test_a_list_keeps_its_ends_and_counts_the_rest(length: int, items: int) -> None:
    cutter = Cutter("r1", 100, items)
    shown = cutter.value(with_gap_in_list(range(length)))

    if length <= items:
        assert shown == list(range(length))
        assert not cutter.is_cut
        return
    note = next(one for one in shown if isinstance(one, str))
    kept = [one for one in shown if one is not note]
    assert len(kept) <= items
    assert counts(note) == (length - len(kept), length)
    assert kept[0] == 0
    assert kept[-1] == length - 1
    assert kept == sorted(kept)


@given(st.integers(0, 3_000), st.integers(2, 400))
def test_an_object_keeps_its_first_and_last_fields(length: int, items: int) -> None:
    fields = {f"field {number}": number for number in range(length)}
    shown = Cutter("r1", 100, items).value(with_gap_in_object(fields))

    if length <= items:
        assert shown == fields
        return
    note = shown.pop("…")
    assert counts(note) == (length - len(shown), length)
    assert f"field {length - 1}" in shown


@given(json_values(30), st.integers(0, 40), st.integers(0, 5))
def test_any_value_can_be_made_smaller(value: Any, chars: int, items: int) -> None:
    """No gap is left, and a value that was not cut is the same."""
    cutter = Cutter("r1", chars, items)
    shown = cutter.value(value)

    assert cutter.is_cut or shown == value
    assert "Gap(" not in str(shown)
    assert Gap(1) != shown
