"""Calls that wait, late results and timers, in random lives: each outcome reaches the model once.

It is in the next request, in no request twice, and in none of another branch; a payment is made
once, as somebody approved it; and the provider that enforces its rules has nothing to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from tests.lives.lives import (
    DIALECTS,
    Ask,
    Compact,
    Decide,
    Deliver,
    Fork,
    GoOn,
    Life,
    Pause,
    Remind,
    Reset,
    Rewind,
    Say,
    Undo,
    lives,
)
from tests.lives.living import Living, live
from tests.lives.oracle import judge_outcomes
from tests.support.runs import examples

if TYPE_CHECKING:
    from tests.lives.lives import Step, Surface

pytest.importorskip("anthropic")
pytest.importorskip("openai")
pytest.importorskip("google.genai")

SURFACES: tuple[Surface, ...] = ("engine", "async")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("surface", SURFACES)
def test_each_outcome_reaches_the_model_once(surface: Surface, dialect: str) -> None:
    """Parked, decided, expired, spoken in between, rewound, forked, cut, reset, resumed."""

    @examples(40)
    @given(life=lives(dialect, acts=True))
    def check(life: Life) -> None:
        assert live(life, surface) == []

    check()


def _life(dialect: str, *steps: Step) -> Life:
    return Life(dialect, 0, 16_000, streams=False, thinking=True, steps=steps)


LIVES: dict[str, tuple[Step, ...]] = {
    **{
        how: (
            *(Say(5), Ask(2, 1, (5,)), Decide(0, how, is_elsewhere), GoOn()),
            *(Decide(0, how, is_elsewhere), GoOn(), Say(5), Deliver(0), Ask(1), Say(5)),
            *(Decide(0, how, is_elsewhere), Say(5)),
        )
        for how in ("approve", "deny", "change", "always")
        for is_elsewhere in (how != "deny",)
    },
    "nobody decides in time": (Ask(2), Say(5), Ask(1), Pause(90_000), GoOn(), Say(5)),
    "a rewind, taken back": (Ask(1), Rewind(1), Undo(), Decide(0, "approve"), Say(5)),
    "approved again after a rewind": (
        *(Say(5), Ask(1), Decide(0, "approve"), GoOn(), Rewind(1), Ask(1)),
        *(Decide(0, "deny"), GoOn(), Say(5)),
    ),
    "a fork": (Ask(1), Fork(comes_back=True), Decide(0, "approve"), GoOn(), Say(5)),
    "in a fork": (Ask(1), Fork(comes_back=False), Decide(0, "approve"), GoOn(), Say(5)),
    "a cut": (
        *(Ask(1), Say(400, ((9_000,), (30_000,))), Say(400, ((9_000,), (30_000,))), Compact()),
        *(Decide(0, "approve"), GoOn(), Say(5), Compact(), Say(5)),
    ),
    "a reset": (Ask(1, 1), Reset(), Decide(0, "approve"), Deliver(0), GoOn(), Say(5)),
    "timers": (
        Remind(60),
        Ask(1),
        Pause(400),
        Decide(0, "approve"),
        Remind(60),
        Pause(400),
        Say(5),
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_case_keeps_the_laws(dialect: str) -> None:
    """Each way that a call can go, at least once in every run."""
    for name, steps in LIVES.items():
        for surface in SURFACES:
            assert live(_life(dialect, *steps), surface) == [], (name, surface)


def test_an_outcome_that_is_lost_or_doubled_or_elsewhere_is_seen() -> None:
    """The oracle can fail: a mark is taken out of a request, put in twice, or is of elsewhere."""
    life = Living(_life("anthropic", *LIVES["approve"]), "engine")
    assert life.run() == []
    sent = life.provider.sent
    at = next(at for at, one in enumerate(sent) if one.told)
    told = sent[at]
    marks, one = " ".join(sorted(told.told)), min(told.told)

    def with_body(text: str) -> list[str]:
        received = msgspec.structs.replace(told.received, body={"messages": text})
        spoilt = [*sent[:at], told._replace(received=received), *sent[at + 1 :]]
        return [fault.law for fault in judge_outcomes(spoilt)]

    assert with_body(marks) == []
    assert with_body(marks.replace(one, "")) == ["an outcome is not in the next request"]
    assert with_body(f"{marks} {one}") == ["an outcome is there twice"]
    elsewhere = told._replace(told=frozenset(), foreign=told.told)
    laws = [fault.law for fault in judge_outcomes([*sent[:at], elsewhere])]
    assert set(laws) == {"an outcome of elsewhere"}
