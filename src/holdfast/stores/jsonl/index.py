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
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from holdfast.core.log.damage import Flaw
from holdfast.core.log.ids import IdOrder
from holdfast.core.log.listing import Facts
from holdfast.core.log.tree import Outline
from holdfast.core.log.views import opening
from holdfast.core.log.walk import outline_lines
from holdfast.core.models.totals import SessionTotals
from holdfast.errors import NoSuchSession, PathRejected, StoreError
from holdfast.ports import SessionInfo
from holdfast.stores.files import explaining_read
from holdfast.stores.jsonl.log import FileLog
from holdfast.stores.sqlite_cache import SqliteCache

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from holdfast.core.log.chain import Stands
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record

_VERSION: Final = 4
_WAIT_SECONDS: Final = 2.0
"""A listing that waits longer for another process reads the logs instead."""
_GROWN_BYTES_MIN: Final = 256 * 1024
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
    totals BLOB NOT NULL, newest_id TEXT NOT NULL, is_sorted INTEGER NOT NULL,
    PRIMARY KEY (agent, session)
) WITHOUT ROWID
"""
_FACTS: Final = tuple(Facts.__struct_fields__)
_COLUMNS: Final = (
    *("agent", "session", "inode", "size", "mtime_ns", "ctime_ns", "scanned", "fingerprint"),
    *_FACTS,
    *("totals", "newest_id", "is_sorted"),
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
    totals: SessionTotals
    order: IdOrder


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
                        fresh.append((file.key, row))
                    except NoSuchSession:
                        continue  # removed since it was listed
                    except StoreError:
                        row = _unread(_stamp(file.status), Facts(damaged=1))
                infos.append(_info(file.key, file.status, row))
            self._save(fresh, gone=list(rows) if is_complete else [])
            return infos

    def info(self, key: SessionKey, fd: int) -> SessionInfo:
        """Return the facts about the log that is open as `fd`."""
        return _info(key, os.fstat(fd), self._row(key, fd))

    def totals(self, key: SessionKey, fd: int) -> SessionTotals:
        """Return the totals of the log that is open as `fd`."""
        return self._row(key, fd).totals

    def is_sorted(self, key: SessionKey, fd: int) -> bool:
        """Return whether the ids in the log that is open as `fd` only grow."""
        return self._row(key, fd).order.is_sorted

    def _row(self, key: SessionKey, fd: int) -> _Row:
        """Return the row of a log, after reading what was appended since it was made."""
        with self._mutex:
            where = " WHERE agent = ? AND session = ?"
            known = self._load(where, (key.agent, key.session)).get((key.agent, key.session))
            if known is not None and known.stamp == _stamp(os.fstat(fd)):
                return known
            with explaining_read(f"session `{key.session}`"):
                row = _read_open(key, fd, known)
            self._save([(key, row)], gone=[])
            return row

    def erase(self, key: SessionKey) -> None:
        """Delete the row of a session for good."""
        with self._mutex:
            self._cache.erase(lambda db: _delete(db, [(key.agent, key.session)]))

    def close(self) -> None:
        """Close the file; the next listing opens it again."""
        with self._mutex:
            self._cache.close()

    def _load(self, where: str = "", values: tuple[str, ...] = ()) -> dict[tuple[str, str], _Row]:
        import sqlite3

        for _attempt in range(2):
            try:
                rows = self._cache.connect().execute(_SELECT + where, values).fetchall()
                return {(row[0], row[1]): _row(row) for row in rows}
            except (OSError, PathRejected):
                return {}  # no root yet, or something else in the place of the index
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", _BAD_SQL) != _BAD_SQL:
                    # Not writable, or busy: the logs themselves have the answer.
                    self._cache.close()
                    return {}
                self._cache.set_aside()  # its tables are not ours
            except (sqlite3.DatabaseError, msgspec.MsgspecError, UnicodeDecodeError, TypeError):
                self._cache.set_aside()  # even the message of the error can hold its garbage
        return {}

    def _save(self, fresh: list[tuple[SessionKey, _Row]], gone: list[tuple[str, str]]) -> None:
        if not self._cache.is_open or not (fresh or gone):
            return
        import sqlite3

        with suppress(sqlite3.Error, UnicodeDecodeError), self._cache.transaction() as db:
            db.executemany(_UPSERT, [_values(key, row) for key, row in fresh])
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
            return _read_open(file.key, fd, known)
    finally:
        os.close(fd)


def _read_open(key: SessionKey, fd: int, known: _Row | None) -> _Row:
    status = os.fstat(fd)
    start, row = 0, _unread(_stamp(status), Facts())
    if known is not None and _has_only_grown(fd, status, known):
        start, row = known.scanned, known
    log = FileLog(key, fd, status.st_size)
    scanned = _scan(log, start, row)
    if start == 0:
        first = opening(log)
        row.facts.owner = first.owner if first else None
    fingerprint = _fingerprint(fd, scanned)
    return _Row(_stamp(status), scanned, fingerprint, row.facts, row.totals, row.order)


def _unread(stamp: tuple[int, int, int, int], facts: Facts) -> _Row:
    return _Row(stamp, 0, b"", facts, SessionTotals(), IdOrder())


def _has_only_grown(fd: int, status: os.stat_result, known: _Row) -> bool:
    inode, size, *_times = known.stamp
    return (
        inode == status.st_ino
        and status.st_size > size >= _GROWN_BYTES_MIN
        and known.scanned == size
        and _fingerprint(fd, known.scanned) == known.fingerprint
    )


def _scan(log: FileLog, start: int, row: _Row) -> int:
    """Add the records from `start` on to what the row knows.

    Returns the log's size, or 0 where it ends in the middle of an append and must be read again.
    """
    facts, totals, order = row.facts, row.totals, row.order

    def count(position: int, item: Stands) -> None:
        facts.add(position, item)
        totals.add(cast("Record", item))

    shape = Outline(on_record=count, is_start=facts.records == 0)
    last = start
    for position, size, item, _line in outline_lines(shape, log.lines(start)):
        last = position + size
        # Also of appends that never completed: halving meets them.
        if not (
            item is None or isinstance(item, Flaw) or (position == 0 and item.kind == "session")
        ):
            order.add(item.id)
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


def _info(key: SessionKey, status: os.stat_result, row: _Row) -> SessionInfo:
    info = SessionInfo(key=key, bytes=row.stamp[1], **msgspec.structs.asdict(row.facts))
    return info if info.last_active else msgspec.structs.replace(info, last_active=status.st_mtime)


def _row(values: tuple[Any, ...]) -> _Row:
    stamp, (scanned, fingerprint), facts = values[2:6], values[6:8], values[8:-3]
    totals, newest, is_sorted = values[-3:]
    fields = {
        "stamp": stamp,
        "scanned": scanned,
        "fingerprint": fingerprint,
        "facts": dict(zip(_FACTS, facts, strict=True)),
        "totals": msgspec.json.decode(totals),
        "order": {"newest": newest, "is_sorted": is_sorted == 1},
    }
    return msgspec.convert(fields, _Row)


def _values(key: SessionKey, row: _Row) -> tuple[Any, ...]:
    return (
        *(key.agent, key.session, *row.stamp, row.scanned, row.fingerprint),
        *msgspec.structs.astuple(row.facts),
        *(msgspec.json.encode(row.totals), row.order.newest, row.order.is_sorted),
    )
