"""The notes that are in the files already, so that none is written twice."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.memory.note_files import keys
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.core.memory.note_types import NoteFile
    from holdfast.stores.notes.note_files import OpenNotes


class _SeenFile(msgspec.Struct, frozen=True):
    """The keys of a file: those of its whole lines, and those of the text after them."""

    file: NoteFile
    size: int
    digest: bytes
    lines: frozenset[str]
    tail: frozenset[str]


class KnownNotes:
    """The keys of all notes of an agent or owner. Only files that changed are read again."""

    def __init__(self) -> None:
        self._seen: dict[str, _SeenFile] = {}

    def keys(self, notes: OpenNotes) -> set[str]:
        """Return the keys of the notes as the files are now."""
        seen: dict[str, _SeenFile] = {}
        for file in notes.tree():
            if file.is_folder:
                continue
            before = self._seen.get(file.path)
            if before is not None and before.file == file:
                seen[file.path] = before
            else:
                seen[file.path] = _look(file, _data_or_nothing(notes, file.path), before)
        self._seen = seen
        return {key for known in seen.values() for key in (*known.lines, *known.tail)}


def _data_or_nothing(notes: OpenNotes, path: str) -> bytes:
    try:
        return notes.data(path)
    except UsageError:
        return b""  # it became something else meanwhile


def _look(file: NoteFile, data: bytes, before: _SeenFile | None) -> _SeenFile:
    """Read the keys in a file; of one that only grew, only its new lines."""
    lines: frozenset[str] = frozenset()
    start = 0
    if before is not None and _digest(data[: before.size]) == before.digest:
        lines, start = before.lines, before.size
    size = data.rfind(b"\n") + 1
    lines |= keys(data[start:size].decode(errors="replace"))
    tail = frozenset(keys(data[size:].decode(errors="replace")))
    return _SeenFile(file, size, _digest(data[:size]), lines, tail)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
