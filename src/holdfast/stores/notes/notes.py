"""Notes: plain Markdown in `<root>/agents/<agent>/memory/`, one file a day, and `MEMORY.md`.

An append is one write of whole lines under a short lock, and on the medium when it returns. A note
that is there already, in whatever file, is not written again. Before the write, the lines go into
`.appending`: should it be cut off, the next append writes the rest, and no reader takes half a line
for a note. What people write between the lines is never changed.
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

from holdfast.core.limits import NOTE_FILE_BYTES_MAX
from holdfast.core.log.ids import check_name
from holdfast.core.memory.note_files import (
    entries,
    inert,
    keys,
    line_of,
    same_note,
    without_provenance,
)
from holdfast.core.secrets.redaction import Redactor
from holdfast.core.text.cut import cut, ellipsis
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import NoSuchNote, NotDurable, PathRejected, StoreUnavailable, UsageError
from holdfast.stores.files import Disk, open_file, write_new, write_whole
from holdfast.stores.notes.folder import NoteFile, NoteFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import tzinfo

    from holdfast.core.memory.note_files import Entry
    from holdfast.ports import Clock
    from holdfast.stores.notes.folder import Kind

MEMORY: Final = "MEMORY.md"
"""The file for what stays true; the others have the name of their day."""
PASSAGE_LINES: Final = 120
OWNERS: Final = "owners"
"""Below the notes of an agent: the notes of its owners, which are not the agent's."""

_JOURNAL: Final = ".appending"
_MARKS: Final = ".flushed"
_DAY: Final = lazy_pattern(r"\d{4,}-\d{2}-\d{2}(?=\.md\Z)")
_TRIES: Final = 5
_SHOWN_CHARS: Final = 80


class Note(msgspec.Struct, frozen=True):
    """A note, and where it stands."""

    text: str
    path: str
    line: int
    last_line: int
    heading: str = ""
    ts: float | None = None
    """When code wrote it; nobody knows when a person did."""
    session: str | None = None
    """`agent/session`"""
    records: tuple[str, ...] = ()
    day: str = ""
    """The day it was written, in the user's time zone, as far as the file or the line says."""


class Refused(msgspec.Struct, frozen=True):
    """A text that was not noted, with its secrets masked, and why not."""

    text: str
    why: str


class Kept(msgspec.Struct, frozen=True):
    """What came of an append."""

    saved: tuple[Note, ...] = ()
    known: tuple[str, ...] = ()
    """What was noted before, here or in another file."""
    refused: tuple[Refused, ...] = ()


class Passage(msgspec.Struct, frozen=True):
    """Some lines of a file of notes; from 1, both included."""

    path: str
    first_line: int
    last_line: int
    lines: int
    """How many the file has."""
    text: str


class _Journal(msgspec.Struct, frozen=True):
    """An append that has begun: what it adds to which file from which byte on."""

    name: str
    size: int
    data: bytes


class _Seen(msgspec.Struct, frozen=True):
    """What is known of a file: of its whole lines, and of what follows them."""

    file: NoteFile
    size: int
    digest: bytes
    lines: frozenset[str]
    tail: frozenset[str]


class NoteStore:
    """The notes of an agent, or of one owner among those it serves. Nobody else's are read."""

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
        """`zone` is the user's; the machine's where it is not given.

        What the `redactor` would mask is not noted.
        """
        check_name("agent", agent)
        parts = ("agents", agent, "memory", *((OWNERS, _owner_name(owner)) if owner else ()))
        hidden = () if owner else (OWNERS,)
        self._disk = disk or Disk()
        self.folder = NoteFolder(os.fspath(root), parts, hidden=hidden, disk=self._disk)
        self.redactor = redactor or Redactor()
        self._clock = clock
        self._zone = zone
        self._seen: dict[str, _Seen] = {}

    @property
    def path(self) -> str:
        """Where the files are."""
        return self.folder.path

    def now(self) -> datetime:
        """The moment, in the user's time zone."""
        return datetime.fromtimestamp(self._clock(), self._zone).astimezone(self._zone)

    # Adding

    def append(
        self,
        notes: str | Iterable[str],
        *,
        session: str = "",
        records: Sequence[str] = (),
        once: str = "",
    ) -> Kept:
        """Add what is new, one note or several, to the file of the day.

        `once` names what the notes came from: what was added under that name before, and taken
        out by a person since, is not added again.
        """
        several = [notes] if isinstance(notes, str) else notes
        offered, refused = _offered(several, self.redactor)
        with self.folder.changing() as folder:
            self._finish(folder)
            if once and once in self._marks(folder):
                return Kept((), tuple(offered.values()), refused)
            saved: tuple[Note, ...] = ()
            known: list[str] = []
            if offered:
                saved, known = self._add(folder, offered, session, records)
            if once:
                self._mark(folder, once)
        return Kept(saved, tuple(known), refused)

    def _add(
        self, folder: int, offered: dict[str, str], session: str, records: Sequence[str]
    ) -> tuple[tuple[Note, ...], list[str]]:
        written: tuple[Note, ...] = ()
        for _try in range(_TRIES):
            noted = self._keys(folder)
            new = {key: text for key, text in offered.items() if key not in noted}
            if not new:
                break
            now = self.now()
            name = f"{now.date().isoformat()}.md"
            stamp = now.isoformat(timespec="seconds")
            lines = [
                line_of(text, stamp=stamp, session=session, records=records)
                for text in new.values()
            ]
            is_there, first = self._write(folder, name, lines)
            if is_there:
                written = tuple(
                    _note(name, entry, first - 1) for entry in entries("\n".join(lines))
                )
                break
        else:
            raise NotDurable(
                f"`{name}` was replaced {_TRIES} times while notes were added to it",
                hint="another program keeps writing it; the notes are not in it, try again",
            )
        own = {same_note(note.text) for note in written}
        return written, [text for key, text in offered.items() if key not in own]

    def _write(self, folder: int, name: str, lines: Sequence[str]) -> tuple[bool, int]:
        """Add lines to a file; whether it is still the one by that name, and the first's number.

        An editor that saves at the same moment puts another file in its place.
        """
        fd = self._opened(folder, name)
        try:
            size, before = os.fstat(fd).st_size, _text_before(fd, name)
            end = b"\r\n" if before.endswith(b"\r\n") else b"\n"
            head = [] if size else [f"# {name.removesuffix('.md')}".encode(), b""]
            lead = end if size and not before.endswith(b"\n") else b""
            data = lead + end.join([*head, *(line.encode() for line in lines), b""])
            journal = msgspec.json.encode(_Journal(name, size, data))
            write_new(folder, _JOURNAL, [journal], self._disk)
            write_whole(fd, data, self._disk)
            self._disk.sync(fd)
            with suppress(FileNotFoundError):
                os.unlink(_JOURNAL, dir_fd=folder)
            first = before.count(b"\n") + lead.count(b"\n") + len(head) + 1
            return _is_same(folder, name, fd), first
        finally:
            os.close(fd)

    def _opened(self, folder: int, name: str) -> int:
        flags = os.O_RDWR | os.O_APPEND
        with suppress(FileNotFoundError):
            return open_file(folder, name, flags)
        fd = open_file(folder, name, flags | os.O_CREAT)
        try:
            self._disk.sync_folder(folder)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _finish(self, folder: int) -> None:
        """Write the rest of an append that was cut off, and forget about it."""
        journal = _journal(folder)
        if journal is None:
            return
        rest = _rest(journal, self._raw(folder, journal.name))
        if rest:
            fd = self._opened(folder, journal.name)
            try:
                write_whole(fd, rest, self._disk)
                self._disk.sync(fd)
            finally:
                os.close(fd)
        with suppress(FileNotFoundError):
            os.unlink(_JOURNAL, dir_fd=folder)

    def _raw(self, folder: int, path: str) -> bytes:
        try:
            return self.folder.data(folder, path)
        except UsageError:
            return b""

    def _keys(self, folder: int) -> set[str]:
        """What is noted in all files; only those that changed are read again."""
        seen: dict[str, _Seen] = {}
        for file in self.folder.files(folder):
            before = self._seen.get(file.path)
            if before is not None and before.file == file:
                seen[file.path] = before
            else:
                seen[file.path] = _look(file, self._raw(folder, file.path), before)
        self._seen = seen
        return {key for one in seen.values() for key in (*one.lines, *one.tail)}

    def _marks(self, folder: int) -> set[str]:
        try:
            fd = open_file(folder, _MARKS, os.O_RDONLY)
        except FileNotFoundError:
            return set()
        with os.fdopen(fd, "rb") as file:
            return set(file.read().decode(errors="replace").split("\n"))

    def _mark(self, folder: int, once: str) -> None:
        # Neither synced nor insisted on: without it the same notes are looked for again, and found.
        with suppress(OSError):
            fd = open_file(folder, _MARKS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                write_whole(fd, f"\n{once}\n".encode(), self._disk)
            finally:
                os.close(fd)

    # Looking

    def notes(self, path: str | None = None) -> Iterator[Note]:
        """Every note, file by file in the order of their names, or those of one file."""
        if path is not None:
            yield from (_note(path, entry) for entry in entries(self.text(path)))
            return
        for file in self.files():
            with suppress(PathRejected, NoSuchNote):  # it became something else meanwhile
                yield from self.notes(file.path)

    def files(self) -> list[NoteFile]:
        """Every file of notes and what it can be told by."""
        with self.folder.reading() as folder:
            return self.folder.files(folder) if folder is not None else []

    def text(self, path: str) -> str:
        """A file as it stands, without what an append has not finished yet."""
        return self.data(path).decode(errors="replace")

    def data(self, path: str) -> bytes:
        """The same in bytes, for who wants to put something in its place."""
        self.folder.checked(path)
        with self.folder.reading() as folder:
            if folder is None:
                raise NoSuchNote(path)
            data = self.folder.data(folder, path)
            journal = _journal(folder)
            if journal is not None and journal.name == path and _rest(journal, data):
                return data[: journal.size]
            return data

    def read(self, path: str, first_line: int = 1, lines: int = PASSAGE_LINES) -> Passage:
        """Some lines of a file, without the comments behind them."""
        if first_line < 1 or lines < 1:
            raise UsageError(
                f"there are no {lines} lines from line {first_line} on",
                hint="lines count from 1; ask for at least one",
            )
        text = self.text(path).removesuffix("\n")
        found = [without_provenance(line.removesuffix("\r")) for line in text.split("\n")]
        part = found[first_line - 1 : first_line - 1 + lines]
        last = first_line + len(part) - 1
        return Passage(path, first_line, last, len(found), "\n".join(part))

    # Changing files as a whole, for the memory tool

    def put(self, path: str, before: bytes | None, after: bytes) -> None:
        """Write a file anew if it still is `before`; none: there must be none yet."""
        with self.folder.changing() as folder:
            self._finish(folder)
            self.folder.put(folder, path, before, after)

    def rename(self, old: str, new: str) -> None:
        with self.folder.changing() as folder:
            self._finish(folder)
            self.folder.rename(folder, old, new)

    def discard(self, path: str) -> str:
        """Move a file or a folder to the trash; returns where it is now."""
        with self.folder.changing() as folder:
            self._finish(folder)
            stamp = self.now().strftime("%Y%m%dT%H%M%S")
            return self.folder.discard(folder, path, stamp)

    def kind(self, path: str) -> Kind:
        """What is there; `other` is a link or whatever else is not looked into."""
        self.folder.checked(path)
        with self.folder.reading() as folder:
            return self.folder.kind(folder, path) if folder is not None else "nothing"

    def tree(self) -> list[NoteFile]:
        """Files and folders."""
        with self.folder.reading() as folder:
            return self.folder.tree(folder) if folder is not None else []


def _owner_name(owner: str) -> str:
    """The folder of an owner: readable, and never that of another."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", owner)[:40].strip("-")
    digest = hashlib.sha256(owner.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{plain}-{digest}" if plain else digest


def _offered(
    notes: Iterable[str], redactor: Redactor
) -> tuple[dict[str, str], tuple[Refused, ...]]:
    """What may be noted, each once, and what may not."""
    offered: dict[str, str] = {}
    refused: list[Refused] = []
    for said in notes:
        text = inert(said)
        key = same_note(text)
        masked = inert(redactor.text(said))
        if not key:
            refused.append(Refused("", "it says nothing"))
        elif masked != text or redactor.text(text) != text:
            shown = cut(redactor.text(masked), _SHOWN_CHARS, keep="head", marker=ellipsis).text
            refused.append(Refused(shown, "it holds what looks like a password, key or token"))
        else:
            offered.setdefault(key, text)
    return offered, tuple(refused)


def _note(path: str, entry: Entry, above: int = 0) -> Note:
    """What an entry says and where it stands, if `above` lines are above it."""
    found = _DAY.search(path)
    day = entry.stamp[:10] or (found[0] if found else "")
    return Note(
        text=entry.text,
        path=path,
        line=entry.first_line + above,
        last_line=entry.last_line + above,
        heading=entry.heading if entry.heading != day else "",  # ours, and says nothing more
        ts=_moment(entry.stamp),
        session=entry.session or None,
        records=entry.records,
        day=day,
    )


def _moment(stamp: str) -> float | None:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _look(file: NoteFile, data: bytes, before: _Seen | None) -> _Seen:
    """The keys in a file; of one that only grew, only its new lines are read."""
    lines: frozenset[str] = frozenset()
    start = 0
    if before is not None and _digest(data[: before.size]) == before.digest:
        lines, start = before.lines, before.size
    size = data.rfind(b"\n") + 1
    lines |= keys(data[start:size].decode(errors="replace"))
    tail = frozenset(keys(data[size:].decode(errors="replace")))
    return _Seen(file, size, _digest(data[:size]), lines, tail)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _text_before(fd: int, name: str) -> bytes:
    """What is in a file that lines are to be added to, if they can be."""
    size = os.fstat(fd).st_size
    if size > NOTE_FILE_BYTES_MAX:
        raise StoreUnavailable(
            f"`{name}` has {size:,} bytes; notes are added up to {NOTE_FILE_BYTES_MAX:,}",
            hint="move some of it to another file in the same folder",
        )
    data = os.pread(fd, size, 0)
    if b"\0" in data:
        raise PathRejected(
            f"`{name}` is not a text file in UTF-8: it has zero bytes",
            hint="nothing was added; save it as UTF-8, or move it away",
        )
    return data


def _is_same(folder: int, name: str, fd: int) -> bool:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    mine = os.fstat(fd)
    return (found.st_ino, found.st_dev) == (mine.st_ino, mine.st_dev)


def _journal(folder: int) -> _Journal | None:
    """The append that was begun last and not seen to its end."""
    try:
        fd = open_file(folder, _JOURNAL, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file, suppress(msgspec.DecodeError, UnicodeDecodeError):
        journal = msgspec.json.decode(file.read(), type=_Journal)
        return journal if _DAY.match(journal.name) else None
    return None


def _rest(journal: _Journal, data: bytes) -> bytes:
    """What is missing of an append of which a part is there."""
    tail = data[journal.size :]
    if 0 < len(tail) < len(journal.data) and journal.data.startswith(tail):
        return journal.data[len(tail) :]
    return b""
