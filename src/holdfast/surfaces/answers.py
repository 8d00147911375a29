"""Answers of commands as data, which each surface draws in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from holdfast.surfaces.formatting import Tone, cell_width, printable

if TYPE_CHECKING:
    from collections.abc import Container

    from holdfast.core.projection.ledger import Action, LedgerLine
    from holdfast.core.secrets.redaction import Redactor

SHELL: Final = "shell"
"""Needed by a line that names a command of `holdfast`: the terminal of an operator."""
GAP: Final = "  "
"""Stands between the columns of a table."""
_PROSE_MIN: Final = 16
"""Prose in a narrower column is hard to read; the row goes on in another line instead."""
_INDENT: Final = 4
"""The columns by which such a line is indented, the gap included."""


class Cell(msgspec.Struct, frozen=True):
    """A piece of a line or a row, with a tone."""

    text: str
    tone: Tone = "plain"


Row: TypeAlias = Sequence[Cell | str]


class StyledLine(msgspec.Struct, frozen=True):
    """Cells that belong on one line."""

    cells: tuple[Cell, ...]
    needs: str = ""
    """The command that the line advises to use, or `SHELL`; without it, the line is left out."""

    @property
    def text(self) -> str:
        return "".join(cell.text for cell in self.cells)


class StyledTable(msgspec.Struct, frozen=True):
    """Rows under headings; a heading that starts with `>` is aligned to the right."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def text(self) -> str:
        rows = (GAP.join(cell.text for cell in row).rstrip() for row in layout(self))
        return "\n".join(rows)


NextStep = Literal["resume", "quit"]
"""The surface continues an interrupted turn, or ends the chat."""


class CommandAnswer(msgspec.Struct, frozen=True):
    """The outcome of a command."""

    parts: tuple[StyledLine | StyledTable, ...] = ()
    """Lines and tables to show, in order."""
    is_refused: bool = False
    """The command did nothing; the parts say why."""
    then: NextStep | None = None
    """The step that the chat takes next, if any."""

    @property
    def text(self) -> str:
        """The answer as plain text."""
        return "\n".join(part.text for part in self.parts)


def line(*cells: Cell | str) -> StyledLine:
    return StyledLine(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in cells))


def dim(text: str, *, needs: str = "") -> StyledLine:
    """Return a line of secondary importance; one that names another command `needs` it."""
    return StyledLine((Cell(text, "dim"),), needs)


def answer(*parts: StyledLine | StyledTable | str, then: NextStep | None = None) -> CommandAnswer:
    """Build an answer; a string becomes a line."""
    built = (line(part) if isinstance(part, str) else part for part in parts)
    return CommandAnswer(tuple(built), then=then)


def refuse(reason: str, hint: str | None = None) -> CommandAnswer:
    """Build the answer of a command that did nothing."""
    parts = [line(Cell(reason, "warn"))]
    if hint:  # those of errors are for library, shell and chat
        parts.append(dim(hint, needs=SHELL if "`holdfast " in hint else ""))
    return CommandAnswer(tuple(parts), is_refused=True)


def keep_lines(answer: CommandAnswer, names: Container[str]) -> CommandAnswer:
    """Return an answer without the lines that need something else than these commands."""
    kept = (
        part
        for part in answer.parts
        if isinstance(part, StyledTable) or not part.needs or part.needs in names
    )
    return msgspec.structs.replace(answer, parts=tuple(kept))


def mask_answer(answer: CommandAnswer, redactor: Redactor) -> CommandAnswer:
    """Return an answer with its secrets masked, cell by cell."""

    def mask(cell: Cell | str) -> Cell | str:
        return mask_cell(cell) if isinstance(cell, Cell) else redactor.text(cell)

    def mask_cell(cell: Cell) -> Cell:
        return Cell(redactor.text(cell.text), cell.tone)

    def part_of(part: StyledLine | StyledTable) -> StyledLine | StyledTable:
        if isinstance(part, StyledLine):
            return StyledLine(tuple(map(mask_cell, part.cells)))
        return StyledTable(part.columns, tuple(tuple(map(mask, row)) for row in part.rows))

    return msgspec.structs.replace(answer, parts=tuple(map(part_of, answer.parts)))


_ACTION_TONES: Final[dict[Action, Tone]] = {
    "kept": "plain",
    "trimmed": "warn",
    "cleared": "warn",
    "summarised": "warn",
    "dropped": "bad",
    "injected": "good",
    "silent": "dim",
}


def ledger_row(entry: LedgerLine) -> tuple[Cell | str, ...]:
    """Return a record of a ledger: what was done with it, its tokens before and after, and why."""
    from holdfast.core.log.listing import title_of  # the list of commands shows no log

    return (
        entry.record,
        title_of(f"{entry.kind} {entry.name}".strip()),
        Cell(entry.action, _ACTION_TONES[entry.action]),
        f"{entry.before:,}" if entry.before else "",
        f"{entry.after:,}" if entry.after else "",
        entry.why,
    )


def layout(table: StyledTable, width: int | None = None) -> list[list[Cell]]:
    """Return headings and rows as lines of cells padded to their column, at most `width` wide.

    A table that is wider wraps its prose. Where that is not enough, each row goes on in indented
    lines. A word, number or name is broken only where it is wider than a line.
    """
    rows = _rows(table)
    widths, groups = _columns(rows, width or sum(_natural(rows)) + len(GAP) * len(rows[0]))
    lines: list[list[Cell]] = []
    for row in rows:
        wrapped = [_wrap(cell.text, wide) for cell, wide in zip(row, widths, strict=True)]
        for group in groups:
            height = max(len(wrapped[at]) for at in group)
            if group[0] and not any(row[at].text for at in group):
                continue  # nothing to go on with
            for place in range(height):
                line = [Cell(" " * (_INDENT - len(GAP)))] if group[0] else []
                for at in group:
                    text = wrapped[at][place] if place < len(wrapped[at]) else ""
                    is_right = table.columns[at].startswith(">")
                    line.append(Cell(_pad(text, widths[at], is_right=is_right), row[at].tone))
                lines.append(line)
    return lines


def natural_width(table: StyledTable) -> int:
    """Return the columns that a table takes where nothing is wrapped."""
    return sum(_natural(_rows(table))) + len(GAP) * (len(table.columns) - 1)


def _rows(table: StyledTable) -> list[list[Cell]]:
    head = [Cell(column.lstrip(">").upper(), "dim") for column in table.columns]
    return [head, *([clean(cell) for cell in row] for row in table.rows)]


def _natural(rows: list[list[Cell]]) -> list[int]:
    return [max(cell_width(cell.text) for cell in column) for column in zip(*rows, strict=True)]


def _columns(rows: list[list[Cell]], width: int) -> tuple[list[int], list[list[int]]]:
    """Return the width of each column, and the columns that share a line."""
    natural = _natural(rows)
    narrow = list(natural)
    least = _least(rows, natural)
    excess = sum(natural) + len(GAP) * (len(natural) - 1) - width
    while excess > 0:
        at = max(range(len(narrow)), key=lambda at: (narrow[at] > least[at], narrow[at]))
        if narrow[at] <= least[at]:
            return _fold(natural, width)
        narrow[at] -= 1
        excess -= 1
    return narrow, [[*range(len(narrow))]]


def _least(rows: list[list[Cell]], natural: list[int]) -> list[int]:
    """Return the width of each column below which a word breaks, or prose cannot be read."""
    least = []
    for column, wide in zip(zip(*rows, strict=True), natural, strict=True):
        words = (word for cell in column for word in cell.text.split())
        longest = max(map(cell_width, words), default=0)
        has_prose = any(" " in cell.text for cell in column[1:])
        least.append(max(longest, min(wide, _PROSE_MIN) if has_prose else 0))
    return least


def _fold(natural: list[int], width: int) -> tuple[list[int], list[list[int]]]:
    """Give each line as many columns as fit; those after the first line are indented."""
    room = max(width - _INDENT, 1)
    widths = [max(min(wide, room), 1) for wide in natural]
    groups = [[0]]
    left = width - widths[0]
    for at, wide in enumerate(widths[1:], 1):
        left -= wide + len(GAP)
        if left < 0:
            groups.append([])
            left = room - wide
        groups[-1].append(at)
    return widths, groups


def _wrap(text: str, width: int) -> list[str]:
    """Return a text in lines of at most `width` columns."""
    if cell_width(text) <= width:
        return [text]
    lines = [""]
    for word in text.split():
        if lines[-1] and cell_width(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
            continue
        if lines[-1]:
            lines.append("")
        for part in word if cell_width(word) > width else [word]:
            if lines[-1] and cell_width(lines[-1] + part) > width:
                lines.append("")
            lines[-1] += part
    return lines


def clean(cell: Cell | str) -> Cell:
    """Return a cell whose text cannot control the terminal, whatever the log contains."""
    return (
        Cell(printable(cell.text), cell.tone) if isinstance(cell, Cell) else Cell(printable(cell))
    )


def _pad(text: str, width: int, *, is_right: bool) -> str:
    space = " " * (width - cell_width(text))
    return space + text if is_right else text + space
