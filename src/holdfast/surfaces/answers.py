"""Answers of commands as data, which each surface draws in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from holdfast.core.text.cut import cut, ellipsis
from holdfast.surfaces.formatting import Tone, printable

if TYPE_CHECKING:
    from collections.abc import Container

    from holdfast.core.secrets.redaction import Redactor

SHELL: Final = "shell"
"""Needed by a line that names a command of `holdfast`: the terminal of an operator."""
_GAP: Final = 2
_COLUMN_MIN: Final = 6
"""Narrower columns cannot be read; a table that needs more room then overflows."""


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
        rows = ("  ".join(cell.text for cell in row).rstrip() for row in layout(self))
        return "\n".join(rows)


NextStep = Literal["resume", "quit"]
"""The surface continues an interrupted turn, or ends the chat."""


class CommandAnswer(msgspec.Struct, frozen=True):
    """The outcome of a command."""

    parts: tuple[StyledLine | StyledTable, ...] = ()
    is_refused: bool = False
    """The command did nothing; the parts say why."""
    then: NextStep | None = None

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


def layout(table: StyledTable, width: int | None = None) -> list[list[Cell]]:
    """Return headings and rows as cells padded to their column, in at most `width` characters.

    If the table is wider, its widest columns are truncated first.
    """
    head = [Cell(column.lstrip(">").upper(), "dim") for column in table.columns]
    rows = [head, *([clean(cell) for cell in row] for row in table.rows)]
    widths = [max(len(row[at].text) for row in rows) for at in range(len(head))]
    if width is not None:
        _narrow(widths, width - _GAP * (len(widths) - 1))
    return [
        [
            Cell(_pad(cell.text, wide, is_right=name.startswith(">")), cell.tone)
            for cell, wide, name in zip(row, widths, table.columns, strict=True)
        ]
        for row in rows
    ]


def clean(cell: Cell | str) -> Cell:
    """Return a cell whose text cannot control the terminal, whatever the log contains."""
    return (
        Cell(printable(cell.text), cell.tone) if isinstance(cell, Cell) else Cell(printable(cell))
    )


def _narrow(widths: list[int], room: int) -> None:
    while sum(widths) > room:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= _COLUMN_MIN:
            break
        widths[widest] -= 1


def _pad(text: str, width: int, *, is_right: bool) -> str:
    if len(text) > width:
        text = cut(text, width, keep="head", marker=ellipsis).text
    return text.rjust(width) if is_right else text.ljust(width)
