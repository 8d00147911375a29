"""The bill of many conversations in words and tables, the same in a terminal and on a page."""

from __future__ import annotations

from datetime import date, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Final

from holdfast.core.inspection.bill import BillLine, Calendar, add_bill
from holdfast.surfaces.answers import Cell, StyledTable
from holdfast.surfaces.formatting import bar, count, money, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.inspection.bill import Bill, BilledSession
    from holdfast.core.inspection.habits import Habit, HabitKind
    from holdfast.engine.simulation.savings import Saving

_NAME_CHARS: Final = 44
_BAR_CHARS: Final = 20
_DAYS_SHOWN: Final = 14
"""The last days in a terminal; a page draws them all."""
_FACT_CHARS: Final = 30
_FACTS_SHOWN: Final = 3
_LINES_MAX: Final = 10
"""Of each part: as many as a person reads."""

HABITS: Final[dict[HabitKind, tuple[str, str]]] = {
    "head": (
        "system prompt and tools, in every call",
        "give an agent only the tools that it uses",
    ),
    "cold": (
        "a pause outlived the cached prefix",
        "a longer cache lifetime: Holdfast chooses it by the pauses",
    ),
    "changed": (
        "a warm prefix was rewritten",
        "send what was sent as it was: Holdfast only appends",
    ),
    "repeated": (
        "the same again, and the old answers stayed",
        "Holdfast shortens an answer that a newer one replaces",
    ),
    "unused": (
        "long results of which nothing came up again",
        "ask for less (`limit`, `head`, `grep`); Holdfast moves long ones out",
    ),
    "failed": ("results of calls that failed", "Holdfast shortens them at the next prune or cut"),
}
"""Each habit in words, and the way to spare it."""


_CALENDAR: Final = Calendar(
    day_of=lambda ts: datetime.fromtimestamp(ts).astimezone().date().toordinal(),
    name_of=lambda day: date.fromordinal(day).isoformat(),
)


def make_bill(sessions: Sequence[BilledSession]) -> Bill:
    """Add up conversations by the days of this machine's clock."""
    return add_bill(sessions, _CALENDAR)


def cost_text(bill: Bill) -> str:
    """Return the cost, and what it does not hold."""
    known = ((bill.unknown, "usage"), (bill.unpriced, "a price"))
    gaps = [f"{count(number, 'call')} without {what}" for number, what in known if number]
    return money(bill.cost) + (f" (not counted: {', '.join(gaps)})" if gaps else "")


def breaks_text(bill: Bill) -> str:
    """Return what lost caches cost, in words."""
    if not bill.breaks:
        return "no cached prefix was lost"
    cost = "" if bill.breaks_cost is None else f": {money(bill.breaks_cost)} beyond reading it"
    return f"{count(bill.breaks, 'call')} paid again for a cached prefix{cost}"


def parts_of(bill: Bill) -> list[tuple[str, Sequence[BillLine]]]:
    """Return the parts of a bill that have more than one line."""
    parts = (
        ("month", _by_month(bill.by_day)[-_LINES_MAX:]),
        ("model", bill.by_model),
        ("project", bill.by_project),
        ("agent", bill.by_agent),
        ("owner", bill.by_owner),
    )
    return [(noun, lines[:_LINES_MAX]) for noun, lines in parts if len(lines) > 1]


def _by_month(days: Sequence[BillLine]) -> Sequence[BillLine]:
    """Return the months of days, those without a call, too; of fewer days than are shown, none."""
    if len(days) <= _DAYS_SHOWN:
        return ()
    months = groupby(days, lambda day: day.name[: len("2026-11")])
    return [_sum_lines(name, list(lines)) for name, lines in months]


def _sum_lines(name: str, lines: Sequence[BillLine]) -> BillLine:
    cost = sum(line.cost for line in lines)
    calls, prompt = sum(line.calls for line in lines), sum(line.prompt for line in lines)
    return BillLine(name, cost, calls, prompt, sum(line.output for line in lines))


def part_table(noun: str, lines: Sequence[BillLine]) -> StyledTable:
    """Return the table of one part: by model, by project and so on."""
    most = max((line.cost for line in lines), default=0.0) or 1.0
    return StyledTable(
        (f"by {noun}", ">cost", ">calls", ">tokens in", ""),
        tuple(
            (
                one_line(line.name, _NAME_CHARS) or f"no {noun}",
                *(money(line.cost), f"{line.calls:,}", f"{line.prompt:,}"),
                Cell(bar(line.cost / most, _BAR_CHARS), "name"),
            )
            for line in lines
        ),
    )


def days_table(bill: Bill) -> StyledTable:
    """Return the last days, those without a call, too."""
    return part_table("day", bill.by_day[-_DAYS_SHOWN:])


def habit_name(habit: Habit) -> str:
    """Return what a habit is, and of which file or tool."""
    what = HABITS[habit.kind][0]
    return f"{_short_name(habit.name)}: {what}" if habit.name else what


def _short_name(name: str) -> str:
    """Return a name with its end, which tells one path from another."""
    name = one_line(name, len(name))
    return name if len(name) <= _NAME_CHARS else f"…{name[1 - _NAME_CHARS :]}"


def habits_table(habits: Sequence[Habit]) -> StyledTable:
    """Return the habits, each with its price and how to avoid it."""
    return StyledTable(
        ("spent on", ">times", ">tokens billed", ">cost", "how to avoid it"),
        tuple(
            (
                habit_name(habit),
                *(f"{habit.times:,}", f"{habit.tokens:,}"),
                "?" if habit.cost is None else money(habit.cost),
                Cell(HABITS[habit.kind][1], "dim"),
            )
            for habit in habits
        ),
    )


SAVINGS_NOTE: Final = (
    "Replayed with the same prices and cache, input only. Facts: names that a later call used, "
    "and its request still had."
)
"""The meaning of the table of savings."""
_GAIN_MIN: Final = 0.01
"""Of the cost, and of the facts: less is as good as nothing."""


def without_words(saving: Saving) -> str:
    """Return what Holdfast is compared with."""
    return "a summary at 85 %" if saving.is_ours else "as it was sent"


def saving_words(saving: Saving) -> str:
    """Return what Holdfast spares in a conversation, or that it spares nothing."""
    share = saving.share
    if abs(share) < _GAIN_MIN:
        return "nothing to gain"
    return f"{share:.0%} less" if share > 0 else f"{-share:.0%} more"


def is_gain(saving: Saving) -> bool:
    """Return whether Holdfast spares something."""
    return saving.share >= _GAIN_MIN


def describe_losses(saving: Saving) -> str:
    """Return the facts that a later call would miss, the most used first."""
    if not saving.facts_lost:
        return "nothing"
    names = ", ".join(one_line(name, _FACT_CHARS) for name in saving.lost[:_FACTS_SHOWN])
    return f"{count(saving.facts_lost, 'use')}: {names}"


def savings_table(savings: Sequence[tuple[str, Saving]]) -> StyledTable:
    """Return what each conversation costs with and without Holdfast, and what its requests lack."""
    return StyledTable(
        (
            *("what it would have been", ">window", "without Holdfast", ">input cost", ""),
            *(">facts in view", ">cuts", "lost with Holdfast"),
        ),
        tuple(
            (
                Cell(one_line(name, _NAME_CHARS), "name"),
                *(f"{saving.window.tokens:,}", without_words(saving)),
                f"{money(saving.before)} → {money(saving.after)}",
                saving_words(saving),
                f"{saving.recall_before:.1%} → {saving.recall:.1%}",
                *(f"{saving.cuts:,}", Cell(describe_losses(saving), "dim")),
            )
            for name, saving in savings
        ),
    )
