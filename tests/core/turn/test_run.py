"""The state of a run: its window, its room, its costs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.conversations import said

from holdfast.core.dialects.registry import target
from holdfast.core.log.records import Mode, ModelChange
from holdfast.core.models.prices import Price, cost_of
from holdfast.core.models.usage import Usage
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.turn.run import RunSettings, RunState
from holdfast.core.window import Window

TARGET = target("anthropic", provider="anthropic", model="m")


def run_of(window: Window, **settings: Any) -> RunState:
    return RunState(RunSettings(target=TARGET, window=window, **settings), ProjectionCache)


# Costs

PRICE = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75, cache_write_hour=6.0)


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(1_000_000), 3.0),
        (Usage(0, output=1_000_000), 15.0),
        (Usage(1_000_000, cached_read=1_000_000), 0.3),
        (Usage(1_000_000, cached_write=1_000_000), 3.75),
        (Usage(1_000_000, cached_write=1_000_000, cached_write_1h=1_000_000), 6.0),
        (Usage(4_000_000, 1_000_000, 2_000_000, 1_000_000, 1_000_000), 3 + 0.3 + 3.75 + 6 + 15),
    ],
)
def test_each_token_costs_the_price_of_its_kind(usage: Usage, dollars: float) -> None:
    """Plain, read from the cache, written to it for minutes or an hour, and written by a model."""
    assert cost_of(usage, PRICE) == pytest.approx(dollars)


def test_an_hour_in_the_cache_costs_what_minutes_do_where_it_has_no_price() -> None:
    price = msgspec.structs.replace(PRICE, cache_write_hour=None)
    usage = Usage(1_000_000, cached_write=1_000_000, cached_write_1h=1_000_000)
    assert cost_of(usage, price) == pytest.approx(3.75)


def test_a_cost_that_nobody_knows_is_none() -> None:
    assert cost_of(None, PRICE) is None
    assert cost_of(Usage(1_000), None) is None
    assert cost_of(Usage(0), PRICE) == 0.0


# The window


def test_a_learned_window_is_repeated_after_every_boundary_until_it_is_forgotten() -> None:
    """The next run reads only from the boundary on."""
    run = run_of(Window(200_000))
    assert run.window_record() is None
    assert run.boundary_records() == []
    assert run.learn_window(100_000, "said")
    learned = ModelChange(model="m", provider="anthropic", window=100_000)
    assert run.window_record() == learned
    run.is_fresh = True
    assert run.boundary_records() == [Mode(mode="fresh"), learned]
    assert run.forget_window() == ModelChange(model="m", provider="anthropic")
    assert run.window_record() is None
    assert run.boundary_records() == [Mode(mode="fresh")]


def test_a_recalled_window_that_is_forgotten_is_announced_no_more() -> None:
    run = run_of(Window(200_000))
    run.recall_window(said([ModelChange(model="m", window=60_000)]))
    assert (run.window.tokens, run.recalled_window) == (60_000, True)
    run.ceiling = 50_000
    run.forget_window()
    assert (run.window.tokens, run.recalled_window) == (200_000, False)
    assert not run.ceiling


@pytest.mark.parametrize(
    ("forced", "cuts"),
    [([1_000], 1), ([1_000, 999], 1), ([1_000, 1_000], 2), ([1_000, 999, 1_001], 2)],
)
def test_a_smaller_request_does_not_force_another_cut(forced: list[int], cuts: int) -> None:
    """A server that always reports too much does not have everything cut away."""
    run = run_of(Window(64_000))
    done = 0
    for tokens in forced:
        run.must_cut = False
        run.force_cut(tokens)
        done += run.must_cut
    assert done == cuts


# Room and settings


def test_a_result_has_room_before_the_first_request_and_in_a_window_of_any_size() -> None:
    """A caller may store a result first; a window below the floor is refused by the request."""
    rooms = [run_of(Window(tokens)).output_room() for tokens in (2_000, 64_000, 200_000)]
    assert len(set(rooms)) == 3
