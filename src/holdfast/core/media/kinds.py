"""The media type of a payload by its first bytes, never by its label."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.typed import convert_typed

HEAD_CHARS: Final = 256
"""Characters of base64 that tell every kind."""
_KINDS: Final = (
    (b"\x89PNG\r\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)
_BRANDS: Final = {
    **dict.fromkeys((b"heic", b"heix", b"hevc", b"heim", b"heis"), "image/heic"),
    **dict.fromkeys((b"mif1", b"msf1"), "image/heif"),
    **dict.fromkeys((b"avif", b"avis"), "image/avif"),
}
"""Kinds of pictures in a container of films, by its brand."""
_SPACE: Final = lazy_pattern(r"\s+")
_NOT_BASE64: Final = lazy_pattern(r"[^A-Za-z0-9+/]")


def kind_of(data: str) -> str:
    """Return the media type that a base64 payload begins like; empty for an unknown one."""
    head = decode_head(data[:HEAD_CHARS])
    for begins, kind in _KINDS:
        if head.startswith(begins):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "")
    if head[:2] == b"BM" and head[6:10] == bytes(4):
        return "image/bmp"
    return "application/pdf" if b"%PDF-" in head else ""


def decode_head(head: str) -> bytes:
    """Return the bytes of the beginning of a base64 text, as far as they are there."""
    head = head.replace("-", "+").replace("_", "/")
    if not head.isascii() or _NOT_BASE64.search(head):
        head = _NOT_BASE64.sub("", head.partition("=")[0])
    whole = head[: len(head) // 4 * 4]
    return convert_typed(whole, bytes) if whole else b""


def decode(data: str) -> bytes | None:
    """Return the bytes of a base64 text, broken into lines or not; None where it is damaged."""
    try:
        found: bytes = convert_typed(_SPACE.sub("", data), bytes)
    except msgspec.ValidationError:
        return None
    return found
