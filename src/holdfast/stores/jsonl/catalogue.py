"""The session files below one root: making, copying and checking them."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

from holdfast.core.limits import READ_BLOCK_BYTES
from holdfast.core.log.copies import LogRepair, copy_header
from holdfast.core.log.records import encode
from holdfast.core.log.views import examine, verify
from holdfast.errors import HoldfastWarning
from holdfast.ports import RepairedSession
from holdfast.stores.files import network_filesystem
from holdfast.stores.jsonl import trash
from holdfast.stores.jsonl.listing import FileListing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.log.views import LogReport
    from holdfast.ports import Trashed


class FileCatalogue(FileListing):
    """A `SessionCatalogue` of files, without the writer's part. Safe for threads and processes."""

    # Making

    def create_log(self, key: SessionKey, records: Iterable[Record]) -> None:
        self._warn_of_network()
        self._folders.create(key, (encode(record) + b"\n" for record in records))

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
