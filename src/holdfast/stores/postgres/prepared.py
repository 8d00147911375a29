"""A statement that the server parses once for each of its connections.

The driver prepares statements under names of its own, which mean another statement in another
process: behind a pooler that hands out connections by the transaction, the wrong one would run.
Here the name is a hash of the text, so anyone who finds the name on a connection finds this
statement. Where it is not there, it is prepared; where another has prepared it, it is used.
"""

from __future__ import annotations

import hashlib
import select
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg.pq.abc import PGconn, PGresult

    from holdfast.stores.postgres.connections import Connection

    Values = Sequence[bytes | None]
    Row = tuple[bytes | None, ...]

TYPES: Final = {
    "bool": 16,
    "bytea": 17,
    "int8": 20,
    "text": 25,
    "float8": 701,
    "bytea[]": 1001,
    "text[]": 1009,
    "int8[]": 1016,
    "float8[]": 1022,
    "jsonb": 3802,
    "jsonb[]": 3807,
}
"""The numbers of built-in types, the same on every server."""
TRUE: Final = b"\1"
"""A `bool` that is true."""
_BINARY: Final = 1
_IDLE: Final = 0  # as in `psycopg.pq`, whose names are dear to import at every call
_BAD: Final = 1
_FATAL_ERROR: Final = 7
_PIPELINE_SYNC: Final = 10
_TRIES_MAX: Final = 100
"""Times that a pooler may hand out a connection for which we guessed wrong."""

_pack_number = struct.Struct(">q").pack
_unpack_number = struct.Struct(">q").unpack
_pack_float = struct.Struct(">d").pack
_pack_length = struct.Struct(">i").pack
_pack_array = struct.Struct(">iiiii").pack
_pack_item = struct.Struct(">iq").pack
_iterate_items = struct.Struct(">iq").iter_unpack
_ARRAY_HEAD_BYTES: Final = 20
"""Five numbers of four bytes, before the items."""
_NULL_ITEM: Final = _pack_length(-1)
_EIGHT: Final = _pack_length(8)


pack_int: Final[Callable[[int], bytes]] = _pack_number
"""Returns an `int8`."""
pack_float: Final[Callable[[float], bytes]] = _pack_float
"""Returns a `float8`."""


def pack_bool(value: object) -> bytes:
    """Return a `bool`."""
    return TRUE if value else b"\0"


def pack_jsonb(text: str | None) -> bytes | None:
    """Return a `jsonb`, from its text."""
    return None if text is None else b"\1" + text.encode()


def pack_array(kind: str, items: Sequence[bytes | None]) -> bytes:
    """Return an array that is not empty, of values of a type that are packed."""
    head = _pack_array(1, None in items, TYPES[kind], len(items), 1)
    return head + b"".join(
        [_NULL_ITEM if item is None else _pack_length(len(item)) + item for item in items]
    )


def pack_bytes_array(items: Sequence[bytes | None]) -> bytes:
    """Return a `bytea[]` that is not empty."""
    return pack_array("bytea", items)


def pack_int_array(items: Sequence[int]) -> bytes:
    """Return an `int8[]` that is not empty."""
    head = _pack_array(1, 0, TYPES["int8"], len(items), 1)
    return head + b"".join([_pack_item(8, item) for item in items])


def pack_fixed_array(kind: str, items: Sequence[bytes]) -> bytes:
    """Return an array that is not empty, of packed values that are all 8 bytes long."""
    return _pack_array(1, 0, TYPES[kind], len(items), 1) + _EIGHT + _EIGHT.join(items)


def unpack_int(data: bytes) -> int:
    """Return the number of an `int8`."""
    return int(_unpack_number(data)[0])


def unpack_int_array(data: bytes) -> list[int]:
    """Return the numbers of an `int8[]`."""
    return [item for _length, item in _iterate_items(data[_ARRAY_HEAD_BYTES:])]


class PreparedStatement:
    """A statement with parameters and results in binary form."""

    def __init__(self, query: str, types: Sequence[str]) -> None:
        self._query = query.encode()
        self._name = b"holdfast_" + hashlib.sha256(self._query).hexdigest()[:24].encode()
        self._types = [TYPES[name] for name in types]
        self._formats = [_BINARY] * len(types)
        self._known: WeakSet[Connection] = WeakSet()
        """The connections on which it was found or prepared."""

    def run(self, connection: Connection, calls: Sequence[Values]) -> list[Row]:
        """Run the statement once for each of `calls`; returns the row of each, empty for none.

        They are one transaction and one round trip, or a part of the transaction that is open.
        """
        import psycopg

        if connection.pgconn.transaction_status != _IDLE:
            return [self._send_in_transaction(connection.pgconn, values) for values in calls]
        raised: psycopg.Error | None = None
        is_new = connection not in self._known
        for _try in range(_TRIES_MAX):
            try:
                rows = self._send(connection.pgconn, calls, is_new=is_new)
            except psycopg.errors.InvalidSqlStatementName as error:
                is_new, raised = True, error
            except psycopg.errors.DuplicatePreparedStatement as error:
                is_new, raised = False, error
            else:
                self._known.add(connection)
                return rows
        assert raised is not None
        raise raised

    def _send(self, pgconn: PGconn, calls: Sequence[Values], *, is_new: bool) -> list[Row]:
        if len(calls) == 1 and not is_new:
            pgconn.send_query_prepared(self._name, list(calls[0]), self._formats, _BINARY)
            return _rows(_receive(pgconn))
        pgconn.enter_pipeline_mode()
        try:
            if is_new:
                pgconn.send_prepare(self._name, self._query, self._types)
            for values in calls:
                pgconn.send_query_prepared(self._name, list(values), self._formats, _BINARY)
            pgconn.pipeline_sync()  # ends the transaction
            return _rows(_receive_pipeline(pgconn)[is_new:])
        finally:
            with suppress(Exception):  # one that is broken is not used again
                pgconn.exit_pipeline_mode()

    def _send_in_transaction(self, pgconn: PGconn, values: Values) -> Row:
        """Send the text too: a name that is not there would end the transaction."""
        pgconn.send_query_params(self._query, list(values), self._types, self._formats, _BINARY)
        return _rows(_receive(pgconn))[0]


def _receive(pgconn: PGconn) -> list[PGresult]:
    """Return the results of a statement; raises for one that failed."""
    wait = _poller(pgconn)
    results = []
    while (result := _fetch(pgconn, wait)) is not None:
        results.append(result)
    return _raise_errors(pgconn, results)


def _receive_pipeline(pgconn: PGconn) -> list[PGresult]:
    """Return the results of all statements of a pipeline; raises for the first that failed."""
    wait = _poller(pgconn)
    results: list[PGresult] = []
    is_end = False
    while True:
        result = _fetch(pgconn, wait)
        if result is None:
            if is_end:  # after the results of a statement comes one end, or the line is broken
                return _raise_errors(pgconn, results)
            is_end = True
        elif result.status == _PIPELINE_SYNC:
            return _raise_errors(pgconn, results)
        else:
            results.append(result)
            is_end = False


def _poller(pgconn: PGconn) -> Callable[[], object]:
    """Send what waits to be sent; returns a function that waits for input."""
    poller = select.poll()
    while pgconn.flush():
        poller.register(pgconn.socket, select.POLLIN | select.POLLOUT)
        for _fd, events in poller.poll():
            if events & ~select.POLLOUT:
                pgconn.consume_input()  # the server may wait until we read
    poller.register(pgconn.socket, select.POLLIN)
    return poller.poll


def _fetch(pgconn: PGconn, wait: Callable[[], object]) -> PGresult | None:
    while pgconn.is_busy():
        wait()
        pgconn.consume_input()
    return pgconn.get_result()


def _raise_errors(pgconn: PGconn, results: list[PGresult]) -> list[PGresult]:
    """Return the results; raises for the first that is an error, and for a lost connection."""
    import psycopg

    for result in results:
        if result.status == _FATAL_ERROR:
            error = psycopg.errors.error_from_result(result)
            raise error if error.sqlstate else psycopg.OperationalError(str(error))
    if not results or pgconn.status == _BAD:
        raise psycopg.OperationalError("the connection was lost")
    return results


def _rows(results: list[PGresult]) -> list[Row]:
    return [
        tuple([result.get_value(0, column) for column in range(result.nfields * result.ntuples)])
        for result in results
    ]
