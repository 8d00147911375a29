"""The bodies of queued messages, as stores keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from holdfast.core.text.cut import scrub, scrub_deep

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

_encoder: Final = msgspec.json.Encoder(order="sorted")


class _Placed(Protocol):
    @property
    def lane(self) -> str: ...
    @property
    def session(self) -> str: ...
    @property
    def body(self) -> Json: ...


def encode_body(body: Json) -> bytes:
    """Encode a body; equal bodies give equal bytes. Lone surrogates become U+FFFD."""
    try:
        return _encoder.encode(body)
    except UnicodeEncodeError:
        return _encoder.encode(scrub_deep(body))


def decode_body(data: bytes) -> Json:
    body: Json = msgspec.json.decode(data)
    return body


def is_same(stored: _Placed, message: _Placed) -> bool:
    """Return whether a message with the key of a stored one is that message again."""
    return (
        stored.lane == scrub(message.lane)
        and stored.session == scrub(message.session)
        and encode_body(stored.body) == encode_body(message.body)
    )
