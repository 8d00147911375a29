"""A folder as `NoteFiles`: opened and locked for each use, with its redo journal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.core.owners import NO_OWNER, NamedOwner
from holdfast.stores.notes import erasing, journal
from holdfast.stores.notes.owner_file import keep_owner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.memory.note_types import NoteFile, NoteKind
    from holdfast.core.owners import Owner
    from holdfast.stores.notes.folder import NoteFolder


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
            journal.finish_append(self._folder, fd)
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
        return journal.without_unfinished(self._fd, path, data)

    def write(self, path: str, data: bytes) -> None:
        self._keep_owner()
        self._folder.write(self._fd, path, data)

    def move(self, path: str, new: str) -> None:
        self._folder.move(self._fd, path, new)

    def append_lines(self, name: str, lines: Sequence[str]) -> tuple[bool, int]:
        self._keep_owner()
        return journal.append_lines(self._folder, self._fd, name, lines)

    def trash(self) -> set[str]:
        return self._folder.names_in_trash(self._fd)

    def marks(self) -> set[str]:
        return journal.read_marks(self._fd)

    def add_mark(self, once: str) -> None:
        journal.add_mark(self._folder, self._fd, once)

    def erase_session(self, session: str) -> int:
        return erasing.erase_session(self._folder, self._fd, session)

    def erase_all(self) -> None:
        erasing.erase_all(self._folder, self._fd)

    def _keep_owner(self) -> None:
        if isinstance(self._owner, NamedOwner):
            keep_owner(self._folder, self._fd, self._owner)
