"""The open file of a log: found by name, locked for one act at a time, checked before use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.limits import FORMAT_VERSION
from holdfast.core.log.records import FORMAT
from holdfast.core.log.views import header_or_none
from holdfast.errors import ForeignLog, LogBusy, PathRejected
from holdfast.stores.files import (
    LockTimeout,
    copy_own,
    explain,
    explaining_read,
    is_private,
    lock,
    unlock,
)
from holdfast.stores.jsonl import last_writer
from holdfast.stores.jsonl.folders import SUFFIX, Folders
from holdfast.stores.jsonl.log import FileLog

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Header


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
        return last_writer.last(self.folder, self.key.session)

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
