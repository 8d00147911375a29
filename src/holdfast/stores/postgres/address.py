"""The address of a database: `postgresql://user:password@host:port/database?schema=name`.

The part that may be shown and the part that may not are kept apart here, once. A password is in
`Address.conninfo` and in nothing else.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from holdfast.core.secrets.addresses import describe_address
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import UsageError

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
        _port = parts.port  # raises where it is no number
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
