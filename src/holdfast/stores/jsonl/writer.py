"""A log held open for appending: the lock, the write, the sync, and what happens when they fail."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from holdfast.errors import LogConflict, LogGrown
from holdfast.stores.files import Disk, explain, explaining, unlock, write_whole
from holdfast.stores.jsonl import last_writer
from holdfast.stores.jsonl.handle import LogHandle
from holdfast.stores.jsonl.lease_file import LeaseFile
from holdfast.stores.jsonl.log import Ending, read_ending, recent_ids
from holdfast.stores.jsonl.trash import move_to_trash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.log.batch import Batch, Lines
    from holdfast.core.log.damage import Finding
    from holdfast.core.log.ids import SessionKey
    from holdfast.ports import Trashed
    from holdfast.stores.jsonl.folders import Folders

_WRITERS_MAX: Final = 64
"""Logs held open for appending; more would use up the descriptors of a process. Those with a
running turn are kept beyond it."""
_RECENT_RECORDS: Final = 500
"""The newest records, among which an id that came with a record is looked for under the lock. A
retry comes soon after the append that it repeats."""


class LogWriter:
    """Appends to one log. It remembers the log's end, so as not to read it again."""

    def __init__(self, folders: Folders, key: SessionKey, wait_seconds: float) -> None:
        self.key = key
        self.head = ""
        """The head when we last looked."""
        self._folders = folders
        self._disk: Disk = folders.disk
        self._mutex = threading.Lock()
        self._file = LogHandle(folders, key, wait_seconds)
        self._lease = LeaseFile(key)
        self._ending: Ending | None = None
        """The end as other writers left it; None once we have written after them."""
        self._recent: set[str] | None = None
        self._marked = b""

    def append(
        self,
        lines_after: Callable[[str], Lines],
        *,
        expect: str | None,
        batch: Batch,
        header: Callable[[], bytes],
        is_synced: bool,
        token: int | None = None,
    ) -> tuple[Lines, Finding | None]:
        """Write the lines that follow the head, as one act; return what had to be sealed first.

        `header` makes the first line of an empty file. An older lease's `token` writes nothing.
        """
        with self._mutex:
            size = self._file.lock()
            try:
                if token is not None:
                    self._lease.check(self._file.folder, token)
                if size != self._file.known_size:
                    self._look_at_end(size)
                if expect is not None and expect != self.head:
                    self._look_at_end(size)  # what we remember may be damaged by now
                if expect is not None and expect != self.head:
                    raise LogConflict(str(self.key), expect, self.head, self._file.last_writer())
                if batch.claimed:
                    self._refuse_repeats(batch)
                lines = lines_after(self.head)
                ending, data = self._ending, lines.data
                if ending is not None:
                    last_writer.note(self._file.folder, self.key.session)
                    data = (ending.seal if self._file.known_size else header()) + data
                self._write(data, is_synced=is_synced)
            finally:
                self._file.unlock()
            self._marked = self._folders.changes.mark(self.key, self._marked)
            self.head, self._ending = lines.ids[-1], None
            if self._recent is not None:
                self._recent.update(lines.ids)
                if len(self._recent) > 10 * _RECENT_RECORDS:
                    self._recent = None
        return lines, ending.torn if ending else None

    def extend(self, data: bytes, *, at: int) -> None:
        """Write lines of another log as they are; raises `LogGrown` unless the log ends there."""
        with self._mutex:
            size = self._file.lock(is_foreign_allowed=True)
            try:
                if size != at:
                    raise LogGrown(str(self.key), at, size)
                last_writer.note(self._file.folder, self.key.session)
                self._file.known_size = size
                self._write(data, is_synced=True)
            finally:
                self._file.unlock()
                self._file.known_size = -1  # the next append looks at the end itself
            self._marked = self._folders.changes.mark(self.key, self._marked)

    def sync(self) -> None:
        """Make everything appended so far durable."""
        with self._exclusive(), explaining(f"sync session `{self.key.session}`"):
            self._disk.sync(self._file.fd)

    def discard(self, *, now: float) -> Trashed:
        """Move the log to the trash."""
        with self._exclusive(), explaining(f"remove session `{self.key.session}`"):
            size = os.fstat(self._file.fd).st_size
            return move_to_trash(self._folders, self.key, self._file.folder, now=now, size=size)

    @contextmanager
    def lease(self) -> Iterator[tuple[LeaseFile, int]]:
        """Hold the log's lock; yields the lease of the session's turn, and its folder."""
        with self._exclusive():
            yield self._lease, self._file.folder

    @property
    def is_leased(self) -> bool:
        """True while a turn runs through this writer, which must stay open until it ends."""
        return self._lease.is_held

    def close(self) -> None:
        """Release the descriptors."""
        with self._mutex:
            self._lease.close()
            self._file.close()

    def __del__(self) -> None:
        self._lease.close()
        self._file.close()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        with self._mutex:
            self._file.lock()
            try:
                yield
            finally:
                self._file.unlock()

    def _look_at_end(self, size: int) -> None:
        """Bring what we know of the end up to date: another writer has appended."""
        with explaining(f"read session `{self.key.session}`"):
            self._ending = read_ending(self._file.log(size))
        self.head, self._file.known_size, self._recent = self._ending.head, size, None

    def _refuse_repeats(self, batch: Batch) -> None:
        """Refuse ids that are in the log. An older repeat is found when it is read."""
        if self._recent is None:
            self._recent = recent_ids(self._file.log(self._file.known_size), _RECENT_RECORDS)
        batch.refuse_repeats(self._recent, self.key)

    def _write(self, data: bytes, *, is_synced: bool) -> None:
        # Unknown until the write is known to be good.
        file, disk = self._file, self._disk
        size, file.known_size = file.known_size, -1
        try:
            write_whole(file.fd, data, disk)
            if is_synced:
                disk.sync(file.fd)
        except OSError as error:
            self._take_back(size, len(data))
            raise explain(error, f"append to session `{self.key.session}`") from error
        file.known_size = size + len(data)

    def _take_back(self, size: int, length: int) -> None:
        """Remove what a failed append left, so that a retry does not write it twice.

        Where even that fails, the rest stays as a torn end for the next append to seal.
        """
        with suppress(OSError):
            if size < os.fstat(self._file.fd).st_size <= size + length:
                self._disk.truncate(self._file.fd, size)
        # After a failed sync the descriptor may report the next one as good: do not keep it.
        unlock(self._file.fd)
        self._file.close()


class Writers:
    """The logs that a store holds open for appending, at most `_WRITERS_MAX`."""

    def __init__(self, folders: Folders, wait_seconds: float) -> None:
        self._folders = folders
        self._wait_seconds = wait_seconds
        self._forget()

    def writer(self, key: SessionKey) -> LogWriter:
        """Return the writer of a session; the one used longest ago is closed for a new one."""
        if self._pid != os.getpid():
            self._forget()  # a forked child shares its parent's locks: it needs its own
        with self._mutex:
            writer = self._writers.get(key)
            if writer is None:
                writer = self._writers[key] = LogWriter(self._folders, key, self._wait_seconds)
            self._writers.move_to_end(key)
            if len(self._writers) > _WRITERS_MAX:
                self._close_oldest()
        return writer

    def _close_oldest(self) -> None:
        """Close the writer used longest ago; one whose session runs a turn stays."""
        for key, writer in self._writers.items():
            if not writer.is_leased:
                self._writers.pop(key).close()
                return

    def drop(self, key: SessionKey) -> None:
        """Close the writer of a session, unless another thread has."""
        with self._mutex:
            writer = self._writers.pop(key, None)
        if writer is not None:
            writer.close()

    def close(self) -> None:
        """Close every writer."""
        with self._mutex:
            for writer in self._writers.values():
                writer.close()
            self._writers.clear()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._writers: OrderedDict[SessionKey, LogWriter] = OrderedDict()
