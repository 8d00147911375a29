"""Vectors: what they are compared by."""

from __future__ import annotations

import math
import operator
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.errors import StoreUnavailable
from holdfast.providers.embeddings import Vectors, sum_of

pytest.importorskip("numpy")


def _vector(*values: float) -> bytes:
    length = math.hypot(*values)
    return bytes(round(127 * value / length) & 0xFF for value in values)


def _vectors(*pairs: tuple[int, bytes]) -> Vectors:
    """Return vectors of single ids."""
    return Vectors((id_, 1, vector) for id_, vector in pairs)


def test_the_nearest_are_the_most_similar() -> None:
    vectors = _vectors((1, _vector(1, 0)), (5, _vector(1, 1)), (9, _vector(-1, 0)))
    near = vectors.nearest(_vector(1, 0), 2)

    assert [id_ for id_, _similarity in near] == [1, 5]
    assert near[0][1] == pytest.approx(1.0, abs=0.02)
    assert near[1][1] == pytest.approx(math.sqrt(0.5), abs=0.02)
    assert [id_ for id_, _ in vectors.nearest(_vector(1, 0), 2, [5, 9])] == [5, 9]


def test_similarity_is_given_for_those_that_have_a_vector() -> None:
    vectors = _vectors((1, _vector(1, 0)), (5, _vector(0, 1)))
    found = vectors.similarity(_vector(0, 1), [5, 1, 3, 99])

    assert sorted(found) == [1, 5]
    assert found[5] == pytest.approx(1.0, abs=0.02)
    assert found[1] == pytest.approx(0.0, abs=0.02)


def test_nothing_is_near_where_there_is_nothing() -> None:
    assert Vectors([]).nearest(b"\x01", 3) == []
    assert Vectors([(7, 0, b"")]).nearest(b"\x01", 3) == []
    assert _vectors((1, b"\x01")).nearest(b"\x01", 3, []) == []
    assert Vectors([]).similarity(b"\x01", [1]) == {}


def test_vectors_of_different_lengths_are_refused() -> None:
    """They are of different models that have the same name."""
    with pytest.raises(StoreUnavailable, match="different lengths"):
        _vectors((1, _vector(1, 0)), (5, _vector(1, 0, 0)))
    with pytest.raises(StoreUnavailable, match="`other` makes vectors of 3 dimensions"):
        _vectors((1, _vector(1, 0))).check(_vector(1, 0, 0), "other")


SIZES = st.sampled_from([1, 384, 1_040, 1_041, 1_536, 3_072])
SEEDS = st.integers(0, 2**32)


@examples(60)
@given(
    seed=SEEDS,
    counts=st.lists(st.integers(0, 40), max_size=9),
    count=st.integers(0, 60),
    size=SIZES,
)
@example(seed=0, counts=[20], count=20, size=3_072)
@example(seed=0, counts=[9, 9], count=20, size=1_040)
def test_vectors_are_compared_in_whole_numbers(
    seed: int, counts: list[int], count: int, size: int
) -> None:
    """The nearest, the similarities and the sums are those of integers of any size: also of the
    longest vectors there are, of many that are equal, and in any selection of runs."""
    chance = random.Random(seed)
    values = chance.choice(([-127, 127], [-1, 0, 1], range(-127, 128)))

    def draw() -> list[int]:
        return chance.choices(values, k=size)

    some = [draw() for _ in range(3)]
    runs: dict[int, list[list[int]]] = {}
    rows: dict[int, list[int]] = {}
    first = 0
    for number in counts:
        first += chance.randint(1, 5)
        runs[first] = [chance.choice((*some, draw())) for _ in range(number)]
        rows |= {first + place: row for place, row in enumerate(runs[first])}
        first += number
    joined = {first: b"".join(map(_to_bytes, run)) for first, run in runs.items()}
    vectors = Vectors((first, len(runs[first]), joined[first]) for first in runs)
    wanted = draw()
    allowed = [first for first in runs if chance.random() < 0.7]
    inside = {first + place for first in allowed for place in range(len(runs[first]))}
    exact = {id_: sum(map(operator.mul, row, wanted)) for id_, row in rows.items()}
    order = sorted(inside, key=lambda id_: (-exact[id_], id_))[:count]
    near = vectors.nearest(_to_bytes(wanted), count, allowed)
    assert [id_ for id_, _similarity in near] == order
    similar = vectors.similarity(_to_bytes(wanted), list(rows))
    for id_, value in exact.items():
        assert round(similar[id_] * 127**2) == value
    assert all(similarity == similar[id_] for id_, similarity in near)
    for first, run in runs.items():
        if run:
            assert sum_of(len(run), joined[first]).tolist() == [*map(sum, zip(*run, strict=True))]


def _to_bytes(row: list[int]) -> bytes:
    return bytes(value & 0xFF for value in row)
