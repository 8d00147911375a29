"""Notes: plain Markdown in `<root>/agents/<agent>/memory/`, one file a day, and `MEMORY.md`.

An append is one write of whole lines under a short lock, and durable when it returns. A note that
is in any file already is not written again. Text that people write between the lines is never
changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final

from holdfast.core.log.ids import check_name
from holdfast.core.memory.note_files import (
    entries,
    inert,
    line_of,
    same_note,
    without_provenance,
)
from holdfast.core.memory.note_types import Note, NotePassage, RefusedNote, SavedNotes
from holdfast.core.secrets.redaction import Redactor
from holdfast.core.text.cut import cut, ellipsis
from holdfast.errors import NoSuchNote, NotDurable, PathRejected, UsageError
from holdfast.stores.files import Disk
from holdfast.stores.notes import erasing, journal
from holdfast.stores.notes.folder import NoteFolder
from holdfast.stores.notes.known import KnownNotes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import tzinfo

    from holdfast.core.memory.note_files import NoteEntry
    from holdfast.core.memory.note_types import NoteFile, NoteKind
    from holdfast.ports import Clock

MEMORY: Final = "MEMORY.md"
"""The file for what stays true; the others have the name of their day."""
PASSAGE_LINES: Final = 120
OWNERS: Final = "owners"
"""The folder, below the notes of an agent, with those of its owners: they are not the agent's."""

_TRIES: Final = 5
"""Writes to a file that an editor replaces at the same moment. A person saves less often."""
_SHOWN_CHARS: Final = 80
"""The length of a refused text in the answer: enough to recognise it."""


class NoteStore:
    """The notes of an agent, or of one owner among those it serves, in files.

    The notes of other owners are never read.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        agent: str,
        owner: str = "",
        *,
        clock: Clock = time.time,
        zone: tzinfo | None = None,
        redactor: Redactor | None = None,
        disk: Disk | None = None,
    ) -> None:
        """`zone` is the user's; that of the machine where it is not given.

        Text that the `redactor` would mask is not noted.
        """
        check_name("agent", agent)
        parts = ("agents", agent, "memory", *((OWNERS, _owner_name(owner)) if owner else ()))
        hidden = () if owner else (OWNERS,)
        self._folder = NoteFolder(os.fspath(root), parts, hidden=hidden, disk=disk or Disk())
        self._known = KnownNotes(self._folder)
        self.redactor = redactor or Redactor()
        self._clock = clock
        self._zone = zone

    @property
    def path(self) -> str:
        """The folder of the files."""
        return self._folder.path

    @property
    def scope(self) -> str:
        """The path of the folder below the root."""
        return "/".join(self._folder.parts)

    # Adding

    def append(
        self,
        notes: str | Iterable[str],
        *,
        session: str = "",
        records: Sequence[str] = (),
        once: str = "",
    ) -> SavedNotes:
        """Add the notes that are new, one or several, to the file of the day.

        `once` names the origin of the notes: notes that were added under that name before, and
        removed by a person since, are not added again.
        """
        several = [notes] if isinstance(notes, str) else notes
        offered, refused = _sort_out(several, self.redactor)
        with self._folder.changing() as folder:
            journal.finish_append(self._folder, folder)
            if once and once in journal.read_marks(folder):
                return SavedNotes((), tuple(offered.values()), refused)
            saved: tuple[Note, ...] = ()
            known: list[str] = []
            if offered:
                saved, known = self._add(folder, offered, session, records)
            if once:
                journal.add_mark(self._folder, folder, once)
        return SavedNotes(saved, tuple(known), refused)

    def _add(
        self, folder: int, offered: dict[str, str], session: str, records: Sequence[str]
    ) -> tuple[tuple[Note, ...], list[str]]:
        written: tuple[Note, ...] = ()
        for _try in range(_TRIES):
            known = self._known.keys(folder)
            new = {key: text for key, text in offered.items() if key not in known}
            if not new:
                break
            now = local_time(self._clock, self._zone)
            name = f"{now.date().isoformat()}.md"
            stamp = now.isoformat(timespec="seconds")
            lines = [
                line_of(text, stamp=stamp, session=session, records=records)
                for text in new.values()
            ]
            is_there, first = journal.append_lines(self._folder, folder, name, lines)
            if is_there:
                written = tuple(
                    _note(name, entry, first - 1) for entry in entries("\n".join(lines))
                )
                break
        else:
            raise NotDurable(
                f"cannot add notes to `{name}`: it was replaced {_TRIES} times meanwhile",
                hint="another program keeps writing it; the notes are not in it, try again",
            )
        own = {same_note(note.text) for note in written}
        return written, [text for key, text in offered.items() if key not in own]

    # Reading

    def notes(self, path: str | None = None) -> Iterator[Note]:
        """Yield every note, file by file in the order of their names, or those of one file."""
        if path is not None:
            yield from (_note(path, entry) for entry in entries(_decode(self.data(path))))
            return
        for file in self.files():
            with suppress(PathRejected, NoSuchNote):  # it became something else meanwhile
                yield from self.notes(file.path)

    def files(self) -> list[NoteFile]:
        """Return every file of notes."""
        with self._folder.reading() as folder:
            return self._folder.files(folder) if folder is not None else []

    def data(self, path: str) -> bytes:
        """Return the content of a file, without the part of an unfinished append."""
        self._folder.path_parts(path)
        with self._folder.reading() as folder:
            if folder is None:
                raise NoSuchNote(path)
            return journal.without_unfinished(folder, path, self._folder.data(folder, path))

    def read(self, path: str, first_line: int = 1, lines: int = PASSAGE_LINES) -> NotePassage:
        """Return some lines of a file, without the comments after them."""
        if first_line < 1 or lines < 1:
            raise UsageError(
                f"cannot read {lines} lines from line {first_line} on",
                hint="lines count from 1; ask for at least one",
            )
        text = _decode(self.data(path)).removesuffix("\n")
        found = [without_provenance(line.removesuffix("\r")) for line in text.split("\n")]
        part = found[first_line - 1 : first_line - 1 + lines]
        last = first_line + len(part) - 1
        return NotePassage(path, first_line, last, len(found), "\n".join(part))

    # Changing files as a whole, for the memory tool

    def put(self, path: str, before: bytes | None, after: bytes) -> None:
        """Write a file if it still is `before`; None: it must not exist."""
        with self._folder.changing() as folder:
            journal.finish_append(self._folder, folder)
            self._folder.put(folder, path, before, after)

    def rename(self, old: str, new: str) -> None:
        """Give a file or folder another path, where nothing is yet."""
        with self._folder.changing() as folder:
            journal.finish_append(self._folder, folder)
            self._folder.rename(folder, old, new)

    def discard(self, path: str) -> str:
        """Move a file or a folder to the trash; returns its path there."""
        with self._folder.changing() as folder:
            journal.finish_append(self._folder, folder)
            stamp = local_time(self._clock, self._zone).strftime("%Y%m%dT%H%M%S")
            return self._folder.discard(folder, path, stamp)

    def erase(self, session: str | None) -> int:
        """Delete the notes that came from a session, also from the trash; None: everything."""
        number = sum(1 for _note in self.notes()) if session is None else 0
        if not os.path.lexists(self.path):
            return 0
        with self._folder.changing() as folder:
            journal.finish_append(self._folder, folder)
            if session is not None:
                return erasing.erase_session(self._folder, folder, session)
            erasing.erase_all(self._folder, folder)
        return number

    def kind(self, path: str) -> NoteKind:
        """Return whether a path is a file, a folder, something else, or nothing."""
        self._folder.path_parts(path)
        with self._folder.reading() as folder:
            return self._folder.kind(folder, path) if folder is not None else "nothing"

    def tree(self) -> list[NoteFile]:
        """Return files and folders."""
        with self._folder.reading() as folder:
            return self._folder.tree(folder) if folder is not None else []


def local_time(clock: Clock, zone: tzinfo | None = None) -> datetime:
    """Return the time, in the user's time zone."""
    return datetime.fromtimestamp(clock(), zone).astimezone(zone)


def _decode(data: bytes) -> str:
    return data.decode(errors="replace")


def _owner_name(owner: str) -> str:
    """Return the folder of an owner: readable, and never that of another."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", owner)[:40].strip("-")
    digest = hashlib.sha256(owner.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{plain}-{digest}" if plain else digest


def _sort_out(
    notes: Iterable[str], redactor: Redactor
) -> tuple[dict[str, str], tuple[RefusedNote, ...]]:
    """Return the texts that may be noted, each once by its key, and those that may not."""
    offered: dict[str, str] = {}
    refused: list[RefusedNote] = []
    for note in notes:
        text = inert(note)
        key = same_note(text)
        masked = inert(redactor.text(note))
        if not key:
            refused.append(RefusedNote("", "it says nothing"))
        elif masked != text or redactor.text(text) != text:
            shown = cut(redactor.text(masked), _SHOWN_CHARS, keep="head", marker=ellipsis).text
            refused.append(RefusedNote(shown, "it holds what looks like a password, key or token"))
        else:
            offered.setdefault(key, text)
    return offered, tuple(refused)


def _note(path: str, entry: NoteEntry, above: int = 0) -> Note:
    """Return an entry as a note, in a file with `above` lines before the text it was read from."""
    found = journal.DAY.search(path)
    day = entry.stamp[:10] or (found[0] if found else "")
    return Note(
        text=entry.text,
        path=path,
        line=entry.first_line + above,
        last_line=entry.last_line + above,
        heading=entry.heading if entry.heading != day else "",  # ours, and says nothing more
        ts=_timestamp(entry.stamp),
        session=entry.session or None,
        records=entry.records,
        day=day,
    )


def _timestamp(stamp: str) -> float | None:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
