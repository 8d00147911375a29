"""The vectors of a search index: making them, and comparing passages and sources by them.

They are made in the background, in small batches, while no one searches. An embedder is given no
secrets: the model may be on another machine.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.core.limits import RECALL_CANDIDATES_MAX, RECALL_EMBED_MAX
from holdfast.errors import StoreUnavailable
from holdfast.ports.side_stores import VectorRun, places_of, source_of
from holdfast.providers.embedders import FastEmbedder, as_embedder
from holdfast.providers.embeddings import Vectors, sum_of, widen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from holdfast.core.secrets.redaction import Redactor
    from holdfast.ports.side_stores import IndexSource, SearchIndex
    from holdfast.providers.embedders import EmbedTexts
    from holdfast.providers.embeddings import Embedder


class MaskedEmbedder:
    """Masks texts before it gives them to another embedder, which keeps its name."""

    def __init__(self, embedder: Embedder, redactor: Redactor) -> None:
        self._embedder = embedder
        self._redactor = redactor
        if hasattr(embedder, "batch_size"):
            self.batch_size = embedder.batch_size

    @property
    def name(self) -> str:
        return self._embedder.name

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """One vector for each text, with its secrets masked."""
        return self._embedder.embed([self._redactor.text(text) for text in texts])


def mask_embedder(given: Embedder | EmbedTexts | str | None, redactor: Redactor) -> Embedder | None:
    """Return an embedder for a name, a function or an embedder, to which no secret is given.

    A `FastEmbedder` runs in this process, and needs no mask.
    """
    found = as_embedder(given)
    if found is None or isinstance(found, FastEmbedder | MaskedEmbedder):
        return found
    return MaskedEmbedder(found, redactor)


_EMBED_BATCH: Final = 32
"""Passages that are embedded at once. An interruption loses the vectors of one batch."""
_LISTED: Final = 1_024
"""Passages without a vector that are looked up at once."""
_SOURCES_ALONE: Final = 2
"""The mean of so few sources says nothing about either, so it is not subtracted."""


def embed_missing(
    index: SearchIndex,
    embedder: Embedder,
    sources: Collection[int],
    *,
    limit: int | None = None,
    batch: int | None = None,
    report: Callable[[int], object] = lambda _made: None,
) -> int:
    """Make vectors for passages of some sources that have none, the newest first.

    Each batch is stored at once, so that who is interrupted goes on where it was; `report` is
    called with the number made so far, which is returned in the end. Raises `StoreUnavailable`
    where another changes the model of the index meanwhile, and what the embedder raises.
    """
    vectors, name = index.vectors, embedder.name
    batch = batch or max(1, int(getattr(embedder, "batch_size", _EMBED_BATCH)))
    vectors.use_model(name)
    made = 0
    while limit is None or made < limit:
        room = _LISTED if limit is None else min(_LISTED, limit - made)
        waiting = vectors.missing(room, sources)
        if not waiting:
            break
        for start in range(0, len(waiting), batch):
            some = waiting[start : start + batch]
            found = embedder.embed([text for _id, text in some])
            if len(found) != len(some):
                raise StoreUnavailable(
                    f"the embedding model `{name}` gave {len(found)} vectors for {len(some)} texts"
                )
            if not vectors.add(name, zip((id_ for id_, _text in some), found, strict=True)):
                raise StoreUnavailable(
                    f"the vectors of the index are no longer those of `{name}`",
                    hint="let all processes that use this store use one embedding model",
                )
            made += len(some)
            report(made)
    return made


class IndexVectors:
    """The vectors of an index. Without an embedder there are none, and words alone count.

    Vectors are loaded for the sources that may answer, and each once: a source only grows under its
    id, and one that changes otherwise has another id. What has no vector yet is not waited for.
    """

    def __init__(self, index: SearchIndex, embedder: Embedder | None) -> None:
        self._index = index
        self._embedder = embedder
        self._cache: dict[_Cached, _Held] = {}
        self._loaded: tuple[Vectors, _SourceMeans] | None = None
        self.notice = ""
        """The reason why the last query was not compared with all vectors, if it was not."""
        self.missing: list[IndexSource] = []
        """The sources of the last query that lack vectors."""

    def embed(
        self,
        sources: Collection[int],
        limit: int | None = None,
        report: Callable[[int], object] = lambda _made: None,
    ) -> int:
        """Make vectors for passages that have none, and return the number made."""
        if self._embedder is None:
            return 0
        return embed_missing(self._index, self._embedder, sources, limit=limit, report=report)

    def count(self, sources: Collection[int]) -> int:
        """The number of passages of some sources that have a vector."""
        if self._embedder is None:
            return 0
        self._index.vectors.use_model(self._embedder.name)
        return self._index.vectors.count(sources)

    def of_query(
        self, query: str, sources: Collection[IndexSource], *, make: bool = True
    ) -> bytes | None:
        """The vector of a query; None where there are no vectors to compare it with.

        With `make`, a few of those that are missing are made first; without it, only where no more
        than these are missing.
        """
        self.notice, self.missing = "", []
        if self._embedder is None or not query.strip() or not sources:
            return None
        try:
            waiting = self._load(sources, self._embedder, make=make)
            total = sum(source.passages for source in sources)
            if waiting:
                self.notice = _notice(total - waiting, total, is_made_later=not make)
            if waiting >= total or self._loaded is None:
                return None
            (vector,) = self._embedder.embed([query])
            self._loaded[0].check(vector, self._embedder.name)
            return vector
        except Exception as error:  # vectors only help: a search by words must still answer
            self._cache, self._loaded = {}, None
            self.notice = f"vectors cannot be used, so words alone were compared: {error}"
            return None

    def coverage(self, vector: bytes | None, part: Mapping[int, IndexSource]) -> float:
        """The share of the passages of the part that have a vector."""
        total = sum(source.passages for source in part.values())
        if vector is None or not total:
            return 0.0
        return min(1.0, sum(self._count(_Cached.of(source)) for source in part.values()) / total)

    def nearest(self, vector: bytes | None, part: Mapping[int, IndexSource]) -> list[int]:
        """The passages of the part that are nearest to a vector."""
        if vector is None or self._loaded is None:
            return []
        held = (self._cache.get(_Cached.of(source)) for source in part.values())
        runs = {run.first for found in held if found for run in found.runs}
        nearest = self._loaded[0].nearest(vector, RECALL_CANDIDATES_MAX, runs)
        return [id_ for id_, _similarity in nearest]

    def similarity(self, vector: bytes | None, ids: Sequence[int]) -> dict[int, float]:
        """The similarity to a vector of those of the passages that have one."""
        if vector is None or self._loaded is None:
            return {}
        return self._loaded[0].similarity(vector, ids)

    def source_similarity(
        self, vector: bytes | None, part: Mapping[int, IndexSource]
    ) -> dict[int, float]:
        """The similarity to a vector of whole sources, as far as their passages have vectors."""
        if vector is None or self._loaded is None:
            return {}
        return self._loaded[1].similarity(vector, part)

    def source_likeness(
        self, shares: Mapping[int, float], part: Mapping[int, IndexSource]
    ) -> dict[int, float]:
        """The similarity of sources to a weighted set of them."""
        return {} if self._loaded is None else self._loaded[1].likeness(shares, part)

    def _load(self, sources: Collection[IndexSource], embedder: Embedder, *, make: bool) -> int:
        """Bring the vectors of these sources here; return the number of those not made yet."""
        known = {_Cached.of(source): source.passages for source in sources}

        def find_lacking() -> dict[_Cached, int]:
            found = {of: count - self._count(of) for of, count in known.items()}
            return {of: count for of, count in found.items() if count > 0}

        lacking = find_lacking()
        if lacking:
            self._index.vectors.use_model(embedder.name)
            self._fetch(known, lacking, embedder.name)
            still = find_lacking()
            if still and (make or sum(still.values()) <= RECALL_EMBED_MAX):
                self.embed([cached.id for cached in still], RECALL_EMBED_MAX)
                self._fetch(known, still, embedder.name)
            lacking = find_lacking()
        if self._loaded is None:
            held = sorted(self._cache.items(), key=lambda pair: pair[0].id)
            runs = (run for _of, found in held for run in found.runs)
            self._loaded = (Vectors(runs), _SourceMeans({of.id: found.sum for of, found in held}))
        self.missing = [source for source in sources if _Cached.of(source) in lacking]
        return sum(lacking.values())

    def _count(self, cached: _Cached) -> int:
        return self._cache[cached].passages if cached in self._cache else 0

    def _fetch(self, known: Mapping[_Cached, int], lacking: Iterable[_Cached], model: str) -> None:
        """Load what is not here of some sources. Sources that were replaced are dropped."""
        current = {_Cached.of(source) for source in self._index.sources()}
        kept = {cached: held for cached, held in self._cache.items() if cached in current}
        wanted = {of.id: of for of in lacking if of in current}
        spans = [
            span
            for of in wanted.values()
            for span in _gaps(of.id, known[of], kept[of].runs if of in kept else ())
        ]
        found = groupby(self._index.vectors.load(model, spans), lambda run: source_of(run.first))
        more = {wanted[source]: list(runs) for source, runs in found}
        for of, runs in more.items():
            kept[of] = kept.get(of, _Held((), 0, 0)).add(runs)
        if more or len(kept) < len(self._cache):
            self._loaded = None
        self._cache = kept


def _notice(count: int, total: int, *, is_made_later: bool) -> str:
    compared = (
        "these were compared by meaning, the others by words alone"
        if count
        else "words alone were compared"
    )
    rest = (
        "the rest are made in the background"
        if is_made_later
        else "`holdfast memory index` makes the rest"
    )
    return f"{count:,} of {total:,} passages have a vector, so {compared}; {rest}"


def _gaps(source: int, passages: int, runs: Sequence[VectorRun]) -> Iterator[tuple[int, int]]:
    """Yield the spans between the runs of a source that has so many passages."""
    first = places_of(source)[0]
    held = [(run.first, run.first + run.length) for run in runs]
    for (_start, end), (start, _end) in pairwise([(0, first), *held, (first + passages, 0)]):
        if end < start:
            yield end, start


class _Held(NamedTuple):
    """The vectors of a source that are here, in runs with gaps between them, and their sum."""

    runs: tuple[VectorRun, ...]
    passages: int
    sum: Any

    def add(self, more: Sequence[VectorRun]) -> _Held:
        """Return these with more: runs that touch each other become one."""
        joined: list[list[VectorRun]] = []
        for run in sorted((*self.runs, *more)):
            last = joined[-1][-1] if joined else None
            if last is not None and last.first + last.length == run.first:
                joined[-1].append(run)
            else:
                joined.append([run])
        runs = tuple(
            VectorRun(
                parts[0].first,
                sum(part.length for part in parts),
                b"".join(part.data for part in parts),
            )
            for parts in joined
        )
        total = sum((sum_of(run.length, run.data) for run in more), self.sum)
        return _Held(runs, sum(run.length for run in runs), total)


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


_BATCH: Final = 8
"""Passages that are embedded at once: a search waits for one batch at the most."""


class VectorWorker:
    """Makes the vectors that searches of one index have missed, in a thread.

    The thread lives while there is something to do, and rests while a search runs. It works for the
    sources that it was given, and for no others: those that a caller may search. Several processes
    may do the same for one index; each vector counts once.
    """

    def __init__(self, index: SearchIndex, embedder: Embedder) -> None:
        self._index = index
        self._embedder = embedder
        self._batch = max(1, int(getattr(embedder, "batch_size", _BATCH)))
        self._changed = threading.Condition()
        self._wanted: dict[int, str] = {}
        """The sources that lack vectors, by id, with their names."""
        self._searches = 0
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self.made = 0
        """The number of vectors made so far."""
        self.error = ""
        """The reason why it stopped before all were made, if it did; the next search starts it
        again."""

    def want(self, sources: Collection[IndexSource]) -> None:
        """Make the vectors of these sources when there is time."""
        with self._changed:
            if self._is_closed or not sources:
                return
            self._wanted.update((source.id, source.name) for source in sources)
            if self._thread is None or not self._thread.is_alive():  # a fork leaves it behind
                self._thread = threading.Thread(
                    target=self._run, name="holdfast-vectors", daemon=True
                )
                self._thread.start()

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Begin no batch during a block: someone waits for an answer."""
        with self._changed:
            self._searches += 1
        try:
            yield
        finally:
            with self._changed:
                self._searches -= 1
                self._changed.notify_all()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all that is wanted is made; False if it took longer."""
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None, seconds)

    def close(self) -> None:
        """Stop after the batch that is being made. Nothing is made afterwards."""
        with self._changed:
            self._is_closed = True
            self._wanted.clear()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while self._is_wanted():
            made, error = 0, ""
            try:
                made = self._make_batch()
            except Exception as failed:  # vectors only help: no one waits for them
                error = str(failed)
            with self._changed:
                self.made += made
                self.error = error
                if error:
                    self._wanted.clear()

    def _is_wanted(self) -> bool:
        """Wait until no search runs. Where nothing is left to do, the thread ends."""
        with self._changed:
            self._changed.wait_for(lambda: not self._searches or self._is_closed)
            if not self._wanted:
                self._thread = None
                self._changed.notify_all()
                return False
            return True

    def _make_batch(self) -> int:
        with self._changed:
            wanted = dict(self._wanted)
        # An index that is made again gives its ids to other sources.
        current = {source.id: source.name for source in self._index.sources()}
        sources = [id_ for id_, name in wanted.items() if current.get(id_) == name]
        made = embed_missing(
            self._index, self._embedder, sources, limit=self._batch, batch=self._batch
        )
        if made < self._batch:  # that was all of them
            with self._changed:
                for id_ in wanted:
                    self._wanted.pop(id_, None)
        return made
