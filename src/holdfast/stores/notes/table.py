"""Files of notes as rows of a table: a path, and its content.

A store that is no folder implements `NoteTable`, three methods on rows, and gets the rest here.
Folders are only the beginnings of paths. Every change is one transaction of the table, so there is
nothing to finish after a crash.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

from holdfast.core.limits import NOTE_DEPTH_MAX, NOTE_FILE_BYTES_MAX, NOTE_FILES_MAX
from holdfast.core.memory.note_files import NoteFile, bytes_to_append, erase_from_file
from holdfast.errors import NoSuchNote, PathRejected
from holdfast.stores.notes.note_files import TRASH

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from holdfast.core.memory.note_files import NoteKind
    from holdfast.ports import Clock

_MARKS: Final = ".flushed"


class NoteRows(Protocol):
    """The rows of one scope of notes, within a transaction."""

    def files(self) -> list[NoteFile]:
        """Return every row: `inode` and `mtime_ns` differ once the content was written again."""

    def load(self, path: str) -> bytes | None:
        """Return the content at a path; None where there is no row."""

    def save(self, path: str, data: bytes | None) -> None:
        """Replace the content at a path; None deletes the row."""


class NoteTable(Protocol):
    """The table with the notes of one scope (one agent, or one owner of an agent)."""

    @property
    def location(self) -> str:
        """The place in words, for people."""

    def changing(self) -> AbstractContextManager[NoteRows]:
        """Begin a transaction that keeps every other writer of this scope out until its end.

        All of its changes are durable then, or none is where the block raises.
        """

    def reading(self) -> AbstractContextManager[NoteRows]:
        """Begin to read one state of the rows."""


class TableFiles:
    """The `NoteFiles` of a table."""

    def __init__(self, table: NoteTable) -> None:
        self._table = table

    @property
    def location(self) -> str:
        return self._table.location

    @contextmanager
    def changing(self) -> Iterator[OpenTable]:
        with self._table.changing() as rows:
            yield OpenTable(rows)

    @contextmanager
    def reading(self) -> Iterator[OpenTable]:
        with self._table.reading() as rows:
            yield OpenTable(rows)


class OpenTable:
    """The rows of a table as `OpenNotes`."""

    def __init__(self, rows: NoteRows) -> None:
        self._rows = rows

    def tree(self) -> list[NoteFile]:
        files = [file for file in self._rows.files() if not file.path.startswith(".")]
        folders: dict[str, NoteFile] = {}
        for file in files:
            for path in _folders_above(file.path):
                newest = max(file.mtime_ns, folders[path].mtime_ns if path in folders else 0)
                folders[path] = NoteFile(path, newest, 0, 0, is_folder=True)
        found = sorted([*files, *folders.values()], key=lambda file: file.path.split("/"))
        return found[:NOTE_FILES_MAX]

    def kind(self, path: str) -> NoteKind:
        if self._rows.load(path) is not None:
            return "file"
        return "folder" if self._below(path) else "nothing"

    def data(self, path: str) -> bytes:
        data = self._rows.load(path)
        if data is None:
            raise NoSuchNote(path, [file.path for file in self.tree() if not file.is_folder])
        return data[:NOTE_FILE_BYTES_MAX]

    def write(self, path: str, data: bytes) -> None:
        if self._below(path):
            raise PathRejected(f"cannot write `{path}`: it is a folder", hint="choose another path")
        for above in _folders_above(path):
            if self._rows.load(above) is not None:
                raise PathRejected(
                    f"cannot write `{path}`: `{above}` is a file", hint="choose another path"
                )
        self._rows.save(path, data)

    def move(self, path: str, new: str) -> None:
        for old in [path, *self._below(path)]:
            data = self._rows.load(old)
            if data is not None:
                self.write(new + old.removeprefix(path), data)
                self._rows.save(old, None)

    def append_lines(self, name: str, lines: Sequence[str]) -> tuple[bool, int]:
        before = self._rows.load(name) or b""
        data, first = bytes_to_append(name, before, lines)
        self.write(name, before + data)
        return True, first

    def trash(self) -> set[str]:
        return {path.split("/")[1] for path in self._below(TRASH)}

    def marks(self) -> set[str]:
        return set((self._rows.load(_MARKS) or b"").decode(errors="replace").split("\n"))

    def add_mark(self, once: str) -> None:
        self._rows.save(_MARKS, (self._rows.load(_MARKS) or b"") + f"{once}\n".encode())

    def erase_session(self, session: str) -> int:
        total = 0
        for path in [file.path for file in self._rows.files() if file.path != _MARKS]:
            data = self._rows.load(path) or b""
            left, number = erase_from_file(path.split("/")[-1], data, session)
            if number:
                self._rows.save(path, left)
            total += number
        return total

    def erase_all(self) -> None:
        for file in self._rows.files():
            self._rows.save(file.path, None)

    def _below(self, folder: str) -> list[str]:
        return [file.path for file in self._rows.files() if file.path.startswith(f"{folder}/")]


def holds_notes(rows: NoteRows) -> bool:
    """Return whether there is more than a trash."""
    return any(not file.path.startswith(f"{TRASH}/") for file in rows.files())


def _folders_above(path: str) -> list[str]:
    parts = path.split("/", NOTE_DEPTH_MAX + 1)  # no path has more, in the trash neither
    return ["/".join(parts[:number]) for number in range(1, len(parts))]


class MemoryNoteTable:
    """A `NoteTable` that is lost with the object. Safe for threads."""

    def __init__(self, scope: str, *, clock: Clock = time.time) -> None:
        self.location = f"memory:{scope}"
        self._clock = clock
        self._mutex = threading.RLock()
        self._writes = count(1)
        self._rows: dict[str, tuple[NoteFile, bytes]] = {}

    @contextmanager
    def changing(self) -> Iterator[MemoryNoteTable]:
        with self._mutex:
            before = dict(self._rows)
            try:
                yield self
            except BaseException:
                self._rows = before
                raise

    @contextmanager
    def reading(self) -> Iterator[MemoryNoteTable]:
        with self._mutex:
            yield self

    def files(self) -> list[NoteFile]:
        return [file for file, _data in self._rows.values()]

    def load(self, path: str) -> bytes | None:
        return self._rows[path][1] if path in self._rows else None

    def save(self, path: str, data: bytes | None) -> None:
        if data is None:
            self._rows.pop(path, None)
            return
        file = NoteFile(path, int(self._clock() * 1e9), len(data), next(self._writes))
        self._rows[path] = file, bytes(data)
