"""Lists of files in a carry-over: found in calls, cut to their room, written and read back."""

from __future__ import annotations

from collections import Counter as Counted
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.extract.touched_files import PATH_CHARS
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.tokens.counting import Counter

_EARLIER: Final = lazy_pattern(r"\(([\d,]+) earlier ones? not listed\)")
_RELATIVE: Final = lazy_pattern(r"\(relative to (/[^\n]{1,400})\)")
_NEWEST: Final = 200
"""Paths that are looked at for the folder they share."""
_DEPTH_MAX: Final = 40
"""Folders above a path that are looked at. A path of nothing but slashes has as many as letters."""
_HEADING: Final = "## Files changed"
"""The longer of the two headings."""


class FileList(msgspec.Struct, frozen=True):
    """Paths, newest last, and the number of older ones left out."""

    paths: tuple[str, ...] = ()
    omitted: int = 0


def lines_within(lines: Sequence[str], room: int, counter: Counter) -> list[str]:
    kept = []
    for line in lines:
        room -= counter.count(f"{line}\n")
        if room < 0:
            break
        kept.append(line)
    return kept


def newest_files(files: FileList, room: int, counter: Counter) -> FileList:
    """As many of the newest as there is room for."""
    folder = common_folder(files.paths)
    head = [_HEADING, _note_of_earlier(len(files.paths) + files.omitted), _note_of_folder(folder)]
    room -= counter.count("\n".join(head))
    kept = lines_within(_below(folder, files.paths)[::-1], room, counter)
    first = len(files.paths) - len(kept)
    return FileList(files.paths[first:], files.omitted + first)


def file_lines(files: FileList) -> list[str]:
    """One line for each path. The folder that they share is written once."""
    if not files.paths:
        return []
    folder = common_folder(files.paths)
    notes = [_note_of_earlier(files.omitted)] if files.omitted else []
    return [*notes, *filter(None, [_note_of_folder(folder)]), *_below(folder, files.paths)]


def common_folder(paths: Sequence[str]) -> str:
    """The folder that saves most where it is written once; empty if none does.

    Where a path is relative already, no one knows to which folder.
    """
    newest = paths[-_NEWEST:]
    if not all(path.startswith("/") and path.isprintable() for path in paths):
        return ""
    saved: Counted[str] = Counted()
    for path in newest:
        end = 0
        for _ in range(_DEPTH_MAX):
            end = path.find("/", end + 1)
            if end < 0:
                break
            saved[path[:end]] += end + 1
    gains = {folder: (saved[folder] - len(folder), len(folder)) for folder in saved}
    best = max(gains, key=lambda folder: gains[folder], default="")
    return best if saved[best] > len(best) + len(_note_of_folder("/")) else ""


def _below(folder: str, paths: Sequence[str]) -> list[str]:
    prefix = f"{folder}/" if folder else ""
    return [path.removeprefix(prefix) for path in paths]


def _note_of_folder(folder: str) -> str:
    return f"(relative to {folder})" if folder else ""


def _note_of_earlier(count: int) -> str:
    return f"({count:,} earlier {'one' if count == 1 else 'ones'} not listed)"


def read_files(lines: Sequence[str]) -> FileList:
    """The list that `file_lines` made; lines that cannot be paths are ignored."""
    omitted, folder, paths = 0, "", []
    for line in lines:
        if match := _EARLIER.fullmatch(line):
            omitted += int(match[1].replace(",", "") or 0)
        elif match := _RELATIVE.fullmatch(line):
            folder = f"{match[1]}/"
        elif line.isprintable():
            paths.append(line if line.startswith("/") else f"{folder}{line}")
    return FileList(tuple(path for path in paths if len(path) <= PATH_CHARS), omitted)
