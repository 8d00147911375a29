"""The bill of a session, by the prices of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.models.spending import bill_for

if TYPE_CHECKING:
    from holdfast.core.models.spending import Spent
    from holdfast.core.models.totals import SessionTotals
    from holdfast.core.turn.run import RunSettings


def bill_of_run(totals: SessionTotals, settings: RunSettings) -> Spent:
    """Return what the calls of a session cost, by the prices of its run."""
    helper = (settings.summary_target or settings.target).model
    return bill_for(
        totals, settings.price_for, model_default=settings.target.model, helper_default=helper
    )
