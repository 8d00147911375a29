"""The part of a session store that deletes for good. `holdfast.erase` is written above it.

Erasing has two steps, so that a crash between them leaves nothing that looks like a healthy
session: first a session leaves every listing, then its words are deleted wherever they are, and
its log last. Until the log is gone, the erasure can be run again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.log.records import Header, Label
from holdfast.core.log.views import opening
from holdfast.core.owners import owner_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.walk import OpenLog
    from holdfast.core.owners import Owner, OwnerFilter


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
    def begin_erasure(self, key: SessionKey, *, owner: OwnerFilter) -> None:
        """Take a session and the removed ones of its key out of every listing, for good.

        They cannot be opened, read or restored any more. Running it again is no error.
        """

    @abstractmethod
    def erasures(self) -> list[SessionKey]:
        """Return the keys whose erasure has begun and is not finished."""

    @abstractmethod
    def finish_erasure(self, key: SessionKey) -> None:
        """Delete the logs of an erasure that has begun."""

    @abstractmethod
    def hash_candidates(
        self, *, of: SessionKey | None = None, besides: SessionKey | None = None
    ) -> Iterable[str]:
        """Return everything that could be the hash of a payload: too many rather than too few.

        By default in every log, living or removed, that is not being erased; with `besides`, in
        those of other keys; with `of`, in all logs of that key, also in those being erased.
        """

    @abstractmethod
    def agents(self) -> Iterable[str]:
        """Return every agent that may have sessions or notes."""

    @abstractmethod
    def erase_from_indexes(self, session: SessionKey | None, scopes: Sequence[str] = ()) -> None:
        """Delete what the store's indexes hold of a session and of these scopes of notes.

        A store without an index has nothing to do.
        """


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
