"""The index: small facts about every session, in SQLite, so that a listing opens no log.

A log that says no label has the one that the seed's index file gives it: that file is looked at
each time, and nothing of it is stored here.

It is a cache and never trusted over the logs. A row holds for the file it was made from (inode,
size and times); a file that grew is read from where the row ends, any other change means reading
it whole. A missing, corrupt or outdated index is made again; without one that can be written, the
logs are read.

A listing of everything looks at the status of every file. A page of a large root looks at those
of its own sessions, and of the sessions that `index.changes` names. For what other programs changed
it looks at a few of the others as well, which are all looked at in turn. Files that other programs
made or deleted are found by their names: once a minute, less often where there are many, and only
where a folder has changed.

What has words is scrambled, each row by a key of its own, and names that a listing asks for are
digests: an erasure overwrites keys, and writes no page for what others have. Ids of records are
asked for by their beginning and stored as they are: where there were any, the file is rewritten.
"""

from __future__ import annotations

import hashlib
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, cast

import msgspec

from holdfast.core.log.damage import Flaw
from holdfast.core.log.ids import IdOrder, SessionKey
from holdfast.core.log.listing import Facts
from holdfast.core.log.records import Header, Label
from holdfast.core.log.tree import Outline
from holdfast.core.log.views import opening
from holdfast.core.log.walk import outline_lines, record_at, records_that_count
from holdfast.core.models.totals import SessionTotals
from holdfast.core.owners import filter_text
from holdfast.core.text.cut import scrub
from holdfast.core.text.typed import convert_typed, decode_typed
from holdfast.errors import BadId, NoSuchSession, PathRejected, StoreError
from holdfast.ports.sessions import ListingChanges, SessionInfo, session_info
from holdfast.stores.changes import ChangesSeen
from holdfast.stores.files import explaining_read
from holdfast.stores.jsonl.log import FileLog
from holdfast.stores.sqlite_files import KEYS_TABLE, Key, SqliteCache, destroy_keys, new_key

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.log.tree import Stands
    from holdfast.core.owners import OwnerFilter
    from holdfast.stores.changes import Changes
    from holdfast.stores.jsonl.folders import SeedLabels


T = TypeVar("T")

_GROWN_BYTES_MIN: Final = 256 * 1024
"""Smaller logs are read whole when they change: it is quick, and notices an edit in the middle."""
_FINGERPRINT_BYTES: Final = 4_096
"""The bytes before the scanned end, compared to notice that a log was rewritten and not grown."""
COLUMNS: Final = (
    *("place", "inode", "size", "mtime_ns", "ctime_ns", "active"),
    *("agent", "owner", "label", "parent", "is_labelled", "version", "key", "data"),
)


class RemovedLog(NamedTuple):
    """Digests of the names in the header of a log in the trash."""

    owner: bytes | None
    repaired_from: bytes | None


class LogFile(msgspec.Struct, frozen=True):
    """A log as the file system shows it, and the function that opens it."""

    key: SessionKey
    status: os.stat_result
    open: Callable[[SessionKey], int]


class LogFiles(Protocol):
    """The logs of a root."""

    def all(self) -> Iterable[LogFile]:
        """Yield every log."""

    def at(self, keys: Iterable[SessionKey]) -> dict[SessionKey, LogFile]:
        """Return the logs of those of the sessions that exist."""

    def names(self) -> Iterable[SessionKey]:
        """Yield the key of every log; no file is looked at."""

    def folders(self, before: float) -> bytes:
        """Return what changes when a log is made or deleted; nothing where a folder changed so
        shortly before this time that it can change again without a trace."""


class IndexRow(msgspec.Struct, frozen=True):
    """The index's knowledge of one log."""

    stamp: tuple[int, int, int, int]
    scanned: int
    """Everything before this byte is in the facts."""
    fingerprint: bytes
    """The bytes before `scanned`, to notice that they changed."""
    facts: Facts
    totals: SessionTotals
    order: IdOrder
    is_labelled: bool = False
    """The log itself says its label, also where that is none: in a header, or in a record."""

    @property
    def active(self) -> float:
        """The time by which a listing is sorted: the newest record's, or the file's."""
        seconds, nanoseconds = divmod(self.stamp[2], 10**9)
        return self.facts.last_active or seconds + 1e-9 * nanoseconds


def read_row(file: LogFile, known: IndexRow | None) -> IndexRow:
    """Return the facts from the log itself: from its new part alone where that is enough."""
    fd = file.open(file.key)
    try:
        with explaining_read(f"session `{file.key.session}`"):
            return read_open_row(file.key, fd, known)
    finally:
        os.close(fd)


def read_open_row(key: SessionKey, fd: int, known: IndexRow | None) -> IndexRow:
    status = os.fstat(fd)
    start, row = 0, empty_row(stamp_of(status), Facts())
    if known is not None and _has_only_grown(fd, status, known):
        start, row = known.scanned, known
    log = FileLog(key, fd, status.st_size)
    scanned, is_labelled = _scan(log, start, row)
    if start == 0:
        first = opening(log)
        row.facts.owner = first.owner if first else None
    fingerprint = fingerprint_of(fd, scanned)
    return msgspec.structs.replace(
        row,
        stamp=stamp_of(status),
        scanned=scanned,
        fingerprint=fingerprint,
        is_labelled=is_labelled,
    )


def empty_row(stamp: tuple[int, int, int, int], facts: Facts) -> IndexRow:
    return IndexRow(stamp, 0, b"", facts, SessionTotals(), IdOrder())


def _has_only_grown(fd: int, status: os.stat_result, known: IndexRow) -> bool:
    inode, size, *_times = known.stamp
    return (
        inode == status.st_ino
        and status.st_size > size >= _GROWN_BYTES_MIN
        and known.scanned == size
        and fingerprint_of(fd, known.scanned) == known.fingerprint
    )


def _scan(log: FileLog, start: int, row: IndexRow) -> tuple[int, bool]:
    """Add the records from `start` on to what the row knows.

    Returns the log's size, or 0 where it ends in the middle of an append and must be read again;
    and whether the log says its label.
    """
    facts, totals, order, is_labelled = row.facts, row.totals, row.order, row.is_labelled

    def count(position: int, item: Stands) -> None:
        nonlocal is_labelled
        facts.add(position, item)
        # By exact type: to ask a struct's class for its instances takes several times as long.
        if type(item) is Label:
            is_labelled = is_labelled or item.target is None
        elif type(item) is Header and facts.records == 1:
            is_labelled = True
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
    return log.size if is_clean else 0, is_labelled


def fingerprint_of(fd: int, scanned: int) -> bytes:
    """Return the bytes before an end up to which a log was read; none for a short log."""
    if scanned < _GROWN_BYTES_MIN:
        return b""  # such a log is never read in part
    start = max(0, scanned - _FINGERPRINT_BYTES)
    return os.pread(fd, scanned - start, start)


def stamp_of(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def info_of(key: SessionKey, row: IndexRow) -> SessionInfo:
    info = session_info(key, row.stamp[1], row.facts)
    return msgspec.structs.replace(info, last_active=row.active)


class _Stored(msgspec.Struct, array_like=True, frozen=True):
    """The part of a row that is scrambled."""

    agent: str
    session: str
    scanned: int
    fingerprint: bytes
    facts: Facts
    totals: bytes
    """As JSON: its numbers may be larger than those of MessagePack."""
    order: IdOrder


class _Names(msgspec.Struct, array_like=True, frozen=True):
    """The beginning of the scrambled part of a row."""

    agent: str
    session: str


def _file_stamp_of(values: tuple[Any, ...]) -> tuple[SessionKey, tuple[int, ...]]:
    """Return the session of a row and the stamp of its file; nothing else is read."""
    _place, *stamp, _is_labelled, number, secret, data = values
    names = convert_typed(msgspec.msgpack.decode(Key(number, secret).restore(data)), _Names)
    return SessionKey(names.agent, names.session), tuple(stamp)


def row_of(values: tuple[Any, ...]) -> tuple[SessionKey, IndexRow]:
    """Return the session of a row, and the row. Raises where it is not as it was stored."""
    place, *stamp, is_labelled, number, secret, data = values
    found = msgspec.msgpack.decode(Key(number, secret).restore(data))
    stored = convert_typed(found, _Stored)
    totals = decode_typed(stored.totals, SessionTotals)
    fields = (stored.scanned, stored.fingerprint, stored.facts, totals, stored.order)
    row = IndexRow(convert_typed(stamp, tuple[int, int, int, int]), *fields, is_labelled == 1)
    key = SessionKey(stored.agent, stored.session)
    if place != place_of(key):
        raise msgspec.ValidationError(f"the row of `{key}` is in another place")
    return key, row


def values_of(key: SessionKey, row: IndexRow, version: int, secret: Key) -> tuple[Any, ...]:
    """Return a row as it is stored."""
    facts = row.facts
    totals = msgspec.json.encode(row.totals)
    names = (key.agent, key.session)
    stored = _Stored(*names, row.scanned, row.fingerprint, facts, totals, row.order)
    return (
        *(place_of(key), *row.stamp, row.active, digest_of("agent", key.agent)),
        None if facts.owner is None else digest_of("owner", facts.owner),
        digest_of("label", facts.label),
        None if facts.parent_session is None else _parent_of(facts.parent_session),
        *(row.is_labelled, version, secret.id, secret.scramble(msgspec.msgpack.encode(stored))),
    )


def place_of(key: SessionKey) -> bytes:
    """Return what stands for a session in the tables."""
    return digest_of("session", str(key))


def _parent_of(name: str) -> str:
    """Return what stands for an origin: as text, for lists of them are passed as JSON."""
    return digest_of("session", name).hex()


def digest_of(kind: str, name: str) -> bytes:
    """Return what stands for a name in the tables: it has no words."""
    return hashlib.blake2b(scrub(f"{kind}\n{name}").encode(), digest_size=16).digest()


SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS id_logs (
    log INTEGER PRIMARY KEY AUTOINCREMENT, place BLOB NOT NULL UNIQUE,
    inode INTEGER NOT NULL, size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
    fingerprint BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS record_ids (
    log INTEGER NOT NULL, id BLOB NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (log, id)
) WITHOUT ROWID
"""
"""Ids are bytes: they sort alike everywhere, and a prefix is a range."""
TABLES: Final = ("id_logs", "record_ids")
_AFTER: Final = b"\xff"
"""Sorts after every text."""
_KNOWN: Final = """SELECT log, inode, size, mtime_ns, ctime_ns, fingerprint FROM id_logs
  WHERE place = ?"""
_HAD_IDS: Final = "SELECT 1 FROM sqlite_sequence WHERE name = 'id_logs'"
"""SQLite keeps the largest number that a log ever had there."""
_NEAR: Final = """SELECT id, position FROM record_ids WHERE log = ? AND id >= ? AND id < ?
  ORDER BY id LIMIT ?"""


def find_ids(
    db: sqlite3.Connection, log: FileLog, row: IndexRow, prefix: str, limit: int
) -> dict[str, int] | None:
    """Return the first ids that begin with a prefix, with the positions of their records: that
    one alone where it is an id itself. None where the tables do not know this log as it is."""
    known = db.execute(_KNOWN, (place_of(log.key),)).fetchone()
    if known is None or tuple(known[1:5]) != row.stamp:
        return None
    name = prefix.encode()
    rows = db.execute(_NEAR, (known[0], name, name + _AFTER, limit)).fetchall()
    found = {bytes(record_id).decode(): position for record_id, position in rows}
    if prefix in found:
        found = {prefix: found[prefix]}
    for record_id, position in found.items():
        record = record_at(log, position)
        if record is None or record.id != record_id:
            return None
    return found


def store_ids(
    db: sqlite3.Connection, log: FileLog, row: IndexRow, fingerprint: bytes | None
) -> None:
    """Read the ids of a log that the tables lack; `row` is what the index knows of it now.

    `fingerprint` are the bytes before the end that the tables know, as the log has them now.
    """
    place = place_of(log.key)
    known = db.execute(_KNOWN, (place,)).fetchone()
    start = 0
    if known is not None and _has_grown(known, row, fingerprint):
        start = known[2]
    else:
        delete_ids(db, [place])
        db.execute(
            "INSERT INTO id_logs (place, inode, size, mtime_ns, ctime_ns, fingerprint)"
            " VALUES (?, 0, 0, 0, 0, x'')",
            (place,),
        )
    number = db.execute(_KNOWN, (place,)).fetchone()[0]
    # The first record with an id has it.
    db.executemany(
        "INSERT OR IGNORE INTO record_ids VALUES (?, ?, ?)",
        ((number, record_id.encode(), position) for record_id, position in _ids(log, start)),
    )
    db.execute(
        "UPDATE id_logs SET inode = ?, size = ?, mtime_ns = ?, ctime_ns = ?, fingerprint = ?"
        " WHERE log = ?",
        (*row.stamp, row.fingerprint, number),
    )


def end_of_ids(db: sqlite3.Connection, log: FileLog) -> int:
    """Return the byte up to which the tables know a log, as it was then; 0 for none."""
    known = db.execute(_KNOWN, (place_of(log.key),)).fetchone()
    return 0 if known is None else int(known[2])


def delete_ids(db: sqlite3.Connection, places: Iterable[bytes]) -> None:
    """Delete the ids of sessions."""
    for place in places:
        known = db.execute(_KNOWN, (place,)).fetchone()
        if known is not None:
            db.execute("DELETE FROM record_ids WHERE log = ?", known[:1])
            db.execute("DELETE FROM id_logs WHERE log = ?", known[:1])


def _ids(log: FileLog, start: int) -> Iterator[tuple[str, int]]:
    for position, record in records_that_count(log, start):
        if record.id:
            yield record.id, position


def _has_grown(
    known: tuple[int, int, int, int, int, bytes], row: IndexRow, now: bytes | None
) -> bool:
    _log, inode, size, _mtime, _ctime, fingerprint = known
    return inode == row.stamp[0] and 0 < size <= row.stamp[1] and fingerprint == now != b""


_VERSION: Final = 11
_WAIT_SECONDS: Final = 2.0
"""A listing that waits longer for another process reads the logs instead."""
_BAD_SQL: Final = 1
"""SQLite's code for a statement that does not fit the tables."""
_SMALL_ROOT: Final = 200
"""Sessions up to which every listing looks at every file: that takes milliseconds."""
_LOOK_SECONDS: Final = 60.0
"""The shortest time between two looks at all names of a larger root."""
_FILES_A_SECOND: Final = 50.0
"""Files or names that are looked at in the mean: 3,000 a minute take some milliseconds of it."""
_TURN_FILES: Final = 64
"""Files that one page looks at beside its own, whose turn it is: less than a millisecond."""
_WRITE_KILOBYTES: Final = 65_536
"""Pages that a change may hold in memory: what does not fit is written more than once."""
_PAGE_ATTEMPTS: Final = 4
"""Of making a page from rows that hold for their files, while others are changing them."""

_SCHEMA: Final = f"""
{KEYS_TABLE};
CREATE TABLE IF NOT EXISTS sessions (
    place BLOB PRIMARY KEY,
    inode INTEGER NOT NULL, size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
    active REAL NOT NULL, agent BLOB NOT NULL, owner BLOB, label BLOB NOT NULL, parent TEXT,
    is_labelled INTEGER NOT NULL, version INTEGER NOT NULL, key INTEGER NOT NULL,
    data BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS versions (name BLOB NOT NULL, version INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS by_version ON sessions (owner, version);
CREATE INDEX IF NOT EXISTS by_time ON sessions (active DESC);
CREATE INDEX IF NOT EXISTS by_agent ON sessions (agent, active DESC);
CREATE INDEX IF NOT EXISTS by_owner ON sessions (owner, active DESC);
CREATE INDEX IF NOT EXISTS by_label ON sessions (label, owner, active DESC);
CREATE INDEX IF NOT EXISTS by_parent ON sessions (parent) WHERE parent IS NOT NULL;
CREATE INDEX IF NOT EXISTS unlabelled ON sessions (agent) WHERE NOT is_labelled;
CREATE TABLE IF NOT EXISTS removed (
    place BLOB PRIMARY KEY,
    inode INTEGER NOT NULL, size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
    owner BLOB, repaired_from BLOB
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS looks (
    looked REAL NOT NULL, sessions INTEGER NOT NULL, seen BLOB NOT NULL,
    folders BLOB NOT NULL, turned REAL NOT NULL, place BLOB NOT NULL
)
"""
_STAMP: Final = "inode, size, mtime_ns, ctime_ns"
_SELECT: Final = f"""SELECT place, {_STAMP}, is_labelled, k.id, k.key, data
  FROM sessions s JOIN keys k ON k.id = s.key"""  # noqa: S608 - constants only
_STAMPS: Final = f"SELECT place, {_STAMP} FROM sessions"  # noqa: S608 - constants only
_TURN: Final = f"{_SELECT} WHERE place > ? ORDER BY place LIMIT ?"
_COPIES: Final = "(parent IN (SELECT value FROM json_each(?)) OR owner IS NULL)"
_REMOVED: Final = f"SELECT place, {_STAMP}, owner, repaired_from FROM removed"  # noqa: S608 - constants only
_CHANGED: Final = f"{_SELECT} WHERE owner = ? AND version > ?"
_COUNT: Final = "SELECT count(*) FROM sessions WHERE owner = ?"
_UNLABELLED: Final = "SELECT 1 FROM sessions WHERE NOT is_labelled LIMIT 1"
_KEY: Final = "SELECT k.id, k.key FROM sessions s JOIN keys k ON k.id = s.key WHERE place = ?"
_UPSERT: Final = (
    f"INSERT INTO sessions ({', '.join(COLUMNS)}) "  # noqa: S608 - constants only
    f"VALUES ({', '.join('?' * len(COLUMNS))}) ON CONFLICT (place) DO UPDATE SET "
    + ", ".join(f"{column} = excluded.{column}" for column in COLUMNS[1:])
    # A row of an older state, by a process that was slow, does not replace a newer one.
    + " WHERE excluded.ctime_ns >= sessions.ctime_ns"
    " OR (excluded.inode = sessions.inode AND excluded.size > sessions.size)"
)


class _Look(msgspec.Struct, frozen=True):
    """The last time that all names were looked at, and where the turn is."""

    looked: float
    sessions: int
    seen: ChangesSeen
    folders: bytes
    """The folders as they were then; nothing where that cannot be told."""
    turned: float
    """The time when files were looked at in turn."""
    place: bytes = b""
    """The last of these files."""


def look_seconds(sessions: int) -> float:
    """Return the time between two looks at all names of a root."""
    return max(_LOOK_SECONDS, sessions / _FILES_A_SECOND)


class PageQuery(msgspec.Struct, frozen=True):
    """The page that a listing asks for."""

    agent: str | None
    owner: OwnerFilter
    label: str | None
    after: SessionInfo | None
    limit: int | None
    parents: Collection[str] | None = None
    """Only sessions that were made from these, and those of an unknown owner."""

    @property
    def sql(self) -> tuple[str, tuple[Any, ...]]:
        """The condition of the statement, and its values; without the place where it begins."""
        owner = filter_text(self.owner)
        chosen: list[tuple[str, Any]] = [
            (f"{column} = ?", digest_of(column, value))
            for column, value in (("agent", self.agent), ("owner", owner), ("label", self.label))
            if value is not None
        ]
        if self.parents is not None:
            names = [_parent_of(name) for name in sorted(self.parents)]
            chosen.append((_COPIES, msgspec.json.encode(names).decode()))
        where = " AND ".join(text for text, _value in chosen) or "1"
        return where, tuple(value for _text, value in chosen)

    @property
    def statements(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """The statements whose rows have the page: the sessions of the very time where it begins,
        and those before, to the end of the time where it ends. Their names tell the order of
        sessions of one time, and rows have digests of names."""
        where, values = self.sql
        if self.after is not None:
            time = self.after.last_active
            yield f"{_SELECT} WHERE {where} AND active = ?", (*values, time)
            where, values = f"{where} AND active < ?", (*values, time)
        if self.limit is None or self.limit < 0:
            yield f"{_SELECT} WHERE {where}", values
            return
        newest = (
            f"SELECT active FROM sessions WHERE {where} "  # noqa: S608 - constants only
            "ORDER BY active DESC LIMIT ?"
        )
        where += f" AND active >= (SELECT min(active) FROM ({newest}))"  # noqa: S608 - as above
        yield f"{_SELECT} WHERE {where}", (*values, *values, self.limit)

    def cut(self, rows: Iterable[tuple[SessionKey, IndexRow]]) -> dict[SessionKey, IndexRow]:
        """Return the page, in its order."""
        after = None if self.after is None else (-self.after.last_active, self.after.key)
        places = sorted(((-row.active, key), row) for key, row in rows)
        wanted = [(place[1], row) for place, row in places if after is None or place > after]
        return dict(wanted if self.limit is None or self.limit < 0 else wanted[: self.limit])


class _Rows:
    """The rows of the tables."""

    def __init__(self, cache: SqliteCache) -> None:
        self._cache = cache

    def find(self, key: SessionKey) -> IndexRow | None:
        """Return what is known of a session."""
        found = self.select(f"{_SELECT} WHERE place = ?", (place_of(key),), row_of)
        return found[0][1] if found else None

    def select(
        self, statement: str, values: tuple[Any, ...], read: Callable[[tuple[Any, ...]], T]
    ) -> list[T] | None:
        """Return what `read` makes of each row; None where the index is no use."""
        import sqlite3

        for attempt in range(2):
            try:
                rows = self._cache.connect().execute(statement, values).fetchall()
                found = [read(row) for row in rows]
                return None if attempt else found  # one that was just begun again knows nothing
            except (OSError, PathRejected):
                return None  # no root yet, or something else in the place of the index
            except UnicodeEncodeError:
                return []  # a text that cannot be stored is in no row
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", _BAD_SQL) != _BAD_SQL:
                    # Not writable, or busy: the logs themselves have the answer.
                    self._cache.close()
                    return None
                self._cache.set_aside()  # its tables are not ours
            except (sqlite3.DatabaseError, msgspec.MsgspecError, ValueError, TypeError, BadId):
                self._cache.set_aside()  # even the message of the error can hold its garbage
        return None

    def save(
        self,
        fresh: list[tuple[SessionKey, IndexRow]],
        gone: list[bytes],
        *,
        look: _Look | None = None,
        instead_of: _Look | None = None,
    ) -> bool:
        """Write rows, and how far the changes were read, unless another process wrote that since
        `instead_of` was read. Returns whether it worked."""
        if not self._cache.is_open:
            return False
        if not (fresh or gone) and (look is None or look == instead_of):
            return True
        import sqlite3

        try:
            with self._cache.transaction() as db:
                if len(fresh) > _SMALL_ROOT:
                    db.execute(f"PRAGMA cache_size = -{_WRITE_KILOBYTES}")
                # In the order of their places, each page of the table is written once.
                version = _next_version(db) if fresh else 0
                for key, row in sorted(fresh, key=lambda each: place_of(each[0])):
                    known = db.execute(_KEY, (place_of(key),)).fetchone()
                    secret = Key(*known) if known else new_key(db)
                    db.execute(_UPSERT, values_of(key, row, version, secret))
                _delete(db, gone)
                if look is not None and (instead_of is None or _is_last(db, instead_of)):
                    db.execute("DELETE FROM looks")
                    db.execute("INSERT INTO looks VALUES (?, ?, ?, ?, ?, ?)", _values_of(look))
        except (sqlite3.Error, UnicodeDecodeError):
            return False
        return True


class Index:
    """Facts about sessions, as fresh as their files."""

    def __init__(self, path: str, changes: Changes, seed_labels: SeedLabels) -> None:
        self._seed_labels = seed_labels
        self._cache = SqliteCache(path, _prepare, wait_seconds=_WAIT_SECONDS)
        self._rows = _Rows(self._cache)
        self._changes = changes
        self._mutex = threading.Lock()

    def infos(
        self, files: LogFiles, *, agent: str | None = None, now: float = 0.0
    ) -> list[SessionInfo]:
        """Return the facts about all logs, or about those of an agent."""
        is_complete = agent is None
        with self._mutex:
            seen = self._changes.look() if is_complete else None
            folders = files.folders(now)
            rows = dict(self._rows.select(_SELECT, (), row_of) or ())
            found, fresh = {}, []
            for file in files.all():
                if agent not in (None, file.key.agent):
                    continue
                row = known = rows.pop(file.key, None)
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
                look = _Look(now, len(found), seen, folders, now)
            gone = [place_of(key) for key in rows] if is_complete else []
            self._rows.save(fresh, gone=gone, look=look)
            return _infos_of(self._seed_labels, found)

    def info(self, key: SessionKey, fd: int) -> SessionInfo:
        """Return the facts about the log that is open as `fd`."""
        return _infos_of(self._seed_labels, {key: self.row(key, fd)})[0]

    def page(self, query: PageQuery, now: float, files: LogFiles) -> list[SessionInfo] | None:
        """Return a page, after looking at the files of its sessions and of those that changed, or
        at every file where these are not known. None where every log must be read instead."""
        with self._mutex:
            if not self._take_changes(now, files) and not self._look_at_all(now, files):
                return None
            if query.label is not None and self._rows.select(_UNLABELLED, (), bool) != []:
                return None  # the statement does not know the labels of the seed's index file
            for _attempt in range(_PAGE_ATTEMPTS):
                found = [self._rows.select(*statement, row_of) for statement in query.statements]
                if None in found:
                    return None  # no answer is not an empty page
                rows = query.cut(row for some in found for row in some or ())
                logs = files.at(rows)
                wrong = [
                    key
                    for key, row in rows.items()
                    if key not in logs or row.stamp != stamp_of(logs[key].status)
                ]
                if not wrong:
                    return _infos_of(self._seed_labels, rows)
                if not self._read_again(wrong, files):
                    return None
            return None

    def changes(
        self, owner: OwnerFilter, since: str, now: float, files: LogFiles
    ) -> ListingChanges | None:
        """Return the sessions of an owner that changed since a state, as `page` returns them; None
        where that cannot be told."""
        with self._mutex:
            if not self._take_changes(now, files) and not self._look_at_all(now, files):
                return None
            state = self._rows.select("SELECT hex(name), version FROM versions", (), tuple)
            name, _, version = since.partition(" ")
            if not state:
                return None
            if state[0][0] != name:
                version = "-1"
            whose = digest_of("owner", filter_text(owner) or "")
            values = (whose, int(version))
            rows = dict(self._rows.select(_CHANGED, values, row_of) or ())
            total = self._rows.select(_COUNT, (whose,), lambda row: int(row[0]))
            logs = files.at(rows)
            wrong = (
                key not in logs or row.stamp != stamp_of(logs[key].status)
                for key, row in rows.items()
            )
            if not total or any(wrong):
                return None
            found = _infos_of(self._seed_labels, rows)
            return ListingChanges(found, total[0], " ".join(map(str, state[0])))

    def _take_changes(self, now: float, files: LogFiles) -> bool:
        """Bring the rows of changed sessions up to date; False where these are not known."""
        looks = self._rows.select("SELECT * FROM looks", (), _look_of)
        last = looks[0] if looks else None
        if last is None or last.sessions <= _SMALL_ROOT or now < last.looked:
            return False
        seen = self._changes.look()
        changed = None if seen is None else self._changes.between(last.seen, seen)
        if seen is None or changed is None:
            return False
        look = msgspec.structs.replace(last, seen=seen)
        if now >= last.looked + look_seconds(last.sessions):
            look = msgspec.structs.replace(look, looked=now, folders=files.folders(now))
            if not look.folders or look.folders != last.folders:
                named = self._compare_names(files)
                if named is None:
                    return False
                sessions, others = named
                look = msgspec.structs.replace(look, sessions=sessions)
                changed |= others
        look, others = self._take_turn(look, now, files)
        return self._read_again(changed | others, files, look=look, instead_of=last)

    def _compare_names(self, files: LogFiles) -> tuple[int, set[SessionKey]] | None:
        """Return the number of sessions, and those that were made or deleted; None where most are
        new, and all rows are read at once."""
        known = self._rows.select("SELECT place FROM sessions", (), lambda row: bytes(row[0]))
        if known is None:
            return None
        gone, made, number = set(known), set[SessionKey](), 0
        for key in files.names():
            number += 1
            place = place_of(key)
            if place in gone:
                gone.remove(place)
            else:
                made.add(key)
        if len(made) > number // 2:
            return None
        rows = [
            self._rows.select(f"{_SELECT} WHERE place = ?", (at,), _file_stamp_of) for at in gone
        ]
        return number, made | {key for some in rows for key, _stamp in some or ()}

    def _take_turn(self, look: _Look, now: float, files: LogFiles) -> tuple[_Look, set[SessionKey]]:
        """Look at the files whose turn it is; returns the sessions of those that have changed."""
        count = min(_TURN_FILES, int(_FILES_A_SECOND * (now - look.turned)))
        if count <= 0:
            return look, set()
        rows = self._rows.select(_TURN, (look.place, count), _file_stamp_of) or []
        logs = files.at(key for key, _stamp in rows)
        changed = {
            key for key, stamp in rows if key not in logs or stamp != stamp_of(logs[key].status)
        }
        place = place_of(rows[-1][0]) if len(rows) == count else b""
        return msgspec.structs.replace(look, turned=now, place=place), changed

    def _look_at_all(self, now: float, files: LogFiles) -> bool:
        """Compare every file with the stamp of its row, and read those that differ; False where a
        log cannot be read. No other row is read: a large root has many."""
        seen, folders = self._changes.look(), files.folders(now)
        stamps = self._rows.select(_STAMPS, (), lambda row: (row[0], row[1:]))
        if seen is None or not stamps:
            return False
        known = dict(stamps)
        number, differing = 0, []
        for file in files.all():
            number += 1
            if known.pop(place_of(file.key), None) != stamp_of(file.status):
                differing.append(file)
        if len(differing) > number // 2:
            return False  # most are new: all rows are read at once
        fresh = []
        for file in differing:
            try:
                fresh.append((file.key, read_row(file, self._rows.find(file.key))))
            except NoSuchSession:
                number -= 1
            except StoreError:
                return False
        look = _Look(now, number, seen, folders, now) if number > _SMALL_ROOT else None
        return self._rows.save(fresh, gone=list(known), look=look)

    def _read_again(
        self,
        keys: Iterable[SessionKey],
        files: LogFiles,
        *,
        look: _Look | None = None,
        instead_of: _Look | None = None,
    ) -> bool:
        """Make the rows of these sessions again; False where a log cannot be read."""
        keys = list(keys)
        logs = files.at(keys)
        fresh, gone = [], [place_of(key) for key in keys if key not in logs]
        for key, file in logs.items():
            known = self._rows.find(key)
            if known is not None and known.stamp == stamp_of(file.status):
                continue
            try:
                fresh.append((key, read_row(file, known)))
            except NoSuchSession:
                gone.append(place_of(key))
            except StoreError:
                return False
        return self._rows.save(fresh, gone=gone, look=look, instead_of=instead_of)

    def row(self, key: SessionKey, fd: int) -> IndexRow:
        """Return the row of the log that is open as `fd`, after reading what was appended."""
        with self._mutex:
            known = self._rows.find(key)
            if known is not None and known.stamp == stamp_of(os.fstat(fd)):
                return known
            with explaining_read(f"session `{key.session}`"):
                row = read_open_row(key, fd, known)
            self._rows.save([(key, row)], gone=[])
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
                found = find_ids(db, log, row, prefix, limit)
                if found is None:
                    with self._cache.transaction() as db:
                        end = end_of_ids(db, log)
                        store_ids(db, log, row, fingerprint_of(log.fd, end))
                    found = find_ids(db, log, row, prefix, limit)
            except (sqlite3.Error, OSError, PathRejected, UnicodeError):
                return None
            return found

    def trash_rows(
        self, files: Sequence[tuple[str, os.stat_result]], read: Callable[[str], RemovedLog]
    ) -> list[RemovedLog]:
        """Return the facts about files in the trash; `read` reads those that are new there."""
        with self._mutex:
            known = {row[0]: row[1:] for row in self._rows.select(_REMOVED, (), tuple) or ()}
            found, fresh = [], []
            for name, status in files:
                place, stamp = digest_of("removed", name), stamp_of(status)
                values = known.pop(place, ())
                if values[:4] != stamp:
                    values = (*stamp, *read(name))
                    fresh.append((place, *values))
                found.append(RemovedLog(*values[4:]))
            _save_removed(self._cache, fresh, list(known))
            return found

    def erase(self, keys: Sequence[SessionKey], *, living: Collection[SessionKey] = ()) -> None:
        """Delete the rows of sessions for good; `living` are those whose id is in use again."""
        places = [place_of(key) for key in keys]
        with self._mutex:
            self._changes.forget({*keys}.difference(living))

            def delete(db: sqlite3.Connection) -> bool:
                _delete(db, places)
                return db.execute(_HAD_IDS).fetchone() is not None

            self._cache.erase(delete)
            for key in living:
                self._changes.mark(key)

    def close(self) -> None:
        """Close the database; the next listing opens it again."""
        with self._mutex:
            self._cache.close()


def _prepare(db: sqlite3.Connection) -> None:
    if db.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
        for table in ("sessions", "removed", "looks", "versions", "keys", *TABLES):
            db.execute(f"DROP TABLE IF EXISTS {table}")
        db.execute(f"PRAGMA user_version = {_VERSION}")
    for statement in (_SCHEMA + ";" + SCHEMA).split(";"):
        db.execute(statement)
    db.execute(
        "INSERT INTO versions SELECT randomblob(16), 0 WHERE NOT EXISTS (SELECT 1 FROM versions)"
    )


def _next_version(db: sqlite3.Connection) -> int:
    """Return the number that marks the rows of a change: larger than those of all before it."""
    (version,) = db.execute(
        "UPDATE versions SET version = version + 1 RETURNING version"
    ).fetchone()
    return int(version)


def _save_removed(cache: SqliteCache, fresh: list[tuple[Any, ...]], gone: list[bytes]) -> None:
    import sqlite3

    if not (fresh or gone) or not cache.is_open:
        return
    with suppress(sqlite3.Error), cache.transaction() as db:
        db.executemany("INSERT OR REPLACE INTO removed VALUES (?, ?, ?, ?, ?, ?, ?)", fresh)
        db.executemany("DELETE FROM removed WHERE place = ?", ((place,) for place in gone))


def _delete(db: sqlite3.Connection, places: list[bytes]) -> None:
    for place in places:
        known = db.execute(_KEY, (place,)).fetchone()
        if known is not None:
            destroy_keys(db, known[:1])
    db.executemany("DELETE FROM sessions WHERE place = ?", ((place,) for place in places))
    delete_ids(db, places)


def _infos_of(seed_labels: SeedLabels, rows: dict[SessionKey, IndexRow]) -> list[SessionInfo]:
    """Return the facts of rows, with the seed's labels for logs that say none."""
    labels: dict[str, dict[str, str]] = {}
    infos = []
    for key, row in rows.items():
        info = info_of(key, row)
        if not row.is_labelled:
            if key.agent not in labels:
                labels[key.agent] = seed_labels.of(key.agent)
            label = labels[key.agent].get(key.session, "")
            info = msgspec.structs.replace(info, label=label)
        infos.append(info)
    return infos


def _look_of(row: tuple[Any, ...]) -> _Look:
    looked, sessions, seen, folders, turned, place = row
    found = convert_typed(msgspec.json.decode(seen), ChangesSeen)
    return _Look(looked, sessions, found, bytes(folders), turned, bytes(place))


def _values_of(look: _Look) -> tuple[Any, ...]:
    seen = msgspec.json.encode(look.seen)
    return look.looked, look.sessions, seen, look.folders, look.turned, look.place


def _is_last(db: sqlite3.Connection, look: _Look) -> bool:
    found = db.execute("SELECT * FROM looks").fetchall()
    return [_look_of(row) for row in found] == [look]
