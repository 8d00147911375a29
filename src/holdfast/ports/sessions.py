"""The port of a session store: what a store implements, and what is written once above it."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self

import msgspec

from holdfast.core.limits import BATCH_RECORDS_MAX
from holdfast.core.log import views
from holdfast.core.log.batch import Batch, new_header, place
from holdfast.core.log.copies import fork_records
from holdfast.core.log.keys import find_keyed
from holdfast.errors import BadRecord, NoSuchSession, UsageError
from holdfast.ports.erasing import SessionEraser

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from holdfast.core.log.damage import Finding
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Header, Record
    from holdfast.core.log.tree import Branch
    from holdfast.core.log.views import Live, LogEntry, LogReport
    from holdfast.core.log.walk import OpenLog
    from holdfast.ports.leases import Leases
    from holdfast.ports.side_stores import Audit, BlobStore, Notes, RunningSummaries

Clock = Callable[[], float]
"""Returns the seconds since 1970."""
Entropy = Callable[[int], int]
"""Returns that many random bits."""

ANY_HEAD: Final = None
"""For appends after whatever the head is."""

Durability = Literal["synced", "buffered"]
"""`synced`: survives power loss once `append` returns. `buffered`: survives the end of the
process, and power loss only after a later synced append or `sync`; for bulk loads."""


class Appended(NamedTuple):
    """The result of an append."""

    ids: tuple[str, ...]
    head: str
    sealed: Finding | None = None
    """The torn end of an earlier append that this one had to seal first."""


class SessionInfo(msgspec.Struct, frozen=True):
    """The small facts a listing shows."""

    key: SessionKey
    label: str
    title: str
    """The first words a user said."""
    created: float
    last_active: float
    records: int
    messages: int
    bytes: int
    head: str
    damaged: int
    """Damaged places seen while counting; `verify` looks closer."""
    parent_session: str | None = None
    reason: str | None = None
    """Why there is a parent session."""
    owner: str | None = None
    """None where the header that would say so is damaged."""


class Trashed(msgspec.Struct, frozen=True):
    """A removed session that can still be restored."""

    name: str
    key: SessionKey
    removed: float
    bytes: int


class SessionReader(ABC):
    """Reads sessions. A store implements `open_log` and may override a view with an indexed one."""

    @abstractmethod
    def open_log(self, key: SessionKey) -> AbstractContextManager[OpenLog]:
        """Open a session for reading, as it is now. Takes no lock. Raises `NoSuchSession`."""

    def read(self, key: SessionKey, *, start: str | None = None) -> Iterator[Record]:
        """Yield the records on the path to the head, oldest first, from `start` on."""
        with self.open_log(key) as log:
            yield from views.read_path(log) if start is None else views.read_from(log, start)

    def read_all(self, key: SessionKey) -> Iterator[LogEntry]:
        """Yield every intact record in the order it was written, with its state."""
        with self.open_log(key) as log:
            yield from views.read_entries(log)

    def read_branch(self, key: SessionKey, head: str) -> Iterator[Record]:
        """Yield the records on the path to `head`, oldest first."""
        with self.open_log(key) as log:
            yield from views.read_path(log, head)

    def header(self, key: SessionKey) -> Header:
        """Return the first record: who owns the session and where it comes from.

        A log that begins with another record has a header made up for it, with no owner. Raises
        `StoreError` where the beginning is damaged and the owner therefore unknown.
        """
        with self.open_log(key) as log:
            return views.header(log)

    def last(self, key: SessionKey, count: int, *, before: str | None = None) -> list[Record]:
        """Return the newest `count` records on the path to the head, oldest first.

        With `before`, the newest before the record of that id. Raises `NoSuchRecord` where it is
        not on the path.
        """
        with self.open_log(key) as log:
            return views.last(log, count, before)

    def back(self, key: SessionKey, *, before: str | None = None) -> Iterator[Record]:
        """Yield the path from the head, or from before that record, towards the root.

        Costs what is taken of it. Where an id occurs twice, the newest record has it here, so
        that no `before` leads back to where a reader has been.
        """
        with self.open_log(key) as log:
            yield from views.read_back(log, before)

    def live(self, key: SessionKey, *, window: int | None = None) -> Live:
        """Return the path from the newest compaction (that binds `window`) to the head."""
        with self.open_log(key) as log:
            return views.live(log, window)

    def head(self, key: SessionKey) -> str:
        """Return the id of the head."""
        with self.open_log(key) as log:
            return views.head(log)

    def find(self, key: SessionKey, prefix: str) -> Record:
        """Return the one record whose id is `prefix` or starts with it."""
        with self.open_log(key) as log:
            return views.find(log, prefix)

    def find_message(self, key: SessionKey, message_key: str) -> Record | None:
        """Return the user message that was stored under a key of the caller's, however old."""
        with self.open_log(key) as log:
            return find_keyed(log, message_key)

    def branches(self, key: SessionKey) -> list[Branch]:
        """Return every leaf of the session's tree."""
        with self.open_log(key) as log:
            return views.list_branches(log)

    def verify(self, key: SessionKey) -> LogReport:
        """Read everything, change nothing, report what is wrong."""
        with self.open_log(key) as log:
            return views.verify(log)


class SessionCatalogue(SessionReader):
    """Makes, lists and removes sessions."""

    def __init__(self, *, clock: Clock = time.time, entropy: Entropy = random.getrandbits) -> None:
        self._clock, self._entropy = clock, entropy

    @abstractmethod
    def keys(self, agent: str | None = None) -> Iterable[SessionKey]:
        """Return the key of every session, or of every session of an agent."""

    @abstractmethod
    def create_log(self, key: SessionKey, records: Iterable[Record]) -> None:
        """Make a session with these records, all or none.

        Raises `SessionExists` where the id is taken, or differs from a taken one only in case.
        """

    @abstractmethod
    def remove(self, key: SessionKey) -> Trashed:
        """Move a session to the trash."""

    @abstractmethod
    def trash(self) -> list[Trashed]:
        """Return what is in the trash, the newest first."""

    @abstractmethod
    def restore(self, name: str) -> SessionKey:
        """Take the session that `find_trashed` finds by that name out of the trash."""

    @abstractmethod
    def empty_trash(self, *, older_than_seconds: float = 0.0) -> list[Trashed]:
        """Delete what is in the trash for good; returns what was deleted."""

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
        """Make an empty session and return its head. Raises `SessionExists`."""
        header = new_header(
            key,
            now=self._clock(),
            label=label,
            parent_session=parent_session,
            parent_record=parent_record,
            reason=reason,
            owner=owner,
        )
        self.create_log(key, [header])
        return header.id

    def fork(self, key: SessionKey, new: SessionKey, *, at: str | None, label: str = "") -> str:
        """Copy the path to `at` (the head by default) into a new session of the same owner.

        Returns its head.
        """
        with self.open_log(key) as log:
            records = fork_records(log, new, at=at, label=label, now=self._clock())
            self.create_log(new, records)
        return self.head(new)

    def sessions(self, *, agent: str | None = None) -> list[SessionInfo]:
        """Return all sessions, the most recently active first."""
        infos = []
        for key in self.keys(agent):
            with suppress(NoSuchSession), self.open_log(key) as log:  # removed meanwhile
                facts = msgspec.structs.asdict(views.facts(log))
                infos.append(SessionInfo(key=key, bytes=log.size, **facts))
        return newest_first(infos)


class SessionStore(SessionCatalogue, SessionEraser):
    """Append-only logs of records, and what belongs to their sessions.

    Promises: once `append` returns, its records survive a crash; an append is there whole or not
    at all; nothing that was appended is ever changed; readers never wait for writers.
    """

    @abstractmethod
    def append_batch(
        self,
        key: SessionKey,
        batch: Batch,
        *,
        expect: str | None,
        durability: Durability,
        token: int | None,
    ) -> Appended:
        """Add `batch.encode(after=head, …)` after the head, in one step for other writers.

        Raises `LeaseLost` where `token` is not the newest of `leases`, `LogConflict` where
        `expect` is neither `ANY_HEAD` nor the head, and `BadRecord` where an id that came with
        the records was used before (`batch.refuse_repeats`).
        """

    @property
    @abstractmethod
    def leases(self) -> Leases:
        """The leases of its sessions' turns."""

    @property
    @abstractmethod
    def blobs(self) -> BlobStore:
        """The payloads of its sessions."""

    @property
    @abstractmethod
    def audit(self) -> Audit:
        """The log of who read its sessions."""

    @property
    def summaries(self) -> RunningSummaries | None:
        """The running summaries of its sessions; None where they are made again when needed."""
        return None

    def notes(self, agent: str, owner: str = "", *, clock: Clock = time.time) -> Notes | None:
        """Return the notes of an agent or one of its owners; None where notes stay in the log."""
        del agent, owner, clock
        return None

    def append(
        self,
        key: SessionKey,
        records: Sequence[Record],
        *,
        expect: str | None,
        durability: Durability = "synced",
        token: int | None = None,
    ) -> Appended:
        """Add records after the head, all or none.

        `expect` is the head the caller has seen (`LogConflict` if it is another) or `ANY_HEAD`.
        With the `token` of a lease, nothing is written once a newer one exists (`LeaseLost`).
        Records without an id or time get one. A `rewind` moves the head to its `to`.
        """
        if len(records) > BATCH_RECORDS_MAX:
            raise BadRecord(
                f"cannot append {len(records):,} records at once",
                hint=f"append at most {BATCH_RECORDS_MAX:,} at a time, or use `append_each`",
            )
        return self._append(key, records, expect, durability, token, is_atomic=True)

    def append_each(
        self, key: SessionKey, records: Sequence[Record], *, durability: Durability = "synced"
    ) -> Appended:
        """Add records that stand for themselves: after a crash, the first of them may be there."""
        return self._append(key, records, ANY_HEAD, durability, None, is_atomic=False)

    def _append(
        self,
        key: SessionKey,
        records: Sequence[Record],
        expect: str | None,
        durability: Durability,
        token: int | None,
        *,
        is_atomic: bool,
    ) -> Appended:
        if not records:
            return Appended((), self.head(key))

        def full_id(name: str) -> str:
            with self.open_log(key) as log:
                return name if views.head(log) == name else views.full_id(log, name)

        batch = place(records, full_id, is_atomic=is_atomic)
        return self.append_batch(key, batch, expect=expect, durability=durability, token=token)

    def sync(self, key: SessionKey) -> None:
        """Make everything appended so far durable. By default every append is."""
        self.head(key)  # raises `NoSuchSession`

    def close(self) -> None:
        """Release what is held open. Everything acknowledged is durable already."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def newest_first(infos: Iterable[SessionInfo]) -> list[SessionInfo]:
    """Return sessions in the order of a listing."""
    return sorted(infos, key=lambda info: (-info.last_active, info.key))


def find_trashed(trash: Iterable[Trashed], name: str) -> Trashed:
    """Return the newest trashed session of that name, id or `agent/id`."""
    for trashed in trash:
        if name in (trashed.name, trashed.key.session, str(trashed.key)):
            return trashed
    raise UsageError(
        f"cannot restore `{name}`: it is not in the trash",
        hint="list the trash with `holdfast rm --list`",
    )
