"""A row of the index: what is known of one log, read from it whole or from where the row ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from holdfast.core.log.damage import Flaw
from holdfast.core.log.ids import IdOrder, SessionKey
from holdfast.core.log.listing import Facts
from holdfast.core.log.records import Header, Label
from holdfast.core.log.tree import Outline
from holdfast.core.log.views import opening
from holdfast.core.log.walk import outline_lines
from holdfast.core.models.totals import SessionTotals
from holdfast.core.text.typed import convert_typed
from holdfast.ports.sessions import SessionInfo, session_info
from holdfast.stores.files import explaining_read
from holdfast.stores.jsonl.log import FileLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.chain import Stands
    from holdfast.core.log.records import Record

_GROWN_BYTES_MIN: Final = 256 * 1024
"""Smaller logs are read whole when they change: it is quick, and notices an edit in the middle."""
_FINGERPRINT_BYTES: Final = 4_096
"""The bytes before the scanned end, compared to notice that a log was rewritten and not grown."""
_FACTS: Final = tuple(Facts.__struct_fields__)
COLUMNS: Final = (
    *("agent", "session", "inode", "size", "mtime_ns", "ctime_ns", "scanned", "fingerprint"),
    *_FACTS,
    *("totals", "newest_id", "is_sorted", "is_labelled", "active"),
)


class LogFile(msgspec.Struct, frozen=True):
    """A log as the file system shows it, and the function that opens it."""

    key: SessionKey
    status: os.stat_result
    open: Callable[[SessionKey], int]


class IndexRow(msgspec.Struct, frozen=True):
    """The index's knowledge of one log."""

    stamp: tuple[int, int, int, int]
    scanned: int
    """Everything before this byte is in the facts."""
    fingerprint: bytes
    """The bytes before `scanned`, to notice that they changed."""
    facts: Facts
    totals: SessionTotals
    order: IdOrder
    is_labelled: bool = False
    """The log itself says its label, also where that is none: in a header, or in a record."""

    @property
    def active(self) -> float:
        """The time by which a listing is sorted: the newest record's, or the file's."""
        seconds, nanoseconds = divmod(self.stamp[2], 10**9)
        return self.facts.last_active or seconds + 1e-9 * nanoseconds


def read_row(file: LogFile, known: IndexRow | None) -> IndexRow:
    """Return the facts from the log itself: from its new part alone where that is enough."""
    fd = file.open(file.key)
    try:
        with explaining_read(f"session `{file.key.session}`"):
            return read_open_row(file.key, fd, known)
    finally:
        os.close(fd)


def read_open_row(key: SessionKey, fd: int, known: IndexRow | None) -> IndexRow:
    status = os.fstat(fd)
    start, row = 0, empty_row(stamp_of(status), Facts())
    if known is not None and _has_only_grown(fd, status, known):
        start, row = known.scanned, known
    log = FileLog(key, fd, status.st_size)
    scanned, is_labelled = _scan(log, start, row)
    if start == 0:
        first = opening(log)
        row.facts.owner = first.owner if first else None
    fingerprint = fingerprint_of(fd, scanned)
    return msgspec.structs.replace(
        row,
        stamp=stamp_of(status),
        scanned=scanned,
        fingerprint=fingerprint,
        is_labelled=is_labelled,
    )


def empty_row(stamp: tuple[int, int, int, int], facts: Facts) -> IndexRow:
    return IndexRow(stamp, 0, b"", facts, SessionTotals(), IdOrder())


def _has_only_grown(fd: int, status: os.stat_result, known: IndexRow) -> bool:
    inode, size, *_times = known.stamp
    return (
        inode == status.st_ino
        and status.st_size > size >= _GROWN_BYTES_MIN
        and known.scanned == size
        and fingerprint_of(fd, known.scanned) == known.fingerprint
    )


def _scan(log: FileLog, start: int, row: IndexRow) -> tuple[int, bool]:
    """Add the records from `start` on to what the row knows.

    Returns the log's size, or 0 where it ends in the middle of an append and must be read again;
    and whether the log says its label.
    """
    facts, totals, order, is_labelled = row.facts, row.totals, row.order, row.is_labelled

    def count(position: int, item: Stands) -> None:
        nonlocal is_labelled
        facts.add(position, item)
        # By exact type: to ask a struct's class for its instances takes several times as long.
        if type(item) is Label:
            is_labelled = is_labelled or item.target is None
        elif type(item) is Header and facts.records == 1:
            is_labelled = True
        totals.add(cast("Record", item))

    shape = Outline(on_record=count, is_start=facts.records == 0)
    last = start
    for position, size, item, _line in outline_lines(shape, log.lines(start)):
        last = position + size
        # Also of appends that never completed: halving meets them.
        if not (
            item is None or isinstance(item, Flaw) or (position == 0 and item.kind == "session")
        ):
            order.add(item.id)
    is_clean = last < log.size and not shape.is_open
    shape.end()
    facts.damaged += sum(finding.is_damage for finding in shape.findings)
    return log.size if is_clean else 0, is_labelled


def fingerprint_of(fd: int, scanned: int) -> bytes:
    """Return the bytes before an end up to which a log was read; none for a short log."""
    if scanned < _GROWN_BYTES_MIN:
        return b""  # such a log is never read in part
    start = max(0, scanned - _FINGERPRINT_BYTES)
    return os.pread(fd, scanned - start, start)


def stamp_of(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def info_of(key: SessionKey, row: IndexRow) -> SessionInfo:
    info = session_info(key, row.stamp[1], row.facts)
    return msgspec.structs.replace(info, last_active=row.active)


def row_of(values: tuple[Any, ...]) -> IndexRow:
    stamp, (scanned, fingerprint), facts = values[2:6], values[6:8], values[8:-5]
    totals, newest, is_sorted, is_labelled, _active = values[-5:]
    fields = {
        "stamp": stamp,
        "scanned": scanned,
        "fingerprint": fingerprint,
        "facts": dict(zip(_FACTS, facts, strict=True)),
        "totals": msgspec.json.decode(totals),
        "order": {"newest": newest, "is_sorted": is_sorted == 1},
        "is_labelled": is_labelled == 1,
    }
    return convert_typed(fields, IndexRow)


def values_of(key: SessionKey, row: IndexRow) -> tuple[Any, ...]:
    return (
        *(key.agent, key.session, *row.stamp, row.scanned, row.fingerprint),
        *msgspec.structs.astuple(row.facts),
        *(msgspec.json.encode(row.totals), row.order.newest, row.order.is_sorted),
        *(row.is_labelled, row.active),
    )
