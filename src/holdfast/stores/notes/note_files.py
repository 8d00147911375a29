"""The folder with the notes of one agent or one owner: contained, locked, and never destroyed.

It is opened and locked for each use. Appends go through a redo journal, so that they are finished
after a crash. The name of a folder has only a hash of its owner: a file in it has the name.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from holdfast.core.limits import (
    LOCK_WAIT_SECONDS,
    NOTE_DEPTH_MAX,
    NOTE_FILE_BYTES_MAX,
    NOTE_FILES_MAX,
    READ_BLOCK_BYTES,
)
from holdfast.core.memory.note_files import (
    DAY,
    NoteFile,
    bytes_to_append,
    check_path,
    erase_from_file,
)
from holdfast.core.owners import NO_OWNER, UNKNOWN_OWNER, NamedOwner
from holdfast.core.text.typed import decode_typed
from holdfast.errors import NoSuchNote, PathRejected, UsageError
from holdfast.stores.files import (
    Disk,
    explaining,
    explaining_read,
    has_name,
    hold_lock,
    is_private,
    lock,
    open_child,
    open_file,
    open_folder,
    open_to_append,
    unlock,
    write_new,
    write_whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from holdfast.core.memory.note_files import NoteKind
    from holdfast.core.owners import Owner, UnknownOwner


TRASH: Final = ".trash"
"""The folder of discarded files. Names that begin with a dot are ours and no notes."""


class OpenNotes(Protocol):
    """The files of one agent or owner, while no one else changes them."""

    def tree(self) -> list[NoteFile]:
        """Return files and folders, each folder before what is in it. Ours are left out."""

    def kind(self, path: str) -> NoteKind:
        """Return whether a path is a file, a folder, something else, or nothing."""

    def data(self, path: str) -> bytes:
        """Return the content of a file, up to the largest size that is read.

        Raises `NoSuchNote`.
        """

    def write(self, path: str, data: bytes) -> None:
        """Make a file with this content, durably and all at once; an existing one is replaced."""

    def move(self, path: str, new: str) -> None:
        """Give a file or folder, which is there, a path where nothing is."""

    def append_lines(self, name: str, lines: Sequence[str]) -> tuple[bool, int]:
        """Add lines to a file, made if need be, durably.

        Returns whether the file has them now (an editor may have replaced it meanwhile), and the
        number of the first line added.
        """

    def trash(self) -> set[str]:
        """Return the names in the trash."""

    def marks(self) -> set[str]:
        """Return the names of what was noted once."""

    def add_mark(self, once: str) -> None:
        """Remember that something was noted. It may be forgotten: then it is looked for again."""

    def erase_session(self, session: str) -> int:
        """Delete the notes from a session, also in the trash; returns their number."""

    def erase_all(self) -> None:
        """Delete everything, also the trash."""


class NoteFiles(Protocol):
    """The place of the files of one agent or owner. Safe for threads and processes."""

    @property
    def location(self) -> str:
        """The place in words, for people."""

    def changing(self) -> AbstractContextManager[OpenNotes]:
        """Open the files and keep every other writer out. What an earlier one left half done is
        finished first."""

    def reading(self) -> AbstractContextManager[OpenNotes | None]:
        """Open the files between changes; None where there are none."""


OWNER_FILE: Final = ".owner"
_BYTES_MAX: Final = 1024 * 1024
"""More than any name has: what is longer is not read to its end."""


def keep_owner(notes: NoteFolder, folder: int, owner: NamedOwner) -> None:
    """Write the owner's name into an open folder, unless it is there."""
    data = json.dumps({"owner": owner.name}).encode() + b"\n"  # escapes lone surrogates too
    if _read(folder) != data:
        write_new(folder, OWNER_FILE, [data], notes.disk)


def read_owner(root: str, parts: Sequence[str]) -> NamedOwner | UnknownOwner:
    """Return the owner that a folder of notes names; unknown where no name can be read.

    Anyone can copy a folder: the caller compares what the name stands for.
    """
    with explaining_read(os.path.join(*parts, OWNER_FILE)):
        try:
            folder = open_folder(root, parts)
        except FileNotFoundError:
            return UNKNOWN_OWNER
        try:
            data = _read(folder)
        finally:
            os.close(folder)
    try:
        name = json.loads(data)["owner"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return UNKNOWN_OWNER
    return NamedOwner(name) if isinstance(name, str) and name else UNKNOWN_OWNER


def _read(folder: int) -> bytes:
    """Return the content of the file; empty where it is not a plain file."""
    try:
        fd = open_file(folder, OWNER_FILE, os.O_RDONLY)
    except PathRejected:
        return b""
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):  # nothing, or a link: it is replaced
            return b""
        raise
    with os.fdopen(fd, "rb") as file:
        return file.read(_BYTES_MAX)


_JOURNAL: Final = ".appending"
_MARKS: Final = ".flushed"


class _Append(msgspec.Struct, frozen=True):
    """An append that has begun: the bytes it adds to a file, and from which byte on."""

    name: str
    size: int
    data: bytes

    def rest(self, data: bytes) -> bytes:
        """Return the bytes that are missing in a file that has a part of them."""
        tail = data[self.size :]
        if 0 < len(tail) < len(self.data) and self.data.startswith(tail):
            return self.data[len(tail) :]
        return b""


def append_lines(
    notes: NoteFolder, folder: int, name: str, lines: Sequence[str]
) -> tuple[bool, int]:
    """Add lines to a file, durably. The caller holds the lock of the folder.

    Returns whether the file still has that name, and the number of the first line added. An
    editor that saves at the same moment puts another file in its place.
    """
    fd = open_to_append(folder, name, notes.disk)
    try:
        # One byte more than there may be is enough to refuse a file that is too large.
        before = os.pread(fd, NOTE_FILE_BYTES_MAX + 1, 0)
        data, first = bytes_to_append(name, before, lines)
        journal = msgspec.json.encode(_Append(name, len(before), data))
        write_new(folder, _JOURNAL, [journal], notes.disk)
        write_whole(fd, data, notes.disk)
        notes.disk.sync(fd)
        with suppress(FileNotFoundError):
            os.unlink(_JOURNAL, dir_fd=folder)
        return has_name(folder, name, fd), first
    finally:
        os.close(fd)


def finish_append(notes: NoteFolder, folder: int) -> None:
    """Write the rest of an append that was cut off. The caller holds the lock of the folder."""
    begun = _read_journal(folder)
    if begun is None:
        return
    rest = begun.rest(_data_or_nothing(notes, folder, begun.name))
    if rest:
        fd = open_to_append(folder, begun.name, notes.disk)
        try:
            write_whole(fd, rest, notes.disk)
            notes.disk.sync(fd)
        finally:
            os.close(fd)
    with suppress(FileNotFoundError):
        os.unlink(_JOURNAL, dir_fd=folder)


def without_unfinished(folder: int, path: str, data: bytes) -> bytes:
    """Return the content of a file without the part that an unfinished append has written."""
    begun = _read_journal(folder)
    if begun is not None and begun.name == path and begun.rest(data):
        return data[: begun.size]
    return data


def _data_or_nothing(notes: NoteFolder, folder: int, path: str) -> bytes:
    """Return the content of a file; empty where it cannot be read as one."""
    try:
        return notes.data(folder, path)
    except UsageError:
        return b""


def read_marks(folder: int) -> set[str]:
    """Return the names of what was noted once."""
    try:
        fd = open_file(folder, _MARKS, os.O_RDONLY)
    except FileNotFoundError:
        return set()
    with os.fdopen(fd, "rb") as file:
        lines = file.read().decode(errors="replace").split("\n")
    # A mark has a line break of its own on either side; one that was cut off has not.
    return {line for line, after in pairwise(lines) if line and not after}


def add_mark(notes: NoteFolder, folder: int, once: str) -> None:
    """Remember that something was noted."""
    # Neither synced nor insisted on: without it the same notes are looked for again, and found.
    with suppress(OSError):
        fd = open_file(folder, _MARKS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            write_whole(fd, f"\n{once}\n".encode(), notes.disk)
        finally:
            os.close(fd)


def _read_journal(folder: int) -> _Append | None:
    try:
        fd = open_file(folder, _JOURNAL, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file, suppress(msgspec.DecodeError, UnicodeDecodeError):
        begun = decode_typed(file.read(), _Append)
        return begun if DAY.match(begun.name) else None
    return None


_READ_WAIT_SECONDS: Final = 1.0
"""A reader goes on without the lock after this: appends are quick, and what they add is whole."""


class NoteFolder:
    """A folder of notes. Safe for threads and processes."""

    def __init__(
        self, root: str, parts: Sequence[str], *, hidden: Sequence[str] = (), disk: Disk
    ) -> None:
        """`hidden` are names in it that belong to other owners."""
        self.root = root
        self.parts = tuple(parts)
        self.path = os.path.join(root, *parts)
        self.disk = disk
        self.hidden = tuple(hidden)

    # Opening

    @contextmanager
    def changing(self) -> Iterator[int]:
        """Open the folder, made if need be, and hold its lock."""
        with explaining(f"open `{self.path}`"):
            folder = open_folder(self.root, self.parts, create=True)
        try:
            with (
                explaining(f"change the notes in `{self.path}`"),
                hold_lock(folder, wait_seconds=LOCK_WAIT_SECONDS),
            ):
                yield folder
        finally:
            os.close(folder)

    @contextmanager
    def reading(self) -> Iterator[int | None]:
        """Open the folder between appends; yields None where there is no folder."""
        with explaining(f"open `{self.path}`"):
            try:
                folder = open_folder(self.root, self.parts)
            except FileNotFoundError:
                folder = None
        if folder is None:
            yield None
            return
        try:
            with explaining(f"read the notes in `{self.path}`"), _at_rest(folder):
                yield folder
        finally:
            os.close(folder)

    def path_parts(self, path: str) -> tuple[str, ...]:
        """Return the parts of a path; raises `PathRejected` where no note may be."""
        return check_path(path, hidden=self.hidden)

    @contextmanager
    def parent(
        self, folder: int, parts: Sequence[str], *, create: bool = False
    ) -> Iterator[tuple[int, str]]:
        """Open the folder that the last part is in; yields it with the name there."""
        fd = os.dup(folder)
        try:
            for part in parts[:-1]:
                below = open_child(fd, part, create=create)
                os.close(fd)
                fd = below
            yield fd, parts[-1]
        finally:
            os.close(fd)

    # Looking

    def files(self, folder: int) -> list[NoteFile]:
        """Return every file of notes, those in folders included, by its path."""
        found = [file for file in self.tree(folder) if not file.is_folder]
        return sorted(found, key=lambda file: file.path)

    def tree(self, folder: int, depth: int = NOTE_DEPTH_MAX) -> list[NoteFile]:
        """Return files and folders; links and everything else are left out."""
        found: list[NoteFile] = []
        self._walk(folder, "", depth, found)
        return found

    def _walk(self, folder: int, above: str, depth: int, found: list[NoteFile]) -> None:
        for name in sorted(os.listdir(folder)):
            if len(found) >= NOTE_FILES_MAX:
                return
            with suppress(PathRejected, FileNotFoundError):  # no note, or gone meanwhile
                self.path_parts(above + name)
                seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
                kind = note_kind(seen)
                if kind == "other":
                    continue
                is_folder, path = kind == "folder", above + name
                found.append(NoteFile(path, seen.st_mtime_ns, seen.st_size, seen.st_ino, is_folder))
                if is_folder and depth > 1:
                    below = open_child(folder, name)
                    try:
                        self._walk(below, path + "/", depth - 1, found)
                    finally:
                        os.close(below)

    def kind(self, folder: int, path: str) -> NoteKind:
        """Return whether a path is a file, a folder, something else, or nothing.

        A file with a second name is something else here: it may be one from outside. It is listed
        and appended to all the same, since a backup by hard links makes such names too.
        """
        with (
            suppress(FileNotFoundError, NotADirectoryError),
            self.parent(folder, self.path_parts(path)) as (parent, name),
        ):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            kind = note_kind(found)
            return "other" if kind == "file" and found.st_nlink > 1 else kind
        return "nothing"

    def data(self, folder: int, path: str) -> bytes:
        """Return the content of a file, up to the largest size that is read."""
        try:
            with self.parent(folder, self.path_parts(path)) as (parent, name):
                fd = open_file(parent, name, os.O_RDONLY)
        except FileNotFoundError:
            raise NoSuchNote(path, [file.path for file in self.files(folder)]) from None
        try:
            return _read_up_to_limit(fd)
        finally:
            os.close(fd)

    # Changing; the caller has the lock

    def write(self, folder: int, path: str, data: bytes) -> None:
        """Make a file with this content, all at once; an existing one is replaced."""
        with self.parent(folder, path.split("/"), create=True) as (parent, name):
            write_new(parent, name, [data], self.disk)

    def names_in_trash(self, folder: int) -> set[str]:
        """Return the names in the trash, made if need be."""
        with self.parent(folder, (TRASH, ""), create=True) as (trash, _name):
            return set(os.listdir(trash))

    def move(self, folder: int, path: str, target: str) -> None:
        """Give a file or folder another path, where nothing is yet."""
        with (
            self.parent(folder, path.split("/")) as (old, old_name),
            self.parent(folder, target.split("/"), create=True) as (new, new_name),
        ):
            os.rename(old_name, new_name, src_dir_fd=old, dst_dir_fd=new)
            self.disk.sync_folder(new)
            self.disk.sync_folder(old)


def note_kind(found: os.stat_result) -> NoteKind:
    if stat.S_ISDIR(found.st_mode):
        return "folder"
    return "file" if stat.S_ISREG(found.st_mode) and is_private(found) else "other"


@contextmanager
def _at_rest(folder: int) -> Iterator[None]:
    """Hold the lock, or go on without it where there are no locks or one is held for long."""
    try:
        lock(folder, wait_seconds=_READ_WAIT_SECONDS)
    except OSError:
        yield
        return
    try:
        yield
    finally:
        unlock(folder)


def _read_up_to_limit(fd: int) -> bytes:
    pieces, left = [], NOTE_FILE_BYTES_MAX
    while left and (piece := os.read(fd, min(left, READ_BLOCK_BYTES))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


class FolderFiles:
    """The `NoteFiles` of a folder."""

    def __init__(self, folder: NoteFolder, owner: Owner = NO_OWNER) -> None:
        self._folder = folder
        self._owner = owner

    @property
    def location(self) -> str:
        return self._folder.path

    @contextmanager
    def changing(self) -> Iterator[OpenFolder]:
        with self._folder.changing() as fd:
            finish_append(self._folder, fd)
            yield OpenFolder(self._folder, fd, self._owner)

    @contextmanager
    def reading(self) -> Iterator[OpenFolder | None]:
        with self._folder.reading() as fd:
            yield None if fd is None else OpenFolder(self._folder, fd, self._owner)


class OpenFolder:
    """An open folder as `OpenNotes`."""

    def __init__(self, folder: NoteFolder, fd: int, owner: Owner) -> None:
        self._folder = folder
        self._fd = fd
        self._owner = owner

    def tree(self) -> list[NoteFile]:
        return self._folder.tree(self._fd)

    def kind(self, path: str) -> NoteKind:
        return self._folder.kind(self._fd, path)

    def data(self, path: str) -> bytes:
        """Return the content of a file, without the part of an unfinished append."""
        data = self._folder.data(self._fd, path)
        return without_unfinished(self._fd, path, data)

    def write(self, path: str, data: bytes) -> None:
        self._keep_owner()
        self._folder.write(self._fd, path, data)

    def move(self, path: str, new: str) -> None:
        self._folder.move(self._fd, path, new)

    def append_lines(self, name: str, lines: Sequence[str]) -> tuple[bool, int]:
        self._keep_owner()
        return append_lines(self._folder, self._fd, name, lines)

    def trash(self) -> set[str]:
        return self._folder.names_in_trash(self._fd)

    def marks(self) -> set[str]:
        return read_marks(self._fd)

    def add_mark(self, once: str) -> None:
        add_mark(self._folder, self._fd, once)

    def erase_session(self, session: str) -> int:
        return _erase_session(self._folder, self._fd, session)

    def erase_all(self) -> None:
        _erase_all(self._folder, self._fd)

    def _keep_owner(self) -> None:
        if isinstance(self._owner, NamedOwner):
            keep_owner(self._folder, self._fd, self._owner)


def _erase_session(notes: NoteFolder, folder: int, session: str) -> int:
    """Delete the notes from a session, in every file below; returns their number.

    The caller holds the lock of the folder. A file with nothing but its heading left is deleted.
    """
    return _erase_below(notes, folder, session, hidden=notes.hidden)


def _erase_below(
    notes: NoteFolder, folder: int, session: str, *, hidden: Sequence[str] = ()
) -> int:
    total = 0
    for name in sorted(set(os.listdir(folder)).difference(hidden)):
        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(seen.st_mode):
            below = open_child(folder, name)
            try:
                total += _erase_below(notes, below, session)
            finally:
                os.close(below)
        elif note_kind(seen) == "file":
            total += _erase_in_file(notes, folder, name, session)
    return total


def _erase_all(notes: NoteFolder, folder: int) -> None:
    """Delete everything in a folder of notes, except what is hidden in it.

    The caller holds the lock of the folder.
    """
    for name in os.listdir(folder):
        if name in notes.hidden:
            continue
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            shutil.rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
    notes.disk.sync_folder(folder)
    with suppress(OSError):  # not empty: it has notes of owners
        os.rmdir(notes.path)


def _erase_in_file(notes: NoteFolder, folder: int, name: str, session: str) -> int:
    fd = open_file(folder, name, os.O_RDONLY)
    with os.fdopen(fd, "rb") as file:
        left, number = erase_from_file(name, file.read(), session)
    if left is None:
        os.unlink(name, dir_fd=folder)
        notes.disk.sync_folder(folder)
    elif number:
        write_new(folder, name, [left], notes.disk)
    return number
