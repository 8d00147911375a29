"""Many conversations at a glance: a line for each, the dearest first, and what they cost by day."""

from __future__ import annotations

import shlex
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.projection.inspection import KINDS, Group
from holdfast.surfaces.answers import Cell
from holdfast.surfaces.cli.inspect.tables import bars
from holdfast.surfaces.formatting import count, local_time, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.surfaces.answers import Row
    from holdfast.surfaces.cli.app import App
    from holdfast.surfaces.cli.inspect.reports import InspectReport

_WORDS: Final = 40
"""Characters of the first words: a line of a terminal holds them beside the figures."""
_NAME_CHARS: Final = 18
"""Characters of a project; a model and a waste may have twice as many."""


class Totals(msgspec.Struct, frozen=True):
    """Sums over many conversations."""

    conversations: int
    tokens: int
    """The conversations as they are, each counted once."""
    prompt: int
    """Tokens that the calls read: a conversation is sent again with each of them."""
    output: int
    calls: int
    compactions: int
    cost: float
    unknown: int
    """Calls without a usage."""
    unpriced: int
    """Calls to models without a price."""
    by_day: tuple[tuple[str, float, int], ...]
    """For each day with a call of a conversation: the day, dollars, calls."""

    @property
    def cost_without_day(self) -> float:
        """The cost of calls on no day: on abandoned branches, for summaries and notes."""
        return self.cost - sum(dollars for _day, dollars, _calls in self.by_day)

    @property
    def cost_text(self) -> str:
        """Return the cost, and what it does not hold."""
        known = ((self.unknown, "usage"), (self.unpriced, "a price"))
        gaps = [f"{count(number, 'call')} without {what}" for number, what in known if number]
        return f"${self.cost:,.2f}" + (f" (not counted: {', '.join(gaps)})" if gaps else "")


def by_cost(reports: Sequence[InspectReport]) -> list[InspectReport]:
    """Sort conversations: the dearest first, then the largest."""
    return sorted(
        reports,
        key=lambda report: (-(report.inspection.spent.cost or 0.0), -report.inspection.tokens),
    )


def sum_reports(reports: Sequence[InspectReport]) -> Totals:
    """Add up conversations."""
    looked = [report.inspection for report in reports]
    dollars: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for each in looked:
        for call in each.calls:
            if call.ts > 0:
                day = datetime.fromtimestamp(call.ts).astimezone().date().isoformat()
                dollars[day] += call.cost or 0.0  # type: ignore[assignment]
                calls[day] += 1
    return Totals(
        conversations=len(reports),
        tokens=sum(each.tokens for each in looked),
        prompt=sum(each.spent.prompt for each in looked),
        output=sum(each.spent.output for each in looked),
        calls=sum(each.spent.calls for each in looked),
        compactions=sum(each.compactions for each in looked),
        cost=sum(each.spent.cost or 0.0 for each in looked),
        unknown=sum(each.spent.unknown for each in looked),
        unpriced=sum(each.spent.unpriced for each in looked),
        by_day=tuple((day, float(dollars[day]), calls[day]) for day in sorted(calls)),
    )


def cost_cell(report: InspectReport) -> str:
    """Return the cost of a conversation; `?` where calls are known and their cost is not."""
    spent = report.inspection.spent
    if spent.cost is None:
        return "?" if spent.calls else ""
    return f"${spent.cost:,.2f}" + ("+" if spent.unknown or spent.unpriced else "")


def model_cell(report: InspectReport) -> str:
    """Return the model with most of the cost, and how many others there were."""
    named = [each.model for each in report.inspection.spent.models if each.model]
    named = named or [*report.inspection.models]
    more = f" +{len(named) - 1}" if len(named) > 1 else ""
    return f"{named[0]}{more}" if named else ""


def show_overview(reports: Sequence[InspectReport], app: App) -> None:
    """Print the table of many conversations, with their totals."""
    totals, out = sum_reports(reports), app.out
    kinds = tuple(
        Group(name, sum(report.inspection.kinds[place].tokens for report in reports))
        for place, name in enumerate(KINDS)
    )
    out.table(("all, by kind", ">tokens", ">share", ""), bars(kinds, totals.tokens))
    out.line()
    numbers = (">cost", ">calls", ">cuts", ">tokens")
    heads = (*numbers, "date", "project", "session", "model", "biggest waste", "first words")
    out.table(heads, map(_row, by_cost(reports)))
    out.line()
    out.line(
        f"{count(totals.conversations, 'conversation')}, {count(totals.calls, 'call')}, "
        f"{count(totals.compactions, 'compaction')}, {totals.tokens:,} tokens of conversation"
    )
    out.line(f"billed: {totals.prompt:,} tokens in, {totals.output:,} out, {totals.cost_text}")
    dearest = by_cost(reports)[0]
    out.note(f"look at one of them: holdfast inspect {shlex.quote(dearest.address)}")
    out.note("cuts: compactions that the agent made; +: calls of unknown cost come on top")


def _row(report: InspectReport) -> Row:
    looked = report.inspection
    waste, tokens = report.waste
    return (
        cost_cell(report),
        f"{looked.spent.calls:,}",
        f"{looked.compactions:,}" if looked.compactions else "",
        f"{looked.tokens:,}",
        local_time(looked.started)[:10] if looked.started else "",
        one_line(report.project, _NAME_CHARS),
        one_line(report.name, _NAME_CHARS),
        one_line(model_cell(report), 2 * _NAME_CHARS),
        f"{tokens:,} {one_line(waste, 2 * _NAME_CHARS)}" if tokens else "",
        Cell(one_line(report.title, _WORDS), "name"),
    )
