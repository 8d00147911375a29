"""The protocols that durable things and models implement. No path, handle or seek appears here.

`JsonlStore` keeps sessions in plain files and `MemoryStore` in memory; anything else that passes
`holdfast.testing.conformance` can take their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from holdfast.core.history.access import Access
    from holdfast.core.log.damage import Finding
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Compaction, Header, Json, Record
    from holdfast.core.log.tree import Branch
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.replies import Delta, Reply
    from holdfast.core.models.window import Window

    Clock = Callable[[], float]
    """Seconds since 1970."""
    Entropy = Callable[[int], int]
    """That many random bits."""
    Hear = Callable[[Delta], None]
    """Is told each piece of a reply as it comes in."""

ANY_HEAD: Final = None
"""For appends that do not care what was written meanwhile."""

Durability = Literal["synced", "buffered"]
"""`synced`: survives power loss once `append` returns. `buffered`: survives the end of the
process, and power loss only after a later synced append or `sync`; for bulk loads."""


class Appended(NamedTuple):
    """What an append did."""

    ids: tuple[str, ...]
    head: str
    sealed: Finding | None = None
    """The torn end of an earlier append that this one had to seal first."""


class Live(msgspec.Struct, frozen=True):
    """What the next turn needs: the records from the newest boundary to the head."""

    records: tuple[Record, ...]
    boundary: Compaction | None
    head: str
    findings: tuple[Finding, ...] = ()


Standing = Literal["path", "branch", "double", "repeat", "open"]
"""What became of a record: on the path to the head; on an abandoned branch; a call stored a second
time; a line that repeats an earlier one; part of an append that never completed."""


class Entry(msgspec.Struct, frozen=True):
    """A record as it stands in the whole log."""

    record: Record
    standing: Standing


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


class Report(msgspec.Struct, frozen=True):
    """Everything `verify` found out about one session."""

    key: SessionKey
    bytes: int
    records: int
    counts: dict[str, int]
    branches: int
    head: str
    findings: tuple[Finding, ...]

    @property
    def is_sound(self) -> bool:
        return not any(finding.is_damage for finding in self.findings)


class Trashed(msgspec.Struct, frozen=True):
    """A removed session that can still be restored."""

    name: str
    key: SessionKey
    removed: float
    bytes: int


class SessionStore(Protocol):
    """Append-only logs of records.

    Promises: once `append` returns, its records survive a crash; an append is there whole or not
    at all; nothing that was appended is ever changed; readers never wait for writers.
    """

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

    def append(
        self,
        key: SessionKey,
        records: Sequence[Record],
        *,
        expect: str | None,
        durability: Durability = "synced",
    ) -> Appended:
        """Add records after the head, all or none.

        `expect` is the head the caller has seen (`LogConflict` if it is another) or `ANY_HEAD`.
        Records without an id or time get one. A `rewind` moves the head to its `to`.
        """

    def append_each(
        self, key: SessionKey, records: Sequence[Record], *, durability: Durability = "synced"
    ) -> Appended:
        """Add records that stand for themselves: after a crash, the first of them may be there."""

    def sync(self, key: SessionKey) -> None:
        """Make everything appended so far durable."""

    def read(self, key: SessionKey, *, start: str | None = None) -> Iterator[Record]:
        """The records on the path to the head, oldest first, from `start` on."""

    def read_all(self, key: SessionKey) -> Iterator[Entry]:
        """Every intact record in the order it was written, whatever became of it."""

    def header(self, key: SessionKey) -> Header:
        """Whose session it is and where it comes from, without reading the rest.

        A log that begins with another record has a header made up for it, with no owner. Raises
        `StoreError` where the beginning is damaged: then nobody knows whose it is.
        """

    def last(self, key: SessionKey, count: int, *, before: str | None = None) -> list[Record]:
        """The newest `count` records on the path to the head, oldest first.

        With `before`, the newest that stand before the record of that id. `NoSuchRecord` where it
        is not on the path.
        """

    def back(self, key: SessionKey, *, before: str | None = None) -> Iterator[Record]:
        """The path from the head, or from before that record, towards the root: newest first.

        Costs what is taken of it. Where an id occurs twice, the newest record has it here, so
        that no `before` leads back to where a reader has been.
        """

    def live(self, key: SessionKey, *, window: int | None = None) -> Live:
        """The path from the newest compaction (that binds `window`) to the head."""

    def head(self, key: SessionKey) -> str:
        """The id of the head."""

    def find(self, key: SessionKey, prefix: str) -> Record:
        """The one record whose id is `prefix` or starts with it."""

    def branches(self, key: SessionKey) -> list[Branch]:
        """Every leaf of the session's tree."""

    def read_branch(self, key: SessionKey, head: str) -> Iterator[Record]:
        """The records on the path to `head`, oldest first."""

    def fork(self, key: SessionKey, new: SessionKey, *, at: str | None, label: str = "") -> str:
        """Copy the path to `at` (the head by default) into a new session of the same owner.

        Returns its head.
        """

    def verify(self, key: SessionKey) -> Report:
        """Read everything, change nothing, say what is wrong."""

    def sessions(self, *, agent: str | None = None) -> list[SessionInfo]:
        """All sessions, the most recently active first."""

    def remove(self, key: SessionKey) -> Trashed:
        """Move a session to the trash."""

    def trash(self) -> list[Trashed]:
        """What is in the trash."""

    def restore(self, name: str) -> SessionKey:
        """Take a session out of the trash."""

    def empty_trash(self, *, older_than_seconds: float = 0.0) -> list[Trashed]:
        """Delete what is in the trash for good."""

    def close(self) -> None:
        """Let go of what is held open. Everything acknowledged is durable already."""


class BlobStore(Protocol):
    """Payloads by the SHA-256 of their content."""

    def put(self, data: bytes) -> str:
        """Store `data` durably and return its hash. The same data is stored once."""

    def get(self, sha256: str) -> bytes:
        """The payload, verified. Raises `BlobMissing` or `BlobDamaged`."""

    def chunks(self, sha256: str, *, size: int | None = None) -> Iterator[bytes]:
        """The payload in pieces, verified before the first one is delivered.

        With `size`, a payload that turns out to have more bytes is `BlobDamaged`, and is not read
        any further to find that out.
        """

    def size(self, sha256: str) -> int:
        """How many bytes the payload has."""

    def __contains__(self, sha256: str) -> bool: ...

    def collect(self, referenced: Iterable[str], *, grace_seconds: float) -> list[str]:
        """Delete payloads that nothing refers to and that are older than the grace."""


class Noted(NamedTuple):
    """What an audit log holds."""

    accesses: tuple[Access, ...]
    """The newest last."""
    damaged: int
    """Lines among them that cannot be read."""


class Audit(Protocol):
    """Who asked for which session, and what came of it. Nothing in it is ever changed."""

    def note(self, access: Access) -> None:
        """Record an access. Raises `StoreError` where it cannot be recorded."""

    def entries(self, last: int | None = None) -> Noted:
        """The newest `last` accesses, or all of them."""


class Model(Protocol):
    """A way to reach one model. Whatever it raises is classified, never swallowed."""

    @property
    def target(self) -> Target:
        """Whom requests are made for."""

    @property
    def window(self) -> Window:
        """How large its window is, as far as anybody knows."""

    def send(self, request: Json, hear: Hear | None = None) -> Reply:
        """Send a rendered request. With `hear`, the reply is streamed to it as it is written.

        What `hear` raises ends the call and is raised on.
        """


class AsyncModel(Protocol):
    """The same, awaited."""

    @property
    def target(self) -> Target: ...

    @property
    def window(self) -> Window: ...

    async def send(self, request: Json, hear: Hear | None = None) -> Reply: ...
