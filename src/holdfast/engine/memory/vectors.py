"""The vectors of a search index: making them, and comparing passages and sources by meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.limits import RECALL_CANDIDATES_MAX, RECALL_EMBED_MAX
from holdfast.ports.search_index import source_of
from holdfast.providers.embeddings import Vectors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.ports.search_index import IndexSource, SearchIndex
    from holdfast.providers.embeddings import Embedder

_EMBED_BATCH: Final = 64
_SOURCES_ALONE: Final = 2
"""The mean of so few sources says nothing about either, so it is not subtracted."""


class IndexVectors:
    """The vectors of an index. Without an embedder there are none, and words alone count."""

    def __init__(self, index: SearchIndex, embedder: Embedder | None) -> None:
        self._index = index
        self._embedder = embedder
        self._loaded: tuple[tuple[int, int], Vectors, _SourceMeans] | None = None
        self.notice = ""
        """The reason why the last query was compared by words alone, if it was."""

    def embed(self, limit: int | None = None) -> int:
        """Make vectors for passages that have none, and return the number made."""
        if self._embedder is None:
            return 0
        self._index.vectors.use_model(self._embedder.name)
        made = 0
        while limit is None or made < limit:
            count = _EMBED_BATCH if limit is None else min(_EMBED_BATCH, limit - made)
            waiting = self._index.vectors.missing(count)
            if not waiting:
                break
            vectors = self._embedder.embed([text for _id, text in waiting])
            ids = (id_ for id_, _text in waiting)
            self._index.vectors.add(zip(ids, vectors, strict=True))
            made += len(waiting)
        return made

    def of_query(self, query: str) -> bytes | None:
        """The vector of a query; None where there are no vectors to compare it with."""
        self.notice = ""
        if self._embedder is None or not query.strip():
            return None
        try:
            self.embed(RECALL_EMBED_MAX)
            waiting = self._index.vectors.count_missing()
            if waiting:
                self.notice = (
                    f"{waiting:,} passages have no vector yet, so words alone were compared; "
                    "`holdfast memory index` makes them"
                )
                return None
            self._load()
            return self._embedder.embed([query])[0]
        except Exception as error:  # vectors only help: a search by words must still answer
            self.notice = f"vectors cannot be used, so words alone were compared: {error}"
            return None

    def nearest(self, vector: bytes | None, part: Mapping[int, IndexSource]) -> list[int]:
        """The passages of the part that are nearest to a vector."""
        if vector is None or self._loaded is None:
            return []
        nearest = self._loaded[1].nearest(
            vector, RECALL_CANDIDATES_MAX, lambda id_: source_of(id_) in part
        )
        return [id_ for id_, _similarity in nearest]

    def similarity(self, vector: bytes | None, ids: Sequence[int]) -> dict[int, float]:
        """The similarity of passages to a vector."""
        if vector is None or self._loaded is None:
            return {}
        return self._loaded[1].similarity(vector, ids)

    def source_similarity(
        self, vector: bytes | None, part: Mapping[int, IndexSource]
    ) -> dict[int, float]:
        """The similarity of whole sources to a vector."""
        if vector is None or self._loaded is None:
            return {}
        return self._loaded[2].similarity(vector, part)

    def source_likeness(
        self, shares: Mapping[int, float], part: Mapping[int, IndexSource]
    ) -> dict[int, float]:
        """The similarity of sources to a weighted set of them."""
        return {} if self._loaded is None else self._loaded[2].likeness(shares, part)

    def _load(self) -> None:
        state = self._index.vectors.state()
        if self._loaded is None or self._loaded[0] != state:
            vectors = self._index.vectors.all()
            self._loaded = (state, Vectors(vectors), _SourceMeans(vectors))


class _SourceMeans:
    """The mean vector of each source, less the mean of all that are searched.

    Everything that is said to one agent is alike; the rest tells its sources apart.
    """

    def __init__(self, vectors: Sequence[tuple[int, bytes]]) -> None:
        """`vectors` are passage ids in rising order, each with its vector."""
        import numpy

        of_each = [source_of(id_) for id_, _vector in vectors]
        starts = [n for n, source in enumerate(of_each) if n == 0 or source != of_each[n - 1]]
        self._places = {of_each[start]: place for place, start in enumerate(starts)}
        if not starts:
            return
        data = b"".join(vector for _id, vector in vectors)
        rows = numpy.frombuffer(data, dtype=numpy.int8).reshape(len(vectors), -1)
        sums = numpy.add.reduceat(rows, starts, axis=0, dtype=numpy.int32)
        self._means = _units(sums.astype(numpy.float32))

    def similarity(self, vector: bytes, part: Iterable[int]) -> dict[int, float]:
        """The similarity of each source of the part to a vector."""
        import numpy

        sources, means, shared = self._centred(part)
        if not sources:
            return {}
        wanted = numpy.frombuffer(vector, dtype=numpy.int8).astype(numpy.float32)
        wanted = _units(_units(wanted) - shared)
        return dict(zip(sources, (means @ wanted).tolist(), strict=True))

    def likeness(self, shares: Mapping[int, float], part: Iterable[int]) -> dict[int, float]:
        """The similarity of each source of the part to some of them, weighted by their shares."""
        sources, means, _shared = self._centred(part)
        wanted = [(place, shares[one]) for place, one in enumerate(sources) if one in shares]
        if not wanted:
            return {}
        values = means @ sum(share * means[place] for place, share in wanted)
        return dict(zip(sources, values.tolist(), strict=True))

    def _centred(self, part: Iterable[int]) -> tuple[list[int], Any, Any]:
        """The sources that have vectors, their centred means, and the mean of all of them."""
        sources = sorted(source for source in part if source in self._places)
        if not sources:
            return [], None, 0.0
        means = self._means[[self._places[source] for source in sources]]
        shared = means.mean(axis=0) if len(sources) > _SOURCES_ALONE else 0.0
        return sources, _units(means - shared), shared


def _units(rows: Any) -> Any:
    """Vectors of length one."""
    import numpy

    return rows / numpy.maximum(numpy.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)
