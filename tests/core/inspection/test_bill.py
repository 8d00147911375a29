"""A bill adds up: each part has the whole, and no day is left out."""

from __future__ import annotations

from datetime import UTC, date, datetime

import msgspec
import pytest
from tests.core.inspection.test_inspect import PRICE, a_session, inspected

from holdfast.core.inspection.bill import Bill, BilledSession, Calendar, add_bill
from holdfast.core.inspection.inspect import InspectedCall
from holdfast.core.owners import NO_OWNER, NamedOwner

DAY = 86_400.0


CALENDAR = Calendar(
    lambda ts: datetime.fromtimestamp(ts, UTC).date().toordinal(),
    lambda day: date.fromordinal(day).isoformat(),
)


def billed(*days: float) -> Bill:
    """A bill of conversations with a call on the day each began, and one without a time."""
    looked = inspected(a_session(), PRICE)
    sessions = []
    for number, start in enumerate(days):
        call = InspectedCall("a", start * DAY, 0, 100, 0.25)
        one = msgspec.structs.replace(looked, calls=(call, InspectedCall("b", 0.0, 0)))
        owner = NamedOwner("ada") if number else NO_OWNER
        sessions.append(BilledSession(one, f"p{number % 2}", "cli", owner))
    return add_bill(sessions, CALENDAR)


def test_each_part_of_a_bill_has_the_whole() -> None:
    bill = billed(1, 2, 2, 5)
    for lines in (bill.by_model, bill.by_project, bill.by_agent, bill.by_owner):
        assert sum(line.cost for line in lines) == pytest.approx(bill.cost)
        unknown = bill.unknown if lines is bill.by_model else 0  # of no use to a model's line
        assert sum(line.calls for line in lines) == bill.calls - unknown
        assert sum(line.prompt for line in lines) == bill.prompt
    assert [line.name for line in bill.by_owner] == ["ada", ""]
    assert sum(day.cost for day in bill.by_day) + bill.cost_without_day == pytest.approx(bill.cost)


def test_days_without_a_call_are_there() -> None:
    bill = billed(1, 4)
    assert [(day.name, day.calls) for day in bill.by_day] == [
        ("1970-01-02", 1),
        ("1970-01-03", 0),
        ("1970-01-04", 0),
        ("1970-01-05", 1),
    ]


def test_a_clock_that_was_wrong_makes_no_endless_bill() -> None:
    assert len(billed(1, 4_000_000 / 2_000 * 30).by_day) == 2


def test_nothing_is_a_bill_of_nothing() -> None:
    bill = add_bill([], CALENDAR)
    assert (bill.conversations, bill.cost, bill.by_day, bill.habits) == (0, 0.0, (), ())
