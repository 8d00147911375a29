"""The connections of one process to one database, at most so many at a time.

Nothing depends on the state of a connection: each statement commits by itself or is part of one
transaction block, nothing is set for longer than a transaction, and the one statement that is
prepared may be missing (`prepared.py`). So a pooler that hands out connections by the transaction
can stand between.

A connection belongs to the process that made it. A child that was forked makes its own.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.errors import StoreUnavailable, UsageError
from holdfast.stores.postgres.failures import explain, explain_connect, is_lost, is_retryable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import psycopg

    from holdfast.stores.postgres.address import Address

    Connection = psycopg.Connection[tuple[Any, ...]]
    Row = tuple[Any, ...]

CONNECTIONS_MAX: Final = 8
"""Connections of one process. A server takes 100 by default, for all its clients together."""
_WAIT_SECONDS: Final = 30.0
"""Longer than any append takes; a thread that waits for a connection longer is told so."""
_CONNECT_SECONDS: Final = 10
"""Seconds that a connection may take, where the address does not say."""
RETRY_DELAYS: Final = (0.05, 0.2, 0.5, 1.0, 2.0, 3.0)
"""Seconds between tries after a lost connection: a server restarts in less than their sum."""
_CONFLICTS_MAX: Final = 1_000
"""Tries of a transaction that the server ended because of another: each one lets another pass."""

T = TypeVar("T")

_abandoned: list[object] = []
"""Connections of a parent process. Closing one here would end the parent's session."""


class Connections:
    """Runs statements, each on a connection of its own, and tries again what may be tried again."""

    def __init__(self, address: Address, *, limit: int = CONNECTIONS_MAX) -> None:
        self.address = address
        self._limit = limit
        self._has_connected = False
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._free = threading.BoundedSemaphore(self._limit)
        self._idle: list[Connection] = []
        """Added to and taken from in one step each, which needs no lock."""

    def rows(
        self, doing: str, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> list[Row]:
        """Run a statement that only reads; after a lost connection it is run again."""

        def read(connection: Connection) -> list[Row]:
            return connection.execute(self._sql(query), parameters, binary=True).fetchall()

        return self.run(doing, read)

    def run(self, doing: str, work: Callable[[Connection], T], *, is_repeatable: bool = True) -> T:
        """Do some work on a connection.

        Repeatable work is done again after a lost connection: it only reads, or doing it twice is
        the same as once. `work` that is not is done again only where the server rolled it back.
        """
        delays = iter(RETRY_DELAYS)
        for _conflict in range(_CONFLICTS_MAX):
            try:
                with self.use() as connection:
                    return work(connection)
            except _driver().Error as error:
                if is_retryable(error):
                    continue
                delay = next(delays, None)
                if not is_lost(error) or not is_repeatable or delay is None:
                    raise explain(error, doing, self.address) from error
                time.sleep(delay)
        raise StoreUnavailable(
            f"cannot {doing}: the database ended {_CONFLICTS_MAX:,} tries because of other writers",
            hint="nothing was changed; look for a client that holds locks for long",
        )

    @contextmanager
    def transaction(self, doing: str) -> Iterator[Connection]:
        """Hold a connection within a transaction, for work that cannot be repeated as a whole."""
        self.rows(doing, "SELECT 1")  # so that a connection that was lost meanwhile is replaced
        try:
            with self.use() as connection, connection.transaction():
                yield connection
        except _driver().Error as error:
            raise explain(error, doing, self.address, is_known=False) from error

    @contextmanager
    def use(self) -> Iterator[Connection]:
        """Hold a connection. One that fails is closed, and not used again."""
        connection = self._take()
        try:
            yield connection
        except BaseException as error:
            if not _is_clean(connection, error):
                connection.close()
            raise
        finally:
            self._give_back(connection)

    def _take(self) -> Connection:
        if self._pid != os.getpid():
            _abandoned.extend(self._idle)
            self._reset()
        if not self._free.acquire(timeout=_WAIT_SECONDS):
            raise StoreUnavailable(
                f"cannot use {self.address.shown}: all {self._limit} connections of this process "
                f"were busy for {_WAIT_SECONDS:g} s",
                hint="nothing was changed; use more processes, or look for statements that hang",
            )
        try:
            return self._idle.pop()
        except IndexError:
            pass
        try:
            return self.connect()
        except BaseException:
            self._free.release()
            raise

    def _give_back(self, connection: Connection) -> None:
        if not connection.closed:
            self._idle.append(connection)
        self._free.release()

    def close(self) -> None:
        """Close what is open and not in use."""
        if self._pid != os.getpid():
            return
        while self._idle:
            with suppress(IndexError):  # another thread took it
                self._idle.pop().close()

    def format(self, query: str) -> str:
        """Return a statement with the name of the schema in it."""
        return query.replace("{s}", f'"{self.address.schema}"')

    def _sql(self, query: str) -> bytes:
        return self.format(query).encode()

    def connect(self) -> Connection:
        """Open a connection, for the caller to close. A server that starts is asked again."""
        psycopg = _driver()
        delays = iter(RETRY_DELAYS)
        while True:
            try:
                connection: Connection = psycopg.connect(
                    self.address.conninfo,
                    autocommit=True,
                    prepare_threshold=None,  # a pooler may give the next statement to another
                    **_defaults(self.address.conninfo),
                )
            except psycopg.Error as error:
                failure = explain_connect(error, self.address)
                is_passing = failure.is_passing or (failure.is_unreachable and self._has_connected)
                delay = next(delays, None)
                if not is_passing or delay is None:
                    # Without the cause: a driver may quote what it could not parse.
                    raise failure.error from None
                time.sleep(delay)
            else:
                self._has_connected = True
                return connection


def _defaults(conninfo: str) -> dict[str, Any]:
    """Return settings of a connection that the address does not make."""
    wanted = {
        "connect_timeout": _CONNECT_SECONDS,
        "application_name": "holdfast",
        "client_encoding": "utf8",
    }
    return {name: value for name, value in wanted.items() if f"{name}=" not in conninfo}


def _is_clean(connection: Connection, error: BaseException) -> bool:
    """Return whether a connection can be used again after an error."""
    from psycopg.pq import TransactionStatus

    if connection.closed or connection.broken or is_lost(error):
        return False
    return connection.info.transaction_status == TransactionStatus.IDLE


def _driver() -> Any:
    """Return the driver, which only those who use a database have installed."""
    try:
        import psycopg
    except ImportError as error:
        raise UsageError(
            "cannot open a PostgreSQL database: its driver is not installed",
            hint="pip install 'holdfast[postgres]'",
        ) from error
    return psycopg
