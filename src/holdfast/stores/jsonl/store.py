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
from collections import OrderedDict
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import (
    BATCH_RECORDS_MAX,
    FORMAT_VERSION,
    LINE_BYTES_MAX,
    LOCK_WAIT_SECONDS,
)
from holdfast.core.log.ids import SessionKey, check_record_id, new_record_ids
from holdfast.core.log.records import FORMAT, Header, Record, Rewind, encode, encode_lines
from holdfast.errors import BadRecord, HoldfastWarning
from holdfast.ports import Appended, Entry, Live, Report, SessionInfo, Trashed
from holdfast.stores.files import Disk, network_filesystem, settled_size
from holdfast.stores.jsonl import log
from holdfast.stores.jsonl.folders import Shelf
from holdfast.stores.jsonl.index import Index, LogFile
from holdfast.stores.jsonl.reader import LogReader
from holdfast.stores.jsonl.repair import Mended, Mending, copied
from holdfast.stores.jsonl.writer import Lines, LogWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.tree import Branch
    from holdfast.ports import Clock, Durability, Entropy

_WRITERS_MAX: Final = 64
_MARKERS: Final = frozenset((Header, Rewind))
"""Records whose place matters."""


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
        owner: str = "",
    ) -> str:
        self._warn_of_network()
        header = self._header(
            key,
            label,
            parent_session=parent_session,
            parent_record=parent_record,
            reason=reason,
            owner=owner,
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
        with self._reading(key) as reader:
            yield from reader.path() if start is None else reader.path_from(start)

    def read_all(self, key: SessionKey) -> Iterator[Entry]:
        with self._reading(key) as reader:
            yield from reader.every_entry()

    def read_branch(self, key: SessionKey, head: str) -> Iterator[Record]:
        with self._reading(key) as reader:
            yield from reader.path(head)

    def header(self, key: SessionKey) -> Header:
        with self._reading(key) as reader:
            return reader.header()

    def last(self, key: SessionKey, count: int, *, before: str | None = None) -> list[Record]:
        with self._reading(key) as reader:
            if before is None:
                return reader.last(count)
            newest = list(islice(reader.back(before), max(count, 1)))
            return newest[::-1] if count > 0 else []

    def back(self, key: SessionKey, *, before: str | None = None) -> Iterator[Record]:
        with self._reading(key) as reader:
            yield from reader.back(before)

    def live(self, key: SessionKey, *, window: int | None = None) -> Live:
        with self._reading(key) as reader:
            return reader.live(window)

    def head(self, key: SessionKey) -> str:
        with self._reading(key) as reader:
            return reader.head()

    def find(self, key: SessionKey, prefix: str) -> Record:
        with self._reading(key) as reader:
            return reader.record(prefix)

    def branches(self, key: SessionKey) -> list[Branch]:
        with self._reading(key) as reader:
            return reader.branches()

    def verify(self, key: SessionKey) -> Report:
        with self._reading(key, is_settled=True) as reader:
            return reader.report()

    def export(self, key: SessionKey) -> Iterator[bytes]:
        """The log byte for byte, in pieces."""
        with self._reading(key) as reader:
            yield from log.raw(reader.fd, reader.end)

    # Copying and mending

    def fork(self, key: SessionKey, new: SessionKey, *, at: str | None, label: str = "") -> str:
        with self._reading(key) as reader:
            shape = reader.outline()
            position = None if at is None else reader.position_of(at)
            entries = log.stream(reader.fd, reader.end, shape.path(position), shape)
            old = reader.header_if_any()
            header = self._header(
                new,
                label or _derived(old, "fork"),
                parent_session=str(key),
                parent_record=shape.head if at is None else reader.record(at).id,
                reason="fork",
                owner=old.owner if old else "",
            )
            self._shelf.create(new, copied(entries, shape, header))
        return self.head(new)

    def repair(self, key: SessionKey) -> Mended:
        """Write a mended copy of a session beside it. The session itself is not touched."""
        new = self._shelf.free_key(key, "repaired")
        with self._reading(key, is_settled=True) as reader:
            shape, findings = reader.examine()
            old = reader.header_if_any()
            header = self._header(
                new,
                _derived(old, "repaired"),
                parent_session=str(key),
                reason="repair",
                owner=old.owner if old else "",
            )
            mending = Mending(reader.fd, reader.end, shape, header)
            self._shelf.create(new, mending.lines())
            path = None
            if mending.left_out:
                path = self._shelf.write_beside(new, ".quarantine", mending.quarantine())
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
            writer = self._writers.pop(key, None)
        if writer is not None:  # another thread may have let go of it
            writer.close()
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
            yield from log.hashes_in(fd)

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
            if record.id or record.parent is not None or type(record) in _MARKERS:
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
        """The record after the parent it names, by id or by a unique beginning of one."""
        with self._reading(key) as reader:
            found = parent if reader.head() == parent else reader.full_id(parent)
        if isinstance(record, Rewind):
            return msgspec.structs.replace(record, to=found, parent=found)
        return msgspec.structs.replace(record, parent=found)

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
        owner: str = "",
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
            owner=owner,
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
        if self._is_network_checked:
            return
        self._is_network_checked = True
        kind = network_filesystem(self.root, self._disk.mounts)
        if kind is not None:
            warnings.warn(
                f"`{self.root}` is on a network file system ({kind}): its locks may not hold "
                "between hosts. Keep it on a local disk, or let one host write",
                HoldfastWarning,
                stacklevel=4,
            )

    @contextmanager
    def _reading(self, key: SessionKey, *, is_settled: bool = False) -> Iterator[LogReader]:
        fd = self._open(key)
        try:
            yield LogReader(key, fd, settled_size(fd) if is_settled else os.fstat(fd).st_size)
        finally:
            os.close(fd)

    def _open(self, key: SessionKey) -> int:
        folder, fd = self._shelf.open(key, os.O_RDONLY)
        os.close(folder)
        return fd


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
