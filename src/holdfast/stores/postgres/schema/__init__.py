"""The tables, and the steps that bring a database from one version of them to the next.

Steps only go forward, and only add: a process of an older version goes on beside a newer schema for
as long as `oldest` allows it. They run in one transaction under a lock, so that of many processes
that start at once one makes the tables, and a crash leaves the version before.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.errors import StoreUnavailable
from holdfast.stores.postgres.schema.functions import FUNCTIONS_1
from holdfast.stores.postgres.schema.tables import TABLES_1, TABLES_2

if TYPE_CHECKING:
    from holdfast.stores.postgres.connections import Connection, Connections

VERSION: Final = 2
"""The version of the tables that this code works with."""

LIVE: Final = 0
"""The state of a session that can be opened."""
TRASHED: Final = 1
"""The state of a session in the trash."""
ERASING: Final = 2
"""The state of a session whose erasure has begun."""

STEPS: Final = (TABLES_1 + FUNCTIONS_1, TABLES_2)
"""The statements that lead from each version to the next."""
assert len(STEPS) == VERSION

_COMPRESSION: Final = "ALTER TABLE {s}.records ALTER COLUMN line SET COMPRESSION lz4"
_LOCK: Final = 0x686F6C64
"""The advisory lock of every change of a schema, on one server ("hold")."""


def prepare(connections: Connections) -> None:
    """Make the tables, or bring them to this version; raises where that cannot be done."""
    if _read_version(connections) < VERSION:
        connections.run("make the tables", lambda connection: _migrate(connections, connection))


def _read_version(connections: Connections) -> int:
    """Return the version of the tables, 0 where there are none. Raises where they are too new."""
    schema = connections.address.schema
    query = "SELECT to_regclass(%s) IS NOT NULL"
    is_there = connections.rows("open the database", query, [f'"{schema}".version'])[0][0]
    if not is_there:
        return 0
    found = connections.rows("read its version", "SELECT version, oldest FROM {s}.version")
    version, oldest = found[0] if found else (0, 0)
    if oldest > VERSION:
        raise StoreUnavailable(
            f"cannot open {connections.address.shown}: its tables have version {version}, and "
            f"this Holdfast works with version {VERSION}",
            hint="nothing was changed; install the newer Holdfast on this machine too",
        )
    return int(version)


def _migrate(connections: Connections, connection: Connection) -> None:
    def execute(query: str) -> None:
        connection.execute(connections.format(query).encode())

    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        execute("CREATE SCHEMA IF NOT EXISTS {s}")
        execute(
            "CREATE TABLE IF NOT EXISTS {s}.version (version integer NOT NULL, oldest integer "
            "NOT NULL)"
        )
        row = connection.execute(
            connections.format("SELECT version FROM {s}.version FOR UPDATE").encode()
        ).fetchone()
        done = row[0] if row else 0
        if not row:
            execute("INSERT INTO {s}.version VALUES (0, 0)")
        for step in STEPS[done:]:
            execute(step)
        if done == 0:
            _compress(connection, connections.format(_COMPRESSION))
        connection.execute(
            connections.format("UPDATE {s}.version SET version = %s, oldest = 1").encode(),
            [VERSION],
        )


def _compress(connection: Connection, statement: str) -> None:
    """Use the faster compression, where the server was built with it."""
    import psycopg

    with suppress(psycopg.Error), connection.transaction():
        connection.execute(statement.encode())
