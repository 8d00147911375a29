"""An inspection as one HTML page with charts, without scripts or network access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.surfaces.bill import (
    SAVINGS_NOTE,
    breaks_text,
    cost_text,
    habits_table,
    part_table,
    parts_of,
)
from holdfast.surfaces.cli.inspect.overview import (
    adopt_command,
    bill_of,
    cost_cell,
    model_cell,
    savings_of,
    waste_cell,
)
from holdfast.surfaces.formatting import count, money
from holdfast.surfaces.pages import render_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.inspection.bill import Bill
    from holdfast.core.inspection.inspect import Inspection
    from holdfast.surfaces.answers import StyledTable
    from holdfast.surfaces.cli.inspect.reports import InspectReport, WindowFit

_COLOURS: Final = {
    "system prompt": "#64748b",
    "tool schemas": "#94a3b8",
    "user": "#16a34a",
    "added by programs": "#65a30d",
    "assistant": "#2563eb",
    "thinking": "#7c3aed",
    "tool calls": "#0891b2",
    "tool results": "#ea580c",
    "images": "#db2777",
    "other": "#a16207",
}
_ACTIONS: Final = {
    "kept": "#2563eb",
    "trimmed": "#0891b2",
    "cleared": "#ea580c",
    "summarised": "#a1a1aa",
    "dropped": "#dc2626",
    "injected": "#16a34a",
}
_PARTS_MAX: Final = 100
"""Conversations with a part of their own: more would make a page that no browser likes."""
_DAYS_MAX: Final = 120
"""Bars that can be told apart on a page; longer spans are drawn by their last days."""


def page(reports: Sequence[InspectReport]) -> str:
    """Return the page for one or several conversations."""
    name = reports[0].name if len(reports) == 1 else f"{len(reports)} conversations"
    bill = bill_of(reports) if len(reports) > 1 else None
    return render_page(
        "inspect.html",
        title=f"{name}: where the context went",
        maker="holdfast inspect",
        reports=reports,
        shown=reports[:_PARTS_MAX],
        bill=bill,
        bill_tables=[] if bill is None else _bill_tables(bill),
        savings=savings_of(reports),
        savings_note=SAVINGS_NOTE,
        adopt_command=adopt_command(reports),
        day_charts=[] if bill is None else _day_charts(bill),
        cost_text=cost_text,
        breaks_text=breaks_text,
        cost_cell=cost_cell,
        model_cell=model_cell,
        waste_cell=waste_cell,
        kind_shares=_kind_shares,
        action_shares=_action_shares,
        draw_calls=_draw_calls,
    )


def _bill_tables(bill: Bill) -> list[tuple[str, StyledTable]]:
    tables = [
        ("Spent on", habits_table(bill.habits)),
        *((f"By {noun}", part_table(noun, lines)) for noun, lines in parts_of(bill)),
    ]
    return [(title, table) for title, table in tables if table.rows]


def _day_charts(bill: Bill) -> list[tuple[str, list[tuple[str, float, str]]]]:
    days = bill.by_day[-_DAYS_MAX:]
    charts = [
        ("Cost by day", [(day.name, day.cost, money(day.cost)) for day in days]),
        ("Calls by day", [(day.name, float(day.calls), count(day.calls, "call")) for day in days]),
    ]
    return [chart for chart in charts if len(days) > 1 and any(v for _, v, _ in chart[1])]


def _kind_shares(looked: Inspection) -> list[tuple[str, int, str]]:
    return [(kind.name, kind.tokens, _COLOURS[kind.name]) for kind in looked.kinds if kind.tokens]


def _action_shares(fit: WindowFit) -> list[tuple[str, int, str]]:
    return [
        (action, sums["after"], _ACTIONS[action])
        for action, sums in fit.actions.items()
        if sums["after"]
    ]


def _draw_calls(looked: Inspection) -> dict[str, Any]:
    """Place the context at each call in a picture of 1,000 by 230."""
    seen: list[int | None] = [call.seen for call in looked.calls]
    reported = [call.reported for call in looked.calls]
    known = [size for size in reported if size is not None]
    top = max(1, *(size for size in (*seen, *known) if size is not None))
    last = len(seen) - 1
    return {
        "said": f"{len(seen):,} calls, the largest with {max(known, default=0):,} reported tokens, "
        f"{count(len(looked.cuts), 'compaction')}",
        "top": top,
        "calls": len(seen),
        "seen": _lines(seen, top),
        "reported": _lines(reported, top),
        "cuts": [(cut, 1000 * min(cut, last) / last) for cut in looked.cuts],
    }


def _lines(values: Sequence[int | None], top: int) -> list[str]:
    """Return the points of a line that is broken where a value is not known."""
    pieces: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            pieces.append([])
        else:
            x, y = 1000 * place / (len(values) - 1), 220 - 200 * value / top
            pieces[-1].append(f"{x:.1f},{y:.1f}")
    return [" ".join(points if len(points) > 1 else points * 2) for points in pieces if points]
