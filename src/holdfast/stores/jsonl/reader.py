"""A log as readers want it: the path, its newest part, the branches, the state it is in.

A `LogReader` sees the log as it was when it was opened; what is appended meanwhile it does not see.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import FORMAT_VERSION
from holdfast.core.log.damage import Finding, Flaw
from holdfast.core.log.ids import SessionKey, positional_id
from holdfast.core.log.listing import title_of
from holdfast.core.log.records import (
    FORMAT,
    Assistant,
    Compaction,
    Header,
    Record,
    User,
    text_of,
    was_repaired,
)
from holdfast.core.log.replay import Boundaries, SeenCalls, without_doubles
from holdfast.core.log.tree import Outline, settled_ids
from holdfast.errors import AmbiguousName, NoSuchRecord, StoreError
from holdfast.ports import Entry, Live, Report, Standing
from holdfast.stores.jsonl import log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.tree import Branch, Stands

_WALK_RECORDS_MAX: Final = 50_000
"""Reading from a record further back than this goes forward through the whole log instead."""
_NEAREST_IDS: Final = 200


class LogReader(msgspec.Struct, frozen=True):
    """The first `end` bytes of a log."""

    key: SessionKey
    fd: int
    end: int

    # Forward, through the whole log

    def path(self, head: str | None = None) -> Iterator[Record]:
        """The records from the root to `head` (the log's own by default)."""
        shape = self.outline()
        position = None if head is None else self.position_of(head)
        entries = log.stream(self.fd, self.end, shape.path(position), shape)
        return without_doubles(record for _position, record in entries)

    def outline(self) -> Outline:
        return log.outline(self.fd, self.end)

    def every_entry(self) -> Iterator[Entry]:
        """Every intact record in the order it was written, and what became of it."""
        shape = self.outline()
        spans = deque(shape.path())
        seen = SeenCalls()
        for position, _size, item, _line in log.items(self.fd, 0, self.end):
            if item is None or isinstance(item, Flaw):
                continue
            record = log.identified(item, position)
            if position in shape.renamed:
                record = msgspec.structs.replace(record, id=positional_id(position))
            while spans and spans[0].last < position:
                spans.popleft()
            standing: Standing = "branch"
            if position in shape.skipped:
                standing = shape.skipped[position]
            elif spans and spans[0].first <= position:
                standing = "double" if seen.doubles(record) else "path"
            yield Entry(record, standing)

    def branches(self) -> list[Branch]:
        return [self._titled(branch) for branch in self.outline().branches()]

    def examine(self) -> tuple[Outline, list[Finding]]:
        """The outline with every line decoded in full, and all that is to be said of the log."""
        notes: list[Finding] = []
        is_first = True

        def look(position: int, size: int, item: Record | Flaw | None, line: bytes) -> None:
            nonlocal is_first
            if isinstance(item, Flaw) or item is None:
                return
            if is_first:
                notes.extend(_header_notes(position, item))
                is_first = False
            if was_repaired(line):
                notes.append(Finding("repaired-text", position, size, f"`{item.id}`"))

        shape = log.outline(self.fd, self.end, on_item=look)
        if is_first:
            notes.extend(_header_notes(0, None))
        findings = sorted([*shape.findings, *notes], key=lambda finding: finding.position)
        return shape, findings

    def report(self) -> Report:
        shape, findings = self.examine()
        return Report(
            key=self.key,
            bytes=self.end,
            records=sum(shape.counts.values()),
            counts=dict(shape.counts),
            branches=len(shape.branches()),
            head=shape.head,
            findings=tuple(findings),
        )

    # Backward, from the head

    def head(self) -> str:
        return log.ending(self.fd, self.end).head

    def last(self, count: int) -> list[Record]:
        """The newest records on the path, oldest first."""
        newest: list[tuple[int, Record]] = []
        enough = max(count, 1)
        for position, _size, record in log.walk_back(self.fd, self.end):
            newest.append((position, record))
            if len(newest) >= enough and _begins_step(record):
                if len(_settled(newest)) >= count:
                    break
                enough = 2 * len(newest)
        return _settled(newest)[-count:] if count > 0 else []

    def back(self, before: str | None = None) -> Iterator[Record]:
        """The path towards the root, from the head or from the record before that one."""
        path = self._path_back()
        if before is not None and not any(
            before in (record.id, positional_id(position)) for position, record in path
        ):
            raise NoSuchRecord(before, self.key.session, where="the current branch of ")
        step: list[Record] = []
        for _position, record in path:
            step.append(record)
            if _begins_step(record):
                yield from reversed(list(without_doubles(reversed(step))))
                step.clear()
        yield from reversed(list(without_doubles(reversed(step))))

    def _path_back(self) -> Iterator[tuple[int, Record]]:
        """Every record on the path once, newest first, under an id that no newer one has."""
        places: dict[str, int] = {}
        for position, _size, record in log.walk_back(self.fd, self.end):
            newer = places.get(record.id)
            places[record.id] = position
            if newer is None:
                yield position, record
            elif log.line_at(self.fd, self.end, newer) != record:
                yield position, msgspec.structs.replace(record, id=positional_id(position))

    def live(self, window: int | None) -> Live:
        """The path from the newest compaction that binds `window`, or from the root."""
        newest: list[tuple[int, Record]] = []
        findings: list[Finding] = []
        boundary: Compaction | None = None
        boundaries = Boundaries(window)
        kept = 0
        for position, _size, record in log.walk_back(self.fd, self.end, findings.append):
            newest.append((position, record))
            if boundary is None and boundaries.is_one(record):
                assert isinstance(record, Compaction)
                boundary, kept = record, len(newest)
            if boundary is not None and boundary.first_kept in (None, record.id):
                kept = len(newest)
                break
        if boundary is not None and kept < len(newest):
            # The record it keeps from is not there. What comes after the summary still counts.
            detail = f"`{boundary.id}` keeps from `{boundary.first_kept}` on"
            findings.append(Finding("lost-boundary", newest[kept - 1][0], 0, detail))
            del newest[kept:]
        head = newest[0][1].id if newest else ""
        return Live(tuple(_settled(newest)), boundary, head, tuple(findings[::-1]))

    def path_from(self, start: str) -> Iterator[Record]:
        """The records on the path from `start` on. Costs what follows it, not what is before."""
        newest: list[tuple[int, Record]] = []
        wanted = 0
        for position, _size, record in log.walk_back(self.fd, self.end):
            newest.append((position, record))
            if record.id == start:
                wanted = len(newest)
            if wanted and _begins_step(record):
                older = {record.id for _position, record in newest[wanted:]}
                yield from (one for one in _settled(newest) if one.id not in older)
                return
            if len(newest) > _WALK_RECORDS_MAX:
                break
        newest.clear()
        yield from self._path_from_afar(start)

    def _path_from_afar(self, start: str) -> Iterator[Record]:
        first = self.position_of(start)
        shape = self.outline()
        spans = shape.path()
        if not any(span.first <= first <= span.last for span in spans):
            raise NoSuchRecord(start, self.key.session, where="the current branch of ")
        entries = log.stream(self.fd, self.end, spans, shape)
        yield from without_doubles(record for position, record in entries if position >= first)

    # Single records

    def header(self) -> Header:
        """The header, or one made up for a log that begins with another record, or is empty."""
        opening = log.opening(self.fd, self.end)
        if opening is None:
            raise StoreError(
                f"session `{self.key}` does not begin with a record: nobody knows whose it is",
                hint=f"see what is wrong with `holdfast verify {self.key.session}`",
            )
        return opening if opening.id else Header(id=self.key.session, agent=self.key.agent)

    def header_if_any(self) -> Header | None:
        """The header as it stands, for copies."""
        return log.header(self.fd, self.end)

    def record(self, name: str) -> Record:
        """The one record with that id, or with that unique beginning of one."""
        record = log.line_at(self.fd, self.end, self.position_of(name))
        if record is None:
            raise NoSuchRecord(name, self.key.session)
        return record

    def full_id(self, name: str) -> str:
        """The id that a unique beginning of one stands for."""
        position = self.position_of(name)
        record = log.line_at(self.fd, self.end, position)
        return record.id if record else positional_id(position)

    def position_of(self, name: str) -> int:
        """Where that record stands. Records of an append that never completed are not looked at."""
        candidates: dict[str, int] = {}
        placed: int | None = None
        recent: deque[str] = deque(maxlen=_NEAREST_IDS)
        for position, item in self._counted():
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
        raise NoSuchRecord(name, self.key.session, list(recent))

    def _counted(self) -> Iterator[tuple[int, Stands]]:
        """Every record that counts, in order."""
        counted: list[tuple[int, Stands]] = []
        shape = Outline(on_record=lambda position, item: counted.append((position, item)))
        for _item in log.shown(shape, self.fd, 0, self.end):
            yield from counted
            counted.clear()

    def _titled(self, branch: Branch) -> Branch:
        if branch.last_user is not None:
            record = log.line_at(self.fd, self.end, branch.last_user)
            if isinstance(record, User):
                return msgspec.structs.replace(branch, title=title_of(text_of(record.content)))
        return branch


def _begins_step(record: Record) -> bool:
    """Whether to stop walking back here is safe: a doubled call stands after what it doubles."""
    return isinstance(record, Assistant | User | Header)


def _settled(newest: list[tuple[int, Record]]) -> list[Record]:
    """Records found from the end, in order, as a reader should see them."""
    records = [record for _position, record in reversed(newest)]
    if len({record.id for record in records}) < len(records):
        records = _unrepeated(newest[::-1])
    return list(without_doubles(records))


def _unrepeated(entries: list[tuple[int, Record]]) -> list[Record]:
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
