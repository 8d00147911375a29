"""Notes and files of notes, as values."""

from __future__ import annotations

from typing import Literal

import msgspec

NoteKind = Literal["file", "folder", "other", "nothing"]
"""The kind of a path among notes. `other` is a link, or something else that is not opened."""


class Note(msgspec.Struct, frozen=True):
    """A note, and its place."""

    text: str
    """The note."""
    path: str
    """Its file."""
    line: int
    """Its first line there."""
    last_line: int
    """Its last line there."""
    heading: str = ""
    """The heading it stands under."""
    ts: float | None = None
    """When code wrote it; None for a note that a person wrote."""
    session: str | None = None
    """`agent/session`"""
    records: tuple[str, ...] = ()
    """The records it came from."""
    day: str = ""
    """The day it was written, in the user's time zone, as far as the file or the line says."""


class RefusedNote(msgspec.Struct, frozen=True):
    """A text that was not noted, with its secrets masked, and the reason."""

    text: str
    why: str


class SavedNotes(msgspec.Struct, frozen=True):
    """The result of adding notes."""

    saved: tuple[Note, ...] = ()
    known: tuple[str, ...] = ()
    """Notes that were there before, in any file."""
    refused: tuple[RefusedNote, ...] = ()


class NotePassage(msgspec.Struct, frozen=True):
    """Some lines of a file of notes; from 1, both included."""

    path: str
    first_line: int
    last_line: int
    lines: int
    """The number of lines in the file."""
    text: str


class NoteFile(msgspec.Struct, frozen=True):
    """A file or folder of notes, and the marks by which a change is noticed."""

    path: str
    mtime_ns: int
    size: int
    inode: int
    is_folder: bool = False
