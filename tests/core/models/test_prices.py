"""A price: checked, noted, and by the size of the prompt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.models.prices import Price, PriceTier, cost_of, cost_without_cache
from holdfast.core.models.usage import Usage
from holdfast.errors import BadSetting

TIERED = Price(
    *(2.0, 12.0, 0.2, 2.0),
    tiers=(PriceTier(200_000, 4.0, 18.0, 0.4, 4.0), PriceTier(500_000, 8.0, 36.0, 0.8, 8.0)),
)


def test_own_price_is_taken_as_given() -> None:
    """A price that somebody gives needs no date."""
    assert Price(3.0, 15.0, 0.3, 3.75).note == "prices as given"


@pytest.mark.parametrize("bad", [(0.0, 1.0, 0.1, 1.0), (1.0, -1.0, 0.1, 1.0), (1.0, 1.0, -1, 1.0)])
def test_price_must_be_positive(bad: tuple[float, float, float, float]) -> None:
    """A price of nothing would make every policy look the same."""
    with pytest.raises(BadSetting, match="must be positive"):
        Price(*bad)


@pytest.mark.parametrize(
    ("prompt", "dollars"),
    [(200_000, 2.0), (200_001, 4.0), (500_000, 4.0), (500_001, 8.0), (1_000_000, 8.0)],
)
def test_a_tier_holds_for_all_tokens_of_a_larger_prompt(prompt: int, dollars: float) -> None:
    """One token more than the bound, and all of them cost what the tier says."""
    assert cost_of(Usage(prompt), TIERED) == pytest.approx(prompt * dollars / 1_000_000)


@given(st.integers(0, 900_000), st.integers(0, 900_000), st.integers(0, 100_000))
def test_the_cache_never_makes_a_call_dearer_where_writing_is_free(
    plain: int, read: int, output: int
) -> None:
    """The tier is chosen by the whole prompt, with and without a cache."""
    usage = Usage(plain + read, cached_read=read, output=output)
    cost = cost_of(usage, TIERED)
    assert cost is not None
    assert cost <= cost_without_cache(usage, TIERED) + 1e-9
