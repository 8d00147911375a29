"""The learned correction: what it converges to, what it refuses, and what it promises."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.models.usage import Usage
from holdfast.core.tokens.calibration import (
    ADDED_TOKENS_MIN,
    CLAUDE_BASE,
    EXACT_BASE,
    MARGIN_TOKENS,
    UNKNOWN_BASE,
    Base,
    Calibration,
    base_for,
    margin,
    predict,
    was_cut,
)


def taught(calibration: Calibration, factor: float, per_result: float, times: int) -> Calibration:
    """Additions as an agent makes them, of a model with these two numbers."""
    dice = random.Random(7)
    for _ in range(times):
        counted, results = dice.randrange(150, 4_000), dice.randrange(4)
        real = round(factor * counted + per_result * results)
        calibration = calibration.learn(counted, results, real)
    return calibration


@pytest.mark.parametrize("base", [CLAUDE_BASE, EXACT_BASE, UNKNOWN_BASE, Base(1.3, 0.0)])
def test_both_numbers_are_learned(base: Base) -> None:
    """Whatever was assumed, a hundred additions tell the truth."""
    learned = taught(Calibration(base), 1.17, 95.0, 100)
    assert learned.factor == pytest.approx(1.17, rel=0.02)
    assert learned.per_result == pytest.approx(95.0, rel=0.15)


def test_nothing_learned_is_the_base() -> None:
    """The first request is corrected by what is assumed of the model."""
    calibration = Calibration(CLAUDE_BASE)
    assert (calibration.factor, calibration.per_result) == pytest.approx((1.12, 80.0))
    assert calibration.tokens(1_000, 2) == 1_280


def test_a_changed_model_is_relearned() -> None:
    """What was learned is forgotten, in some tens of thousands of tokens."""
    changed = taught(taught(Calibration(), 1.1, 90.0, 200), 1.4, 30.0, 100)
    assert changed.factor == pytest.approx(1.4, rel=0.03)


@pytest.mark.parametrize(
    ("counted", "real"),
    [
        pytest.param(ADDED_TOKENS_MIN - 1, 110, id="too small"),
        pytest.param(1_000, 99, id="real too small"),
        pytest.param(1_000, 10_000, id="ten times as much: something was injected"),
        pytest.param(1_000, -5_000, id="smaller than before: an edit"),
        pytest.param(10_000, 1_500, id="a seventh: silently cut"),
    ],
)
def test_what_cannot_be_trusted_is_not_learned(counted: int, real: int) -> None:
    """The correction stays what it was, to the bit."""
    calibration = taught(Calibration(CLAUDE_BASE), 1.12, 80.0, 5)
    assert calibration.learn(counted, 0, real) == calibration


@pytest.mark.parametrize(
    ("counted", "least", "most"),
    [
        pytest.param(ADDED_TOKENS_MIN - 1, None, None, id="too small an addition"),
        pytest.param(ADDED_TOKENS_MIN, ADDED_TOKENS_MIN, 3 * 112, id="the smallest addition"),
        pytest.param(1_000, 336, 3_360, id="three tenths to three times the expected 1,120"),
    ],
)
def test_what_is_learned_from_has_bounds(counted: int, least: int | None, most: int | None) -> None:
    """Up to and including them; one token outside, nothing changes."""
    calibration = Calibration(CLAUDE_BASE)
    learned = [real for real in range(4_000) if calibration.learn(counted, 0, real) != calibration]
    if least is None or most is None:
        assert learned == []
    else:
        assert learned == list(range(least, most + 1))


def test_one_injected_reminder_moves_little() -> None:
    """Twice the expected tokens, once, do not spoil what a hundred additions said."""
    calibration = taught(Calibration(CLAUDE_BASE), 1.12, 80.0, 100)
    after = calibration.learn(2_000, 1, 2 * calibration.tokens(2_000, 1))
    assert after.factor == pytest.approx(calibration.factor, rel=0.02)


def test_learning_changes_nothing_that_exists() -> None:
    """A calibration is a value."""
    before = Calibration(CLAUDE_BASE)
    after = before.learn(5_000, 1, 6_500)
    assert before == Calibration(CLAUDE_BASE)
    assert after != before
    assert after.restart() == before


@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(0, 50), st.integers(-(10**6), 10**7)),
        max_size=30,
    ),
    st.integers(0, 10**6),
    st.integers(0, 100),
)
def test_correction_stays_sane(
    seen: list[tuple[int, int, int]], counted: int, results: int
) -> None:
    """Whatever was reported: finite, not negative, and never less than a third of the count."""
    calibration = Calibration(UNKNOWN_BASE)
    for added in seen:
        calibration = calibration.learn(*added)
    assert 0.3 <= calibration.factor <= 3
    assert 0 <= calibration.per_result <= 1_000
    tokens = calibration.tokens(counted, results)
    assert math.floor(0.3 * counted) <= tokens <= 3 * counted + 1_000 * results + 1


@pytest.mark.parametrize(
    ("model", "is_exact", "base"),
    [
        ("claude-opus-4-6", False, CLAUDE_BASE),
        ("us.anthropic.claude-sonnet-4-5-v1:0", False, CLAUDE_BASE),
        ("gpt-5", True, EXACT_BASE),
        ("gemini-3-pro", False, UNKNOWN_BASE),
        ("", False, UNKNOWN_BASE),
    ],
)
def test_bases_by_model(model: str, *, is_exact: bool, base: Base) -> None:
    """Claude's is known; where the vocabulary is the model's own there is little to correct."""
    assert base_for(model, is_exact=is_exact) == base


def test_prediction_adds_to_the_last_usage() -> None:
    """The anchor, and only what came after it is estimated."""
    made = predict(Usage(100_000), 1_000, 1, Calibration(CLAUDE_BASE))
    assert made.tokens == 101_200
    assert made.is_anchored
    assert made.margin == 2_024 + MARGIN_TOKENS
    assert made.upper == made.tokens + made.margin


def test_prediction_without_an_anchor_is_wider() -> None:
    """Nobody has confirmed any of it, so more room is asked for."""
    made = predict(None, 10_000, 10, Calibration(CLAUDE_BASE))
    assert not made.is_anchored
    assert made.tokens == 12_000
    assert made.margin > margin(made.tokens)


def test_what_was_removed_is_taken_off_with_a_wider_margin() -> None:
    """After an edit the anchor still holds the hidden parts that no count can see."""
    calibration = Calibration(CLAUDE_BASE)
    made = predict(Usage(100_000), 1_000, 0, calibration, removed=20_000, removed_results=10)
    assert made.tokens == 100_000 + 1_120 - 23_200
    assert made.margin > margin(made.tokens)


def test_removing_more_than_there_was_leaves_what_is_sent() -> None:
    """A prediction is never below what is certainly in the request."""
    made = predict(Usage(1_000), 500, 0, Calibration(EXACT_BASE), removed=50_000)
    assert made.tokens == 500


@given(st.integers(0, 10**7))
def test_margin_grows_with_the_request(tokens: int) -> None:
    """Two percent and a thousand."""
    assert margin(tokens) == math.ceil(0.02 * tokens) + 1_000
    assert margin(tokens) <= margin(tokens + 1)


@pytest.mark.parametrize(
    ("sent", "reported", "cut"),
    [
        (100_000, 50_000, True),
        (100_000, 95_000, False),
        (100_000, 130_000, False),
        (500, 200, False),
    ],
)
def test_a_silently_cut_request_is_noticed(sent: int, reported: int, *, cut: bool) -> None:
    """Half of what was sent is no estimating error; a small request proves nothing."""
    made = predict(None, sent, 0, Calibration(EXACT_BASE))
    assert was_cut(made, Usage(reported)) == cut
