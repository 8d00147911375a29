"""Any function that makes vectors of texts, as an embedder: its numbers are checked and scaled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from holdfast.errors import BadSetting

EmbedTexts = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Returns a vector for each text: numbers of any size, of one length."""
BATCH_SIZE: Final = 32
"""Texts that are given to a function, or sent, at once."""
_SCALE: Final = 127
_DIMENSIONS_MAX: Final = 8_192
"""Numbers of a longer vector are too small for a signed byte each."""


class CallableEmbedder:
    """An embedding model behind a function, which may be called from several threads.

    The vectors of an index are those of one `name`: give another model, or another version of it,
    a name of its own, and the vectors are made again.
    """

    def __init__(self, call: EmbedTexts, name: str, *, batch_size: int = BATCH_SIZE) -> None:
        if not name.strip():
            raise BadSetting("an embedding model needs a name", hint="say which model it is")
        if batch_size < 1:
            raise BadSetting(f"a batch cannot have {batch_size} texts", hint="give 1 or more")
        self.name = name
        self.batch_size = batch_size
        self._call = call
        self._size: int | None = None
        self._mutex = threading.Lock()

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """One vector for each text. Raises `BadSetting` where the function gives others."""
        found: list[bytes] = []
        for start in range(0, len(texts), self.batch_size):
            some = list(texts[start : start + self.batch_size])
            made = normalise(self._call(some), len(some), self.name)
            with self._mutex:
                size = self._size = self._size or len(made[0])
            if len(made[0]) != size:
                raise _refusal(
                    self.name, f"gave vectors of {len(made[0]):,} and of {size:,} numbers"
                )
            found += made
        return found


def normalise(vectors: Any, count: int, name: str) -> list[bytes]:
    """Return vectors of any scale as unit vectors, one signed byte for each number.

    Raises `BadSetting` for anything that is not `count` vectors of one length, of finite
    numbers that are not all 0.
    """
    import numpy

    try:
        rows = numpy.asarray(vectors, dtype=numpy.float64)
    except (TypeError, ValueError):
        raise _refusal(name, "gave something other than lists of numbers of one length") from None
    if rows.ndim != 2 or not rows.shape[1]:
        raise _refusal(name, "gave something other than lists of numbers of one length")
    if len(rows) != count:
        raise _refusal(name, f"gave {len(rows):,} vectors for {count:,} texts")
    if rows.shape[1] > _DIMENSIONS_MAX:
        raise _refusal(
            name, f"gave vectors of {rows.shape[1]:,} numbers, and at most {_DIMENSIONS_MAX:,} fit"
        )
    if not numpy.isfinite(rows).all():
        raise _refusal(name, "gave a number that is infinite or not a number")
    largest = numpy.abs(rows).max(axis=1, keepdims=True)
    if not largest.all():
        raise _refusal(name, "gave a vector of nothing but 0, which has no direction")
    rows = rows / largest  # squares of very large or small numbers would not be numbers
    rows /= numpy.linalg.norm(rows, axis=1, keepdims=True)
    return [row.tobytes() for row in numpy.rint(rows * _SCALE).astype(numpy.int8)]


def _refusal(name: str, what: str) -> BadSetting:
    return BadSetting(f"the embedding model `{name}` {what}")
