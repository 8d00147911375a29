"""Digests of what is said, and the chains that conversations make of them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.text.cut import scrub_deep

if TYPE_CHECKING:
    from collections.abc import Iterable

AtomKind = Literal["system", "user", "result", "assistant"]
"""`system` is an instruction amid the conversation; those before it are terms, and no atoms."""

_DIGEST_BYTES: Final = 12
"""Of a hash: 96 bits, for conversations are compared with those of one store."""
_encoder: Final = msgspec.json.Encoder(order="sorted")


class Atom(msgspec.Struct, frozen=True, gc=False):
    """One thing that is said: a text, a call, a result, a block of another kind."""

    kind: AtomKind
    digest: bytes
    item: int
    """The index of the message, or the item, that says it."""
    block: int | None = None
    """The index of the block in it; None where the item is not a list of blocks."""


def start_chain(scope: str = "") -> bytes:
    return _hash(b"holdfast", scope.encode("utf-8", "surrogatepass"))


def extend_chain(chain: bytes, digests: Iterable[bytes]) -> bytes:
    """The hash of a conversation that goes on with these atoms."""
    for digest in digests:
        chain = _hash(chain, digest)
    return chain


def digest_of(value: object) -> bytes:
    """The hash of a JSON value, whatever the order of its keys."""
    return _hash(b"value", _encode(value))


def digest_as(kind: str, value: object) -> bytes:
    """The hash of something that is said in one way: as a text, a call, a result, a block."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else _encode(value)
    return _hash(kind.encode(), data)


def call_atom(name: object, given: object, index: int, place: int | None = None) -> Atom:
    """The atom of a tool call, whose arguments may be text."""
    if isinstance(given, str):
        text = given.strip()
        try:
            given = msgspec.json.decode(text) if text else {}
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            given = text
    digest = digest_as("call", [name, {} if given is None else given])
    return Atom("assistant", digest, index, place)


def _encode(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except (UnicodeEncodeError, OverflowError):  # half a character, a number of many digits
        return json.dumps(scrub_deep(value), sort_keys=True).encode()


def _hash(first: bytes, second: bytes) -> bytes:
    return hashlib.blake2b(second, digest_size=_DIGEST_BYTES, key=first[:64]).digest()
