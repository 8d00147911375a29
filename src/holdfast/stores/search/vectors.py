"""The vectors of indexed passages, all made by one embedding model."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from holdfast.ports.search_index import VectorRun, places_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from holdfast.stores.search.database import SearchDatabase


_EVERYTHING: Final = (0, 2**63 - 1)
_LOAD: Final = """SELECT id, vector FROM vectors WHERE id >= ? AND id < ?
  AND (SELECT value FROM facts WHERE name = 'vectors') = ? ORDER BY id"""
_MISSING: Final = """SELECT id, text FROM passages WHERE id >= ? AND id < ?
  AND id NOT IN (SELECT id FROM vectors) ORDER BY id DESC LIMIT ?"""


class SqliteVectors:
    """The `PassageVectors` of a SQLite file: a table of them, by the id of their passage."""

    def __init__(self, database: SearchDatabase) -> None:
        self._database = database

    def use_model(self, name: str) -> None:
        """Delete the vectors of another model: they cannot be compared."""
        with self._database.writing() as db:
            known = db.execute("SELECT value FROM facts WHERE name = 'vectors'").fetchone()
            if known is None or known[0] != name:
                db.execute("DELETE FROM vectors")
                db.execute("INSERT OR REPLACE INTO facts VALUES ('vectors', ?)", (name,))

    def missing(self, limit: int, sources: Collection[int] | None = None) -> list[tuple[int, str]]:
        """Return passages that have no vector yet, by id and text, the newest first."""
        spans = [_EVERYTHING] if sources is None else list(map(places_of, sources))
        found: list[tuple[int, str]] = []
        with self._database.reading() as db:
            for first, end in sorted(spans, reverse=True):
                if len(found) < limit:
                    found += db.execute(_MISSING, (first, end, limit - len(found)))
        return found

    def count(self, sources: Collection[int]) -> int:
        """Return the number of passages of some sources that have a vector."""
        query = "SELECT count(*) FROM vectors WHERE id >= ? AND id < ?"
        with self._database.reading() as db:
            return sum(db.execute(query, places_of(source)).fetchone()[0] for source in sources)

    def add(self, model: str, vectors: Iterable[tuple[int, bytes]]) -> bool:
        """Store vectors of passages that are still there, unless another model is in use."""
        with self._database.writing() as db:
            known = db.execute("SELECT value FROM facts WHERE name = 'vectors'").fetchone()
            if known is None or known[0] != model:
                return False
            db.executemany(
                "INSERT OR REPLACE INTO vectors SELECT id, ? FROM passages WHERE id = ?",
                ((vector, id_) for id_, vector in vectors),
            )
            return True

    def load(self, model: str, spans: Sequence[tuple[int, int]]) -> list[VectorRun]:
        """Return the vectors that are there of each span, in runs that are as long as possible."""
        with self._database.reading() as db:
            return [run for span in spans for run in _runs(db.execute(_LOAD, (*span, model)))]


def _runs(rows: Iterable[tuple[int, bytes]]) -> Iterator[VectorRun]:
    """Yield rows whose ids follow each other together: their ids rise as fast as their places."""
    for _start, pairs in itertools.groupby(enumerate(rows), lambda pair: pair[1][0] - pair[0]):
        found = [row for _place, row in pairs]
        yield VectorRun(found[0][0], len(found), b"".join(vector for _id, vector in found))
