"""SQLite files: private, and safe across forks. A cache is replaced when it is damaged."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
import warnings
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

from holdfast.errors import HoldfastWarning, PathRejected, StoreUnavailable
from holdfast.stores.files import FILE_MODE, is_private

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator


T = TypeVar("T")
IN_MEMORY: Final = ":memory:"
_INHERITED: Final[list[sqlite3.Connection]] = []
"""Connections of a parent process, which only the parent may close."""
_BESIDE: Final = ("-wal", "-shm")
"""Suffixes of the files that SQLite keeps beside a database."""
_CORRUPT: Final = ".corrupt"
_RETRY_SECONDS: Final = 0.005
"""Short beside a transaction, and long enough for the other process to have the processor."""


class SqliteFile:
    """One connection to a file, for one process at a time."""

    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    """With `NORMAL`, the last changes may go with the power."""
    secure_delete: Literal["ON", "FAST"] = "ON"
    """With `FAST`, deleted rows are overwritten only where that writes no more pages."""

    def __init__(
        self, path: str, prepare: Callable[[sqlite3.Connection], None], *, wait_seconds: float
    ) -> None:
        """`prepare` makes the tables where they are missing or of another version."""
        self.path = path
        self._prepare = prepare
        self._wait_seconds = wait_seconds
        self._connection: sqlite3.Connection | None = None
        self._level: str = self.synchronous
        self._pid = 0

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._pid == os.getpid()

    def connect(self) -> sqlite3.Connection:
        """Return the connection of this process. Raises what SQLite and the file system raise."""
        if self._connection is not None and self._pid == os.getpid():
            return self._connection
        if self._connection is not None:
            # A connection must not be used, nor closed, by a forked child: keep it and leave it.
            _INHERITED.append(self._connection)
            self._connection = None
        self._connection = self._open()
        self._pid = os.getpid()
        return self._connection

    @contextmanager
    def transaction(self, *, is_synced: bool = True) -> Iterator[sqlite3.Connection]:
        """Hold the write lock for a block that counts as a whole or not at all.

        One that is not synced outlasts its process. A power cut may lose it, until the next one
        that is synced takes it along.
        """
        db = self.connect()
        level = self.synchronous if is_synced else "NORMAL"
        if level != self._level:
            db.execute(f"PRAGMA synchronous = {level}")
            self._level = level
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
            db.execute("COMMIT")
        except BaseException:
            with suppress(Exception):
                db.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the connection; the next `connect` opens another."""
        if self._connection is not None and self._pid == os.getpid():
            self._connection.close()
        self._connection = None

    def compact(self) -> bool:
        """Leave no page, and no file beside, with what was deleted; False while others read it.

        It writes the whole file: even where deleted rows are overwritten, copies of them can be
        between others, since rows move from page to page.
        """
        self.connect().execute("VACUUM")
        return self.empty_journal()

    def empty_journal(self) -> bool:
        """Leave no earlier state of a page beside the file; False while others read it."""
        return not self.connect().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]

    def _open(self) -> sqlite3.Connection:
        import sqlite3

        if self.path != IN_MEMORY:
            self._claim()
        db = sqlite3.connect(
            self.path, timeout=self._wait_seconds, isolation_level=None, check_same_thread=False
        )
        try:
            self._use_wal(db)
            db.execute(f"PRAGMA synchronous = {self.synchronous}")
            self._level = self.synchronous
            db.execute(f"PRAGMA secure_delete = {self.secure_delete}")
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        return db

    def _use_wal(self, db: sqlite3.Connection) -> None:
        """Switch a new file to a write-ahead log; SQLite does not wait when two switch at once."""
        import sqlite3

        end = time.monotonic() + self._wait_seconds
        while True:
            try:
                db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                return

    def _claim(self) -> None:
        """Make the file, private from the start; refuse links and other files in its place.

        An existing one is not opened here: closing it would drop the locks of other connections.
        """
        for suffix in ("", *_BESIDE):
            with suppress(FileNotFoundError):
                found = os.lstat(self.path + suffix)
                if found.st_nlink > 1 and stat.S_ISREG(found.st_mode):
                    self._leave_links(suffix, found)
                elif not stat.S_ISREG(found.st_mode):
                    raise PathRejected(f"cannot use `{self.path}{suffix}`: it is not a plain file")
        with suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            os.close(os.open(self.path, flags, FILE_MODE))

    def _leave_links(self, suffix: str, _found: os.stat_result) -> None:
        """Use a file with several names as it is: another process may have it open."""
        if not is_private(_found):
            raise PathRejected(f"cannot use `{self.path}{suffix}`: others can change it")
        warnings.warn(
            f"`{self.path}{suffix}` has {_found.st_nlink} names (hard links): what is written "
            "shows under all of them; copy it while nothing runs, and never open a backup in place",
            HoldfastWarning,
            stacklevel=2,
        )


class _Write:
    """A change that waits for its transaction."""

    def __init__(self, work: Callable[[sqlite3.Connection], Any], *, is_synced: bool) -> None:
        self.work = work
        self.is_synced = is_synced
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None


class SharedTransactions:
    """Changes of several threads to one file. Those that wait at the same time share a transaction,
    and so one sync.

    No change waits for others to come: one of the threads that wait makes all of their changes.
    Where that fails, nothing of it was stored, and each is made by itself: an error is its own.
    """

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._turn = threading.Lock()
        self._waiting: deque[_Write] = deque()

    def run(self, work: Callable[[sqlite3.Connection], T], *, is_synced: bool = True) -> T:
        """Run a change, which may be run twice; it is durable when this returns its result. One
        that is not synced is safe from a power cut with the next one that is."""
        write = _Write(work, is_synced=is_synced)
        self._waiting.append(write)
        with self._turn:
            if not write.is_done:
                self._commit([self._waiting.popleft() for _ in range(len(self._waiting))])
        if write.error is not None:
            raise write.error
        result: T = write.result
        return result

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep changes away from the file while the block runs."""
        with self._turn:
            yield

    def _commit(self, writes: list[_Write]) -> None:
        try:
            self._make(writes)
        except Exception as error:
            if len(writes) == 1:
                writes[0].error = error
            for write in writes if len(writes) > 1 else ():
                self._commit([write])
        except BaseException:  # Ctrl-C in this thread: those of the others were not made
            for write in writes:
                write.error = InterruptedError("the thread that stores was interrupted")
            raise
        finally:
            for write in writes:
                write.is_done = True

    def _make(self, writes: list[_Write]) -> None:
        import sqlite3

        try:
            is_synced = any(write.is_synced for write in writes)
            with self._file.transaction(is_synced=is_synced) as db:
                for write in writes:
                    write.result = write.work(db)
        except sqlite3.Error:
            if self._file.path != IN_MEMORY:
                self._file.close()  # the next change has a fresh connection
            raise


class SqliteCache(SqliteFile):
    """A file that can be made again at any time."""

    synchronous = "NORMAL"

    def set_aside(self) -> None:
        """Rename a damaged file to `.corrupt`, so that the next `connect` makes a new one."""
        self.close()
        if self.path == IN_MEMORY:
            return
        with suppress(OSError):
            os.replace(self.path, self.path + _CORRUPT)
        for suffix in _BESIDE:
            with suppress(OSError):
                os.unlink(self.path + suffix)

    def _leave_links(self, suffix: str, _found: os.stat_result) -> None:
        os.unlink(self.path + suffix)  # made again; the other names keep what they had

    def erase(self, delete: Callable[[sqlite3.Connection], bool]) -> None:
        """Delete rows so that no page of the file, and no file beside it, has their content.

        `delete` returns whether the whole file must be written again for that: where rows are as
        they were given, and not scrambled by a key that it overwrote.
        A file that is damaged is deleted whole: it is only a cache. Raises `StoreUnavailable`
        while other processes keep the old pages in use.
        """
        import sqlite3

        if self.path == IN_MEMORY:
            if not self.is_open:
                return
        else:
            with suppress(FileNotFoundError):
                os.unlink(self.path + _CORRUPT)
            if not os.path.lexists(self.path):
                return
        try:
            with self.transaction() as db:
                is_plain = delete(db)
            is_compact = self.compact() if is_plain else self.empty_journal()
        except sqlite3.OperationalError as error:
            self.close()
            raise in_use(self.path, str(error)) from error
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            self.close()
            for suffix in ("", *_BESIDE):
                with suppress(FileNotFoundError):
                    os.unlink(self.path + suffix)
            return
        if not is_compact:
            raise in_use(self.path, "another process is reading it")


def in_use(path: str, why: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"cannot permanently delete rows of `{path}`: {why}",
        hint="erase again when no other process uses it; until then the erasure is not finished",
    )


KEYS_TABLE: Final = "CREATE TABLE IF NOT EXISTS keys (id INTEGER PRIMARY KEY, key BLOB NOT NULL)"
_KEY_BYTES: Final = 16
_NONCE_BYTES: Final = 8
"""128 bits of a key, and 64 that tell what was stored under it apart: no one meets two alike."""
_SHREDDED: Final = bytes(_KEY_BYTES)


class Key(NamedTuple):
    """A key, and the row that it is in."""

    id: int
    secret: bytes

    def scramble(self, data: bytes) -> bytes:
        """Return data as it is stored; each time another text."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._mix(nonce, data)

    def restore(self, stored: bytes) -> bytes:
        """Return the data that was scrambled."""
        return self._mix(stored[:_NONCE_BYTES], stored[_NONCE_BYTES:])

    def _mix(self, nonce: bytes, data: bytes) -> bytes:
        length = len(data)
        stream = hashlib.shake_128(self.secret + nonce).digest(length)
        mixed = int.from_bytes(data, "little") ^ int.from_bytes(stream, "little")
        return mixed.to_bytes(length, "little")


def new_key(db: sqlite3.Connection) -> Key:
    """Make a key. Its row stands behind all others."""
    secret = os.urandom(_KEY_BYTES)
    made = db.execute("INSERT INTO keys (key) VALUES (?)", (secret,))
    assert made.lastrowid is not None
    return Key(made.lastrowid, secret)


def destroy_keys(db: sqlite3.Connection, keys: Iterable[int]) -> None:
    """Overwrite keys where they stand. Their rows stay: a row that is deleted moves others."""
    db.executemany("UPDATE keys SET key = ? WHERE id = ?", ((_SHREDDED, id_) for id_ in keys))
