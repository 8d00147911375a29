"""A function as an embedder: vectors of any scale, checked, and never mixed with another's."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import check_all

from holdfast import Memory, SessionKey, User
from holdfast.errors import BadSetting
from holdfast.providers.embedders import CallableEmbedder, normalise
from holdfast.providers.embeddings import Vectors
from holdfast.stores.in_memory import MemoryStore

pytest.importorskip("numpy")

ROWS = st.integers(1, 40).flatmap(
    lambda size: st.lists(
        st.lists(
            st.floats(-1e300, 1e300).filter(lambda one: one == 0 or abs(one) > 1e-290),
            min_size=size,
            max_size=size,
        ).filter(any),
        min_size=1,
        max_size=5,
    )
)


@given(ROWS, st.floats(1e-3, 1e3))
def test_vectors_of_any_scale_have_length_one(rows: list[list[float]], scale: float) -> None:
    """The direction counts, and nothing else: not how large the numbers are."""
    made = normalise(rows, len(rows), "m")
    for row, found in zip(rows, made, strict=True):
        largest = max(map(abs, row))
        unit = [number / largest for number in row]
        length = math.hypot(*unit)
        numbers = struct.unpack(f"{len(found)}b", found)
        for number, kept in zip(unit, numbers, strict=True):
            assert abs(127 * number / length - kept) <= 0.5 + 1e-6
    smaller = [[number / 1e4 * scale for number in row] for row in rows]
    if all(any(row) for row in smaller):
        for one, two in zip(made, normalise(smaller, len(rows), "m"), strict=True):
            both = [struct.unpack(f"{len(row)}b", row) for row in (one, two)]
            assert all(abs(left - right) <= 1 for left, right in zip(*both, strict=True))


@pytest.mark.parametrize("size", [1, 384, 1_536, 3_072])
def test_what_is_near_stays_near_in_bytes(size: int) -> None:
    """The similarity of two texts is that of their vectors, up to rounding, however long."""
    rows = [[math.sin(place * (row + 1)) for place in range(1, size + 1)] for row in range(4)]
    made = normalise(rows, 4, "m")
    found = Vectors((id_, 1, vector) for id_, vector in enumerate(made)).similarity(
        made[0], [0, 1, 2, 3]
    )
    for id_, row in enumerate(rows):
        exact = sum(map(lambda a, b: a * b, rows[0], row)) / (
            math.hypot(*rows[0]) * math.hypot(*row)
        )
        assert abs(found[id_] - exact) < 0.03


WRONG: dict[str, Any] = {
    "fewer": [[1.0, 0.0]],
    "more": [[1.0], [1.0], [1.0]],
    "of two lengths": [[1.0, 0.0], [1.0]],
    "not a number": [[1.0, 0.0], [math.nan, 1.0]],
    "infinite": [[1.0, 0.0], [math.inf, 1.0]],
    "zero": [[1.0, 0.0], [0.0, 0.0]],
    "empty": [[], []],
    "none": None,
    "words": [["a"], ["b"]],
    "flat": [1.0, 2.0],
    "too long": [[1.0] * 10_000] * 2,
}


def test_what_is_no_vector_is_refused_by_name() -> None:
    def check(case: str) -> None:
        with pytest.raises(BadSetting, match="the embedding model `bad/1` gave"):
            CallableEmbedder(lambda _texts: WRONG[case], "bad/1").embed(["a", "b"])

    check_all(list(WRONG), check)


def test_a_wrong_vector_leaves_the_search_to_words() -> None:
    """The notice says what is wrong, and words answer."""

    def check(case: str) -> None:
        with MemoryStore() as store:
            store.create(SessionKey("main", "a"))
            said = [User(content="about apples"), User(content="about pears")]
            store.append(SessionKey("main", "a"), said, expect=None)
            broken = CallableEmbedder(lambda _texts: WRONG[case], "bad/1")
            memory = Memory(store, None, embedder=broken)
            (hit,) = memory.search("apples", scope="sessions")
            assert hit.text == "about apples"
            assert "`bad/1` gave" in memory.notice

    check_all(list(WRONG), check)


def test_lengths_do_not_change() -> None:
    sizes = iter([3, 3, 4])
    model = CallableEmbedder(lambda texts: [[1.0] * next(sizes) for _ in texts], "m", batch_size=1)
    assert len(model.embed(["a", "b"])) == 2
    with pytest.raises(BadSetting, match="of 4 and of 3 numbers"):
        model.embed(["c"])


@given(st.integers(0, 20), st.integers(1, 7))
def test_texts_are_given_in_batches(count: int, batch: int) -> None:
    seen: list[list[str]] = []

    def call(texts: Any) -> list[list[float]]:
        seen.append(texts)
        return [[float(text), 1.0] for text in texts]

    texts = [str(number) for number in range(count)]
    found = CallableEmbedder(call, "m", batch_size=batch).embed(texts)
    assert [text for some in seen for text in some] == texts
    assert all(len(some) <= batch for some in seen)
    assert found == [normalise([[float(text), 1.0]], 1, "m")[0] for text in texts]


def test_a_name_and_a_batch_are_needed() -> None:
    for name, batch in ((" ", 1), ("m", 0)):
        with pytest.raises(BadSetting):
            CallableEmbedder(lambda _texts: [], name, batch_size=batch)
