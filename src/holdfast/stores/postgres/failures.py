"""Errors of the server and its driver, as ours: one sentence and the next step.

Only the server's first sentence is quoted, never its details (they hold rows) nor the address with
its password.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import NotDurable, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from holdfast.stores.postgres.address import Address

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
        "somebody dropped it while it was in use; restore it, then open the store again",
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
            f"it is not known whether it was done to {doing}: the connection to {address.shown} "
            "was lost before the answer came",
            hint="when the server is back, look whether it was done before you do it again",
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
        hint=_UNCHANGED + "look into the server's log",
    )


def explain_connect(error: Any, address: Address) -> ConnectFailure:
    """Return our error for a connection that could not be made."""
    text = str(error)
    for number, (pattern, what, hint) in enumerate((*_CONNECT, _UNREACHABLE)):
        if pattern.search(text):
            failure = StoreUnavailable(f"cannot connect to {address.shown}: {what}", hint=hint)
            return ConnectFailure(failure, number < _PASSING, pattern is _UNREACHABLE[0])
    unknown = StoreUnavailable(
        f"cannot connect to {address.shown}: the driver gave another reason than those we know",
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
