"""The place of the files of notes: the little that `StoredNotes` needs of a folder or a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from holdfast.core.memory.note_types import NoteFile, NoteKind

TRASH: Final = ".trash"
"""The folder of discarded files. Names that begin with a dot are ours and no notes."""


class OpenNotes(Protocol):
    """The files of one agent or owner, while nobody else changes them."""

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
