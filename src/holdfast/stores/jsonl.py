"""Sessions in plain files: `<root>/agents/<agent>/sessions/<session>.jsonl`.

An append is one write of whole lines on an append-only descriptor, under a lock that is held for
just that, followed by a data sync. Reading takes no lock. Nothing that was written is ever
changed: a torn end is sealed by the next append and stays in the file, where `verify` finds it.
"""

from __future__ import annotations

import os
import random
import threading
import time
import warnings
from collections import OrderedDict, deque
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.facts import title_of
from holdfast.core.findings import Finding, Flaw
from holdfast.core.ids import SessionKey, check_record_id, new_record_ids, positional_id
from holdfast.core.limits import (
    BATCH_RECORDS_MAX,
    FORMAT_VERSION,
    LINE_BYTES_MAX,
    LOCK_WAIT_SECONDS,
)
from holdfast.core.outline import settled_ids
from holdfast.core.records import (
    Assistant,
    Compaction,
    Header,
    Record,
    Rewind,
    Skim,
    User,
    decode,
    encode,
    encode_lines,
    skim,
    text_of,
    was_repaired,
)
from holdfast.core.replay import SeenCalls, binds, without_doubles
from holdfast.errors import AmbiguousName, BadRecord, HoldfastWarning, NoSuchRecord
from holdfast.ports import Appended, Entry, Live, Report, SessionInfo, Standing, Trashed
from holdfast.stores import log
from holdfast.stores.appending import FORMAT, Lines, LogWriter
from holdfast.stores.blobs import hashes_in
from holdfast.stores.files import Disk, network_filesystem
from holdfast.stores.index import Index, LogFile
from holdfast.stores.mending import Mended, Mending, copied
from holdfast.stores.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.outline import Branch, Outline
    from holdfast.ports import Clock, Durability, Entropy

_WRITERS_MAX: Final = 64
_WALK_RECORDS_MAX: Final = 50_000
"""Reading from a record further back than this goes forward through the whole log instead."""
_NEAREST_IDS: Final = 200


class JsonlStore:
    """The `SessionStore` of a single machine. Safe for threads and for processes."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        disk: Disk | None = None,
        clock: Clock = time.time,
        entropy: Entropy = random.getrandbits,
        lock_wait_seconds: float = LOCK_WAIT_SECONDS,
    ) -> None:
        self.root = os.fspath(root)
        self._disk = disk or Disk()
        self._clock = clock
        self._entropy = entropy
        self._lock_wait_seconds = lock_wait_seconds
        self._shelf = Shelf(self.root, self._disk)
        self._index = Index(os.path.join(self.root, "index.sqlite3"))
        self._forget_writers()
        self._is_network_checked = False

    def __enter__(self) -> JsonlStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._mutex:
            for writer in self._writers.values():
                writer.close()
            self._writers.clear()
        self._index.close()

    # Making and appending

    def create(
        self,
        key: SessionKey,
        *,
        label: str = "",
        parent_session: str | None = None,
        parent_record: str | None = None,
        reason: str | None = None,
    ) -> str:
        self._warn_of_network()
        header = self._header(
            key, label, parent_session=parent_session, parent_record=parent_record, reason=reason
        )
        self._shelf.create(key, [encode(header) + b"\n"])
        return header.id

    def append(
        self,
        key: SessionKey,
        records: Sequence[Record],
        *,
        expect: str | None,
        durability: Durability = "synced",
    ) -> Appended:
        if len(records) > BATCH_RECORDS_MAX:
            raise BadRecord(
                f"{len(records):,} records are too many for one append",
                hint=f"append at most {BATCH_RECORDS_MAX:,} at a time, or use `append_each`",
            )
        return self._append(key, records, expect, durability, is_batch=len(records) > 1)

    def append_each(
        self, key: SessionKey, records: Sequence[Record], *, durability: Durability = "synced"
    ) -> Appended:
        return self._append(key, records, None, durability, is_batch=False)

    def sync(self, key: SessionKey) -> None:
        self._writer(key).sync()

    # Reading

    def read(self, key: SessionKey, *, start: str | None = None) -> Iterator[Record]:
        with self._reading(key) as (fd, end):
            if start is None:
                shape = log.outline(fd, end)
                entries = log.stream(fd, end, shape.path(), shape)
            else:
                entries = self._entries_from(key, fd, end, start)
            yield from without_doubles(record for _position, record in entries)

    def read_all(self, key: SessionKey) -> Iterator[Entry]:
        with self._reading(key) as (fd, end):
            shape = log.outline(fd, end)
            yield from _every_entry(fd, end, shape)

    def read_branch(self, key: SessionKey, head: str) -> Iterator[Record]:
        with self._reading(key) as (fd, end):
            shape = log.outline(fd, end)
            spans = shape.path(_position_of(key, fd, end, head))
            entries = log.stream(fd, end, spans, shape)
            yield from without_doubles(record for _position, record in entries)

    def last(self, key: SessionKey, count: int) -> list[Record]:
        newest: list[tuple[int, Record]] = []
        enough = max(count, 1)
        with self._reading(key) as (fd, end):
            for position, _size, record in log.walk_back(fd, end):
                newest.append((position, record))
                # Stop where a step begins, lest a doubled call lose what it doubles.
                if len(newest) >= enough and isinstance(record, Assistant | User | Header):
                    if len(_settled(newest)) >= count:
                        break
                    enough = 2 * len(newest)
        return _settled(newest)[-count:] if count > 0 else []

    def live(self, key: SessionKey, *, window: int | None = None) -> Live:
        newest: list[tuple[int, Record]] = []
        findings: list[Finding] = []
        boundary: Compaction | None = None
        kept = 0
        with self._reading(key) as (fd, end):
            for position, _size, record in log.walk_back(fd, end, findings.append):
                newest.append((position, record))
                if boundary is None and isinstance(record, Compaction) and binds(record, window):
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

    def head(self, key: SessionKey) -> str:
        with self._reading(key) as (fd, end):
            return log.ending(fd, end).head

    def find(self, key: SessionKey, prefix: str) -> Record:
        with self._reading(key) as (fd, end):
            record = log.line_at(fd, end, _position_of(key, fd, end, prefix))
        if record is None:
            raise NoSuchRecord(prefix, key.session)
        return record

    def branches(self, key: SessionKey) -> list[Branch]:
        with self._reading(key) as (fd, end):
            return [_titled(fd, end, branch) for branch in log.outline(fd, end).branches()]

    # Copying and mending

    def fork(self, key: SessionKey, new: SessionKey, *, at: str | None, label: str = "") -> str:
        with self._reading(key) as (fd, end):
            shape = log.outline(fd, end)
            position = None if at is None else _position_of(key, fd, end, at)
            entries = log.stream(fd, end, shape.path(position), shape)
            old = log.header(fd, end)
            found = None if position is None else log.line_at(fd, end, position)
            header = self._header(
                new,
                label or _derived(old, "fork"),
                parent_session=str(key),
                parent_record=found.id if found else shape.head,
                reason="fork",
            )
            self._shelf.create(new, copied(entries, shape, header))
        return self.head(new)

    def verify(self, key: SessionKey) -> Report:
        with self._reading(key) as (fd, end):
            shape, notes = _examined(fd, end)
        findings = sorted([*shape.findings, *notes], key=lambda finding: finding.position)
        return Report(
            key=key,
            bytes=end,
            records=sum(shape.counts.values()),
            counts=dict(shape.counts),
            branches=len(shape.branches()),
            head=shape.head,
            findings=tuple(findings),
        )

    def repair(self, key: SessionKey) -> Mended:
        """Write a mended copy of a session beside it. The session itself is not touched."""
        new = self._shelf.free_key(key, "repaired")
        with self._reading(key) as (fd, end):
            shape, notes = _examined(fd, end)
            label = _derived(log.header(fd, end), "repaired")
            header = self._header(new, label, parent_session=str(key), reason="repair")
            mending = Mending(fd, end, shape, header)
            self._shelf.create(new, mending.lines())
            path = None
            if mending.left_out:
                path = self._shelf.write_beside(new, ".quarantine", mending.quarantine())
        findings = sorted([*shape.findings, *notes], key=lambda finding: finding.position)
        return Mended(new, mending.records, tuple(findings), path)

    # The catalogue

    def sessions(self, *, agent: str | None = None) -> list[SessionInfo]:
        logs = (
            LogFile(key, status, self._open)
            for key, status in self._shelf.sessions()
            if agent in (None, key.agent)
        )
        infos = self._index.infos(logs, is_complete=agent is None)
        return sorted(infos, key=lambda info: (-info.last_active, info.key))

    def remove(self, key: SessionKey) -> Trashed:
        trashed = self._writer(key).discard(now=self._clock())
        with self._mutex:
            self._writers.pop(key).close()
        return trashed

    def trash(self) -> list[Trashed]:
        return self._shelf.trash()

    def restore(self, name: str) -> SessionKey:
        return self._shelf.restore(name)

    def empty_trash(self, *, older_than_seconds: float = 0.0) -> list[Trashed]:
        return self._shelf.empty_trash(before=self._clock() - older_than_seconds)

    def sweep(self) -> list[str]:
        """Remove what killed processes left behind; returns the names."""
        return self._shelf.sweep(now=self._clock())

    def mentioned_hashes(self) -> Iterator[str]:
        """Everything in any log, living or trashed, that could be the hash of a blob."""
        for fd in self._shelf.logs():
            yield from hashes_in(fd)

    def export(self, key: SessionKey) -> Iterator[bytes]:
        """The log byte for byte, in pieces."""
        with self._reading(key) as (fd, end):
            yield from log.raw(fd, end)

    # How an append is made

    def _append(
        self,
        key: SessionKey,
        records: Sequence[Record],
        expect: str | None,
        durability: Durability,
        *,
        is_batch: bool,
    ) -> Appended:
        if not self._is_network_checked:
            self._warn_of_network()
        if not records:
            return Appended((), self.head(key))
        writer = self._writer(key)
        placed, claimed = self._placed(key, records)
        ready = self._lines(placed, writer.head, is_batch=is_batch)

        def lines_after(head: str) -> Lines:
            # Usually ready before the lock was taken; again only if another writer's id is later.
            return ready if head < ready.ids[0] else self._lines(placed, head, is_batch=is_batch)

        lines, sealed = writer.append(
            lines_after,
            expect=expect,
            claimed=claimed,
            header=lambda: encode(self._header(key)) + b"\n",
            is_synced=durability == "synced",
        )
        return Appended(lines.ids, lines.ids[-1], sealed)

    def _placed(
        self, key: SessionKey, records: Sequence[Record]
    ) -> tuple[Sequence[Record], list[str]]:
        """The records, checked, with rewinds and parents pointing at what is there.

        With them the ids they came with.
        """
        for record in records:
            if record.id or record.parent is not None or isinstance(record, Header | Rewind):
                break
        else:
            return records, []
        known: dict[str, None] = {}
        return [self._checked(key, record, known) for record in records], list(known)

    def _checked(self, key: SessionKey, record: Record, known: dict[str, None]) -> Record:
        """A record that says more than its content; `known` are the ids before it."""
        if isinstance(record, Header):
            raise BadRecord(
                "a `session` record is the header of a log and cannot be appended",
                hint="make a session with `create`, or `holdfast new`",
            )
        if isinstance(record, Rewind):
            record = msgspec.structs.replace(record, parent=record.to)
        if record.parent is not None and record.parent not in known:
            record = self._with_parent(key, record, record.parent)
        if record.id:
            check_record_id(record.id)
            if record.id in known:
                raise BadRecord(f"record id `{record.id}` occurs twice in one append")
            known[record.id] = None
        return record

    def _with_parent(self, key: SessionKey, record: Record, parent: str) -> Record:
        with self._reading(key) as (fd, end):
            if log.ending(fd, end).head == parent:
                return record
            found = log.line_at(fd, end, _position_of(key, fd, end, parent))
        assert found is not None
        if isinstance(record, Rewind):
            return msgspec.structs.replace(record, to=found.id, parent=found.id)
        return msgspec.structs.replace(record, parent=found.id)

    def _lines(self, records: Sequence[Record], head: str, *, is_batch: bool) -> Lines:
        now = self._clock()
        ids = new_record_ids(len(records), now=now, random_bits=self._entropy(28), after=head)
        now = round(now, 3)
        more = len(records) if is_batch else 0
        ready = [
            msgspec.structs.replace(
                record,
                id=record.id or new_id,
                ts=record.ts or now,
                more=(more := more - 1) if is_batch else None,
            )
            for record, new_id in zip(records, ids, strict=True)
        ]
        data = encode_lines(ready)
        if len(data) > LINE_BYTES_MAX:
            _check_sizes(data)
        return Lines(data, tuple([record.id for record in ready]))

    def _header(
        self,
        key: SessionKey,
        label: str = "",
        *,
        parent_session: str | None = None,
        parent_record: str | None = None,
        reason: str | None = None,
    ) -> Header:
        return Header(
            id=key.session,
            ts=round(self._clock(), 3),
            format=FORMAT,
            version=FORMAT_VERSION,
            agent=key.agent,
            label=label,
            parent_session=parent_session,
            parent_record=parent_record,
            reason=reason,
        )

    # Descriptors

    def _writer(self, key: SessionKey) -> LogWriter:
        if self._pid != os.getpid():
            self._forget_writers()  # a forked child shares its parent's locks: it needs its own
        with self._mutex:
            writer = self._writers.get(key)
            if writer is None:
                writer = LogWriter(self._shelf, key, self._disk, self._lock_wait_seconds)
                self._writers[key] = writer
            self._writers.move_to_end(key)
            if len(self._writers) > _WRITERS_MAX:
                self._writers.popitem(last=False)[1].close()
        return writer

    def _forget_writers(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._writers: OrderedDict[SessionKey, LogWriter] = OrderedDict()

    def _warn_of_network(self) -> None:
        self._is_network_checked = True
        kind = network_filesystem(self.root)
        if kind is not None:
            warnings.warn(
                f"`{self.root}` is on a network file system ({kind}): its locks may not hold "
                "between hosts. Keep it on a local disk, or let one host write",
                HoldfastWarning,
                stacklevel=4,
            )

    @contextmanager
    def _reading(self, key: SessionKey) -> Iterator[tuple[int, int]]:
        fd = self._open(key)
        try:
            yield fd, os.fstat(fd).st_size
        finally:
            os.close(fd)

    def _open(self, key: SessionKey) -> int:
        folder, fd = self._shelf.open(key, os.O_RDONLY)
        os.close(folder)
        return fd

    def _entries_from(
        self, key: SessionKey, fd: int, end: int, start: str
    ) -> Iterator[tuple[int, Record]]:
        """The records on the path from `start` on. Costs what follows it, not what is before."""
        newest: list[tuple[int, Record]] = []
        for position, _size, record in log.walk_back(fd, end):
            newest.append((position, record))
            if record.id == start:
                yield from _unrepeated(newest[::-1])
                return
            if len(newest) > _WALK_RECORDS_MAX:
                break
        newest.clear()
        first = _position_of(key, fd, end, start)
        shape = log.outline(fd, end)
        spans = shape.path()
        if not any(span.first <= first <= span.last for span in spans):
            raise NoSuchRecord(start, f"{key.session}` on the path to the head of `{key.session}")
        for position, record in log.stream(fd, end, spans, shape):
            if position >= first:
                yield position, record


def _check_sizes(data: bytes) -> None:
    largest = max(data.split(b"\n"), key=len)
    if len(largest) > LINE_BYTES_MAX:
        raise BadRecord(
            f"a record of {len(largest):,} bytes is too large for a log",
            hint=f"put payloads over {LINE_BYTES_MAX:,} bytes into a blob",
        )


def _derived(old: Header | None, what: str) -> str:
    """A label for a copy that cannot be mistaken for the original's."""
    return f"{old.label} ({what})" if old and old.label else ""


def _settled(newest: list[tuple[int, Record]]) -> list[Record]:
    """Records found from the end, in order, as a reader should see them."""
    return list(without_doubles(record for _position, record in _unrepeated(newest[::-1])))


def _unrepeated(entries: list[tuple[int, Record]]) -> Iterator[tuple[int, Record]]:
    repeats = settled_ids(entries)
    for position, record in entries:
        if position not in repeats:
            yield position, record
            continue
        new_id = repeats[position]
        if new_id is not None:
            yield position, msgspec.structs.replace(record, id=new_id)


def _every_entry(fd: int, end: int, shape: Outline) -> Iterator[Entry]:
    spans = shape.path()
    seen = SeenCalls()
    for position, _size, item, _line in log.items(fd, 0, end, decode):
        if item is None or isinstance(item, Flaw):
            continue
        record = log.identified(item, position)
        if position in shape.renamed:
            record = msgspec.structs.replace(record, id=positional_id(position))
        while spans and spans[0].last < position:
            spans.pop(0)
        standing: Standing = "branch"
        if position in shape.skipped:
            standing = shape.skipped[position]
        elif spans and spans[0].first <= position:
            standing = "double" if seen.doubles(record) else "path"
        yield Entry(record, standing)


def _position_of(key: SessionKey, fd: int, end: int, name: str) -> int:
    """Where the record with that id, or with that unique beginning of one, stands."""
    if name.startswith("@") and name[1:].isdigit() and log.line_at(fd, end, int(name[1:])):
        return int(name[1:])
    candidates: dict[str, int] = {}
    recent: deque[str] = deque(maxlen=_NEAREST_IDS)
    for position, _size, item, _line in log.items(fd, 0, end, skim):
        if isinstance(item, Skim):
            record_id = item.id or positional_id(position)
            recent.append(record_id)
            if record_id == name:
                return position
            if name and record_id.startswith(name):
                candidates.setdefault(record_id, position)
    if len(candidates) == 1:
        return next(iter(candidates.values()))
    if candidates:
        raise AmbiguousName("record", name, list(candidates))
    raise NoSuchRecord(name, key.session, list(recent))


def _titled(fd: int, end: int, branch: Branch) -> Branch:
    record = None if branch.last_user is None else log.line_at(fd, end, branch.last_user)
    if isinstance(record, User):
        return replace(branch, title=title_of(text_of(record.content)))
    return branch


def _examined(fd: int, end: int) -> tuple[Outline, list[Finding]]:
    """The shape of a log with every line decoded in full, and what else is to be said of it."""
    notes: list[Finding] = []
    is_first = True

    def look(position: int, size: int, item: Record | Skim | Flaw | None, line: bytes) -> None:
        nonlocal is_first
        if isinstance(item, Flaw) or item is None:
            return
        if is_first:
            notes.extend(_header_notes(position, item))
            is_first = False
        if was_repaired(line):
            notes.append(Finding("repaired-text", position, size, f"`{item.id}`"))

    shape = log.outline(fd, end, read_line=decode, on_item=look)
    if is_first:
        notes.extend(_header_notes(0, None))
    return shape, notes


def _header_notes(position: int, first: Record | Skim | None) -> list[Finding]:
    if not isinstance(first, Header):
        return [Finding("no-header", position, 0, "the first record is not a header")]
    if first.format != FORMAT:
        return [Finding("foreign-header", position, 0, f"version {first.version}")]
    if first.version > FORMAT_VERSION:
        return [Finding("newer-version", position, 0, f"version {first.version}")]
    return []
