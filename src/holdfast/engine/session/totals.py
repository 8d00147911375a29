"""The cost of a session so far, by the prices of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.models.prices import cost_of
from holdfast.core.models.totals import read_totals_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.models.prices import Price
    from holdfast.core.models.totals import ModelTotals, SessionTotals
    from holdfast.core.turn.run import RunSettings


def price_totals(totals: SessionTotals, settings: RunSettings) -> tuple[float, int]:
    """Return dollars, and the number of calls without a known price or size."""
    helper = (settings.summary_target or settings.target).model
    return price_calls(
        totals, settings.price_for, model_default=settings.target.model, helper_default=helper
    )


def price_calls(
    totals: SessionTotals,
    price_for: Callable[[str], Price | None],
    *,
    model_default: str = "",
    helper_default: str = "",
) -> tuple[float, int]:
    """The same by prices alone; the defaults stand where a record names no model."""
    cost, unpriced = totals.stated_cost, totals.unknown
    sums: list[tuple[str, str, ModelTotals]] = [
        *((key, model_default, calls) for key, calls in totals.replies.items()),
        *((key, helper_default, calls) for key, calls in totals.helpers.items()),
    ]
    for key, default, calls in sums:
        model, prompt = read_totals_key(key)
        dollars = cost_of(calls.usage, price_for(model or default), prompt)
        if dollars is None:
            unpriced += calls.calls
        else:
            cost += dollars
    return cost, unpriced
