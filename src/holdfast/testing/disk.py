"""Disks that fail as they are told to, and one that remembers what was done to it.

Give one to a store in place of the real one: `JsonlStore(root, disk=FaultyDisk())`.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from holdfast.stores.files import Disk

if TYPE_CHECKING:
    from collections.abc import Iterator

Call = Literal["write", "sync", "sync_folder", "truncate"]
FOREVER: Final = 1 << 62
"""For faults that stay until `heal`."""


@dataclass(slots=True)
class _Fault:
    call: Call
    error: int
    passing: int
    """Calls that still succeed before this fault."""
    times: int


class FaultyDisk(Disk):
    """A disk with faults. Without any it does what the real one does."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        """Every call so far, failed ones included."""
        self._faults: list[_Fault] = []
        self._room: int | None = None
        self._write_bytes_max: int | None = None

    def fail(self, call: Call, error: int, *, at: int = 1, times: int = 1) -> None:
        """Let the `at`-th such call from now fail with this errno, and the ones after it.

        `times` is how many of them fail in all; `FOREVER`: until `heal`.
        """
        self._faults.append(_Fault(call, error, at - 1, times))

    def heal(self) -> None:
        """Take all faults away."""
        self._faults.clear()
        self._write_bytes_max = None
        self.free()

    def fill(self, *, room: int = 0) -> None:
        """Let the disk be full after `room` more bytes, until `free`."""
        self._room = room

    def free(self) -> None:
        """Make space again."""
        self._room = None

    def shorten(self, bytes_max: int) -> None:
        """Let every write take at most that many bytes."""
        self._write_bytes_max = bytes_max

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self._call("write")
        taken = len(data)
        if self._write_bytes_max is not None:
            taken = min(taken, self._write_bytes_max)
        if self._room is not None:
            taken = min(taken, self._room)
            if taken == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._room -= taken
        return super().write(fd, memoryview(data)[:taken])

    def sync(self, fd: int) -> None:
        self._call("sync")
        super().sync(fd)

    def sync_folder(self, fd: int) -> None:
        self._call("sync_folder")
        super().sync_folder(fd)

    def truncate(self, fd: int, size: int) -> None:
        self._call("truncate")
        super().truncate(fd, size)

    def _call(self, call: Call) -> None:
        self.calls.append(call)
        for fault in self._faults:
            if fault.call != call or fault.times == 0:
                continue
            if fault.passing > 0:
                fault.passing -= 1
            else:
                fault.times -= 1
                raise OSError(fault.error, os.strerror(fault.error))


@dataclass(frozen=True, slots=True)
class Write:
    fd: int
    """The file descriptor."""
    data: bytes
    """The bytes that were written."""


@dataclass(frozen=True, slots=True)
class Sync:
    fd: int
    """The file descriptor."""


class RecordingDisk(Disk):
    """Remembers every write and sync in order, so that a crash at any byte can be replayed."""

    def __init__(self) -> None:
        self.events: list[Write | Sync] = []

    def write(self, fd: int, data: bytes | memoryview) -> int:
        taken = super().write(fd, data)
        self.events.append(Write(fd, bytes(data[:taken])))
        return taken

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self.events.append(Sync(fd))

    def cuts(self, before: bytes) -> Iterator[bytes]:
        """Yield the content of a file that held `before` after each byte of the writes since.

        The first is `before` itself and the last has every byte.
        """
        written = b"".join(event.data for event in self.events if isinstance(event, Write))
        for length in range(len(written) + 1):
            yield before + written[:length]
