"""The index of memory in a SQLite file, and the one in memory where no file works.

What has words is scrambled, each source and each segment by a key of its own: an erasure overwrites
their keys, and no page of the file has to be written for what other owners have.
"""

from __future__ import annotations

import itertools
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from holdfast.core.text.typed import convert_typed
from holdfast.errors import PathRejected, StoreUnavailable
from holdfast.ports.side_stores import (
    PLACE_BITS,
    IndexSource,
    VectorRun,
    place_of,
    places_of,
    source_of,
)
from holdfast.stores.search.tables import (
    TEXT_BITS,
    PassageRows,
    SearchTables,
    SegmentRows,
    SourceFacts,
    SourceRows,
    TablesIndex,
    missing_vectors,
)
from holdfast.stores.sqlite_files import (
    IN_MEMORY,
    KEYS_TABLE,
    Key,
    SqliteCache,
    destroy_keys,
    new_key,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from holdfast.ports.side_stores import SourceKind
    from holdfast.stores.search.segments import Block, Built
    from holdfast.stores.search.tables import SourceSize

T = TypeVar("T")

FILE_NAME: Final = "recall.sqlite3"
"""The file of the index in a root."""
_VERSION: Final = 5
_WAIT_SECONDS: Final = 5.0
"""Another process may be indexing a long session; a search after this goes on in memory."""
_OTHER_TABLES: Final = """SELECT name FROM sqlite_master WHERE type = 'table'
  AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY sql NOT LIKE 'CREATE VIRTUAL%', rowid DESC"""
"""Those of another version: virtual ones first, which take their own tables along."""
_SCHEMA: Final = (
    KEYS_TABLE,
    """CREATE TABLE IF NOT EXISTS sources (
        id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, place BLOB NOT NULL,
        owned BLOB NOT NULL, is_ended INTEGER NOT NULL DEFAULT 0, key INTEGER NOT NULL,
        passages INTEGER NOT NULL DEFAULT 0, terms INTEGER NOT NULL DEFAULT 0,
        oldest REAL, newest REAL, facts BLOB NOT NULL)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS places ON sources (kind, place) WHERE NOT is_ended",
    "CREATE INDEX IF NOT EXISTS owners ON sources (owned)",
    "CREATE INDEX IF NOT EXISTS ended ON sources (place) WHERE is_ended",
    """CREATE TABLE IF NOT EXISTS origins (
        place BLOB NOT NULL, source INTEGER NOT NULL, PRIMARY KEY (place, source))
        WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS origins_of ON origins (source)",
    "CREATE TABLE IF NOT EXISTS texts (id INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    """CREATE TABLE IF NOT EXISTS segments (
        id INTEGER PRIMARY KEY AUTOINCREMENT, owned BLOB NOT NULL, key INTEGER NOT NULL,
        passages INTEGER NOT NULL, head BLOB NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS segments_of ON segments (owned)",
    "CREATE TABLE IF NOT EXISTS blocks (id INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS vectors (id INTEGER PRIMARY KEY, vector BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
)
_NUMBER_BITS: Final = 16
"""Of the id of a block: its number in the segment."""
_SOURCES: Final = """SELECT s.id, s.kind, s.owned, s.passages, s.terms, s.oldest, s.newest,
  s.facts, k.id, k.key FROM sources s JOIN keys k ON k.id = s.key WHERE NOT s.is_ended"""
_TEXTS: Final = f"""SELECT t.id, t.data, k.id, k.key FROM texts t
  JOIN sources s ON s.id = t.id >> {PLACE_BITS - TEXT_BITS} JOIN keys k ON k.id = s.key
  WHERE t.id IN"""  # noqa: S608 - constants only
_HEADS: Final = """SELECT g.id, g.head, k.id, k.key FROM segments g JOIN keys k ON k.id = g.key
  WHERE g.id IN"""
_BLOCKS: Final = f"""SELECT b.id, b.data, k.id, k.key FROM blocks b
  JOIN segments g ON g.id = b.id >> {_NUMBER_BITS} JOIN keys k ON k.id = g.key WHERE b.id IN"""  # noqa: S608 - as above
_ADD_VECTOR: Final = """INSERT OR REPLACE INTO vectors (vector, id)
  SELECT ?, ? FROM sources WHERE id = ? AND passages > ? AND NOT is_ended"""
_AT_ONCE: Final = 500
"""Values in one statement; SQLite takes 999 everywhere."""


class _IndexFile(SqliteCache):
    secure_delete = "FAST"  # what has words is scrambled


class SearchDatabase:
    """A connection to the tables. Safe for threads, and for many processes."""

    def __init__(self, path: str | None) -> None:
        """`path` is the file of the index; without one it is kept in memory."""
        self._cache = _IndexFile(path or IN_MEMORY, _prepare, wait_seconds=_WAIT_SECONDS)
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

    def erase(self, delete: Callable[[sqlite3.Connection], bool]) -> None:
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
            except sqlite3.OperationalError:
                break  # not writable, or busy for long
            except (sqlite3.DatabaseError, UnicodeDecodeError):
                self._cache.set_aside()
        self._cache.path = IN_MEMORY
        return self._cache.connect()


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
        for (table,) in db.execute(_OTHER_TABLES).fetchall():
            db.execute(f'DROP TABLE IF EXISTS "{table}"')
        db.execute(f"PRAGMA user_version = {_VERSION}")
    for statement in _SCHEMA:
        db.execute(statement)
    db.execute("COMMIT")


class _Rows:
    """Rows of a SQLite file."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def _key_of(self, table: str, id_: int) -> Key:
        query = f"SELECT k.id, k.key FROM {table} t JOIN keys k ON k.id = t.key WHERE t.id = ?"  # noqa: S608 - a constant
        return Key(*self._db.execute(query, (id_,)).fetchone())

    def _some(self, query: str, values: Collection[Any]) -> Iterator[Any]:
        """Yield the rows of a statement that ends with `IN`, for some values at a time."""
        wanted = iter(values)
        while some := list(itertools.islice(wanted, _AT_ONCE)):
            yield from self._db.execute(f"{query} ({', '.join('?' * len(some))})", some).fetchall()


class _SqliteSources(_Rows, SourceRows):
    def lock(self, groups: Collection[bytes], places: Collection[bytes]) -> None:
        """Do nothing: a transaction that writes is alone."""

    def state(self) -> object:
        # The first number counts the changes of others, the second those of this connection.
        (others,) = self._db.execute("PRAGMA data_version").fetchone()
        return self._db, others, self._db.total_changes

    def all(self) -> list[IndexSource]:
        return list(map(_source, self._db.execute(_SOURCES)))

    def find(
        self,
        *,
        ids: Collection[int] = (),
        groups: Collection[bytes] = (),
        sessions: Collection[bytes] = (),
        notes: Collection[bytes] = (),
    ) -> list[IndexSource]:
        found = [
            *self._some(f"{_SOURCES} AND s.id IN", ids),
            *self._some(f"{_SOURCES} AND s.owned IN", groups),
            *self._some(f"{_SOURCES} AND s.kind = 'session' AND s.place IN", sessions),
            *self._some(f"{_SOURCES} AND s.kind = 'note' AND s.place IN", notes),
        ]
        return list(map(_source, found))

    def erasable(self, sessions: Collection[bytes], groups: Collection[bytes]) -> dict[int, bytes]:
        noted = [
            row[0] for row in self._some("SELECT source FROM origins WHERE place IN", sessions)
        ]
        select = "SELECT id, owned FROM sources WHERE"
        return dict(
            [
                *self._some(f"{select} kind = 'session' AND NOT is_ended AND place IN", sessions),
                *self._some(f"{select} is_ended AND place IN", sessions),
                *self._some(f"{select} id IN", noted),
                *self._some(f"{select} owned IN", groups),
            ]
        )

    def find_ended(self, group: bytes) -> dict[int, int]:
        query = "SELECT id, passages FROM sources WHERE owned = ? AND is_ended"
        return dict(self._db.execute(query, (group,)))

    def add(self, kind: SourceKind, place: bytes, group: bytes, facts: SourceFacts) -> int:
        key = new_key(self._db)
        made = self._db.execute(
            "INSERT INTO sources (kind, place, owned, key, facts) VALUES (?, ?, ?, ?, ?)",
            (kind, place, group, key.id, key.scramble(msgspec.msgpack.encode(facts))),
        )
        assert made.lastrowid is not None
        return made.lastrowid

    def change(self, id_: int, facts: SourceFacts, size: SourceSize) -> None:
        stored = self._key_of("sources", id_).scramble(msgspec.msgpack.encode(facts))
        self._db.execute(
            "UPDATE sources SET facts = ?, passages = ?, terms = ?, oldest = ?, newest = ? "
            "WHERE id = ?",
            (stored, *size, id_),
        )

    def add_origins(self, source: int, sessions: Collection[bytes]) -> None:
        rows = ((place, source) for place in sorted(sessions))
        self._db.executemany("INSERT OR IGNORE INTO origins VALUES (?, ?)", rows)

    def end(self, ids: Collection[int]) -> None:
        for id_ in ids:
            first, end = places_of(id_)
            self._db.execute("UPDATE sources SET is_ended = 1 WHERE id = ?", (id_,))
            texts = (first >> TEXT_BITS, end >> TEXT_BITS)
            self._db.execute("DELETE FROM texts WHERE id >= ? AND id < ?", texts)
            self._db.execute("DELETE FROM vectors WHERE id >= ? AND id < ?", (first, end))

    def drop(self, ids: Collection[int]) -> None:
        destroy_keys(
            self._db, [row[0] for row in self._some("SELECT key FROM sources WHERE id IN", ids)]
        )
        self._db.executemany("DELETE FROM origins WHERE source = ?", ((id_,) for id_ in ids))
        self._db.executemany("DELETE FROM sources WHERE id = ?", ((id_,) for id_ in ids))


class _SqlitePassages(_Rows, PassageRows):
    def texts(self, blocks: Collection[int]) -> dict[int, bytes]:
        return _restore_all(self._some(_TEXTS, blocks))

    def put_texts(self, source: int, /, blocks: Mapping[int, bytes]) -> None:
        key = self._key_of("sources", source)
        self._db.executemany(
            "INSERT OR REPLACE INTO texts VALUES (?, ?)",
            ((number, key.scramble(data)) for number, data in blocks.items()),
        )

    def count_vectors(self, sources: Collection[int]) -> dict[int, int]:
        query = "SELECT count(*) FROM vectors WHERE id >= ? AND id < ?"
        return {
            source: self._db.execute(query, places_of(source)).fetchone()[0] for source in sources
        }

    def vectors_of(self, source: int) -> set[int]:
        query = "SELECT id FROM vectors WHERE id >= ? AND id < ?"
        return {row[0] for row in self._db.execute(query, places_of(source))}


class _SqliteSegments(_Rows, SegmentRows):
    def of(self, groups: Collection[bytes]) -> list[tuple[int, int]]:
        return sorted(self._some("SELECT id, passages FROM segments WHERE owned IN", groups))

    def heads(self, ids: Collection[int]) -> dict[int, bytes]:
        return _restore_all(self._some(_HEADS, ids))

    def blocks(self, blocks: Collection[Block]) -> dict[Block, bytes]:
        ids = [(segment << _NUMBER_BITS) + number for segment, number in blocks]
        found = _restore_all(self._some(_BLOCKS, ids))
        return {divmod(id_, 1 << _NUMBER_BITS): data for id_, data in found.items()}

    def add(self, group: bytes, built: Built) -> None:
        key = new_key(self._db)
        made = self._db.execute(
            "INSERT INTO segments (owned, key, passages, head) VALUES (?, ?, ?, ?)",
            (group, key.id, built.passages, key.scramble(built.head)),
        )
        assert made.lastrowid is not None
        blocks = enumerate(built.blocks, made.lastrowid << _NUMBER_BITS)
        self._db.executemany(
            "INSERT INTO blocks VALUES (?, ?)", ((id_, key.scramble(data)) for id_, data in blocks)
        )

    def drop(self, ids: Collection[int]) -> None:
        destroy_keys(
            self._db, [row[0] for row in self._some("SELECT key FROM segments WHERE id IN", ids)]
        )
        spans = ((id_ << _NUMBER_BITS, (id_ + 1) << _NUMBER_BITS) for id_ in ids)
        self._db.executemany("DELETE FROM blocks WHERE id >= ? AND id < ?", spans)
        self._db.executemany("DELETE FROM segments WHERE id = ?", ((id_,) for id_ in ids))


def _tables(db: sqlite3.Connection) -> SearchTables:
    return SearchTables(_SqliteSources(db), _SqlitePassages(db), _SqliteSegments(db))


def _source(row: Sequence[Any]) -> IndexSource:
    id_, kind, group, passages, count, oldest, newest, stored, key, secret = row
    data = msgspec.msgpack.decode(Key(key, secret).restore(stored))
    facts = convert_typed(data, SourceFacts)
    names = (facts.name, facts.stamp, facts.head)
    return IndexSource(id_, kind, *names, passages, count, oldest, newest, group)


def _restore_all(rows: Iterable[tuple[int, bytes, int, bytes]]) -> dict[int, bytes]:
    return {id_: Key(key, secret).restore(data) for id_, data, key, secret in rows}


_LOAD: Final = """SELECT id, vector FROM vectors WHERE id >= ? AND id < ?
  AND (SELECT value FROM facts WHERE name = 'vectors') = ? ORDER BY id"""


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
        with self._database.reading() as db:
            return missing_vectors(_tables(db), limit, sources)

    def count(self, sources: Collection[int]) -> int:
        """Return the number of passages of some sources that have a vector."""
        with self._database.reading() as db:
            return sum(_SqlitePassages(db).count_vectors(sources).values())

    def add(self, model: str, vectors: Iterable[tuple[int, bytes]]) -> bool:
        """Store vectors of passages that are still there, unless another model is in use."""
        with self._database.writing() as db:
            known = db.execute("SELECT value FROM facts WHERE name = 'vectors'").fetchone()
            if known is None or known[0] != model:
                return False
            db.executemany(
                _ADD_VECTOR,
                ((vector, id_, source_of(id_), place_of(id_)) for id_, vector in vectors),
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


class SqliteSearchIndex(TablesIndex):
    """The `SearchIndex` of a SQLite file. Safe for threads, and for many processes."""

    def __init__(self, path: str | None) -> None:
        """`path` is the file of the index; without one it is kept in memory."""
        super().__init__()
        self._database = SearchDatabase(path)
        self.vectors = SqliteVectors(self._database)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._database.close()

    def _read(self, work: Callable[[SearchTables], T]) -> T:
        with self._database.reading() as db:
            self._cache.keep_of(db)
            return work(_tables(db))

    @contextmanager
    def _writing(self) -> Iterator[SearchTables]:
        with self._database.writing() as db:
            self._cache.keep_of(db)
            yield _tables(db)

    def _erasing(self, delete: Callable[[SearchTables], None]) -> None:
        def work(db: sqlite3.Connection) -> bool:
            self._cache.keep_of(db)
            delete(_tables(db))
            # Vectors are not scrambled: where there ever were some, the file is written again.
            return db.execute("SELECT 1 FROM facts WHERE name = 'vectors'").fetchone() is not None

        self._database.erase(work)
