"""Notes: plain Markdown, one file a day, and `MEMORY.md`; in a folder or in a table.

An append is one write of whole lines under a short lock, and durable when it returns. A note that
is in any file already is not written again. Text that people write between the lines is never
changed. The rules are here, once; where the files are is a `NoteFiles`.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.ids import check_name
from holdfast.core.memory.note_files import (
    DAY,
    Note,
    NotePassage,
    RefusedNote,
    SavedNotes,
    check_path,
    entries,
    inert,
    keys,
    line_of,
    same_note,
    without_provenance,
)
from holdfast.core.owners import NO_OWNER, NamedOwner, owner_text
from holdfast.core.secrets.redaction import Redactor
from holdfast.core.text.cut import cut, ellipsis
from holdfast.errors import NoSuchNote, NotDurable, NoteChanged, PathRejected, UsageError
from holdfast.stores.files import Disk
from holdfast.stores.notes.note_files import TRASH, FolderFiles, NoteFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    from holdfast.core.memory.note_files import NoteEntry, NoteFile, NoteKind
    from holdfast.core.owners import Owner
    from holdfast.ports import Clock
    from holdfast.stores.notes.note_files import NoteFiles, OpenNotes


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


PASSAGE_LINES: Final = 120
OWNERS: Final = "owners"
"""The folder, below the notes of an agent, with those of its owners: they are not the agent's."""

_TRIES: Final = 5
"""Writes to a file that an editor replaces at the same moment. A person saves less often."""
_SHOWN_CHARS: Final = 80
"""The length of a refused text in the answer: enough to recognise it."""


class StoredNotes:
    """The `Notes` of an agent, or of one owner among those it serves.

    The notes of other owners are never read.
    """

    def __init__(
        self,
        files: NoteFiles,
        agent: str,
        owner: Owner = NO_OWNER,
        *,
        clock: Clock = time.time,
        zone: tzinfo | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        """`zone` is the user's; that of the machine where it is not given.

        Text that the `redactor` would mask is not noted.
        """
        self.scope = note_scope(agent, owner)
        self.location = files.location
        """The place of the files in words: the path of their folder, for one."""
        self._files = files
        self._hidden = _names_of_others(owner)
        self._known = KnownNotes()
        self.redactor = redactor or Redactor()
        self._clock = clock
        self._zone = zone

    # Adding

    def append(
        self,
        notes: str | Iterable[str],
        *,
        session: str = "",
        records: Sequence[str] = (),
        sources: Sequence[str] = (),
        once: str = "",
    ) -> SavedNotes:
        """Add the notes that are new, one or several, to the file of the day.

        `records` are those that all of them come from, `sources` the one that each of them was
        said in, as far as it is known, which is named first.
        `once` names the origin of the notes: notes that were added under that name before, and
        removed by a person since, are not added again.
        """
        several = [notes] if isinstance(notes, str) else list(notes)
        said_in: dict[str, str] = {}
        for text, source in zip(several, sources, strict=False):
            said_in.setdefault(same_note(inert(text)), source)
        offered, refused = _sort_out(several, self.redactor)
        with self._files.changing() as files:
            if once and once in files.marks():
                return SavedNotes((), tuple(offered.values()), refused)
            saved: tuple[Note, ...] = ()
            known: list[str] = []
            if offered:
                saved, known = self._add(files, offered, session, records, said_in)
            if once:
                files.add_mark(once)
        return SavedNotes(saved, tuple(known), refused)

    def _add(
        self,
        files: OpenNotes,
        offered: dict[str, str],
        session: str,
        records: Sequence[str],
        said_in: Mapping[str, str],
    ) -> tuple[tuple[Note, ...], list[str]]:
        written: tuple[Note, ...] = ()
        for _try in range(_TRIES):
            known = self._known.keys(files)
            new = {key: text for key, text in offered.items() if key not in known}
            if not new:
                break
            now = local_time(self._clock, self._zone)
            name = f"{now.date().isoformat()}.md"
            stamp = now.isoformat(timespec="seconds")
            lines = [
                line_of(
                    text, stamp=stamp, session=session, records=(said_in.get(key, ""), *records)
                )
                for key, text in new.items()
            ]
            is_there, first = files.append_lines(name, lines)
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
        found = [file for file in self.tree() if not file.is_folder]
        return sorted(found, key=lambda file: file.path)

    def tree(self) -> list[NoteFile]:
        """Return files and folders."""
        with self._files.reading() as files:
            return files.tree() if files is not None else []

    def kind(self, path: str) -> NoteKind:
        """Return whether a path is a file, a folder, something else, or nothing."""
        self._check(path)
        with self._files.reading() as files:
            return files.kind(path) if files is not None else "nothing"

    def data(self, path: str) -> bytes:
        """Return the content of a file, without the part of an unfinished append."""
        self._check(path)
        with self._files.reading() as files:
            if files is None:
                raise NoSuchNote(path)
            return files.data(path)

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

    def marks(self) -> set[str]:
        """Return the names that were given to `append` as `once`, as far as they are known."""
        with self._files.reading() as files:
            return files.marks() - {""} if files is not None else set()

    # Changing files as a whole, for the memory tool

    def put(self, path: str, before: bytes | None, after: bytes) -> None:
        """Write a file if it still is `before`; None: it must not exist."""
        self._check(path)
        with self._files.changing() as files:
            found = files.data(path) if files.kind(path) == "file" else None
            if found != before:
                raise NoteChanged(path)
            files.write(path, after)

    def rename(self, old: str, new: str) -> None:
        """Give a file or folder another path, where nothing is yet."""
        parts, target = self._check(old), self._check(new)
        if target[: len(parts)] == parts:
            raise UsageError(
                f"cannot move `{old}` into itself, to `{new}`",
                hint="choose a path outside of it",
            )
        with self._files.changing() as files:
            _check_plain(files, old)
            if files.kind(new) != "nothing":
                raise NoteChanged(new)
            files.move(old, new)

    def discard(self, path: str) -> str:
        """Move a file or a folder to the trash; returns its path there."""
        parts = self._check(path)
        with self._files.changing() as files:
            _check_plain(files, path)
            stamp = local_time(self._clock, self._zone).strftime("%Y%m%dT%H%M%S")
            taken, number, name = files.trash(), 1, f"{stamp}-{parts[-1]}"
            while name in taken:
                number += 1
                name = f"{stamp}-{number}-{parts[-1]}"
            files.move(path, f"{TRASH}/{name}")
        return f"{TRASH}/{name}"

    def erase(self, session: str | None) -> int:
        """Delete the notes that came from a session, also from the trash; None: everything."""
        number = sum(1 for _note in self.notes()) if session is None else 0
        with self._files.reading() as files:
            if files is None:
                return 0  # nothing is made in order to be erased
        with self._files.changing() as files:
            if session is not None:
                return files.erase_session(session)
            files.erase_all()
        return number

    def _check(self, path: str) -> tuple[str, ...]:
        """Return the parts of a path; raises `PathRejected` where no note may be."""
        return check_path(path, hidden=self._hidden)


class NoteStore(StoredNotes):
    """Notes in files: `<root>/agents/<agent>/memory/`."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        agent: str,
        owner: Owner = NO_OWNER,
        *,
        clock: Clock = time.time,
        zone: tzinfo | None = None,
        redactor: Redactor | None = None,
        disk: Disk | None = None,
    ) -> None:
        """The parameters of `StoredNotes`, and the root of the files."""
        parts = note_scope(agent, owner).split("/")
        folder = NoteFolder(
            os.fspath(root), parts, hidden=_names_of_others(owner), disk=disk or Disk()
        )
        files = FolderFiles(folder, owner)
        super().__init__(files, agent, owner, clock=clock, zone=zone, redactor=redactor)


def note_scope(agent: str, owner: Owner) -> str:
    """Return the name of the notes of an agent or one of its owners, among all of a store."""
    check_name("agent", agent)
    name = owner_text(owner)
    of_owner = (OWNERS, _owner_folder(name)) if name else ()
    return "/".join(("agents", agent, "memory", *of_owner))


def _names_of_others(owner: Owner) -> tuple[str, ...]:
    """Return the names that are no notes of this owner: those of others, for the agent itself."""
    return () if isinstance(owner, NamedOwner) else (OWNERS,)


def _check_plain(files: OpenNotes, path: str) -> None:
    match files.kind(path):
        case "nothing":
            raise NoSuchNote(path)
        case "other":
            raise PathRejected(
                f"cannot move `{path}`: it is a link, or something other than a file of notes",
                hint="nothing was moved; look at it with `ls -l`",
            )
        case "file" | "folder":
            pass


def local_time(clock: Clock, zone: tzinfo | None = None) -> datetime:
    """Return the time, in the user's time zone."""
    return datetime.fromtimestamp(clock(), zone).astimezone(zone)


def _decode(data: bytes) -> str:
    return data.decode(errors="replace")


def _owner_folder(name: str) -> str:
    """Return the folder of an owner: readable, and never that of another."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:40].strip("-")
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
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
    found = DAY.search(path)
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
