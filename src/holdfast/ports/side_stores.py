"""Ports of what belongs to sessions beside their logs: payloads, accesses, notes, summaries."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Protocol

from holdfast.core.owners import NO_OWNER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from holdfast.core.history.access import Access
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.memory.note_types import (
        Note,
        NoteFile,
        NoteKind,
        NotePassage,
        SavedNotes,
    )
    from holdfast.core.memory.running_summary import Sidecar
    from holdfast.core.owners import FoundOwner, Owner
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.ports.leases import Leases
    from holdfast.ports.queues import Queues
    from holdfast.ports.search_index import SearchIndex


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
