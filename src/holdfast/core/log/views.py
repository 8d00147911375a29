"""Everything that can be read of a session, derived from the lines of its log.

A reader sees the log as it was when it was opened. Views of the newest records walk back from the
head and cost what they return; the others read the whole log.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.limits import FORMAT_VERSION
from holdfast.core.log.damage import Finding, Flaw, was_repaired
from holdfast.core.log.ids import SessionKey, positional_id
from holdfast.core.log.listing import Facts, title_of
from holdfast.core.log.records import (
    FORMAT,
    Assistant,
    Compaction,
    Header,
    Record,
    User,
    tool_calls,
)
from holdfast.core.log.replay import Boundaries, Live, SeenCalls, user_text, without_doubles
from holdfast.core.log.tree import Outline, ends_chain, settled_ids
from holdfast.core.log.walk import (
    hold,
    identify,
    outline,
    outline_lines,
    position_of,
    record_at,
    records_that_count,
    stream,
    walk_back,
)
from holdfast.errors import NoSuchRecord, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.log.tree import Branch
    from holdfast.core.log.walk import LogLine, OpenLog
    from holdfast.core.window import WindowFilter

_WALK_RECORDS_MAX: Final = 50_000
"""Reading from a record further back than this goes forward through the whole log instead: the
records walked over are held in memory."""

Standing = Literal["path", "branch", "double", "repeat", "open"]
"""The state of a record: on the path to the head; on an abandoned branch; a call stored a second
time; a line that repeats an earlier one; part of an append that never completed."""


class LogEntry(msgspec.Struct, frozen=True):
    """A record and its state in the whole log."""

    record: Record
    """The record."""
    standing: Standing
    """Its state in the whole log."""


class LogReport(msgspec.Struct, frozen=True):
    """Everything `verify` found out about one session."""

    key: SessionKey
    """The session."""
    bytes: int
    """Size of the log."""
    records: int
    """Number of records."""
    counts: dict[str, int]
    """Number of records by type."""
    branches: int
    """Number of branches."""
    head: str
    """The newest record of the path."""
    findings: tuple[Finding, ...]
    """All damage that was found."""

    @property
    def is_sound(self) -> bool:
        return not any(finding.is_damage for finding in self.findings)


# The whole log, forward


def read_path(log: OpenLog, head: str | None = None) -> Iterator[Record]:
    """Return the records from the root to `head` (the log's own by default)."""
    log = hold(log)
    shape = outline(log)
    position = None if head is None else position_of(log, head)
    entries = stream(log, shape.path(position), shape)
    return without_doubles(record for _position, record in entries)


def read_entries(log: OpenLog) -> Iterator[LogEntry]:
    """Yield every intact record in the order it was written, with its state."""
    log = hold(log)
    shape = outline(log)
    spans = deque(shape.path())
    seen = SeenCalls()
    for position, _size, item, _line in log.lines():
        if item is None or isinstance(item, Flaw):
            continue
        record = identify(item, position)
        if position in shape.renamed:
            record = msgspec.structs.replace(record, id=positional_id(position))
        while spans and spans[0].last < position:
            spans.popleft()
        standing: Standing = "branch"
        if position in shape.skipped:
            standing = shape.skipped[position]
        elif spans and spans[0].first <= position:
            standing = "double" if seen.doubles(record) else "path"
        yield LogEntry(record, standing)


def list_branches(log: OpenLog) -> list[Branch]:
    """Return every leaf of the tree, each titled by the last words of a user on it."""
    branches = outline(log).branches()
    for index, branch in enumerate(branches):
        record = None if branch.last_user is None else record_at(log, branch.last_user)
        if isinstance(record, User):
            title = title_of(user_text(record))
            branches[index] = msgspec.structs.replace(branch, title=title)
    return branches


def examine(log: OpenLog) -> tuple[Outline, list[Finding]]:
    """Return the outline, with every line decoded in full, and all findings."""
    notes: list[Finding] = []
    is_first = True

    def look(line: LogLine) -> None:
        nonlocal is_first
        position, size, item, data = line
        if isinstance(item, Flaw) or item is None:
            return
        if is_first:
            notes.extend(_header_notes(position, item))
            is_first = False
        if was_repaired(data):
            notes.append(Finding("repaired-text", position, size, f"`{item.id}`"))

    shape = outline(log, on_line=look)
    if is_first:
        notes.extend(_header_notes(0, None))
    findings = sorted([*shape.findings, *notes], key=lambda finding: finding.position)
    return shape, findings


def verify(log: OpenLog) -> LogReport:
    """Read everything and report what is wrong."""
    shape, findings = examine(log)
    return LogReport(
        key=log.key,
        bytes=log.size,
        records=sum(shape.counts.values()),
        counts=dict(shape.counts),
        branches=len(shape.branches()),
        head=shape.head,
        findings=tuple(findings),
    )


def facts(log: OpenLog) -> Facts:
    """Return the small facts that a listing shows."""
    found = Facts()
    shape = Outline(on_record=found.add)
    for _line in outline_lines(shape, log.lines()):
        pass
    shape.end()
    first = opening(log)
    found.owner = first.owner if first else None
    found.damaged = sum(finding.is_damage for finding in shape.findings)
    return found


# The newest part, backward from the head


def head(log: OpenLog) -> str:
    """Return the id of the head; empty for an empty log."""
    for _position, record in walk_back(log):
        return record.id
    return ""


def head_position(log: OpenLog) -> int | None:
    """Return the position of the head; None for an empty log."""
    return next((position for position, _record in walk_back(log)), None)


def read_since(log: OpenLog, start: int) -> Iterator[tuple[int, Record]]:
    """Yield the records that count from a position on, in the order they were written."""
    for position, item in records_that_count(log, start):
        yield position, identify(item, position)


def last_written(log: OpenLog, count: int) -> tuple[list[Record], bool]:
    """Return at least the newest `count` records in the order they were written, on any branch,
    and True where these are all."""
    start = seen = 0
    is_all = True
    for position, _size, item, _line in log.lines_back():
        if seen >= count and ends_chain(item):
            is_all = False
            break
        start, seen = position, seen + 1
    return [record for _position, record in read_since(log, start)], is_all


def last(log: OpenLog, count: int, before: str | None = None) -> list[Record]:
    """Return the newest `count` records on the path, or the newest before one, oldest first."""
    if before is not None:
        newest_before = list(islice(read_back(log, before), max(count, 1)))
        return newest_before[::-1] if count > 0 else []
    newest: list[tuple[int, Record]] = []
    enough = max(count, 1)
    for position, record in walk_back(log):
        newest.append((position, record))
        if len(newest) >= enough and _begins_step(record):
            if len(_in_order(newest)) >= count:
                break
            enough = 2 * len(newest)
    return _in_order(newest)[-count:] if count > 0 else []


def read_back(log: OpenLog, before: str | None = None) -> Iterator[Record]:
    """Yield the path towards the root, from the head or from the record before that one."""
    path = _unique_back(log)
    if before is not None and not any(
        before in (record.id, positional_id(position)) for position, record in path
    ):
        raise NoSuchRecord(before, log.key.session, where="the current branch of ")
    step: list[Record] = []
    for _position, record in path:
        step.append(record)
        if _begins_step(record):
            yield from reversed(list(without_doubles(reversed(step))))
            step.clear()
    yield from reversed(list(without_doubles(reversed(step))))


def _unique_back(log: OpenLog) -> Iterator[tuple[int, Record]]:
    """Yield every record on the path once, newest first, under an id that no newer one has."""
    places: dict[str, int] = {}
    for position, record in walk_back(log):
        newer = places.get(record.id)
        places[record.id] = position
        if newer is None:
            yield position, record
        elif record_at(log, newer) != record:
            yield position, msgspec.structs.replace(record, id=positional_id(position))


def live(log: OpenLog, window: WindowFilter) -> Live:
    """Return the path from the newest compaction that binds `window`, or from the root."""
    newest: list[tuple[int, Record]] = []
    findings: list[Finding] = []
    boundary: Compaction | None = None
    boundaries = Boundaries(window)
    kept = 0
    for position, record in walk_back(log, findings.append):
        newest.append((position, record))
        if boundary is None and boundaries.is_one(record):
            assert isinstance(record, Compaction)
            boundary, kept = record, len(newest)
        if boundary is not None and boundary.first_kept in (None, record.id):
            kept = len(newest)
            break
    if boundary is not None and kept < len(newest):
        # The first kept record is not in the log. The records after the summary still count.
        detail = f"`{boundary.id}` keeps from `{boundary.first_kept}` on"
        findings.append(Finding("lost-boundary", newest[kept - 1][0], 0, detail))
        del newest[kept:]
    newest_id = newest[0][1].id if newest else ""
    return Live(tuple(_in_order(newest)), boundary, newest_id, tuple(findings[::-1]))


def read_from(log: OpenLog, start: str) -> Iterator[Record]:
    """Yield the records on the path from `start` on. Costs what follows it, not what is before."""
    newest: list[tuple[int, Record]] = []
    wanted = 0
    for position, record in walk_back(log):
        newest.append((position, record))
        if record.id == start:
            wanted = len(newest)
        if wanted and _begins_step(record):
            older = {record.id for _position, record in newest[wanted:]}
            yield from (found for found in _in_order(newest) if found.id not in older)
            return
        if len(newest) > _WALK_RECORDS_MAX:
            break
    newest.clear()
    yield from _read_from_afar(log, start)


def _read_from_afar(log: OpenLog, start: str) -> Iterator[Record]:
    first = position_of(log, start)
    shape = outline(log)
    spans = shape.path()
    if not any(span.first <= first <= span.last for span in spans):
        raise NoSuchRecord(start, log.key.session, where="the current branch of ")
    entries = stream(log, spans, shape)
    yield from without_doubles(record for position, record in entries if position >= first)


# Single records


def opening(log: OpenLog) -> Header | None:
    """Return the header that says who owns a log: only one that the log begins with can.

    An empty header for a log that begins with another record, or is empty itself. None where the
    beginning is damaged, and the owner therefore unknown.
    """
    first = record_at(log, 0)
    if first is None and log.size > 0:
        return None
    return first if isinstance(first, Header) else Header()


def header(log: OpenLog) -> Header:
    """Return the header, or a made-up one for a log that is empty or begins with another record."""
    found = opening(log)
    if found is None:
        raise StoreError(
            f"cannot tell who owns session `{log.key}`: its log does not begin with a record",
            hint=f"see what is wrong with `holdfast verify {log.key.session}`",
        )
    return found if found.id else Header(id=log.key.session, agent=log.key.agent)


def header_or_none(log: OpenLog) -> Header | None:
    """Return the header as it is stored, for copies; None where the first line is another."""
    for _position, _size, item, _line in log.lines():
        return item if isinstance(item, Header) else None
    return None


def find(log: OpenLog, name: str, position: int | None = None) -> Record:
    """Return the record with that id, or with that unique prefix of an id.

    A caller that knows where it is passes its `position`.
    """
    record = record_at(log, position_of(log, name) if position is None else position)
    if record is None:
        raise NoSuchRecord(name, log.key.session)
    return record


def _begins_step(record: Record) -> bool:
    """Return whether a walk back may stop here: a doubled call comes after the call it doubles."""
    return isinstance(record, Assistant | User | Header)


def _in_order(newest: list[tuple[int, Record]]) -> list[Record]:
    """Return records that were found newest first as `read_path` shows them."""
    records = [record for _position, record in reversed(newest)]
    if len({record.id for record in records}) < len(records):
        records = _without_repeats(newest[::-1])
    return list(without_doubles(records))


def _without_repeats(entries: list[tuple[int, Record]]) -> list[Record]:
    repeats = settled_ids(entries)
    records = []
    for position, record in entries:
        new_id = repeats.get(position, record.id)
        if new_id is not None:
            is_same = new_id == record.id
            records.append(record if is_same else msgspec.structs.replace(record, id=new_id))
    return records


def _header_notes(position: int, first: Record | None) -> list[Finding]:
    if not isinstance(first, Header):
        return [Finding("no-header", position, 0, "the first record is not a header")]
    if first.format != FORMAT:
        return [Finding("foreign-header", position, 0, f"version {first.version}")]
    if first.version > FORMAT_VERSION:
        return [Finding("newer-version", position, 0, f"version {first.version}")]
    return []


MESSAGE_KEY: Final = "key"
"""The field of a `user` record that holds the key."""


def key_of(record: object) -> str:
    """Return the key of a user's message; empty where it has none."""
    key = record.extra.get(MESSAGE_KEY) if type(record) is User else None
    return key if isinstance(key, str) else ""


def find_keyed(log: OpenLog, key: str) -> Record | None:
    """Return the newest message with a key, on whichever branch; one that was never stored whole
    does not count."""
    found = None
    for entry in read_entries(log):
        if entry.standing in ("path", "branch") and key_of(entry.record) == key:
            found = entry.record
    return found


def find_answer(records: Iterable[Record]) -> Assistant | None:
    """Return the last reply of the turn that the first of `records` began or joined; None where it
    has none yet."""
    answer = None
    for record in islice(records, 1, None):
        if isinstance(record, Assistant) and not tool_calls(record.content):
            answer = record
        elif isinstance(record, User) and answer is not None:
            break
    return answer
