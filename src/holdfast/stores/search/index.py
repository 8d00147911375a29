"""The index of memory: passages of notes and sessions, by their terms and by their vectors.

It is a cache, in SQLite, and never trusted over the files: each source has a stamp, and a search
compares the stamps first. A missing, corrupt or outdated index is made again, and one that cannot
be written is kept in memory. A query costs what its rarest terms cost (`lookup`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.ports.search_index import PLACE_BITS, FoundPassage, IndexSource, Matches, source_of
from holdfast.stores.search import lookup
from holdfast.stores.search.database import SearchDatabase
from holdfast.stores.search.vectors import SqliteVectors

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.ports.search_index import IndexPassage, SourceKind

AROUND_PLACES: Final = 32
"""Passages read on either side of one: more than an answer shows."""
_SELECT: Final = (
    "SELECT passages.id, text, places.terms, role, record, first_line, last_line, ts "
    "FROM passages JOIN places ON places.rowid = passages.id"
)
_COUNT_SOME: Final = "SELECT count(*) FROM (SELECT 1 FROM places WHERE places MATCH ? LIMIT ?)"
"""The vocabulary counts all passages of a term, however many there are."""

FILE_NAME: Final = "recall.sqlite3"
"""The file of the index in a root."""
_OF_SESSION: Final = "SELECT id FROM sources WHERE kind = 'session' AND name = ?"
_NOTES_OF_SESSION: Final = (
    "SELECT id FROM passages WHERE role = 'note' AND (record = ? OR substr(record, 1, ?) = ?)"
)


class SqliteSearchIndex:
    """The `SearchIndex` of a SQLite file. Safe for threads, and for many processes."""

    def __init__(self, path: str | None) -> None:
        """`path` is the file of the index; without one it is kept in memory."""
        self._database = SearchDatabase(path)
        self.vectors = SqliteVectors(self._database)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._database.close()

    # Keeping up

    def sources(self) -> list[IndexSource]:
        """Return everything that is in the index."""
        with self._database.reading() as db:
            rows = db.execute(
                "SELECT id, kind, name, stamp, head, passages, terms, oldest, newest FROM sources"
            ).fetchall()
        return [IndexSource(*row) for row in rows]

    def replace(
        self,
        kind: SourceKind,
        name: str,
        *,
        stamp: str,
        head: str,
        passages: Sequence[IndexPassage],
    ) -> None:
        """Put a source into the index, in place of its earlier state."""
        with self._database.writing() as db:
            known = db.execute(
                "SELECT id FROM sources WHERE kind = ? AND name = ?", (kind, name)
            ).fetchone()
            if known is not None:
                _forget(db, known[0])
            made = db.execute(
                "INSERT INTO sources (kind, name, stamp, head, passages, terms) "
                "VALUES (?, ?, ?, ?, 0, 0)",
                (kind, name, stamp, head),
            )
            assert made.lastrowid is not None
            _add(db, made.lastrowid, 0, passages)

    def extend(
        self, known: IndexSource, *, stamp: str, head: str, passages: Sequence[IndexPassage]
    ) -> None:
        """Add what was written to a source since. Does nothing where another process did."""
        with self._database.writing() as db:
            changed = db.execute(
                "UPDATE sources SET stamp = ?, head = ? WHERE id = ? AND head = ? AND passages = ?",
                (stamp, head, known.id, known.head, known.passages),
            )
            if changed.rowcount:
                _add(db, known.id, known.passages, passages)

    def forget(self, sources: Iterable[int]) -> None:
        """Remove sources that no longer exist."""
        with self._database.writing() as db:
            for source in sources:
                _forget(db, source)

    def erase(self, session: str | None, scopes: Sequence[str] = ()) -> None:
        """Delete a session (`agent/id`), the files with notes from it, and scopes of notes.

        Their words are in no file afterwards. The other notes of these files are indexed again by
        the next search.
        """

        def delete(db: sqlite3.Connection) -> None:
            gone = {
                row[0]
                for scope in scopes
                for row in db.execute(
                    "SELECT id FROM sources WHERE kind = 'note' AND substr(name, 1, ?) = ?",
                    (len(scope) + 2, f"{scope}//"),
                )
            }
            if session is not None:
                gone |= {row[0] for row in db.execute(_OF_SESSION, (session,))}
                notes = db.execute(_NOTES_OF_SESSION, (session, len(session) + 1, f"{session} "))
                gone |= {source_of(row[0]) for row in notes}
            for source in gone:
                _forget(db, source)
            db.execute("INSERT INTO places (places) VALUES ('optimize')")  # drops deleted terms

        self._database.erase(delete)

    # Looking up

    def matches(
        self,
        query: Mapping[str, float],
        phrase: Sequence[str],
        allowed: Mapping[int, IndexSource],
    ) -> Matches:
        """Return the passages of the allowed sources that hold terms of the query."""
        with self._database.reading() as db:
            return lookup.match(_SqlitePlaces(db), query, phrase, allowed)

    def passages(self, ids: Sequence[int]) -> list[FoundPassage]:
        """Return those of the passages that are still there."""
        marks = ", ".join("?" * len(ids))
        query = f"{_SELECT} WHERE passages.id IN ({marks})"
        with self._database.reading() as db:
            rows = db.execute(query, list(ids)).fetchall()
        return [FoundPassage(row[0], row[1], row[2].split(), *row[3:]) for row in rows]

    def around(self, passage: int) -> list[FoundPassage]:
        """Return a passage and its neighbours in the same source, in order."""
        first = source_of(passage) << PLACE_BITS
        last = first + (1 << PLACE_BITS) - 1
        query = f"{_SELECT} WHERE passages.id BETWEEN ? AND ? ORDER BY passages.id"
        ends = (max(first, passage - AROUND_PLACES), min(last, passage + AROUND_PLACES))
        with self._database.reading() as db:
            rows = db.execute(query, ends).fetchall()
        return [FoundPassage(row[0], row[1], row[2].split(), *row[3:]) for row in rows]

    def holding(self, wanted: Iterable[str], most: int) -> dict[str, int]:
        """Return the number of passages that hold each of the terms; counting ends at `most`."""
        with self._database.reading() as db:
            places = _SqlitePlaces(db)
            return {term: places.count(term, most) for term in wanted}

    def count_by_source(
        self, holding: Mapping[str, int], allowed: Mapping[int, IndexSource]
    ) -> dict[str, dict[int, int]]:
        """Return how often each term occurs in each of the allowed sources, the rarest first.

        `holding` is the number of passages that hold a term; terms with too many are left out.
        """
        with self._database.reading() as db:
            return lookup.count_by_source(_SqlitePlaces(db), holding, allowed)


class _SqlitePlaces:
    """The `Places` of a SQLite file."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def count(self, term: str, most: int | None = None) -> int:
        if most is None:
            found = self._db.execute("SELECT doc FROM vocabulary WHERE term = ?", (term,))
        else:
            found = self._db.execute(_COUNT_SOME, (f'"{term}"', most))
        row = found.fetchone()
        return int(row[0]) if row else 0

    def total(self) -> int:
        return int(self._db.execute("SELECT sum(passages) FROM sources").fetchone()[0] or 0)

    def instances(self, term: str) -> list[int]:
        rows = self._db.execute("SELECT doc FROM instances WHERE term = ?", (term,))
        return [row[0] for row in rows]

    def oldest(self, term: str, limit: int) -> list[int]:
        query = "SELECT rowid FROM places WHERE places MATCH ? ORDER BY rowid LIMIT ?"
        return [row[0] for row in self._db.execute(query, (f'"{term}"', limit))]

    def newest(self, term: str, limit: int) -> list[int]:
        return self.exact([term], limit)

    def exact(self, phrase: Sequence[str], limit: int) -> list[int]:
        rows = self._db.execute(
            "SELECT rowid FROM places WHERE places MATCH ? ORDER BY rowid DESC LIMIT ?",
            (f'"{" ".join(phrase)}"', limit),  # no term has a quote in it
        )
        return [row[0] for row in rows]


def _add(db: sqlite3.Connection, source: int, start: int, passages: Sequence[IndexPassage]) -> None:
    first = (source << PLACE_BITS) + start
    db.executemany(
        "INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            (
                id_,
                passage.role,
                passage.record,
                passage.first_line,
                passage.last_line,
                passage.ts,
                passage.text,
            )
            for id_, passage in enumerate(passages, first)
        ),
    )
    db.executemany(
        "INSERT INTO places (rowid, terms) VALUES (?, ?)",
        ((id_, " ".join(passage.terms)) for id_, passage in enumerate(passages, first)),
    )
    times = [passage.ts for passage in passages if passage.ts is not None]
    db.execute(
        "UPDATE sources SET passages = passages + :passages, terms = terms + :terms, "
        "oldest = coalesce(min(oldest, :oldest), oldest, :oldest), "
        "newest = coalesce(max(newest, :newest), newest, :newest) WHERE id = :source",
        {
            "passages": len(passages),
            "terms": sum(len(passage.terms) for passage in passages),
            "oldest": min(times, default=None),
            "newest": max(times, default=None),
            "source": source,
        },
    )


def _forget(db: sqlite3.Connection, source: int) -> None:
    first, last = source << PLACE_BITS, ((source + 1) << PLACE_BITS) - 1
    db.execute("DELETE FROM sources WHERE id = ?", (source,))
    db.execute("DELETE FROM passages WHERE id BETWEEN ? AND ?", (first, last))
    db.execute("DELETE FROM vectors WHERE id BETWEEN ? AND ?", (first, last))
    db.execute("DELETE FROM places WHERE rowid BETWEEN ? AND ?", (first, last))
