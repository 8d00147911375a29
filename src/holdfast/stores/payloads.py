"""Payloads as they are stored: compressed, named by the SHA-256 of their content, verified.

Every store of payloads writes and reads them through here, wherever the bytes are kept.
"""

from __future__ import annotations

import hashlib
import io
import sys
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.limits import READ_BLOCK_BYTES
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import BlobDamaged, BlobMissing, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO


_SHA256: Final = lazy_pattern(r"[0-9a-f]{64}")
_LEVEL: Final = 3
"""Levels above it take twice the time for a few percent."""
_WINDOW_LOG_MAX: Final = 24
"""Our blobs need no more to be read; a file that asks for gigabytes is not ours."""


def load_zstd() -> Any:
    """Return the module of zstd, of the standard library where that has it. A session without
    payloads does not load it."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def is_hash(text: str) -> bool:
    """Return whether a text may be the hash of a payload."""
    return _SHA256.fullmatch(text) is not None


def check_hash(sha256: str) -> None:
    """Refuse what cannot be a hash."""
    if not is_hash(sha256):
        raise UsageError(
            f"{sha256[:80]!r} is not a blob's hash",
            hint="a hash has 64 characters, 0 to 9 and a to f",
        )


def compress(data: bytes) -> Iterator[bytes]:
    """Yield a payload as it is stored, in pieces."""
    zstd = load_zstd()
    compressor = zstd.ZstdCompressor(level=_LEVEL)
    for offset in range(0, len(data), READ_BLOCK_BYTES * 4):
        yield compressor.compress(data[offset : offset + READ_BLOCK_BYTES * 4])
    yield compressor.flush()


def read_verified(raw: IO[bytes], sha256: str, size: int | None = None) -> Iterator[bytes]:
    """Yield a stored payload in pieces, and close `raw`; raises after the last piece unless all of
    them match the hash.

    Reading stops at `size`, where it is known: what was swapped may expand without end.
    """

    zstd = load_zstd()
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG_MAX}
    digest = hashlib.sha256()
    total = 0
    try:
        with raw, zstd.ZstdFile(raw, options=options) as payload:
            while chunk := payload.read(READ_BLOCK_BYTES * 4):
                total += len(chunk)
                if size is not None and total > size:
                    raise damage(sha256, f"it has more than the {size:,} bytes it was stored with")
                digest.update(chunk)
                yield chunk
    except (zstd.ZstdError, EOFError) as error:
        raise damage(sha256, f"it cannot be decompressed ({error})") from error
    if digest.hexdigest() != sha256:
        raise damage(sha256, f"its content has the hash {digest.hexdigest()[:12]}…")


def damage(sha256: str, why: str) -> BlobDamaged:
    """Return the error for a payload that is not what was stored."""
    return BlobDamaged(
        f"blob {sha256[:12]} is damaged: {why}",
        hint="nothing was delivered; store the payload again to repair it",
    )


def missing(sha256: str, place: str) -> BlobMissing:
    """Return the error for a payload that is not there."""
    return BlobMissing(
        f"blob {sha256[:12]} is not in the store",
        hint=f"its payload was never stored {place}, or was deleted",
    )


def as_file(pieces: Iterator[Any]) -> io.BufferedReader:
    """Return pieces of bytes as a file that can be read once."""
    return io.BufferedReader(_Pieces(pieces))


class _Pieces(io.RawIOBase):
    """Pieces of bytes as a file that can be read once."""

    def __init__(self, pieces: Iterator[Any]) -> None:
        self._pieces = pieces
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        taken = min(len(buffer), len(self._left))
        buffer[:taken] = self._left[:taken]
        self._left = self._left[taken:]
        return taken
