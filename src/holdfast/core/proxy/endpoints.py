"""The address of a client's request: its upstream, its dialect, and whether a model replies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.registry import IMITATED, all_dialects, find_dialect
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from holdfast.core.dialects.dialect import Dialect


OWN_PATH: Final = "/holdfast"
"""Addresses below it are the proxy's own."""
_SESSION_PATH: Final = lazy_pattern(rf"{OWN_PATH}/session/([^/]+)(/.*)")


class Endpoint(msgspec.Struct, frozen=True):
    """The server, the path and the dialect of a request."""

    upstream: str
    """The name of the server."""
    path: str
    """The path to ask it for."""
    dialect: str
    """The dialect of the client, for errors."""
    is_turn: bool = False
    """True where a model replies to a conversation. Everything else is passed on unread."""
    session: str = ""
    """The session that the path names."""
    model: str = ""
    """The model that the path names."""


def find_endpoint(path: str, headers: Mapping[str, str], upstreams: Container[str]) -> Endpoint:
    """Find the endpoint of a path. `headers` have small names, `upstreams` are known names.

    The first part of a path may name an upstream (`/groq/v1/chat/completions`); otherwise path
    and headers tell whose API it is. Raises `BadSetting` where the path names no upstream.
    """
    session = ""
    named = _SESSION_PATH.fullmatch(path)
    if named is not None:
        session, path = named[1], named[2]
    elif path == OWN_PATH or path.startswith(f"{OWN_PATH}/"):
        raise BadSetting(
            f"the proxy has no address `{path[:200]}`",
            hint=f"{OWN_PATH}/session/NAME/… sends a request to the session NAME",
        )
    first, _, rest = path.lstrip("/").partition("/")
    if first in upstreams:
        name, path = first, f"/{rest}"
    else:
        name = guess_client(path, headers).body.upstream
    for dialect in all_dialects():
        model = dialect.body.find_turn(path)
        if model is not None:
            return Endpoint(name, path, dialect.name, is_turn=True, session=session, model=model)
    return Endpoint(name, path, _guess_dialect(path, name, headers), session=session)


def guess_client(path: str, headers: Mapping[str, str]) -> Dialect:
    """The dialect of a client by what only its provider's requests have."""
    own = (known for known in all_dialects() if known.body.owns_request(path, headers))
    return next(own, None) or find_dialect(IMITATED)


def _guess_dialect(path: str, upstream: str, headers: Mapping[str, str]) -> str:
    every = all_dialects()
    found = [known for known in every if known.body.upstream == upstream]
    found = found or [known for known in every if known.body.owns_path(path)]
    return found[0].name if found else guess_client(path, headers).name
