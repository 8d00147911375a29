"""The cost of a session so far, by the prices of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.turn.run import cost_of

if TYPE_CHECKING:
    from holdfast.core.models.totals import ModelTotals, SessionTotals
    from holdfast.core.turn.run import RunSettings


def price_totals(totals: SessionTotals, settings: RunSettings) -> tuple[float, int]:
    """Return dollars, and the number of calls without a known price or size."""
    cost, unpriced = totals.stated_cost, totals.unknown
    helper = (settings.summary_target or settings.target).model
    sums: list[tuple[str, ModelTotals]] = [
        *((model or settings.target.model, calls) for model, calls in totals.replies.items()),
        *((model or helper, calls) for model, calls in totals.helpers.items()),
    ]
    for model, calls in sums:
        dollars = cost_of(calls.usage, settings.price_for(model))
        if dollars is None:
            unpriced += calls.calls
        else:
            cost += dollars
    return cost, unpriced
