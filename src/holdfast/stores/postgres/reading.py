"""Reads and lists the sessions of a database; of one log, the lines from either end, by pages."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.limits import LINE_BYTES_MAX, READ_BLOCK_BYTES
from holdfast.core.log import views
from holdfast.core.log.damage import GAP, Flaw
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import decode
from holdfast.core.log.replay import live_at_end
from holdfast.core.log.walk import SUGGESTED_IDS_MAX
from holdfast.core.owners import filter_text, owner_in_row
from holdfast.core.window import ANY_WINDOW
from holdfast.errors import NoSuchRecord, NoSuchSession
from holdfast.ports import SessionCatalogue, SessionInfo
from holdfast.stores.lines import item_of
from holdfast.stores.postgres import schema
from holdfast.stores.postgres.connections import CONNECTIONS_MAX, Connections, read_address
from holdfast.stores.postgres.prepared import TRUE, PreparedStatement, pack_int, unpack_int
from holdfast.stores.postgres.rows import COUNTS, decode_totals, digest_key, to_bytes, to_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.log.replay import Live
    from holdfast.core.log.walk import LogLine, OpenLog
    from holdfast.core.models.totals import SessionTotals
    from holdfast.core.owners import OwnerFilter
    from holdfast.core.window import WindowFilter
    from holdfast.ports import Clock, Entropy
    from holdfast.stores.postgres.connections import Connection, Row


_PAGE_FIRST: Final = READ_BLOCK_BYTES // 4
"""Bytes of the first page: many readers want a few lines only."""
_PAGE_MAX: Final = READ_BLOCK_BYTES * 16
"""Bytes of the largest page. Pages grow fourfold: a long log takes few round trips."""

_FORWARD: Final = """SELECT position, line FROM {s}.records
  WHERE log = %s AND position >= %s AND position < %s ORDER BY position"""
_ONE: Final = f"{_FORWARD} LIMIT 1"
_BACK: Final = """SELECT position, line FROM {s}.records
  WHERE log = %s AND position >= %s AND position < %s ORDER BY position DESC"""
_ONE_BACK: Final = f"{_BACK} LIMIT 1"
_NO_ROW: Final = (-1, b"")
"""A blank line that ends where the log begins, in place of a row before the first."""


class PostgresLog(msgspec.Struct, frozen=True):
    """The first `size` bytes of a log, as an `OpenLog`."""

    key: SessionKey
    connections: Connections
    number: int
    """The id of the log's row."""
    size: int
    is_plain: bool = False
    """Every line is a record that counts, under an id of its own: the index of ids is the truth."""
    first_page: int = _PAGE_FIRST
    """Bytes that a reader from the end is expected to want."""
    is_erasing: bool = False
    """The erasure of this log had begun when it was opened; rows may be gone already."""

    def lines(self, start: int = 0) -> Iterator[LogLine]:
        for position, line in self.rows_and_gaps(start):
            yield from _as_line(position, line)

    def lines_back(self, end: int | None = None) -> Iterator[LogLine]:
        before = self.size if end is None else end
        page = max(_PAGE_FIRST, min(self.first_page, _PAGE_MAX)) if end is None else _PAGE_FIRST
        while before > 0:
            rows = self._rows(_BACK, max(0, before - page), before)
            for position, line in rows or self._rows(_ONE_BACK, 0, before) or [_NO_ROW]:
                for gap in self._gap(position + len(line) + 1, before, is_back=True):
                    yield from _as_line(*gap)
                before = position
                yield from _as_line(position, line)
            page = min(page * 4, _PAGE_MAX)

    def data(self) -> Iterator[bytes]:
        """Yield the bytes that the log has as a file, in pieces: `size` bytes in all.

        Lines that are lost leave lines of `GAP`, so that every other line keeps its position.
        """
        held: list[bytes] = []
        start = end = 0
        for position, line in self.rows_and_gaps():
            _cut_last(held, end - position)
            held.append(line + b"\n")
            end = position + len(line) + 1
            if position - start > _PAGE_MAX:
                yield b"".join(held[:-1])
                held, start = held[-1:], position
        _cut_last(held, end - self.size)
        yield b"".join(held)

    def rows_and_gaps(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield every line from a position on, blank ones too, and lines for what is lost."""
        page, is_within = _PAGE_FIRST, start > 0  # the first position may be inside a line
        after = start
        while after < self.size:
            rows = self._rows(_FORWARD, after, min(start + page, self.size))
            for position, line in rows or self._rows(_ONE, after, self.size) or [(self.size, b"")]:
                if not is_within:
                    yield from self._gap(start, position)
                if position < self.size:
                    yield position, line
                start, after, is_within = position + len(line) + 1, position + 1, False
            page = min(page * 4, _PAGE_MAX)

    def _rows(self, query: str, start: int, end: int) -> list[tuple[int, bytes]]:
        doing = f"read session `{self.key.session}`"
        return self.connections.rows(doing, query, (self.number, start, end))

    def _gap(self, start: int, end: int, *, is_back: bool = False) -> Iterator[tuple[int, bytes]]:
        """Yield lines that stand for lost rows, from one position to another; usually none.

        Raises `NoSuchSession` where the session was erased while it was read.
        """
        if start >= end:
            return
        query = "SELECT 1 FROM {s}.logs WHERE id = %s AND (state < 2 OR %s)"
        parameters = (self.number, self.is_erasing)
        if not self.connections.rows("look for a session", query, parameters):
            raise NoSuchSession(str(self.key))
        starts = range(start, end, _PAGE_MAX)
        for position in reversed(starts) if is_back else starts:
            yield position, bytes([GAP]) * (min(position + _PAGE_MAX, end) - position - 1)


def _as_line(position: int, line: bytes) -> Iterator[LogLine]:
    """Yield a line as readers get it; none where it is blank."""
    if line and not line.isspace():
        yield position, len(line), item_of(position, line), line


def _cut_last(lines: list[bytes], excess: int) -> None:
    """Shorten the last line, whose row was made longer than its place in the log."""
    if excess > 0:
        lines[-1] = lines[-1][: len(lines[-1]) - excess - 1] + b"\n"


assert LINE_BYTES_MAX > _PAGE_MAX  # a page may hold one line only, and that is not an error


_SUGGESTED_MAX: Final = 1_000
"""The newest sessions, which an unknown name is compared with for a suggestion."""
_BEFORE_BOUNDARY: Final = 16 * 1024
"""Bytes before the first kept record, for the line that says where its append begins."""
_AT_ONCE: Final = READ_BLOCK_BYTES * 16
"""Bytes of the newest lines that are read in one piece."""
_LIVE: Final = """SELECT l.id, l.size, COALESCE(l.live_from, 0), n.first, n.count, l.is_plain,
  n.data FROM {s}.logs AS l, LATERAL (
    SELECT COALESCE(min(r.position), 0) AS first, count(*) AS count,
      string_agg(r.line, '\\x0a' ORDER BY r.position) AS data
    FROM {s}.records AS r WHERE r.log = l.id AND r.position >= COALESCE(l.live_from, 0)
      AND r.position < l.size AND l.is_plain AND l.size - COALESCE(l.live_from, 0) <= $3
  ) AS n WHERE l.agent = $1 AND l.session = $2 AND l.state = 0"""
"""The newest lines in one piece, from the newest boundary on, where each of them is a record.

An aggregate of one range of an index: nothing that the planner knows makes it a join."""
_OPEN: Final = """SELECT id, size, is_plain FROM {s}.logs
  WHERE agent = %s AND session = %s AND state = 0"""
_HEAD: Final = """SELECT l.head, (SELECT r.line FROM {s}.records AS r
    WHERE r.log = l.id AND r.position < l.size ORDER BY r.position DESC LIMIT 1)
  FROM {s}.logs AS l WHERE l.agent = %s AND l.session = %s AND l.state = 0"""
"""The head as the last append left it, and the last line that is there."""
_BY_ID: Final = """SELECT position FROM {s}.records
  WHERE log = %s AND position < %s AND id = %s ORDER BY position LIMIT 1"""
_BY_PREFIX: Final = """SELECT id, min(position) FROM {s}.records WHERE log = %s
  AND position < %s AND id >= %s AND substr(id, 1, %s) = %s GROUP BY id LIMIT 2"""
_NEWEST_FIRST: Final = "active_slot DESC, last_active DESC, agent, session"
"""The order of a listing. The index has the slots of it, the rows of a slot are sorted."""
LIST: Final = """SELECT agent, session, label, title, created, last_active, records, messages,
  size, head, damaged, parent_session, reason, owner FROM {s}.logs WHERE state = 0"""


class PostgresReader(SessionCatalogue):
    """Reads the sessions of one schema of a database."""

    def __init__(
        self,
        address: str,
        *,
        clock: Clock,
        entropy: Entropy,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        super().__init__(clock=clock, entropy=entropy)
        self._connections = Connections(read_address(address), limit=connections_max)
        self._live = PreparedStatement(self._connections.format(_LIVE), ("text", "text", "int8"))
        try:
            schema.prepare(self._connections)
        except BaseException:
            self._connections.close()
            raise

    @contextmanager
    def open_log(self, key: SessionKey) -> Iterator[PostgresLog]:
        yield PostgresLog(key, self._connections, *self._row(key))

    def live(self, key: SessionKey, *, window: WindowFilter = ANY_WINDOW) -> Live:
        values = (key.agent.encode(), key.session.encode(), pack_int(_AT_ONCE))

        def read(connection: Connection) -> Row:
            return self._live.run(connection, [values])[0]

        row = self._connections.run(f"open session `{key.session}`", read)
        if not row:
            raise self._absent(key)
        number, size, start, first, count = map(unpack_int, row[:5])
        is_plain, data = row[5:]
        if data is not None and first + len(data) + 1 == size:
            found = live_at_end(data, count, window, is_whole=first == 0)
            if found is not None:
                return found
        wanted = size - start + _BEFORE_BOUNDARY
        log = PostgresLog(key, self._connections, number, size, is_plain == TRUE, wanted)
        return views.live(log, window)

    def head(self, key: SessionKey) -> str:
        rows = self._rows("read the head of a session", _HEAD, (key.agent, key.session))
        if not rows:
            raise self._absent(key)
        head, line = to_text(rows[0][0]), rows[0][1]
        if line is not None and _is_plainly(line, head):
            return head
        with self.open_log(key) as log:  # of several records, damaged, without ids, or empty
            return views.head(log)

    def find_message(self, key: SessionKey, message_key: str) -> Record | None:
        number = self._row(key)[0]
        query = "SELECT 1 FROM {s}.records WHERE log = %s AND message_key = %s LIMIT 1"
        found = self._rows("look for a message", query, (number, digest_key(message_key)))
        return super().find_message(key, message_key) if found else None

    def locate(self, log: OpenLog, prefix: str) -> int:
        if not isinstance(log, PostgresLog) or not log.is_plain or not prefix:
            return super().locate(log, prefix)
        name = to_bytes(prefix)
        where = (log.number, log.size, name)
        exact = self._rows("look for a record", _BY_ID, where)
        if exact:
            return int(exact[0][0])
        rows = self._rows("look for a record", _BY_PREFIX, (*where, len(name), name))
        if len(rows) == 1:
            return int(rows[0][1])
        if rows or prefix.startswith("@"):
            return super().locate(log, prefix)  # ambiguous, or a position
        query = "SELECT id FROM {s}.records WHERE log = %s ORDER BY position DESC LIMIT %s"
        recent = self._rows("look for a record", query, (log.number, SUGGESTED_IDS_MAX))
        known = [to_text(row[0]) for row in reversed(recent)]
        raise NoSuchRecord(prefix, log.key.session, known)

    def keys(self, agent: str | None = None) -> list[SessionKey]:
        query = """SELECT agent, session FROM {s}.logs
          WHERE state = 0 AND (%s::text IS NULL OR agent = %s)"""
        return [SessionKey(*row) for row in self._rows("list sessions", query, (agent, agent))]

    def info(self, key: SessionKey) -> SessionInfo:
        where = (key.agent, key.session)
        rows = self._rows("read a session", f"{LIST} AND agent = %s AND session = %s", where)
        if not rows:
            raise self._absent(key)
        return info_in_row(rows[0])

    def totals(self, key: SessionKey) -> SessionTotals:
        query = f"""SELECT totals, stated_cost, {", ".join(COUNTS)} FROM {{s}}.logs
          WHERE state = 0 AND agent = %s AND session = %s"""
        rows = self._rows("read totals", query, (key.agent, key.session))
        if not rows:
            raise self._absent(key)
        return decode_totals(*rows[0])

    def sessions(
        self,
        *,
        agent: str | None = None,
        owner: OwnerFilter,
        label: str | None = None,
        after: SessionInfo | None = None,
        limit: int | None = None,
    ) -> list[SessionInfo]:
        query = ""
        values: list[Any] = []
        if agent is not None:
            query += " AND agent = %s"
            values.append(agent)
        for column, text in (("owner", filter_text(owner)), ("label", label)):
            if text:
                query += f" AND md5({column}) = md5(%s) AND {column} = %s AND {column} <> ''"
                values += [to_bytes(text)] * 2
            elif text is not None:
                query += f" AND {column} = ''"
        if after is not None:
            query += """ AND active_slot <= floor(%s / 8.0) AND last_active <= %s
              AND (last_active < %s OR (agent, session) > (%s, %s))"""
            values += [after.last_active] * 3 + [after.key.agent, after.key.session]
        query += f" ORDER BY {_NEWEST_FIRST} LIMIT %s"
        rows = self._rows("list sessions", LIST + query, (*values, limit))
        return [info_in_row(row) for row in rows]

    def _row(self, key: SessionKey) -> tuple[Any, ...]:
        where = (key.agent, key.session)
        rows = self._rows(f"open session `{key.session}`", _OPEN, where)
        if not rows:
            raise self._absent(key)
        return rows[0]

    def _rows(self, doing: str, query: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._connections.rows(doing, query, parameters)

    def _absent(self, key: SessionKey) -> NoSuchSession:
        return NoSuchSession(str(key), self._some_names)

    def _some_names(self) -> list[str]:
        query = f"SELECT session FROM {{s}}.logs WHERE state = 0 ORDER BY {_NEWEST_FIRST} LIMIT %s"
        return [row[0] for row in self._rows("list sessions", query, (_SUGGESTED_MAX,))]

    def _sql(self, query: str) -> bytes:
        return self._connections.format(query).encode()


def _is_plainly(line: bytes, record_id: str) -> bool:
    """Return whether a line is the record with this id, an append of its own."""
    item = decode(line)
    return not isinstance(item, Flaw) and item.id == record_id and item.more is None


def info_in_row(row: Sequence[Any]) -> SessionInfo:
    agent, session, label, title, created, last_active, records, messages, size, head = row[:10]
    damaged, parent_session, reason, owner = row[10:]
    return SessionInfo(
        key=SessionKey(agent, session),
        label=to_text(label),
        title=to_text(title),
        created=created,
        last_active=last_active,
        records=records,
        messages=messages,
        bytes=size,
        head=to_text(head),
        damaged=damaged,
        parent_session=None if parent_session is None else to_text(parent_session),
        reason=None if reason is None else to_text(reason),
        owner=owner_in_row(None if owner is None else to_text(owner)),
    )
