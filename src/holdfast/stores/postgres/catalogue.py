"""Makes and removes the sessions of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.listing import Facts
from holdfast.core.log.records import Compaction, Header, encode
from holdfast.core.log.tree import Outline
from holdfast.core.models.totals import SessionTotals
from holdfast.errors import SessionExists
from holdfast.ports import Trashed, find_trashed
from holdfast.stores.jsonl.last_writer import this_process
from holdfast.stores.postgres.reading import PostgresReader
from holdfast.stores.postgres.rows import (
    count_totals,
    encode_totals,
    id_for_index,
    key_for_index,
    to_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.chain import Stands
    from holdfast.core.log.records import Record
    from holdfast.stores.postgres.connections import Connection

_NOW: Final = "extract(epoch FROM clock_timestamp())::float8"
_CLAIM: Final = """INSERT INTO {s}.logs (agent, session) VALUES (%s, %s)
  ON CONFLICT DO NOTHING RETURNING id"""
_TAKEN: Final = """SELECT session FROM {s}.logs
  WHERE lower(agent) = lower(%s) AND lower(session) = lower(%s) AND state = 0"""
_COPY: Final = "COPY {s}.records (log, position, id, message_key, line) FROM STDIN (FORMAT BINARY)"
_COPY_TYPES: Final = ("int8", "int8", "bytea", "bytea", "bytea")
_FILL: Final = """UPDATE {s}.logs SET size = %s, head = %s, writer = %s, label = %s, title = %s,
  created = %s, last_active = %s, active_slot = floor(%s / 8.0), records = %s,
  messages = %s, damaged = %s, is_plain = %s, turns = %s, calls = %s, tools = %s, unknown = %s,
  totals = %s::jsonb, stated_cost = %s, parent_session = %s, reason = %s, owner = %s,
  live_from = (SELECT min(position) FROM {s}.records WHERE log = %s AND id = ANY (%s::bytea[]))
  WHERE id = %s"""
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

    def create_log(self, key: SessionKey, records: Iterable[Record]) -> None:
        lines = ((record, encode(record)) for record in records)

        with self._connections.transaction(f"create session `{key.session}`") as connection:
            self._fill(connection, self._claim(connection, key), lines)

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

    def _fill(
        self, connection: Connection, number: int, lines: Iterable[tuple[Record, bytes]]
    ) -> None:
        """Store the first records of a log, and the facts about them."""
        facts, totals, position, is_plain = Facts(), SessionTotals(), 0, True

        def count(place: int, item: Stands) -> None:
            facts.add(place, item)
            totals.add(cast("Record", item))

        shape = Outline(on_record=count)
        first: Record | None = None
        boundary: Compaction | None = None
        with connection.cursor() as cursor, cursor.copy(self._sql(_COPY)) as copy:
            copy.set_types(_COPY_TYPES)
            for record, line in lines:
                first = first or record
                boundary = record if isinstance(record, Compaction) else boundary
                shape.add(position, len(line), record, "")
                name = id_for_index(record.id)
                is_plain = is_plain and name is not None
                copy.write_row((number, position, name, key_for_index(record), line))
                position += len(line) + 1
        shape.end()
        facts.owner = first.owner if isinstance(first, Header) else ""
        is_plain = is_plain and not (shape.findings or shape.skipped or shape.renamed)
        row = _facts_row(facts, totals, number, position, boundary, is_plain=is_plain)
        connection.execute(self._sql(_FILL), row)

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


def _facts_row(
    facts: Facts,
    totals: SessionTotals,
    number: int,
    size: int,
    boundary: Compaction | None,
    *,
    is_plain: bool,
) -> tuple[Any, ...]:
    kept = [boundary.id, boundary.first_kept] if boundary else []
    return (
        size,
        to_bytes(facts.head),
        to_bytes(str(this_process())),
        to_bytes(facts.label),
        to_bytes(facts.title),
        facts.created,
        facts.last_active,
        facts.last_active,
        facts.records,
        facts.messages,
        facts.damaged,
        is_plain,
        *count_totals(totals),
        encode_totals(totals) or "{}",
        totals.stated_cost,
        *(
            None if text is None else to_bytes(text)
            for text in (facts.parent_session, facts.reason)
        ),
        None if facts.owner is None else to_bytes(facts.owner),
        number,
        [id_for_index(name) for name in kept if name],
        number,
    )
