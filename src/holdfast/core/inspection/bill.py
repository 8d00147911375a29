"""The bill of many conversations: by day, model, project, agent and owner, with its habits."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.core.inspection.habits import Habit, add_habits, sum_breaks
from holdfast.core.owners import NO_OWNER, owner_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.core.inspection.inspect import Inspection
    from holdfast.core.owners import Owner

_DAYS_MAX: Final = 3_660
"""Ten years. A clock that was wrong once makes no bill of a million days."""


class Calendar(NamedTuple):
    """The days of anyone who reads the bill."""

    day_of: Callable[[float], int]
    """The number of the day of a moment."""
    name_of: Callable[[int], str]
    """The name of a day."""


class BilledSession(msgspec.Struct, frozen=True):
    """A conversation, and whose bill it is on."""

    inspection: Inspection
    project: str = ""
    """The folder that its agent worked in."""
    agent: str = ""
    """The agent that had it, or the tool whose transcript it is."""
    owner: Owner = NO_OWNER
    """Whose it is."""


class BillLine(msgspec.Struct, frozen=True):
    """A part of the bill."""

    name: str
    """The day, model, project, agent or owner."""
    cost: float
    """Dollars for the calls whose price is known."""
    calls: int
    """All calls."""
    prompt: int = 0
    """Tokens of input that were billed."""
    output: int = 0
    """Tokens of output that were billed."""


class Bill(msgspec.Struct, frozen=True):
    """The cost of conversations, by its causes."""

    conversations: int
    """Their number."""
    tokens: int
    """The conversations as they are, each counted once."""
    prompt: int
    """Tokens that the calls read: a conversation is sent again with each of them."""
    output: int
    """Tokens that the models wrote."""
    calls: int
    """All calls."""
    compactions: int
    """Compactions, by their maker."""
    cost: float
    """Dollars for the calls whose price is known."""
    unknown: int
    """Calls without a usage."""
    unpriced: int
    """Calls to models without a price."""
    by_day: tuple[BillLine, ...]
    """Every day from the first to the last, those without a call, too."""
    by_model: tuple[BillLine, ...]
    """The most expensive first, as in what follows; calls without a usage are in none."""
    by_project: tuple[BillLine, ...]
    by_agent: tuple[BillLine, ...]
    by_owner: tuple[BillLine, ...]
    breaks: int
    """Calls that paid again for a prefix which had been in the cache."""
    breaks_cost: float | None
    """Dollars for them, beyond reading the cache; None where no price is known."""
    habits: tuple[Habit, ...]
    """The most expensive of all conversations."""

    @property
    def cost_without_day(self) -> float:
        """The cost of calls on no day: on abandoned branches, for summaries and notes."""
        return self.cost - sum(day.cost for day in self.by_day)


def add_bill(sessions: Sequence[BilledSession], calendar: Calendar) -> Bill:
    """Add up conversations."""
    looked = [each.inspection for each in sessions]
    breaks, breaks_cost = sum_breaks(lost for each in looked for lost in each.breaks)
    return Bill(
        conversations=len(looked),
        tokens=sum(each.tokens for each in looked),
        prompt=sum(each.spent.prompt for each in looked),
        output=sum(each.spent.output for each in looked),
        calls=sum(each.spent.calls for each in looked),
        compactions=sum(each.compactions for each in looked),
        cost=sum(each.spent.cost or 0.0 for each in looked),
        unknown=sum(each.spent.unknown for each in looked),
        unpriced=sum(each.spent.unpriced for each in looked),
        by_day=_by_day(looked, calendar),
        by_model=_by_model(looked),
        by_project=_by(sessions, lambda each: each.project),
        by_agent=_by(sessions, lambda each: each.agent),
        by_owner=_by(sessions, lambda each: owner_text(each.owner) or ""),
        breaks=breaks,
        breaks_cost=breaks_cost,
        habits=add_habits(habit for each in looked for habit in each.habits),
    )


class _Sums(defaultdict[str, list[float]]):
    """Lines in the making: dollars, calls, input, output."""

    def __init__(self) -> None:
        super().__init__(lambda: [0.0, 0, 0, 0])

    def add(self, name: str, *amounts: float) -> None:
        row = self[name]
        for place, amount in enumerate(amounts):
            row[place] += amount

    def lines(self) -> tuple[BillLine, ...]:
        found = (
            BillLine(name, cost, int(calls), int(prompt), int(output))
            for name, (cost, calls, prompt, output) in self.items()
        )
        return tuple(sorted(found, key=lambda line: (-line.cost, -line.prompt, line.name)))


def _by(
    sessions: Iterable[BilledSession], name: Callable[[BilledSession], str]
) -> tuple[BillLine, ...]:
    sums = _Sums()
    for each in sessions:
        spent = each.inspection.spent
        sums.add(name(each), spent.cost or 0.0, spent.calls, spent.prompt, spent.output)
    return sums.lines()


def _by_model(looked: Iterable[Inspection]) -> tuple[BillLine, ...]:
    sums = _Sums()
    for inspection in looked:
        for each in inspection.spent.models:
            sums.add(each.model, each.cost or 0.0, each.calls, each.prompt, each.output)
    return sums.lines()


def _by_day(looked: Iterable[Inspection], calendar: Calendar) -> tuple[BillLine, ...]:
    sums: dict[int, list[float]] = {}
    for inspection in looked:
        for call in inspection.calls:
            if call.ts > 0:
                row = sums.setdefault(calendar.day_of(call.ts), [0.0, 0, 0])
                for place, amount in enumerate((call.cost or 0.0, 1, call.reported or 0)):
                    row[place] += amount
    return tuple(
        BillLine(calendar.name_of(day), cost, int(calls), int(prompt))
        for day in _days(sorted(sums))
        for cost, calls, prompt in [sums.get(day, (0.0, 0, 0))]
    )


def _days(known: Sequence[int]) -> Sequence[int]:
    """Return each day from the first to the last."""
    if not known or known[-1] - known[0] >= _DAYS_MAX:
        return known
    return range(known[0], known[-1] + 1)
