"""The connections of one process to one database, at most so many at a time.

An address is `postgresql://user:password@host:port/database?schema=name`. Errors of the server and
its driver are ours here: one sentence and the next step.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from holdfast.core.secrets.addresses import describe_address
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import NotDurable, StoreError, StoreUnavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]
    Row = tuple[Any, ...]


_UNCHANGED: Final = "nothing was changed; "

_BY_STATE: Final[dict[str, tuple[str, str]]] = {
    "42P01": (
        "a table is missing from schema `{schema}`",
        "restore the schema from a backup, or use another one with `?schema=NAME`",
    ),
    "42883": (
        "a function is missing from schema `{schema}`",
        "restore the schema from a backup, or use another one with `?schema=NAME`",
    ),
    "42703": (
        "a column is missing from schema `{schema}`",
        "another program made or changed these tables; use another schema with `?schema=NAME`",
    ),
    "3F000": (
        "schema `{schema}` is gone",
        "it was dropped while it was in use; restore it, then open the store again",
    ),
    "42501": (
        "the role of the address may not do that in schema `{schema}`",
        "as the owner: GRANT USAGE ON SCHEMA {schema} TO the role, and SELECT, INSERT, UPDATE, "
        "DELETE ON ALL TABLES and USAGE ON ALL SEQUENCES in it",
    ),
    "25006": (
        "the server takes no writes now: it is a standby, or set to read-only",
        "use the address of the primary server",
    ),
    "53100": ("the disk of the server is full", "free space on the server, then try again"),
    "53200": ("the server has no memory left", "try again; look at the load of the server"),
    "53300": (
        "the server takes no more connections",
        "raise max_connections, or put a pooler between",
    ),
    "57014": (
        "the server cancelled the statement",
        "try again; raise statement_timeout for this role if it happens again",
    ),
    "55P03": (
        "another client holds the lock for too long",
        "look for it in pg_locks, then try again",
    ),
}
"""For SQLSTATE codes: what happened, and what to do."""

_LOST_STATES: Final = frozenset(("57P01", "57P02", "57P03", "57P05", "08000", "08003", "08006"))
"""The server shut down, crashed, or closed the connection."""
_ROLLED_BACK: Final = frozenset(("40001", "40P01"))
"""The server undid a transaction because of another one; nothing of it was kept."""

_UNREACHABLE: Final = (
    lazy_pattern(r"(?i)refused|no such file|timeout|timed out|unreachable|closed the connection"),
    "nothing answers at that address",
    "check that the server runs, and the host and port of the address",
)
_CONNECT: Final = (
    (
        lazy_pattern(r"(?i)starting up|shutting down|recovery mode|not yet accepting"),
        "the server is starting or stopping",
        "try again in a moment",
    ),
    (
        lazy_pattern(
            r"(?i)too many (clients|connections)|remaining connection slots|pool.{0,80}full"
        ),
        "the server takes no more connections",
        "raise max_connections, or put a pooler between",
    ),
    (
        lazy_pattern(r"(?i)password authentication failed|no password supplied|SASL|pg_hba"),
        "the server refuses the user or its password",
        "check both; write special characters of a password as %XX, or keep it in ~/.pgpass",
    ),
    (
        lazy_pattern(r'(?i)role "[^"\n]*+" does not exist'),
        "the server has no such user",
        "check the user of the address, or make it with CREATE ROLE … LOGIN",
    ),
    (
        lazy_pattern(r'(?i)database "[^"\n]*+" does not exist'),
        "the server has no such database",
        "check the name after the last `/`, or make it with CREATE DATABASE",
    ),
    (
        lazy_pattern(r"(?i)resolve host|translate host|name or service|nodename|address family"),
        "there is no such host",
        "check the host of the address",
    ),
    (
        lazy_pattern(r"(?i)certificate|ssl|tls"),
        "no encrypted connection could be agreed on",
        "check `sslmode` and `sslrootcert` in the address",
    ),
)
"""Messages of a failed connection, which has no code: first match."""
_PASSING: Final = 2
"""The first so many of them pass by themselves."""


class ConnectFailure(NamedTuple):
    """A connection that could not be made."""

    error: StoreError
    is_passing: bool
    """The server is restarting, or full: asking again helps."""
    is_unreachable: bool
    """Nothing answers. Where something did before, asking again helps."""


def is_lost(error: BaseException | None) -> bool:
    """Return whether the connection is gone, so that the outcome of a statement is not known."""
    import psycopg

    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return error.sqlstate is None or error.sqlstate in _LOST_STATES


def is_retryable(error: BaseException) -> bool:
    """Return whether the server rolled a transaction back because of another one."""
    return getattr(error, "sqlstate", None) in _ROLLED_BACK


def explain(error: Any, doing: str, address: Address, *, is_known: bool = True) -> StoreError:
    """Return our error for one of a statement.

    After a lost connection, `is_known` says whether the outcome is: a read changed nothing.
    """
    state = error.sqlstate or ""
    if is_lost(error) and not is_known:
        return NotDurable(
            f"it is not known whether this succeeded: {doing}: the connection to {address.shown} "
            "was lost before the answer came",
            hint="when the server is back, check whether it succeeded before you repeat it",
        )
    if is_lost(error):
        return StoreUnavailable(
            f"cannot {doing}: the connection to {address.shown} was lost",
            hint="check that the server runs, and try again",
        )
    if state in _BY_STATE:
        what, hint = (text.format(schema=address.schema) for text in _BY_STATE[state])
        return StoreUnavailable(f"cannot {doing}: {what}", hint=_UNCHANGED + hint)
    said = error.diag.message_primary or type(error).__name__
    return StoreError(
        f"cannot {doing}: the database refused ({state or 'no code'}: {said})",
        hint=_UNCHANGED + "see the server's log",
    )


def explain_connect(error: Any, address: Address) -> ConnectFailure:
    """Return our error for a connection that could not be made."""
    text = str(error)
    for number, (pattern, what, hint) in enumerate((*_CONNECT, _UNREACHABLE)):
        if pattern.search(text):
            failure = StoreUnavailable(f"cannot connect to {address.shown}: {what}", hint=hint)
            return ConnectFailure(failure, number < _PASSING, pattern is _UNREACHABLE[0])
    unknown = StoreUnavailable(
        f"cannot connect to {address.shown}: the driver gave an unknown reason",
        hint="try the same address with `psql`, which shows it",
    )
    return ConnectFailure(unknown, is_passing=False, is_unreachable=False)


def explain_unknown_outcome(address: Address, session: str, record: str) -> NotDurable:
    """Return the error of an append after which the server could not be asked any more."""
    return NotDurable(
        f"it is not known whether the append to session `{session}` was stored: the connection "
        f"to {address.shown} was lost, and could not be made again",
        hint=f"when the server is back, look for record `{record}` before you append again: "
        "it was stored if and only if that record is there",
    )


KINDS: Final = ("postgresql", "postgres")
"""Address kinds that PostgreSQL's own tools take."""
DEFAULT_SCHEMA: Final = "holdfast"
_EXAMPLE: Final = "postgresql://user@host/database"
_SCHEMA: Final = lazy_pattern(r"[a-z_][a-z0-9_]{0,47}")
"""Unquoted names of PostgreSQL, short enough to leave room for the names of indexes."""


class Address(NamedTuple):
    """A database and the schema in it that holds the tables."""

    conninfo: str
    """The address as the driver takes it. It may hold a password: never show it."""
    schema: str
    shown: str
    """The address without passwords, for messages."""

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"


def read_address(address: str) -> Address:
    """Split an address. Raises `UsageError` where it cannot be one; no message quotes it."""
    try:
        parts = urlsplit(address)
        _port = parts.port  # raises where it is not a number
    except ValueError:
        raise _bad_address() from None
    if parts.scheme not in KINDS:
        raise _bad_address()
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    schema = dict(parameters).get("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        raise UsageError(
            f"cannot use the schema {schema[:80]!r} of a database",
            hint="use lower-case letters, digits and `_`, at most 48, as in `?schema=holdfast`",
        )
    kept = [(name, value) for name, value in parameters if name != "schema"]
    conninfo = urlunsplit(parts._replace(query=_query(kept)))
    return Address(conninfo, schema, describe_address(address))


def _query(parameters: list[tuple[str, str]]) -> str:
    return urlencode(parameters, quote_via=quote, safe="/")


def _bad_address() -> UsageError:
    return UsageError(
        "cannot read the address of the database: it is not of the form that PostgreSQL uses",
        hint=f"write it as `{_EXAMPLE}`; write special characters of a password as %XX",
    )


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
