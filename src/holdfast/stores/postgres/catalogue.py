"""Makes and removes the sessions of a database, and deletes them for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.log import views
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import encode
from holdfast.core.log.refs import possible_hashes
from holdfast.core.owners import filter_text
from holdfast.errors import LogGrown, NoSuchSession, SessionExists
from holdfast.ports import Trashed, find_trashed
from holdfast.ports.sessions import (
    ListingChanges,
    SessionEraser,
    describe_logs,
    whole_listing,
)
from holdfast.stores.lines import SEAL_LINE, item_of
from holdfast.stores.postgres.reading import LIST, PostgresLog, PostgresReader, info_in_row
from holdfast.stores.postgres.rows import FILL, LogFacts, to_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from holdfast.core.log.damage import Flaw
    from holdfast.core.log.records import Record
    from holdfast.core.owners import OwnerFilter
    from holdfast.ports.sessions import ErasableSession, SessionInfo
    from holdfast.stores.postgres.connections import Connection


_NOW: Final = "extract(epoch FROM clock_timestamp())::float8"
_CLAIM: Final = """INSERT INTO {s}.logs (agent, session) VALUES (%s, %s)
  ON CONFLICT DO NOTHING RETURNING id"""
_TAKEN: Final = """SELECT session FROM {s}.logs
  WHERE lower(agent) = lower(%s) AND lower(session) = lower(%s) AND state = 0"""
_COPY: Final = "COPY {s}.records (log, position, id, message_key, line) FROM STDIN (FORMAT BINARY)"
_COPY_TYPES: Final = ("int8", "int8", "bytea", "bytea", "bytea")
_ROW: Final = """SELECT id, size FROM {s}.logs
  WHERE agent = %s AND session = %s AND state = 0 FOR NO KEY UPDATE"""
_DURABLE: Final = """SELECT set_config('synchronous_commit',
  CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
  ELSE current_setting('synchronous_commit') END, true)"""
_REMOVE: Final = f"""UPDATE {{s}}.logs SET state = 1, removed = {_NOW}, lease_token = 0,
  lease_holder = NULL, trash_name = agent || '.' || session || '.' || id || '-' ||
  to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYYMMDDHH24MISSUS')
  WHERE agent = %s AND session = %s AND state = 0 RETURNING trash_name, removed, size"""
_TRASH: Final = """SELECT trash_name, agent, session, removed, size FROM {s}.logs
  WHERE state = 1 ORDER BY removed DESC, id DESC"""
_RESTORE: Final = """UPDATE {s}.logs SET state = 0, trash_name = NULL, removed = NULL
  WHERE state = 1 AND trash_name = %s RETURNING 1"""
_EMPTY: Final = f"""UPDATE {{s}}.logs SET state = 2 WHERE state = 1
  AND removed <= {_NOW} - %s RETURNING id, trash_name, agent, session, removed, size"""
_OF_OWNER: Final = """ AND md5(owner) = md5(%(owner)s::bytea) AND owner = %(owner)s
  AND owner <> ''"""
_SINCE: Final = f"""SELECT now.state, now.total, found.* FROM (
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS state,
      (SELECT count(*) FROM {{s}}.logs WHERE state = 0{{mine}}) AS total) AS now
  LEFT JOIN ({LIST}{{mine}}
    AND (%(since)s::text IS NULL OR age(xmin) <= age(%(since)s::xid))) AS found ON true"""
"""A row that was not to be seen in a snapshot is of a transaction that began after its `xmin`."""


class PostgresCatalogue(PostgresReader):
    """Makes, removes and restores the sessions of one schema of a database."""

    _grown: LogFacts | None = None
    """The facts of the log that was extended last: the next piece goes on from them."""

    def create_log(self, key: SessionKey, records: Iterable[Record]) -> None:
        lines = ((encode(record), record) for record in records)

        with self._connections.transaction(f"create session `{key.session}`") as connection:
            self._copy(connection, LogFacts(self._claim(connection, key)), lines)

    def extend_log(self, key: SessionKey, data: bytes, *, at: int) -> None:
        prepared = iter([self._facts_at(key, at)])  # before a connection is held

        def work(connection: Connection) -> LogFacts:
            facts = next(prepared, None) or self._facts_at(key, at)  # again: those are used up
            with connection.transaction():
                connection.execute(_DURABLE)
                row = connection.execute(self._sql(_ROW), (key.agent, key.session)).fetchone()
                number, size = row or (facts.number or self._claim(connection, key), 0)
                if (number, size) != (facts.number or number, at):
                    raise LogGrown(str(key), at, size)
                facts.number = number
                self._copy(connection, facts, _items(data.split(b"\n")[:-1], at))
            return facts

        # Where an answer is lost it is done again, and finds that the log has grown.
        self._grown = self._connections.run(f"copy session `{key.session}`", work)

    def restore_head(self, key: SessionKey) -> str:
        """Return the head that the lines have; where another is stored, store all facts again.

        They differ where the newest rows were lost or damaged after they had been written.
        """
        with self.open_log(key) as log:
            head, stored = views.head(log), self.info(key).head
            if head == stored:
                return head
            facts = _count_lines(log)
        with self._connections.transaction(f"mend session `{key.session}`") as connection:
            connection.execute(_DURABLE)
            row = connection.execute(self._sql(_ROW), (key.agent, key.session)).fetchone()
            if row == (facts.number, facts.size):  # nothing was appended meanwhile
                # What comes next must not seem to belong to an append that was damaged.
                seal = [(SEAL_LINE, None)] if facts.is_open else []
                self._copy(connection, facts, seal)
        return head

    def _facts_at(self, key: SessionKey, at: int) -> LogFacts:
        """Return the facts about a log that has so many bytes; without a number where it is new."""
        known, self._grown = self._grown, None
        try:
            with self.open_log(key) as log:
                if log.size != at:
                    raise LogGrown(str(key), at, log.size)
                if known is not None and (known.number, known.size) == (log.number, at):
                    return known
                return _count_lines(log)
        except NoSuchSession:
            if at > 0:
                raise
            return LogFacts()

    def _claim(self, connection: Connection, key: SessionKey) -> int:
        """Take the name of a session, and return the number of its log."""
        where = (key.agent, key.session)
        while True:
            row = connection.execute(self._sql(_CLAIM), where).fetchone()
            if row is not None:
                return int(row[0])
            taken = connection.execute(self._sql(_TAKEN), where).fetchone()
            if taken is not None:
                raise SessionExists(key.session, taken[0])

    def _copy(
        self, connection: Connection, facts: LogFacts, lines: Iterable[tuple[bytes, Any]]
    ) -> None:
        """Store the next lines of a log, and what is known of it then."""
        with connection.cursor() as cursor, cursor.copy(self._sql(_COPY)) as copy:
            copy.set_types(_COPY_TYPES)
            for line, item in lines:
                copy.write_row(facts.add(line, item))
        connection.execute(self._sql(FILL), facts.parameters())

    def sessions_since(self, state: str, *, owner: OwnerFilter) -> ListingChanges:
        whose = filter_text(owner)
        if whose is None:
            return whole_listing(self.sessions(owner=owner))
        values = {"owner": to_bytes(whose), "since": state or None}
        query = _SINCE.replace("{mine}", _OF_OWNER if whose else " AND owner = ''")
        rows = self._connections.rows("list changed sessions", query, values)
        now, total = rows[0][:2]
        infos = [info_in_row(row[2:]) for row in rows if row[2] is not None]
        return ListingChanges(infos, total, now)

    def remove(self, key: SessionKey) -> Trashed:
        rows = self._write(f"remove session `{key.session}`", _REMOVE, (key.agent, key.session))
        if not rows:
            raise self._absent(key)
        name, removed, size = rows[0]
        return Trashed(name, key, removed, size)

    def trash(self) -> list[Trashed]:
        return [
            Trashed(name, SessionKey(agent, session), removed, size)
            for name, agent, session, removed, size in self._rows("list the trash", _TRASH)
        ]

    def restore(self, name: str) -> SessionKey:
        import psycopg

        found = find_trashed(self.trash(), name)

        def work(connection: Connection) -> None:
            try:
                connection.execute(self._sql(_RESTORE), [found.name])
            except psycopg.errors.UniqueViolation:
                where = (found.key.agent, found.key.session)
                taken = connection.execute(self._sql(_TAKEN), where).fetchone()
                raise SessionExists(
                    found.key.session, taken[0] if taken else found.key.session
                ) from None

        self._connections.run(f"restore `{name[:80]}`", work)
        return found.key

    def empty_trash(self, *, older_than_seconds: float = 0.0) -> list[Trashed]:
        rows = self._write("empty the trash", _EMPTY, (older_than_seconds,))
        self._delete([row[0] for row in rows])
        gone = [Trashed(row[1], SessionKey(row[2], row[3]), row[4], row[5]) for row in rows]
        return sorted(gone, key=lambda trashed: -trashed.removed)

    def _delete(self, numbers: Sequence[int]) -> None:
        """Delete logs that are in no listing any more, their records first."""

        def work(connection: Connection) -> None:
            for column, table in (("log", "records"), ("log", "lease_queue"), ("id", "logs")):
                query = f"DELETE FROM {{s}}.{table} WHERE {column} = ANY (%s)"
                connection.execute(self._sql(query), [list(numbers)])

        if numbers:
            self._connections.run("delete sessions", work)

    def _write(self, doing: str, query: str, parameters: Sequence[Any]) -> list[Any]:
        """Run a statement that changes something; after a lost connection it is not repeated."""
        with self._connections.transaction(doing) as connection:
            return connection.execute(self._sql(query), parameters, binary=True).fetchall()


def _count_lines(log: PostgresLog) -> LogFacts:
    """Return the facts about the lines of a log, as its readers see them."""
    facts = LogFacts(log.number)
    for position, line in log.rows_and_gaps():
        facts.size = position  # a row that was changed may have another length than its place
        facts.add(line, _item(position, line))
    facts.size = log.size
    return facts


def _items(lines: Iterable[bytes], position: int) -> Iterator[tuple[bytes, Record | Flaw | None]]:
    """Yield lines with what is in them."""
    for line in lines:
        yield line, _item(position, line)
        position += len(line) + 1


def _item(position: int, line: bytes) -> Record | Flaw | None:
    return None if not line or line.isspace() else item_of(position, line)


_ERASING: Final = 2
"""The state of a log whose erasure has begun."""
_OF_KEY: Final = """agent = %(agent)s AND session = %(session)s
  AND (%(owner)s::bytea IS NULL OR owner = %(owner)s)"""
_LOGS: Final = f"SELECT id, size, state FROM {{s}}.logs WHERE {_OF_KEY} ORDER BY id"
_BEGIN: Final = f"""UPDATE {{s}}.logs SET state = 2, lease_token = 0, lease_holder = NULL
  WHERE {_OF_KEY} AND state < 2 RETURNING id"""
_COPIES: Final = """ AND (owner IS NULL
  OR md5(parent_session) = ANY (SELECT md5(one) FROM unnest(%s::bytea[]) AS one)
  AND parent_session = ANY (%s::bytea[]))"""
_REMOVED: Final = """SELECT DISTINCT agent, session FROM {s}.logs WHERE state > 0
  AND (%(owner)s::bytea IS NULL OR owner = %(owner)s) AND (%(origins)s::bytea[] IS NULL
  OR (reason = 'repair' AND parent_session = ANY (%(origins)s::bytea[])))"""
_PAGE: Final = 1_000
"""Rows that are looked through for hashes at a time."""
_HASHES: Final = """SELECT r.log, r.position, r.line FROM {s}.records r WHERE r.log = %s
  AND r.position > %s AND encode(r.line, 'escape') ~ '[0-9a-f]{{64}}' ORDER BY position LIMIT %s"""


class PostgresEraser(PostgresCatalogue, SessionEraser):
    """A `SessionEraser` of logs in a database."""

    def erasable(self, key: SessionKey, *, owner: OwnerFilter) -> ErasableSession:
        rows = self._connections.rows("find what to erase", _LOGS, _parameters(key, owner))
        logs = [
            PostgresLog(key, self._connections, number, size, is_erasing=state == _ERASING)
            for number, size, state in rows
        ]
        if not logs:
            raise self._absent(key)
        return describe_logs(key, logs)

    def begin_erasure(self, *keys: SessionKey, owner: OwnerFilter) -> None:
        for key in keys:
            doing = f"begin to erase session `{key.session}`"
            self._connections.rows(doing, _BEGIN, _parameters(key, owner))

    def erasures(self) -> list[SessionKey]:
        query = "SELECT DISTINCT agent, session FROM {s}.logs WHERE state = 2"
        return sorted(SessionKey(*row) for row in self._rows("list erasures", query))

    def trash_keys(
        self, *, owner: OwnerFilter, repaired_from: Collection[str] | None = None
    ) -> set[SessionKey]:
        wanted = filter_text(owner)
        origins = None if repaired_from is None else [to_bytes(name) for name in repaired_from]
        values = {"owner": None if wanted is None else to_bytes(wanted), "origins": origins}
        rows = self._connections.rows("list removed sessions", _REMOVED, values)
        return {SessionKey(*row) for row in rows}

    def finish_erasure(self, *keys: SessionKey) -> None:
        query = "SELECT id FROM {s}.logs WHERE agent = %s AND session = %s AND state = 2"
        self._delete(
            [
                row[0]
                for key in keys
                for row in self._rows("finish an erasure", query, (key.agent, key.session))
            ]
        )

    def hash_candidates(
        self, *, of: SessionKey | None = None, besides: SessionKey | None = None
    ) -> Iterator[str]:
        query = "SELECT id, agent, session, state FROM {s}.logs"
        for number, agent, session, state in self._rows("list logs", query):
            key = SessionKey(agent, session)
            if key == of if of is not None else (key != besides and state < 2):
                yield from self._hashes_in(number)

    def possible_copies(self, names: Collection[str]) -> list[SessionInfo]:
        wanted = [to_bytes(name) for name in names]
        rows = self._rows("list possible copies", LIST + _COPIES, (wanted, wanted))
        return [info_in_row(row) for row in rows]

    def agents(self) -> set[str]:
        query = "SELECT agent FROM {s}.logs UNION SELECT agent FROM {s}.notes"
        return {row[0] for row in self._rows("list agents", query)}

    def erase_from_indexes(
        self, sessions: Sequence[SessionKey], scopes: Sequence[str] = ()
    ) -> None:
        from holdfast.stores.postgres.search import PostgresSearchIndex

        index = PostgresSearchIndex(self._connections)
        index.erase([str(key) for key in sessions], scopes)

    def _hashes_in(self, number: int) -> Iterator[str]:
        """Yield what could be a hash in a log. The server leaves out the lines without any."""
        position = -1
        while True:
            parameters = (number, position, _PAGE)
            rows = self._rows("look for hashes", _HASHES.replace("{{64}}", "{64}"), parameters)
            for _log, position, line in rows:  # noqa: B007 - the next page begins after it
                yield from possible_hashes(line)
            if len(rows) < _PAGE:
                return


def _parameters(key: SessionKey, owner: OwnerFilter) -> dict[str, object]:
    wanted = filter_text(owner)
    mine = None if wanted is None else to_bytes(wanted)
    return {"agent": key.agent, "session": key.session, "owner": mine}
