"""The index of memory: passages of notes and sessions, by their terms and by their vectors.

It is a cache, in SQLite, and never trusted over the files: each source has a stamp, and whoever
searches compares the stamps first. A missing, corrupt or outdated index is made anew, and one that
cannot be written is kept in memory. A query costs what its rarest terms cost: it looks up a bounded
number of places, and looks closely at a bounded number of passages, however many there are.
"""

from __future__ import annotations

import math
import os
import stat
import threading
from collections import Counter, defaultdict
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.limits import RECALL_CANDIDATES_MAX, RECALL_POSTINGS_MAX
from holdfast.core.memory.ranking import rarity
from holdfast.core.memory.search_terms import is_common
from holdfast.errors import PathRejected, StoreUnavailable
from holdfast.stores.files import FILE_MODE

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Kind = Literal["note", "session"]
Role = Literal["note", "user", "assistant"]

_VERSION: Final = 1
_PLACE_BITS: Final = 24
"""The id of a passage is that of its source and its place there: neighbours are one apart."""
_EXACT_MAX: Final = 50
_AROUND_PLACES: Final = 32
"""How far on either side of a passage its source is read."""
_SHARED_POSTINGS_MAX: Final = 8_000
"""How many places are looked up for what sources have in common."""
_INHERITED: Final[list[sqlite3.Connection]] = []
"""Connections of a parent process, which only the parent may close."""
_MEMORY: Final = ":memory:"

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
_SELECT: Final = (
    "SELECT passages.id, text, places.terms, role, record, first_line, last_line, ts "
    "FROM passages JOIN places ON places.rowid = passages.id"
)


class Source(msgspec.Struct, frozen=True):
    """A file of notes or a session, as far as it is in the index."""

    id: int
    kind: Kind
    name: str
    stamp: str
    """What the file or the log was like; another stamp means that it changed."""
    head: str
    """Of a session: the record up to which it is in the index."""
    passages: int
    terms: int
    oldest: float | None
    newest: float | None


class Passage(msgspec.Struct, frozen=True):
    """A part of a source, with its terms."""

    text: str
    terms: Sequence[str]
    role: Role
    record: str = ""
    first_line: int = 0
    last_line: int = 0
    ts: float | None = None


class Found(msgspec.Struct, frozen=True):
    """A passage as it is in the index."""

    id: int
    text: str
    terms: Sequence[str]
    role: Role
    record: str
    first_line: int
    last_line: int
    ts: float | None

    @property
    def source(self) -> int:
        return source_of(self.id)

    @property
    def place(self) -> int:
        return self.id & ((1 << _PLACE_BITS) - 1)


class Matches(msgspec.Struct, frozen=True):
    """What holds the terms of a query."""

    holding: dict[str, int]
    """How many passages hold each term."""
    sources: dict[str, dict[int, int]]
    """How often it stands in which source, as far as it was looked up."""
    best: list[int]
    """The passages that hold the most and the rarest of them."""


def source_of(passage: int) -> int:
    """The source a passage is in."""
    return passage >> _PLACE_BITS


class Recall:
    """Passages and where their terms stand. Safe for threads, and for many processes."""

    def __init__(self, path: str | None) -> None:
        """`path` is the file of the index; without one it is kept in memory."""
        self._path = path or _MEMORY
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        self._mutex = threading.RLock()

    @property
    def is_in_memory(self) -> bool:
        return self._path == _MEMORY

    def close(self) -> None:
        with self._mutex:
            self._disconnect()

    # Keeping up

    def sources(self) -> list[Source]:
        with self._reading() as db:
            rows = db.execute(
                "SELECT id, kind, name, stamp, head, passages, terms, oldest, newest FROM sources"
            ).fetchall()
        return [Source(*row) for row in rows]

    def replace(
        self, kind: Kind, name: str, *, stamp: str, head: str, passages: Sequence[Passage]
    ) -> None:
        """Put a source into the index, in place of what was known of it."""
        with self._writing() as db:
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

    def extend(self, known: Source, *, stamp: str, head: str, passages: Sequence[Passage]) -> None:
        """Add what was written to a source since. Nothing is done where another has done so."""
        with self._writing() as db:
            changed = db.execute(
                "UPDATE sources SET stamp = ?, head = ? WHERE id = ? AND head = ? AND passages = ?",
                (stamp, head, known.id, known.head, known.passages),
            )
            if changed.rowcount:
                _add(db, known.id, known.passages, passages)

    def forget(self, sources: Iterable[int]) -> None:
        """Take out what is no longer there."""
        with self._writing() as db:
            for source in sources:
                _forget(db, source)

    # Looking up

    def matches(
        self,
        query: Mapping[str, float],
        phrase: Sequence[str],
        allowed: Mapping[int, Source],
    ) -> Matches:
        """The passages of the allowed sources that hold terms of the query.

        The rarest terms are looked up first, and all of their places; of terms that are
        everywhere, as many of the newest as there is room for. Common words are looked up only
        where there is nothing else.
        """
        inside_total = sum(one.passages for one in allowed.values())
        weights: defaultdict[int, float] = defaultdict(float)
        sources: dict[str, dict[int, int]] = {}
        with self._reading() as db:
            everywhere = {term: _count(db, term) for term in query}
            total = max(1, db.execute("SELECT sum(passages) FROM sources").fetchone()[0] or 0)
            # Until it is known how many of its places are inside, a term counts by its share.
            holding = {
                term: math.ceil(count * inside_total / total) for term, count in everywhere.items()
            }
            room = RECALL_POSTINGS_MAX
            for term in _rarest_first(everywhere):
                if room <= 0 or (weights and is_common(term)):
                    break
                is_whole = everywhere[term] <= room
                found = _instances(db, term) if is_whole else _places(db, _quoted([term]), room)
                inside = Counter(id_ for id_ in found if source_of(id_) in allowed)
                room -= len(found)
                if is_whole:
                    holding[term] = len(inside)
                worth = query[term] * rarity(holding[term], inside_total)
                often: Counter[int] = Counter()
                for id_, count in inside.items():
                    weights[id_] += worth
                    often[source_of(id_)] += count
                if inside:
                    sources[term] = dict(often)
            exact = _places(db, _quoted(phrase), _EXACT_MAX) if len(phrase) > 1 else []
        best = sorted(weights, key=lambda id_: (-weights[id_], -id_))[:RECALL_CANDIDATES_MAX]
        more = [id_ for id_ in exact if source_of(id_) in allowed]
        return Matches(holding, sources, list(dict.fromkeys([*more, *best])))

    def passages(self, ids: Sequence[int]) -> list[Found]:
        """Those of the passages that are still there."""
        marks = ", ".join("?" * len(ids))
        query = f"{_SELECT} WHERE passages.id IN ({marks})"
        with self._reading() as db:
            rows = db.execute(query, list(ids)).fetchall()
        return [Found(row[0], row[1], row[2].split(), *row[3:]) for row in rows]

    def around(self, passage: int) -> list[Found]:
        """A passage and those of its source that are not far from it, in order."""
        first = source_of(passage) << _PLACE_BITS
        last = first + (1 << _PLACE_BITS) - 1
        query = f"{_SELECT} WHERE passages.id BETWEEN ? AND ? ORDER BY passages.id"
        ends = (max(first, passage - _AROUND_PLACES), min(last, passage + _AROUND_PLACES))
        with self._reading() as db:
            rows = db.execute(query, ends).fetchall()
        return [Found(row[0], row[1], row[2].split(), *row[3:]) for row in rows]

    def holding(self, wanted: Iterable[str]) -> dict[str, int]:
        """How many passages hold each of the terms."""
        with self._reading() as db:
            return {term: _count(db, term) for term in wanted}

    def shared(
        self, holding: Mapping[str, int], allowed: Mapping[int, Source]
    ) -> dict[str, dict[int, int]]:
        """How often each term stands in which of the allowed sources, the rarest terms first.

        `holding` is how many passages hold them: those that are too many are left out.
        """
        found: dict[str, dict[int, int]] = {}
        room = _SHARED_POSTINGS_MAX
        with self._reading() as db:
            for term in _rarest_first(holding):
                if holding[term] > room:
                    break
                places = _instances(db, term)
                room -= len(places)
                often = Counter(source_of(id_) for id_ in places if source_of(id_) in allowed)
                if often:
                    found[term] = dict(often)
        return found

    # Vectors

    def use_vectors(self, maker: str) -> None:
        """Keep the vectors of one maker only: those of another cannot be compared."""
        with self._writing() as db:
            known = db.execute("SELECT value FROM facts WHERE name = 'vectors'").fetchone()
            if known is None or known[0] != maker:
                db.execute("DELETE FROM vectors")
                db.execute("INSERT OR REPLACE INTO facts VALUES ('vectors', ?)", (maker,))

    def without_vector(self, limit: int) -> list[tuple[int, str]]:
        """Passages that have no vector yet, the newest first."""
        with self._reading() as db:
            return db.execute(
                "SELECT id, text FROM passages WHERE id NOT IN (SELECT id FROM vectors) "
                "ORDER BY id DESC LIMIT ?",
                (limit,),
            ).fetchall()

    def count_without_vector(self) -> int:
        with self._reading() as db:
            passages = db.execute("SELECT sum(passages) FROM sources").fetchone()[0] or 0
            vectors = db.execute("SELECT count(*) FROM vectors").fetchone()[0]
        return max(0, int(passages) - int(vectors))

    def add_vectors(self, vectors: Iterable[tuple[int, bytes]]) -> None:
        """Keep vectors of passages that are still there."""
        with self._writing() as db:
            db.executemany(
                "INSERT OR REPLACE INTO vectors SELECT id, ? FROM passages WHERE id = ?",
                ((vector, id_) for id_, vector in vectors),
            )

    def vectors(self) -> list[tuple[int, bytes]]:
        with self._reading() as db:
            return db.execute("SELECT id, vector FROM vectors ORDER BY id").fetchall()

    def state(self) -> tuple[int, int]:
        """Changes whenever vectors do: how many there are, and the last of them."""
        with self._reading() as db:
            found = db.execute("SELECT count(*), max(id) FROM vectors").fetchone()
        return int(found[0]), int(found[1] or 0)

    # SQLite, and doing without a file

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        import sqlite3

        with self._mutex:
            try:
                yield self._connected()
            except sqlite3.Error as error:
                raise self._given_up(error) from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                with suppress(Exception):
                    db.execute("ROLLBACK")
                raise

    def _given_up(self, error: sqlite3.Error) -> StoreUnavailable:
        """The file does not work: it is put aside if it is damaged, and left alone if it is busy.

        Whoever tries again gets a new one.
        """
        import sqlite3

        self._disconnect()
        if isinstance(error, sqlite3.OperationalError):
            self._path = _MEMORY
        else:
            self._set_aside()
        return StoreUnavailable(
            f"the index of memory cannot be used: {error}", hint="it is made anew: search again"
        )

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._pid == os.getpid():
            return self._connection
        if self._connection is not None:
            # A connection must not be used, nor closed, by a forked child: keep it and leave it.
            _INHERITED.append(self._connection)
            self._connection = None
        self._connection = self._opened()
        self._pid = os.getpid()
        return self._connection

    def _opened(self) -> sqlite3.Connection:
        import sqlite3

        for _attempt in range(2):
            try:
                return _open(self._path)
            except (OSError, PathRejected):
                break  # no root, not ours to write, or something else in its place
            except sqlite3.OperationalError as error:
                if "fts5" in str(error):
                    raise StoreUnavailable(
                        f"memory cannot be searched: {error}",
                        hint="this Python's SQLite lacks FTS5; use another build of Python",
                    ) from error
                break  # not writable, or busy for long
            except (sqlite3.DatabaseError, UnicodeDecodeError):
                self._set_aside()
        self._path = _MEMORY
        return _open(_MEMORY)

    def _disconnect(self) -> None:
        if self._connection is not None and self._pid == os.getpid():
            self._connection.close()
        self._connection = None

    def _set_aside(self) -> None:
        """Keep a corrupt index for whoever wants to know, and start a new one."""
        if self.is_in_memory:
            return
        with suppress(OSError):
            os.replace(self._path, f"{self._path}.corrupt")
        for suffix in ("-wal", "-shm"):
            with suppress(OSError):
                os.unlink(self._path + suffix)


def _open(path: str) -> sqlite3.Connection:
    import sqlite3

    if path != _MEMORY:
        _claim(path)
    db = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("BEGIN IMMEDIATE")
        if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            for table in reversed(_TABLES):
                db.execute(f"DROP TABLE IF EXISTS {table}")
            db.execute(f"PRAGMA user_version = {_VERSION}")
        for statement in _SCHEMA:
            db.execute(statement)
        db.execute("COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def _claim(path: str) -> None:
    """Make the file, private from the start; refuse links and other files in its place."""
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            found = os.lstat(path + suffix)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                raise PathRejected(f"`{path}{suffix}` is a link or no file")
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))


def _add(db: sqlite3.Connection, source: int, start: int, passages: Sequence[Passage]) -> None:
    first = (source << _PLACE_BITS) + start
    db.executemany(
        "INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            (id_, one.role, one.record, one.first_line, one.last_line, one.ts, one.text)
            for id_, one in enumerate(passages, first)
        ),
    )
    db.executemany(
        "INSERT INTO places (rowid, terms) VALUES (?, ?)",
        ((id_, " ".join(one.terms)) for id_, one in enumerate(passages, first)),
    )
    times = [one.ts for one in passages if one.ts is not None]
    db.execute(
        "UPDATE sources SET passages = passages + :passages, terms = terms + :terms, "
        "oldest = coalesce(min(oldest, :oldest), oldest, :oldest), "
        "newest = coalesce(max(newest, :newest), newest, :newest) WHERE id = :source",
        {
            "passages": len(passages),
            "terms": sum(len(one.terms) for one in passages),
            "oldest": min(times, default=None),
            "newest": max(times, default=None),
            "source": source,
        },
    )


def _forget(db: sqlite3.Connection, source: int) -> None:
    first, last = source << _PLACE_BITS, ((source + 1) << _PLACE_BITS) - 1
    db.execute("DELETE FROM sources WHERE id = ?", (source,))
    db.execute("DELETE FROM passages WHERE id BETWEEN ? AND ?", (first, last))
    db.execute("DELETE FROM vectors WHERE id BETWEEN ? AND ?", (first, last))
    db.execute("DELETE FROM places WHERE rowid BETWEEN ? AND ?", (first, last))


def _rarest_first(holding: Mapping[str, int]) -> list[str]:
    """The terms that are there at all; common words last, however rare they are here."""
    return sorted(
        filter(holding.get, holding), key=lambda term: (is_common(term), holding[term], term)
    )


def _count(db: sqlite3.Connection, term: str) -> int:
    found = db.execute("SELECT doc FROM vocabulary WHERE term = ?", (term,)).fetchone()
    return int(found[0]) if found else 0


def _instances(db: sqlite3.Connection, term: str) -> list[int]:
    """The passages that hold a term, each as often as it does."""
    rows = db.execute("SELECT doc FROM instances WHERE term = ?", (term,))
    return [row[0] for row in rows]


def _places(db: sqlite3.Connection, match: str, limit: int) -> list[int]:
    """The passages that match, the newest first."""
    rows = db.execute(
        "SELECT rowid FROM places WHERE places MATCH ? ORDER BY rowid DESC LIMIT ?", (match, limit)
    )
    return [row[0] for row in rows]


def _quoted(phrase: Sequence[str]) -> str:
    """Terms next to each other, in the language of FTS5. None of them has a quote in it."""
    return f'"{" ".join(phrase)}"'
