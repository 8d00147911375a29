"""Sessions and payloads in memory. They end with the process: losing data is opt-in, by name.

For tests, and to show that the ports need no files. A log is a list of encoded lines, so that
nothing a caller holds can change what was appended; a position is an index into that list.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import threading
import time
from dataclasses import dataclass, field
from itertools import count, islice
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.limits import BATCH_RECORDS_MAX, FORMAT_VERSION, LINE_BYTES_MAX
from holdfast.core.log.damage import Finding, Flaw
from holdfast.core.log.ids import SessionKey, check_record_id, new_record_ids
from holdfast.core.log.listing import Facts, title_of
from holdfast.core.log.records import (
    FORMAT,
    Compaction,
    Header,
    Rewind,
    User,
    decode,
    encode,
    text_of,
)
from holdfast.core.log.replay import Boundaries, SeenCalls, without_doubles
from holdfast.core.log.tree import Outline, Place
from holdfast.errors import (
    AmbiguousName,
    BadRecord,
    BlobDamaged,
    BlobMissing,
    LogConflict,
    NoSuchRecord,
    NoSuchSession,
    SessionExists,
    UsageError,
)
from holdfast.ports import Appended, Entry, Live, Report, SessionInfo, Trashed
from holdfast.stores.jsonl.repair import copied

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.log.tree import Branch
    from holdfast.ports import Clock, Durability, Entropy


@dataclass(slots=True)
class _Log:
    """One session: its lines, and where each id stands."""

    key: SessionKey
    lines: list[bytes]
    ids: dict[str, int] = field(default_factory=dict)
    head: str = ""
    writer: str = ""

    def __post_init__(self) -> None:
        lines, self.lines = self.lines, []
        self.add((_decoded(line).id, line) for line in lines)

    def add(self, lines: Iterable[tuple[str, bytes]]) -> None:
        for self.head, line in lines:
            self.ids[self.head] = len(self.lines)
            self.lines.append(line)
        self.writer = f"pid {os.getpid()} ({threading.current_thread().name})"

    def position(self, name: str) -> int:
        """Where the record with that id, or with that unique beginning of one, stands."""
        fits = [name] if name in self.ids else [one for one in self.ids if one.startswith(name)]
        if not name or not fits:
            raise NoSuchRecord(name, self.key.session, list(self.ids)[-200:])
        if len(fits) > 1:
            raise AmbiguousName("record", name, fits)
        return self.ids[fits[0]]

    def shape(self) -> tuple[list[Record], Outline]:
        records, shape = [_decoded(line) for line in self.lines], Outline()
        for position, record in enumerate(records):
            shape.add(position, len(self.lines[position]), record)
        shape.settle({one: [Place(self.ids[one], 0)] for one in shape.wanted})
        return records, shape

    def path(self, head: int | None = None) -> list[tuple[int, Record]]:
        records, shape = self.shape()
        spans = shape.path(head)
        return [(at, records[at]) for span in spans for at in range(span.first, span.last + 1)]

    def header(self) -> Header:
        header = _decoded(self.lines[0])
        assert isinstance(header, Header)
        return header

    def info(self) -> SessionInfo:
        facts = Facts()
        for position, line in enumerate(self.lines):
            facts.add(position, _decoded(line))
        facts.owner = self.header().owner
        size = sum(len(line) + 1 for line in self.lines)
        return SessionInfo(key=self.key, bytes=size, **msgspec.structs.asdict(facts))


class MemoryStore:
    """A `SessionStore` that keeps nothing beyond its own life. Safe for threads."""

    def __init__(self, *, clock: Clock = time.time, entropy: Entropy = random.getrandbits) -> None:
        self._clock, self._entropy = clock, entropy
        self._mutex = threading.RLock()
        self.blobs = MemoryBlobs(clock=clock)
        """Where the payloads of its sessions are."""
        self._logs: dict[SessionKey, _Log] = {}
        self._trash: list[tuple[Trashed, _Log]] = []
        self._removals = count(1)

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
        header = Header(
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
        return self._put(_Log(key, [encode(header)]))

    def append(
        self,
        key: SessionKey,
        records: Sequence[Record],
        *,
        expect: str | None,
        durability: Durability = "synced",  # noqa: ARG002 - there is nothing to sync
    ) -> Appended:
        if len(records) > BATCH_RECORDS_MAX:
            raise BadRecord(f"{len(records):,} records are too many for one append")
        with self._mutex:
            log, now = self._log(key), self._clock()
            if expect is not None and expect != log.head:
                raise LogConflict(str(key), expect, log.head, log.writer)
            bits = self._entropy(28)
            ids = new_record_ids(len(records), now=now, random_bits=bits, after=log.head)
            ready: dict[str, bytes] = {}
            for record, new_id in zip(records, ids, strict=True):
                changes = {"id": record.id or new_id, "ts": record.ts or round(now, 3)}
                placed = msgspec.structs.replace(_placed(log, record, ready), more=None, **changes)
                ready[placed.id] = line = encode(placed)
                if len(line) > LINE_BYTES_MAX:
                    raise BadRecord(f"{len(line):,} bytes are too many", hint="use a blob")
            log.add(ready.items())
            return Appended(tuple(ready), log.head)

    def append_each(
        self, key: SessionKey, records: Sequence[Record], *, durability: Durability = "synced"
    ) -> Appended:
        with self._mutex:
            done = [self.append(key, [one], expect=None, durability=durability) for one in records]
            return Appended(tuple(each.head for each in done), self.head(key))

    def sync(self, key: SessionKey) -> None:
        self._log(key)

    def read(self, key: SessionKey, *, start: str | None = None) -> Iterator[Record]:
        log = self._log(key)
        first, path = 0 if start is None else log.position(start), log.path()
        if start is not None and first not in dict(path):
            raise NoSuchRecord(start, key.session)
        return without_doubles(record for at, record in path if at >= first)

    def read_all(self, key: SessionKey) -> Iterator[Entry]:
        log, seen = self._log(key), SeenCalls()
        on_path = dict(log.path())
        for position, record in enumerate(log.shape()[0]):
            if position in on_path:
                yield Entry(record, "double" if seen.doubles(record) else "path")
            else:
                yield Entry(record, "branch")

    def read_branch(self, key: SessionKey, head: str) -> Iterator[Record]:
        log = self._log(key)
        return without_doubles(record for _at, record in log.path(log.position(head)))

    def header(self, key: SessionKey) -> Header:
        return self._log(key).header()

    def last(self, key: SessionKey, count: int, *, before: str | None = None) -> list[Record]:
        return list(islice(self.back(key, before=before), max(count, 0)))[::-1]

    def back(self, key: SessionKey, *, before: str | None = None) -> Iterator[Record]:
        path = iter(list(self.read(key))[::-1])
        if before is not None and not any(record.id == before for record in path):
            raise NoSuchRecord(before, key.session, where="the current branch of ")
        return path

    def live(self, key: SessionKey, *, window: int | None = None) -> Live:
        path = [record for _at, record in self._log(key).path()]
        boundaries = Boundaries(window)
        for index in range(len(path) - 1, -1, -1):
            boundary = path[index]
            if boundaries.is_one(boundary):
                assert isinstance(boundary, Compaction)
                break
        else:
            return Live(tuple(without_doubles(path)), None, path[-1].id)
        wanted, findings = boundary.first_kept or boundary.id, list[Finding]()
        kept = [at for at in range(index + 1) if path[at].id == wanted]
        if not kept:
            detail = f"`{boundary.id}` keeps from `{wanted}` on"
            findings.append(Finding("lost-boundary", index, 0, detail))
        records = without_doubles(path[kept[0] if kept else index :])
        return Live(tuple(records), boundary, path[-1].id, tuple(findings))

    def head(self, key: SessionKey) -> str:
        return self._log(key).head

    def find(self, key: SessionKey, prefix: str) -> Record:
        log = self._log(key)
        return _decoded(log.lines[log.position(prefix)])

    def branches(self, key: SessionKey) -> list[Branch]:
        records, shape = self._log(key).shape()
        return [
            msgspec.structs.replace(one, title=_title(records, one.last_user))
            for one in shape.branches()
        ]

    def fork(self, key: SessionKey, new: SessionKey, *, at: str | None, label: str = "") -> str:
        log, old = self._log(key), self._log(key).info().label
        _records, shape = log.shape()
        path = log.path(log.position(log.head if at is None else at))
        label = label or (f"{old} (fork)" if old else "")
        with self._mutex:
            self.create(
                new,
                label=label,
                parent_session=str(key),
                parent_record=path[-1][1].id,
                reason="fork",
                owner=log.header().owner,
            )
            header = self._logs[new].header()
            lines = [line.rstrip(b"\n") for line in copied(path, shape, header)]
            self._logs[new] = _Log(new, lines)
        return self.head(new)

    def verify(self, key: SessionKey) -> Report:
        log = self._log(key)
        _records, shape = log.shape()
        size, total = log.info().bytes, shape.counts.total()
        leaves, findings = len(shape.branches()), tuple(shape.findings)
        return Report(key, size, total, dict(shape.counts), leaves, shape.head, findings)

    def sessions(self, *, agent: str | None = None) -> list[SessionInfo]:
        logs = list(self._logs.values())
        infos = [log.info() for log in logs if agent in (None, log.key.agent)]
        return sorted(infos, key=lambda info: (-info.last_active, info.key))

    def remove(self, key: SessionKey) -> Trashed:
        with self._mutex:
            log, now = self._log(key), self._clock()
            name = f"{key.agent}.{key.session}.{next(self._removals)}"
            trashed = Trashed(name, key, now, log.info().bytes)
            self._trash.insert(0, (trashed, self._logs.pop(key)))
        return trashed

    def trash(self) -> list[Trashed]:
        return [trashed for trashed, _log in self._trash]

    def restore(self, name: str) -> SessionKey:
        with self._mutex:
            for trashed, log in self._trash:
                if name in (trashed.name, trashed.key.session, str(trashed.key)):
                    self._put(log)
                    self._trash.remove((trashed, log))
                    return trashed.key
        raise UsageError(f"nothing called `{name}` is in the trash", hint="list it with `trash`")

    def empty_trash(self, *, older_than_seconds: float = 0.0) -> list[Trashed]:
        before = self._clock() - older_than_seconds
        with self._mutex:
            gone = [trashed for trashed in self.trash() if trashed.removed <= before]
            self._trash = [(one, log) for one, log in self._trash if one not in gone]
        return gone

    def close(self) -> None:
        """Nothing is held open."""

    def _log(self, key: SessionKey) -> _Log:
        try:
            return self._logs[key]
        except KeyError:
            raise NoSuchSession(str(key), [other.session for other in self._logs]) from None

    def _put(self, log: _Log) -> str:
        with self._mutex:
            for other in self._logs:
                if str(other).casefold() == str(log.key).casefold():
                    raise SessionExists(log.key.session, other.session)
            self._logs[log.key] = log
        return log.head


def _placed(log: _Log, record: Record, ready: dict[str, bytes]) -> Record:
    """A record, checked, with its parent naming one that is there; `ready` are those before it."""
    if isinstance(record, Header):
        raise BadRecord("a `session` record cannot be appended", hint="make one with `create`")
    if record.id:
        check_record_id(record.id)
        if record.id in log.ids or record.id in ready:
            what = f"record `{record.id}` is in session `{log.key}` already"
            raise BadRecord(what, hint="if this is a retry, it had succeeded")
    parent = record.to if isinstance(record, Rewind) else record.parent
    if parent is None:
        return record
    if parent not in ready:
        parent = _decoded(log.lines[log.position(parent)]).id
    changes = {"to": parent} if isinstance(record, Rewind) else {}
    return msgspec.structs.replace(record, parent=parent, **changes)


def _title(records: list[Record], at: int | None) -> str:
    record = None if at is None else records[at]
    return title_of(text_of(record.content)) if isinstance(record, User) else ""


def _decoded(line: bytes) -> Record:
    record = decode(line)
    assert not isinstance(record, Flaw), record
    return record


class MemoryBlobs:
    """A `BlobStore` that keeps nothing beyond its own life."""

    def __init__(self, *, clock: Clock = time.time) -> None:
        self._clock = clock
        self._held: dict[str, tuple[bytes, float]] = {}

    def put(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self._held[sha256] = bytes(data), self._clock()
        return sha256

    def get(self, sha256: str) -> bytes:
        if not re.fullmatch("[0-9a-f]{64}", sha256):
            raise UsageError(f"{sha256[:80]!r} is not a blob's hash", hint="it has 64 hex digits")
        if sha256 not in self._held:
            what = f"blob {sha256[:12]} is not in the store"
            raise BlobMissing(what, hint="its payload was never stored, or was deleted")
        return self._held[sha256][0]

    def chunks(self, sha256: str, *, size: int | None = None) -> Iterator[bytes]:
        data = self.get(sha256)
        if size is not None and len(data) > size:
            what = f"blob {sha256[:12]} is damaged: it has more than {size:,} bytes"
            raise BlobDamaged(what, hint="nothing was delivered; look at who named that size")
        yield data

    def size(self, sha256: str) -> int:
        return len(self.get(sha256))

    def __contains__(self, sha256: str) -> bool:
        return sha256 in self._held

    def collect(self, referenced: Iterable[str], *, grace_seconds: float) -> list[str]:
        limit, kept = self._clock() - grace_seconds, set(referenced)
        held = self._held.items()
        gone = [one for one, (_data, at) in held if at <= limit and one not in kept]
        for sha256 in gone:
            del self._held[sha256]
        return gone
