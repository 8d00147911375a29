"""The bytes of a damaged log that a repaired copy has not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.limits import READ_BLOCK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def quarantine(fd: int, left_out: Iterable[tuple[int, int, str]]) -> Iterator[bytes]:
    """Yield the bytes left out, each piece under a line that says where it was."""
    for position, size, kind in left_out:
        yield f"--- {size} bytes at offset {position}: {kind} ---\n".encode()
        for offset in range(position, position + size, READ_BLOCK_BYTES):
            yield os.pread(fd, min(READ_BLOCK_BYTES, position + size - offset), offset)
        yield b"\n"
