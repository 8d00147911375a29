"""One log file: found by name, locked for one act at a time, read from either end."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import FORMAT_VERSION, READ_BLOCK_BYTES
from holdfast.core.log.damage import Finding, Flaw, preview
from holdfast.core.log.records import FORMAT, Header, Record, decode
from holdfast.core.log.refs import possible_hashes
from holdfast.core.log.tree import Outline, ends_chain
from holdfast.core.log.views import head, header_or_none
from holdfast.core.log.walk import SUGGESTED_IDS_MAX, outline_lines, records_that_count
from holdfast.errors import AmbiguousName, ForeignLog, LogBusy, NoSuchRecord, PathRejected
from holdfast.stores.changes import last_writer
from holdfast.stores.files import (
    LockTimeout,
    copy_own,
    explain,
    explaining_read,
    is_private,
    lock,
    unlock,
)
from holdfast.stores.jsonl.folders import SUFFIX, Folders
from holdfast.stores.lines import SEAL_LINE, Forward, Oversize, backward, item_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.walk import LogLine


_NEAR_BYTES: Final = 16 * 1024
"""A stretch that is read line by line; halving it further would read blocks of this size."""
_PROBE_BYTES: Final = 2 * 1024
"""Most records are shorter; a longer one takes a second read."""
CANDIDATES_MAX: Final = 8
"""Records that an ambiguous prefix is shown to fit."""


class Ending(msgspec.Struct, frozen=True):
    """The end of a log: its head, and what must be written before the next record."""

    head: str
    seal: bytes
    torn: Finding | None


class FileLog(msgspec.Struct, frozen=True):
    """The first `size` bytes of a log file, as an `OpenLog`."""

    key: SessionKey
    fd: int
    size: int

    def lines(self, start: int = 0) -> Iterator[LogLine]:
        found = Forward(self.fd, start, self.size)
        for position, line in found:
            if isinstance(line, Oversize):
                yield position, line.size, _oversize(line), line.start
            elif line:
                item = item_of(position, line)
                if not isinstance(item, Flaw) or not line.isspace():
                    yield position, len(line), item, line
        tail = found.tail
        if isinstance(tail, Oversize):
            yield found.tail_position, tail.size, _torn_line(tail.size), tail.start
        elif tail and not tail.isspace():
            position = found.tail_position
            yield position, len(tail), _tail_item(position, tail), tail

    def lines_back(self, end: int | None = None) -> Iterator[LogLine]:
        is_tail = True
        for position, line in backward(self.fd, self.size if end is None else end):
            if isinstance(line, Oversize):
                flaw = _torn_line(line.size) if is_tail else _oversize(line)
                yield position, line.size, flaw, line.start
            elif line:
                item = _tail_item(position, line) if is_tail else item_of(position, line)
                if not isinstance(item, Flaw) or not line.isspace():
                    yield position, len(line), item, line
            is_tail = False

    def data(self) -> Iterator[bytes]:
        """Yield the bytes of the log, in pieces."""
        for offset in range(0, self.size, READ_BLOCK_BYTES):
            yield os.pread(self.fd, min(READ_BLOCK_BYTES, self.size - offset), offset)


def _tail_item(position: int, line: bytes) -> Record | Flaw | None:
    """Return the item after the last newline: a record that lacks only that, or a torn line."""
    found = item_of(position, line)
    return _torn_line(len(line)) if found is None or isinstance(found, Flaw) else found


def _torn_line(size: int) -> Flaw:
    return Flaw("torn", f"{size} bytes of an append that never completed")


def _oversize(line: Oversize) -> Flaw:
    return Flaw("oversize", f"a line of {line.size:,} bytes")


def hashes_in(fd: int) -> Iterator[str]:
    """Yield everything in a file that could be a blob's hash: too many rather than too few."""
    overlap = b""
    offset = 0
    while block := os.pread(fd, READ_BLOCK_BYTES, offset):
        offset += len(block)
        data = overlap + block
        yield from possible_hashes(data)
        overlap = data[-63:]


def recent_ids(log: FileLog, lines_max: int) -> set[str]:
    """Return the ids of the records that count among the last lines, on any branch."""
    starts = [position for position, _line in islice(backward(log.fd, log.size), lines_max)]
    ids: set[str] = set()
    shape = Outline(on_record=lambda _position, item: ids.add(item.id))
    for _line in outline_lines(shape, log.lines(starts[-1])):
        pass
    return ids


def locate_sorted(log: FileLog, name: str) -> int | None:
    """Return the position of the record with an id or a unique prefix of one, where the ids of the
    log only grow. None where that needs a closer look: an append there is not complete.

    Reads a few blocks, however long the log is. Raises `NoSuchRecord` and `AmbiguousName`.
    """
    found: dict[str, int] = {}
    if not name or name.startswith("@"):
        return None
    for position, _size, item, _line in log.lines():
        if isinstance(item, Header) and position == 0 and item.id.startswith(name):
            found[item.id] = position
        break
    for position, _size, item, _line in log.lines(_start_near(log, name)):
        if item is None or isinstance(item, Flaw) or position == 0:
            continue
        if item.id > name and not item.id.startswith(name):
            break
        if item.id.startswith(name):
            if not _counts(log, position, item):
                return None
            found[item.id] = position
            if item.id == name or len(found) > CANDIDATES_MAX:
                break
    return choose_id(log, name, found)


def choose_id(log: FileLog, name: str, found: dict[str, int]) -> int:
    """Return the position of the one record that a name can mean, among the first ids that begin
    with it. Raises `NoSuchRecord` and `AmbiguousName`."""
    if name in found or len(found) == 1:
        return found.get(name, next(iter(found.values())))
    if found:
        are_all = len(found) <= CANDIDATES_MAX
        raise AmbiguousName("record", name, sorted(found, key=found.__getitem__), are_all=are_all)
    raise NoSuchRecord(name, log.key.session, sorted(recent_ids(log, SUGGESTED_IDS_MAX)))


def _start_near(log: FileLog, name: str) -> int:
    """Return the start of a line before which every record has a lower id, not far from `name`."""
    low, high = 0, log.size
    while high - low > _NEAR_BYTES:
        middle = (low + high) // 2
        position, record = _first_record(log, middle, high)
        if record is not None and record.id < name:
            low = position
        else:
            high = middle
    return low


def _first_record(log: FileLog, start: int, end: int) -> tuple[int, Record | None]:
    """Return the first record that begins in `[start, end)`, and its position."""
    # The byte before tells whether a line begins at `start`.
    lines = iter(Forward(log.fd, start - 1, log.size, first_bytes=_PROBE_BYTES))
    next(lines, None)
    for position, line in lines:
        if position >= end:
            break
        item = decode(line) if isinstance(line, bytes) and line else None
        if item is not None and not isinstance(item, Flaw) and item.id:
            return position, item
    return end, None


def _counts(log: FileLog, position: int, item: Record) -> bool:
    """Return whether a record counts: the append that it belongs to is complete."""
    if item.more is None:
        return True
    starts = [position]
    for start, _size, before, _line in log.lines_back(position):
        if ends_chain(before):
            break
        starts.append(start)
    start = starts[-1]
    for place, _record in records_that_count(log, start):
        if place >= position:
            return place == position
    return False


def read_ending(log: FileLog) -> Ending:
    """Return how the log ends. Reads back only as far as the last record that counts."""
    last = next(log.lines_back(), None)
    if last is None:
        return Ending("", b"", None)
    position, size, item, line = last
    is_unfinished = position + size == log.size
    torn, seal = None, b""
    if isinstance(item, Flaw):
        # What comes next must not seem to belong to the append that was damaged.
        seal = SEAL_LINE + b"\n"
        if is_unfinished:
            torn = Finding("torn", position, size, item.detail, preview(line))
    elif item is not None:
        seal = b"\n" if is_unfinished else b""
        if item.more:  # an append of several records broke off: the next must not complete it
            seal += SEAL_LINE + b"\n"
    return Ending(head(log), seal, torn)


class LogHandle:
    """Descriptors of a log and its folder, opened when they are needed."""

    def __init__(self, folders: Folders, key: SessionKey, wait_seconds: float) -> None:
        self.key = key
        self.folder = self.fd = -1
        self.known_size = -1
        """The size up to which the writer knows the log; -1 for a file that was just opened."""
        self._folders = folders
        self._name = key.session + SUFFIX
        self._wait_seconds = wait_seconds
        self._identity = (-1, -1)
        self._is_ours = False

    def lock(self, *, is_foreign_allowed: bool = False) -> int:
        """Lock the file that has the session's name now, not one that had it when we opened it.

        Returns its size. Raises `ForeignLog` for a log that only others can add records to.
        """
        while True:
            if self.fd < 0:
                self._open()
            if not (self._is_ours or is_foreign_allowed):
                self._check_format()
            try:
                lock(self.fd, wait_seconds=self._wait_seconds)
                size = self._size_if_current()
            except LockTimeout:
                raise LogBusy(str(self.key), self._wait_seconds, self.last_writer()) from None
            except OSError as error:
                raise explain(error, f"lock session `{self.key.session}`") from error
            if size is not None:
                return size
            self.close()

    def unlock(self) -> None:
        """Release the lock, unless the file was closed meanwhile."""
        if self.fd >= 0:
            unlock(self.fd)

    def close(self) -> None:
        """Close the descriptors; the next `lock` opens them again."""
        for fd in (self.fd, self.folder):
            if fd >= 0:
                os.close(fd)
        self.fd = self.folder = -1
        self.known_size = -1

    def log(self, size: int) -> FileLog:
        """Return the first `size` bytes for reading."""
        return FileLog(self.key, self.fd, size)

    def last_writer(self) -> str:
        """Return who wrote last, in words."""
        return last_writer(self.folder, self.key.session)

    def is_as_known(self) -> bool:
        """Return whether the name is still our file's, which is as long as the writer left it."""
        if self.fd < 0 or self.known_size < 0:
            return False
        try:
            named = os.stat(self._name, dir_fd=self.folder, follow_symlinks=False)
        except OSError:
            return False
        is_same = (named.st_dev, named.st_ino) == self._identity
        return is_same and named.st_nlink == 1 and named.st_size == self.known_size

    def _size_if_current(self) -> int | None:
        """Return the size of our file, or None where the session's name is another file's now.

        A log with a second name is copied: the next look finds the copy.
        """
        try:
            named = os.stat(self._name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if (named.st_dev, named.st_ino) != self._identity:
            return None
        if named.st_nlink > 1 and is_private(named):
            copy_own(self.folder, self._name, self.fd, self._folders.disk)  # under the lock
            return None
        if named.st_nlink > 1:
            unlock(self.fd)
            raise PathRejected(
                f"cannot use the log of `{self.key}`: it has {named.st_nlink} names (hard links), "
                "and others can change it",
                hint="copy it, or take the right to write away from others with `chmod go-w`",
            )
        return named.st_size

    def _open(self) -> None:
        self.folder, self.fd = self._folders.open(self.key, os.O_RDWR | os.O_APPEND)
        self.known_size = -1
        try:
            with explaining_read(f"session `{self.key.session}`"):
                opened = os.fstat(self.fd)
                self._identity = (opened.st_dev, opened.st_ino)
                self._is_ours = False
            self._folders.sync_names(self.key, self.folder, opened)
        except BaseException:
            self.close()
            raise

    def _check_format(self) -> None:
        try:
            with explaining_read(f"session `{self.key.session}`"):
                header = header_or_none(self.log(os.fstat(self.fd).st_size))
            self._refuse_foreign(header)
        except BaseException:
            self.close()
            raise
        self._is_ours = True

    def _refuse_foreign(self, header: Header | None) -> None:
        if header is None or (header.format == FORMAT and header.version <= FORMAT_VERSION):
            return
        if header.format == FORMAT:
            raise ForeignLog(
                f"cannot append to session `{self.key}`: it has format {header.version}, and this "
                f"Holdfast writes {FORMAT_VERSION}",
                hint="it can be read; upgrade Holdfast to append to it",
            )
        raise ForeignLog(
            f"cannot append to session `{self.key}`: its header was written by another tool",
            hint="it can be read; copy its records into a session of your own",
        )
