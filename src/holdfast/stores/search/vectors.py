"""The vectors of indexed passages, all made by one embedding model."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.stores.search.database import SearchDatabase


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

    def missing(self, limit: int) -> list[tuple[int, str]]:
        """Return passages that have no vector yet, by id and text, the newest first."""
        with self._database.reading() as db:
            return db.execute(
                "SELECT id, text FROM passages WHERE id NOT IN (SELECT id FROM vectors) "
                "ORDER BY id DESC LIMIT ?",
                (limit,),
            ).fetchall()

    def count_missing(self) -> int:
        """Return the number of passages that have no vector yet."""
        with self._database.reading() as db:
            passages = db.execute("SELECT sum(passages) FROM sources").fetchone()[0] or 0
            vectors = db.execute("SELECT count(*) FROM vectors").fetchone()[0]
        return max(0, int(passages) - int(vectors))

    def add(self, vectors: Iterable[tuple[int, bytes]]) -> None:
        """Store vectors of passages that are still there."""
        with self._database.writing() as db:
            db.executemany(
                "INSERT OR REPLACE INTO vectors SELECT id, ? FROM passages WHERE id = ?",
                ((vector, id_) for id_, vector in vectors),
            )

    def all(self) -> list[tuple[int, bytes]]:
        """Return every vector by the id of its passage."""
        with self._database.reading() as db:
            return db.execute("SELECT id, vector FROM vectors ORDER BY id").fetchall()

    def state(self) -> tuple[int, int]:
        """Return a value that changes with the vectors: their number and the last of them."""
        with self._database.reading() as db:
            found = db.execute("SELECT count(*), max(id) FROM vectors").fetchone()
        return int(found[0]), int(found[1] or 0)
