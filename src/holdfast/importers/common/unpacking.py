"""The bytes of a file: gzip unpacked within stated limits, other encodings made UTF-8."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from holdfast.core.text.cut import cut, ellipsis
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

UNPACKED_BYTES_MAX: Final = 1024 * 1024 * 1024
"""A file that has more than this, as it is or unpacked, is refused: no transcript is that long."""
EXPANSION_MAX: Final = 250
"""A packed file may unpack to this many times its size. Transcripts pack to a fifth or a
twentieth; what packs to less than a 250th repeats itself to fill a memory."""
EXPANSION_FREE_BYTES: Final = 64 * 1024 * 1024
"""A packed file may unpack to as much as this, however small it is."""

_PIECE_BYTES: Final = 64 * 1024
"""Packed data is taken in pieces, so that damage costs only what comes after it."""
_MAGIC: Final = b"\x1f\x8b"
_START_BYTES: Final = 240
"""The bytes by which text is told from other files, and of which an error shows the first words."""
_START_CHARS: Final = 60
_CHARACTER_BYTES_MAX: Final = 4
SQLITE_MAGIC: Final = b"SQLite format 3\0"
"""The first bytes of a database, which is no transcript."""


def unpack(data: bytes, name: str, flaws: Counter[tuple[str, str]]) -> bytes:
    """Return the bytes of a file, unpacked where it is packed.

    Raises `UsageError` where they are too many, before any memory is used for them.
    """
    if not data.startswith(_MAGIC):
        return data
    times = max(EXPANSION_FREE_BYTES, EXPANSION_MAX * len(data))
    limit = min(UNPACKED_BYTES_MAX, times)
    size = 0
    for piece in _pieces(data, {}):
        size += len(piece)
        if size > limit:
            raise _too_large(name, len(data), limit)
    found: dict[tuple[str, str], int] = {}
    unpacked = b"".join(_pieces(data, found))
    flaws.update(found)
    return unpacked


def as_utf8(data: bytes) -> bytes:
    """UTF-8 without a byte order mark, whatever the file had."""
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if data.startswith(mark):
            return data[2:].decode(encoding, errors="replace").encode(errors="replace")
    return data.removeprefix(b"\xef\xbb\xbf")


def _pieces(data: bytes, flaws: dict[tuple[str, str], int]) -> Iterator[bytes]:
    """Yield what is packed in pieces of bounded size; what ends them early is noted."""
    stream = zlib.decompressobj(wbits=31)
    has_begun = False
    for start in range(0, len(data), _PIECE_BYTES):
        piece = data[start : start + _PIECE_BYTES]
        while piece:
            if stream.eof:  # a file may have several members; what is none is padding
                stream = zlib.decompressobj(wbits=31)
            try:
                unpacked = stream.decompress(piece, 16 * _PIECE_BYTES)
            except zlib.error:
                if has_begun or start:
                    flaws["damaged gzip data", "what came before it was read"] = 1
                return
            if unpacked:
                has_begun = True
                yield unpacked
            piece = stream.unused_data if stream.eof else stream.unconsumed_tail
    if not stream.eof:
        flaws["cut-off gzip data", "the file ends early; what is there was read"] = 1


def _too_large(name: str, packed: int, limit: int) -> UsageError:
    if limit == UNPACKED_BYTES_MAX:
        return UsageError(
            f"`{name}` unpacks to more than {limit:,} bytes",
            hint="unpack it and import the transcripts in it one by one",
        )
    return UsageError(
        f"`{name}` has {packed:,} bytes and unpacks to more than {limit:,}, "
        f"over {EXPANSION_MAX} times as many",
        hint="if that is what it should be, unpack it and import the result",
    )


def has_words(data: bytes) -> bool:
    """False where the first bytes are no text, as in a program, a picture or an archive."""
    start = data[:_START_BYTES]
    words = start.decode(errors="ignore")
    is_whole = len(words.encode()) > len(start) - _CHARACTER_BYTES_MAX
    can_be_read = (char.isprintable() or char.isspace() or char in "\x1b\ufeff" for char in words)
    return bool(words.strip()) and is_whole and all(can_be_read)


def describe_start(data: bytes) -> str:
    """Describe a file by its first words, for an error."""
    if not has_words(data):
        return "it is not text"
    words = " ".join(data[:_START_BYTES].decode(errors="ignore").split())
    return f"it begins with `{cut(words, _START_CHARS, keep='head', marker=ellipsis).text}`"
