"""The vectors of indexed passages, all made by one embedding model."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from holdfast.ports.search_index import VectorRun, places_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from holdfast.stores.search.database import SearchDatabase


_EVERYTHING: Final = (0, 2**63 - 1)
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

    def add(self, vectors: Iterable[tuple[int, bytes]]) -> None:
        """Store vectors of passages that are still there."""
        with self._database.writing() as db:
            db.executemany(
                "INSERT OR REPLACE INTO vectors SELECT id, ? FROM passages WHERE id = ?",
                ((vector, id_) for id_, vector in vectors),
            )

    def load(self, spans: Sequence[tuple[int, int]]) -> list[VectorRun]:
        """Return, for each span, its vectors from the first id on, up to one that is missing."""
        query = "SELECT id, vector FROM vectors WHERE id >= ? AND id < ? ORDER BY id"
        with self._database.reading() as db:
            return [_run(first, db.execute(query, (first, end))) for first, end in spans]


def _run(first: int, rows: Iterable[tuple[int, bytes]]) -> VectorRun:
    in_order = zip(itertools.count(first), rows, strict=False)
    found = [
        row[1] for id_, row in itertools.takewhile(lambda pair: pair[0] == pair[1][0], in_order)
    ]
    return VectorRun(len(found), b"".join(found))
