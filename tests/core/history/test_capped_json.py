"""Answers within their cap, and those that state their own length."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import clean_texts

from holdfast.core.history.capped_json import (
    NoRoom,
    encode,
    fit,
    fit_text,
    largest,
    refusal,
    text_within,
    with_length,
)


class Said(msgspec.Struct, frozen=True):
    """An answer with a text, and its own length."""

    ref: str
    text: str
    truncated: bool = False
    bytes: int = 0


class Listed(msgspec.Struct, frozen=True):
    """An answer with rows."""

    rows: list[str]
    count: int


@given(st.integers(0, 200_000))
def test_a_reply_states_its_own_length(size: int) -> None:
    """Also where one more digit makes it longer."""
    made = with_length(Said("x", "x" * size))

    assert made.bytes == len(encode(made))


@given(clean_texts(), clean_texts(), st.integers(0, 400))
def test_a_refusal_is_within_its_cap_and_says_its_status_if_it_can(
    error: str, session: str, cap: int
) -> None:
    found = refusal("forbidden", error, session, cap)

    assert len(text_within(found, cap).encode()) <= cap
    assert len(encode(found)) <= max(cap, 2)
    if cap >= 22:
        assert found["status"] == "forbidden"
    else:
        assert found == {}


@given(st.lists(clean_texts(), max_size=20), st.integers(0, 600))
def test_as_many_rows_as_fit(labels: list[str], cap: int) -> None:
    """One more would be over the cap; without room for none, there is no answer."""

    def make(count: int) -> Listed:
        return Listed(labels[:count], count)

    if len(encode(make(0))) > cap:
        with pytest.raises(NoRoom):
            fit(make, len(labels), cap)
        return
    made = fit(make, len(labels), cap)
    assert len(encode(made)) <= cap
    assert made.rows == labels[: made.count]
    assert made.count == len(labels) or len(encode(make(made.count + 1))) > cap


@given(clean_texts(), st.integers(0, 400))
def test_a_text_gives_way_to_the_rest_of_its_reply(text: str, cap: int) -> None:
    """The answer is within its cap, has every field, and says that it is cut."""
    reply = Said("0123456789abcdef", text)
    if len(encode(Said(reply.ref, ""))) > cap:
        with pytest.raises(NoRoom):
            fit_text(Said(reply.ref, f"{text}."), "text", cap)
        return
    made = fit_text(reply, "text", cap)

    assert len(encode(made)) <= cap
    assert made.ref == reply.ref
    assert made.truncated == (made.text != text)


@given(st.integers(0, 1_000), st.integers(0, 1_200))
def test_the_largest_that_fits_is_found(most: int, room: int) -> None:
    assert largest(most, lambda count: count <= room) == min(most, room)


def test_where_nothing_fits_there_is_an_empty_object_or_nothing() -> None:
    assert [text_within([1, 2, 3], cap) for cap in range(4)] == ["", "", "{}", "{}"]
    assert text_within([1, 2, 3], 7) == "[1,2,3]"
