"""Notes as they stand in a file: Markdown that people edit and code adds lines to.

What code adds is one bullet a line, with where it came from in a comment behind it:

    - Releases go out on Tuesdays. <!-- hf: 2026-11-16T03:20:00+01:00 main/work 19c0a1 -->

The comment is not part of the note. What people write needs none: every bullet and every paragraph
is a note as well. Nothing here changes a line that is in a file already.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.limits import (
    NOTE_CHARS_MAX,
    NOTE_DEPTH_MAX,
    NOTE_FILE_BYTES_MAX,
    NOTE_NAME_CHARS_MAX,
    NOTE_RECORDS_MAX,
)
from holdfast.core.text.cut import cut, ellipsis, scrub
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import PathRejected, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


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


MEMORY: Final = "MEMORY.md"
"""The file for what stays true; the others have the name of their day."""
SIGN: Final = "<!-- hf:"
"""The opening of the comment behind a line; people never write it."""

_PROVENANCE: Final = lazy_pattern(
    r"<!-- hf: (?P<stamp>\S+)(?: (?P<session>\S+))?(?: (?P<records>\S+))? -->\s*\Z"
)
_ANY_SIGN: Final = lazy_pattern(r"<!--\s*hf\b(?:(?!-->).)*(?:-->|\Z)", re.DOTALL)
_ID: Final = lazy_pattern(r"[A-Za-z0-9@][A-Za-z0-9@_.:/-]*")
_BULLET: Final = lazy_pattern(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?=\S)")
_RULE: Final = lazy_pattern(r"[ \t]*(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|=+)\Z")
_HEADING: Final = lazy_pattern(r" {0,3}#{1,6}[ \t]++(.*)\Z")
_FENCE: Final = lazy_pattern(r" {0,3}(`{3,}|~{3,})")
_MARKS: Final = lazy_pattern(r"\A(?:[#>*+=|-]+(?=\s|\Z)|`{3,}|~{3,}|[#>-]{2,}|\s)+")
_UNSEEN: Final = lazy_pattern(
    "[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]+"
)
"""Characters that show nothing, or turn round what is shown."""
_BEFORE: Final = "\"'`*([{<“”‘’«„「『（"
_BEHIND: Final = ".,;:!?…\"'`*)]}>“”‘’»」』）。，、；：！？"
DAY: Final = lazy_pattern(r"(?<!\d)\d{4,}-\d{2}-\d{2}(?=\.md\Z)")
"""The name of the file of a day. Only such files are appended to."""
_ENCODED: Final = lazy_pattern(r"%[0-9A-Fa-f]{2}")


class NoteEntry(msgspec.Struct, frozen=True):
    """A note in a file: a bullet, a paragraph, or a block of code; lines count from 1."""

    text: str
    first_line: int
    last_line: int
    heading: str = ""
    """The heading it stands under, where a person put it there."""
    stamp: str = ""
    session: str = ""
    records: tuple[str, ...] = ()


# Writing


def inert(text: str) -> str:
    """A note as it goes into a file: one line, bounded, that opens and closes nothing there."""
    flat = " ".join(_UNSEEN.sub(" ", scrub(text)).split())
    flat = flat.replace("<!--", "<! --").replace("-->", "-- >")
    flat = _MARKS.sub("", flat)
    return cut(flat, NOTE_CHARS_MAX, keep="head", marker=ellipsis).text


def line_of(text: str, *, stamp: str, session: str = "", records: Sequence[str] = ()) -> str:
    """The line for a note that is `inert`, without its end."""
    words = [SIGN, stamp]
    if _ID.fullmatch(session):
        words.append(session)
        known = [record for record in records if _ID.fullmatch(record)]
        words += [",".join(known[-NOTE_RECORDS_MAX:])] if known else []
    return f"- {text} {' '.join(words)} -->"


def same_note(text: str) -> str:
    """Return the key shared by notes that say the same: without case, spaces and punctuation.

    Only what stands around a word is left out: `C++` and `C#` are not the same.
    """
    words = unicodedata.normalize("NFC", text).casefold().split()
    bare = (word.lstrip(_BEFORE).rstrip(_BEHIND) for word in words)
    return " ".join(word for word in bare if word.strip("-–—_"))


def bytes_to_append(name: str, before: bytes, lines: Sequence[str]) -> tuple[bytes, int]:
    """Return the bytes that add lines to a file, and the number of the first line added.

    A new file gets its day as a heading. Raises where nothing can be added to the file.
    """
    if len(before) > NOTE_FILE_BYTES_MAX:
        raise StoreUnavailable(
            f"cannot add notes to `{name}`: it has more than {NOTE_FILE_BYTES_MAX:,} bytes",
            hint="move some of it to another file in the same folder",
        )
    if b"\0" in before:
        raise PathRejected(
            f"cannot add notes to `{name}`: it has zero bytes, so it is not text in UTF-8",
            hint="nothing was added; save it as UTF-8, or move it away",
        )
    end = b"\r\n" if before.endswith(b"\r\n") else b"\n"
    head = [] if before else [f"# {name.removesuffix('.md')}".encode(), b""]
    lead = end if before and not before.endswith(b"\n") else b""
    data = lead + end.join([*head, *(line.encode() for line in lines), b""])
    return data, before.count(b"\n") + lead.count(b"\n") + len(head) + 1


# Reading


def entries(text: str) -> list[NoteEntry]:
    """The notes in a file, in the order they stand in."""
    return list(_Reader().read(text))


def keys(text: str) -> set[str]:
    """`same_note` of every line of a file: what need not be noted again."""
    return {same_note(_without_marks(line)[0]) for line in text.split("\n")} - {""}


def without_provenance(line: str) -> str:
    """A line as a person would have written it."""
    place = line.find(SIGN, line.rfind("\n") + 1)
    return line if place < 0 else line[:place].rstrip()


def without_session(text: str, session: str) -> tuple[str, int]:
    """Return a file without the lines that code noted from a session, and their number."""
    lines = text.split("\n")
    kept = [line for line in lines if not _is_from(line, session)]
    return "\n".join(kept), len(lines) - len(kept)


def erase_from_file(name: str, data: bytes, session: str) -> tuple[bytes | None, int]:
    """Return a file without the lines that code noted from a session, and their number.

    None in place of the file where nothing but its heading is left.
    """
    text, number = without_session(data.decode(errors="surrogateescape"), session)
    if not number:
        return data, 0
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or (len(lines) == 1 and lines[0].removeprefix("# ") in name):
        return None, number
    return text.encode(errors="surrogateescape"), number


def _is_from(line: str, session: str) -> bool:
    found = _PROVENANCE.search(line) if SIGN in line else None
    return found is not None and found["session"] == session


def forges_comments(before: str, after: str) -> bool:
    """Return whether an edit brings in comments about where a line came from: only code writes
    those."""
    known = set(_ANY_SIGN.findall(before))
    return any(found not in known for found in _ANY_SIGN.findall(after))


class _Reader:
    """Goes through the lines of a file and gathers those that belong together."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._first = 0
        self._heading = ""
        self._fence = ""
        self._is_comment = False
        self._found: re.Match[str] | None = None

    def read(self, text: str) -> Iterator[NoteEntry]:
        for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
            yield from self._line(number, raw.removesuffix("\r"))
        yield from self._close()

    def _line(self, number: int, line: str) -> Iterator[NoteEntry]:
        if SIGN in line and _BULLET.match(line) and _PROVENANCE.search(line):
            # Code wrote it, whatever someone left open above it.
            yield from self._close()
            self._is_comment = False
            yield from self._words(number, line)
            return
        if self._fence:
            self._lines.append(line)
            if line.strip().startswith(self._fence) and not line.strip(" `~"):
                yield from self._close()
            return
        if self._is_comment or line.lstrip().startswith("<!--"):
            yield from self._close()
            self._is_comment = "-->" not in line
            return
        if fence := _FENCE.match(line):
            yield from self._close()
            self._fence = fence[1]
            self._begin(number, line)
        elif not line.strip() or _RULE.match(line):
            yield from self._close()
        elif heading := _HEADING.match(line):
            yield from self._close()
            self._heading = heading[1].rstrip("#").rstrip(" \t")
        else:
            yield from self._words(number, line)

    def _words(self, number: int, line: str) -> Iterator[NoteEntry]:
        text, found = _without_marks(line)
        if _BULLET.match(line) or not self._lines:
            yield from self._close()
            self._begin(number, text)
        else:
            self._lines.append(text)
        if found is not None:
            self._found = found
            yield from self._close()  # code writes one line a note

    def _begin(self, number: int, line: str) -> None:
        self._first, self._lines = number, [line]

    def _close(self) -> Iterator[NoteEntry]:
        text = "\n".join(self._lines)
        if not self._fence:
            text = " ".join(text.split())
        if text:
            yield NoteEntry(
                text,
                self._first,
                self._first + len(self._lines) - 1,
                self._heading if self._found is None else "",
                *_origin(self._found),
            )
        self._lines, self._fence, self._found = [], "", None


def _origin(found: re.Match[str] | None) -> tuple[str, str, tuple[str, ...]]:
    if found is None:
        return "", "", ()
    records = found["records"]
    return found["stamp"], found["session"] or "", tuple(records.split(",")) if records else ()


def _without_marks(line: str) -> tuple[str, re.Match[str] | None]:
    """Return the text of a line without bullet and comment, and the comment."""
    line = line.removesuffix("\r")
    found = _PROVENANCE.search(line) if SIGN in line else None
    said = line[: found.start()].rstrip() if found else without_provenance(line)
    bullet = _BULLET.match(said)
    return said[bullet.end() :] if bullet else said, found


# Paths


def check_path(path: str, *, hidden: Iterable[str] = ()) -> tuple[str, ...]:
    """The parts of a path below the folder of notes, if every one of them is a plain name.

    `hidden` are names at the top that are not this caller's.
    """
    parts = tuple(path.split("/"))
    folded = [unicodedata.normalize("NFKC", part).casefold() for part in parts]
    why = (
        f"it has more than {NOTE_DEPTH_MAX} parts"
        if len(parts) > NOTE_DEPTH_MAX
        else next(filter(None, map(_why_not, folded)), "")
    )
    if not why and folded[0] in hidden:
        why = f"`{parts[0]}` is kept for Holdfast itself"
    if why:
        raise PathRejected(
            f"{cut(ascii(path), 120).text} cannot be the path of a note: {why}",
            hint="give a path below the folder of notes, such as `MEMORY.md` or `projects/site.md`",
        )
    return parts


def _why_not(part: str) -> str:
    """Return the fault in a name, for the strictest file system; empty if there is none."""
    if part in ("", ".", ".."):
        return f"{part!a} is not a name"
    if part.startswith("."):
        return "names that begin with a dot are hidden"
    if len(part.encode(errors="replace")) > NOTE_NAME_CHARS_MAX:
        return f"a name has at most {NOTE_NAME_CHARS_MAX} bytes"
    if _ENCODED.search(part):
        return "it has encoded characters (%)"
    if any(item in '\\/:*?"<>|' or not item.isprintable() for item in part) or part != part.strip():
        return "it has characters that names of files do not have everywhere"
    return ""
