"""One log file: reading it from either end, and finding out how it stands."""

from __future__ import annotations

import os
import zlib
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import READ_BLOCK_BYTES
from holdfast.core.log.damage import Finding, Flaw, preview
from holdfast.core.log.ids import positional_id
from holdfast.core.log.records import SEAL, Header, Record, decode
from holdfast.core.log.tree import Backtrack, Outline, Place
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.stores.jsonl.lines import Forward, Oversize, backward

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.log.tree import Span

    OnItem = Callable[[int, int, Record | Flaw | None, bytes], None]

_MENTIONS: Final = lazy_pattern(rb"[0-9a-f]{64,}")
_BRIDGES_MAX: Final = 4
"""Parents looked for in vain, each through the whole log, before the log is outlined instead."""
_SEAL_LINE: Final = bytes([SEAL])
_BOM: Final = b"\xef\xbb\xbf"


class Ending(msgspec.Struct, frozen=True):
    """How a log ends: its head, and what must be written before the next record."""

    head: str
    seal: bytes
    torn: Finding | None


# Lines as items


def items(fd: int, start: int, end: int) -> Iterator[tuple[int, int, Record | Flaw | None, bytes]]:
    """(position, size, item, line) for every line that is not blank. A seal's item is None."""
    lines = Forward(fd, start, end)
    for position, line in lines:
        if isinstance(line, Oversize):
            yield position, line.size, _oversize(line), line.start
        elif line:
            item = decode(line)
            if not isinstance(item, Flaw):
                yield position, len(line), item, line
            elif not line.isspace():
                yield position, len(line), _second_look(position, line, item), line
    tail = lines.tail
    if isinstance(tail, Oversize):
        yield lines.tail_position, tail.size, _torn(tail.size), tail.start
    elif tail and not tail.isspace():
        position = lines.tail_position
        yield position, len(tail), _tail_item(position, tail, decode(tail)), tail


def items_back(fd: int, end: int) -> Iterator[tuple[int, int, Record | Flaw | None, bytes]]:
    """The same from the end, with records decoded in full."""
    is_tail = True
    for position, line in backward(fd, end):
        if isinstance(line, Oversize):
            flaw = _torn(line.size) if is_tail else _oversize(line)
            yield position, line.size, flaw, line.start
        elif line:
            item = decode(line)
            if not isinstance(item, Flaw):
                yield position, len(line), item, line
            elif not line.isspace():
                look = _tail_item if is_tail else _second_look
                yield position, len(line), look(position, line, item), line
        is_tail = False


def identified(record: Record, position: int) -> Record:
    """The record with its positional id where it was stored without one."""
    return record if record.id else msgspec.structs.replace(record, id=positional_id(position))


def _second_look(position: int, line: bytes, item: Record | Flaw) -> Record | Flaw | None:
    """What is no record by itself may be a seal, or a record behind a byte-order mark."""
    if line == _SEAL_LINE:
        return None
    if position == 0 and line.startswith(_BOM):
        return decode(line[len(_BOM) :])
    return item


def _tail_item(position: int, line: bytes, item: Record | Flaw) -> Record | Flaw | None:
    """What follows the last newline: a record that lacks only that, or the rest of a torn one."""
    found = _second_look(position, line, item)
    return _torn(len(line)) if found is None or isinstance(found, Flaw) else found


def _torn(size: int) -> Flaw:
    return Flaw("torn", f"{size} bytes of an append that never completed")


def _oversize(line: Oversize) -> Flaw:
    return Flaw("oversize", f"a line of {line.size:,} bytes")


# The whole log


def outline(fd: int, end: int, *, on_item: OnItem | None = None) -> Outline:
    """The shape of the log. Two passes, the second only for logs with branches or odd ids."""
    made = Outline()
    for position, size, item, line in shown(made, fd, 0, end):
        if on_item is not None:
            on_item(position, size, item, line)
    made.end()
    made.settle(_places(fd, end, made.wanted))
    return made


def shown(
    made: Outline, fd: int, start: int, end: int
) -> Iterator[tuple[int, int, Record | Flaw | None, bytes]]:
    """The items in `[start, end)`, each of them shown to the outline first."""
    for found in items(fd, start, end):
        position, size, item, line = found
        made.add(position, size, item, preview(line) if isinstance(item, Flaw) else "")
        yield found


def raw(fd: int, end: int) -> Iterator[bytes]:
    """The bytes of the log, in pieces."""
    for offset in range(0, end, READ_BLOCK_BYTES):
        yield os.pread(fd, min(READ_BLOCK_BYTES, end - offset), offset)


def hashes_in(fd: int) -> Iterator[str]:
    """Everything in a file that could be a blob's hash. Rather one too many than one too few."""
    overlap = b""
    offset = 0
    while block := os.pread(fd, READ_BLOCK_BYTES, offset):
        offset += len(block)
        data = overlap + block
        for run in _MENTIONS.finditer(data):
            # Text around a hash may end or begin with hex digits too (`\b`, `\u001b`).
            digits = run.group().decode()
            for start in range(len(digits) - 63):
                yield digits[start : start + 64]
        overlap = data[-63:]


def _places(fd: int, end: int, wanted: set[str]) -> dict[str, list[Place]]:
    places: dict[str, list[Place]] = {record_id: [] for record_id in wanted}
    if not wanted:
        return places
    for position, _size, item, line in items(fd, 0, end):
        if item is not None and not isinstance(item, Flaw):
            found = places.get(item.id or positional_id(position))
            if found is not None:
                found.append(Place(position, zlib.crc32(line)))
    return places


def stream(fd: int, end: int, spans: list[Span], shape: Outline) -> Iterator[tuple[int, Record]]:
    """The records in these spans, in order, with the ids they go by."""
    for position, _size, record in _counted_in(fd, end, spans, shape):
        if position in shape.renamed:
            yield position, msgspec.structs.replace(record, id=positional_id(position))
        else:
            yield position, identified(record, position)


def _counted_in(
    fd: int, end: int, spans: list[Span], shape: Outline
) -> Iterator[tuple[int, int, Record]]:
    for span in spans:
        for position, size, item, _line in items(fd, span.first, end):
            if position > span.last:
                break
            if not (item is None or isinstance(item, Flaw) or position in shape.skipped):
                yield position, size, item


# The newest part of the log


def walk_back(
    fd: int, end: int, on_flaw: Callable[[Finding], None] | None = None
) -> Iterator[tuple[int, int, Record]]:
    """(position, size, record) along the path from the head towards the root."""
    track = Backtrack()
    start: int = end
    for _bridge in range(_BRIDGES_MAX):
        for position, size, item, line in items_back(fd, start):
            is_next = track.offer(position, item)
            if item is None or isinstance(item, Flaw):
                if item is not None and on_flaw is not None:
                    on_flaw(Finding(item.kind, position, size, item.detail, preview(line)))
            elif is_next:
                yield position, size, identified(item, position)
        if track.missing is None:
            return
        on_flaw = None  # whoever looks for a parent in vain has seen everything
        start = track.bridge()
    yield from _walk_outline_back(fd, end, start)


def _walk_outline_back(fd: int, end: int, start: int) -> Iterator[tuple[int, int, Record]]:
    """The path before `start`, for logs with so many missing parents that looking costs more."""
    shape = outline(fd, end)
    counted = _counted_in(fd, end, shape.path(start), shape)
    entries = [(position, size) for position, size, _record in counted if position < start]
    for position, size in reversed(entries):
        record = line_at(fd, end, position)
        assert record is not None
        yield position, size, record


def recent_ids(fd: int, end: int, lines_max: int) -> set[str]:
    """The ids of the records that count among the last lines, on whatever branch."""
    starts = [position for position, _line in islice(backward(fd, end), lines_max)]
    ids: set[str] = set()
    shape = Outline(on_record=lambda _position, item: ids.add(item.id))
    for _shown in shown(shape, fd, starts[-1], end):
        pass
    return ids


def ending(fd: int, end: int) -> Ending:
    """How the log ends. Reads back only as far as the last record that counts."""
    track = Backtrack()
    head, seal, torn = "", b"", None
    flaws, open_records = 0, 0
    is_last = True
    for position, size, item, line in items_back(fd, end):
        is_unfinished = position + size == end
        if isinstance(item, Flaw):
            flaws += 1
            if is_unfinished:
                torn = Finding("torn", position, size, item.detail, preview(line))
                seal = _SEAL_LINE + b"\n"
        elif item is not None and is_last:
            seal = b"\n" if is_unfinished else seal
            open_records = (item.more or 0) - flaws
        if track.offer(position, item):
            assert item is not None
            assert not isinstance(item, Flaw)
            head = item.id or positional_id(position)
            break
        is_last = is_last and isinstance(item, Flaw)
    if open_records > 0 and torn is None:
        # An append of several records broke off: the next one must not seem to complete it.
        seal += _SEAL_LINE + b"\n"
    return Ending(head, seal, torn)


def header(fd: int, end: int) -> Header | None:
    """The header, where the first line is one."""
    for _position, _size, item, _line in items(fd, 0, end):
        return item if isinstance(item, Header) else None
    return None


def opening(fd: int, end: int) -> Header | None:
    """The header that says whose a log is: only one that the file begins with can.

    An empty one for a log that begins with another record, or is empty itself. None where the
    beginning is damaged: then nobody knows.
    """
    first = line_at(fd, end, 0)
    if first is None and end > 0:
        return None
    return first if isinstance(first, Header) else Header()


def line_at(fd: int, end: int, position: int) -> Record | None:
    """The record that starts at a position, if one does."""
    if position > 0 and os.pread(fd, 1, position - 1) != b"\n":
        return None
    for found, _size, item, _line in items(fd, position, end):
        if found != position or item is None or isinstance(item, Flaw):
            return None
        return identified(item, position)
    return None
