"""What Holdfast would have made of a conversation, by the simulator's own figures."""

from __future__ import annotations

import pytest
from tests.engine.simulation.test_simulate import PRICE, a_session

from holdfast.core.log.records import Assistant
from holdfast.core.projection.policy import POLICIES
from holdfast.core.tokens.counting import Estimator
from holdfast.core.window import Window
from holdfast.engine.simulation.policies import Compact, Holdfast, KeepTurns
from holdfast.engine.simulation.savings import CALLS_MIN, Saving, measure_saving
from holdfast.engine.simulation.simulate import offer_for, simulate
from holdfast.engine.simulation.transcripts import Transcript

MODEL = "claude-sonnet-4-5"


def measure(
    turns: int, window: int = 200_000, static: int = 2_000, *, is_ours: bool = False
) -> Saving | None:
    return measure_saving(
        a_session(turns, 5),
        Window(window, "simulated"),
        model=MODEL,
        price=PRICE,
        static=static,
        counter=Estimator(),
        is_ours=is_ours,
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
    assert bool(saving.lost) == bool(saving.facts_lost)


def test_each_lost_fact_is_told_with_its_call() -> None:
    """As often as it was used and not in view."""
    inputs = {"path": "src/part_0/main.py", "other": "src/part_1/main.py"}
    late = {"type": "tool_use", "id": "late", "name": "edit", "input": inputs}
    reply = Assistant(content=[late], id="late", ts=2e6)
    transcript = Transcript([*a_session(turns=6), reply], Estimator())
    found: list[int] = []
    run = simulate(transcript, KeepTurns(1, "steps"), window=1_000_000, on_lost=found.extend)
    assert len(found) == run.facts_lost == 2
    assert {transcript.fact_names[number] for number in found} == set(inputs.values())


def test_a_conversation_of_ours_is_compared_with_a_summary() -> None:
    """What was sent is on the side of Holdfast; on the other is a summary at 85 % of the window."""
    saving, theirs = measure(30, window=16_000, is_ours=True), measure(30, window=16_000)
    assert saving is not None
    assert theirs is not None
    line = simulate(
        a_session(30, 5),
        Compact(),
        window=16_000,
        static=2_000,
        price=PRICE,
        offer=offer_for(MODEL, PRICE),
        counter=Estimator(),
    )
    assert line.cuts > 0
    assert (saving.before, saving.recall_before) == (line.cost, line.recall.pooled_share)
    assert saving.after == theirs.before


def test_a_short_conversation_and_one_without_room_are_not_replayed() -> None:
    assert measure(1) is None
    assert CALLS_MIN > 6
    assert measure(30, window=16_000, static=20_000) is None
