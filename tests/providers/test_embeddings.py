"""Vectors: what they are compared by, and the offline model where it is installed."""

from __future__ import annotations

import math

import pytest

from holdfast.providers.embeddings import MiniLM, Vectors, find_embedder

pytest.importorskip("numpy")


def _vector(*values: float) -> bytes:
    length = math.hypot(*values)
    return bytes(round(127 * value / length) & 0xFF for value in values)


def test_the_nearest_are_the_most_similar() -> None:
    vectors = Vectors([(1, _vector(1, 0)), (5, _vector(1, 1)), (9, _vector(-1, 0))])
    near = vectors.nearest(_vector(1, 0), 2)

    assert [id_ for id_, _similarity in near] == [1, 5]
    assert near[0][1] == pytest.approx(1.0, abs=0.02)
    assert near[1][1] == pytest.approx(math.sqrt(0.5), abs=0.02)
    assert [id_ for id_, _ in vectors.nearest(_vector(1, 0), 2, lambda id_: id_ > 1)] == [5, 9]


def test_similarity_is_given_for_those_that_have_a_vector() -> None:
    vectors = Vectors([(1, _vector(1, 0)), (5, _vector(0, 1))])
    found = vectors.similarity(_vector(0, 1), [5, 1, 3, 99])

    assert sorted(found) == [1, 5]
    assert found[5] == pytest.approx(1.0, abs=0.02)
    assert found[1] == pytest.approx(0.0, abs=0.02)


def test_groups_are_compared_as_a_whole() -> None:
    vectors = Vectors(
        [(10, _vector(1, 0)), (11, _vector(0, 1)), (20, _vector(-1, 0))], lambda id_: id_ // 10
    )
    found = vectors.by_group(_vector(1, 1))

    assert found[1] == pytest.approx(1.0, abs=0.02)
    assert found[2] < 0


def test_nothing_is_near_where_there_is_nothing() -> None:
    assert Vectors([]).nearest(b"\x01", 3) == []
    assert Vectors([]).similarity(b"\x01", [1]) == {}
    assert Vectors([], lambda id_: id_).by_group(b"\x01") == {}


@pytest.fixture(scope="module")
def model() -> MiniLM:
    found = find_embedder()
    if found is None:
        pytest.skip("the extra `vectors` is not installed")
    return found


def test_the_model_knows_what_texts_have_in_common(model: MiniLM) -> None:
    """A paraphrase without a common word is nearer than another subject."""
    texts = ["My puppy will not stop barking", "The invoice is due on Friday"]
    vectors = Vectors(enumerate(model.embed(texts)))
    (query,) = model.embed(["a noisy young dog"])

    assert vectors.nearest(query, 1)[0][0] == 0


def test_a_batch_gives_what_each_text_gives_alone(model: MiniLM) -> None:
    """Whatever stands beside it in a batch, and however long it is."""
    texts = ["short", "a somewhat longer text about nothing at all", "", "word " * 600]
    together = model.embed(texts)
    alone = [model.embed([text])[0] for text in texts]
    for one, other in zip(together, alone, strict=True):
        near = Vectors([(0, one)]).similarity(other, [0])[0]
        assert near == pytest.approx(1.0, abs=0.05)
