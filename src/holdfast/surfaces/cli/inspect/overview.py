"""Many conversations at a glance: a line for each, the most expensive first, and what they cost by
day."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from holdfast.core.inspection.bill import BilledSession
from holdfast.core.inspection.inspect import KINDS, Group
from holdfast.surfaces.answers import Cell, StyledTable
from holdfast.surfaces.bill import (
    SAVINGS_NOTE,
    breaks_text,
    cost_text,
    days_table,
    habit_name,
    habits_table,
    is_gain,
    make_bill,
    part_table,
    parts_of,
    savings_table,
)
from holdfast.surfaces.cli.inspect.reports import bars
from holdfast.surfaces.formatting import count, local_time, money, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.inspection.bill import Bill
    from holdfast.surfaces.answers import Row
    from holdfast.surfaces.cli.app import App
    from holdfast.surfaces.cli.inspect.reports import InspectReport

_WORDS: Final = 40
"""Characters of the first words: a line of a terminal holds them beside the figures."""
_NAME_CHARS: Final = 18
"""Characters of a project; a model and a waste may have twice as many."""


def by_cost(reports: Sequence[InspectReport]) -> list[InspectReport]:
    """Sort conversations: the most expensive first, then the largest."""
    return sorted(
        reports,
        key=lambda report: (-(report.inspection.spent.cost or 0.0), -report.inspection.tokens),
    )


def bill_of(reports: Sequence[InspectReport]) -> Bill:
    """Add up conversations."""
    return make_bill(
        [BilledSession(each.inspection, each.project, each.agent, each.owner) for each in reports]
    )


def cost_cell(report: InspectReport) -> str:
    """Return the cost of a conversation; `?` where calls are known and their cost is not."""
    spent = report.inspection.spent
    if spent.cost is None:
        return "?" if spent.calls else ""
    return money(spent.cost) + ("+" if spent.unknown or spent.unpriced else "")


def waste_cell(report: InspectReport) -> str:
    """Return the most expensive thing that could be spared: its price, or else its tokens."""
    waste = report.waste
    if waste is None:
        return ""
    price = f"{waste.tokens:,}" if waste.cost is None else money(waste.cost)
    return f"{price} {one_line(habit_name(waste), 2 * _NAME_CHARS)}"


def model_cell(report: InspectReport) -> str:
    """Return the model with most of the cost, and how many others there were."""
    named = [each.model for each in report.inspection.spent.models if each.model]
    named = named or [*report.inspection.models]
    more = f" +{len(named) - 1}" if len(named) > 1 else ""
    return f"{named[0]}{more}" if named else ""


def show_overview(reports: Sequence[InspectReport], app: App) -> None:
    """Print the bill of many conversations, its parts, and a line for each of them."""
    bill, out = bill_of(reports), app.out
    kinds = tuple(
        Group(name, sum(report.inspection.kinds[place].tokens for report in reports))
        for place, name in enumerate(KINDS)
    )
    out.section(
        *([days_table(bill)] if len(bill.by_day) > 1 else []),
        *(part_table(noun, lines) for noun, lines in parts_of(bill)),
        habits_table(bill.habits),
        StyledTable(("all, by kind", ">tokens", ">share", ""), tuple(bars(kinds, bill.tokens))),
    )
    numbers = (">cost", ">calls", ">cuts", ">tokens")
    heads = (*numbers, "date", "project", "session", "model", "biggest waste", "first words")
    out.table(heads, map(_row, by_cost(reports)))
    out.line()
    show_savings(reports, app)
    out.line(f"caches: {breaks_text(bill)}")
    out.line(
        f"{count(bill.conversations, 'conversation')}, {count(bill.calls, 'call')}, "
        f"{count(bill.compactions, 'compaction')}, {bill.tokens:,} tokens of conversation"
    )
    out.line(f"billed: {bill.prompt:,} tokens in, {bill.output:,} out, {cost_text(bill)}")
    dearest = by_cost(reports)[0]
    out.note(f"look at one of them: holdfast inspect {shlex.quote(dearest.address)}")
    out.note("cuts: compactions that the agent made; +: calls of unknown cost come on top")


def savings_of(reports: Sequence[InspectReport]) -> StyledTable:
    """Return what the conversations that were replayed would have been, with Holdfast and without
    it."""
    found = [(each.title or each.name, each.saving) for each in by_cost(reports) if each.saving]
    return savings_table(found)


def adopt_command(reports: Sequence[InspectReport]) -> str:
    """Return the command that goes on with the conversation that gains most; empty where none
    gains anything."""
    gains = [
        (each.saving.before - each.saving.after, each.address.partition("#")[0])
        for each in reports
        if each.saving is not None and not each.saving.is_ours and is_gain(each.saving)
    ]
    return f"holdfast adopt {shlex.quote(max(gains)[1])}" if gains else ""


def show_savings(reports: Sequence[InspectReport], app: App) -> None:
    """Print what the conversations that were replayed would have been."""
    table, command = savings_of(reports), adopt_command(reports)
    if not table.rows:
        return
    app.out.table(table.columns, table.rows)
    app.out.note(SAVINGS_NOTE)
    if command:
        app.out.note(f"go on with Holdfast: {command}")
    app.out.line()


def _row(report: InspectReport) -> Row:
    looked = report.inspection
    return (
        cost_cell(report),
        f"{looked.spent.calls:,}",
        f"{looked.compactions:,}" if looked.compactions else "",
        f"{looked.tokens:,}",
        local_time(looked.started)[:10] if looked.started else "",
        one_line(report.project, _NAME_CHARS),
        one_line(report.name, _NAME_CHARS),
        one_line(model_cell(report), 2 * _NAME_CHARS),
        waste_cell(report),
        Cell(one_line(report.title, _WORDS), "name"),
    )
