"""Queues in the database, by the server's clock."""

from __future__ import annotations

from functools import partial
from random import randint
from typing import TYPE_CHECKING, Any, Final

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
    read_message,
)
from holdfast.errors import KeyReused
from holdfast.stores.postgres.rows import to_bytes, to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

    from psycopg import Connection

    from holdfast.core.log.records import Json
    from holdfast.core.owners import Owner, OwnerFilter
    from holdfast.core.queues import MessageCopy, MessageState, NewMessage, QueuedMessage
    from holdfast.stores.postgres.connections import Connections


_NOW: Final = "clock_timestamp()"
_LATER: Final = f"{_NOW} + make_interval(secs => %(seconds)s)"
_TIMES: Final = ("created", "changed", "due", "since")
_COLUMNS: Final = ", ".join(
    f"extract(epoch FROM m.{name})::float8" if name in _TIMES else f"m.{name}"
    for name in MESSAGE_COLUMNS
)
_SAME_KEY: Final = """m.queue = %(queue)s AND md5(m.owner) = md5(%(owner)s)
  AND md5(m.key) = md5(%(key)s)"""
_KNOWN: Final = f"SELECT {_COLUMNS} FROM {{s}}.messages AS m WHERE {_SAME_KEY}"
_LOCK_OWNER: Final = """SELECT pg_advisory_xact_lock(
  hashtextextended(%(queue)s || ' of ' || md5(%(owner)s), 0))"""
"""It is taken before that of the lane, so that none waits for another in a circle."""
_LOCK_LANE: Final = """SELECT pg_advisory_xact_lock(
  hashtextextended(%(queue)s || md5(%(lane)s), 0))"""
_WAITING: Final = """SELECT (SELECT count(*) FROM {s}.messages AS m WHERE m.queue = %(queue)s
    AND md5(m.lane) = md5(%(lane)s) AND m.state IN ('waiting', 'running')),
  (SELECT count(*) FROM {s}.messages AS m WHERE m.queue = %(queue)s
    AND md5(m.owner) = md5(%(owner)s) AND m.state = 'waiting')"""
_PUT: Final = f"""WITH locked AS (
    {_LOCK_LANE}
  )
  INSERT INTO {{s}}.messages AS m (id, queue, lane, owner, session, key, body)
  OVERRIDING SYSTEM VALUE
  SELECT CASE WHEN moment > last THEN moment ELSE last + %(step)s END,
    %(queue)s, %(lane)s, %(owner)s, %(session)s, %(key)s, %(body)s FROM (
      SELECT (extract(epoch FROM {_NOW}) * 1000000)::bigint + %(more)s AS moment, coalesce((
        SELECT max(id) FROM {{s}}.messages WHERE md5(lane) = md5(%(lane)s)), 0) AS last
      FROM locked) AS times
  ON CONFLICT DO NOTHING RETURNING {_COLUMNS}"""
"""`message_id` in SQL, by the server's clock."""
_OPEN: Final = "m.queue = %(queue)s AND m.state IN ('waiting', 'running')"
_CLAIM: Final = f"""WITH RECURSIVE heads AS (
    (SELECT md5(m.lane) AS lane, m.id FROM {{s}}.messages AS m WHERE {_OPEN}
      ORDER BY md5(m.lane), m.id LIMIT 1)
    UNION ALL
    SELECT next.lane, next.id FROM heads CROSS JOIN LATERAL (
      SELECT md5(m.lane) AS lane, m.id FROM {{s}}.messages AS m
        WHERE {_OPEN} AND md5(m.lane) > heads.lane ORDER BY md5(m.lane), m.id LIMIT 1) AS next
  ), first AS (
    SELECT m.id FROM {{s}}.messages AS m WHERE m.id = ANY(ARRAY(SELECT id FROM heads))
      AND ((m.state = 'waiting' AND m.due <= {_NOW})
        OR (m.state = 'running' AND m.until <= {_NOW}))
    ORDER BY m.id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
  )
  UPDATE {{s}}.messages AS m SET state = 'running',
    tries = m.tries + (m.state = 'waiting')::int,
    lost_claims = m.lost_claims + (m.state = 'running')::int, claims = m.claims + 1,
    holder = %(holder)s, since = {_NOW}, until = {_LATER}, changed = {_NOW}
  FROM first WHERE m.id = first.id RETURNING {_COLUMNS}"""
"""The first open message of each lane is found by one look into the index: a claim costs the same
however many messages wait behind it, and no statistics of the table can make it another plan."""
_CHANGE: Final = f"""UPDATE {{s}}.messages AS m SET changed = {_NOW}, %s
  WHERE m.id = %%(id)s AND %s RETURNING m.id"""
_HELD: Final = "m.claims = %(claims)s AND m.state = 'running'"
_RELEASE_ALL: Final = f"""UPDATE {{s}}.messages AS m SET state = 'waiting', due = {_NOW},
  changed = {_NOW}, tries = m.tries - 1, lost_claims = m.lost_claims + 1
  WHERE m.queue = %(queue)s AND m.state = 'running' RETURNING m.id"""
_FORGET: Final = f"""DELETE FROM {{s}}.messages AS m
  WHERE m.changed <= {_NOW} - make_interval(secs => %(seconds)s)
  AND m.state IN ('answered', 'delivered', 'dropped') RETURNING m.id"""
_ERASE: Final = """DELETE FROM {s}.messages AS m
  WHERE md5(m.session) = md5(%(session)s) AND m.session <> '' RETURNING m.id"""
_ERASE_OWNER: Final = """DELETE FROM {s}.messages AS m
  WHERE md5(m.owner) = md5(%(owner)s) RETURNING m.id"""

_COPIES: Final = f"""SELECT {_COLUMNS}, m.state = 'running' AND m.until <= {_NOW}
  FROM {{s}}.messages AS m WHERE %s AND m.id > %%(after)s ORDER BY m.id LIMIT %%(limit)s"""
_LOCK: Final = "LOCK TABLE {s}.messages IN SHARE ROW EXCLUSIVE MODE"
"""Messages are put and claimed before it or after it: an id that is taken is seen, and the next
message gets a later one."""
_FURTHER: Final = f"""SELECT 1 FROM {{s}}.messages AS m WHERE {_OPEN}
  AND md5(m.lane) = md5(%(lane)s) AND m.id > %(id)s LIMIT 1"""
_RESTORED: Final = ", ".join(
    f"to_timestamp(%({name})s)" if name in _TIMES else f"%({name})s" for name in MESSAGE_COLUMNS
)
_RESTORE: Final = f"""INSERT INTO {{s}}.messages ({", ".join(MESSAGE_COLUMNS)})
  OVERRIDING SYSTEM VALUE VALUES ({_RESTORED})
  ON CONFLICT (id) DO UPDATE SET until = NULL,
    {", ".join(f"{name} = excluded.{name}" for name in MESSAGE_COLUMNS if name != "id")}"""


class _QueueTable:
    """The table of the queues."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def _rows(self, doing: str, query: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        return self._connections.rows(doing, query, values)


class _QueueReader(_QueueTable):
    """Reads queues."""

    def message(self, message_id: int) -> QueuedMessage | None:
        return self._find("m.id = %(id)s", id=message_id)

    def find(self, queue: str, owner: Owner, key: str) -> QueuedMessage | None:
        return self._find(
            _SAME_KEY, queue=queue, owner=to_bytes(owner_text(owner)), key=to_bytes(key)
        )

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
        where, values = _where(queue, owner, lane)
        if states:
            where, values["states"] = f"{where} AND m.state = ANY (%(states)s)", list(states)
            if OPEN.issuperset(states):  # it is the condition of the indexes of open messages
                where = f"{where} AND m.state IN ('waiting', 'running')"
        if before is not None:
            where, values["before"] = f"{where} AND m.id < %(before)s", before
        query = f"""SELECT {_COLUMNS} FROM {{s}}.messages AS m WHERE {where}
          ORDER BY m.id DESC LIMIT %(limit)s"""
        return list(map(_read, self._rows("read messages", query, {**values, "limit": limit})))

    def copies(self, *, owner: OwnerFilter, after: int = 0, limit: int = 50) -> list[QueuedMessage]:
        where, values = _where(None, owner, None)
        values |= {"after": after, "limit": limit}
        rows = self._rows("read messages", _COPIES % where, values)
        return [as_copy(_read(row[:-1])) if row[-1] else _read(row[:-1]) for row in rows]

    def counts(
        self, queue: str, *, owner: OwnerFilter, lane: str | None = None
    ) -> dict[MessageState, int]:
        where, values = _where(queue, owner, lane)
        query = f"SELECT m.state, count(*) FROM {{s}}.messages AS m WHERE {where} GROUP BY m.state"
        return dict(self._rows("count messages", query, values))

    def _find(self, where: str, **values: object) -> QueuedMessage | None:
        query = f"SELECT {_COLUMNS} FROM {{s}}.messages AS m WHERE {where}"
        rows = self._rows("read a message", query, values)
        return _read(rows[0]) if rows else None


class PostgresQueues(_QueueReader):
    """`Queues` in a database."""

    def put(
        self, message: NewMessage, judge: Callable[[WaitingMessages], None] | None = None
    ) -> QueuedMessage:
        values: dict[str, Any] = {
            "queue": message.queue,
            "lane": to_bytes(message.lane),
            "owner": to_bytes(message.owner),
            "session": to_bytes(message.session),
            "key": to_bytes(message.key),
            "body": encode_body(message.body),
        }
        if judge is None:
            found = _put(partial(self._rows, "keep a message"), values)
        else:
            found = _put_judged(self._connections, values, judge)
        if not is_same(found, message):
            raise KeyReused(message.key, found.state, found.session)
        return found

    def claim(
        self, queue: str, holder: str, seconds: float, *, limit: int = 1
    ) -> list[QueuedMessage]:
        # A claim whose answer was lost runs out by itself.
        values = {"queue": queue, "holder": to_bytes(holder), "seconds": seconds, "limit": limit}
        rows = self._rows("claim messages", _CLAIM, values)
        return sorted(map(_read, rows), key=lambda message: message.id)

    def renew(self, message: QueuedMessage, seconds: float) -> bool:
        return self._change(message, f"until = {_LATER}", seconds=seconds)

    def finish(
        self,
        message: QueuedMessage,
        state: Literal["answered", "delivered", "failed", "dropped"],
        *,
        reason: str = "",
        result: Json | None = None,
    ) -> bool:
        encoded = None if result is None else encode_body(result)
        changes = "state = %(state)s, reason = %(reason)s, result = %(result)s"
        values = {"state": state, "reason": to_bytes(reason), "result": encoded}
        if self._change(message, changes, **values):
            return True
        # A try whose answer was lost may have ended it.
        found = self.message(message.id)
        return found is not None and (found.claims, found.state) == (message.claims, state)

    def postpone(
        self,
        message: QueuedMessage,
        seconds: float,
        *,
        reason: str = "",
        is_counted: bool = True,
    ) -> bool:
        untried = int(not is_counted)
        changes = f"""state = 'waiting', due = {_LATER}, reason = %(reason)s,
          tries = m.tries - %(untried)s"""
        values = {"seconds": seconds, "reason": to_bytes(reason), "untried": untried}
        return self._change(message, changes, **values)

    def release_all(self, queue: str) -> int:
        return len(self._rows("release messages", _RELEASE_ALL, {"queue": queue}))

    def retry(self, message_id: int) -> bool:
        changes = f"state = 'waiting', tries = 0, lost_claims = 0, due = {_NOW}"
        return self._move(message_id, changes, "m.state IN ('failed', 'dropped')")

    def drop(self, message_id: int, reason: str) -> bool:
        changes = "state = 'dropped', reason = %(reason)s"
        states = "m.state IN ('waiting', 'running', 'failed')"
        return self._move(message_id, changes, states, reason=to_bytes(reason))

    def forget(self, *, older_than_seconds: float) -> int:
        return len(self._rows("forget messages", _FORGET, {"seconds": older_than_seconds}))

    def erase(self, of: str | NamedOwner) -> int:
        if isinstance(of, NamedOwner):
            return len(self._rows("erase messages", _ERASE_OWNER, {"owner": to_bytes(of.name)}))
        return len(self._rows("erase messages", _ERASE, {"session": to_bytes(of)}))

    def restore(
        self, messages: Sequence[QueuedMessage], *, dry_run: bool = False
    ) -> list[MessageCopy]:
        if not messages:
            return []
        with self._connections.transaction("copy messages") as connection:
            if not dry_run:
                connection.execute(self._sql(_LOCK))
            return [self._restore(connection, message, dry_run) for message in messages]

    def _restore(
        self, connection: Connection, message: QueuedMessage, is_dry_run: bool
    ) -> MessageCopy:
        fields = {name: getattr(message, name) for name in MESSAGE_COLUMNS}
        fields |= {name: to_bytes(fields[name]) for name in MESSAGE_TEXTS}
        fields["body"] = encode_body(message.body)
        fields["result"] = None if message.result is None else encode_body(message.result)
        with_its_id, with_its_key = (
            connection.execute(
                self._sql(f"SELECT {_COLUMNS} FROM {{s}}.messages AS m WHERE {where}"),
                fields,
                binary=True,
            ).fetchone()
            for where in ("m.id = %(id)s", _SAME_KEY)
        )
        decided = compare_copy(
            message,
            _read(with_its_id) if with_its_id else None,
            _read(with_its_key) if with_its_key else None,
            is_lane_further=bool(connection.execute(self._sql(_FURTHER), fields).fetchall()),
        )
        if decided in ("added", "updated") and not is_dry_run:
            connection.execute(self._sql(_RESTORE), fields)
        return decided

    def _sql(self, query: str) -> bytes:
        return self._connections.format(query).encode()

    def _change(self, message: QueuedMessage, changes: str, **values: object) -> bool:
        """Change a message whose claim is still the one that was made."""
        return self._move(message.id, changes, _HELD, claims=message.claims, **values)

    def _move(self, message_id: int, changes: str, where: str, **values: object) -> bool:
        query = _CHANGE % (changes, where)
        return bool(self._rows("change a message", query, {**values, "id": message_id}))


def _where(queue: str | None, owner: OwnerFilter, lane: str | None) -> tuple[str, dict[str, Any]]:
    parts, values = ["true"], dict[str, Any]()
    if queue is not None:
        parts.append("m.queue = %(queue)s")
        values["queue"] = queue
    for name, value in (("owner", filter_text(owner)), ("lane", lane)):
        if value is not None:
            parts.append(f"md5(m.{name}) = md5(%({name})s)")
            values[name] = to_bytes(value)
    return " AND ".join(parts), values


def _put(
    rows: Callable[[str, dict[str, Any]], list[tuple[Any, ...]]], values: dict[str, Any]
) -> QueuedMessage:
    """Insert a message, and return it or the one that has its key."""
    more = 0
    while True:
        step = randint(1, ID_STEP_MAX)  # noqa: S311 - no secret
        values |= {"more": more, "step": more + step}
        # After a lost connection it is put again: the key tells whether it was.
        for query in (_PUT, _KNOWN):
            if found := rows(query, values):
                return _read(found[0])
        more += step  # another lane has the id


def _put_judged(
    connections: Connections, values: dict[str, Any], judge: Callable[[WaitingMessages], None]
) -> QueuedMessage:
    """Insert a message that a judge lets in, while no other one of its lane or owner comes."""

    def work(connection: Connection[Any]) -> QueuedMessage:
        def rows(query: str, given: dict[str, Any]) -> list[tuple[Any, ...]]:
            text = connections.format(query).encode()
            return connection.execute(text, given, binary=True).fetchall()

        with connection.transaction():
            rows(_LOCK_OWNER, values)
            rows(_LOCK_LANE, values)
            if known := rows(_KNOWN, values):
                return _read(known[0])
            judge(WaitingMessages(*rows(_WAITING, values)[0]))
            return _put(rows, values)

    return connections.run("keep a message", work)


def _read(row: Sequence[Any]) -> QueuedMessage:
    return read_message(row, to_text)
