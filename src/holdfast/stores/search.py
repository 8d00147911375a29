"""The index of memory in SQLite: passages of notes and sessions, by terms and by vectors.

Where the file does not work, the tables are in memory. A search is bounded, the rarest terms first,
and all vectors are made by one embedding model.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections import Counter, defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.core.limits import RECALL_CANDIDATES_MAX, RECALL_POSTINGS_MAX
from holdfast.core.memory.ranking import rarity
from holdfast.core.memory.search_terms import is_common
from holdfast.errors import PathRejected, StoreUnavailable
from holdfast.ports.side_stores import (
    PLACE_BITS,
    FoundPassage,
    IndexSource,
    Matches,
    VectorRun,
    places_of,
    source_of,
)
from holdfast.stores.sqlite_files import IN_MEMORY, SqliteCache

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from holdfast.ports.side_stores import IndexPassage, NewSource


_VERSION: Final = 2
_WAIT_SECONDS: Final = 5.0
"""Another process may be indexing a long session; a search after this goes on in memory."""
_TABLES: Final = ("sources", "passages", "places", "vocabulary", "instances", "vectors", "facts")
_SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS sources (
        id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, name TEXT NOT NULL,
        stamp TEXT NOT NULL, head TEXT NOT NULL,
        passages INTEGER NOT NULL, terms INTEGER NOT NULL, oldest REAL, newest REAL,
        UNIQUE (kind, name))""",
    """CREATE TABLE IF NOT EXISTS passages (
        id INTEGER PRIMARY KEY, role TEXT NOT NULL, record TEXT NOT NULL,
        first_line INTEGER NOT NULL, last_line INTEGER NOT NULL, ts REAL, text TEXT NOT NULL)""",
    """CREATE VIRTUAL TABLE IF NOT EXISTS places
        USING fts5(terms, tokenize = "ascii tokenchars '_-'")""",
    "CREATE VIRTUAL TABLE IF NOT EXISTS vocabulary USING fts5vocab(places, 'row')",
    "CREATE VIRTUAL TABLE IF NOT EXISTS instances USING fts5vocab(places, 'instance')",
    "CREATE TABLE IF NOT EXISTS vectors (id INTEGER PRIMARY KEY, vector BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
)


class SearchDatabase:
    """A connection to the tables. Safe for threads, and for many processes."""

    def __init__(self, path: str | None) -> None:
        """`path` is the file of the index; without one it is kept in memory."""
        self._cache = SqliteCache(path or IN_MEMORY, _prepare, wait_seconds=_WAIT_SECONDS)
        self._mutex = threading.RLock()

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        with self._mutex:
            self._cache.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Use the connection. Raises `StoreUnavailable` where SQLite fails."""
        import sqlite3

        with self._mutex:
            try:
                yield self._connect()
            except sqlite3.Error as error:
                raise self._give_up(error) from error

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Use the connection for a change that counts as a whole or not at all."""
        with self.reading(), self._cache.transaction() as db:
            yield db

    def erase(self, delete: Callable[[sqlite3.Connection], None]) -> None:
        """Delete rows for good: `SqliteCache.erase`."""
        with self._mutex:
            self._cache.erase(delete)

    def _give_up(self, error: sqlite3.Error) -> StoreUnavailable:
        """Leave a file that does not work: set it aside if it is damaged, not if it is busy.

        The next call gets a new one.
        """
        import sqlite3

        if isinstance(error, sqlite3.OperationalError):
            self._cache.close()
            self._cache.path = IN_MEMORY
        else:
            self._cache.set_aside()
        return StoreUnavailable(
            f"cannot use the index of memory: {error}", hint="it is made again: repeat the search"
        )

    def _connect(self) -> sqlite3.Connection:
        import sqlite3

        for _attempt in range(2):
            try:
                return self._cache.connect()
            except (OSError, PathRejected):
                break  # no root, not ours to write, or something else in its place
            except sqlite3.OperationalError as error:
                if "fts5" in str(error):
                    raise StoreUnavailable(
                        f"cannot search memory: {error}",
                        hint="this Python's SQLite lacks FTS5; use another build of Python",
                    ) from error
                break  # not writable, or busy for long
            except (sqlite3.DatabaseError, UnicodeDecodeError):
                self._cache.set_aside()
        self._cache.path = IN_MEMORY
        return self._cache.connect()


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
        for table in reversed(_TABLES):
            db.execute(f"DROP TABLE IF EXISTS {table}")
        db.execute(f"PRAGMA user_version = {_VERSION}")
    for statement in _SCHEMA:
        db.execute(statement)
    db.execute("COMMIT")


_EXACT_MAX: Final = 50
"""Passages with the words of the query next to each other; more of them say nothing new."""
_SHARED_POSTINGS_MAX: Final = 3_000
"""Places looked up for terms that sources have in common. Bounds the time of a query."""
_COMMON_COUNTED_MAX: Final = 500
"""Passages of a common word that are counted. Such words are everywhere: the first passages tell
how often."""


class Places(Protocol):
    """A table with the passages of each term."""

    def count(self, term: str, most: int | None = None) -> int:
        """Return the number of passages that hold a term; counting ends at `most`."""

    def total(self) -> int:
        """Return the number of passages."""

    def instances(self, term: str) -> list[int]:
        """Return the passages that hold a term, each as often as it does."""

    def oldest(self, term: str, limit: int) -> list[int]:
        """Return the first passages that hold a term, in their order."""

    def newest(self, term: str, limit: int) -> list[int]:
        """Return the newest passages that hold a term."""

    def exact(self, phrase: Sequence[str], limit: int) -> list[int]:
        """Return the newest passages that hold these terms next to each other."""


def match(
    places: Places,
    query: Mapping[str, float],
    phrase: Sequence[str],
    allowed: Mapping[int, IndexSource],
) -> Matches:
    """Return the passages of the allowed sources that hold terms of the query.

    The rarest terms are looked up first, and all of their places; of terms that are everywhere, as
    many of the newest as there is room for. Common words are looked up only where there is nothing
    else.
    """
    inside_total = sum(source.passages for source in allowed.values())
    weights: defaultdict[int, float] = defaultdict(float)
    sources: dict[str, dict[int, int]] = {}
    total = max(1, places.total())
    everywhere = {term: _count(places, term, total, allowed) for term in query}
    # A term counts by its share until the number of its places inside is known.
    holding = {term: math.ceil(count * inside_total / total) for term, count in everywhere.items()}
    room, full = RECALL_POSTINGS_MAX, 0.0
    for term in _rarest_first(everywhere):
        if room <= 0 or (weights and is_common(term)):
            break
        is_whole = everywhere[term] <= room
        found = places.instances(term) if is_whole else places.newest(term, room)
        inside = Counter(id_ for id_ in found if source_of(id_) in allowed)
        room -= len(found)
        if is_whole:
            holding[term] = len(inside)
        worth = query[term] * rarity(holding[term], inside_total)
        full += worth * (is_whole and term in phrase)
        often: Counter[int] = Counter()
        for id_, count in inside.items():
            weights[id_] += worth
            often[source_of(id_)] += count
        if inside:
            sources[term] = dict(often)
    best = sorted(weights, key=lambda id_: (-weights[id_], -id_))
    # A passage with the whole phrase weighs at least `full`: often all of those are among the best.
    is_sure = full > 0 and all(weights[id_] < full for id_ in best[RECALL_CANDIDATES_MAX:][:1])
    exact = places.exact(phrase, _EXACT_MAX) if len(phrase) > 1 and not is_sure else []
    best = best[:RECALL_CANDIDATES_MAX]
    more = [id_ for id_ in exact if source_of(id_) in allowed]
    return Matches(holding, sources, list(dict.fromkeys([*more, *best])))


def count_by_source(
    places: Places, holding: Mapping[str, int], allowed: Mapping[int, IndexSource]
) -> dict[str, dict[int, int]]:
    """Return how often each term occurs in each of the allowed sources, the rarest first."""
    found: dict[str, dict[int, int]] = {}
    room = _SHARED_POSTINGS_MAX
    for term in _rarest_first(holding):
        if holding[term] > room:
            break
        instances = places.instances(term)
        room -= len(instances)
        often = Counter(source_of(id_) for id_ in instances if source_of(id_) in allowed)
        if often:
            found[term] = dict(often)
    return found


def _count(places: Places, term: str, total: int, allowed: Mapping[int, IndexSource]) -> int:
    """Return the number of passages that hold a term; of a common word in many, about as many."""
    if not is_common(term):
        return places.count(term)
    found = places.oldest(term, _COMMON_COUNTED_MAX)
    inside = [id_ for id_ in found if source_of(id_) in allowed]
    if len(found) < _COMMON_COUNTED_MAX or not inside:
        return len(found)
    last = source_of(inside[-1])
    among = sum(source.passages for source in allowed.values() if source.id <= last)
    return max(len(found), total * len(inside) // max(1, among))


def _rarest_first(holding: Mapping[str, int]) -> list[str]:
    """Return the terms that occur at all; common words last, however rare they are here."""
    return sorted(
        filter(holding.get, holding), key=lambda term: (is_common(term), holding[term], term)
    )


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


AROUND_PLACES: Final = 32
"""Passages read on either side of one: more than an answer shows."""
_SELECT: Final = (
    "SELECT passages.id, text, places.terms, role, record, first_line, last_line, ts "
    "FROM passages JOIN places ON places.rowid = passages.id"
)
_COUNT_SOME: Final = "SELECT count(*) FROM (SELECT 1 FROM places WHERE places MATCH ? LIMIT ?)"
"""The vocabulary counts all passages of a term, however many there are."""

_SOURCES: Final = "SELECT id, kind, name, stamp, head, passages, terms, oldest, newest FROM sources"
_NAMES_AT_ONCE: Final = 500
"""Names in one statement; SQLite takes 999 everywhere."""

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

    def sources(
        self, sessions: Collection[str] | None = None, notes: str | None = None
    ) -> list[IndexSource]:
        """Return everything that is in the index, or the sessions of these names and the notes
        whose name begins so."""
        with self._database.reading() as db:
            if sessions is None and notes is None:
                return [IndexSource(*row) for row in db.execute(_SOURCES)]
            found: list[tuple[Any, ...]] = []
            wanted = list(sessions or ())
            for start in range(0, len(wanted), _NAMES_AT_ONCE):
                names = wanted[start : start + _NAMES_AT_ONCE]
                marks = ", ".join("?" * len(names))
                query = f"{_SOURCES} WHERE kind = 'session' AND name IN ({marks})"
                found += db.execute(query, names).fetchall()
            if notes is not None:
                query = f"{_SOURCES} WHERE kind = 'note' AND name >= ? AND substr(name, 1, ?) = ?"
                found += db.execute(query, (notes, len(notes), notes)).fetchall()
        return [IndexSource(*row) for row in found]

    def replace(self, sources: Sequence[NewSource]) -> None:
        """Put sources into the index, each in place of its earlier state, in one transaction."""
        with self._database.writing() as db:
            for new in sources:
                known = db.execute(
                    "SELECT id FROM sources WHERE kind = ? AND name = ?", (new.kind, new.name)
                ).fetchone()
                if known is not None:
                    _forget(db, known[0])
                made = db.execute(
                    "INSERT INTO sources (kind, name, stamp, head, passages, terms) "
                    "VALUES (?, ?, ?, ?, 0, 0)",
                    (new.kind, new.name, new.stamp, new.head),
                )
                assert made.lastrowid is not None
                _add(db, made.lastrowid, 0, new.passages)

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

    def erase(self, sessions: Sequence[str], scopes: Sequence[str] = ()) -> None:
        """Delete sessions (`agent/id`), the files with notes from them, and scopes of notes.

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
            for session in sessions:
                gone |= {row[0] for row in db.execute(_OF_SESSION, (session,))}
                notes = db.execute(_NOTES_OF_SESSION, (session, len(session) + 1, f"{session} "))
                gone |= {source_of(row[0]) for row in notes}
            for source in gone:
                _forget(db, source)
            if gone:
                db.execute("INSERT INTO places (places) VALUES ('optimize')")  # drops their terms

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
            return match(_SqlitePlaces(db), query, phrase, allowed)

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
            return count_by_source(_SqlitePlaces(db), holding, allowed)


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
