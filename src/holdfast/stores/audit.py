"""The audit log: who asked for which session, and what came of it. One line for each access.

`<root>/audit.jsonl` is only ever appended to, by a single write of a whole line, so that any
number of processes can share it without a lock. What a crash left unfinished is closed by the
next note and counted by readers. It may be moved aside at any time; the next note makes it anew.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.history.access import Access, bounded
from holdfast.ports import Noted
from holdfast.stores.files import Disk, explaining, open_file, open_root
from holdfast.stores.lines import Oversize, backward

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME: Final = "audit.jsonl"

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Access)


class FileAudit:
    """An `Audit` in a file below the root. Safe for threads and for processes."""

    def __init__(self, root: str | os.PathLike[str], *, disk: Disk | None = None) -> None:
        self.root = os.fspath(root)
        self._disk = disk or Disk()

    def note(self, access: Access) -> None:
        line = _encoder.encode(bounded(access)) + b"\n"
        with explaining(f"record an access in `{NAME}`"):
            fd = self._open_to_append()
            try:
                self._append(fd, line)
            finally:
                os.close(fd)

    def entries(self, last: int | None = None) -> Noted:
        with explaining(f"read `{NAME}`"):
            try:
                folder = open_root(self.root, create=False)
            except FileNotFoundError:
                return Noted((), 0)
            try:
                fd = open_file(folder, NAME, os.O_RDONLY)
            except FileNotFoundError:
                return Noted((), 0)
            finally:
                os.close(folder)
            try:
                return _newest(fd, last)
            finally:
                os.close(fd)

    def _open_to_append(self) -> int:
        flags = os.O_RDWR | os.O_APPEND
        folder = open_root(self.root, create=True)
        try:
            with suppress(FileNotFoundError):
                return open_file(folder, NAME, flags)
            fd = open_file(folder, NAME, flags | os.O_CREAT)
            try:
                self._disk.sync_folder(folder)
            except BaseException:
                os.close(fd)
                raise
            return fd
        finally:
            os.close(folder)

    def _append(self, fd: int, line: bytes) -> None:
        if not _ends_with_a_line(fd):
            line = b"\n" + line
        if self._disk.write(fd, line) < len(line):
            # To write the rest could put it behind another process's line.
            raise OSError(errno.EIO, "the disk took a part of the line only")
        self._disk.sync(fd)


class MemoryAudit:
    """An `Audit` that keeps nothing beyond its own life."""

    def __init__(self) -> None:
        self._accesses: list[Access] = []

    def note(self, access: Access) -> None:
        self._accesses.append(bounded(access))

    def entries(self, last: int | None = None) -> Noted:
        start = 0 if last is None else max(0, len(self._accesses) - last)
        return Noted(tuple(self._accesses[start:]), 0)


def _ends_with_a_line(fd: int) -> bool:
    """Whether the file ends with a newline, or is empty.

    A line that is just being written looks unfinished too. Then a blank line is the whole harm.
    """
    size = os.fstat(fd).st_size
    return size == 0 or os.pread(fd, 1, size - 1) == b"\n"


def _newest(fd: int, last: int | None) -> Noted:
    """Reads back from the end, and no further than it takes."""
    found: list[Access] = []
    damaged = 0
    for access in _back(fd):
        if last is not None and len(found) >= last:
            break
        if access is None:
            damaged += 1
        else:
            found.append(access)
    return Noted(tuple(reversed(found)), damaged)


def _back(fd: int) -> Iterator[Access | None]:
    """Every access, the newest first; None for a line that is none.

    What follows the last newline is no line yet, and counts only if it is whole.
    """
    is_unfinished = True
    for _position, line in backward(fd, os.fstat(fd).st_size):
        access = _decoded(line)
        if access is not None or not (is_unfinished or line == b""):
            yield access
        is_unfinished = False


def _decoded(line: bytes | Oversize) -> Access | None:
    if isinstance(line, Oversize):
        return None
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
