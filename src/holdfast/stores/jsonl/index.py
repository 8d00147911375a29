"""The index: small facts about every session, in SQLite, so that a listing opens no log.

It is a cache and never trusted over the logs. A row holds for the file it was made from (inode,
size and times); a file that grew is read from where the row ends, any other change means reading
it whole. A missing, corrupt or outdated index is made again; without one that can be written, the
logs are read.
"""

from __future__ import annotations

import os
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
from holdfast.stores.files import explaining_read
from holdfast.stores.jsonl.log import FileLog
from holdfast.stores.sqlite_cache import SqliteCache

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from holdfast.core.log.ids import SessionKey

_VERSION: Final = 3
_WAIT_SECONDS: Final = 2.0
"""A listing that waits longer for another process reads the logs instead."""
_GROWN_BYTES_MIN: Final = 8 * 1024 * 1024
"""Smaller logs are read whole when they change: it is quick, and notices an edit in the middle."""
_FINGERPRINT_BYTES: Final = 4_096
"""The bytes before the scanned end, compared to notice that a log was rewritten and not grown."""
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
    """A log as the file system shows it, and the function that opens it."""

    key: SessionKey
    status: os.stat_result
    open: Callable[[SessionKey], int]


class _Row(msgspec.Struct, frozen=True):
    """The index's knowledge of one log."""

    stamp: tuple[int, int, int, int]
    scanned: int
    """Everything before this byte is in the facts."""
    fingerprint: bytes
    """The bytes before `scanned`, to notice that they changed."""
    facts: Facts


class Index:
    """Facts about sessions, as fresh as their files."""

    def __init__(self, path: str) -> None:
        self._cache = SqliteCache(path, _prepare, wait_seconds=_WAIT_SECONDS)
        self._mutex = threading.Lock()

    def infos(self, logs: Iterable[LogFile], *, is_complete: bool) -> list[SessionInfo]:
        """Return the facts about these logs. `is_complete`: others are gone, and forgotten."""
        with self._mutex:
            rows = self._load()
            infos, fresh = [], []
            for file in logs:
                known = rows.pop((file.key.agent, file.key.session), None)
                row = known
                if row is None or row.stamp != _stamp(file.status):
                    try:
                        row = _read(file, known)
                        fresh.append((file, row))
                    except NoSuchSession:
                        continue  # removed since it was listed
                    except StoreError:
                        row = _Row(_stamp(file.status), 0, b"", Facts(damaged=1))
                infos.append(_info(file, row))
            self._save(fresh, gone=list(rows) if is_complete else [])
            return infos

    def erase(self, key: SessionKey) -> None:
        """Delete the row of a session for good."""
        with self._mutex:
            self._cache.erase(lambda db: _delete(db, [(key.agent, key.session)]))

    def close(self) -> None:
        """Close the file; the next listing opens it again."""
        with self._mutex:
            self._cache.close()

    def _load(self) -> dict[tuple[str, str], _Row]:
        import sqlite3

        for _attempt in range(2):
            try:
                rows = self._cache.connect().execute(_SELECT).fetchall()
                return {(row[0], row[1]): _row(row) for row in rows}
            except (OSError, PathRejected):
                return {}  # no root yet, or something else in the place of the index
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", _BAD_SQL) != _BAD_SQL:
                    # Not writable, or busy: the logs themselves have the answer.
                    self._cache.close()
                    return {}
                self._cache.set_aside()  # its tables are not ours
            except (sqlite3.DatabaseError, msgspec.ValidationError, UnicodeDecodeError):
                self._cache.set_aside()  # even the message of the error can hold its garbage
        return {}

    def _save(self, fresh: list[tuple[LogFile, _Row]], gone: list[tuple[str, str]]) -> None:
        if not self._cache.is_open or not (fresh or gone):
            return
        import sqlite3

        with suppress(sqlite3.Error, UnicodeDecodeError), self._cache.transaction() as db:
            db.executemany(_UPSERT, [_values(file, row) for file, row in fresh])
            _delete(db, gone)


def _prepare(db: sqlite3.Connection) -> None:
    if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
        db.execute("DROP TABLE IF EXISTS sessions")
        db.execute(f"PRAGMA user_version = {_VERSION}")
    db.execute(_SCHEMA)


def _delete(db: sqlite3.Connection, sessions: list[tuple[str, str]]) -> None:
    db.executemany("DELETE FROM sessions WHERE agent = ? AND session = ?", sessions)


def _read(file: LogFile, known: _Row | None) -> _Row:
    """Return the facts from the log itself: from its new part alone where that is enough."""
    fd = file.open(file.key)
    try:
        with explaining_read(f"session `{file.key.session}`"):
            return _read_open(file, fd, known)
    finally:
        os.close(fd)


def _read_open(file: LogFile, fd: int, known: _Row | None) -> _Row:
    status = os.fstat(fd)
    start, facts = 0, Facts()
    if known is not None and _has_only_grown(fd, status, known):
        start, facts = known.scanned, known.facts
    log = FileLog(file.key, fd, status.st_size)
    scanned = _scan(log, start, facts)
    if start == 0:
        first = opening(log)
        facts.owner = first.owner if first else None
    return _Row(_stamp(status), scanned, _fingerprint(fd, scanned), facts)


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


def _info(file: LogFile, row: _Row) -> SessionInfo:
    info = SessionInfo(key=file.key, bytes=row.stamp[1], **msgspec.structs.asdict(row.facts))
    return (
        info
        if info.last_active
        else msgspec.structs.replace(info, last_active=file.status.st_mtime)
    )


def _row(values: tuple[Any, ...]) -> _Row:
    stamp, (scanned, fingerprint), facts = values[2:6], values[6:8], values[8:]
    fields = {"stamp": stamp, "scanned": scanned, "fingerprint": fingerprint}
    return msgspec.convert({**fields, "facts": dict(zip(_FACTS, facts, strict=True))}, _Row)


def _values(file: LogFile, row: _Row) -> tuple[Any, ...]:
    identity = (file.key.agent, file.key.session, *row.stamp, row.scanned, row.fingerprint)
    return (*identity, *msgspec.structs.astuple(row.facts))
