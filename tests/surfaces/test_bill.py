"""The months of a bill: they hold what its last days do not show."""

from __future__ import annotations

import pytest
from tests.core.inspection.test_bill import billed

from holdfast.surfaces.bill import parts_of


def test_months_hold_every_day_and_stand_in_order() -> None:
    bill = billed(1, 2, 100, 40)
    months = dict(parts_of(bill))["month"]
    assert [(month.name, month.calls) for month in months] == [
        ("1970-01", 2),
        ("1970-02", 1),
        ("1970-03", 0),
        ("1970-04", 1),
    ]
    assert sum(month.cost for month in months) == pytest.approx(sum(d.cost for d in bill.by_day))


def test_days_that_are_all_shown_need_no_months() -> None:
    assert "month" not in dict(parts_of(billed(25, 35)))
