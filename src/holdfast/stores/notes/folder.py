"""The folder with the notes of one agent or one owner: contained, locked, and never destroyed.

Everything is reached from a descriptor of the folder and without following links. One lock, on the
folder itself, is held for as long as a change takes. Deleted files go to `.trash`; names that begin
with a dot are ours and no notes.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from holdfast.core.limits import (
    LOCK_WAIT_SECONDS,
    NOTE_DEPTH_MAX,
    NOTE_FILE_BYTES_MAX,
    NOTE_FILES_MAX,
    READ_BLOCK_BYTES,
)
from holdfast.core.memory.note_files import check_path
from holdfast.core.memory.note_types import NoteFile
from holdfast.errors import NoSuchNote, PathRejected
from holdfast.stores.files import (
    Disk,
    explaining,
    hold_lock,
    is_private,
    lock,
    open_child,
    open_file,
    open_folder,
    unlock,
    write_new,
)
from holdfast.stores.notes.note_files import TRASH

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.memory.note_types import NoteKind

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
