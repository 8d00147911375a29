"""Which sessions changed: a list that writers add to, so that a page need not look at every file.

`index.changes` begins with two random numbers and goes on with one line for each session that was
made, appended to or removed. A reader draws a new first number before it reads the list: a writer
that sees its own number still there is on the list already and writes nothing. The second number
changes when the list was cut short, and then every file must be looked at.

A writer adds to the list after it changed a log and before it acknowledges that. So what was
acknowledged is found; what is missing after a power cut is found because the boot is another one.

The last writer of a log is named in a file beside it, so that a conflict can name the other writer.
It is written under the log's lock when the writer changes. Nothing depends on it: where it cannot
be read, the other writer is unknown.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.ids import SessionKey, is_name
from holdfast.core.text.typed import decode_typed
from holdfast.errors import PathRejected
from holdfast.stores.files import FILE_MODE, is_private, open_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

NAME: Final = "index.changes"
_NUMBER_BYTES: Final = 8
_HEADER_BYTES: Final = 2 * _NUMBER_BYTES
_LIST_BYTES_MAX: Final = 1024 * 1024
"""A longer list is cut short: about 25,000 changes, after which looking at every file is fair."""
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


class ChangesSeen(msgspec.Struct, frozen=True):
    """The end of the list when a reader looked."""

    boot: str
    inode: int
    epoch: bytes
    """The number that changes when the list was cut short."""
    offset: int


class Changes:
    """The list of one root. Where it cannot be used, a reader looks at every file."""

    def __init__(self, root: str) -> None:
        self._path = os.path.join(root, NAME)
        self._fd = -1
        self._numbers: mmap.mmap | None = None
        self._pid, self._mutex = os.getpid(), threading.RLock()

    def mark(self, key: SessionKey, known: bytes = b"") -> bytes:
        """Put a session on the list, unless it is there since a mark that returned `known`.

        Call it after the change. Returns what the next call needs to know.
        """
        numbers = self._numbers
        with suppress(ValueError):  # no lock for a look: another thread may have closed it
            if known and numbers is not None and numbers[:_NUMBER_BYTES] == known:
                return known
        try:
            with self._exclusive():
                return self._mark(key, known)
        except (OSError, ValueError, PathRejected):
            return b""  # every file is looked at once in a while

    def _mark(self, key: SessionKey, known: bytes) -> bytes:
        numbers = self._open()
        drawn = numbers[:_NUMBER_BYTES]
        if drawn != known:
            if os.fstat(self._fd).st_size > _LIST_BYTES_MAX:
                self.cut()
            os.write(self._fd, f"{key}\n".encode())
        return drawn

    def look(self) -> ChangesSeen | None:
        """Return the end of the list as it is now; None where it cannot be used.

        Changes that are made after this call are on the list after that end.
        """
        try:
            with self._exclusive():
                return self._look()
        except (OSError, ValueError, PathRejected):
            return None

    def _look(self) -> ChangesSeen:
        numbers = self._open()
        if os.stat(self._path).st_ino != os.fstat(self._fd).st_ino:
            self._close()  # someone deleted it: begin another
            numbers = self._open()
        numbers[:_NUMBER_BYTES] = os.urandom(_NUMBER_BYTES)
        status = os.fstat(self._fd)
        epoch = numbers[_NUMBER_BYTES:_HEADER_BYTES]
        return ChangesSeen(_boot(), status.st_ino, epoch, status.st_size)

    def between(self, before: ChangesSeen, now: ChangesSeen) -> set[SessionKey] | None:
        """Return the sessions that were marked between two looks; None where no one knows."""
        if (before.boot, before.inode, before.epoch) != (now.boot, now.inode, now.epoch):
            return None
        if before.offset > now.offset:
            return None
        try:
            with self._exclusive():
                data = os.pread(self._fd, now.offset - before.offset, before.offset)
        except OSError:
            return None
        if len(data) < now.offset - before.offset or data[-1:] not in (b"", b"\n"):
            return None
        return set(_keys(data))

    def cut(self) -> None:
        """Empty the list; the next reader looks at every file."""
        with suppress(OSError, ValueError, PathRejected), self._exclusive():
            numbers = self._open()
            numbers[_NUMBER_BYTES:_HEADER_BYTES] = os.urandom(_NUMBER_BYTES)
            os.ftruncate(self._fd, _HEADER_BYTES)

    def forget(self, keys: Collection[SessionKey]) -> None:
        """Overwrite the names of sessions in the list where they stand: anyone who is reading or
        adding to it meanwhile finds everything else."""
        with suppress(OSError, ValueError, PathRejected), self._exclusive():
            self._open()
            size = os.fstat(self._fd).st_size
            data = os.pread(self._fd, size - _HEADER_BYTES, _HEADER_BYTES)
            fd = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                for offset, length in _places(data, keys):
                    os.pwrite(fd, b"\n" * length, _HEADER_BYTES + offset)
            finally:
                os.close(fd)

    def close(self) -> None:
        """Release the file; the next call opens it again."""
        with self._exclusive():
            self._close()

    def __del__(self) -> None:
        self._close()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Keep other threads from closing the file meanwhile."""
        if self._pid != os.getpid():  # a forked child: no one is there to release its lock
            self._pid, self._mutex = os.getpid(), threading.RLock()
        with self._mutex:
            yield

    def _close(self) -> None:
        if self._numbers is not None:
            self._numbers.close()
            self._numbers = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> mmap.mmap:
        if self._numbers is not None:
            return self._numbers
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self._path, flags, FILE_MODE)
        try:
            status = os.fstat(fd)
            if not is_private(status):
                raise PathRejected(f"cannot use `{self._path}`: it is not a plain file")
            if status.st_size < _HEADER_BYTES:
                _begin(fd)
            numbers = mmap.mmap(fd, _HEADER_BYTES)
        except BaseException:
            os.close(fd)
            raise
        self._fd, self._numbers = fd, numbers
        return numbers


def _begin(fd: int) -> None:
    """Write the two numbers, once, no matter who else is opening the file."""
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        if os.fstat(fd).st_size < _HEADER_BYTES:
            os.ftruncate(fd, 0)
            os.write(fd, os.urandom(_HEADER_BYTES))
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


def _keys(data: bytes) -> Iterator[SessionKey]:
    for line in data.split(b"\n"):
        agent, _, session = line.decode("ascii", "replace").partition("/")
        if agent and session and is_name(agent) and is_name(session):
            yield SessionKey(agent, session)


def _places(data: bytes, keys: Collection[SessionKey]) -> Iterator[tuple[int, int]]:
    """Yield where a list names one of these sessions, and how long the name is."""
    names = {str(key).encode() for key in keys}
    offset = 0
    for line in data.split(b"\n"):
        if line in names:
            yield offset, len(line)
        offset += len(line) + 1


def _boot() -> str:
    """Return the name of this boot; of this process where the system tells none."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return f"process {os.getpid()}"


class Writer(msgspec.Struct, frozen=True):
    """A process that appends."""

    pid: int
    host: str
    command: str

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host} ({self.command})"


def this_process() -> Writer:
    """Return this process, as it is named to others."""
    program = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
    first = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1].isalpha() else ""
    return Writer(os.getpid(), os.uname().nodename, f"{program} {first}".strip())


def note_writer(folder: int, session: str) -> None:
    """Leave this process's name beside the log."""
    with suppress(OSError, PathRejected):
        forget_writer(folder, session)  # it may have a second name, or lead elsewhere
        fd = open_file(folder, _writer_name(session), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            os.write(fd, msgspec.json.encode(this_process()))
        finally:
            os.close(fd)


def last_writer(folder: int, session: str) -> str:
    """Return the last writer, in words."""
    try:
        fd = open_file(folder, _writer_name(session), os.O_RDONLY)
    except (OSError, PathRejected):
        return "an unknown writer"
    try:
        return str(decode_typed(os.read(fd, 4096), Writer))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return "an unknown writer"
    finally:
        os.close(fd)


def forget_writer(folder: int, session: str) -> None:
    """Delete the name of the last writer of a session that is removed."""
    with suppress(OSError):
        os.unlink(_writer_name(session), dir_fd=folder)


def _writer_name(session: str) -> str:
    return f"{session}.writer"
