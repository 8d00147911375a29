"""The session files below one root: listing, making, copying and checking them."""

from __future__ import annotations

import os
import random
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from holdfast.core.log.copies import copy_header
from holdfast.core.log.records import encode
from holdfast.core.log.views import examine, verify
from holdfast.errors import HoldfastWarning
from holdfast.ports import SessionCatalogue, page_of
from holdfast.stores.files import Disk, explaining_read, network_filesystem, size_at_rest
from holdfast.stores.jsonl import trash
from holdfast.stores.jsonl.folders import Folders
from holdfast.stores.jsonl.index import Index, LogFile
from holdfast.stores.jsonl.log import FileLog, locate_sorted
from holdfast.stores.jsonl.repair import LogRepair, RepairedSession

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.log.views import LogReport
    from holdfast.core.log.walk import OpenLog
    from holdfast.core.models.totals import SessionTotals
    from holdfast.ports import Clock, Entropy, SessionInfo, Trashed

_SCANNED_BYTES: Final = 128 * 1024
"""Of a log up to this size, a record is found by reading all of it: the index costs as much."""


class FileCatalogue(SessionCatalogue):
    """A `SessionCatalogue` of files, without the writer's part. Safe for threads and processes."""

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
        self._index = Index(os.path.join(self.root, "index.sqlite3"))
        self._is_network_checked = False

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

    # Making and listing

    def create_log(self, key: SessionKey, records: Iterable[Record]) -> None:
        self._warn_of_network()
        self._folders.create(key, (encode(record) + b"\n" for record in records))

    def keys(self, agent: str | None = None) -> Iterator[SessionKey]:
        return (key for key, _status in self._folders.sessions() if agent in (None, key.agent))

    def sessions(
        self,
        *,
        agent: str | None = None,
        owner: str | None = None,
        label: str | None = None,
        after: SessionInfo | None = None,
        limit: int | None = None,
    ) -> list[SessionInfo]:
        logs = (
            LogFile(key, status, self._open)
            for key, status in self._folders.sessions()
            if agent in (None, key.agent)
        )
        infos = self._index.infos(logs, is_complete=agent is None)
        return page_of(infos, owner=owner, label=label, after=after, limit=limit)

    def info(self, key: SessionKey) -> SessionInfo:
        with self.open_log(key) as log:
            return self._index.info(key, log.fd)

    def totals(self, key: SessionKey) -> SessionTotals:
        with self.open_log(key) as log:
            return self._index.totals(key, log.fd)

    def locate(self, log: OpenLog, prefix: str) -> int:
        assert isinstance(log, FileLog)
        found = None
        if log.size > _SCANNED_BYTES and self._index.is_sorted(log.key, log.fd):
            found = locate_sorted(log, prefix)
        return super().locate(log, prefix) if found is None else found

    # The trash

    def trash(self) -> list[Trashed]:
        return trash.list_trash(self._folders)

    def restore(self, name: str) -> SessionKey:
        return trash.restore(self._folders, name)

    def empty_trash(self, *, older_than_seconds: float = 0.0) -> list[Trashed]:
        return trash.empty_trash(self._folders, before=self._clock() - older_than_seconds)

    # Maintenance

    def verify(self, key: SessionKey) -> LogReport:
        with self.open_log(key, is_settled=True) as log:
            return verify(log)

    def repair(self, key: SessionKey) -> RepairedSession:
        """Write a repaired copy of a session beside it. The session itself is not touched."""
        new = self._folders.free_key(key, "repaired")
        with self.open_log(key, is_settled=True) as log:
            shape, findings = examine(log)
            header = copy_header(log, new, "repair", suffix="repaired", now=self._clock())
            repair = LogRepair(log, shape, header)
            self._folders.create(new, repair.lines())
            path = None
            if repair.left_out:
                path = self._folders.write_beside(new, ".quarantine", repair.quarantine())
        return RepairedSession(new, repair.records, tuple(findings), path)

    def export(self, key: SessionKey) -> Iterator[bytes]:
        """Yield the log byte for byte, in pieces."""
        with self.open_log(key) as log:
            yield from log.data()

    def sweep(self) -> list[str]:
        """Remove what killed processes left behind; returns the names."""
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
