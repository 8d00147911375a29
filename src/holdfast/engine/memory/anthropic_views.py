"""The views of the memory tool: a folder, numbered lines, the place of an edit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.limits import MEMORY_VIEW_CHARS
from holdfast.core.text.cut import cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.memory.note_types import NoteFile

LEVELS: Final = 2
"""Of a folder that are listed: the SDK's own tool lists as many."""
SNIPPET_LINES: Final = 4
"""Lines shown before and after an edit."""


def list_files(shown: str, path: str, files: Sequence[NoteFile]) -> str:
    """Return the files and folders below a path, each with its size."""
    top = f"{path}/" if path else ""
    inside = [file for file in files if file.path.startswith(top)]
    name = shown.rstrip("/")
    total = sum(item.size for item in inside if not item.is_folder)
    lines = [f"{_size(total)}\t{name}"]
    for entry in inside:
        below = entry.path[len(top) :]
        if below.count("/") < LEVELS and "node_modules" not in below.split("/"):
            size = _size_of(entry, inside)
            lines.append(f"{_size(size)}\t{name}/{below}{'/' if entry.is_folder else ''}")
    head = (
        f"Here're the files and directories up to {LEVELS} levels deep in {name}, "
        "excluding hidden items and node_modules:\n"
    )
    return cut(head + "\n".join(lines), MEMORY_VIEW_CHARS, keep="head", marker=_more_files).text


def _size_of(one: NoteFile, files: Iterable[NoteFile]) -> int:
    if not one.is_folder:
        return one.size
    top = one.path + "/"
    return sum(two.size for two in files if not two.is_folder and two.path.startswith(top))


def _size(count: int) -> str:
    if count < 1_024:
        return f"{count}B"
    return f"{count / 1_024:.1f}K" if count < 1_024**2 else f"{count / 1_024**2:.1f}M"


def number_lines(lines: Iterable[str], first: int) -> str:
    """Return lines with their numbers before them."""
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, first))


def snippet(text: str, line: int, more: int) -> str:
    """The lines around an edit that begins at a line and goes on for some more."""
    lines = text.removesuffix("\n").split("\n")
    first = max(1, line - SNIPPET_LINES)
    shown = lines[first - 1 : line + more + SNIPPET_LINES]
    return cut(number_lines(shown, first), MEMORY_VIEW_CHARS // 4, marker=_some).text


def more(omitted: int, total: int, unit: str) -> str:
    """Say that there is more of a file, and how to ask for it."""
    return f"\n[… {omitted:,} of {total:,} {unit} not shown: ask for a part with view_range …]"


def _more_files(omitted: int, total: int, unit: str) -> str:
    return f"\n[… {omitted:,} of {total:,} {unit} not shown: view one of the folders …]"


def _some(omitted: int, total: int, unit: str) -> str:
    return f"\n[… {omitted:,} of {total:,} {unit} not shown …]\n"
