"""Reads of a PDF what providers limit: its number of pages, and whether a password guards it.

One pass over the bytes. Streams are stepped over, but for those that hold objects: these are
inflated up to a bound. Nothing is drawn, and no reference is followed.
"""

from __future__ import annotations

import re
import zlib
from typing import Final

import msgspec

from holdfast.core.text.lazy_pattern import lazy_pattern

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
