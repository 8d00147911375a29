"""A mended copy of a damaged log, and the bytes that could not be carried over."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.findings import Finding, Flaw
from holdfast.core.ids import SessionKey, positional_id
from holdfast.core.limits import READ_BLOCK_BYTES
from holdfast.core.records import Header, Record, decode, encode, was_repaired
from holdfast.stores import log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.outline import Outline


@dataclass(frozen=True, slots=True)
class Mended:
    """What `repair` did."""

    key: SessionKey
    records: int
    findings: tuple[Finding, ...]
    quarantine: str | None
    """The file with the bytes that were left out, where there are any."""


@dataclass(slots=True)
class Mending:
    """Writes the intact records of a log again, in order, each branch where it was."""

    fd: int
    end: int
    shape: Outline
    header: Header
    records: int = 0
    left_out: list[tuple[int, int, str]] = field(default_factory=list)
    """Position, size and kind of what goes to the quarantine; filled by `lines`."""

    def lines(self) -> Iterator[bytes]:
        yield encode(self.header) + b"\n"
        for position, size, item, line in log.items(self.fd, 0, self.end, decode):
            if item is None or (isinstance(item, Header) and position == 0):
                continue
            if isinstance(item, Flaw):
                self.left_out.append((position, size, item.kind))
            elif position in self.shape.skipped or isinstance(item, Header):
                self.left_out.append((position, size, "not counted"))
            else:
                self.records += 1
                yield self._line(position, item, line) + b"\n"

    def quarantine(self) -> Iterator[bytes]:
        """The bytes left out, each piece under a line that says where it was."""
        for position, size, kind in self.left_out:
            yield f"--- {size} bytes at offset {position}: {kind} ---\n".encode()
            for offset in range(position, position + size, READ_BLOCK_BYTES):
                yield os.pread(self.fd, min(READ_BLOCK_BYTES, position + size - offset), offset)
            yield b"\n"

    def _line(self, position: int, record: Record, line: bytes) -> bytes:
        mended = carried(self.shape, position, record, self.header)
        if mended is record and not was_repaired(line):
            return line.strip()
        return encode(mended)


def copied(
    entries: Iterable[tuple[int, Record]], shape: Outline, header: Header
) -> Iterator[bytes]:
    """The lines of a new log with these records under a header of its own."""
    yield encode(header) + b"\n"
    for position, record in entries:
        if not isinstance(record, Header):
            yield encode(carried(shape, position, record, header)) + b"\n"


def carried(shape: Outline, position: int, record: Record, header: Header) -> Record:
    """A record as it must be written in another log to mean what it means in this one."""
    changes: dict[str, object] = {}
    if not record.id or position in shape.renamed:
        changes["id"] = positional_id(position)
    if record.more is not None:
        changes["more"] = None
    if position in shape.reparented:
        changes["parent"] = shape.reparented[position]
    if shape.header:
        for name in ("parent", "to", "first_kept", "target"):
            if getattr(record, name, None) == shape.header:
                changes.setdefault(name, header.id)
    return msgspec.structs.replace(record, **changes) if changes else record
