"""A mended copy of a damaged log, and the bytes that could not be carried over."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.limits import READ_BLOCK_BYTES
from holdfast.core.log.damage import Finding, Flaw
from holdfast.core.log.ids import SessionKey, positional_id
from holdfast.core.log.records import Header, Label, Record, Rewind, encode, was_repaired
from holdfast.stores.jsonl import log

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.log.tree import Outline


class Mended(msgspec.Struct, frozen=True):
    """What `repair` did."""

    key: SessionKey
    records: int
    findings: tuple[Finding, ...]
    quarantine: str | None
    """The file with the bytes that were left out, where there are any."""


class Mending(msgspec.Struct):
    """Writes the intact records of a log again, in order, each branch where it was."""

    fd: int
    end: int
    shape: Outline
    header: Header
    records: int = 0
    left_out: list[tuple[int, int, str]] = msgspec.field(default_factory=list)
    """Position, size and kind of what goes to the quarantine; filled by `lines`."""

    def lines(self) -> Iterator[bytes]:
        yield encode(self.header) + b"\n"
        carrier = Carrier(self.shape, self.header)
        for position, size, item, line in log.items(self.fd, 0, self.end):
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
        """The bytes left out, each piece under a line that says where it was."""
        for position, size, kind in self.left_out:
            yield f"--- {size} bytes at offset {position}: {kind} ---\n".encode()
            for offset in range(position, position + size, READ_BLOCK_BYTES):
                yield os.pread(self.fd, min(READ_BLOCK_BYTES, position + size - offset), offset)
            yield b"\n"


def copied(
    entries: Iterable[tuple[int, Record]], shape: Outline, header: Header
) -> Iterator[bytes]:
    """The lines of a new log with these records under a header of its own."""
    yield encode(header) + b"\n"
    carrier = Carrier(shape, header)
    for position, record in entries:
        if isinstance(record, Header) or (isinstance(record, Label) and record.target is None):
            carrier.leave_out(position, record)  # the copy has a header and a label of its own
        else:
            yield encode(carrier.carry(position, record)) + b"\n"


class Carrier:
    """Makes records mean in another log what they mean in this one.

    It is shown them in order: those that are carried over, and those that are left out. A reference
    to a header inside the log becomes one to the record before it: `first_kept` then keeps one
    record more, where a reference to a missing record would keep none.
    """

    def __init__(self, shape: Outline, header: Header) -> None:
        self._shape = shape
        self._before = header.id
        """The record before, in the other log."""
        self._follows: str | None = None
        """What the next record follows, where that is not the record before."""
        self._renamed: dict[str, str] = {}
        """Headers stay behind; what stands for them in the other log."""

    def carry(self, position: int, record: Record) -> Record:
        changes: dict[str, object] = {}
        name = self._name(position, record)
        if name != record.id:
            changes["id"] = name
        if record.more is not None:
            changes["more"] = None
        for field_name in ("to", "first_kept", "target"):
            named = getattr(record, field_name, None)
            if named in self._renamed:
                changes[field_name] = self._renamed[named]
        parent = self._parent(position, record)
        if parent != record.parent:
            changes["parent"] = parent
            if isinstance(record, Rewind) and parent is not None:
                changes["to"] = parent
        self._before, self._follows = name, None
        return msgspec.structs.replace(record, **changes) if changes else record

    def leave_out(self, position: int, record: Record) -> None:
        if self._shape.skipped.get(position) == "open":
            return
        parent = self._parent(position, record) or self._before
        if position not in self._shape.skipped:
            self._renamed[self._name(position, record)] = parent
        self._follows = parent if parent != self._before else None

    def _name(self, position: int, record: Record) -> str:
        is_positional = not record.id or position in self._shape.renamed
        return positional_id(position) if is_positional else record.id

    def _parent(self, position: int, record: Record) -> str | None:
        """The parent by its name in the other log; none: the record before."""
        parent = self._shape.reparented.get(position, record.parent)
        return self._follows if parent is None else self._renamed.get(parent, parent)


def _line(mended: Record, record: Record, line: bytes) -> bytes:
    is_same = mended is record and line.startswith(b"{") and not was_repaired(line)
    return line.strip() if is_same else encode(mended)
