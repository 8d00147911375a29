"""Who asks: bearer tokens, their owners and scopes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.registry import all_dialects
from holdfast.core.history.access import EVERY, OPERATOR, RIGHTS, Caller, Right
from holdfast.core.owners import ANY_OWNER, AnyOwner, OwnerFilter, owner_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.engine.access_tokens import AccessToken

TOKEN_COOKIE: Final = "holdfast_token"  # noqa: S105 - its name
"""The cookie in which a browser keeps its token."""


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
"""Anyone who can reach the loopback address of a server without tokens: a user of the machine."""


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


def read_token(headers: Mapping[str, str]) -> str:
    """Return the token of a request; empty where it has none.

    A client of a provider's API sends its token where that API has its key, and a browser in a
    cookie. The door refuses what pages of other origins send, but for links that a person follows,
    so that no other page can use it.
    """
    header = headers.get("authorization", "")
    if not header:
        return read_key(headers)
    kind, _, token = header.partition(" ")
    return token.strip() if kind.casefold() == "bearer" else ""


def client_of(token: AccessToken) -> Client:
    """Return the client that has a token."""
    owner = ANY_OWNER if token.owner == EVERY else owner_of(token.owner)
    return Client(token.name, owner, token.scope)
