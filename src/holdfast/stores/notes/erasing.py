"""Notes that are deleted for good, also from the trash of their folder."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.memory.note_files import erase_from_file
from holdfast.stores.files import open_child, open_file, write_new
from holdfast.stores.notes.folder import note_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.stores.notes.folder import NoteFolder


def erase_session(notes: NoteFolder, folder: int, session: str) -> int:
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


def erase_all(notes: NoteFolder, folder: int) -> None:
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
