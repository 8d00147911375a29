"""Replies within their cap that state their own length."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import clean_texts

from holdfast.core.history.capped_json import (
    encode_with_length,
    first_within,
    fit_text,
    largest,
    listing,
    refusal,
)


@given(st.integers(0, 200_000))
def test_a_reply_states_its_own_length(size: int) -> None:
    """Also where one more digit makes it longer."""
    data = encode_with_length({"text": "x" * size})

    assert json.loads(data)["bytes"] == len(data)


@given(clean_texts(), clean_texts(), st.integers(0, 400))
def test_a_refusal_is_within_its_cap_and_says_its_status_if_it_can(
    error: str, session: str, cap: int
) -> None:
    text = refusal("forbidden", error, session, cap)

    assert len(text.encode()) <= cap
    if cap >= 22:
        assert json.loads(text)["status"] == "forbidden"
    elif cap >= 2:
        assert text == "{}"


@given(st.lists(clean_texts(), max_size=20), st.integers(0, 600), st.integers(0, 3))
def test_a_listing_keeps_its_first_rows_and_counts_the_rest(
    labels: list[str], cap: int, unseen: int
) -> None:
    text = listing([{"label": label} for label in labels], {"scope": "tree"}, cap, unseen=unseen)

    assert len(text.encode()) <= cap
    reply = json.loads(text) if text else {}
    if "count" in reply:
        assert reply["bytes"] == len(text.encode())
        assert [row["label"] for row in reply["sessions"]] == labels[: reply["count"]]
        assert reply["count"] + reply["omittedCount"] == len(labels) + unseen
        assert reply["truncated"] == (reply["omittedCount"] > 0)


@given(clean_texts(), st.integers(0, 400))
def test_a_text_gives_way_to_the_rest_of_its_reply(text: str, cap: int) -> None:
    """The reply is within its cap, has every field where one has room, and says that it is cut."""
    reply = {"ref": "0123456789abcdef", "text": text}
    made = fit_text(reply, "text", cap)

    assert len(made.encode()) <= cap
    found = json.loads(made) if made else {}
    if "ref" in found:
        assert found["bytes"] == len(made.encode())
        assert found["truncated"] == (found["text"] != text)
    bare = {**reply, "text": "", "truncated": False}
    if cap >= len(encode_with_length(bare)) + 8:
        assert found["ref"] == reply["ref"]


@given(st.integers(0, 1_000), st.integers(0, 1_200))
def test_the_largest_that_fits_is_found(most: int, room: int) -> None:
    assert largest(most, lambda count: count <= room) == min(most, room)


def test_where_nothing_fits_there_is_an_empty_object_or_nothing() -> None:
    assert [first_within([b"[1,2,3]"], cap) for cap in range(4)] == ["", "", "{}", "{}"]
