"""Who asks: bearer tokens, their owners and scopes."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.registry import all_dialects
from holdfast.core.history.access import EVERY, OPERATOR, Caller
from holdfast.core.owners import ANY_OWNER, AnyOwner, OwnerFilter, owner_of
from holdfast.engine.operations.operation import RIGHTS, Right
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOKEN_COOKIE: Final = "holdfast_token"  # noqa: S105 - its name
"""The cookie in which a browser keeps its token."""
_PREFIX: Final = "holdfast_"
_TOKEN_BYTES: Final = 32
"""Random bytes; nobody guesses as many."""


class TokenSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token as the settings keep it: its hash, never the token."""

    name: str
    sha256: str
    owner: str = ""
    """The owner whose sessions it opens; `*` for every owner."""
    scope: Right = "read"
    expires: float | None = None
    """Seconds since 1970."""

    def __post_init__(self) -> None:
        if len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef"):
            raise BadSetting(
                f"the token `{self.name}` has no SHA-256 hash",
                hint="make one with `holdfast serve --new-token NAME`",
            )


class Client(msgspec.Struct, frozen=True):
    """The one who sent a request."""

    name: str
    owner: OwnerFilter
    """Any, for the operator."""
    scope: Right

    @property
    def is_operator(self) -> bool:
        return isinstance(self.owner, AnyOwner)

    def may(self, scope: Right) -> bool:
        return RIGHTS.index(self.scope) >= RIGHTS.index(scope)

    @property
    def caller(self) -> Caller:
        """The client as the engine knows it: every agent, one owner."""
        if isinstance(self.owner, AnyOwner):
            return OPERATOR
        return Caller("", None, owner=self.owner, visibility="all", agents=(EVERY,))


LOCAL: Final = Client("local", ANY_OWNER, "admin")
"""Whoever can reach the loopback address of a server without tokens: a user of the machine."""


def new_token() -> tuple[str, str]:
    """Return a token and the hash to keep of it. The token can be shown once."""
    token = _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    return token, hash_token(token)


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_cookie(headers: Mapping[str, str]) -> str:
    """Return the token in a `Cookie` header; empty where it has none.

    A token has no character that a cookie quotes, so nothing is unquoted: that takes quadratic
    time in the libraries.
    """
    for pair in headers.get("cookie", "").split(";"):
        name, _, value = pair.partition("=")
        if name.strip() == TOKEN_COOKIE:
            return value.strip()
    return ""


def read_key(headers: Mapping[str, str]) -> str:
    """Return the token in the header of a provider's API, or in a cookie; empty where there is
    none."""
    names = (dialect.body.key_header for dialect in all_dialects())
    given = (headers[name].strip() for name in names if name in headers)
    return next(given, "") or read_cookie(headers)


def find_client(
    header: str, tokens: Sequence[TokenSettings], now: float | None = None
) -> Client | None:
    """Return the client of an `Authorization` header; None where it is not known any more."""
    kind, _, token = header.partition(" ")
    if kind.casefold() != "bearer" or not token:
        return None
    given, moment = hash_token(token.strip()), time.time() if now is None else now
    found = None
    for known in tokens:  # all of them, so that the time tells nothing
        if hmac.compare_digest(known.sha256, given):
            found = known
    if found is None or (found.expires is not None and found.expires <= moment):
        return None
    owner = ANY_OWNER if found.owner == EVERY else owner_of(found.owner)
    return Client(found.name, owner, found.scope)
