"""Totals are priced as the calls are that they were added up from."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.log.records import Assistant
from holdfast.core.models.prices import Price, PriceTier, cost_of
from holdfast.core.models.totals import (
    PROMPT_SIZES,
    CallGroup,
    SessionTotals,
    bill_for,
    price_moment,
    read_totals_key,
    totals_key,
)
from holdfast.core.models.usage import read_usage

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
    found = bill_for(totals, lambda name, _provider, _at: PRICES.get(name))
    assert (found.cost or 0.0) == pytest.approx(dollars)
    assert found.gaps == unpriced


@given(st.text(), st.text(), st.integers(0, 2_000_000), st.floats(0, 4e9))
def test_a_key_gives_back_its_calls(model: str, provider: str, prompt: int, ts: float) -> None:
    """Model, provider, size and week; a mark inside a name is a space."""
    found = read_totals_key(totals_key(model, provider, prompt, ts))
    assert found.model == model.replace("\x1f", " ")
    assert found.provider == provider.replace("\x1f", " ")
    assert all((prompt > bound) == (found.prompt > bound) for bound in PROMPT_SIZES)
    assert found.at == price_moment(ts)


@given(st.floats(1, 4e9))
def test_a_call_has_the_price_of_its_week(ts: float) -> None:
    """Of Monday noon, UTC, also where that is a few hours ahead."""
    moment = datetime.fromtimestamp(price_moment(ts), UTC)
    assert (moment.weekday(), moment.hour, moment.minute) == (0, 12, 0)
    assert -43_200 <= ts - moment.timestamp() < 7 * 86_400 - 43_200


def test_keys_of_older_versions_are_read() -> None:
    """They have no provider and no week."""
    assert read_totals_key("m") == CallGroup("m")
    assert read_totals_key("m\x1f200000") == CallGroup("m", "", 200_001)


def test_a_message_that_an_agent_wrote_itself_is_no_call() -> None:
    totals = SessionTotals()
    totals.add(Assistant(content="x", model="<synthetic>"))
    totals.add(Assistant(content="x", extra={"synthetic": True}))
    assert (totals.calls, totals.unknown) == (0, 0)
