"""A log held open for appending: the lock, the write, the sync, and what happens when they fail."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from holdfast.core.limits import FORMAT_VERSION
from holdfast.core.log.records import FORMAT
from holdfast.core.log.views import stored_header
from holdfast.errors import ForeignLog, LogBusy, LogConflict, PathRejected
from holdfast.stores.files import Disk, LockTimeout, explain, explaining, lock, unlock, write_whole
from holdfast.stores.jsonl import last_writer
from holdfast.stores.jsonl.folders import SUFFIX, Shelf
from holdfast.stores.jsonl.log import Ending, FileLog, ending, recent_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.log.batch import Batch, Lines
    from holdfast.core.log.damage import Finding
    from holdfast.core.log.ids import SessionKey
    from holdfast.ports import Trashed

_RECENT_RECORDS: Final = 500
"""How far back an id that came with a record is looked for, under the lock."""


class LogWriter:
    """Appends to one log. What it remembers of the log's end spares it from reading there again."""

    def __init__(self, shelf: Shelf, key: SessionKey, disk: Disk, wait_seconds: float) -> None:
        self.key = key
        self._name = key.session + SUFFIX
        self.head = ""
        """The head when we last looked."""
        self._shelf = shelf
        self._disk = disk
        self._wait_seconds = wait_seconds
        self._mutex = threading.Lock()
        self._folder = self._fd = -1
        self._identity = (-1, -1)
        self._size = -1
        self._ending: Ending | None = None
        """How others left the log; none once we have written after them."""
        self._recent: set[str] | None = None

    def append(
        self,
        lines_after: Callable[[str], Lines],
        *,
        expect: str | None,
        batch: Batch,
        header: Callable[[], bytes],
        is_synced: bool,
    ) -> tuple[Lines, Finding | None]:
        """Write the lines that follow the head, as one act; say what had to be sealed first.

        `header` makes the first line of an empty file.
        """
        with self._mutex:
            size = self._lock_current()
            try:
                self._look_at_end(size)
                if expect is not None and expect != self.head:
                    raise LogConflict(str(self.key), expect, self.head, self._last_writer())
                if batch.claimed:
                    self._refuse_repeats(batch)
                lines = lines_after(self.head)
                ending, data = self._ending, lines.data
                if ending is not None:
                    last_writer.note(self._folder, self.key.session)
                    data = (ending.seal if self._size else header()) + data
                self._write(data, is_synced=is_synced)
            finally:
                self._unlock()
            self.head, self._ending = lines.ids[-1], None
            if self._recent is not None:
                self._recent.update(lines.ids)
                if len(self._recent) > 10 * _RECENT_RECORDS:
                    self._recent = None
        return lines, ending.torn if ending else None

    def sync(self) -> None:
        with self._exclusive(), explaining(f"sync session `{self.key.session}`"):
            self._disk.sync(self._fd)

    def discard(self, *, now: float) -> Trashed:
        """Move the log to the trash."""
        with self._exclusive(), explaining(f"remove session `{self.key.session}`"):
            size = os.fstat(self._fd).st_size
            return self._shelf.discard(self.key, self._folder, now=now, size=size)

    def close(self) -> None:
        with self._mutex:
            self._close()

    def __del__(self) -> None:
        self._close()

    def _close(self) -> None:
        for fd in (self._fd, self._folder):
            if fd >= 0:
                os.close(fd)
        self._fd = self._folder = -1
        self._size = -1

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        with self._mutex:
            self._lock_current()
            try:
                yield
            finally:
                self._unlock()

    def _lock_current(self) -> int:
        """Lock the file that goes by the session's name now, not one that did when we opened it.

        Returns its size.
        """
        while True:
            if self._fd < 0:
                self._open()
            try:
                lock(self._fd, wait_seconds=self._wait_seconds)
                size = self._size_if_current()
            except LockTimeout:
                raise LogBusy(str(self.key), self._wait_seconds, self._last_writer()) from None
            except OSError as error:
                raise explain(error, f"lock session `{self.key.session}`") from error
            if size is not None:
                return size
            self._close()

    def _unlock(self) -> None:
        if self._fd >= 0:
            unlock(self._fd)

    def _size_if_current(self) -> int | None:
        """The size of our file, if it is still the one that goes by the session's name."""
        try:
            named = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if (named.st_dev, named.st_ino) != self._identity:
            return None
        if named.st_nlink > 1:
            unlock(self._fd)
            raise PathRejected(
                f"the log of `{self.key}` has {named.st_nlink} names (hard links)",
                hint="a log that is also reachable elsewhere is not trusted; copy it instead",
            )
        return named.st_size

    def _open(self) -> None:
        self._folder, self._fd = self._shelf.open(self.key, os.O_RDWR | os.O_APPEND)
        self._size = -1
        try:
            opened = os.fstat(self._fd)
            self._identity = (opened.st_dev, opened.st_ino)
            self._check_format()
        except BaseException:
            self._close()
            raise

    def _check_format(self) -> None:
        header = stored_header(self._log(os.fstat(self._fd).st_size))
        if header is None or (header.format == FORMAT and header.version <= FORMAT_VERSION):
            return
        if header.format == FORMAT:
            raise ForeignLog(
                f"session `{self.key}` has format {header.version}, "
                f"this Holdfast writes {FORMAT_VERSION}",
                hint="it can be read; upgrade Holdfast to append to it",
            )
        raise ForeignLog(
            f"the header of `{self.key}` is another tool's",
            hint="it can be read; copy its records into a session of your own",
        )

    def _look_at_end(self, size: int) -> None:
        """Bring what we know of the end up to date, if anybody else has written."""
        if size != self._size:
            with explaining(f"read session `{self.key.session}`"):
                self._ending = ending(self._log(size))
            self.head, self._size, self._recent = self._ending.head, size, None

    def _refuse_repeats(self, batch: Batch) -> None:
        """Refuse ids that are in the log. An older repeat is found when it is read."""
        if self._recent is None:
            self._recent = recent_ids(self._log(self._size), _RECENT_RECORDS)
        batch.refuse_repeats(self._recent, self.key)

    def _write(self, data: bytes, *, is_synced: bool) -> None:
        size, self._size = self._size, -1  # unknown until the write is known to be good
        try:
            write_whole(self._fd, data, self._disk)
            if is_synced:
                self._disk.sync(self._fd)
        except OSError as error:
            self._take_back(size, len(data))
            raise explain(error, f"append to session `{self.key.session}`") from error
        self._size = size + len(data)

    def _take_back(self, size: int, length: int) -> None:
        """Remove what a failed append left, so that a retry does not write it twice.

        Where even that fails, the rest stays as a torn end for the next append to seal.
        """
        with suppress(OSError):
            if size < os.fstat(self._fd).st_size <= size + length:
                self._disk.truncate(self._fd, size)
        # After a failed sync the descriptor may report the next one as good: do not keep it.
        unlock(self._fd)
        self._close()

    def _log(self, size: int) -> FileLog:
        return FileLog(self.key, self._fd, size)

    def _last_writer(self) -> str:
        return last_writer.last(self._folder, self.key.session)
