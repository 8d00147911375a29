"""Reads the lines of a log along its tree, from either end.

A store shows a log as an `OpenLog`: its lines, forward and backward. Everything else about a
session is derived from those two, here and in `views`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol, cast

import msgspec

from holdfast.core.log.damage import Finding, Flaw, preview
from holdfast.core.log.ids import SessionKey, positional_id
from holdfast.core.log.records import Record
from holdfast.core.log.tree import Backtrack, Outline, Place
from holdfast.errors import AmbiguousName, NoSuchRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.core.log.tree import LogSpan

LogLine = tuple[int, int, Record | Flaw | None, bytes]
"""Position, size, record and bytes of a line. A damaged line has a `Flaw`, a seal has None."""

SUGGESTED_IDS_MAX: Final = 200
"""The newest ids, which an unknown id is compared with for a suggestion."""
_BRIDGES_MAX: Final = 4
"""A bridge over a missing parent reads the whole log; after this many an outline is cheaper."""
_HELD_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of a log up to this size, the lines are held in memory while all of it is read."""


class OpenLog(Protocol):
    """The lines of one session, as they were when the log was opened.

    A position is the byte offset of a line in the log as a file, on every store: `@57` means the
    same record wherever the log is kept.
    """

    @property
    def key(self) -> SessionKey: ...

    @property
    def size(self) -> int:
        """The number of bytes."""

    def lines(self, start: int = 0) -> Iterator[LogLine]:
        """Every line that is not blank, oldest first, from a position on."""

    def lines_back(self, end: int | None = None) -> Iterator[LogLine]:
        """Every line that is not blank, newest first, from before a position."""

    def data(self) -> Iterator[bytes]:
        """The log byte for byte, in pieces."""


class HeldLog(msgspec.Struct, frozen=True):
    """An `OpenLog` whose lines were read and decoded already."""

    key: SessionKey
    size: int
    _lines: list[LogLine]
    _log: OpenLog

    def lines(self, start: int = 0) -> Iterator[LogLine]:
        first = bisect_left(self._lines, start, key=lambda line: line[0])
        return map(self._lines.__getitem__, range(first, len(self._lines)))

    def lines_back(self, end: int | None = None) -> Iterator[LogLine]:
        return self._log.lines_back(end)

    def data(self) -> Iterator[bytes]:
        return self._log.data()


def hold(log: OpenLog) -> OpenLog:
    """Return a log for a reader that goes over all of it more than once.

    A short one has its lines in memory, so that each is decoded once; a long one stays as it is.
    """
    if log.size > _HELD_BYTES_MAX:
        return log
    return HeldLog(log.key, log.size, list(log.lines()), log)


def identify(record: Record, position: int) -> Record:
    """Return the record, with its positional id where it was stored without an id."""
    return record if record.id else msgspec.structs.replace(record, id=positional_id(position))


def record_at(log: OpenLog, position: int) -> Record | None:
    """Return the record at a position, or None where no intact record starts there."""
    for found, _size, item, _line in log.lines(position):
        if found != position or item is None or isinstance(item, Flaw):
            return None
        return identify(item, position)
    return None


# Forward


def outline(log: OpenLog, *, on_line: Callable[[LogLine], None] | None = None) -> Outline:
    """Return the shape of the log. Logs with branches or unordered ids take a second pass."""
    shape = Outline()
    for line in outline_lines(shape, log.lines()):
        if on_line is not None:
            on_line(line)
    shape.end()
    shape.settle(_places(log, shape.missing_ids))
    return shape


def outline_lines(shape: Outline, lines: Iterable[LogLine]) -> Iterator[LogLine]:
    """Yield the lines after adding each of them to the outline."""
    for found in lines:
        position, size, item, line = found
        shape.add(position, size, item, preview(line) if isinstance(item, Flaw) else "")
        yield found


def stream(log: OpenLog, spans: Iterable[LogSpan], shape: Outline) -> Iterator[tuple[int, Record]]:
    """Yield the records in these spans with their positions, each under its effective id."""
    skipped, renamed = shape.skipped, shape.renamed
    for span in spans:
        for position, _size, item, _line in log.lines(span.first):
            if position > span.last:
                break
            if item is None or isinstance(item, Flaw) or position in skipped:
                continue
            if position in renamed or not item.id:
                item = msgspec.structs.replace(item, id=positional_id(position))
            yield position, item


def _places(log: OpenLog, wanted: set[str]) -> dict[str, list[Place]]:
    places: dict[str, list[Place]] = {record_id: [] for record_id in wanted}
    if not wanted:
        return places
    for position, _size, item, line in log.lines():
        if item is not None and not isinstance(item, Flaw):
            found = places.get(item.id or positional_id(position))
            if found is not None:
                found.append(Place(position, hash(line)))
    return places


def records_that_count(log: OpenLog, start: int = 0) -> Iterator[tuple[int, Record]]:
    """Yield every record that counts, in order, from a position on.

    Where `start` is in the middle of an append of several records, those from there on count once
    the append is complete.
    """
    counted: list[tuple[int, Record]] = []
    shape = Outline(
        on_record=lambda position, item: counted.append((position, cast("Record", item))),
        is_start=start == 0,
    )
    for _line in outline_lines(shape, log.lines(start)):
        yield from counted
        counted.clear()


def position_of(log: OpenLog, name: str) -> int:
    """Return the position of the record with that id, or with that unique prefix of an id.

    Records of an append that never completed do not count.
    """
    candidates: dict[str, int] = {}
    placed: int | None = None
    recent: deque[str] = deque(maxlen=SUGGESTED_IDS_MAX)
    for position, item in records_that_count(log):
        record_id = item.id or positional_id(position)
        recent.append(record_id)
        if record_id == name:
            return position
        if name and record_id.startswith(name):
            candidates.setdefault(record_id, position)
        if positional_id(position) == name:
            placed = position  # it goes by its position because its own id was taken
    if placed is not None:
        return placed
    if len(candidates) == 1:
        return next(iter(candidates.values()))
    if candidates:
        raise AmbiguousName("record", name, list(candidates))
    raise NoSuchRecord(name, log.key.session, list(recent))


# Backward


def walk_back(
    log: OpenLog, on_flaw: Callable[[Finding], None] | None = None
) -> Iterator[tuple[int, Record]]:
    """Yield the records on the path with their positions, from the head towards the root."""
    track = Backtrack[Record]()
    start: int | None = None
    for _bridge in range(_BRIDGES_MAX):
        for position, size, item, line in log.lines_back(start):
            if isinstance(item, Flaw) and on_flaw is not None:
                on_flaw(Finding(item.kind, position, size, item.detail, preview(line)))
            for place, record in track.offer(position, item):
                yield place, record if record.id else identify(record, place)
        for place, record in track.finish():
            yield place, identify(record, place)
        missing = track.missing
        if missing is None:
            return
        on_flaw = None  # the search for the missing parent has read every line
        start = track.bridge()
    assert missing is not None
    yield from _walk_outline_back(log, missing)


def _walk_outline_back(log: OpenLog, start: int) -> Iterator[tuple[int, Record]]:
    """Yield the path before `start`, for logs with more missing parents than `_BRIDGES_MAX`."""
    shape = outline(log)
    entries = stream(log, shape.path(start), shape)
    positions = [position for position, _record in entries if position < start]
    for position in reversed(positions):
        record = record_at(log, position)
        assert record is not None
        yield position, record
