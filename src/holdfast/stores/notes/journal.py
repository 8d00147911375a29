"""Appends to files of notes that are finished after a crash.

Before lines are written, they go into `.appending` together with their place. Should the write be
cut off, the next append writes the rest, and no reader takes half a line for a note.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import NOTE_FILE_BYTES_MAX
from holdfast.core.memory.note_files import DAY, bytes_to_append
from holdfast.core.text.typed import decode_typed
from holdfast.errors import UsageError
from holdfast.stores.files import has_name, open_file, open_to_append, write_new, write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.stores.notes.folder import NoteFolder

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
