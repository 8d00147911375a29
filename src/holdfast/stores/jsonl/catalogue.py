"""The session files below one root: made, copied and checked; listed through the index."""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
import warnings
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Final

from holdfast.core.limits import READ_BLOCK_BYTES
from holdfast.core.log.copies import LogRepair, copy_header
from holdfast.core.log.records import encode
from holdfast.core.log.views import examine, verify
from holdfast.core.owners import ANY_OWNER
from holdfast.errors import HoldfastWarning
from holdfast.ports import RepairedSession, SessionCatalogue, page_of
from holdfast.ports.sessions import whole_listing
from holdfast.stores.files import Disk, explaining_read, network_filesystem, size_at_rest
from holdfast.stores.jsonl import writer
from holdfast.stores.jsonl.folders import Folders, SeedLabels, folder_states, session_names
from holdfast.stores.jsonl.log import CANDIDATES_MAX, FileLog, choose_id, locate_sorted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.log.views import LogReport
    from holdfast.core.log.walk import OpenLog
    from holdfast.core.models.totals import SessionTotals
    from holdfast.core.owners import OwnerFilter
    from holdfast.ports import Clock, Entropy, SessionInfo, Trashed
    from holdfast.ports.sessions import ListingChanges
    from holdfast.stores.jsonl.index import Index, LogFile, PageQuery


_SCANNED_BYTES: Final = 128 * 1024
"""Of a log up to this size, a record is found by reading all of it: the index costs as much."""
_TRACE_SECONDS: Final = 4.0
"""File systems tell the times of two changes apart that are two seconds from each other."""


class RootLogs:
    """The logs in folders, as the index looks at them."""

    def __init__(self, folders: Folders, open_log: Callable[[SessionKey], int]) -> None:
        self._folders = folders
        self._open = open_log

    def all(self) -> Iterator[LogFile]:
        """Yield every log, with the status of its file."""
        from holdfast.stores.jsonl.index import LogFile

        for key, status in self._folders.sessions():
            yield LogFile(key, status, self._open)

    def at(self, keys: Iterable[SessionKey]) -> dict[SessionKey, LogFile]:
        """Return the logs of those of the sessions that exist."""
        from holdfast.stores.jsonl.index import LogFile

        return {
            key: LogFile(key, status, self._open) for key, status in self._folders.statuses(keys)
        }

    def names(self) -> Iterator[SessionKey]:
        """Yield the key of every log; no file is looked at."""
        return session_names(self._folders)

    def folders(self, before: float) -> bytes:
        """Return what changes when a log is made or deleted; nothing where a folder changed so
        shortly before this time that it can change again without a trace."""
        found = folder_states(self._folders)
        newest = max((status.st_mtime for _name, status in found), default=0.0)
        if newest > before - _TRACE_SECONDS:
            return b""
        states = [
            (name, status.st_ino, status.st_mtime_ns, status.st_ctime_ns) for name, status in found
        ]
        return hashlib.blake2b(repr(states).encode(), digest_size=16).digest()


class FileListing(SessionCatalogue):
    """The part of a `SessionCatalogue` of files that reads. Safe for threads and processes."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        disk: Disk | None = None,
        clock: Clock = time.time,
        entropy: Entropy = random.getrandbits,
    ) -> None:
        super().__init__(clock=clock, entropy=entropy)
        self.root = os.fspath(root)
        self._disk = disk or Disk()
        self._folders = Folders(self.root, self._disk)
        self._index_mutex = threading.Lock()
        self._opened_index: Index | None = None
        self._is_network_checked = False

    @property
    def _index(self) -> Index:
        """The index; who opens a session by its name needs none, and loads none."""
        from holdfast.stores.jsonl.index import Index

        with self._index_mutex:
            if self._opened_index is None:
                path = os.path.join(self.root, "index.sqlite3")
                labels = SeedLabels(self.root)
                self._opened_index = Index(path, self._folders.changes, labels)
            return self._opened_index

    @contextmanager
    def open_log(self, key: SessionKey, *, is_settled: bool = False) -> Iterator[FileLog]:
        """Open a log; `is_settled` waits for an append in the middle of its write, for a while."""
        fd = self._open(key)
        try:
            with explaining_read(f"session `{key.session}`"):
                yield FileLog(key, fd, size_at_rest(fd) if is_settled else os.fstat(fd).st_size)
        finally:
            os.close(fd)

    def _open(self, key: SessionKey) -> int:
        folder, fd = self._folders.open(key, os.O_RDONLY)
        os.close(folder)
        return fd

    def keys(self, agent: str | None = None) -> Iterator[SessionKey]:
        return (key for key, _status in self._folders.sessions() if agent in (None, key.agent))

    def sessions(
        self,
        *,
        agent: str | None = None,
        owner: OwnerFilter,
        label: str | None = None,
        after: SessionInfo | None = None,
        limit: int | None = None,
    ) -> list[SessionInfo]:
        is_part = owner != ANY_OWNER or any(value is not None for value in (limit, label))
        if is_part:
            from holdfast.stores.jsonl.index import PageQuery

            query = PageQuery(agent, owner, label, after, limit)
            page = self._page_of(query)
            if page is not None:
                return page
        wanted = None if is_part else agent  # the next page is quick once all were looked at
        infos = self._index.infos(self._files, agent=wanted, now=self._clock())
        chosen = [info for info in infos if agent in (None, info.key.agent)]
        return page_of(chosen, owner=owner, label=label, after=after, limit=limit)

    def sessions_since(self, state: str, *, owner: OwnerFilter) -> ListingChanges:
        if owner == ANY_OWNER:
            return whole_listing(self.sessions(owner=owner))
        for _attempt in range(2):
            found = self._index.changes(owner, state, self._clock(), self._files)
            if found is not None:
                return found
            self.sessions(owner=owner)  # brings the rows up to date
        return whole_listing(self.sessions(owner=owner))

    def _page_of(self, query: PageQuery) -> list[SessionInfo] | None:
        """Return a page from the index; None where every log must be looked at instead."""
        return self._index.page(query, self._clock(), self._files)

    @cached_property
    def _files(self) -> RootLogs:
        return RootLogs(self._folders, self._open)

    def info(self, key: SessionKey) -> SessionInfo:
        with self.open_log(key) as log:
            return self._index.info(key, log.fd)

    def totals(self, key: SessionKey) -> SessionTotals:
        with self.open_log(key) as log:
            return self._index.row(key, log.fd).totals

    def locate(self, log: OpenLog, prefix: str) -> int:
        assert isinstance(log, FileLog)
        found = None
        if log.size > _SCANNED_BYTES and prefix and not prefix.startswith("@"):
            if self._index.row(log.key, log.fd).order.is_sorted:
                found = locate_sorted(log, prefix)
            else:
                ids = self._index.find_ids(log, prefix, CANDIDATES_MAX + 1)
                found = None if ids is None else choose_id(log, prefix, ids)
        return super().locate(log, prefix) if found is None else found


class FileCatalogue(FileListing):
    """A `SessionCatalogue` of files, without the writer's part. Safe for threads and processes."""

    # Making

    def create_log(self, key: SessionKey, records: Iterable[Record]) -> None:
        self._warn_of_network()
        self._folders.create(key, (encode(record) + b"\n" for record in records))

    # The trash

    def trash(self) -> list[Trashed]:
        return writer.list_trash(self._folders)

    def restore(self, name: str) -> SessionKey:
        return writer.restore(self._folders, name)

    def empty_trash(self, *, older_than_seconds: float = 0.0) -> list[Trashed]:
        return writer.empty_trash(self._folders, before=self._clock() - older_than_seconds)

    # Maintenance

    def verify(self, key: SessionKey) -> LogReport:
        with self.open_log(key, is_settled=True) as log:
            return verify(log)

    def repair(self, key: SessionKey) -> RepairedSession:
        new = self._folders.free_key(key, "repaired")
        with self.open_log(key, is_settled=True) as log:
            shape, findings = examine(log)
            header = copy_header(log, new, "repair", suffix="repaired", now=self._clock())
            repair = LogRepair(log, shape, header)
            self._folders.create(new, (line + b"\n" for _copy, line in repair.copies()))
            path = None
            if repair.left_out:
                left_out = _quarantine(log.fd, repair.left_out)
                path = self._folders.write_beside(new, ".quarantine", left_out)
        return RepairedSession(new, repair.records, tuple(findings), path)

    def sweep(self) -> list[str]:
        return self._folders.sweep(now=self._clock())

    def _warn_of_network(self) -> None:
        if self._is_network_checked:
            return
        self._is_network_checked = True
        kind = network_filesystem(self.root, self._disk.mounts)
        if kind is not None:
            warnings.warn(
                f"`{self.root}` is on a network file system ({kind}): its locks may not hold "
                "between hosts. Keep it on a local disk, or let one host write",
                HoldfastWarning,
                stacklevel=5,
            )


def _quarantine(fd: int, left_out: Iterable[tuple[int, int, str]]) -> Iterator[bytes]:
    """Yield the bytes that a repaired copy has not, each piece under a line that says where it
    was."""
    for position, size, kind in left_out:
        yield f"--- {size} bytes at offset {position}: {kind} ---\n".encode()
        for offset in range(position, position + size, READ_BLOCK_BYTES):
            yield os.pread(fd, min(READ_BLOCK_BYTES, position + size - offset), offset)
        yield b"\n"
