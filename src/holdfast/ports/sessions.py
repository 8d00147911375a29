"""The port of a session store: what a store implements, and what is written once above it."""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self

import msgspec

from holdfast.core.limits import BATCH_RECORDS_MAX
from holdfast.core.log import views
from holdfast.core.log.batch import Batch, new_header, place
from holdfast.core.log.copies import LogRepair, copy_header, fork_records
from holdfast.core.log.ids import Named, free_key
from holdfast.core.log.records import Header, Label, decode
from holdfast.core.log.views import find_keyed, opening
from holdfast.core.log.walk import position_of, record_at
from holdfast.core.models.totals import SessionTotals
from holdfast.core.owners import (
    NO_OWNER,
    UNKNOWN_OWNER,
    is_wanted,
    owner_in_row,
    owner_of,
    owner_text,
    row_text,
)
from holdfast.core.window import ANY_WINDOW
from holdfast.errors import BadRecord, NoSuchRecord, NoSuchSession, UsageError
from holdfast.ports.side_stores import SideStores

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from holdfast.core.log.damage import Finding
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.listing import Facts
    from holdfast.core.log.records import Record
    from holdfast.core.log.replay import Live
    from holdfast.core.log.tree import Branch
    from holdfast.core.log.views import LogEntry, LogReport
    from holdfast.core.log.walk import OpenLog
    from holdfast.core.owners import FoundOwner, Owner, OwnerFilter
    from holdfast.core.window import WindowFilter

    OpenAgain = Callable[[], AbstractContextManager[OpenLog]]


class DiskUse(msgspec.Struct, frozen=True):
    """The room that a store takes."""

    bytes: int
    """Bytes that its files or tables take on their disk."""
    free: int | None = None
    """Bytes that are free there; None where the store cannot tell."""
    is_whole: bool = True
    """False where there is more than it looked at."""


class StorePlace(ABC):
    """The place of a store. It answers for anyone who would ask which kind of store it is."""

    @abstractmethod
    def describe(self, key: SessionKey | None = None) -> str:
        """Return the place of the store, or of one session, in words. Never a password."""

    @property
    def caveat(self) -> str:
        """A sentence about what the store does not keep; empty where it keeps everything."""
        return ""

    @property
    def local_folder(self) -> str | None:
        """A folder of this machine for files that a person's own client keeps, such as the history
        of its input line; None where the store is not a folder."""
        return None

    def disk_use(self) -> DiskUse | None:
        """Return the room that everything of the store takes, also of all owners together.

        The work is bounded. None where there is no disk, or where a store does not tell.
        """
        return None


_PAUSE_SECONDS: Final = 0.02
_PAUSE_SECONDS_MAX: Final = 0.25
"""Between two looks at a log that does not grow; a look takes microseconds."""
_ANCHORS: Final = 8
"""Looks that are remembered, so that records of an append that failed and was taken back after we
saw them are told from those that took their place."""


class Follower:
    """Reads a log from a position on, and goes on where it ended."""

    def __init__(self, open_log: OpenAgain, start: int | None, record: str) -> None:
        """`start` is the position of `record`, which is known already; None for an empty log."""
        self._open_log = open_log
        self._size = -1
        self._anchors: deque[tuple[int, str]] = deque(maxlen=_ANCHORS)
        self._record = record
        if start is not None:
            self._anchors.append((start, record))

    def read(self) -> Iterator[Record]:
        """Yield what was appended since the last call."""
        with self._open_log() as log:
            if log.size == self._size:
                return
            start, newest = self._anchor(log), None
            for position, record in views.read_since(log, start or 0):
                if position != start:
                    newest = (position, record.id)
                    yield record
            self._size = log.size
            if newest is not None:
                self._anchors.append(newest)

    def _anchor(self, log: OpenLog) -> int | None:
        """Return the position of the newest record that we know and that is still there."""
        if not self._anchors:
            return None
        while self._anchors:
            position, record_id = self._anchors[-1]
            found = record_at(log, position)
            if found is not None and found.id == record_id:
                return position
            self._anchors.pop()
        raise NoSuchRecord(self._record, log.key.session)


class Watch:
    """Waits between two looks at a log: a moment, and longer while nothing comes.

    The watch of a store that hears of appends ends a wait as soon as one is heard.
    """

    def pause(self, last: float | None) -> float:
        """Return the seconds to wait, after a wait of `last` seconds in vain or, None, a record."""
        return _PAUSE_SECONDS if last is None else min(2 * last, _PAUSE_SECONDS_MAX)

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Wait for so long, at most until `stop` is set."""
        stop.wait(seconds)


def follower_of(reader: SessionReader, key: SessionKey, after: str | None) -> Follower:
    """Return a follower of what is appended after a record, or after the head."""
    with reader.open_log(key) as log:
        start = views.head_position(log) if after is None else reader.locate(log, after)
        known = None if start is None else record_at(log, start)
    return Follower(lambda: reader.open_log(key), start, known.id if known else "")


def follow(
    follower: Follower,
    idle_seconds: float | None,
    stop: threading.Event | None,
    watching: AbstractContextManager[Watch] | None = None,
) -> Iterator[Record]:
    """Yield records until none came for `idle_seconds` or `stop` is set."""
    stop = stop or threading.Event()
    pause, waited_since = None, time.monotonic()
    with watching or nullcontext(
        Watch()
    ) as watch:  # before the first look: nothing is appended unseen between them
        while True:
            for record in follower.read():
                yield record
                pause, waited_since = None, time.monotonic()
                if stop.is_set():
                    return
            pause = left = watch.pause(pause)
            if idle_seconds is not None:
                left = min(pause, waited_since + idle_seconds - time.monotonic())
            if left < 0:
                return
            watch.wait(left, stop)
            if stop.is_set():
                return


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

    def live(self, key: SessionKey, *, window: WindowFilter = ANY_WINDOW) -> Live:
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
            return views.find(log, prefix, self.locate(log, prefix))

    def locate(self, log: OpenLog, prefix: str) -> int:
        """Return the position of the record that `find` returns, in a log that is open."""
        return position_of(log, prefix)

    def follow(
        self,
        key: SessionKey,
        after: str | None = None,
        *,
        idle_seconds: float | None = None,
        stop: threading.Event | None = None,
    ) -> Iterator[Record]:
        """Yield the records that are appended after a record (the head by default), and wait for
        more, whichever process appends them.

        They come in the order they were written, on every branch. It ends once none came for
        `idle_seconds`, or when `stop` is set. Raises `NoSuchSession`, also when the session is
        removed.
        """
        return follow(follower_of(self, key, after), idle_seconds, stop)

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


class ErasableSession(msgspec.Struct, frozen=True):
    """The logs that a store has under one key: the session, removed ones, and those half erased."""

    key: SessionKey
    """The key of the session."""
    owners: frozenset[Owner]
    """The owners in their headers; without that of a header which cannot be read."""
    names: frozenset[str]
    """The id, and every label that the session ever had."""
    repaired_from: frozenset[str]
    """The sessions that it is a repaired copy of."""
    logs: int
    """Number of logs."""
    bytes: int
    """Their size in all."""


class SessionEraser(ABC):
    """Deletes sessions for good."""

    @abstractmethod
    def erasable(self, key: SessionKey, *, owner: OwnerFilter) -> ErasableSession:
        """Return what `begin_erasure` would take, and what it has taken. Raises `NoSuchSession`.

        Only the logs of that owner count: an id can be used again after a removal.
        """

    @abstractmethod
    def begin_erasure(self, *keys: SessionKey, owner: OwnerFilter) -> None:
        """Take sessions and the removed ones of their keys out of every listing, for good.

        What others have is gone through once, however many keys there are. They cannot be opened,
        read or restored any more. Running it again is not an error.
        """

    @abstractmethod
    def erasures(self) -> list[SessionKey]:
        """Return the keys whose erasure has begun and is not finished."""

    @abstractmethod
    def trash_keys(
        self, *, owner: OwnerFilter, repaired_from: Collection[str] | None = None
    ) -> set[SessionKey]:
        """Return the keys that have a log of that owner in the trash or in an erasure that began;
        with `repaired_from`, one that is a repaired copy of these sessions (`agent/id`)."""

    @abstractmethod
    def finish_erasure(self, *keys: SessionKey) -> None:
        """Delete the logs of erasures that have begun."""

    @abstractmethod
    def hash_candidates(
        self, *, of: SessionKey | None = None, besides: SessionKey | None = None
    ) -> Iterable[str]:
        """Return everything that could be the hash of a payload: too many rather than too few.

        By default in every log, living or removed, that is not being erased; with `besides`, in
        those of other keys; with `of`, in all logs of that key, also in those being erased.
        """

    @abstractmethod
    def possible_copies(self, names: Collection[str]) -> list[SessionInfo]:
        """Return the sessions that may hold words of these (`agent/id`): those that were made from
        them, and those of an unknown owner; `copies_among` a listing, where there is no index."""

    @abstractmethod
    def agents(self) -> Iterable[str]:
        """Return every agent that may have sessions or notes."""

    @abstractmethod
    def erase_from_indexes(
        self, sessions: Sequence[SessionKey], scopes: Sequence[str] = ()
    ) -> None:
        """Delete what the store's indexes hold of sessions and of these scopes of notes, in one
        pass: a file of an index is written once, however many they are.

        A store without an index has nothing to do.
        """


def copies_among(infos: Iterable[SessionInfo], names: Collection[str]) -> list[SessionInfo]:
    """Return the sessions that were made from others, and those of an unknown owner."""
    return [info for info in infos if info.parent_session in names or info.owner == UNKNOWN_OWNER]


def describe_logs(key: SessionKey, logs: Iterable[OpenLog]) -> ErasableSession:
    """Read what an erasure has to know about the logs of one key."""
    owners: set[Owner] = set()
    names, origins = {key.session, str(key)}, set()
    number, size = 0, 0
    for log in logs:
        number, size = number + 1, size + log.size
        first = opening(log)
        if first is not None:
            owners.add(owner_of(first.owner))
            if first.reason == "repair" and first.parent_session:
                origins.add(first.parent_session)
        for _position, _size, item, _line in log.lines():
            if isinstance(item, Header) or (isinstance(item, Label) and item.target is None):
                names.add(item.label)
    return ErasableSession(
        key, frozenset(owners), frozenset(names - {""}), frozenset(origins), number, size
    )


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
    """The ids of the new records."""
    head: str
    """The newest record now."""
    sealed: Finding | None = None
    """The torn end of an earlier append that this one had to seal first."""


class SessionInfo(msgspec.Struct, frozen=True):
    """The small facts a listing shows."""

    key: SessionKey
    """The session."""
    label: str
    """Its name for people."""
    title: str
    """The first words a user said."""
    created: float
    """In seconds since 1970."""
    last_active: float
    """The time of its newest record."""
    records: int
    """Number of records."""
    messages: int
    """Number of messages."""
    bytes: int
    """Size of the log."""
    head: str
    """The newest record."""
    damaged: int
    """Damaged places seen while counting; `verify` looks closer."""
    parent_session: str | None = None
    """The session that it came from."""
    reason: str | None = None
    """Why there is a parent session."""
    owner: FoundOwner = UNKNOWN_OWNER
    """Unknown where the header that would say so is damaged."""


class ListingChanges(NamedTuple):
    """The sessions of an owner that changed since a listing of them."""

    infos: list[SessionInfo]
    """Those that were made or changed; some may be as they were."""
    total: int
    """The number of the owner's sessions. Where fewer are known, or more, some were removed."""
    state: str
    """Names this state, for the next call; empty where a store cannot tell what changes."""


class Trashed(msgspec.Struct, frozen=True):
    """A removed session that can still be restored."""

    name: str
    """By which it is restored."""
    key: SessionKey
    """The session."""
    removed: float
    """In seconds since 1970."""
    bytes: int
    """Size of the log."""


class RepairedSession(msgspec.Struct, frozen=True):
    """The result of `repair`."""

    key: SessionKey
    """The session."""
    records: int
    """Number of records that are left."""
    findings: tuple[Finding, ...]
    """The damage that was mended."""
    quarantine: str | None = None
    """The file with the bytes that were left out, where there are any. A store without files
    leaves them where they are, in the damaged session."""


_resolving: Final = threading.Lock()
"""Held while types are resolved: msgspec would let a second thread decode with types that are
resolved in part, and the process would crash."""


class SessionCatalogue(SessionReader):
    """Makes, lists and removes sessions."""

    def __init__(self, *, clock: Clock = time.time, entropy: Entropy = random.getrandbits) -> None:
        self._clock, self._entropy = clock, entropy
        self.clock = clock
        """The time that dates what is stored, also by sessions over this store."""
        with _resolving:
            decode(b"{}")  # the first call resolves the types of records

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
        owner: Owner = NO_OWNER,
        created: float | None = None,
    ) -> str:
        """Make an empty session and return its head. Raises `SessionExists`.

        `created` is when it began elsewhere, in seconds since 1970; now by default.
        """
        header = new_header(
            key,
            now=self._clock() if created is None else created,
            label=label,
            parent_session=parent_session,
            parent_record=parent_record,
            reason=reason,
            owner=owner_text(owner),
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

    def info(self, key: SessionKey) -> SessionInfo:
        """Return the small facts about a session. Raises `NoSuchSession`."""
        with self.open_log(key) as log:
            return session_info(key, log.size, views.facts(log))

    def totals(self, key: SessionKey) -> SessionTotals:
        """Return the sums over everything in a session, on every branch."""
        totals = SessionTotals()
        with self.open_log(key) as log:
            for _position, record in views.read_since(log, 0):
                totals.add(record)
        return totals

    def sessions(
        self,
        *,
        agent: str | None = None,
        owner: OwnerFilter,
        label: str | None = None,
        after: SessionInfo | None = None,
        limit: int | None = None,
    ) -> list[SessionInfo]:
        """Return sessions, the most recently active first.

        `agent`, `owner` and `label` are exact; for `agent` and `label`, None is any. Sessions of
        every owner are returned only for `ANY_OWNER`. A page has at most `limit`; `after` is the
        last session of the page before, as it was then: no session comes twice, and none is left
        out that was not appended to meanwhile, which moves it to the front.
        """
        infos = []
        for key in self.keys(agent):
            with suppress(NoSuchSession):  # removed meanwhile
                infos.append(self.info(key))
        return page_of(infos, owner=owner, label=label, after=after, limit=limit)

    # Maintenance

    def export(self, key: SessionKey) -> Iterator[bytes]:
        """Yield the log byte for byte, in pieces: one JSON object a line."""
        with self.open_log(key) as log:
            yield from log.data()

    def repair(self, key: SessionKey) -> RepairedSession:
        """Write a repaired copy of a session beside it. The session itself is not touched."""
        taken = {other.session.casefold() for other in self.keys(key.agent)}
        new = free_key(key, "repaired", taken)
        with self.open_log(key) as log:
            shape, findings = views.examine(log)
            header = copy_header(log, new, "repair", suffix="repaired", now=self._clock())
            repair = LogRepair(log, shape, header)
            self.create_log(new, (copy for copy, _line in repair.copies()))
        return RepairedSession(new, repair.records, tuple(findings))

    def sweep(self) -> list[str]:
        """Remove what killed processes left behind; returns the names."""
        return []


class SessionStore(SessionCatalogue, SessionEraser, SideStores, StorePlace):
    """Append-only logs of records, and what belongs to their sessions: the home of everything.

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

    @abstractmethod
    def extend_log(self, key: SessionKey, data: bytes, *, at: int) -> None:
        """Add lines of another log as they are, durably, where this one ends: at byte `at`.

        A session that is not there is made, at byte 0. `data` ends with a newline; its lines may
        be damaged, and keep their positions. Raises `LogGrown` where the log ends elsewhere, and
        `SessionExists` like `create_log`. A crash leaves all of `data`, or none; or, in a store
        of files, a beginning of it that the next call goes on from.
        """

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
            return name if self.head(key) == name else self.find(key, name).id

        batch = place(records, full_id, is_atomic=is_atomic)
        return self.append_batch(key, batch, expect=expect, durability=durability, token=token)

    def sessions_since(self, state: str, *, owner: OwnerFilter) -> ListingChanges:  # noqa: ARG002 - of stores that can tell
        """Return the sessions of an owner that changed since the `state` of an earlier answer; all
        of them where that is empty, where it is no longer known, or where a store cannot tell."""
        return whole_listing(self.sessions(owner=owner))

    def is_head(self, key: SessionKey, record: str) -> bool:
        """Return whether that record is the head still, as `append` would find it: a log that no
        one added to since this process wrote last need not be read."""
        return self.head(key) == record

    def sync(self, key: SessionKey) -> None:
        """Make everything appended so far durable. By default every append is."""
        self.head(key)  # raises `NoSuchSession`

    def close(self) -> None:
        """Release what is held open. Everything acknowledged is durable already."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def session_info(key: SessionKey, size: int, facts: Facts) -> SessionInfo:
    """Return the listing of a session from what was gathered while its log was read."""
    fields = msgspec.structs.asdict(facts) | {"owner": owner_in_row(facts.owner)}
    return SessionInfo(key=key, bytes=size, **fields)


def names_of(infos: Iterable[SessionInfo]) -> Iterator[Named]:
    """Yield what people may call each session of a listing."""
    return (Named(info.key, info.label, row_text(info.owner) or "") for info in infos)


def whole_listing(infos: list[SessionInfo]) -> ListingChanges:
    """Return all sessions of an owner as changes, where it cannot be told which have changed."""
    return ListingChanges(infos, len(infos), "")


def listing_order(info: SessionInfo) -> tuple[float, SessionKey]:
    """Return the place of a session in a listing: the most recently active comes first."""
    return -info.last_active, info.key


def page_of(
    infos: Iterable[SessionInfo],
    *,
    owner: OwnerFilter,
    label: str | None,
    after: SessionInfo | None,
    limit: int | None,
) -> list[SessionInfo]:
    """Return the page of a listing that `SessionCatalogue.sessions` describes."""

    start = None if after is None else listing_order(after)
    found = [
        info
        for info in infos
        if is_wanted(info.owner, owner)
        and label in (None, info.label)
        and (start is None or listing_order(info) > start)
    ]
    return sorted(found, key=listing_order)[:limit]


def find_trashed(trash: Iterable[Trashed], name: str) -> Trashed:
    """Return the newest trashed session of that name, id or `agent/id`."""
    for trashed in trash:
        if name in (trashed.name, trashed.key.session, str(trashed.key)):
            return trashed
    raise UsageError(
        f"cannot restore `{name}`: it is not in the trash",
        hint="list the trash with `holdfast rm --list`",
    )
