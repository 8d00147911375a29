"""The part of a session store that says where it is, in words and for people."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey


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
