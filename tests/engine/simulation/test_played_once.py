"""A course that is played once and priced for each list costs what it does when played for each."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks import pace

from holdfast.engine.simulation.policies import Holdfast
from holdfast.engine.simulation.simulate import offer_for

WINDOW = 32_000
TURNS = 8
MODELS = ("claude-sonnet-5-5", "gpt-6-sol")


class Counted:
    """The policy, with a count of the courses that are begun."""

    def __init__(self) -> None:
        self.begun = 0
        self._policy = Holdfast(is_judged=False)
        self.name = self._policy.name

    def start(self, transcript: Any, terms: Any) -> Any:
        self.begun += 1
        return self._policy.start(transcript, terms)


@pytest.mark.parametrize("pause", [60.0, 600.0])
def test_each_price_is_that_of_playing_it(pause: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "TURNS", TURNS)
    replayed = pace.Replayed.of(WINDOW, pause)
    shared, single = Counted(), Counted()
    once = pace.PlayedOnce(shared)
    found, wanted = [], []
    for model in MODELS:
        lifetimes = offer_for(model, price=pace.price_list(model)).lifetimes
        for choice in (lifetimes, *((each,) for each in lifetimes)):
            found.append(replayed.run(model, once, choice))
            wanted.append(replayed.run(model, single, choice))

    assert found == wanted
    assert len({run.cost for run in wanted}) > 2, "the lists differ"
    assert any(run.prunes + run.cuts for run in wanted), "something was decided"
    assert 0 < shared.begun < single.begun == len(wanted)
