"""Sessions in plain files: `<root>/agents/<agent>/sessions/<session>.jsonl`.

An append is one write of whole lines on an append-only descriptor, under a lock that is held for
just that, followed by a data sync. Reading takes no lock. Nothing that was written is ever
changed: a torn end is sealed by the next append and stays in the file, where `verify` finds it.
"""

from __future__ import annotations

import os
import random
import threading
import time
import warnings
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from holdfast.core.limits import LOCK_WAIT_SECONDS
from holdfast.core.log.batch import new_header
from holdfast.core.log.copies import copy_header
from holdfast.core.log.records import encode
from holdfast.core.log.views import examine, verify
from holdfast.errors import HoldfastWarning
from holdfast.ports import Appended, SessionInfo, SessionStore, Trashed, newest_first
from holdfast.stores.audit import FileAudit
from holdfast.stores.files import Disk, network_filesystem, settled_size
from holdfast.stores.jsonl.folders import Shelf
from holdfast.stores.jsonl.index import Index, LogFile
from holdfast.stores.jsonl.log import FileLog, hashes_in
from holdfast.stores.jsonl.repair import Mended, Mending
from holdfast.stores.jsonl.writer import LogWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.log.batch import Batch, Lines
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.log.views import LogReport
    from holdfast.ports import Clock, Durability, Entropy
    from holdfast.stores.blobs import FileBlobs

_WRITERS_MAX: Final = 64
"""Logs held open for appending; more would use up the descriptors of a process."""


class JsonlStore(SessionStore):
    """The `SessionStore` of a single machine. Safe for threads and for processes."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        disk: Disk | None = None,
        clock: Clock = time.time,
        entropy: Entropy = random.getrandbits,
        lock_wait_seconds: float = LOCK_WAIT_SECONDS,
    ) -> None:
        super().__init__(clock=clock, entropy=entropy)
        self.root = os.fspath(root)
        self._disk = disk or Disk()
        self._lock_wait_seconds = lock_wait_seconds
        self._folders = Shelf(self.root, self._disk)
        self._index = Index(os.path.join(self.root, "index.sqlite3"))
        self._forget_writers()
        self._is_network_checked = False

    def close(self) -> None:
        with self._mutex:
            for writer in self._writers.values():
                writer.close()
            self._writers.clear()
        self._index.close()

    @property
    def blobs(self) -> FileBlobs:
        from holdfast.stores.blobs import FileBlobs  # brings the compressor, which few calls need

        return FileBlobs(self.root)

    @property
    def audit(self) -> FileAudit:
        return FileAudit(self.root)

    # One session

    @contextmanager
    def open_log(self, key: SessionKey, *, is_settled: bool = False) -> Iterator[FileLog]:
        """Open a log; `is_settled` waits for an append in the middle of its write, for a while."""
        fd = self._open(key)
        try:
            yield FileLog(key, fd, settled_size(fd) if is_settled else os.fstat(fd).st_size)
        finally:
            os.close(fd)

    def append_batch(
        self, key: SessionKey, batch: Batch, *, expect: str | None, durability: Durability
    ) -> Appended:
        self._warn_of_network()
        writer = self._writer(key)
        ready = self._encode(batch, writer.head)

        def lines_after(head: str) -> Lines:
            # Usually ready before the lock was taken; again only if another writer's id is later.
            return ready if head < ready.ids[0] else self._encode(batch, head)

        lines, sealed = writer.append(
            lines_after,
            expect=expect,
            batch=batch,
            header=lambda: encode(new_header(key, now=self._clock())) + b"\n",
            is_synced=durability == "synced",
        )
        return Appended(lines.ids, lines.ids[-1], sealed)

    def _encode(self, batch: Batch, head: str) -> Lines:
        return batch.encode(after=head, now=self._clock(), random_bits=self._entropy(28))

    def sync(self, key: SessionKey) -> None:
        self._writer(key).sync()

    def verify(self, key: SessionKey) -> LogReport:
        with self.open_log(key, is_settled=True) as log:
            return verify(log)

    def export(self, key: SessionKey) -> Iterator[bytes]:
        """Yield the log byte for byte, in pieces."""
        with self.open_log(key) as log:
            yield from log.data()

    def repair(self, key: SessionKey) -> Mended:
        """Write a repaired copy of a session beside it. The session itself is not touched."""
        new = self._folders.free_key(key, "repaired")
        with self.open_log(key, is_settled=True) as log:
            shape, findings = examine(log)
            header = copy_header(log, new, "repair", suffix="repaired", now=self._clock())
            mending = Mending(log, shape, header)
            self._folders.create(new, mending.lines())
            path = None
            if mending.left_out:
                path = self._folders.write_beside(new, ".quarantine", mending.quarantine())
        return Mended(new, mending.records, tuple(findings), path)

    # The catalogue

    def keys(self, agent: str | None = None) -> Iterator[SessionKey]:
        return (key for key, _status in self._folders.sessions() if agent in (None, key.agent))

    def sessions(self, *, agent: str | None = None) -> list[SessionInfo]:
        logs = (
            LogFile(key, status, self._open)
            for key, status in self._folders.sessions()
            if agent in (None, key.agent)
        )
        return newest_first(self._index.infos(logs, is_complete=agent is None))

    def create_log(self, key: SessionKey, records: Iterable[Record]) -> None:
        self._warn_of_network()
        self._folders.create(key, (encode(record) + b"\n" for record in records))

    def remove(self, key: SessionKey) -> Trashed:
        trashed = self._writer(key).discard(now=self._clock())
        with self._mutex:
            writer = self._writers.pop(key, None)
        if writer is not None:  # another thread may have let go of it
            writer.close()
        return trashed

    def trash(self) -> list[Trashed]:
        return self._folders.trash()

    def restore(self, name: str) -> SessionKey:
        return self._folders.restore(name)

    def empty_trash(self, *, older_than_seconds: float = 0.0) -> list[Trashed]:
        return self._folders.empty_trash(before=self._clock() - older_than_seconds)

    def sweep(self) -> list[str]:
        """Remove what killed processes left behind; returns the names."""
        return self._folders.sweep(now=self._clock())

    def mentioned_hashes(self) -> Iterator[str]:
        """Yield everything in any log, living or trashed, that could be the hash of a blob."""
        for fd in self._folders.logs():
            yield from hashes_in(fd)

    # Descriptors

    def _writer(self, key: SessionKey) -> LogWriter:
        if self._pid != os.getpid():
            self._forget_writers()  # a forked child shares its parent's locks: it needs its own
        with self._mutex:
            writer = self._writers.get(key)
            if writer is None:
                writer = LogWriter(self._folders, key, self._disk, self._lock_wait_seconds)
                self._writers[key] = writer
            self._writers.move_to_end(key)
            if len(self._writers) > _WRITERS_MAX:
                self._writers.popitem(last=False)[1].close()
        return writer

    def _forget_writers(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._writers: OrderedDict[SessionKey, LogWriter] = OrderedDict()

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

    def _open(self, key: SessionKey) -> int:
        folder, fd = self._folders.open(key, os.O_RDONLY)
        os.close(folder)
        return fd
