"""Queues in a SQLite file of the root, or in memory."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from random import randint
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.core.owners import NamedOwner, filter_text, owner_text
from holdfast.core.queues import (
    ID_STEP_MAX,
    MESSAGE_COLUMNS,
    MESSAGE_TEXTS,
    OPEN,
    WaitingMessages,
    as_copy,
    compare_copy,
    encode_body,
    is_same,
    message_id,
    read_message,
)
from holdfast.core.text.cut import scrub
from holdfast.errors import HoldfastError, KeyReused, StoreUnavailable
from holdfast.ports.side_stores import awake_time, this_boot
from holdfast.stores.files import explaining_read, open_root
from holdfast.stores.sqlite_files import IN_MEMORY, SharedTransactions, SqliteFile, in_use

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence
    from typing import Literal

    from holdfast.core.log.records import Json
    from holdfast.core.owners import Owner, OwnerFilter
    from holdfast.core.queues import MessageCopy, MessageState, NewMessage, QueuedMessage

T = TypeVar("T")
FILE_NAME: Final = "queues.sqlite3"
_VERSION: Final = 3
_WAIT_SECONDS: Final = 30.0
"""A change takes about a millisecond; a process that waits longer for others gets an error."""
_SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, lane TEXT NOT NULL,
        owner TEXT NOT NULL, session TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL,
        state TEXT NOT NULL, tries INTEGER NOT NULL, claims INTEGER NOT NULL,
        lost_claims INTEGER NOT NULL DEFAULT 0,
        created REAL NOT NULL, changed REAL NOT NULL, due REAL NOT NULL, holder TEXT NOT NULL,
        since REAL, until REAL, reason TEXT NOT NULL,
        result BLOB, ready REAL NOT NULL DEFAULT 0, boot TEXT NOT NULL DEFAULT '',
        UNIQUE (queue, owner, key))""",
    """CREATE INDEX IF NOT EXISTS open_messages ON messages (queue, lane, id)
        WHERE state IN ('waiting', 'running')""",
    """CREATE INDEX IF NOT EXISTS open_by_id ON messages (queue, id)
        WHERE state IN ('waiting', 'running')""",
    "CREATE INDEX IF NOT EXISTS by_owner ON messages (owner, id)",
    "CREATE INDEX IF NOT EXISTS by_lane ON messages (lane, id)",
    "CREATE INDEX IF NOT EXISTS by_session ON messages (session)",
)
_CLOCK: Final = (
    "ALTER TABLE messages ADD COLUMN ready REAL NOT NULL DEFAULT 0",
    "ALTER TABLE messages ADD COLUMN boot TEXT NOT NULL DEFAULT ''",
)
"""From version 2 to 3: what waits or is claimed is decided by `until` and `ready`, in seconds of
`awake_time` of the start of the machine that `boot` names. `created`, `changed`, `due` and `since`
are dates, which people read. After another start no claim holds, and every wait is over."""
_SECOND: Final = "ALTER TABLE messages ADD COLUMN lost_claims INTEGER NOT NULL DEFAULT 0"
"""From version 1 to 2."""
_COLUMNS: Final = ", ".join(MESSAGE_COLUMNS)
_PUT: Final = """INSERT OR IGNORE INTO messages (id, queue, lane, owner, session, key, body, state,
  tries, claims, created, changed, due, holder, reason)
  VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting', 0, 0, ?, ?, ?, '', '')"""
_WAITING: Final = """SELECT (
    SELECT count(*) FROM messages WHERE queue = ? AND lane = ? AND state IN ('waiting', 'running')
  ), (SELECT count(*) FROM messages WHERE queue = ? AND owner = ? AND state = 'waiting')"""
_LAST_IN_LANE: Final = "SELECT coalesce(max(id), 0) FROM messages WHERE lane = ?"
_OPEN: Final = "queue = :queue AND state IN ('waiting', 'running')"
_FIRST: Final = f"""WITH RECURSIVE lanes(lane) AS (
    SELECT min(lane) FROM messages WHERE {_OPEN}
    UNION ALL
    SELECT (SELECT min(lane) FROM messages WHERE {_OPEN} AND lane > lanes.lane) FROM lanes
      WHERE lanes.lane IS NOT NULL
  ), heads(id) AS (
    SELECT (SELECT min(id) FROM messages WHERE {_OPEN} AND lane = lanes.lane) FROM lanes
  )
  SELECT m.id FROM heads CROSS JOIN messages AS m ON m.id = heads.id
    WHERE m.boot <> :boot OR (CASE m.state WHEN 'waiting' THEN m.ready ELSE m.until END) <= :up
  ORDER BY m.id LIMIT :limit"""  # noqa: S608 - constants only
"""The first open message of each lane is found by one look into the index: a claim costs the same
however many messages wait behind it."""
_CLAIM: Final = f"""UPDATE messages SET state = 'running', tries = tries + (state = 'waiting'),
  lost_claims = lost_claims + (state = 'running'), claims = claims + 1, holder = :holder,
  since = :now, until = :up + :seconds, boot = :boot, changed = :now WHERE id IN ({_FIRST})
  RETURNING {_COLUMNS}"""  # noqa: S608 - constants only
_LATER: Final = """SELECT 1 FROM messages
  WHERE queue = ? AND lane = ? AND id > ? AND state IN ('waiting', 'running')"""
_VALUES: Final = ", ".join(f":{name}" for name in MESSAGE_COLUMNS)
_RESTORE: Final = f"""INSERT OR REPLACE INTO messages ({_COLUMNS}, ready, boot)
  VALUES ({_VALUES}, :up + :due - :now, :this_boot)"""  # noqa: S608
"""A copy waits as long as is left of its wait by the dates."""
_HELD: Final = "WHERE id = ? AND claims = ? AND state = 'running'"


class _QueueFile:
    """The file of the queues, and its errors in our words.

    Readers have a connection of their own: they do not wait for the sync of a change.
    """

    def __init__(
        self,
        path: str | None,
        *,
        clock: Callable[[], float],
        awake_time: Callable[[], float] = awake_time,
        boot: str = "",
    ) -> None:
        """`path` is the file, made on first use; without one the queues are in memory.

        `clock` gives dates. Claims and waits go by `awake_time`, within the start of the machine
        that `boot` names (the present one by default).
        """
        self._path = path
        self._file = SqliteFile(path or IN_MEMORY, _prepare, wait_seconds=_WAIT_SECONDS)
        self._writes = SharedTransactions(self._file)
        self._reader = SqliteFile(path or IN_MEMORY, _prepare, wait_seconds=_WAIT_SECONDS)
        self._mutex = threading.Lock()
        """For the connection of readers."""
        self._clock, self._awake = clock, awake_time
        self._boot = boot or this_boot()

    def _is_there(self) -> bool:
        """Return False where no one ever used the queues; they are made by their first use."""
        return self._path is None or os.path.lexists(self._path)

    def close(self) -> None:
        """Close the file; the next call opens it again. In memory, everything is gone."""
        with self._mutex, self._writes.alone():
            self._reader.close()
            self._file.close()

    def _write(self, doing: str, work: Callable[[sqlite3.Connection], T]) -> T:
        """Change messages; durable when it returns."""
        with self._explaining(doing):
            return self._writes.run(work)

    def _read(self, doing: str, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._path is None:  # another connection would have another memory
            return self._write(doing, work)
        with self._explaining(doing), self._mutex:
            try:
                return work(self._reader.connect())
            except BaseException:
                self._reader.close()
                raise

    @contextmanager
    def _explaining(self, doing: str) -> Iterator[None]:
        import sqlite3

        with explaining_read("the queues"):
            try:
                if self._path is not None and not (self._file.is_open or self._reader.is_open):
                    os.close(open_root(os.path.dirname(self._path), create=True))
                yield
            except (sqlite3.Error, UnicodeDecodeError) as error:
                raise StoreUnavailable(
                    f"cannot {doing} in `{self._file.path}`: {error}",
                    hint="nothing was changed; check the disk and other programs that use the "
                    "file. A damaged file can be moved away: the sessions do not need it",
                ) from error


class _QueueReader(_QueueFile):
    """Reads queues."""

    def message(self, message_id: int) -> QueuedMessage | None:
        return self._find("id = ?", message_id)

    def find(self, queue: str, owner: Owner, key: str) -> QueuedMessage | None:
        values = map(scrub, (queue, owner_text(owner), key))
        return self._find("queue = ? AND owner = ? AND key = ?", *values)

    def messages(
        self,
        queue: str | None = None,
        *,
        owner: OwnerFilter,
        lane: str | None = None,
        states: Sequence[MessageState] = (),
        before: int | None = None,
        limit: int = 50,
    ) -> list[QueuedMessage]:
        where, values = _where(queue=queue, owner=filter_text(owner), lane=lane)
        if states:
            where += f" AND state IN ({', '.join('?' * len(states))}){_open_alone(states)}"
            values += states
        if before is not None:
            where, values = f"{where} AND id < ?", [*values, before]
        statement = f"SELECT {_COLUMNS} FROM messages WHERE {where} ORDER BY id DESC LIMIT ?"  # noqa: S608
        rows = self._read(
            "read messages", lambda db: db.execute(statement, [*values, limit]).fetchall()
        )
        return list(map(read_message, rows))

    def copies(self, *, owner: OwnerFilter, after: int = 0, limit: int = 50) -> list[QueuedMessage]:
        if not self._is_there():
            return []
        where, values = _where(owner=filter_text(owner))
        statement = f"""SELECT {_COLUMNS}, state = 'running' AND (boot <> ? OR until <= ?)
          FROM messages WHERE {where} AND id > ? ORDER BY id LIMIT ?"""  # noqa: S608
        given = [self._boot, self._awake(), *values, after, limit]
        rows = self._read("read messages", lambda db: db.execute(statement, given).fetchall())
        return [_read_copy(row) for row in rows]

    def counts(
        self, queue: str, *, owner: OwnerFilter, lane: str | None = None
    ) -> dict[MessageState, int]:
        where, values = _where(queue=queue, owner=filter_text(owner), lane=lane)
        statement = f"SELECT state, count(*) FROM messages WHERE {where} GROUP BY state"  # noqa: S608
        return dict(
            self._read("count messages", lambda db: db.execute(statement, values).fetchall())
        )

    def _find(self, where: str, *values: object) -> QueuedMessage | None:
        row = self._read("read a message", lambda db: _one(db, where, *values))
        return read_message(row) if row is not None else None


class SqliteQueues(_QueueReader):
    """`Queues` of one machine. Safe for threads and for processes."""

    def put(
        self, message: NewMessage, judge: Callable[[WaitingMessages], None] | None = None
    ) -> QueuedMessage:
        now = self._clock()
        body = encode_body(message.body)
        queue, lane, key = scrub(message.queue), scrub(message.lane), scrub(message.key)
        owner, session = scrub(message.owner), scrub(message.session)
        values = (queue, lane, owner, session, key, body, now, now, now)

        def put(db: sqlite3.Connection) -> Any:
            if judge is not None:
                known = _one(db, "queue = ? AND owner = ? AND key = ?", queue, owner, key)
                if known is not None:
                    return known
                in_lane, of_owner = db.execute(_WAITING, (queue, lane, queue, owner)).fetchone()
                try:
                    judge(WaitingMessages(in_lane, of_owner))
                except HoldfastError as refused:  # others may share the transaction
                    return refused
            last = db.execute(_LAST_IN_LANE, (lane,)).fetchone()[0]
            number = message_id(now, last, randint(1, ID_STEP_MAX))  # noqa: S311 - no secret
            while True:
                db.execute(_PUT, (number, *values))
                found = _one(db, "queue = ? AND owner = ? AND key = ?", queue, owner, key)
                if found is not None:
                    return found
                number += randint(1, ID_STEP_MAX)  # noqa: S311 - another lane has the id

        row = self._write("keep a message", put)
        if isinstance(row, HoldfastError):
            raise row
        found = read_message(row)
        if not is_same(found, message):
            raise KeyReused(key, found.state, found.session)
        return found

    def claim(
        self, queue: str, holder: str, seconds: float, *, limit: int = 1
    ) -> list[QueuedMessage]:
        values: Json = {"queue": queue, "holder": holder, "seconds": seconds, "limit": limit}
        values |= {"now": self._clock(), "up": self._awake(), "boot": self._boot}
        rows = self._write("claim messages", lambda db: db.execute(_CLAIM, values).fetchall())
        return sorted(map(read_message, rows), key=lambda message: message.id)

    def renew(self, message: QueuedMessage, seconds: float) -> bool:
        values = (self._awake() + seconds, self._boot, self._clock())
        return self._change("until = ?, boot = ?, changed = ?", values, message)

    def finish(
        self,
        message: QueuedMessage,
        state: Literal["answered", "delivered", "failed", "dropped"],
        *,
        reason: str = "",
        result: Json | None = None,
    ) -> bool:
        values = (state, scrub(reason), _encode_result(result), self._clock())
        return self._change("state = ?, reason = ?, result = ?, changed = ?", values, message)

    def postpone(
        self,
        message: QueuedMessage,
        seconds: float,
        *,
        reason: str = "",
        is_counted: bool = True,
    ) -> bool:
        now = self._clock()
        untried = int(not is_counted)
        ready = (self._awake() + seconds, self._boot)
        values = (now + seconds, *ready, scrub(reason), now, untried)
        changes = """state = 'waiting', due = ?, ready = ?, boot = ?, reason = ?, changed = ?,
          tries = tries - ?"""
        return self._change(changes, values, message)

    def release_all(self, queue: str) -> int:
        statement = """UPDATE messages SET state = 'waiting', due = :now, ready = 0, changed = :now,
          tries = tries - 1, lost_claims = lost_claims + 1
          WHERE queue = :queue AND state = 'running'"""
        return self._execute("release messages", statement, {"queue": queue, "now": self._clock()})

    def retry(self, message_id: int) -> bool:
        now = self._clock()
        statement = """UPDATE messages SET state = 'waiting', tries = 0, lost_claims = 0,
          due = ?, ready = 0, changed = ? WHERE id = ? AND state IN ('failed', 'dropped')"""
        return self._execute("retry a message", statement, (now, now, message_id)) > 0

    def drop(self, message_id: int, reason: str) -> bool:
        statement = """UPDATE messages SET state = 'dropped', reason = ?, changed = ?
          WHERE id = ? AND state IN ('waiting', 'running', 'failed')"""
        values = (scrub(reason), self._clock(), message_id)
        return self._execute("drop a message", statement, values) > 0

    def forget(self, *, older_than_seconds: float) -> int:
        statement = """DELETE FROM messages WHERE changed <= ?
          AND state IN ('answered', 'delivered', 'dropped')"""
        before = self._clock() - older_than_seconds
        return self._execute("forget messages", statement, (before,))

    def erase(self, of: str | NamedOwner) -> int:
        if not self._is_there():
            return 0
        column, value = ("owner", of.name) if isinstance(of, NamedOwner) else ("session", of)
        statement = f"DELETE FROM messages WHERE {column} = ?"  # noqa: S608 - one of two names
        number = self._execute("erase messages", statement, (value,))
        with self._explaining("erase messages"), self._mutex, self._writes.alone():
            if number and self._path is not None and not self._file.compact():
                raise in_use(self._path, "another process is reading it")
        return number

    def restore(
        self, messages: Sequence[QueuedMessage], *, dry_run: bool = False
    ) -> list[MessageCopy]:
        if dry_run and not self._is_there():
            return ["added" for _message in messages]
        return self._write(
            "copy messages",
            lambda db: [self._restore(db, message, is_dry_run=dry_run) for message in messages],
        )

    def _restore(
        self, db: sqlite3.Connection, message: QueuedMessage, *, is_dry_run: bool
    ) -> MessageCopy:
        texts = {name: scrub(getattr(message, name)) for name in MESSAGE_TEXTS}
        queue, lane, owner, key = message.queue, texts["lane"], texts["owner"], texts["key"]
        with_its_id = _one(db, "id = ?", message.id)
        with_its_key = _one(db, "queue = ? AND owner = ? AND key = ?", queue, owner, key)
        decided = compare_copy(
            message,
            read_message(with_its_id) if with_its_id else None,
            read_message(with_its_key) if with_its_key else None,
            is_lane_further=db.execute(_LATER, (queue, lane, message.id)).fetchone() is not None,
        )
        if decided in ("added", "updated") and not is_dry_run:
            fields = {name: getattr(message, name) for name in MESSAGE_COLUMNS}
            bodies = {"body": encode_body(message.body), "result": _encode_result(message.result)}
            times = {"up": self._awake(), "now": self._clock(), "this_boot": self._boot}
            db.execute(_RESTORE, {**fields, **texts, **bodies, **times})
        return decided

    def _change(self, changes: str, values: Sequence[object], message: QueuedMessage) -> bool:
        """Change a message whose claim is still the one that was made."""
        held = (*values, message.id, message.claims)
        return self._execute("change a message", f"UPDATE messages SET {changes} {_HELD}", held) > 0  # noqa: S608

    def _execute(self, doing: str, statement: str, values: Any) -> int:
        """Change messages, and return the number of those that it met."""
        return self._write(doing, lambda db: db.execute(statement, values).rowcount)


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > _VERSION:
        db.execute("ROLLBACK")
        raise StoreUnavailable(
            f"cannot use the queues: a newer version of Holdfast made them (version {version})",
            hint="nothing was changed; use that version",
        )
    if version == 1:
        db.execute(_SECOND)
    if version in (1, 2):
        for statement in _CLOCK:
            db.execute(statement)
    for statement in _SCHEMA:
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {_VERSION}")
    db.execute("COMMIT")


def _where(**wanted: str | None) -> tuple[str, list[Any]]:
    given = {name: value for name, value in wanted.items() if value is not None}
    where = " AND ".join(f"{name} = ?" for name in given)
    return where or "1 = 1", [*given.values()]


def _open_alone(states: Sequence[MessageState]) -> str:
    """Return the condition of the indexes of open messages, where no others are asked for."""
    return " AND state IN ('waiting', 'running')" if OPEN.issuperset(states) else ""


def _one(db: sqlite3.Connection, where: str, *values: object) -> Any:
    return db.execute(f"SELECT {_COLUMNS} FROM messages WHERE {where}", values).fetchone()  # noqa: S608


def _read_copy(row: Sequence[Any]) -> QueuedMessage:
    """Return the message of a row that says at its end whether a claim has run out."""
    message = read_message(row[:-1])
    return as_copy(message) if row[-1] else message


def _encode_result(result: Json | None) -> bytes | None:
    return None if result is None else encode_body(result)
