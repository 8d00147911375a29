"""Makes and removes the sessions of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.log import views
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import encode
from holdfast.errors import LogGrown, NoSuchSession, SessionExists
from holdfast.ports import Trashed, find_trashed
from holdfast.stores.lines import SEAL_LINE, item_of
from holdfast.stores.postgres.reading import PostgresReader
from holdfast.stores.postgres.rows import FILL, LogFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.log.damage import Flaw
    from holdfast.core.log.records import Record
    from holdfast.stores.postgres.connections import Connection
    from holdfast.stores.postgres.log import PostgresLog

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
