"""Copies of a log: a fork of its path, a repaired one, and what references mean in the copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.log.batch import new_header
from holdfast.core.log.damage import Flaw, was_repaired
from holdfast.core.log.ids import SessionKey, positional_id
from holdfast.core.log.records import Header, Label, Record, Rewind, encode
from holdfast.core.log.views import find, header_or_none
from holdfast.core.log.walk import outline, position_of, stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.tree import Outline
    from holdfast.core.log.walk import OpenLog


def fork_records(
    log: OpenLog, new: SessionKey, *, at: str | None, label: str, now: float
) -> Iterator[Record]:
    """Return the records of a copy of the path to `at`, under a header of its own.

    Raises `NoSuchRecord` at once, before the first record is taken.
    """
    shape = outline(log)
    position = None if at is None else position_of(log, at)
    header = copy_header(
        log,
        new,
        "fork",
        label=label,
        parent_record=shape.head if at is None else find(log, at, position).id,
        now=now,
    )
    return _copy_path(log, shape, position, header)


def _copy_path(
    log: OpenLog, shape: Outline, position: int | None, header: Header
) -> Iterator[Record]:
    yield header
    carrier = Carrier(shape, header)
    for place, record in stream(log, shape.path(position), shape):
        if isinstance(record, Header) or (isinstance(record, Label) and record.target is None):
            carrier.leave_out(place, record)  # the copy has a header and a label of its own
        else:
            yield carrier.carry(place, record)


def copy_header(
    log: OpenLog,
    new: SessionKey,
    reason: str,
    *,
    now: float,
    label: str = "",
    parent_record: str | None = None,
    suffix: str = "",
) -> Header:
    """Return the header of a copy. It keeps the owner; its label differs from the original's."""
    old = header_or_none(log)
    if not label and old and old.label:
        label = f"{old.label} ({suffix or reason})"
    return new_header(
        new,
        now=now,
        label=label,
        parent_session=str(log.key),
        parent_record=parent_record,
        reason=reason,
        owner=old.owner if old else "",
    )


class Carrier:
    """Makes records mean in another log what they mean in this one.

    It takes the records in order, both the copied ones and those that are left out. A reference to
    a header inside the log becomes a reference to the record before it: `first_kept` then keeps one
    record more, where a reference to a missing record would keep none.
    """

    def __init__(self, shape: Outline, header: Header) -> None:
        self._shape = shape
        self._before = header.id
        """The record before, in the other log."""
        self._follows: str | None = None
        """The parent of the next record, where that is not the record before."""
        self._renamed: dict[str, str] = {}
        """For headers, which are not copied: the record that takes their place."""

    def carry(self, position: int, record: Record) -> Record:
        """Return the record as it belongs into the other log."""
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
        """Pass over a record: the next one follows the record before it."""
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
        """Return the parent by its name in the other log; None for the record before."""
        parent = self._shape.reparented.get(position, record.parent)
        return self._follows if parent is None else self._renamed.get(parent, parent)


class LogRepair(msgspec.Struct):
    """Copies the intact records of a log, in order, each branch where it was."""

    log: OpenLog
    shape: Outline
    header: Header
    records: int = 0
    left_out: list[tuple[int, int, str]] = msgspec.field(default_factory=list)
    """Position, size and kind of what the copy has not; filled by `copies`."""

    def copies(self) -> Iterator[tuple[Record, bytes]]:
        """Yield the records of the copy with their lines: as they were, where that is possible."""
        yield self.header, encode(self.header)
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
                copy = carrier.carry(position, item)
                yield copy, _line(copy, item, line)


def _line(copy: Record, record: Record, line: bytes) -> bytes:
    is_same = copy is record and line.startswith(b"{") and not was_repaired(line)
    return line.strip() if is_same else encode(copy)
