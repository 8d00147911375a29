"""The vectors of a search index: making them, and comparing passages and sources by meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.core.limits import RECALL_CANDIDATES_MAX, RECALL_EMBED_MAX
from holdfast.ports.search_index import places_of
from holdfast.providers.embeddings import Vectors, sum_of, widen

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from holdfast.ports.search_index import IndexSource, SearchIndex
    from holdfast.providers.embeddings import Embedder

_EMBED_BATCH: Final = 64
_SOURCES_ALONE: Final = 2
"""The mean of so few sources says nothing about either, so it is not subtracted."""


class IndexVectors:
    """The vectors of an index. Without an embedder there are none, and words alone count.

    Vectors are loaded for the sources that may answer, and each once: a source only grows under its
    id, and one that changes otherwise has another id.
    """

    def __init__(self, index: SearchIndex, embedder: Embedder | None) -> None:
        self._index = index
        self._embedder = embedder
        self._cache: dict[_Cached, _Held] = {}
        self._loaded: tuple[Vectors, _SourceMeans] | None = None
        self.notice = ""
        """The reason why the last query was compared by words alone, if it was."""

    def embed(self, limit: int | None = None, sources: Collection[int] | None = None) -> int:
        """Make vectors for passages that have none, and return the number made."""
        if self._embedder is None:
            return 0
        self._index.vectors.use_model(self._embedder.name)
        made = 0
        while limit is None or made < limit:
            count = _EMBED_BATCH if limit is None else min(_EMBED_BATCH, limit - made)
            waiting = self._index.vectors.missing(count, sources)
            if not waiting:
                break
            vectors = self._embedder.embed([text for _id, text in waiting])
            ids = (id_ for id_, _text in waiting)
            self._index.vectors.add(zip(ids, vectors, strict=True))
            made += len(waiting)
        return made

    def of_query(self, query: str, sources: Collection[IndexSource]) -> bytes | None:
        """The vector of a query; None where the vectors to compare it with are not all there."""
        self.notice = ""
        if self._embedder is None or not query.strip():
            return None
        try:
            waiting = self._load(sources)
            if waiting:
                self.notice = (
                    f"{waiting:,} passages have no vector yet, so words alone were compared; "
                    "`holdfast memory index` makes them"
                )
                return None
            return self._embedder.embed([query])[0]
        except Exception as error:  # vectors only help: a search by words must still answer
            self._cache, self._loaded = {}, None
            self.notice = f"vectors cannot be used, so words alone were compared: {error}"
            return None

    def nearest(self, vector: bytes | None, part: Mapping[int, IndexSource]) -> list[int]:
        """The passages of the part that are nearest to a vector."""
        if vector is None or self._loaded is None:
            return []
        runs = {places_of(source)[0] for source in part}
        nearest = self._loaded[0].nearest(vector, RECALL_CANDIDATES_MAX, runs)
        return [id_ for id_, _similarity in nearest]

    def similarity(self, vector: bytes | None, ids: Sequence[int]) -> dict[int, float]:
        """The similarity of passages to a vector."""
        if vector is None or self._loaded is None:
            return {}
        return self._loaded[0].similarity(vector, ids)

    def source_similarity(
        self, vector: bytes | None, part: Mapping[int, IndexSource]
    ) -> dict[int, float]:
        """The similarity of whole sources to a vector."""
        if vector is None or self._loaded is None:
            return {}
        return self._loaded[1].similarity(vector, part)

    def source_likeness(
        self, shares: Mapping[int, float], part: Mapping[int, IndexSource]
    ) -> dict[int, float]:
        """The similarity of sources to a weighted set of them."""
        return {} if self._loaded is None else self._loaded[1].likeness(shares, part)

    def _load(self, sources: Collection[IndexSource]) -> int:
        """Bring the vectors of these sources here; return the number of those not made yet."""
        known = {_Cached.of(source): source.passages for source in sources}

        def find_lacking() -> dict[_Cached, int]:
            found = {of: count - self._count(of) for of, count in known.items()}
            return {of: count for of, count in found.items() if count > 0}

        lacking = find_lacking()
        if lacking:
            assert self._embedder is not None
            self._index.vectors.use_model(self._embedder.name)
            self._fetch(list(lacking))
            if still := find_lacking():
                self.embed(RECALL_EMBED_MAX, [cached.id for cached in still])
                self._fetch(list(still))
        waiting = sum(find_lacking().values())
        if waiting:
            self._loaded = None
        elif lacking or self._loaded is None:
            held = sorted(self._cache.items(), key=lambda pair: pair[0].id)
            runs = ((places_of(of.id)[0], run.length, run.data) for of, run in held)
            self._loaded = (Vectors(runs), _SourceMeans({of.id: run.sum for of, run in held}))
        return waiting

    def _count(self, cached: _Cached) -> int:
        return self._cache[cached].length if cached in self._cache else 0

    def _fetch(self, lacking: Sequence[_Cached]) -> None:
        """Load what is not here of some sources. Sources that were replaced are dropped."""
        current = {_Cached.of(source) for source in self._index.sources()}
        kept = {cached: held for cached, held in self._cache.items() if cached in current}
        spans = [places_of(of.id, self._count(of)) for of in lacking]
        for cached, (length, data) in zip(lacking, self._index.vectors.load(spans), strict=True):
            if length:
                before = self._cache.get(cached, _Held(0, b"", 0))
                total = before.sum + sum_of(length, data)
                kept[cached] = _Held(before.length + length, before.data + data, total)
        self._cache = kept


class _Held(NamedTuple):
    """The vectors of a source that are here, one after another, and their sum."""

    length: int
    data: bytes
    sum: Any


class _Cached(NamedTuple):
    """A source whose vectors are here. An index that is made again uses its ids again."""

    id: int
    kind: str
    name: str
    stamp: str
    """Of notes: a session grows under its id, notes do not."""

    @classmethod
    def of(cls, source: IndexSource) -> _Cached:
        stamp = source.stamp if source.kind == "note" else ""
        return cls(source.id, source.kind, source.name, stamp)


class _SourceMeans:
    """The mean vector of each source, less the mean of all that are searched.

    Everything that is said to one agent is alike; the rest tells its sources apart.
    """

    def __init__(self, sums: Mapping[int, Any]) -> None:
        """`sums` are those of the vectors of each source."""
        import numpy

        self._places = {source: place for place, source in enumerate(sums)}
        if sums:
            self._means = _units(numpy.stack(list(sums.values())).astype(numpy.float32))

    def similarity(self, vector: bytes, part: Iterable[int]) -> dict[int, float]:
        """The similarity of each source of the part to a vector."""
        sources, means, shared = self._centred(part)
        if not sources:
            return {}
        wanted = _units(_units(widen(vector)) - shared)
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


def _units(rows: NDArray[Any]) -> Any:
    """Vectors of length one."""
    import numpy

    return rows / numpy.maximum(numpy.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)
