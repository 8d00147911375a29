"""The part of a session store that says where it is, in words and for people."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey


class DiskUse(msgspec.Struct, frozen=True):
    """The room that a store takes."""

    bytes: int
    """Bytes that its files or tables take on their disk."""
    free: int | None = None
    """Bytes that are free there; None where the store cannot tell."""
    is_whole: bool = True
    """False where there is more than it looked at."""


class StorePlace(ABC):
    """The place of a store. It answers for whoever would ask which kind of store it is."""

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
