"""Turns the records of a caller into the lines that a store appends.

Records are checked and placed before a store takes any lock; ids are given once the head is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.core.limits import FORMAT_VERSION, LINE_BYTES_MAX
from holdfast.core.log.ids import check_record_id, new_record_ids
from holdfast.core.log.records import FORMAT, Header, Record, Rewind, encode_lines
from holdfast.errors import BadRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from holdfast.core.log.ids import SessionKey

_MARKERS: Final = frozenset((Header, Rewind))
"""Records that are not simply appended after the head."""


class Lines(NamedTuple):
    """Encoded records, each with its newline, and their ids."""

    data: bytes
    ids: tuple[str, ...]


class Batch(msgspec.Struct, frozen=True):
    """Records to append together, checked, with parents that are in the log."""

    records: Sequence[Record]
    """The records, in order."""
    claimed: Sequence[str]
    """The ids that came with the records."""
    is_atomic: bool
    """Each line says how many follow, so that half a batch is recognised."""

    def encode(self, *, after: str, now: float, random_bits: int) -> Lines:
        """Return the lines that follow the head `after`."""
        ids = new_record_ids(len(self.records), now=now, random_bits=random_bits, after=after)
        now = round(now, 3)
        more = len(self.records)
        ready = [
            msgspec.structs.replace(
                record,
                id=record.id or new_id,
                ts=record.ts or now,
                more=(more := more - 1) if self.is_atomic else None,
            )
            for record, new_id in zip(self.records, ids, strict=True)
        ]
        data = encode_lines(ready)
        if len(data) > LINE_BYTES_MAX:
            _check_sizes(data)
        return Lines(data, tuple([record.id for record in ready] if self.claimed else ids))

    def refuse_repeats(self, known: Container[str], key: SessionKey) -> None:
        """Raise `BadRecord` where an id is in the log: a retry must not store a record twice."""
        for record_id in self.claimed:
            if record_id in known:
                raise refuse_id(record_id, key)


def refuse_id(record_id: str, key: SessionKey) -> BadRecord:
    """Return the error for a record whose id is in the log."""
    return BadRecord(
        f"record `{record_id}` is already in session `{key}`",
        hint="if this is a retry, the first try succeeded; otherwise choose another id",
    )


def place(records: Sequence[Record], full_id: Callable[[str], str], *, is_atomic: bool) -> Batch:
    """Check records and point their parents at records of the log.

    `full_id` returns the id of a stored record, given that id or a unique prefix of it.
    """
    is_atomic = is_atomic and len(records) > 1
    for record in records:
        if record.id or record.parent is not None or type(record) in _MARKERS:
            break
    else:
        return Batch(records, (), is_atomic)
    claimed: dict[str, None] = {}
    return Batch(
        [_place_record(record, full_id, claimed) for record in records], tuple(claimed), is_atomic
    )


def _place_record(
    record: Record, full_id: Callable[[str], str], claimed: dict[str, None]
) -> Record:
    """Return a record that names its parent in full. `claimed` are the ids before it."""
    if isinstance(record, Header):
        raise BadRecord(
            "cannot append a `session` record: it is the header of a log",
            hint="create a session with `create`, or `holdfast new`",
        )
    parent = record.to if isinstance(record, Rewind) else record.parent
    if parent is not None:
        found = parent if parent in claimed else full_id(parent)
        changes = {"to": found} if isinstance(record, Rewind) else {}
        record = msgspec.structs.replace(record, parent=found, **changes)
    if record.id:
        check_record_id(record.id)
        if record.id in claimed:
            raise BadRecord(f"record id `{record.id}` occurs twice in one append")
        claimed[record.id] = None
    return record


def _check_sizes(data: bytes) -> None:
    largest = max(data.split(b"\n"), key=len)
    if len(largest) > LINE_BYTES_MAX:
        raise BadRecord(
            f"cannot append a record of {len(largest):,} bytes: it is too large for a log",
            hint=f"put payloads over {LINE_BYTES_MAX:,} bytes into a blob",
        )


def new_header(
    key: SessionKey,
    *,
    now: float,
    label: str = "",
    parent_session: str | None = None,
    parent_record: str | None = None,
    reason: str | None = None,
    owner: str = "",
) -> Header:
    """Return the first record of a new session."""
    return Header(
        id=key.session,
        ts=round(now, 3),
        format=FORMAT,
        version=FORMAT_VERSION,
        agent=key.agent,
        label=label,
        parent_session=parent_session,
        parent_record=parent_record,
        reason=reason,
        owner=owner,
    )
