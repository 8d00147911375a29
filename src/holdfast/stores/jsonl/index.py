"""The index: small facts about every session, in SQLite, so that a listing opens no log.

It is a cache and never trusted over the logs. A row holds for the file it was made from (inode,
size and times); a file that grew is read from where the row ends, any other change means reading
it whole. A missing, corrupt or outdated index is made anew, and one that cannot be written is
done without.
"""

from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.log.listing import Facts
from holdfast.core.log.tree import Outline
from holdfast.core.log.views import opening
from holdfast.core.log.walk import outline_lines
from holdfast.errors import NoSuchSession, PathRejected, StoreError
from holdfast.ports import SessionInfo
from holdfast.stores.files import FILE_MODE
from holdfast.stores.jsonl.log import FileLog

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from holdfast.core.log.ids import SessionKey

_VERSION: Final = 2
_GROWN_BYTES_MIN: Final = 8 * 1024 * 1024
"""Smaller logs are read whole when they change: it is quick, and notices an edit in the middle."""
_FINGERPRINT_BYTES: Final = 4_096
_INHERITED: Final[list[sqlite3.Connection]] = []
"""Connections of a parent process, which only the parent may close."""
_BAD_SQL: Final = 1
"""SQLite's code for a statement that does not fit the tables."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sessions (
    agent TEXT NOT NULL, session TEXT NOT NULL,
    inode INTEGER NOT NULL, size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
    scanned INTEGER NOT NULL, fingerprint BLOB NOT NULL,
    label TEXT NOT NULL, title TEXT NOT NULL,
    created REAL NOT NULL, last_active REAL NOT NULL,
    records INTEGER NOT NULL, messages INTEGER NOT NULL, damaged INTEGER NOT NULL,
    head TEXT NOT NULL, parent_session TEXT, reason TEXT, owner TEXT,
    PRIMARY KEY (agent, session)
) WITHOUT ROWID
"""
_FACTS: Final = tuple(Facts.__struct_fields__)
_COLUMNS: Final = (
    *("agent", "session", "inode", "size", "mtime_ns", "ctime_ns", "scanned", "fingerprint"),
    *_FACTS,
)
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM sessions"  # noqa: S608 - constants only
_UPSERT: Final = (
    f"INSERT OR REPLACE INTO sessions ({', '.join(_COLUMNS)}) "  # noqa: S608 - constants only
    f"VALUES ({', '.join('?' * len(_COLUMNS))})"
)


class LogFile(msgspec.Struct, frozen=True):
    """A log as the file system shows it, and how to open it if need be."""

    key: SessionKey
    status: os.stat_result
    open: Callable[[SessionKey], int]


class _Row(msgspec.Struct, frozen=True):
    """What the index knows about one log."""

    stamp: tuple[int, int, int, int]
    scanned: int
    """Everything before this byte is in the facts."""
    fingerprint: bytes
    """The bytes before `scanned`, to notice that they changed."""
    facts: Facts


class Index:
    """Facts about sessions, as fresh as their files."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        self._mutex = threading.Lock()

    def infos(self, logs: Iterable[LogFile], *, is_complete: bool) -> list[SessionInfo]:
        """The facts about these logs. `is_complete`: there are no others, so forget the rest."""
        with self._mutex:
            rows = self._load()
            infos, fresh = [], []
            for one in logs:
                known = rows.pop((one.key.agent, one.key.session), None)
                row = known
                if row is None or row.stamp != _stamp(one.status):
                    try:
                        row = _read(one, known)
                        fresh.append((one, row))
                    except NoSuchSession:
                        continue  # removed since it was listed
                    except StoreError:
                        row = _Row(_stamp(one.status), 0, b"", Facts(damaged=1))
                infos.append(_info(one, row))
            self._save(fresh, gone=list(rows) if is_complete else [])
            return infos

    def close(self) -> None:
        with self._mutex:
            self._disconnect()

    # SQLite, and doing without it

    def _load(self) -> dict[tuple[str, str], _Row]:
        import sqlite3

        for _attempt in range(2):
            try:
                rows = self._connect().execute(_SELECT).fetchall()
                return {(row[0], row[1]): _row(row) for row in rows}
            except (OSError, PathRejected):
                return {}  # no root yet, or something else stands in the place of the index
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", _BAD_SQL) != _BAD_SQL:
                    # Not writable, or busy: the logs themselves have the answer.
                    self._disconnect()
                    return {}
                self._set_aside()  # its tables are not ours
            except (sqlite3.DatabaseError, msgspec.ValidationError, UnicodeDecodeError):
                self._set_aside()  # even the message of the error can hold its garbage
        return {}

    def _save(self, fresh: list[tuple[LogFile, _Row]], gone: list[tuple[str, str]]) -> None:
        if self._connection is None or not (fresh or gone):
            return
        import sqlite3

        with suppress(sqlite3.Error, UnicodeDecodeError), self._connection:
            self._connection.executemany(_UPSERT, [_values(one, row) for one, row in fresh])
            self._connection.executemany(
                "DELETE FROM sessions WHERE agent = ? AND session = ?", gone
            )

    def _connect(self) -> sqlite3.Connection:
        import sqlite3

        if self._connection is not None and self._pid == os.getpid():
            return self._connection
        self._claim()
        if self._connection is not None:
            # A connection must not be used, nor closed, by a forked child: keep it and leave it.
            _INHERITED.append(self._connection)
        self._connection = sqlite3.connect(
            self._path, timeout=2.0, isolation_level="IMMEDIATE", check_same_thread=False
        )
        self._pid = os.getpid()
        connection = self._connection
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        if connection.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            connection.execute("DROP TABLE IF EXISTS sessions")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.execute(_SCHEMA)
        return connection

    def _claim(self) -> None:
        """Make the file, private from the start; refuse links and other files in its place.

        An existing one is not opened here: closing it would drop the locks of other connections.
        """
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                found = os.lstat(self._path + suffix)
                if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                    raise PathRejected(f"`{self._path}{suffix}` is a link or no file")
        with suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            os.close(os.open(self._path, flags, FILE_MODE))

    def _disconnect(self) -> None:
        if self._connection is not None and self._pid == os.getpid():
            self._connection.close()
        self._connection = None

    def _set_aside(self) -> None:
        """Keep a corrupt index for whoever wants to know, and start a new one."""
        self._disconnect()
        with suppress(OSError):
            os.replace(self._path, f"{self._path}.corrupt")
        for suffix in ("-wal", "-shm"):
            with suppress(OSError):
                os.unlink(self._path + suffix)


def _read(one: LogFile, known: _Row | None) -> _Row:
    """The facts from the log itself: from its new part alone where that is enough."""
    fd = one.open(one.key)
    try:
        status = os.fstat(fd)
        start, facts = 0, Facts()
        if known is not None and _has_only_grown(fd, status, known):
            start, facts = known.scanned, known.facts
        log = FileLog(one.key, fd, status.st_size)
        scanned = _scan(log, start, facts)
        if start == 0:
            first = opening(log)
            facts.owner = first.owner if first else None
        return _Row(_stamp(status), scanned, _fingerprint(fd, scanned), facts)
    finally:
        os.close(fd)


def _has_only_grown(fd: int, status: os.stat_result, known: _Row) -> bool:
    inode, size, *_times = known.stamp
    return (
        inode == status.st_ino
        and status.st_size > size >= _GROWN_BYTES_MIN
        and known.scanned == size
        and _fingerprint(fd, known.scanned) == known.fingerprint
    )


def _scan(log: FileLog, start: int, facts: Facts) -> int:
    """Add the records from `start` on to the facts.

    Returns the log's size, or 0 where it ends in the middle of an append and must be read again.
    """
    shape = Outline(on_record=facts.add, is_start=facts.records == 0)
    last = start
    for position, size, _item, _line in outline_lines(shape, log.lines(start)):
        last = position + size
    is_clean = last < log.size and not shape.is_open
    shape.end()
    facts.damaged += sum(finding.is_damage for finding in shape.findings)
    return log.size if is_clean else 0


def _fingerprint(fd: int, scanned: int) -> bytes:
    if scanned < _GROWN_BYTES_MIN:
        return b""  # such a log is never read in part
    start = max(0, scanned - _FINGERPRINT_BYTES)
    return os.pread(fd, scanned - start, start)


def _stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _info(one: LogFile, row: _Row) -> SessionInfo:
    info = SessionInfo(key=one.key, bytes=row.stamp[1], **msgspec.structs.asdict(row.facts))
    return (
        info if info.last_active else msgspec.structs.replace(info, last_active=one.status.st_mtime)
    )


def _row(values: tuple[Any, ...]) -> _Row:
    stamp, (scanned, fingerprint), facts = values[2:6], values[6:8], values[8:]
    fields = {"stamp": stamp, "scanned": scanned, "fingerprint": fingerprint}
    return msgspec.convert({**fields, "facts": dict(zip(_FACTS, facts, strict=True))}, _Row)


def _values(one: LogFile, row: _Row) -> tuple[Any, ...]:
    identity = (one.key.agent, one.key.session, *row.stamp, row.scanned, row.fingerprint)
    return (*identity, *msgspec.structs.astuple(row.facts))
