"""The suites of the engine and of the surfaces, unchanged, over PostgreSQL.

Every test of `SUITES` is there twice: as it is written, and with `[postgres]` behind its name.
There, each store that it opens in this process is a database, whatever it asks for: a folder is a
schema of its own, the same one when the folder is opened again, and so is each store in memory.
`make test` takes a sample of them, 1 in 40, and `make nightly` all, with a tenth of the examples
of each property.

A test that cannot run there says so, with the reason: `@pytest.mark.files_only("it reads …")`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from hypothesis import settings
from tests.support.runs import EXAMPLES, RUN, is_in_share, is_whole

from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.stores.payloads import load_zstd
from holdfast.stores.postgres.store import PostgresStore
from holdfast.stores.search.sqlite import FILE_NAME
from holdfast.stores.sqlite_files import Key

if TYPE_CHECKING:
    from holdfast.ports import SessionStore
    from holdfast.testing.servers import PostgresServer

zstd = load_zstd()

SUITES: Final = ("engine", "integrations", "surfaces")
"""Folders of tests that run on every kind of store."""
FUNCTION_SHARE: Final = 1 / 8
"""Of the test functions, those that are there twice in `make test`: to make all takes seconds."""
SHARE: Final = 1 / 5
"""Of the tests that these make over PostgreSQL, those of `make test`."""
POSTGRES: Final = "postgres"

Contents = Callable[["str | os.PathLike[str]"], Iterator[tuple[str, bytes]]]
"""Returns everything that is stored below a root."""

TESTS: Final = Path(__file__).parents[1]
_SCHEMAS_AT_ONCE: Final = 50
_CONNECTIONS_MAX: Final = 4
"""Of a store: many tests leave theirs open until they end."""
_OPEN_MAX: Final = 20
"""Stores of a test that are connected while they rest."""
_TABLES: Final = """SELECT schemaname, tablename FROM pg_tables
  WHERE schemaname = ANY(%s) AND tablename <> 'version'"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Add each test of the suites a second time."""
    suite = metafunc.definition.path.relative_to(TESTS).parts[0]
    marker = metafunc.definition.get_closest_marker("files_only")
    if marker is not None and not (marker.args and suite in SUITES):
        pytest.fail(f"{metafunc.definition.nodeid}: `files_only` without a reason, or needlessly")
    if suite in SUITES and marker is None and _is_chosen(metafunc):
        as_written = pytest.param("as written", id=pytest.HIDDEN_PARAM)
        metafunc.parametrize("every_store", [as_written, POSTGRES], indirect=True)


def _is_chosen(metafunc: pytest.Metafunc) -> bool:
    is_alone = metafunc.config.getoption("store") == POSTGRES
    return is_alone or (RUN != "quick" and is_in_share(metafunc.definition.nodeid, FUNCTION_SHARE))


def is_on_postgres(item: pytest.Item) -> bool:
    """Return True for the second form of a test."""
    call = getattr(item, "callspec", None)
    return call is not None and call.params.get("every_store") == POSTGRES


@pytest.fixture(autouse=True)
def every_store(request: pytest.FixtureRequest) -> Iterator[Contents]:
    """Open what the test asks for; or a database in its place."""
    if getattr(request, "param", "") != POSTGRES:
        yield _read_files
        return
    schemas: Schemas = request.getfixturevalue("postgres_schemas")
    with pytest.MonkeyPatch.context() as patch:
        schemas.stand_in_for(JsonlStore, patch)
        schemas.stand_in_for(MemoryStore, patch)
        if is_whole():
            take_fewer_examples(request.function, patch)
        try:
            yield schemas.read_rows
        finally:
            schemas.clear()


def take_fewer_examples(function: object, patch: pytest.MonkeyPatch) -> None:
    """Run a property with as many examples as it states, and not with ten times as many.

    Its inputs are searched where it is as written; here the store is what is tried, and an example
    takes twenty times as long.
    """
    name = "_hypothesis_internal_use_settings"
    own: settings | None = getattr(function, name, None)
    if own is not None:
        fewer = max(1, own.max_examples * 100 // EXAMPLES["nightly"])
        patch.setattr(function, name, settings(own, max_examples=fewer))


@pytest.fixture
def contents(every_store: Contents) -> Contents:
    """Everything that is stored below a root, by name: each file, or all rows of each table."""
    return every_store


@pytest.fixture(scope="session")
def postgres_schemas(postgres_server: PostgresServer) -> Iterator[Schemas]:
    schemas = Schemas(postgres_server.address)
    yield schemas
    schemas.disconnect()


class Schemas:
    """Empty schemas, which stand for folders and for stores in memory until `clear`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._mutex = threading.Lock()
        self._numbers = count(1)
        self._free: list[str] = []
        self._used: dict[object, str] = {}
        self._opened: list[Callable[[], None]] = []
        self._lost: deque[object] = deque()
        """Stores in memory that nobody refers to any more."""
        self._connection: psycopg.Connection | None = None
        """Kept: the server starts a process for each."""

    def stand_in_for(self, cls: type[SessionStore], patch: pytest.MonkeyPatch) -> None:
        """Make a database of each object of a class that is made from now on."""
        init: Any = cls.__init__

        def open_database(store: Any, root: Any = None, **options: Any) -> None:
            if store.__class__ is not cls:  # a store that a test changes
                init(store, *([] if root is None else [root]), **options)
                return
            place = object() if root is None else os.path.realpath(root)
            address = self.address_of(place)
            made: Any = store
            made.__class__ = PostgresStore
            PostgresStore.__init__(made, address, connections_max=_CONNECTIONS_MAX, **options)
            self._opened.append(made._doorbell.close)
            self._opened.append(made._connections.close)
            for close in self._opened[-2 * _OPEN_MAX - 2 : -2 * _OPEN_MAX]:
                close()  # a property opens hundreds; one that is still used connects again
            if root is None:
                weakref.finalize(store, self._lost.append, place)

        patch.setattr(cls, "__init__", open_database)

    def address_of(self, place: object) -> str:
        """Return the address of the schema that stands for a place."""
        with self._mutex:
            self._empty([self._lost.popleft() for _ in range(len(self._lost))])
            if place not in self._used:
                new = f"every{next(self._numbers)}" if not self._free else self._free.pop()
                self._used[place] = new
            return f"{self._address}&schema={self._used[place]}"

    def clear(self) -> None:
        """Close the stores of a test, and empty their schemas for the next one."""
        for close in self._opened:
            close()
        self._opened.clear()
        with self._mutex:
            self._empty(list(self._used))

    def _empty(self, places: list[object]) -> None:
        schemas = [self._used.pop(place) for place in places if place in self._used]
        if not schemas:
            return
        try:
            self._delete_rows(schemas)
        except psycopg.OperationalError:  # a test restarted the server
            self.disconnect()
            self._delete_rows(schemas)
        self._free += schemas

    def _delete_rows(self, schemas: list[str]) -> None:
        if self._connection is None:
            self._connection = psycopg.connect(self._address, autocommit=True)
        # Some at a time: a transaction locks each table, and a property may leave 1,000 schemas.
        for start in range(0, len(schemas), _SCHEMAS_AT_ONCE):
            some = schemas[start : start + _SCHEMAS_AT_ONCE]
            found = self._connection.execute(_TABLES, [some]).fetchall()
            deletes = [f'DELETE FROM "{schema}"."{table}"' for schema, table in found]
            if deletes:
                self._connection.execute(";".join(deletes).encode())

    def disconnect(self) -> None:
        """Close the connection; it is made again when it is needed."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def read_rows(self, root: str | os.PathLike[str]) -> Iterator[tuple[str, bytes]]:
        schema = self._used.get(os.path.realpath(root))
        with psycopg.connect(self._address) as connection:
            for _, table in connection.execute(_TABLES, [[schema]]).fetchall():
                query = f'SELECT * FROM "{schema}"."{table}"'
                rows = connection.execute(query.encode(), binary=True).fetchall()
                values = [value for row in rows for value in row]
                yield table, b"\n".join(_unpacked(value) for value in values)


def _read_files(root: str | os.PathLike[str]) -> Iterator[tuple[str, bytes]]:
    for path in sorted(Path(root).rglob("*")):
        if path.is_file():
            more = read_index(path) if path.name == FILE_NAME else b""
            yield path.relative_to(root).as_posix(), _unpacked(path.read_bytes()) + more


def read_index(path: Path) -> bytes:
    """Return everything in a memory index that some key still makes readable."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        keys = [Key(*row) for row in db.execute("SELECT id, key FROM keys")]
        stored = [
            row[0]
            for column, table in SCRAMBLED
            for row in db.execute(f"SELECT {column} FROM {table}")
        ]
    return b"\n".join(_unpacked(key.restore(data)) for data in stored for key in keys)


SCRAMBLED: Final = (
    *(("facts", "sources"), ("data", "texts"), ("head", "segments"), ("data", "blocks")),
)
"""The columns of a memory index that have words in them."""


def _unpacked(value: object) -> bytes:
    """Return a value as bytes; and beside them what they hold, where they are compressed."""
    data = value if isinstance(value, bytes) else str(value).encode()
    with suppress(zstd.ZstdError):
        return data + bytes(zstd.decompress(data))
    return data
