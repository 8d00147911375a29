"""Ports of what belongs to sessions beside their logs.

These are payloads, accesses, notes, running summaries, queues, and the index of memory: passages of
notes and sessions, by their terms and by their vectors.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import msgspec

from holdfast.core.owners import NO_OWNER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from holdfast.core.history.access import Access
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.core.memory.note_files import Note, NoteFile, NoteKind, NotePassage, SavedNotes
    from holdfast.core.memory.running_summary import Sidecar
    from holdfast.core.owners import FoundOwner, NamedOwner, Owner, OwnerFilter
    from holdfast.core.queues import (
        MessageCopy,
        MessageState,
        NewMessage,
        QueuedMessage,
        WaitingMessages,
    )
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.ports.spending import SpendingLedger


class MovableMessages(Protocol):
    """Messages on their way from one store into another."""

    def copies(self, *, owner: OwnerFilter, after: int = 0, limit: int = 50) -> list[QueuedMessage]:
        """Return messages in every state, those after the id `after`, the oldest first.

        One whose claim has run out waits, and its claim is a lost one.
        """

    def restore(
        self, messages: Sequence[QueuedMessage], *, dry_run: bool = False
    ) -> list[MessageCopy]:
        """Keep messages of another store with their ids and states, in one step.

        Returns what `compare_copy` decides about each; with `dry_run` nothing else happens. New
        messages get ids after theirs.
        """


class Queues(MovableMessages, Protocol):
    """Durable queues. Times are seconds since 1970, by one clock for all who share them."""

    def put(
        self, message: NewMessage, judge: Callable[[WaitingMessages], None] | None = None
    ) -> QueuedMessage:
        """Keep a message durably.

        A message with the same key, queue and owner is returned as it is now; raises `KeyReused`
        where that has another lane, session or body.

        `judge` gets what waits before a new message, while no other one of its lane or its owner
        is put, and raises a `HoldfastError` where it is refused; then nothing changes. It may be
        called more than once, and is not called for a message that is known.
        """

    def claim(
        self, queue: str, holder: str, seconds: float, *, limit: int = 1
    ) -> list[QueuedMessage]:
        """Claim the first message of up to `limit` lanes, those that came first.

        A lane whose first message is claimed, or not due yet, gives none. A claim is a try; a
        claim that ran out had no outcome and is a lost claim instead.
        """

    def renew(self, message: QueuedMessage, seconds: float) -> bool:
        """Extend a claim; False where it was lost."""

    def finish(
        self,
        message: QueuedMessage,
        state: Literal["answered", "delivered", "failed", "dropped"],
        *,
        reason: str = "",
        result: Json | None = None,
    ) -> bool:
        """End the work on a claimed message; False where the claim was lost."""

    def postpone(
        self,
        message: QueuedMessage,
        seconds: float,
        *,
        reason: str = "",
        is_counted: bool = True,
    ) -> bool:
        """Let a claimed message wait for so long; False where the claim was lost.

        `is_counted` is False for a try that was not begun.
        """

    def release_all(self, queue: str) -> int:
        """Let every claimed message wait again, at once: for the only process that claims.

        Their claims are lost claims. Returns their number.
        """

    def message(self, message_id: int) -> QueuedMessage | None:
        """Return a message."""

    def find(self, queue: str, owner: Owner, key: str) -> QueuedMessage | None:
        """Return the message with this key."""

    def messages(
        self,
        queue: str | None = None,
        *,
        owner: OwnerFilter,
        lane: str | None = None,
        states: Sequence[MessageState] = (),
        before: int | None = None,
        limit: int = 50,
    ) -> list[QueuedMessage]:
        """Return messages, the newest first; those before the id `before` for the next page.

        None is any queue or lane; no states are all of them.
        """

    def retry(self, message_id: int) -> bool:
        """Let a failed or dropped message wait again, with nothing counted; False where it is in
        another state."""

    def drop(self, message_id: int, reason: str) -> bool:
        """Set a message aside that is not done; False where it is. Its claim is lost."""

    def counts(
        self, queue: str, *, owner: OwnerFilter, lane: str | None = None
    ) -> dict[MessageState, int]:
        """Return the number of messages in each state that has some."""

    def forget(self, *, older_than_seconds: float) -> int:
        """Delete answered, delivered and dropped messages that did not change for so long."""

    def erase(self, of: str | NamedOwner) -> int:
        """Delete the messages about a session (`agent/id`), or those of an owner, for good.

        Returns their number.
        """


SourceKind = Literal["note", "session"]
Role = Literal["note", "user", "assistant"]

PLACE_BITS: Final = 24
"""The id of a passage is that of its source, then its place there: neighbours are one apart."""


class IndexSource(msgspec.Struct, frozen=True):
    """A file of notes or a session, as far as it is in the index."""

    id: int
    """The number of the source in the index."""
    kind: SourceKind
    """The kind of source."""
    name: str
    """The path of the file, or the key of the session."""
    stamp: str
    """The state of the file or the log; another stamp means that it changed."""
    head: str
    """The record of a session up to which it is in the index."""
    passages: int
    """Number of passages."""
    terms: int
    """Number of terms in all of them."""
    oldest: float | None
    """The time of the oldest passage."""
    newest: float | None
    """The time of the newest passage."""
    group: bytes = b""
    """The sources that are counted together, of one owner: a digest of their name."""


class IndexPassage(msgspec.Struct, frozen=True):
    """A part of a source, with its terms."""

    text: str
    """Its text."""
    terms: Sequence[str]
    """Its search terms."""
    role: Role
    """The speaker, or `note`."""
    record: str = ""
    """The record of a session that it is from."""
    first_line: int = 0
    """Its first line in a file of notes, counted from 1."""
    last_line: int = 0
    """Its last line there."""
    ts: float | None = None
    """Its time, in seconds since 1970."""


class NewSource(msgspec.Struct, frozen=True):
    """A source as it goes into the index."""

    kind: SourceKind
    """`note` or `session`."""
    name: str
    """Its name, unique in its kind."""
    stamp: str
    """The state of the file or session that it was made from."""
    head: str
    """The newest record of a session."""
    passages: Sequence[IndexPassage]
    """Its text."""
    group: str = ""
    """The owner of a session, or the scope of notes: no search of others counts what is in it."""


class FoundPassage(msgspec.Struct, frozen=True):
    """A passage as it is in the index."""

    id: int
    """The number of the passage in the index."""
    text: str
    """Its text."""
    words: str
    """Its search terms in their order, with a space between them."""
    role: Role
    """The speaker, or `note`."""
    record: str
    """The record of a session that it is from."""
    first_line: int
    """Its first line in a file of notes, counted from 1."""
    last_line: int
    """Its last line there."""
    ts: float | None
    """Its time, in seconds since 1970."""

    @property
    def terms(self) -> Sequence[str]:
        return self.words.split()

    @property
    def source(self) -> int:
        return source_of(self.id)

    @property
    def place(self) -> int:
        return place_of(self.id)


class MatchedPassage(msgspec.Struct, frozen=True):
    """A passage that may answer, as far as its rank needs it: its text is not read."""

    id: int
    """The number of the passage in the index."""
    terms: Mapping[str, int]
    """The number of times each term of the query occurs in it, as far as it was looked up."""
    length: int
    """The number of all its terms."""
    role: Role
    """The speaker, or `note`."""
    ts: float | None
    """Its time, in seconds since 1970."""

    @property
    def source(self) -> int:
        return source_of(self.id)

    @property
    def place(self) -> int:
        return place_of(self.id)


class Matches(msgspec.Struct, frozen=True):
    """The passages that hold the terms of a query."""

    holding: dict[str, int]
    """The number of passages that hold each term."""
    sources: dict[str, dict[int, int]]
    """The number of times a term occurs in each source, as far as it was looked up."""
    best: list[MatchedPassage]
    """The passages that hold the most and the rarest of them, some of those that hold all of them
    next to each other, and those that were asked for besides."""


def places_of(source: int, start: int = 0) -> tuple[int, int]:
    """Return the span of the ids that passages of a source have, from a place on."""
    return (source << PLACE_BITS) + start, (source + 1) << PLACE_BITS


def source_of(passage: int) -> int:
    """Return the source of a passage."""
    return passage >> PLACE_BITS


def place_of(passage: int) -> int:
    """Return the place of a passage in its source."""
    return passage & ((1 << PLACE_BITS) - 1)


class VectorRun(NamedTuple):
    """Vectors of passages whose ids follow each other."""

    first: int
    """The id of the first."""
    length: int
    """The number of vectors."""
    data: bytes
    """One vector after another, each of the same length."""


class PassageVectors(Protocol):
    """The vectors of indexed passages, all made by one embedding model."""

    def use_model(self, name: str) -> None:
        """Delete the vectors of another model: they cannot be compared."""

    def missing(self, limit: int, sources: Collection[int] | None = None) -> list[tuple[int, str]]:
        """Return passages that have no vector yet, by id and text, the newest first: of some
        sources, or of all."""

    def count(self, sources: Collection[int]) -> int:
        """Return the number of passages of some sources that have a vector."""

    def add(self, model: str, vectors: Iterable[tuple[int, bytes]]) -> bool:
        """Store vectors of passages that are still there.

        Stores none and returns False where another model is in use by now.
        """

    def load(self, model: str, spans: Sequence[tuple[int, int]]) -> list[VectorRun]:
        """Return the vectors that are there of each span in turn, in runs that are as long as
        possible; none where another model is in use.

        A span is the first id, and the one after the last.
        """


class SearchIndex(Protocol):
    """Passages by the terms in them. Safe for threads, and for many processes.

    Methods raise `StoreUnavailable` where the index does not work. The next call then has another
    one, which may be empty: anyone who searches brings it up to date again.
    """

    @property
    def vectors(self) -> PassageVectors:
        """The vectors of its passages."""

    def sources(
        self, sessions: Collection[str] | None = None, notes: str | None = None
    ) -> list[IndexSource]:
        """Return everything that is in the index; with `sessions` or `notes`, only the sessions of
        these names and the notes of that scope. What others have costs nothing then."""

    def replace(self, sources: Sequence[NewSource]) -> None:
        """Put sources into the index, each in place of its earlier state, in one transaction."""

    def extend(
        self, known: IndexSource, *, stamp: str, head: str, passages: Sequence[IndexPassage]
    ) -> None:
        """Add what was written to a source since. Does nothing where another process did."""

    def forget(self, sources: Iterable[int]) -> None:
        """Remove sources that no longer exist."""

    def erase(self, sessions: Sequence[str], scopes: Sequence[str] = ()) -> None:
        """Delete sessions (`agent/id`), the files with notes from them, and scopes of notes.

        Their words are nowhere in the index afterwards, nor in what it leaves on a disk. The other
        notes of these files are indexed again by the next search.
        """

    def matches(
        self,
        query: Mapping[str, float],
        phrase: Sequence[str],
        allowed: Mapping[int, IndexSource],
        also: Collection[int] = (),
    ) -> Matches:
        """Return the passages of the allowed sources that hold terms of the query, and `also` some.

        `query` has the weight of each term, `phrase` the terms in their order. The work is
        bounded: the rarest terms are looked up first, and terms that are everywhere only as far
        as there is room.
        """

    def passages(self, ids: Collection[int]) -> list[FoundPassage]:
        """Return those of the passages that are still there."""

    def around(self, passage: int) -> list[FoundPassage]:
        """Return a passage and its neighbours in the same source, in order."""

    def holding(
        self, wanted: Iterable[str], allowed: Mapping[int, IndexSource]
    ) -> Mapping[str, int]:
        """Return the number of passages that hold each of the terms, in the groups of the allowed
        sources: what other owners have is not counted."""

    def count_by_source(
        self, holding: Mapping[str, int], allowed: Mapping[int, IndexSource]
    ) -> dict[str, dict[int, int]]:
        """Return how often each term occurs in each of the allowed sources, the rarest first.

        `holding` is the number of passages that hold a term; terms with too many are left out.
        """

    def close(self) -> None:
        """Release what is held open; the next call opens it again."""


class BlobStore(Protocol):
    """Payloads by the SHA-256 of their content."""

    def put(self, data: bytes) -> str:
        """Store `data` durably and return its hash. The same data is stored once."""

    def get(self, sha256: str) -> bytes:
        """Return the payload, verified. Raises `BlobMissing` or `BlobDamaged`."""

    def chunks(self, sha256: str, *, size: int | None = None) -> Iterator[bytes]:
        """Yield the payload in pieces, verified before the first one is delivered.

        With `size`, a payload that turns out to have more bytes is `BlobDamaged`, and is not read
        any further to find that out.
        """

    def size(self, sha256: str) -> int:
        """Return the number of bytes of the payload."""

    def __contains__(self, sha256: str) -> bool: ...

    def __iter__(self) -> Iterator[str]:
        """Yield the hash of every payload."""

    def collect(self, referenced: Iterable[str], *, grace_seconds: float) -> list[str]:
        """Delete payloads that nothing refers to and that are older than the grace."""

    def discard(self, hashes: Iterable[str]) -> list[str]:
        """Delete these payloads, whatever their age; returns those that were there."""

    def sweep(self) -> list[str]:
        """Remove what killed processes left half stored; returns the names."""


class AuditPage(NamedTuple):
    """Accesses from an audit log."""

    accesses: tuple[Access, ...]
    """The newest last."""
    damaged: int
    """The number of lines among them that cannot be read."""


class Audit(Protocol):
    """A log of who asked for which session, with what result.

    Nothing in it is ever changed, except that an erasure takes out the names of what it erased.
    """

    def note(self, access: Access) -> None:
        """Record an access. Raises `StoreError` where it cannot be recorded."""

    def note_all(self, accesses: Iterable[Access]) -> None:
        """Record many accesses in their order; after a crash, the first of them may be there."""

    def entries(self, last: int | None = None) -> AuditPage:
        """Return the newest `last` accesses, or all of them."""

    def pages(self) -> Iterator[AuditPage]:
        """Yield all accesses, the oldest first, some at a time."""

    def reduce(self, change: Callable[[Access], Access], mentions: Iterable[str]) -> int:
        """Replace each access by what `change` makes of it, and return how many were changed.

        A damaged line that has one of `mentions` in it is deleted.
        """


class RunningSummaries(Protocol):
    """A cache of running summaries. Whatever is wrong with it, the log has the answer."""

    def load(self, key: SessionKey) -> Sidecar | None:
        """Return the summary of a session, or None where there is none that can be used."""

    def save(self, key: SessionKey, sidecar: Sidecar) -> bool:
        """Replace the summary of a session, whole or not at all; returns whether that worked."""

    def forget(self, key: SessionKey) -> None:
        """Delete the summary of a session."""


class Notes(Protocol):
    """Text files with the notes of an agent, or of one owner among those it serves."""

    @property
    def redactor(self) -> Redactor:
        """Text that it would mask is not noted."""

    @property
    def scope(self) -> str:
        """The name of these notes among those of other agents and owners."""

    @property
    def location(self) -> str:
        """The place of the files in words, for people: the path of their folder, for one."""

    def append(
        self,
        notes: str | Iterable[str],
        *,
        session: str = "",
        records: Sequence[str] = (),
        sources: Sequence[str] = (),
        once: str = "",
    ) -> SavedNotes:
        """Add the notes that are new to the file of the day.

        `records` are those that all of them come from, `sources` the one that each of them was
        said in, as far as it is known, which is named first.
        `once` names the origin of the notes: notes that were added under that name before, and
        removed by a person since, are not added again.
        """

    def notes(self, path: str | None = None) -> Iterator[Note]:
        """Yield every note, file by file in the order of their names, or those of one file."""

    def files(self) -> list[NoteFile]:
        """Return every file of notes."""

    def tree(self) -> list[NoteFile]:
        """Return files and folders."""

    def kind(self, path: str) -> NoteKind:
        """Return whether a path is a file, a folder, something else, or nothing."""

    def data(self, path: str) -> bytes:
        """Return the content of a file. Raises `NoSuchNote`."""

    def read(self, path: str, first_line: int = 1, lines: int = 120) -> NotePassage:
        """Return some lines of a file, without the comments after them."""

    def marks(self) -> set[str]:
        """Return the names that were given to `append` as `once`, as far as they are known."""

    def put(self, path: str, before: bytes | None, after: bytes) -> None:
        """Write a file if it still is `before`; None: it must not exist. Raises `NoteChanged`."""

    def rename(self, old: str, new: str) -> None:
        """Give a file or folder another path, where nothing is yet."""

    def discard(self, path: str) -> str:
        """Move a file or folder to the trash; returns its path there."""

    def erase(self, session: str | None) -> int:
        """Delete the notes that came from a session (`agent/id`), also from the trash.

        None deletes everything, also what people wrote. Returns the number of notes that were
        deleted.
        """


class SideStores(ABC):
    """Everything that a session store keeps beside its logs. None of it is optional."""

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
    @abstractmethod
    def summaries(self) -> RunningSummaries:
        """The running summaries of its sessions."""

    @property
    @abstractmethod
    def queues(self) -> Queues:
        """The messages that wait for a turn, or to be sent."""

    @property
    @abstractmethod
    def spending(self) -> SpendingLedger:
        """The sums that calls of models took of budgets."""

    @property
    @abstractmethod
    def search_index(self) -> SearchIndex:
        """The index that searches of notes and sessions use. It closes with the store."""

    @abstractmethod
    def notes(
        self,
        agent: str,
        owner: Owner = NO_OWNER,
        *,
        clock: Callable[[], float] = time.time,
        redactor: Redactor | None = None,
    ) -> Notes:
        """Return the notes of an agent, or of one of its owners.

        Text that the `redactor` would mask is not noted.
        """

    @abstractmethod
    def note_scopes(self, agent: str) -> dict[str, FoundOwner]:
        """Return the `scope` of all notes that an agent and its owners have, with the owner.

        It is unknown where a store does not know the name, which the scope is made from.
        """


class LeaseHolder(NamedTuple):
    """The holder of a lease."""

    token: int
    """The number of the lease; a newer lease has a larger one."""
    holder: str
    """In the words that `acquire` was given; they name one turn and no other."""
    since: float
    """Seconds since 1970."""


class Leases(Protocol):
    """At most one lease per session. Every method raises `NoSuchSession` where there is none."""

    @property
    def place(self) -> str:
        """The folder, the database or the memory that they are in: the same for objects that share
        their leases, and for no others."""

    def acquire(
        self, key: SessionKey, holder: str, seconds: float, *, queue_seconds: float = 0.0
    ) -> int:
        """Take the lease of a session and return its token, which is larger than all before it.

        Raises `TurnInProgress` while another holder has the lease, or waits for it in front of this
        one. A lease is free once it was released, `seconds` after it was last renewed (by the
        store's own clock, which no change of the wall clock moves), and sooner if the store notices
        that its holder is dead.

        A holder that is refused keeps its place in the queue for `queue_seconds`, and longer by
        asking again; with 0 it takes none.
        """

    def leave_queue(self, key: SessionKey, holder: str) -> None:
        """Give up a holder's place in the queue, if it has one."""

    def renew(self, key: SessionKey, token: int, seconds: float) -> None:
        """Keep the lease for so many seconds from now. Raises `LeaseLost` where a newer token
        exists; a lease that ran out and that no one took is renewed."""

    def release(self, key: SessionKey, token: int) -> None:
        """End the lease. An older token changes nothing."""

    def current(self, key: SessionKey) -> LeaseHolder | None:
        """Return the holder; None where the lease is free."""


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def uptime() -> float:
    """Return the seconds since this machine started, those it slept included where the system
    counts them. All its processes read the same clock, and nothing sets it. A holder asks it
    whether its lease may have run out on another machine, which did not sleep."""
    return time.clock_gettime(_CLOCK)


def awake_time() -> float:
    """Return the seconds that this machine was awake. All its processes read the same clock, and
    nothing sets it. What processes of one machine hold lasts so long: a machine that slept has
    stopped the holder as well as those who wait for it."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


@cache
def this_boot() -> str:
    """Return what identifies this start of this machine, the same in all its containers.

    `uptime` and `awake_time` count from it.
    """
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return os.uname().nodename
