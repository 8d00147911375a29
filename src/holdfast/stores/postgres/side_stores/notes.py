"""Notes in the database: a row for each file. The rules of notes are in `stores/notes`."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.memory.note_types import NoteFile
from holdfast.core.owners import owner_text
from holdfast.stores.postgres.rows import to_bytes, to_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.owners import Owner
    from holdfast.ports import Clock
    from holdfast.stores.postgres.connections import Connection, Connections

_FILES: Final = """SELECT path, (changed * 1e9)::bigint, length(data), version
  FROM {s}.notes WHERE scope = %s"""
_LOAD: Final = "SELECT data FROM {s}.notes WHERE scope = %s AND place = %s"
_SAVE: Final = """INSERT INTO {s}.notes (agent, owner, scope, place, path, data, changed)
  VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (scope, place)
  DO UPDATE SET data = excluded.data, changed = excluded.changed, version = DEFAULT"""
_DELETE: Final = "DELETE FROM {s}.notes WHERE scope = %s AND place = %s"
_LOCK: Final = "SELECT pg_advisory_xact_lock(('x' || encode(%s, 'hex'))::bit(64)::bigint)"
"""Writers of one scope follow each other; the lock ends with its transaction."""


class PostgresNoteTable:
    """The `NoteTable` of one agent, or of one of its owners, in a database."""

    def __init__(self, connections: Connections, agent: str, owner: Owner, *, clock: Clock) -> None:
        self._connections = connections
        self._agent, self._owner = agent, to_bytes(owner_text(owner))
        self._scope = hashlib.sha256(agent.encode() + b"/" + self._owner).digest()
        self._clock = clock

    @property
    def location(self) -> str:
        return self._connections.address.shown

    @contextmanager
    def changing(self) -> Iterator[_Rows]:
        with self._connections.transaction("change notes") as connection:
            connection.execute(_LOCK, [self._scope[:8]])
            yield self._rows(connection)

    @contextmanager
    def reading(self) -> Iterator[_Rows]:
        with self._connections.transaction("read notes") as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield self._rows(connection)

    def _rows(self, connection: Connection) -> _Rows:
        where = (self._agent, self._owner, self._scope)
        return _Rows(self._connections, connection, where, self._clock)


class _Rows:
    """The `NoteRows` of a scope, within a transaction."""

    def __init__(
        self,
        connections: Connections,
        connection: Connection,
        where: tuple[str, bytes, bytes],
        clock: Clock,
    ) -> None:
        self._connections = connections
        self._connection = connection
        self._where = where
        self._scope = where[2]
        self._clock = clock

    def files(self) -> list[NoteFile]:
        rows = self._execute(_FILES, self._scope).fetchall()
        return [NoteFile(to_text(path), *marks) for path, *marks in rows]

    def load(self, path: str) -> bytes | None:
        row = self._execute(_LOAD, self._scope, _place(path)).fetchone()
        return None if row is None else bytes(row[0])

    def save(self, path: str, data: bytes | None) -> None:
        if data is None:
            self._execute(_DELETE, self._scope, _place(path))
        else:
            now = self._clock()
            self._execute(_SAVE, *self._where, _place(path), to_bytes(path), data, now)

    def _execute(self, query: str, *values: object) -> Any:
        statement = self._connections.format(query).encode()
        return self._connection.execute(statement, values, binary=True)


def _place(path: str) -> bytes:
    """Return a path in the fixed length that an index takes."""
    return hashlib.sha256(to_bytes(path)).digest()
