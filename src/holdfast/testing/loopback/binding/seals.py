"""Seals: what a provider writes into a signature or a ciphertext, and reads when it comes back.

A seal says by itself what it was made behind, so nothing has to be stored to check it. Real ones
are encrypted; these are only protected against changes.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any, Final, Literal

import msgspec

from holdfast.core.text.typed import decode_typed

SIGNED: Final = b"loopback:"
_SECRET: Final = b"a loopback provider has no secrets to protect"
_MARK: Final = 12
"""Bytes that protect a seal: no test guesses them."""

Kind = Literal["thinking", "reasoning", "call", "text", "compaction"]


class Seal(msgspec.Struct, frozen=True, array_like=True):
    """Who made a block, and behind what."""

    kind: Kind
    model: str = ""
    account: str = ""
    number: int = 0
    """The request that it answered."""
    prefix: str = ""
    """The digest of everything before it."""
    before: str = ""
    """The name of the block of reasoning before it; empty for the first."""
    said: str = ""
    """The digest of its readable text; empty where none was shown."""
    user: str = ""
    """The end user, where the API binds to one."""
    head: str = ""
    """Of a compaction: the digest of system and tools."""
    role: str = ""
    """Of a compaction: the role of the last message that it stands for."""
    summary: str = ""
    """Of a compaction that cannot be read: what it stands for."""

    @property
    def name(self) -> str:
        """A short name by which later blocks refer to this one."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]


def write_seal(seal: Seal) -> str:
    """A seal as base64 text."""
    data = msgspec.json.encode(seal)
    return base64.b64encode(SIGNED + _protect(data) + data).decode()


def read_seal(text: str) -> Seal | None:
    """A seal that was written here; None for any other text, or one that was changed."""
    data = _decode(text)
    if not data.startswith(SIGNED):
        return None
    mark, data = data[len(SIGNED) :][:_MARK], data[len(SIGNED) :][_MARK:]
    if mark != _protect(data):
        return None
    try:
        return decode_typed(data, Seal)
    except msgspec.MsgspecError:
        return None


def is_sealed_here(text: str) -> bool:
    """Return whether a text claims to be a seal of a loopback, whole or not."""
    return _decode(text).startswith(SIGNED)


def digest(before: str, value: Any) -> str:
    """A digest of a value and of everything before it: values count, not their formatting."""
    try:
        data = msgspec.json.encode(value, order="sorted")
    except (TypeError, ValueError, RecursionError):
        data = repr(value).encode(errors="surrogatepass")
    return hashlib.sha256(before.encode() + data).hexdigest()[:24]


def digest_text(text: str) -> str:
    """A digest of a text; empty for none."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16] if text else ""


def _protect(data: bytes) -> bytes:
    return hashlib.sha256(_SECRET + data).digest()[:_MARK]


def _decode(text: str) -> bytes:
    """Google's package writes the base64 of addresses, however it came."""
    plain = text.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError:
        # A seal that was cut off, or has other characters in it, still shows where it came from.
        return SIGNED if plain.startswith(_START) else b""


_START: Final = base64.b64encode(SIGNED).decode()
