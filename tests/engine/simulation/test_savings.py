"""What Holdfast would have made of a conversation, by the simulator's own figures."""

from __future__ import annotations

import pytest
from tests.engine.simulation.test_simulate import PRICE, a_session

from holdfast.core.projection.policy import POLICIES
from holdfast.core.tokens.counting import Estimator
from holdfast.core.window import Window
from holdfast.engine.simulation.policies import Holdfast
from holdfast.engine.simulation.savings import CALLS_MIN, Saving, measure_saving
from holdfast.engine.simulation.simulate import offer_for, simulate

MODEL = "claude-sonnet-4-5"


def measure(turns: int, window: int = 200_000, static: int = 2_000) -> Saving | None:
    return measure_saving(
        a_session(turns, 5),
        Window(window, "simulated"),
        model=MODEL,
        price=PRICE,
        static=static,
        counter=Estimator(),
    )


def test_where_nothing_has_to_go_nothing_is_gained_or_lost() -> None:
    saving = measure(2)
    assert saving is not None
    assert saving.share == pytest.approx(0.0)
    assert (saving.cuts, saving.facts_lost, saving.recall) == (0, 0, saving.recall_before)


def test_a_conversation_that_was_too_large_is_cut_and_its_losses_are_told() -> None:
    saving = measure(30, window=16_000)
    assert saving is not None
    assert saving.cuts > 0
    assert saving.after < saving.before
    run = simulate(
        a_session(30, 5),
        Holdfast(POLICIES["balanced"]),
        window=16_000,
        static=2_000,
        price=PRICE,
        offer=offer_for(MODEL, PRICE),
        counter=Estimator(),
    )
    assert (saving.after, saving.cuts, saving.calls) == (run.cost, run.cuts, run.requests)
    assert (saving.recall, saving.facts_lost) == (run.recall.pooled_share, run.facts_lost)


def test_a_short_conversation_and_one_without_room_are_not_replayed() -> None:
    assert measure(1) is None
    assert CALLS_MIN > 6
    assert measure(30, window=16_000, static=20_000) is None
