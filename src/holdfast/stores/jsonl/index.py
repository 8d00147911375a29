"""The index: small facts about every session, in SQLite, so that a listing opens no log.

A log that says no label has the one that the seed's index file gives it: that file is looked at
each time, and nothing of it is stored here.

It is a cache and never trusted over the logs. A row holds for the file it was made from (inode,
size and times); a file that grew is read from where the row ends, any other change means reading
it whole. A missing, corrupt or outdated index is made again; without one that can be written, the
logs are read.

A listing of everything looks at the status of every file. A page of a large root looks at those
of its own sessions, and of the sessions that `index.changes` names; every file is looked at once a
minute as well, for what other programs changed.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.listing import Facts
from holdfast.core.owners import filter_text
from holdfast.core.text.typed import convert_typed
from holdfast.errors import NoSuchSession, PathRejected, StoreError
from holdfast.stores.changes import ChangesSeen  # noqa: TC001 - read from the index
from holdfast.stores.files import explaining_read
from holdfast.stores.jsonl import record_ids
from holdfast.stores.jsonl.index_rows import (
    COLUMNS,
    IndexRow,
    LogFile,
    empty_row,
    fingerprint_of,
    info_of,
    read_open_row,
    read_row,
    row_of,
    stamp_of,
    values_of,
)
from holdfast.stores.sqlite_files import SqliteCache

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from holdfast.core.owners import OwnerFilter
    from holdfast.ports import SessionInfo
    from holdfast.stores.changes import Changes
    from holdfast.stores.jsonl.log import FileLog
    from holdfast.stores.seed.labels import SeedLabels

_VERSION: Final = 9
_WAIT_SECONDS: Final = 2.0
"""A listing that waits longer for another process reads the logs instead."""
_BAD_SQL: Final = 1
"""SQLite's code for a statement that does not fit the tables."""
_SMALL_ROOT: Final = 1_000
"""Sessions up to which every listing looks at every file: that takes milliseconds."""
_LOOK_SECONDS: Final = 60.0
"""The longest time after which a change by another program is noticed in a larger root."""
_PAGE_ATTEMPTS: Final = 4
"""Of making a page from rows that hold for their files, while others are changing them."""

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
    is_labelled INTEGER NOT NULL, active REAL NOT NULL,
    PRIMARY KEY (agent, session)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_time ON sessions (active DESC, agent, session);
CREATE INDEX IF NOT EXISTS by_agent ON sessions (agent, active DESC, session);
CREATE INDEX IF NOT EXISTS by_owner ON sessions (owner, active DESC, agent, session);
CREATE INDEX IF NOT EXISTS by_label ON sessions (label, owner, active DESC, agent, session);
CREATE INDEX IF NOT EXISTS unlabelled ON sessions (agent) WHERE NOT is_labelled;
CREATE TABLE IF NOT EXISTS looks (looked REAL NOT NULL, sessions INTEGER NOT NULL, seen BLOB)
"""
_SELECT: Final = f"SELECT {', '.join(COLUMNS)} FROM sessions"  # noqa: S608 - constants only
_UNLABELLED: Final = "SELECT 1 FROM sessions WHERE NOT is_labelled LIMIT 1"
_UPSERT: Final = (
    f"INSERT INTO sessions ({', '.join(COLUMNS)}) "  # noqa: S608 - constants only
    f"VALUES ({', '.join('?' * len(COLUMNS))}) ON CONFLICT (agent, session) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in COLUMNS[2:])
    # A row of an older state, by a process that was slow, does not replace a newer one.
    + " WHERE excluded.ctime_ns >= sessions.ctime_ns"
    " OR (excluded.inode = sessions.inode AND excluded.size > sessions.size)"
)

_Name = tuple[str, str]
"""The agent and the session of a row."""


class _Look(msgspec.Struct, frozen=True):
    """The last time that every file was looked at."""

    looked: float
    sessions: int
    seen: ChangesSeen


class PageQuery(msgspec.Struct, frozen=True):
    """The page that a listing asks for."""

    agent: str | None
    owner: OwnerFilter
    label: str | None
    after: SessionInfo | None
    limit: int | None

    @property
    def sql(self) -> tuple[str, tuple[Any, ...]]:
        """The end of the statement, and its values."""
        chosen: list[tuple[str, tuple[Any, ...]]] = [
            (f"{column} = ?", (value,))
            for column, value in (
                ("agent", self.agent),
                ("owner", filter_text(self.owner)),
                ("label", self.label),
            )
            if value is not None
        ]
        if self.after is not None:
            time, key = self.after.last_active, self.after.key
            place = "active <= ? AND (active < ? OR (agent, session) > (?, ?))"
            chosen.append((place, (time, time, key.agent, key.session)))
        where = " AND ".join(text for text, _values in chosen) or "1"
        values = [value for _text, given in chosen for value in given]
        order = "ORDER BY active DESC, agent, session LIMIT ?"
        return f" WHERE {where} {order}", (*values, -1 if self.limit is None else self.limit)


class Index:
    """Facts about sessions, as fresh as their files."""

    def __init__(self, path: str, changes: Changes, seed_labels: SeedLabels) -> None:
        self._seed_labels = seed_labels
        self._cache = SqliteCache(path, _prepare, wait_seconds=_WAIT_SECONDS)
        self._changes = changes
        self._mutex = threading.Lock()

    def infos(
        self, logs: Iterable[LogFile], *, is_complete: bool, now: float = 0.0
    ) -> list[SessionInfo]:
        """Return the facts about these logs. `is_complete`: others are gone, and forgotten."""
        with self._mutex:
            seen = self._changes.look() if is_complete else None
            rows = self._load()
            found, fresh = {}, []
            for file in logs:
                known = rows.pop((file.key.agent, file.key.session), None)
                row = known
                if row is None or row.stamp != stamp_of(file.status):
                    try:
                        row = read_row(file, known)
                        fresh.append((file.key, row))
                    except NoSuchSession:
                        continue  # removed since it was listed
                    except StoreError:
                        row = empty_row(stamp_of(file.status), Facts(damaged=1))
                        seen = None  # it has no row: a page would leave it out
                found[file.key] = row
            look = None
            if seen is not None and len(found) > _SMALL_ROOT:
                look = _Look(now, len(found), seen)
            self._save(fresh, gone=list(rows) if is_complete else [], look=look)
            return self._infos(found)

    def info(self, key: SessionKey, fd: int) -> SessionInfo:
        """Return the facts about the log that is open as `fd`."""
        return self._infos({key: self.row(key, fd)})[0]

    def _infos(self, rows: dict[SessionKey, IndexRow]) -> list[SessionInfo]:
        labels: dict[str, dict[str, str]] = {}
        infos = []
        for key, row in rows.items():
            info = info_of(key, row)
            if not row.is_labelled:
                if key.agent not in labels:
                    labels[key.agent] = self._seed_labels.of(key.agent)
                label = labels[key.agent].get(key.session, "")
                info = msgspec.structs.replace(info, label=label)
            infos.append(info)
        return infos

    def page(
        self,
        query: PageQuery,
        now: float,
        look_at: Callable[[Iterable[SessionKey]], dict[SessionKey, LogFile]],
    ) -> list[SessionInfo] | None:
        """Return a page, after looking at the files of its sessions and of those that changed.

        `look_at` returns the logs of those sessions that exist. None where every file must be
        looked at instead.
        """
        with self._mutex:
            if not self._take_changes(now, look_at):
                return None
            if query.label is not None and self._select(_UNLABELLED, (), bool) != []:
                return None  # the statement does not know the labels of the seed's index file
            where, values = query.sql
            for _attempt in range(_PAGE_ATTEMPTS):
                found = self._select(_SELECT + where, values, row_of)
                if found is None:
                    return None  # no answer is not an empty page
                rows = {SessionKey(row[0], row[1]): made for row, made in found}
                files = look_at(rows)
                wrong = [
                    key
                    for key, row in rows.items()
                    if key not in files or row.stamp != stamp_of(files[key].status)
                ]
                if not wrong:
                    return self._infos(rows)
                if not self._read_again(wrong, look_at):
                    return None
            return None

    def _take_changes(
        self, now: float, look_at: Callable[[Iterable[SessionKey]], dict[SessionKey, LogFile]]
    ) -> bool:
        """Bring the rows of changed sessions up to date; False where these are not known."""
        looks = self._select("SELECT looked, sessions, seen FROM looks", (), _look_of)
        last = looks[0][1] if looks else None
        if last is None or last.sessions <= _SMALL_ROOT:
            return False
        if not last.looked <= now < last.looked + _LOOK_SECONDS:
            return False
        seen = self._changes.look()
        changed = None if seen is None else self._changes.between(last.seen, seen)
        if seen is None or changed is None:
            return False
        look = msgspec.structs.replace(last, seen=seen)
        return self._read_again(changed, look_at, look=look, instead_of=last)

    def _read_again(
        self,
        keys: Iterable[SessionKey],
        look_at: Callable[[Iterable[SessionKey]], dict[SessionKey, LogFile]],
        *,
        look: _Look | None = None,
        instead_of: _Look | None = None,
    ) -> bool:
        """Make the rows of these sessions anew; False where a log cannot be read."""
        keys = list(keys)
        files = look_at(keys)
        fresh, gone = [], [(key.agent, key.session) for key in keys if key not in files]
        for key, file in files.items():
            known = self._find_row(key)
            if known is not None and known.stamp == stamp_of(file.status):
                continue
            try:
                fresh.append((key, read_row(file, known)))
            except NoSuchSession:
                gone.append((key.agent, key.session))
            except StoreError:
                return False
        return self._save(fresh, gone=gone, look=look, instead_of=instead_of)

    def row(self, key: SessionKey, fd: int) -> IndexRow:
        """Return the row of the log that is open as `fd`, after reading what was appended."""
        with self._mutex:
            known = self._find_row(key)
            if known is not None and known.stamp == stamp_of(os.fstat(fd)):
                return known
            with explaining_read(f"session `{key.session}`"):
                row = read_open_row(key, fd, known)
            self._save([(key, row)], gone=[])
            return row

    def find_ids(self, log: FileLog, prefix: str, limit: int) -> dict[str, int] | None:
        """Return the first ids of a log that begin with a prefix, and the positions of their
        records; None where the log itself must be searched."""
        import sqlite3

        row = self.row(log.key, log.fd)
        if not row.fingerprint or row.scanned != log.size:
            return None  # short, or it ends in the middle of an append
        with self._mutex:
            try:
                db = self._cache.connect()
                found = record_ids.find_ids(db, log, row, prefix, limit)
                if found is None:
                    with self._cache.transaction() as db:
                        end = record_ids.end_of_ids(db, log)
                        record_ids.store_ids(db, log, row, fingerprint_of(log.fd, end))
                    found = record_ids.find_ids(db, log, row, prefix, limit)
            except (sqlite3.Error, OSError, PathRejected, UnicodeError):
                return None
            return found

    def erase(self, key: SessionKey) -> None:
        """Delete the row of a session for good."""
        with self._mutex:
            self._changes.cut()
            self._cache.erase(lambda db: _delete(db, [(key.agent, key.session)]))

    def close(self) -> None:
        """Close the files; the next listing opens them again."""
        with self._mutex:
            self._changes.close()
            self._cache.close()

    def _find_row(self, key: SessionKey) -> IndexRow | None:
        name = (key.agent, key.session)
        return self._load(" WHERE agent = ? AND session = ?", name).get(name)

    def _load(self, where: str = "", values: tuple[Any, ...] = ()) -> dict[_Name, IndexRow]:
        rows = self._select(_SELECT + where, values, row_of)
        return {(row[0], row[1]): made for row, made in rows or ()}

    def _select(
        self, statement: str, values: tuple[Any, ...], read: Callable[[tuple[Any, ...]], Any]
    ) -> list[tuple[tuple[Any, ...], Any]] | None:
        """Return the rows, each with what `read` makes of it; None where the index is no use."""
        import sqlite3

        for attempt in range(2):
            try:
                rows = self._cache.connect().execute(statement, values).fetchall()
                found = [(row, read(row)) for row in rows]
                return None if attempt else found  # one that was just begun anew knows nothing
            except (OSError, PathRejected):
                return None  # no root yet, or something else in the place of the index
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", _BAD_SQL) != _BAD_SQL:
                    # Not writable, or busy: the logs themselves have the answer.
                    self._cache.close()
                    return None
                self._cache.set_aside()  # its tables are not ours
            except (sqlite3.DatabaseError, msgspec.MsgspecError, UnicodeDecodeError, TypeError):
                self._cache.set_aside()  # even the message of the error can hold its garbage
        return None

    def _save(
        self,
        fresh: list[tuple[SessionKey, IndexRow]],
        gone: list[_Name],
        *,
        look: _Look | None = None,
        instead_of: _Look | None = None,
    ) -> bool:
        """Write rows, and how far the changes were read, unless another process wrote that since
        `instead_of` was read. Returns whether it worked."""
        if not self._cache.is_open:
            return False
        if not (fresh or gone or look):
            return True
        import sqlite3

        try:
            with self._cache.transaction() as db:
                db.executemany(_UPSERT, [values_of(key, row) for key, row in fresh])
                _delete(db, gone)
                if look is not None and (instead_of is None or _is_last(db, instead_of)):
                    db.execute("DELETE FROM looks")
                    seen = msgspec.json.encode(look.seen)
                    db.execute(
                        "INSERT INTO looks VALUES (?, ?, ?)", (look.looked, look.sessions, seen)
                    )
        except (sqlite3.Error, UnicodeDecodeError):
            return False
        return True


def _prepare(db: sqlite3.Connection) -> None:
    if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
        for table in ("sessions", "looks", *record_ids.TABLES):
            db.execute(f"DROP TABLE IF EXISTS {table}")
        db.execute(f"PRAGMA user_version = {_VERSION}")
    for statement in (_SCHEMA + ";" + record_ids.SCHEMA).split(";"):
        db.execute(statement)


def _delete(db: sqlite3.Connection, sessions: list[_Name]) -> None:
    db.executemany("DELETE FROM sessions WHERE agent = ? AND session = ?", sessions)
    record_ids.delete_ids(db, sessions)


def _look_of(row: tuple[Any, ...]) -> _Look:
    looked, sessions, seen = row
    fields = {"looked": looked, "sessions": sessions, "seen": msgspec.json.decode(seen)}
    return convert_typed(fields, _Look)


def _is_last(db: sqlite3.Connection, look: _Look) -> bool:
    found = db.execute("SELECT looked, sessions, seen FROM looks").fetchall()
    return [_look_of(row) for row in found] == [look]
