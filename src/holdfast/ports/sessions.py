"""The port of a session store: what a store implements, and what is written once above it."""

from __future__ import annotations

import random
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self

import msgspec

from holdfast.core.limits import BATCH_RECORDS_MAX
from holdfast.core.log import views
from holdfast.core.log.batch import Batch, new_header, place
from holdfast.core.log.copies import LogRepair, copy_header, fork_records
from holdfast.core.log.ids import Named, free_key
from holdfast.core.log.records import decode
from holdfast.core.models.totals import SessionTotals
from holdfast.core.owners import (
    NO_OWNER,
    UNKNOWN_OWNER,
    is_wanted,
    owner_in_row,
    owner_text,
    row_text,
)
from holdfast.errors import BadRecord, NoSuchSession, UsageError
from holdfast.ports.erasing import SessionEraser
from holdfast.ports.place import StorePlace
from holdfast.ports.reading import SessionReader
from holdfast.ports.side_stores import SideStores

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.log.damage import Finding
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.listing import Facts
    from holdfast.core.log.records import Record
    from holdfast.core.owners import FoundOwner, Owner, OwnerFilter

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


def page_of(
    infos: Iterable[SessionInfo],
    *,
    owner: OwnerFilter,
    label: str | None,
    after: SessionInfo | None,
    limit: int | None,
) -> list[SessionInfo]:
    """Return the page of a listing that `SessionCatalogue.sessions` describes."""

    def place(info: SessionInfo) -> tuple[float, SessionKey]:
        return -info.last_active, info.key

    start = None if after is None else place(after)
    found = [
        info
        for info in infos
        if is_wanted(info.owner, owner)
        and label in (None, info.label)
        and (start is None or place(info) > start)
    ]
    return sorted(found, key=place)[:limit]


def find_trashed(trash: Iterable[Trashed], name: str) -> Trashed:
    """Return the newest trashed session of that name, id or `agent/id`."""
    for trashed in trash:
        if name in (trashed.name, trashed.key.session, str(trashed.key)):
            return trashed
    raise UsageError(
        f"cannot restore `{name}`: it is not in the trash",
        hint="list the trash with `holdfast rm --list`",
    )
