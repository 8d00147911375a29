"""Totals are priced as the calls are that they were added up from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.log.records import Assistant
from holdfast.core.models.prices import Price, PriceTier, cost_of
from holdfast.core.models.totals import PROMPT_SIZES, SessionTotals, read_totals_key, totals_key
from holdfast.core.models.usage import read_usage
from holdfast.engine.session.totals import price_calls

PRICES = {
    "flat": Price(3.0, 15.0, 0.3, 3.75),
    "tiered": Price(2.0, 12.0, 0.2, 2.0, tiers=(PriceTier(200_000, 4.0, 18.0, 0.4, 4.0),)),
    "steep": Price(
        *(1.0, 2.0, 0.1, 1.0),
        tiers=(PriceTier(128_000, 2.0, 4.0, 0.2, 2.0), PriceTier(272_000, 9.0, 9.0, 0.9, 9.0)),
    ),
}
CALLS = st.tuples(
    st.sampled_from([*PRICES, "unknown"]), st.integers(0, 600_000), st.integers(0, 600_000)
)


@examples(60)
@given(st.lists(CALLS, max_size=12))
def test_sums_cost_what_their_calls_cost(calls: list[tuple[str, int, int]]) -> None:
    """Whatever the sizes, also with tiers: the totals hold what a price needs."""
    totals, dollars, unpriced = SessionTotals(), 0.0, 0
    for model, plain, read in calls:
        raw = {"input_tokens": plain, "cache_read_input_tokens": read, "output_tokens": 7}
        totals.add(Assistant(content="x", model=model, usage=raw))
        cost = cost_of(read_usage(raw), PRICES.get(model))
        dollars += cost or 0.0
        unpriced += cost is None
    cost, without = price_calls(totals, PRICES.get)
    assert cost == pytest.approx(dollars)
    assert without == unpriced


@given(st.text(), st.integers(0, 2_000_000))
def test_a_key_gives_back_its_model(model: str, prompt: int) -> None:
    found, size = read_totals_key(totals_key(model, prompt))
    if "\x1f" not in model:
        assert found == model
        assert all((prompt > bound) == (size > bound) for bound in PROMPT_SIZES)
