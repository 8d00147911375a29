"""The progress and the result of a copy from one store to another, as values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

import msgspec

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey

CopyState = Literal["copied", "updated", "same", "conflict", "failed"]
"""`copied`: it was not at the target. `updated`: the target had a beginning of it. `same`: nothing
was to be done. `conflict`: the target has something else, and was not touched. `failed`: it could
not be read or written."""

_DONE: Final = ("copied", "updated", "same")


class CopiedSession(msgspec.Struct, frozen=True):
    """The result of a copy for one session."""

    key: SessionKey
    """The session."""
    state: CopyState
    """The outcome."""
    bytes: int = 0
    """Bytes of its log at the target, all of them compared with the source."""
    added: int = 0
    """Bytes of them that this copy wrote."""
    payloads: int = 0
    """Payloads that this copy stored."""
    left_out: int = 0
    """Bytes at the end of the source's log: an append that never completed, or not yet."""
    turn: str = ""
    """The holder of a turn that ran at the source meanwhile: copy again after it."""
    detail: str = ""
    """Why it was not copied, or what is missing at the source."""

    @property
    def is_done(self) -> bool:
        """False where the target lacks something, or soon will."""
        return self.state in _DONE and not self.turn


class CopiedNotes(msgspec.Struct, frozen=True):
    """The result of a copy for the notes of one agent, or of one of its owners."""

    scope: str
    """The agent or owner of the notes."""
    state: CopyState
    """The outcome."""
    files: int = 0
    """Number of files."""
    added: int = 0
    """Files of them that this copy wrote."""
    detail: str = ""
    """More about it, for people."""

    @property
    def is_done(self) -> bool:
        """False where the target lacks something."""
        return self.state in _DONE


class CopiedMessages(msgspec.Struct, frozen=True):
    """The result of a copy for the messages in queues."""

    messages: int = 0
    """Number of messages at the source, in every state."""
    added: int = 0
    """Messages of them that were not at the target."""
    updated: int = 0
    """Messages of which the target had an earlier state."""
    running: int = 0
    """Messages that are worked on at the source. They wait at the target: copy again after it."""
    conflicts: tuple[int, ...] = ()
    """Ids of the first messages that are another at the target, and were not touched."""
    conflicts_count: int = 0
    """Number of such messages."""

    @property
    def is_done(self) -> bool:
        """False where the target lacks something, or soon will."""
        return not (self.running or self.conflicts_count)


class CopyReport(msgspec.Struct, frozen=True):
    """The result of `copy_store`."""

    source: str
    """The store that was read."""
    target: str
    """The store that was written."""
    sessions: tuple[CopiedSession, ...]
    """One entry for each session."""
    notes: tuple[CopiedNotes, ...]
    """One entry for each folder of notes."""
    accesses: int = 0
    """Entries of the audit log that this copy added."""
    accesses_damaged: int = 0
    """Lines of the source's audit log that cannot be read, and were left out."""
    trashed: int = 0
    """Sessions in the source's trash. They are not copied."""
    messages: CopiedMessages = CopiedMessages()
    """The messages in queues."""
    is_dry_run: bool = False
    """True where nothing was written."""

    @property
    def is_complete(self) -> bool:
        """True where the target has everything that the source has."""
        is_each_done = [session.is_done for session in self.sessions]
        is_each_done += [notes.is_done for notes in self.notes]
        return all(is_each_done) and self.messages.is_done


class CopyProgress(msgspec.Struct, frozen=True):
    """A step of a copy, for a person who waits."""

    key: SessionKey
    """The session that is copied now."""
    number: int
    """Of the session, from 1 on."""
    total: int
    """Number of sessions in all."""
    bytes: int = 0
    """Bytes of its log that are compared or copied so far."""


OnProgress = Callable[[CopyProgress], None]
