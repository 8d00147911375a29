"""The address of a client's request: its upstream, its dialect, and whether a model replies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from holdfast.core.models.catalog import DialectName

OWN_PATH: Final = "/holdfast"
"""Addresses below it are the proxy's own."""
_SESSION_PATH: Final = lazy_pattern(rf"{OWN_PATH}/session/([^/]+)(/.*)")
_GEMINI_PATH: Final = lazy_pattern(
    r"(?:.*)/(?:models|tunedModels)/([^/:]+):(?:streamG|g)enerateContent"
)
"""Of Gemini's own API, and of the longer addresses of Vertex."""
_ANTHROPIC_PATH: Final = lazy_pattern(r"(.*)/(messages(/.*)?|complete)")
_ENDINGS: Final[Mapping[str, DialectName]] = {
    "/messages": "anthropic",
    "/chat/completions": "openai-chat",
    "/responses": "openai-responses",
}
_DIALECTS: Final[Mapping[str, DialectName]] = {
    "anthropic": "anthropic",
    "openai": "openai-chat",
    "gemini": "gemini",
}


class Endpoint(msgspec.Struct, frozen=True):
    """The server, the path and the dialect of a request."""

    upstream: str
    """The name of the server."""
    path: str
    """The path to ask it for."""
    dialect: DialectName
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
        name = _guess_upstream(path, headers)
    ending = next((ending for ending in _ENDINGS if path.endswith(ending)), "")
    dialect = _ENDINGS.get(ending) or _guess_dialect(path, name, headers)
    gemini = _GEMINI_PATH.fullmatch(path)
    if gemini is not None:
        return Endpoint(name, path, "gemini", is_turn=True, session=session, model=gemini[1])
    return Endpoint(name, path, dialect, is_turn=bool(ending), session=session)


def _guess_upstream(path: str, headers: Mapping[str, str]) -> str:
    if "anthropic-version" in headers or _ANTHROPIC_PATH.fullmatch(path):
        return "anthropic"
    if "x-goog-api-key" in headers or path.startswith("/v1beta/") or _GEMINI_PATH.fullmatch(path):
        return "gemini"
    return "openai"


def _guess_dialect(path: str, upstream: str, headers: Mapping[str, str]) -> DialectName:
    if upstream in _DIALECTS:
        return _DIALECTS[upstream]
    if re.search("/responses(/|$)", path):
        return "openai-responses"
    return _DIALECTS[_guess_upstream(path, headers)]
