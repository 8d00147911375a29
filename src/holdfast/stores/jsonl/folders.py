"""Where session files are: their folders, their names, the trash. Knows nothing of records."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from holdfast.core.limits import LOCK_WAIT_SECONDS
from holdfast.core.log.ids import SessionKey, is_name
from holdfast.errors import (
    LogBusy,
    NoSuchSession,
    SessionExists,
    StoreUnavailable,
    UsageError,
)
from holdfast.ports import Trashed
from holdfast.stores.files import (
    Disk,
    LockTimeout,
    explaining,
    is_temporary,
    locked,
    open_file,
    open_folder,
    write_new,
)
from holdfast.stores.jsonl import last_writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUFFIX: Final = ".jsonl"
_STRAY_SECONDS: Final = 3_600.0


class Shelf:
    """The files below one root."""

    def __init__(self, root: str, disk: Disk) -> None:
        self.root = root
        self._disk = disk

    # Sessions

    def sessions(self) -> Iterator[tuple[SessionKey, os.stat_result]]:
        """Every session with the status of its file. Names we would not give are passed over."""
        for agent in self.agents():
            for name, status in self._listing(_sessions_of(agent), suffix=SUFFIX):
                session = name.removesuffix(SUFFIX)
                if is_name(session) and stat.S_ISREG(status.st_mode):
                    yield SessionKey(agent, session), status

    def agents(self) -> list[str]:
        return sorted(
            name
            for name, status in self._listing(("agents",))
            if is_name(name) and stat.S_ISDIR(status.st_mode)
        )

    def folder(self, agent: str, *, create: bool = False) -> int:
        """A descriptor of the folder with an agent's sessions."""
        return open_folder(self.root, _sessions_of(agent), create=create)

    def open(self, key: SessionKey, flags: int) -> tuple[int, int]:
        """Descriptors of a session's folder and log. Raises `NoSuchSession`."""
        with explaining(f"open session `{key.session}`"):
            try:
                folder = self.folder(key.agent)
            except FileNotFoundError:
                raise NoSuchSession(str(key), self._names()) from None
            try:
                return folder, open_file(folder, key.session + SUFFIX, flags)
            except FileNotFoundError:
                os.close(folder)
                raise NoSuchSession(str(key), self._names()) from None
            except BaseException:
                os.close(folder)
                raise

    def create(self, key: SessionKey, chunks: Iterable[bytes]) -> None:
        """Make a session's file with this content, unless there is one."""
        with explaining(f"create session `{key.session}`"), self._catalogue(key) as folder:
            self._check_free(folder, key)
            write_new(folder, key.session + SUFFIX, chunks, self._disk)

    def free_key(self, key: SessionKey, suffix: str) -> SessionKey:
        """A key beside `key` that nobody uses yet."""
        taken = {name.casefold() for name, _status in self._listing(_sessions_of(key.agent))}
        stem = f"{key.session[:96]}-{suffix}"
        names = (stem if number == 1 else f"{stem}-{number}" for number in range(1, 10_000))
        free = (name for name in names if (name + SUFFIX).casefold() not in taken)
        return SessionKey(key.agent, next(free))

    def write_beside(self, key: SessionKey, suffix: str, chunks: Iterable[bytes]) -> str:
        """Write a file that belongs to a session but is not its log; returns its path."""
        name = key.session + suffix
        with explaining(f"write `{name}`"):
            folder = self.folder(key.agent)
            try:
                write_new(folder, name, chunks, self._disk)
            finally:
                os.close(folder)
        return os.path.join(self.root, *_sessions_of(key.agent), name)

    # The trash

    def discard(self, key: SessionKey, folder: int, *, now: float, size: int) -> Trashed:
        """Move a log, whose lock the caller holds, to the trash."""
        trash = open_folder(self.root, ("trash",), create=True)
        try:
            with locked(trash, wait_seconds=LOCK_WAIT_SECONDS):
                stamp, taken = int(now * 1000), set(os.listdir(trash))
                while f"{key.agent}.{key.session}.{stamp}{SUFFIX}" in taken:
                    stamp += 1
                name = f"{key.agent}.{key.session}.{stamp}"
                os.rename(key.session + SUFFIX, name + SUFFIX, src_dir_fd=folder, dst_dir_fd=trash)
            last_writer.forget(folder, key.session)
            self._disk.sync_folder(trash)
            self._disk.sync_folder(folder)
        finally:
            os.close(trash)
        return Trashed(name, key, stamp / 1000, size)

    def trash(self) -> list[Trashed]:
        found = []
        for name, status in self._listing(("trash",)):
            parts = name.split(".")
            if not stat.S_ISREG(status.st_mode) or len(parts) != 4:
                continue
            if name.endswith(SUFFIX) and parts[2].isdecimal():
                agent, session, stamp, _ = parts
                if is_name(agent) and is_name(session):
                    key = SessionKey(agent, session)
                    stem = name.removesuffix(SUFFIX)
                    found.append(Trashed(stem, key, int(stamp) / 1000, status.st_size))
        return sorted(found, key=lambda trashed: (-trashed.removed, trashed.name))

    def restore(self, name: str) -> SessionKey:
        """Take the newest of that name, id or `agent/id` out of the trash."""
        for trashed in self.trash():
            if name in (trashed.name, trashed.key.session, str(trashed.key)):
                break
        else:
            raise UsageError(
                f"nothing called `{name}` is in the trash", hint="list it with `holdfast rm --list`"
            )
        key = trashed.key
        with explaining(f"restore `{name}`"), self._catalogue(key) as folder:
            self._check_free(folder, key)
            trash = open_folder(self.root, ("trash",))
            try:
                source, target = trashed.name + SUFFIX, key.session + SUFFIX
                os.rename(source, target, src_dir_fd=trash, dst_dir_fd=folder)
                self._disk.sync_folder(folder)
            finally:
                os.close(trash)
        return key

    def empty_trash(self, *, before: float) -> list[Trashed]:
        gone = [trashed for trashed in self.trash() if trashed.removed <= before]
        for trashed in gone:
            self._unlink(("trash",), trashed.name + SUFFIX)
        return gone

    # Housekeeping

    def logs(self) -> Iterator[int]:
        """A descriptor of every log, living or trashed, one at a time."""
        # The trash first and last, lest a session that is moved meanwhile be missed.
        folders = [("trash",), *(_sessions_of(agent) for agent in self.agents()), ("trash",)]
        for parts in folders:
            for name, status in self._listing(parts):
                if not stat.S_ISREG(status.st_mode):
                    continue
                with explaining(f"read `{name}`"):
                    folder = open_folder(self.root, parts)
                    try:
                        fd = open_file(folder, name, os.O_RDONLY)
                    except FileNotFoundError:
                        continue
                    finally:
                        os.close(folder)
                try:
                    yield fd
                finally:
                    os.close(fd)

    def sweep(self, *, now: float) -> list[str]:
        """Remove temporary files that killed processes left behind; returns their names."""
        gone = []
        for agent in self.agents():
            for name, status in self._listing(_sessions_of(agent)):
                if is_temporary(name) and status.st_mtime < now - _STRAY_SECONDS:
                    self._unlink(_sessions_of(agent), name)
                    gone.append(f"{agent}/{name}")
        return gone

    @contextmanager
    def _catalogue(self, key: SessionKey) -> Iterator[int]:
        """The folder of a session, locked against other creators and removers."""
        folder = self.folder(key.agent, create=True)
        try:
            with locked(folder, wait_seconds=LOCK_WAIT_SECONDS):
                yield folder
        except LockTimeout:
            raise LogBusy(str(key), LOCK_WAIT_SECONDS, "another process") from None
        finally:
            os.close(folder)

    def _check_free(self, folder: int, key: SessionKey) -> None:
        wanted = (key.session + SUFFIX).casefold()
        for name in os.listdir(folder):
            if name.casefold() == wanted:
                raise SessionExists(key.session, name.removesuffix(SUFFIX))

    def _listing(
        self, parts: tuple[str, ...], *, suffix: str = ""
    ) -> list[tuple[str, os.stat_result]]:
        """Names and statuses in a folder; links are not followed. A missing folder is empty."""
        try:
            folder = open_folder(self.root, parts)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreUnavailable(
                f"cannot list `{os.path.join(self.root, *parts)}`: {error.strerror}",
                hint="check the path, its owner and its mode",
            ) from error
        found = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith(suffix):
                        with suppress(FileNotFoundError):
                            found.append((entry.name, entry.stat(follow_symlinks=False)))
        finally:
            os.close(folder)
        return found

    def _unlink(self, parts: tuple[str, ...], name: str) -> None:
        with explaining(f"delete `{name}`"):
            folder = open_folder(self.root, parts)
            try:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
            finally:
                os.close(folder)

    def _names(self) -> list[str]:
        return [key.session for key, _status in self.sessions()]


def _sessions_of(agent: str) -> tuple[str, ...]:
    return ("agents", agent, "sessions")
