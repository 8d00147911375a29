"""Rows and tables that several parts of `inspect` have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.surfaces.answers import Cell, StyledTable
from holdfast.surfaces.formatting import bar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.inspection.inspect import Group, InspectedItem

BAR_CHARS: Final = 32
"""A bar leaves room for the figures in a terminal of 80 columns."""


def share_cell(share: float, chars: int = BAR_CHARS) -> Cell:
    """Return a bar for a share of a whole."""
    return Cell(bar(share, chars), "name")


def bars(groups: Iterable[Group], total: int) -> list[tuple[Cell | str, ...]]:
    """Return the rows of groups with their share of a total."""
    shares = [(group, group.tokens / total if total else 0.0) for group in groups if group.tokens]
    return [
        (group.name, f"{group.tokens:,}", f"{share:.1%}" if total else "", share_cell(share))
        for group, share in shares
    ]


def groups_table(noun: str, times: str, groups: Sequence[Group], total: int) -> StyledTable:
    """Return a table of tools or files, each with its share of all tokens."""
    return StyledTable(
        (noun, f">{times}", ">tokens", ">largest", ">errors", ""),
        tuple(
            (
                *(each.name, f"{each.count:,}", f"{each.tokens:,}", f"{each.largest:,}"),
                *(f"{each.errors or ''}", share_cell(each.tokens / max(total, 1))),
            )
            for each in groups
        ),
    )


def items_table(title: str, items: Iterable[InspectedItem]) -> StyledTable:
    """Return a table of records or turns."""
    return StyledTable(
        (title, "what", ">tokens", "says"),
        tuple(
            (
                *(item.record, f"{item.kind} {item.name}".strip(), f"{item.tokens:,}"),
                Cell(item.says, "dim"),
            )
            for item in items
        ),
    )
