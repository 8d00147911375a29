"""What a command answers, in no surface's dialect: a terminal, a page and a chat draw the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from holdfast.core.text.cut import cut, ellipsis

_GAP: Final = 2
_COLUMN_MIN: Final = 6

Tone = Literal["plain", "dim", "good", "warn", "bad", "name", "strong"]
"""How something is meant. It never carries meaning that the words do not."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece of a line or a row, with a tone."""

    text: str
    tone: Tone = "plain"


Row: TypeAlias = Sequence[Cell | str]


@dataclass(frozen=True, slots=True)
class Line:
    """Words that belong on one line."""

    cells: tuple[Cell, ...]

    @property
    def text(self) -> str:
        return "".join(cell.text for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; a heading that starts with `>` is aligned to the right."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


Then = Literal["resume", "quit"]
"""What the surface has to do next: go on with a turn that was interrupted; say goodbye."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command has to say."""

    parts: tuple[Line | Table, ...] = ()
    is_refused: bool = False
    """Nothing was done, and the words say why."""
    then: Then | None = None

    @property
    def text(self) -> str:
        """As plain text, for surfaces that have nothing else."""
        return "\n".join(
            part.text if isinstance(part, Line) else _plain(part) for part in self.parts
        )


def line(*cells: Cell | str) -> Line:
    return Line(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in cells))


def said(*lines: Line | Table | str, then: Then | None = None) -> Answer:
    """An answer of lines; a bare text is a line of its own."""
    return Answer(tuple(line(one) if isinstance(one, str) else one for one in lines), then=then)


def refused(what: str, hint: str | None = None) -> Answer:
    """An answer that says no, and what to do instead."""
    parts = [line(Cell(what, "warn"))]
    if hint:
        parts.append(line(Cell(hint, "dim")))
    return Answer(tuple(parts), is_refused=True)


def bar(share: float, width: int) -> str:
    """A share of a whole as a bar of at most `width` characters."""
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    rest = "" if eighths % 8 == 0 else "▏▎▍▌▋▊▉"[eighths % 8 - 1]
    return "█" * (eighths // 8) + rest


def columns_of(table: Table, width: int | None = None) -> list[list[Cell]]:
    """A table's headings and rows as cells padded to their column, in at most `width` characters.

    Where that is too little for all of it, the widest columns are cut first.
    """
    head = [Cell(column.lstrip(">").upper(), "dim") for column in table.columns]
    rows = [head, *([_cell(cell) for cell in row] for row in table.rows)]
    widths = [max(len(row[at].text) for row in rows) for at in range(len(head))]
    if width is not None:
        widths = _narrowed(widths, width - _GAP * (len(widths) - 1))
    return [
        [
            Cell(_padded(cell.text, wide, is_right=name.startswith(">")), cell.tone)
            for cell, wide, name in zip(row, widths, table.columns, strict=True)
        ]
        for row in rows
    ]


def _narrowed(widths: list[int], room: int) -> list[int]:
    widths = list(widths)
    while sum(widths) > room:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= _COLUMN_MIN:
            break
        widths[widest] -= 1
    return widths


def _padded(text: str, width: int, *, is_right: bool) -> str:
    if len(text) > width:
        text = cut(text, width, keep="head", marker=ellipsis).text
    return text.rjust(width) if is_right else text.ljust(width)


def _plain(table: Table) -> str:
    rows = ("  ".join(cell.text for cell in row).rstrip() for row in columns_of(table))
    return "\n".join(rows)


def _cell(cell: Cell | str) -> Cell:
    """A cell that cannot steer a terminal, whatever a log holds."""
    cell = cell if isinstance(cell, Cell) else Cell(cell)
    if cell.text.isprintable():
        return cell
    return Cell("".join(filter(str.isprintable, cell.text)), cell.tone)
