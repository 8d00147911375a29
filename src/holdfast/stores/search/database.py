"""The tables of the search index, in SQLite. Where the file does not work, they are in memory."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from holdfast.errors import PathRejected, StoreUnavailable
from holdfast.stores.sqlite_files import IN_MEMORY, SqliteCache

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

_VERSION: Final = 1
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

    @property
    def is_in_memory(self) -> bool:
        return self._cache.path == IN_MEMORY

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
