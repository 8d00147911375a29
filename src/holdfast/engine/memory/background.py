"""Vectors that are made in the background, in small batches, while nobody searches."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from holdfast.engine.memory.vectors import embed_missing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from holdfast.ports.side_stores import IndexSource, SearchIndex
    from holdfast.providers.embeddings import Embedder

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
        """Begin no batch during a block: somebody waits for an answer."""
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
            except Exception as failed:  # vectors only help: nobody waits for them
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
