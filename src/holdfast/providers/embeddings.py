"""Vectors for what a text means: what makes them, and how they are compared."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

_SCALE: Final = 127
"""A vector has length 1 and is kept in whole numbers of this part."""
_BLOCK: Final = 3 * 2**20
"""Numbers that are widened to floats at once: 12 MB."""
_SINGLE_MAX: Final = 1_040
"""Dimensions for which single precision holds any product of two vectors of bytes."""


class Embedder(Protocol):
    """Makes vectors of texts: unit vectors, one signed byte a dimension."""

    @property
    def name(self) -> str:
        """Which model and version: vectors of different ones cannot be compared."""

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """One vector for each text."""


class Vectors:
    """Vectors side by side in memory, to be compared with one all at once.

    They are compared in whole numbers, in single precision as far as it holds them, and else in
    double: similarities, and the order they give, are the same on every machine.
    """

    def __init__(self, runs: Iterable[tuple[int, int, bytes]]) -> None:
        """A run is the first of some ids that follow each other, their number, and their vectors
        one after another; the ids rise."""
        import numpy

        held = [run for run in runs if run[1]]
        counts = [count for _first, count, _data in held]
        size = len(held[0][2]) // counts[0] if held else 1
        if any(len(data) != count * size for _first, count, data in held):
            raise StoreUnavailable(
                "the vectors of the memory index have different lengths",
                hint="give each embedding model a name of its own",
            )
        ids = [numpy.arange(first, first + count) for first, count, _data in held]
        self._ids: Any = numpy.concatenate([numpy.zeros(0, dtype=numpy.int64), *ids])
        data = b"".join(data for _first, _count, data in held)
        self._rows: Any = numpy.frombuffer(data, dtype=numpy.int8).reshape(-1, size)
        ends = itertools.accumulate(counts)
        self._places = {run[0]: (end - run[1], end) for run, end in zip(held, ends, strict=True)}

    def __len__(self) -> int:
        return len(self._ids)

    def check(self, vector: bytes, model: str) -> None:
        """Raise `StoreUnavailable` for a vector that has another length than these."""
        if len(self._ids) and len(vector) != self._rows.shape[1]:
            raise StoreUnavailable(
                f"`{model}` makes vectors of {len(vector):,} dimensions, and those in the memory "
                f"index have {self._rows.shape[1]:,}",
                hint="give each embedding model a name of its own",
            )

    def nearest(
        self, vector: bytes, count: int, runs: Container[int] | None = None
    ) -> list[tuple[int, float]]:
        """The ids whose vectors are the most similar, with their similarity, best first.

        `runs` are the first ids of those that may answer. Of equals, the lower id comes first.
        """
        import numpy

        parts = list(self._parts(runs))
        if not parts or count < 1:
            return []
        values = -numpy.concatenate([self._rows_times(vector, *part) for part in parts])
        ids = numpy.concatenate([self._ids[start:end] for start, end in parts])
        if len(values) > count:  # sorts those that can be among the first, and no others
            near = values <= numpy.partition(values, count - 1)[count - 1]
            values, ids = values[near], ids[near]
        order = numpy.argsort(values, kind="stable")[:count]
        similarities = (-values[order] / _SCALE**2).tolist()
        return list(zip(ids[order].tolist(), similarities, strict=True))

    def similarity(self, vector: bytes, ids: Sequence[int]) -> dict[int, float]:
        """Return the similarity of each vector; passages without one are left out."""
        import numpy

        if not ids or not len(self._ids):
            return {}
        wanted = numpy.array(sorted(ids), dtype=numpy.int64)
        places = numpy.searchsorted(self._ids, wanted)
        places = numpy.minimum(places, len(self._ids) - 1)
        is_there = self._ids[places] == wanted
        values = widen(self._rows[places[is_there]]) @ widen(vector) / _SCALE**2
        return dict(zip(wanted[is_there].tolist(), values.tolist(), strict=True))

    def _parts(self, runs: Container[int] | None) -> Iterator[tuple[int, int]]:
        """Yield the places of the runs that may answer, those beside each other together."""
        begin = past = 0
        for first, (start, end) in self._places.items():
            if runs is not None and first not in runs:
                continue
            if start != past:
                yield begin, past
                begin = start
            past = end
        yield begin, past

    def _rows_times(self, vector: bytes, start: int, end: int) -> Any:
        import numpy

        wanted = widen(vector)
        size = _rows_of_block(self._rows)
        blocks = (self._rows[at : min(at + size, end)] for at in range(start, end, size))
        products = [widen(block) @ wanted for block in blocks]
        return numpy.concatenate([numpy.zeros(0, dtype=wanted.dtype), *products])


def sum_of(count: int, data: bytes) -> Any:
    """Return the sum of vectors that are given one after another, in whole numbers."""
    import numpy

    rows = numpy.frombuffer(data, dtype=numpy.int8).reshape(count, -1)
    size = min(_rows_of_block(rows), _SINGLE_MAX)
    blocks = (widen(rows[at : at + size]) for at in range(0, count, size))
    total = numpy.zeros(rows.shape[1], dtype=numpy.int64)
    for block in blocks:  # a product is several times as fast as a sum of bytes
        total += (numpy.ones(len(block), dtype=block.dtype) @ block).astype(numpy.int64)
    return total


def widen(vectors: Any) -> Any:
    """Return vectors of bytes as numbers to calculate with, which hold their products exactly."""
    import numpy

    if isinstance(vectors, bytes):
        vectors = numpy.frombuffer(vectors, dtype=numpy.int8)
    is_short = vectors.shape[-1] <= _SINGLE_MAX
    return vectors.astype(numpy.float32 if is_short else numpy.float64)


def _rows_of_block(rows: Any) -> int:
    return max(1, _BLOCK // max(1, int(rows.shape[1])))
