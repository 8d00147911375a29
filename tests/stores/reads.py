"""How many bytes are read from files while a block runs. Stores read with `os.pread` alone."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Read:
    total: int = 0


@contextmanager
def bytes_read() -> Iterator[Read]:
    """A count that grows while the block runs."""
    read, pread = Read(), os.pread

    def counting(fd: int, length: int, offset: int) -> bytes:
        data = pread(fd, length, offset)
        read.total += len(data)
        return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", counting)
        yield read
