"""Sessions and payloads in memory. They end with the process: losing data is opt-in, by name.

For tests, for what need not be kept, and to show that the ports need no files.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import threading
import time
from bisect import bisect_left
from contextlib import contextmanager
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import encode
from holdfast.core.log.refs import possible_hashes
from holdfast.core.log.views import head, opening
from holdfast.core.owners import ANY_OWNER, NO_OWNER, UNKNOWN_OWNER, is_wanted, owner_of
from holdfast.errors import (
    BlobDamaged,
    BlobMissing,
    LeaseLost,
    LogConflict,
    LogGrown,
    NoSuchSession,
    SessionExists,
    TurnInProgress,
    UsageError,
)
from holdfast.ports import (
    Appended,
    LeaseHolder,
    SessionStore,
    SideStores,
    Trashed,
    awake_time,
    find_trashed,
)
from holdfast.ports.sessions import SessionCatalogue, SessionEraser, copies_among, describe_logs
from holdfast.stores.audit import MemoryAudit
from holdfast.stores.lines import item_of
from holdfast.stores.notes.notes import StoredNotes, note_scope
from holdfast.stores.notes.table import MemoryNoteTable, TableFiles, holds_notes
from holdfast.stores.queues import SqliteQueues
from holdfast.stores.search.sqlite import SqliteSearchIndex
from holdfast.stores.summary_files import MemorySummaries

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from holdfast.core.log.batch import Batch
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.log.walk import LogLine
    from holdfast.core.owners import FoundOwner, Owner, OwnerFilter
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.ports import BlobStore, Clock, Durability, Entropy
    from holdfast.ports.sessions import ErasableSession, SessionInfo
    from holdfast.stores.spending import SqliteSpending


class Waiting(NamedTuple):
    """A place in the queue for a lease."""

    since: float
    until: float


class MemoryLog(msgspec.Struct):
    """The encoded records of one session, as an `OpenLog`."""

    key: SessionKey
    held: list[bytes] = msgspec.field(default_factory=list)
    starts: list[int] = msgspec.field(default_factory=list)
    """The position of each line."""
    size: int = 0
    ids: set[str] = msgspec.field(default_factory=set)
    head: str = ""
    writer: str = ""
    lease: LeaseHolder = LeaseHolder(0, "", 0.0)
    """The newest; without a holder once it is released."""
    lease_until: float = 0.0
    queue: dict[str, Waiting] = msgspec.field(default_factory=dict)
    """Those who wait for the lease by their names, in their order."""

    def lines(self, start: int = 0) -> Iterator[LogLine]:
        for index in range(bisect_left(self.starts, start), len(self.held)):
            yield from self._line(index)

    def lines_back(self, end: int | None = None) -> Iterator[LogLine]:
        last = len(self.held) if end is None else bisect_left(self.starts, end)
        for index in range(last - 1, -1, -1):
            yield from self._line(index)

    def data(self) -> Iterator[bytes]:
        for line in self.held:
            yield line + b"\n"

    def add(self, data: bytes, ids: Iterable[str]) -> None:
        """Append encoded records."""
        for self.head in ids:
            self.ids.add(self.head)
        self._add_lines(data)

    def extend(self, data: bytes) -> None:
        """Append lines of another log, whatever they are."""
        start = self.size
        self._add_lines(data)
        found = (item for _position, _size, item, _line in self.lines(start))
        self.ids.update(
            item.id for item in found if item is not None and not isinstance(item, Flaw)
        )
        self.head = head(self)

    def view(self) -> MemoryLog:
        """Return the log as it is now."""
        return msgspec.structs.replace(self, held=self.held[:], starts=self.starts[:])

    def _add_lines(self, data: bytes) -> None:
        for line in data.split(b"\n")[:-1]:
            self.held.append(line)
            self.starts.append(self.size)
            self.size += len(line) + 1
        self.writer = f"pid {os.getpid()} ({threading.current_thread().name})"

    def _line(self, index: int) -> Iterator[LogLine]:
        """Yield a line as readers get it; none where it is blank."""
        position, line = self.starts[index], self.held[index]
        if line and not line.isspace():
            yield position, len(line), item_of(position, line), line


class MemoryLeases:
    """The `Leases` of sessions in memory."""

    def __init__(self, log: Callable[[SessionKey], MemoryLog], mutex: threading.RLock) -> None:
        self._log = log
        self._mutex = mutex
        self._tokens = count(1)

    @property
    def place(self) -> str:
        return f"memory {id(self._mutex):x}"

    def acquire(
        self, key: SessionKey, holder: str, seconds: float, *, queue_seconds: float = 0.0
    ) -> int:
        with self._mutex:
            log, found, now = self._log(key), self.current(key), awake_time()
            log.queue = {name: place for name, place in log.queue.items() if place.until > now}
            first = next(iter(log.queue), holder)
            if found is None and first == holder:
                log.queue.pop(holder, None)
                log.lease = LeaseHolder(next(self._tokens), holder, time.time())
                log.lease_until = now + seconds
                return log.lease.token
            busy = found or LeaseHolder(0, first, log.queue[first].since)
            if queue_seconds:
                since = log.queue[holder].since if holder in log.queue else time.time()
                log.queue[holder] = Waiting(since, now + queue_seconds)
            raise TurnInProgress(str(key), busy.holder, busy.since)

    def leave_queue(self, key: SessionKey, holder: str) -> None:
        with self._mutex:
            self._log(key).queue.pop(holder, None)

    def renew(self, key: SessionKey, token: int, seconds: float) -> None:
        with self._mutex:
            log = self._log(key)
            self.check(log, token)
            log.lease_until = awake_time() + seconds

    def release(self, key: SessionKey, token: int) -> None:
        with self._mutex:
            log = self._log(key)
            if log.lease.token == token:
                log.lease = LeaseHolder(token, "", 0.0)

    def current(self, key: SessionKey) -> LeaseHolder | None:
        log = self._log(key)
        return log.lease if log.lease.holder and awake_time() < log.lease_until else None

    def check(self, log: MemoryLog, token: int) -> None:
        """Raise `LeaseLost` where the token is not the newest."""
        if log.lease.token != token:
            raise LeaseLost(str(log.key), log.lease.holder)


class MemoryEraser(SessionCatalogue, SessionEraser):
    """A `SessionEraser` of logs in memory."""

    _mutex: threading.RLock
    _logs: dict[SessionKey, MemoryLog]
    _trash: list[tuple[Trashed, MemoryLog]]
    _erasing: list[MemoryLog]
    _tables: dict[tuple[str, Owner], MemoryNoteTable]
    _search_index: SqliteSearchIndex

    def erasable(self, key: SessionKey, *, owner: OwnerFilter) -> ErasableSession:
        found = describe_logs(key, [log for log in self._logs_of(key) if _is_of(log, owner)])
        if not found.logs:
            raise NoSuchSession(str(key), lambda: [other.session for other in self._logs])
        return found

    def begin_erasure(self, *keys: SessionKey, owner: OwnerFilter) -> None:
        with self._mutex:
            for key in keys:
                log = self._logs.get(key)
                if log is not None and _is_of(log, owner):
                    self._erasing.append(self._logs.pop(key))
            removed, self._trash = self._trash, []
            for trashed, log in removed:
                if trashed.key in keys and _is_of(log, owner):
                    self._erasing.append(log)
                else:
                    self._trash.append((trashed, log))

    def erasures(self) -> list[SessionKey]:
        return sorted({log.key for log in self._erasing})

    def trash_keys(
        self, *, owner: OwnerFilter, repaired_from: Collection[str] | None = None
    ) -> set[SessionKey]:
        with self._mutex:
            logs = [*(log for _trashed, log in self._trash), *self._erasing]
        return {
            log.key
            for log in logs
            if _is_of(log, owner)
            and (repaired_from is None or _repair_origin(log) in repaired_from)
        }

    def finish_erasure(self, *keys: SessionKey) -> None:
        with self._mutex:
            self._erasing = [log for log in self._erasing if log.key not in keys]

    def hash_candidates(
        self, *, of: SessionKey | None = None, besides: SessionKey | None = None
    ) -> Iterator[str]:
        with self._mutex:
            logs = [*self._logs.values(), *(log for _trashed, log in self._trash)]
            if of is not None:
                logs = self._logs_of(of)
        for log in logs:
            if log.key != besides:
                for line in log.held[:]:
                    yield from possible_hashes(line)

    def possible_copies(self, names: Collection[str]) -> list[SessionInfo]:
        return copies_among(self.sessions(owner=ANY_OWNER), names)

    def agents(self) -> set[str]:
        return {key.agent for key in list(self._logs)} | {agent for agent, _ in list(self._tables)}

    def erase_from_indexes(
        self, sessions: Sequence[SessionKey], scopes: Sequence[str] = ()
    ) -> None:
        self._search_index.erase([str(key) for key in sessions], scopes)

    def _logs_of(self, key: SessionKey) -> list[MemoryLog]:
        removed = (log for _trashed, log in self._trash)
        logs = (*self._logs.values(), *removed, *self._erasing)
        return [log for log in logs if log.key == key]


def _repair_origin(log: MemoryLog) -> str | None:
    first = opening(log)
    return first.parent_session if first and first.reason == "repair" else None


def _is_of(log: MemoryLog, owner: OwnerFilter) -> bool:
    first = opening(log)
    return is_wanted(owner_of(first.owner) if first else UNKNOWN_OWNER, owner)


class MemorySideStores(SideStores):
    """Everything that a `MemoryStore` keeps beside its logs."""

    _mutex: threading.RLock
    _blobs: BlobStore
    _audit: MemoryAudit
    _leases: MemoryLeases
    _summaries: MemorySummaries
    _queues: SqliteQueues
    _search_index: SqliteSearchIndex
    _tables: dict[tuple[str, Owner], MemoryNoteTable]

    @property
    def blobs(self) -> BlobStore:
        return self._blobs

    @property
    def audit(self) -> MemoryAudit:
        return self._audit

    @property
    def leases(self) -> MemoryLeases:
        return self._leases

    @property
    def summaries(self) -> MemorySummaries:
        return self._summaries

    @property
    def queues(self) -> SqliteQueues:
        return self._queues

    @cached_property
    def spending(self) -> SqliteSpending:
        from holdfast.stores.spending import SqliteSpending

        return SqliteSpending(None)

    @property
    def search_index(self) -> SqliteSearchIndex:
        return self._search_index

    def notes(
        self,
        agent: str,
        owner: Owner = NO_OWNER,
        *,
        clock: Clock = time.time,
        redactor: Redactor | None = None,
    ) -> StoredNotes:
        with self._mutex:
            new = MemoryNoteTable(note_scope(agent, owner), clock=clock)
            table = self._tables.setdefault((agent, owner), new)
        return StoredNotes(TableFiles(table), agent, owner, clock=clock, redactor=redactor)

    def note_scopes(self, agent: str) -> dict[str, FoundOwner]:
        with self._mutex:
            tables = list(self._tables.items())
        return {
            note_scope(*of): of[1] for of, table in tables if of[0] == agent and holds_notes(table)
        }


class MemoryStore(MemoryEraser, MemorySideStores, SessionStore):
    """A `SessionStore` that is lost with the object. Safe for threads."""

    def __init__(
        self,
        *,
        clock: Clock = time.time,
        entropy: Entropy = random.getrandbits,
        blobs: BlobStore | None = None,
    ) -> None:
        """`blobs` keeps payloads elsewhere."""
        super().__init__(clock=clock, entropy=entropy)
        self._mutex = threading.RLock()
        self._blobs: BlobStore = MemoryBlobs(clock=clock) if blobs is None else blobs
        self._audit = MemoryAudit()
        self._summaries = MemorySummaries()
        self._queues = SqliteQueues(None, clock=clock)
        self._search_index = SqliteSearchIndex(None)
        self._tables: dict[tuple[str, Owner], MemoryNoteTable] = {}
        self._leases = MemoryLeases(self._log, self._mutex)
        self._logs: dict[SessionKey, MemoryLog] = {}
        self._trash: list[tuple[Trashed, MemoryLog]] = []
        self._erasing: list[MemoryLog] = []
        self._removals = count(1)

    def describe(self, key: SessionKey | None = None) -> str:
        return "memory:" if key is None else f"memory:{key}"

    @property
    def caveat(self) -> str:
        return "everything is kept in memory, and gone when this process ends"

    def close(self) -> None:
        """Close the index of searches, the queues and budgets; everything else stays."""
        self._search_index.close()
        self._queues.close()
        if "spending" in vars(self):
            self.spending.close()

    @contextmanager
    def open_log(self, key: SessionKey) -> Iterator[MemoryLog]:
        yield self._log(key).view()

    def append_batch(
        self,
        key: SessionKey,
        batch: Batch,
        *,
        expect: str | None,
        durability: Durability,  # noqa: ARG002 - there is nothing to sync
        token: int | None,
    ) -> Appended:
        with self._mutex:
            log = self._log(key)
            if token is not None:
                self._leases.check(log, token)
            if expect is not None and expect != log.head:
                raise LogConflict(str(key), expect, log.head, log.writer)
            batch.refuse_repeats(log.ids, key)
            bits = self._entropy(28)
            lines = batch.encode(after=log.head, now=self._clock(), random_bits=bits)
            log.add(*lines)
            return Appended(lines.ids, log.head)

    def keys(self, agent: str | None = None) -> list[SessionKey]:
        return [key for key in list(self._logs) if agent in (None, key.agent)]

    def create_log(self, key: SessionKey, records: Iterable[Record]) -> None:
        log = MemoryLog(key)
        for record in records:
            log.add(encode(record) + b"\n", [record.id])
        self._put(log)

    def extend_log(self, key: SessionKey, data: bytes, *, at: int) -> None:
        with self._mutex:
            log = self._log(key) if at > 0 or key in self._logs else MemoryLog(key)
            if log.size != at:
                raise LogGrown(str(key), at, log.size)
            if key not in self._logs:
                self._put(log)
            log.extend(data)

    def remove(self, key: SessionKey) -> Trashed:
        with self._mutex:
            log, now = self._log(key), self._clock()
            name = f"{key.agent}.{key.session}.{next(self._removals)}"
            trashed = Trashed(name, key, now, log.size)
            self._trash.insert(0, (trashed, self._logs.pop(key)))
            self._summaries.forget(key)
        return trashed

    def trash(self) -> list[Trashed]:
        return [trashed for trashed, _log in self._trash]

    def restore(self, name: str) -> SessionKey:
        with self._mutex:
            found = find_trashed(self.trash(), name)
            self._put(dict(self._trash)[found])
            self._trash = [(trashed, log) for trashed, log in self._trash if trashed != found]
        return found.key

    def empty_trash(self, *, older_than_seconds: float = 0.0) -> list[Trashed]:
        before = self._clock() - older_than_seconds
        with self._mutex:
            gone = [trashed for trashed in self.trash() if trashed.removed <= before]
            self._trash = [(trashed, log) for trashed, log in self._trash if trashed not in gone]
        return gone

    def _log(self, key: SessionKey) -> MemoryLog:
        try:
            return self._logs[key]
        except KeyError:
            raise NoSuchSession(str(key), lambda: [other.session for other in self._logs]) from None

    def _put(self, log: MemoryLog) -> None:
        with self._mutex:
            for other in self._logs:
                if str(other).casefold() == str(log.key).casefold():
                    raise SessionExists(log.key.session, other.session)
            self._logs[log.key] = log


class MemoryBlobs:
    """A `BlobStore` that is lost with the object."""

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

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._held))

    def discard(self, hashes: Iterable[str]) -> list[str]:
        return [sha256 for sha256 in sorted(hashes) if self._held.pop(sha256, None) is not None]

    def sweep(self) -> list[str]:
        return []

    def collect(self, referenced: Iterable[str], *, grace_seconds: float) -> list[str]:
        limit, kept = self._clock() - grace_seconds, set(referenced)
        held = self._held.items()
        gone = [sha256 for sha256, (_data, at) in held if at <= limit and sha256 not in kept]
        for sha256 in gone:
            del self._held[sha256]
        return gone
