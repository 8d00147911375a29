"""The media type of a payload by its first bytes, never by its label; and its limits.

A PDF has a number of pages, and may be guarded by a password. A picture may be cut off: its parts
are stepped over, and no pixel is decoded.
"""

from __future__ import annotations

import re
import zlib
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


_OBJECT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Inflated objects that are read."""
_DEPTH_MAX: Final = 100
_TOKEN: Final = lazy_pattern(
    rb"<<|>>|/Type\s*/(?:Pages|ObjStm)\b|/Count\s+\d{1,7}\b|/Parent\b|/Encrypt\b"
    rb"|\bendobj\b|\bstream\r?\n|\((?:[^()\\]|\\.)*+\)",
    re.DOTALL,
)
"""The tokens that matter, and the texts that could look like them."""


class PdfFacts(msgspec.Struct, frozen=True):
    """A PDF, as far as a provider minds."""

    pages: int = 0
    """0 where it does not say."""
    is_encrypted: bool = False
    is_whole: bool = True
    """False where its end is missing."""


class _Dictionary:
    """A dictionary that is being read."""

    def __init__(self) -> None:
        self.is_pages = self.holds_objects = self.has_parent = False
        self.count = 0


def read_pdf(data: bytes) -> PdfFacts | None:
    """Return the facts of a PDF; None for bytes that are none."""
    if b"%PDF-" not in data[:1_024]:
        return None
    reader = _Reader()
    reader.read(data, may_inflate=True)
    is_whole = data.rfind(b"startxref") >= 0
    return PdfFacts(reader.pages, reader.is_encrypted, is_whole)


class _Reader:
    """The newest tree of pages among all that were read: an update is appended."""

    def __init__(self) -> None:
        self.pages = 0
        self.is_encrypted = False
        self._left = _OBJECT_BYTES_MAX

    def read(self, data: bytes, *, may_inflate: bool) -> None:
        place = 0
        opened: list[_Dictionary] = []
        last = _Dictionary()
        while (found := _TOKEN.search(data, place)) is not None:
            place, token = found.end(), found[0]
            if token == b"<<":
                opened = [] if len(opened) >= _DEPTH_MAX else opened
                opened.append(_Dictionary())
            elif token == b">>":
                last = opened.pop() if opened else _Dictionary()
                if last.is_pages and not last.has_parent:
                    self.pages = last.count
            elif token == b"endobj":
                opened, last = [], _Dictionary()
            elif token.startswith(b"stream"):
                end = data.find(b"endstream", place)
                if end < 0:
                    return
                if last.holds_objects and may_inflate:
                    self._read_objects(data[place:end])
                place, opened, last = end + len(b"endstream"), [], _Dictionary()
            elif opened:
                self._note(token, opened[-1])

    def _note(self, token: bytes, current: _Dictionary) -> None:
        if token.endswith(b"/Pages"):
            current.is_pages = True
        elif token.endswith(b"/ObjStm"):
            current.holds_objects = True
        elif token.startswith(b"/Count"):
            current.count = int(token[len(b"/Count") :])
        elif token == b"/Parent":
            current.has_parent = True
        elif token == b"/Encrypt":
            self.is_encrypted = True

    def _read_objects(self, packed: bytes) -> None:
        try:
            inflated = zlib.decompressobj().decompress(packed, self._left or 1)
        except zlib.error:
            return
        self._left = max(0, self._left - len(inflated))
        self.read(inflated, may_inflate=False)


_SCAN: Final = 0xDA
"""The marker of a JPEG's pixels."""
_BARE: Final = frozenset((0x01, *range(0xD0, 0xD9)))
"""Markers of a JPEG without a length."""


def is_whole(data: bytes, kind: str) -> bool:
    """Return whether a picture of one of the four common kinds reaches its end; True for others."""
    match kind:
        case "image/png":
            return _is_whole_png(data)
        case "image/jpeg":
            return _is_whole_jpeg(data)
        case "image/gif":
            return _is_whole_gif(data)
        case "image/webp":
            return 12 < int.from_bytes(data[4:8], "little") + 8 <= len(data)
        case _:
            return True


def _is_whole_png(data: bytes) -> bool:
    place, has_pixels = 8, False
    while place + 12 <= len(data):
        name = data[place + 4 : place + 8]
        place += 12 + int.from_bytes(data[place : place + 4], "big")
        has_pixels = has_pixels or name == b"IDAT"
        if name == b"IEND":
            return has_pixels and place <= len(data)
    return False


def _is_whole_jpeg(data: bytes) -> bool:
    place = 2
    while place + 4 <= len(data) and data[place] == 0xFF:
        marker = data[place + 1]
        if marker == 0xFF:
            place += 1
        elif marker in _BARE:
            place += 2
        elif marker == _SCAN:
            return data.find(b"\xff\xd9", place) > 0
        else:
            place += 2 + max(2, int.from_bytes(data[place + 2 : place + 4], "big"))
    return False


def _is_whole_gif(data: bytes) -> bool:
    """Return whether the first frame is there: decoders do without what follows."""
    place = 13 + _colours(data[10:11])
    while place < len(data):
        match data[place]:
            case 0x21:
                place = _after_blocks(data, place + 2)
            case 0x2C:
                place += 11 + _colours(data[place + 9 : place + 10])
                return _after_blocks(data, place) <= len(data)
            case _:
                return False
    return False


def _colours(flags: bytes) -> int:
    """Return the size of the table of colours that flags announce."""
    return 3 << (flags[0] & 7) + 1 if flags and flags[0] & 0x80 else 0


def _after_blocks(data: bytes, place: int) -> int:
    """Return the place behind a row of blocks; behind the end where it is cut."""
    while place < len(data):
        length = data[place]
        place += 1 + length
        if not length:
            return place
    return len(data) + 1
