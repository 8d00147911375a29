"""Payloads by the SHA-256 of their content: `<root>/blobs/ab/<hash>.zst`.

A blob is written before the record that names it and verified every time it is read. Collecting
never races with writing: a payload that was stored, or stored again, a moment ago is left alone.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from holdfast.core.limits import BLOB_GRACE_SECONDS, LOCK_WAIT_SECONDS
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import BlobDamaged, BlobMissing, HoldfastWarning, StoreError
from holdfast.stores.files import (
    Disk,
    explaining,
    explaining_read,
    hold_lock,
    is_temporary,
    open_file,
    open_folder,
    sync_name,
    write_new,
)
from holdfast.stores.payloads import check_hash, compress, is_hash, missing, read_verified

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from holdfast.ports import Clock

_PREFIX: Final = lazy_pattern(r"[0-9a-f]{2}")
_SUFFIX: Final = ".zst"


class FileBlobs:
    """The `BlobStore` of a single machine."""

    def __init__(
        self, root: str | os.PathLike[str], *, clock: Clock = time.time, disk: Disk | None = None
    ) -> None:
        self.root = os.fspath(root)
        self._clock = clock
        self._disk = disk or Disk()

    def put(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        with (
            self._folder(sha256[:2], create=True) as folder,
            explaining(f"store blob {sha256[:12]}"),
            hold_lock(folder, wait_seconds=LOCK_WAIT_SECONDS),  # against the collector
        ):
            if not _is_intact(folder, sha256, len(data)):
                write_new(folder, sha256 + _SUFFIX, compress(data), self._disk)
            else:
                sync_name(folder, sha256 + _SUFFIX, disk=self._disk)
            now = self._clock()  # its grace begins, or begins again
            os.utime(sha256 + _SUFFIX, (now, now), dir_fd=folder, follow_symlinks=False)
        return sha256

    def get(self, sha256: str) -> bytes:
        return b"".join(self.chunks(sha256))

    def chunks(self, sha256: str, *, size: int | None = None) -> Iterator[bytes]:
        with self._open(sha256) as fd:
            for _chunk in read_verified(_open_copy(fd), sha256, size):
                pass
            os.lseek(fd, 0, os.SEEK_SET)
            # Verified again while it is delivered: the file could have been changed in between.
            yield from read_verified(_open_copy(fd), sha256, size)

    def size(self, sha256: str) -> int:
        with self._open(sha256) as fd:
            return sum(len(chunk) for chunk in read_verified(_open_copy(fd), sha256))

    def __contains__(self, sha256: str) -> bool:
        try:
            with self._open(sha256):
                return True
        except BlobMissing:
            return False

    def __iter__(self) -> Iterator[str]:
        for _prefix, name in self._files():
            stem = name.removesuffix(_SUFFIX)
            if stem != name and is_hash(stem):
                yield stem

    def collect(
        self, referenced: Iterable[str], *, grace_seconds: float = BLOB_GRACE_SECONDS
    ) -> list[str]:
        limit = self._clock() - grace_seconds
        # First the payloads, then the references: what is stored meanwhile stays.
        unneeded = set(self)
        unneeded.difference_update(referenced)
        return [
            sha256
            for sha256 in sorted(unneeded)
            if self._delete_if_old(sha256[:2], sha256 + _SUFFIX, limit)
        ]

    def discard(self, hashes: Iterable[str]) -> list[str]:
        return [
            sha256
            for sha256 in sorted(hashes)
            if sha256 in self and self._delete_if_old(sha256[:2], sha256 + _SUFFIX, math.inf)
        ]

    def sweep(self) -> list[str]:
        """Remove temporary files that killed processes left behind; returns their names."""
        limit = self._clock() - BLOB_GRACE_SECONDS
        return [
            f"{prefix}/{name}"
            for prefix, name in self._files()
            if is_temporary(name) and self._delete_if_old(prefix, name, limit)
        ]

    def _delete_if_old(self, prefix: str, name: str, limit: float) -> bool:
        with (
            self._folder(prefix) as folder,
            explaining(f"delete `{prefix}/{name}`"),
            hold_lock(folder, wait_seconds=LOCK_WAIT_SECONDS),
            suppress(FileNotFoundError),
        ):
            if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime <= limit:
                os.unlink(name, dir_fd=folder)
                return True
        return False

    def _files(self) -> Iterator[tuple[str, str]]:
        """Yield the folder and name of every file. A folder that cannot be read is reported, and
        does not stop the others."""
        for prefix in filter(_PREFIX.fullmatch, self._names("blobs")):
            try:
                names = self._names("blobs", prefix)
            except StoreError as error:
                warnings.warn(f"left out: {error}", HoldfastWarning, stacklevel=2)
                continue
            yield from ((prefix, name) for name in names)

    def _names(self, *parts: str) -> list[str]:
        with explaining(f"list `{os.path.join(self.root, *parts)}`"):
            try:
                folder = open_folder(self.root, parts)
            except FileNotFoundError:
                return []
            try:
                return sorted(os.listdir(folder))
            finally:
                os.close(folder)

    @contextmanager
    def _folder(self, prefix: str, *, create: bool = False) -> Iterator[int]:
        with explaining(f"open `{os.path.join(self.root, 'blobs', prefix)}`"):
            folder = open_folder(self.root, ("blobs", prefix), create=create)
        try:
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def _open(self, sha256: str) -> Iterator[int]:
        check_hash(sha256)
        with explaining(f"open blob {sha256[:12]}"):
            try:
                folder = open_folder(self.root, ("blobs", sha256[:2]))
                try:
                    fd = open_file(folder, sha256 + _SUFFIX, os.O_RDONLY)
                finally:
                    os.close(folder)
            except FileNotFoundError:
                raise missing(sha256, f"under `{self.root}`") from None
        try:
            with explaining_read(f"blob {sha256[:12]}"):
                yield fd
        finally:
            os.close(fd)


def _is_intact(folder: int, sha256: str, size: int) -> bool:
    try:
        fd = open_file(folder, sha256 + _SUFFIX, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        for _chunk in read_verified(_open_copy(fd), sha256, size):
            pass
    except BlobDamaged:
        return False  # written again
    finally:
        os.close(fd)
    return True


def _open_copy(fd: int) -> BinaryIO:
    """Return a file of its own for a descriptor, at the same place in it."""
    return os.fdopen(os.dup(fd), "rb")
