"""The audit log: who asked for which session, with what result. One line for each access.

`<root>/audit.jsonl` is only ever appended to, by a single write of a whole line, so that any
number of processes can share it without a lock. A line that a crash left unfinished is closed by
the next append and counted by readers. The file may be moved aside at any time; the next append
creates it again. An erasure writes over lines where they are and changes the place of none.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.history.access import Access, bound
from holdfast.core.text.typed import decoder_of
from holdfast.ports import AuditPage
from holdfast.stores.files import (
    Disk,
    explaining,
    has_name,
    open_file,
    open_root,
    open_to_append,
    write_whole,
)
from holdfast.stores.lines import Forward, Oversize, backward

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

NAME: Final = "audit.jsonl"
_LINES: Final = 1_000
"""Lines that one write adds, and that a page has."""

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = decoder_of(Access)


class FileAudit:
    """An `Audit` in a file below the root. Safe for threads and for processes."""

    def __init__(self, root: str | os.PathLike[str], *, disk: Disk | None = None) -> None:
        self.root = os.fspath(root)
        self._disk = disk or Disk()

    def note(self, access: Access) -> None:
        self._append(_line(access))

    def note_all(self, accesses: Iterable[Access]) -> None:
        lines = map(_line, accesses)
        while some := b"".join(islice(lines, _LINES)):
            self._append(some)

    def _append(self, lines: bytes) -> None:
        with explaining(f"record an access in `{NAME}`"):
            folder = open_root(self.root, create=True)
            try:
                while not self._append_to(folder, lines):
                    pass  # another process has just replaced the file: once more
            finally:
                os.close(folder)

    def _append_to(self, folder: int, lines: bytes) -> bool:
        """Append to the file, and return whether it still has its name then."""
        fd = open_to_append(folder, NAME, self._disk)
        try:
            self._write(fd, lines)
            return has_name(folder, NAME, fd)
        finally:
            os.close(fd)

    def entries(self, last: int | None = None) -> AuditPage:
        with explaining(f"read `{NAME}`"), self._file(os.O_RDONLY) as fd:
            return AuditPage((), 0) if fd is None else _newest(fd, last)

    def pages(self) -> Iterator[AuditPage]:
        with explaining(f"read `{NAME}`"), self._file(os.O_RDONLY) as fd:
            if fd is not None:
                yield from _in_pages(_forth(fd))

    def reduce(self, change: Callable[[Access], Access], mentions: Iterable[str]) -> int:
        """Replace accesses in place: other processes append to the same file meanwhile."""
        words = [mention.encode() for mention in mentions]
        changed = 0
        with explaining(f"change accesses in `{NAME}`"), self._file(os.O_RDWR) as fd:
            if fd is None:
                return 0
            for position, line in backward(fd, os.fstat(fd).st_size):
                instead = _change(line, change, words)
                if instead is not None:
                    _overwrite(fd, position, instead, self._disk)
                    changed += 1
            self._disk.sync(fd)
        return changed

    @contextmanager
    def _file(self, flags: int) -> Iterator[int | None]:
        """Open the file; yields None where there is none."""
        try:
            folder = open_root(self.root, create=False)
            try:
                fd = open_file(folder, NAME, flags)
            finally:
                os.close(folder)
        except FileNotFoundError:
            yield None
            return
        try:
            yield fd
        finally:
            os.close(fd)

    def _write(self, fd: int, lines: bytes) -> None:
        if not _ends_with_a_line(fd):
            lines = b"\n" + lines
        if self._disk.write(fd, lines) < len(lines):
            # Writing the rest could put it after the line of another process.
            raise OSError(errno.EIO, "the disk took only part of the lines")
        self._disk.sync(fd)


class MemoryAudit:
    """An `Audit` that is lost with the object."""

    def __init__(self) -> None:
        self._accesses: list[Access] = []

    def note(self, access: Access) -> None:
        self._accesses.append(bound(access))

    def note_all(self, accesses: Iterable[Access]) -> None:
        self._accesses.extend(map(bound, accesses))

    def entries(self, last: int | None = None) -> AuditPage:
        start = 0 if last is None else max(0, len(self._accesses) - last)
        return AuditPage(tuple(self._accesses[start:]), 0)

    def pages(self) -> Iterator[AuditPage]:
        yield AuditPage(tuple(self._accesses), 0)

    def reduce(self, change: Callable[[Access], Access], mentions: Iterable[str]) -> int:
        del mentions  # no line is damaged here
        before = self._accesses
        self._accesses = [change(access) for access in before]
        return sum(old != new for old, new in zip(before, self._accesses, strict=True))


def _line(access: Access) -> bytes:
    return _encoder.encode(bound(access)) + b"\n"


def _change(
    line: bytes | Oversize, change: Callable[[Access], Access], words: Sequence[bytes]
) -> bytes | None:
    """Return the bytes to write over a line, as many as it has; None where it stays."""
    if isinstance(line, Oversize):
        return b" " * line.size  # no line of ours is that long
    access = _decode(line)
    if access is None:
        return b" " * len(line) if any(word in line for word in words) else None
    after = change(access)
    if after == access:
        return None
    data = _encoder.encode(after)
    return data.ljust(len(line)) if len(data) <= len(line) else b" " * len(line)


def _overwrite(fd: int, position: int, data: bytes, disk: Disk) -> None:
    """Write over a part of a file; a descriptor that appends would add it to the end."""
    os.lseek(fd, position, os.SEEK_SET)
    write_whole(fd, data, disk)


def _ends_with_a_line(fd: int) -> bool:
    """Return whether the file ends with a newline, or is empty.

    A line that is just being written looks unfinished too. All that happens then is a blank line.
    """
    size = os.fstat(fd).st_size
    return size == 0 or os.pread(fd, 1, size - 1) == b"\n"


def _newest(fd: int, last: int | None) -> AuditPage:
    """Read back from the end, no further than needed."""
    found: list[Access] = []
    damaged = 0
    for access in _back(fd):
        if last is not None and len(found) >= last:
            break
        if access is None:
            damaged += 1
        else:
            found.append(access)
    return AuditPage(tuple(reversed(found)), damaged)


def _back(fd: int) -> Iterator[Access | None]:
    """Yield every access, the newest first; None for a damaged line.

    The text after the last newline is no line yet, and counts only if it is whole.
    """
    is_unfinished = True
    for _position, line in backward(fd, os.fstat(fd).st_size):
        access = _decode(line)
        is_blank = not isinstance(line, Oversize) and not line.strip()
        if access is not None or not (is_unfinished or is_blank):
            yield access
        is_unfinished = False


def _forth(fd: int) -> Iterator[Access | None]:
    """Yield every access, the oldest first, as `_back` does."""
    lines = Forward(fd, 0, os.fstat(fd).st_size)
    for _position, line in lines:
        access = _decode(line)
        if access is not None or isinstance(line, Oversize) or line.strip():
            yield access
    if (last := _decode(lines.tail)) is not None:
        yield last


def _in_pages(accesses: Iterator[Access | None]) -> Iterator[AuditPage]:
    while some := list(islice(accesses, _LINES)):
        found = tuple(access for access in some if access is not None)
        yield AuditPage(found, len(some) - len(found))


def _decode(line: bytes | Oversize) -> Access | None:
    if isinstance(line, Oversize):
        return None
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
