"""Headers on their way through the proxy: all of them pass but those of the connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
    """The headers of a body that was written anew, and is not compressed."""
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
