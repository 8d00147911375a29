"""Running summaries: in a file beside the log (`<session>.summary.json`), or in memory.

They are a cache: whatever is wrong with it, the log has the answer. So a file that is torn, foreign
or of another session counts as missing, and one that cannot be written is not missed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import SIDECAR_BYTES_MAX
from holdfast.core.memory.running_summary import Sidecar, read_sidecar
from holdfast.errors import StoreError
from holdfast.stores.files import Disk, open_file, open_folder, write_new

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey

_SUFFIX: Final = ".summary.json"


class FileSidecars:
    """The summaries below one root."""

    def __init__(self, root: str | os.PathLike[str], *, disk: Disk | None = None) -> None:
        self.root = os.fspath(root)
        self._disk = disk or Disk()

    def load(self, key: SessionKey) -> Sidecar | None:
        """Return the summary of a session; None where there is none that can be used."""
        try:
            folder = self._folder(key)
            try:
                fd = open_file(folder, key.session + _SUFFIX, os.O_RDONLY)
            finally:
                os.close(folder)
            with os.fdopen(fd, "rb") as file:
                data = file.read(SIDECAR_BYTES_MAX + 1)
        except (OSError, StoreError):
            return None
        return read_sidecar(data) if len(data) <= SIDECAR_BYTES_MAX else None

    def save(self, key: SessionKey, sidecar: Sidecar) -> bool:
        """Replace the summary, whole or not at all; returns whether that worked."""
        try:
            folder = self._folder(key)
            try:
                data = msgspec.json.encode(sidecar)
                write_new(folder, key.session + _SUFFIX, (data, b"\n"), self._disk, is_cache=True)
            finally:
                os.close(folder)
        except (OSError, StoreError):
            return False
        return True

    def forget(self, key: SessionKey) -> None:
        """Delete the summary: a session that is gone leaves no words behind."""
        with suppress(OSError):
            folder = self._folder(key)
            try:
                os.unlink(key.session + _SUFFIX, dir_fd=folder)
            finally:
                os.close(folder)

    def _folder(self, key: SessionKey) -> int:
        return open_folder(self.root, ("agents", key.agent, "sessions"))


class MemorySummaries:
    """`RunningSummaries` that are lost with the object."""

    def __init__(self) -> None:
        self._held: dict[SessionKey, Sidecar] = {}

    def load(self, key: SessionKey) -> Sidecar | None:
        return self._held.get(key)

    def save(self, key: SessionKey, sidecar: Sidecar) -> bool:
        self._held[key] = sidecar  # frozen, like everything in it
        return True

    def forget(self, key: SessionKey) -> None:
        self._held.pop(key, None)
