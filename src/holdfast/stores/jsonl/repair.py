"""A repaired copy of a damaged log, and the bytes that could not be copied."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.limits import READ_BLOCK_BYTES
from holdfast.core.log.copies import Carrier
from holdfast.core.log.damage import Finding, Flaw, was_repaired
from holdfast.core.log.records import Header, Record, encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.tree import Outline
    from holdfast.stores.jsonl.log import FileLog


class RepairedSession(msgspec.Struct, frozen=True):
    """The result of `repair`."""

    key: SessionKey
    records: int
    findings: tuple[Finding, ...]
    quarantine: str | None
    """The file with the bytes that were left out, where there are any."""


class LogRepair(msgspec.Struct):
    """Writes the intact records of a log again, in order, each branch where it was."""

    log: FileLog
    shape: Outline
    header: Header
    records: int = 0
    left_out: list[tuple[int, int, str]] = msgspec.field(default_factory=list)
    """Position, size and kind of what goes to the quarantine; filled by `lines`."""

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the copy."""
        yield encode(self.header) + b"\n"
        carrier = Carrier(self.shape, self.header)
        for position, size, item, line in self.log.lines():
            if isinstance(item, Flaw):
                self.left_out.append((position, size, item.kind))
            elif item is not None and (position in self.shape.skipped or isinstance(item, Header)):
                carrier.leave_out(position, item)
                if position > 0:
                    self.left_out.append((position, size, "not counted"))
            elif item is not None:
                self.records += 1
                yield _line(carrier.carry(position, item), item, line) + b"\n"

    def quarantine(self) -> Iterator[bytes]:
        """Yield the bytes left out, each piece under a line that says where it was."""
        for position, size, kind in self.left_out:
            yield f"--- {size} bytes at offset {position}: {kind} ---\n".encode()
            for offset in range(position, position + size, READ_BLOCK_BYTES):
                yield os.pread(self.log.fd, min(READ_BLOCK_BYTES, position + size - offset), offset)
            yield b"\n"


def _line(copy: Record, record: Record, line: bytes) -> bytes:
    is_same = copy is record and line.startswith(b"{") and not was_repaired(line)
    return line.strip() if is_same else encode(copy)
