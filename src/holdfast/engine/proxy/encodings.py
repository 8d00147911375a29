"""Compressed bodies, read beside their way: the bytes that pass are never these."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from holdfast.core.proxy.endpoints import READABLE_ENCODINGS, ProxyProblem

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENCODINGS_MAX: Final = 4
"""Encodings over each other; no client that we know uses two."""
_ALIASES: Final = {"x-gzip": "gzip"}
_GZIP_BITS: Final = 31
_ZLIB_BITS: Final = 15
"""zlib's numbers for its formats; the negative one has no header."""
_WINDOW_LOG_MAX: Final = 23
"""The 8 MiB that the standard allows a sender of zstd over HTTP; a frame may ask for 2 GiB."""
_STEP_BYTES: Final = 1024 * 1024
"""The bytes that one step brings at most: a bound is looked at after each."""
_SLICE_BYTES: Final = 256 * 1024
"""The bytes that one step is given at most: what it leaves is copied for the next."""


class BadEncoding(Exception):
    """A body that is not in the encoding which its header names."""


class TooLarge(Exception):
    """A body that is over its bound without its encoding."""


def read_encodings(header: str) -> tuple[str, ...]:
    """The encodings that a header names, in the order in which they were applied."""
    names = (name.strip().lower() for name in header.split(","))
    return tuple(_ALIASES.get(name, name) for name in names if name not in ("", "identity"))


def find_unreadable(encodings: Sequence[str]) -> str:
    """The encodings that cannot be read here; empty where all of them can."""
    if len(encodings) > _ENCODINGS_MAX:
        return ", ".join(encodings)[:100]
    return ", ".join(name[:40] for name in encodings if name not in READABLE_ENCODINGS)


class _ZlibFrame:
    """A frame of gzip, or a deflate body."""

    def __init__(self, bits: int) -> None:
        self._decoder = zlib.decompressobj(bits)
        self.has_more = False

    @property
    def is_over(self) -> bool:
        return self._decoder.eof

    @property
    def rest(self) -> bytes:
        return self._decoder.unused_data

    def read(self, data: bytes) -> bytes:
        try:
            piece = self._decoder.decompress(self._decoder.unconsumed_tail + data, _STEP_BYTES)
        except zlib.error as error:
            raise BadEncoding(str(error)) from error
        is_full = len(piece) == _STEP_BYTES or bool(self._decoder.unconsumed_tail)
        self.has_more = is_full and not self._decoder.eof
        return piece


class _ZstdFrame:
    """A frame of zstd."""

    def __init__(self) -> None:
        from holdfast.stores.payloads import load_zstd

        zstd = load_zstd()
        options = {int(zstd.DecompressionParameter.window_log_max): _WINDOW_LOG_MAX}
        self._decoder = zstd.ZstdDecompressor(options=options)
        self._error: type[Exception] = zstd.ZstdError
        self.has_more = False

    @property
    def is_over(self) -> bool:
        return bool(self._decoder.eof)

    @property
    def rest(self) -> bytes:
        return bytes(self._decoder.unused_data)

    def read(self, data: bytes) -> bytes:
        try:
            piece = bytes(self._decoder.decompress(data, _STEP_BYTES))
        except self._error as error:
            raise BadEncoding(str(error)) from error
        self.has_more = not self._decoder.eof and not self._decoder.needs_input
        return piece


class Inflater:
    """Reads one encoding as its bytes come: frame after frame, and no more than a bound."""

    def __init__(self, encoding: str, bytes_max: int) -> None:
        self._encoding = encoding
        self._left = bytes_max
        self._frame: _ZlibFrame | _ZstdFrame | None = None
        self._head = b""
        """The first byte of a deflate body: two tell whether it has a header."""

    @property
    def is_whole(self) -> bool:
        """True where a frame has ended and no other begun."""
        return self._frame is None and not self._head

    def feed(self, data: bytes) -> bytes:
        """Return what some bytes bring. Raises `BadEncoding` or `TooLarge`."""
        parts: list[bytes] = []
        for start in range(0, len(data), _SLICE_BYTES):
            self._feed(data[start : start + _SLICE_BYTES], parts)
        return b"".join(parts)

    def _feed(self, data: bytes, parts: list[bytes]) -> None:
        while data or (self._frame is not None and self._frame.has_more):
            if self._frame is None:
                data = self._open(data)
            frame = self._frame
            if frame is None:
                return
            piece, data = frame.read(data), b""
            self._left -= len(piece)
            if self._left < 0:
                raise TooLarge
            parts.append(piece)
            if frame.is_over:
                self._frame, data = None, frame.rest

    def _open(self, data: bytes) -> bytes:
        """Open the next frame, and return the bytes to read from it."""
        if self._encoding == "zstd":
            self._frame = _ZstdFrame()
        elif self._encoding == "gzip":
            self._frame = _ZlibFrame(_GZIP_BITS)
        else:
            data, self._head = self._head + data, b""
            if len(data) < 2:
                self._head = data
                return b""
            # Some programs leave the header out that the standard asks for.
            has_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._frame = _ZlibFrame(_ZLIB_BITS if has_header else -_ZLIB_BITS)
        return data


def decode_body(data: bytes, encodings: Sequence[str], bytes_max: int) -> bytes:
    """A request's body without its encodings. Raises `ProxyProblem` where it is not in them, or
    larger than its bound."""
    for encoding in reversed(encodings):
        inflater = Inflater(encoding, bytes_max)
        try:
            data = inflater.feed(data)
        except TooLarge:
            raise ProxyProblem(
                413,
                f"the body is larger than {bytes_max:,} bytes without its encoding `{encoding}`",
                "send less",
                code="body_too_large",
            ) from None
        except BadEncoding as error:
            raise _bad_encoding(encoding, str(error)) from error
        if not inflater.is_whole:
            raise _bad_encoding(encoding, "it ends too early")
    return data


def _bad_encoding(encoding: str, why: str) -> ProxyProblem:
    return ProxyProblem(
        400,
        f"the body is not in the encoding `{encoding}` that its header names: {why}",
        "send it again, or without compression",
        code="bad_encoding",
    )
