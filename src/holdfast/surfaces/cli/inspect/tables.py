"""Rows that several tables of `inspect` have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.surfaces.answers import Cell
from holdfast.surfaces.formatting import bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.projection.inspection import Group
    from holdfast.surfaces.answers import Row

BAR_CHARS: Final = 32
"""A bar leaves room for the figures in a terminal of 80 columns."""


def bars(groups: Sequence[Group], total: int) -> list[Row]:
    """Return the rows of groups with their share of a total."""
    return [
        (
            group.name,
            f"{group.tokens:,}",
            f"{group.tokens / total:.1%}" if total else "",
            Cell(bar(group.tokens / total if total else 0, BAR_CHARS), "name"),
        )
        for group in groups
        if group.tokens
    ]
