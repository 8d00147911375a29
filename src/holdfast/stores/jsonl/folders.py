"""The folders and names of session files. Knows nothing of records."""

from __future__ import annotations

import functools
import os
import stat
import warnings
from contextlib import contextmanager, suppress
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import LABEL_CHARS_MAX, LOCK_WAIT_SECONDS
from holdfast.core.log.ids import SessionKey, free_key, is_name
from holdfast.core.text.cut import cut, ellipsis
from holdfast.errors import (
    HoldfastWarning,
    LogBusy,
    NoSuchSession,
    PathRejected,
    SessionExists,
    StoreError,
    StoreUnavailable,
)
from holdfast.stores.changes import Changes
from holdfast.stores.files import (
    Disk,
    LockTimeout,
    explaining,
    hold_lock,
    is_temporary,
    open_file,
    open_folder,
    sync_name,
    write_new,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


SUFFIX: Final = ".jsonl"
TRASH: Final = ("trash",)
_SUGGESTED_MAX: Final = 500
"""Files of a folder that an unknown name is compared with: all of them would cost a listing."""
_STRAY_SECONDS: Final = 3_600.0
"""A temporary file this old belongs to a process that was killed: writing one takes moments."""


class Folders:
    """The session files below one root."""

    def __init__(self, root: str, disk: Disk) -> None:
        self.root = root
        self.disk = disk
        self.changes = Changes(root)

    def sessions(self) -> Iterator[tuple[SessionKey, os.stat_result]]:
        """Yield every session with the status of its file. Names we would not give are skipped."""
        for agent in self.agents():
            for name, status in self._readable_listing(sessions_of(agent), SUFFIX):
                session = name.removesuffix(SUFFIX)
                if is_name(session) and stat.S_ISREG(status.st_mode):
                    yield SessionKey(agent, session), status

    def statuses(self, keys: Iterable[SessionKey]) -> Iterator[tuple[SessionKey, os.stat_result]]:
        """Yield those of the sessions that exist, with the status of their files."""
        for agent, found in groupby(sorted(keys), key=lambda key: key.agent):
            try:
                folder = open_folder(self.root, sessions_of(agent))
            except FileNotFoundError:
                continue
            try:
                for key in found:
                    with suppress(FileNotFoundError):
                        name = key.session + SUFFIX
                        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            yield key, status
            finally:
                os.close(folder)

    def agents(self) -> list[str]:
        """Return the agents that have sessions."""
        return sorted(
            name
            for name, status in self.listing(("agents",))
            if is_name(name) and stat.S_ISDIR(status.st_mode)
        )

    def open(self, key: SessionKey, flags: int) -> tuple[int, int]:
        """Return descriptors of a session's folder and log. Raises `NoSuchSession`."""
        with explaining(f"open session `{key.session}`"):
            try:
                folder = open_folder(self.root, sessions_of(key.agent))
            except FileNotFoundError:
                raise _no_such_session(self.root, key) from None
            try:
                return folder, open_file(folder, key.session + SUFFIX, flags, keep_links=True)
            except FileNotFoundError:
                os.close(folder)
                raise _no_such_session(self.root, key) from None
            except BaseException:
                os.close(folder)
                raise

    def sync_names(self, key: SessionKey, folder: int, log: os.stat_result) -> None:
        """Make the names on the way to a log durable, before anything in it is acknowledged."""
        with explaining(f"sync the folder of session `{key.session}`"):
            os.close(open_folder(self.root, sessions_of(key.agent), create=True))
            sync_name(folder, key.session + SUFFIX, log, self.disk)

    def create(self, key: SessionKey, chunks: Iterable[bytes]) -> None:
        """Make a session's file with this content. Raises `SessionExists`."""
        with explaining(f"create session `{key.session}`"), self.free_place(key) as folder:
            write_new(folder, key.session + SUFFIX, chunks, self.disk)
        self.changes.mark(key)

    @contextmanager
    def free_place(self, key: SessionKey) -> Iterator[int]:
        """Lock the folder of a session that does not exist against other creators and removers."""
        folder = open_folder(self.root, sessions_of(key.agent), create=True)
        try:
            with hold_lock(folder, wait_seconds=LOCK_WAIT_SECONDS):
                wanted = (key.session + SUFFIX).casefold()
                for name in os.listdir(folder):
                    if name.casefold() == wanted:
                        raise SessionExists(key.session, name.removesuffix(SUFFIX))
                yield folder
        except LockTimeout:
            raise LogBusy(str(key), LOCK_WAIT_SECONDS, "another process") from None
        finally:
            os.close(folder)

    def free_key(self, key: SessionKey, suffix: str) -> SessionKey:
        """Return a key like `key` that no session has."""
        found = self.listing(sessions_of(key.agent))
        taken = {name.casefold().removesuffix(SUFFIX) for name, _status in found}
        return free_key(key, suffix, taken)

    def write_beside(self, key: SessionKey, suffix: str, chunks: Iterable[bytes]) -> str:
        """Write a file that belongs to a session but is not its log; returns its path."""
        name, parts = key.session + suffix, sessions_of(key.agent)
        with explaining(f"write `{name}`"):
            folder = open_folder(self.root, parts)
            try:
                write_new(folder, name, chunks, self.disk)
            finally:
                os.close(folder)
        return os.path.join(self.root, *parts, name)

    def logs(self, is_wanted: Callable[[tuple[str, ...], str], bool]) -> Iterator[int]:
        """Yield a descriptor of every file beside logs and in the trash, one at a time.

        `is_wanted` chooses by the folder and the name.
        """
        # The trash first and last: a session that is moved meanwhile must not be missed.
        folders = [TRASH, *(sessions_of(agent) for agent in self.agents()), TRASH]
        for parts in folders:
            for name, status in self.listing(parts):
                if not (stat.S_ISREG(status.st_mode) and is_wanted(parts, name)):
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
            for name, status in self._readable_listing(sessions_of(agent)):
                if is_temporary(name) and status.st_mtime < now - _STRAY_SECONDS:
                    self.unlink(sessions_of(agent), name)
                    gone.append(f"{agent}/{name}")
        return gone

    def _readable_listing(
        self, parts: tuple[str, ...], suffix: str = ""
    ) -> list[tuple[str, os.stat_result]]:
        """Like `listing`; a folder that cannot be read is reported and does not stop the others."""
        try:
            return self.listing(parts, suffix)
        except StoreError as error:
            warnings.warn(f"left out: {error}", HoldfastWarning, stacklevel=2)
            return []

    def listing(self, parts: tuple[str, ...], suffix: str = "") -> list[tuple[str, os.stat_result]]:
        """Return names and statuses in a folder, without following links.

        A missing folder is empty.
        """
        try:
            folder = open_folder(self.root, parts)
            try:
                return _statuses(folder, suffix)
            finally:
                os.close(folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreUnavailable(
                f"cannot list `{os.path.join(self.root, *parts)}`: {error.strerror}",
                hint="check the path, its owner and its mode",
            ) from error

    def unlink(self, parts: tuple[str, ...], name: str) -> None:
        """Delete a file, unless it is gone already."""
        with explaining(f"delete `{name}`"):
            folder = open_folder(self.root, parts)
            try:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
            finally:
                os.close(folder)


def session_names(folders: Folders) -> Iterator[SessionKey]:
    """Yield every session, like `Folders.sessions`; no file is looked at."""
    for agent in folders.agents():
        for name in names_in(folders.root, sessions_of(agent), suffix=SUFFIX):
            session = name.removesuffix(SUFFIX)
            if is_name(session):
                yield SessionKey(agent, session)


def folder_states(folders: Folders) -> list[tuple[str, os.stat_result]]:
    """Return the folders that sessions are in, by agent, with their status."""
    found = []
    for agent in folders.agents():
        with suppress(OSError):
            folder = open_folder(folders.root, sessions_of(agent))
            try:
                found.append((agent, os.fstat(folder)))
            finally:
                os.close(folder)
    return found


def names_in(root: str, parts: tuple[str, ...], *prefixes: str, suffix: str = "") -> list[str]:
    """Return the names in a folder that begin and end so; no file is looked at."""
    with explaining(f"list `{os.path.join(root, *parts)}`"):
        try:
            folder = open_folder(root, parts)
        except FileNotFoundError:
            return []
        try:
            return [
                name
                for name in os.listdir(folder)
                if name.startswith(prefixes or "") and name.endswith(suffix)
            ]
        finally:
            os.close(folder)


def _statuses(folder: int, suffix: str) -> list[tuple[str, os.stat_result]]:
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(suffix):
                with suppress(FileNotFoundError):
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
    return found


def _no_such_session(root: str, key: SessionKey) -> NoSuchSession:
    return NoSuchSession(str(key), functools.partial(_some_names, root, key.agent))


def _some_names(root: str, agent: str) -> list[str]:
    """Return sessions of an agent: some of them, in a large folder."""
    folder = open_folder(root, sessions_of(agent))
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _SUGGESTED_MAX)]
    finally:
        os.close(folder)
    return [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)]


def sessions_of(agent: str) -> tuple[str, ...]:
    return ("agents", agent, "sessions")


_NAME: Final = "sessions.json"
_BYTES_MAX: Final = 64 * 1024 * 1024
"""The seed writes about 150 bytes for each session."""

_Stamp = tuple[int, int, int]


class SeedLabels:
    """The labels in `agents/AGENT/sessions.json`. A damaged or strange file holds none."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, tuple[_Stamp, dict[str, str]]] = {}

    def of(self, agent: str) -> dict[str, str]:
        """Return the labels of an agent's sessions by their ids; read again where they changed."""
        fd = -1
        with suppress(OSError, PathRejected):
            folder = open_folder(self._root, ("agents", agent))
            try:
                fd = open_file(folder, _NAME, os.O_RDONLY)
            finally:
                os.close(folder)
        if fd == -1:
            self._known.pop(agent, None)
            return {}
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            stamp = status.st_ino, status.st_size, status.st_mtime_ns
            known = self._known.get(agent)
            if known is None or known[0] != stamp:
                data = b""
                with suppress(OSError):
                    data = file.read(_BYTES_MAX)
                known = self._known[agent] = stamp, _labels(data)
            return known[1]


def _labels(data: bytes) -> dict[str, str]:
    try:
        rows = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}  # cut, or being written: the seed writes it in place
    labels: dict[str, str] = {}
    for session, row in rows.items() if isinstance(rows, dict) else ():
        said = row.get("label") if isinstance(row, dict) else None
        if isinstance(said, str) and (words := " ".join(said.split())):
            labels[session] = cut(words, LABEL_CHARS_MAX, keep="head", marker=ellipsis).text
    return labels
