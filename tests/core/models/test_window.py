"""The window, the budget's sums, and refusals by sums."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.models.catalog import FAMILIES, family_of
from holdfast.core.models.window import budget_for
from holdfast.core.window import Window
from holdfast.errors import BadSetting, CannotFit


@pytest.mark.parametrize(
    ("window", "output", "static", "reserve", "available", "tokens"),
    [
        (32_000, 4_000, 1_500, 2_560, 23_940, 21_546),
        (16_000, 4_000, 2_000, 1_280, 8_720, 7_848),
        (8_000, 2_500, 1_500, 1_200, 2_800, 2_520),
        (200_000, 20_000, 15_000, 16_000, 149_000, 134_100),
    ],
)
def test_budget_is_what_the_formula_says(
    window: int, output: int, static: int, reserve: int, available: int, tokens: int
) -> None:
    """ratio × (window − output reserve − static − dynamic reserve)."""
    budget = budget_for(Window(window), system=static, output=output, floor=0)
    assert (budget.dynamic_reserve, budget.available, budget.tokens) == (reserve, available, tokens)


def test_budget_that_is_used_up_is_refused_with_its_sums() -> None:
    """The parts are named, the largest first."""
    with pytest.raises(CannotFit, match=r"output_reserve 1,700 .* system 1,200") as caught:
        budget_for(Window(2_000), system=1_200, output=1_700, floor=0)
    assert caught.value.parts["window"] == 2_000


@given(st.integers(1, 3_000_000), st.integers(0, 50_000), st.integers(0, 30_000))
def test_budget_never_exceeds_what_is_left(window: int, static: int, output: int) -> None:
    """Whatever the sizes: it fits, or it is refused."""
    try:
        budget = budget_for(Window(window), tools=static, output=output, floor=0)
    except CannotFit as error:
        assert error.parts["window"] == window  # noqa: PT017
        return
    assert 0 < budget.tokens <= window - output - static


@pytest.mark.parametrize("tokens", [0, -1])
def test_window_of_nothing_is_refused(tokens: int) -> None:
    with pytest.raises(BadSetting, match="is not possible"):
        Window(tokens)


def test_small_windows_carry_a_warning() -> None:
    assert "is small" in Window(24_000).warning
    assert Window(32_000).warning == ""


def test_anchored_budgets_are_larger() -> None:
    """Calibration earns a ratio closer to one."""
    measured = budget_for(Window(100_000), is_anchored=True)
    assert measured.tokens > budget_for(Window(100_000)).tokens


def test_every_family_is_found_by_a_name_of_its_own() -> None:
    """No pattern is hidden behind another."""
    names = {
        *("claude-x", "claude-y[1m]", "gpt-3.5-turbo", "gpt-4", "gpt-4o", "gpt-4.1", "gpt-5"),
        *("claude-3-opus", "claude-3-5-sonnet", "gpt-4-turbo", "gemini-2.0-flash", "deepseek-r1"),
        *("o3-mini", "gemini-2.5-pro", "deepseek-chat", "mistral-large", "kimi-k2", "qwen3"),
        *("llama-3.3", "glm-4.6", "grok-4", "offline"),
    }
    assert {family_of(name) for name in names} == set(FAMILIES)
