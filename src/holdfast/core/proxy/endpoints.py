"""The address of a client's request: its upstream, its dialect, and whether a model answers it.

All headers pass but those of the connection. Errors of the proxy are in the dialect of the client,
so that its SDK shows our sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.registry import IMITATED, all_dialects, find_dialect
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from holdfast.core.dialects.dialect import Dialect
    from holdfast.core.log.records import Json

    Headers = Sequence[tuple[bytes, bytes]]


_HOP_BY_HOP: Final = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization"),
        *(b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"),
    )
)
_OWN: Final = b"x-holdfast-"
"""Headers of the proxy itself; what a client says in them is for the proxy alone."""
READABLE_ENCODINGS: Final = ("gzip", "deflate", "zstd")
"""Encodings that the proxy can read, of requests and of replies."""
_OFFERED: Final = frozenset((b"identity", b"x-gzip", *map(str.encode, READABLE_ENCODINGS)))


def names_of_connection(headers: Headers) -> frozenset[bytes]:
    """The headers that belong to one connection alone."""
    named = (value for name, value in headers if name.lower() == b"connection")
    words = (word.strip().lower() for value in named for word in value.split(b","))
    return _HOP_BY_HOP | set(words)


def request_headers(headers: Headers, *, is_read: bool) -> list[tuple[bytes, bytes]]:
    """The headers for the upstream, without `Host` and the length, which follow from the request.

    Where the reply `is_read`, encodings that the proxy cannot read are not offered.
    """
    left_out = names_of_connection(headers) | {b"host", b"content-length"}
    passed = [
        (name, value)
        for name, value in headers
        if name.lower() not in left_out and not name.lower().startswith(_OWN)
    ]
    if not is_read:
        return passed
    return [
        (name, readable_encodings(value) if name.lower() == b"accept-encoding" else value)
        for name, value in passed
    ]


def without_encoding(headers: Headers) -> list[tuple[bytes, bytes]]:
    """The headers of a body that was rewritten, and is not compressed."""
    return [(name, value) for name, value in headers if name.lower() != b"content-encoding"]


def without_compression(headers: Headers) -> list[tuple[bytes, bytes]]:
    """The headers of a request whose reply is to come plain."""
    kept = [(name, value) for name, value in headers if name.lower() != b"accept-encoding"]
    return [*kept, (b"accept-encoding", b"identity")]


def without_size(headers: Headers) -> list[tuple[bytes, bytes]]:
    """The headers of an answer whose body is not as it came."""
    left_out = (b"content-length", b"content-encoding")
    return [(name, value) for name, value in headers if name.lower() not in left_out]


def readable_encodings(value: bytes) -> bytes:
    """Of the encodings that a client takes, those that can be read here, in its order."""
    offered = [part.strip() for part in value.split(b",")]
    kept = [part for part in offered if part.partition(b";")[0].strip().lower() in _OFFERED]
    return b", ".join(kept) or b"identity"


def response_headers(headers: Headers, added: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """The headers for the client, with the proxy's own."""
    left_out = names_of_connection(headers)
    passed = [(name.lower(), value) for name, value in headers if name.lower() not in left_out]
    return [*passed, *_encode(added.items())]


def _encode(pairs: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1", "replace")) for name, value in pairs]


class ProxyProblem(Exception):
    """A refusal of the proxy itself. It stands beside the errors of the upstreams, and goes to a
    client as an HTTP answer."""

    def __init__(
        self,
        status: int,
        what: str,
        hint: str,
        *,
        code: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(what)
        self.headers = dict(headers or {})
        self.status = status
        self.what = what
        self.hint = hint
        self.code = code or "holdfast_proxy"
        self.speaker = "Holdfast proxy"

    @property
    def sentence(self) -> str:
        """The sentence for a person."""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.speaker}: {self.what}{hint}"


def error_json(problem: ProxyProblem, dialect: str) -> Json:
    """The body of an error."""
    body = find_dialect(dialect).body
    return body.write_error(problem.status, problem.sentence, problem.code)


def error_event(problem: ProxyProblem, dialect: str) -> bytes:
    """The event that ends a stream which broke off, as the provider itself would send it."""
    body = find_dialect(dialect).body
    return body.write_error_event(problem.status, problem.sentence, problem.code)


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
    is_addressed: bool = False
    """True where the path names the upstream."""


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
    is_addressed = first in upstreams
    if is_addressed:
        name, path = first, f"/{rest}"
    else:
        name = guess_client(path, headers).body.upstream
    for dialect in all_dialects():
        model = dialect.body.find_turn(path)
        if model is not None:
            return Endpoint(
                name,
                path,
                dialect.name,
                is_turn=True,
                session=session,
                model=model,
                is_addressed=is_addressed,
            )
    dialect_name = _guess_dialect(path, name, headers)
    return Endpoint(name, path, dialect_name, session=session, is_addressed=is_addressed)


def guess_client(path: str, headers: Mapping[str, str]) -> Dialect:
    """The dialect of a client by what only its provider's requests have."""
    own = (known for known in all_dialects() if known.body.owns_request(path, headers))
    return next(own, None) or find_dialect(IMITATED)


def _guess_dialect(path: str, upstream: str, headers: Mapping[str, str]) -> str:
    every = all_dialects()
    found = [known for known in every if known.body.upstream == upstream]
    found = found or [known for known in every if known.body.owns_path(path)]
    return found[0].name if found else guess_client(path, headers).name
