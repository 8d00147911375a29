"""The agent at the helm: its context tells how full it is, and it can take a checkpoint."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.session.test_session_calls import said_in
from tests.engine.sessions import (
    EITHER_KIND,
    KINDS,
    Bench,
    check_requests,
    is_summary_request,
    texts,
)

from holdfast.core.log.records import METER, Checkpoint, Compaction, InjectedContext, Prune
from holdfast.core.turn.options import Limits
from holdfast.errors import BadSetting
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = EITHER_KIND
WINDOW = 16_000
MARKS = (0.5, 0.7, 0.85)


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(request.param)
    yield made
    made.close()


def fetch(number: int) -> str:
    """Fetch a text."""
    return f"part {number}: " + "word " * 500


def full(bench: Bench, limits: Limits, *, in_one_turn: bool = False) -> ScriptedModel:
    """A session that outgrows its window, in one turn or in many; returns its model."""
    rounds = iter(range(1_000))

    def answer(request: Any) -> Any:
        if is_summary_request(request):
            return "Goal: go on."
        number = next(rounds)
        is_last = number % 30 == 29 if in_one_turn else number % 2
        return "done" if is_last else calls((f"c{number}", "fetch", {"number": number}))

    model = ScriptedModel([], otherwise=answer)
    session = bench.open(model, tools=[fetch], window=WINDOW, limits=limits)
    for turn in range(1 if in_one_turn else 12):
        bench.say(session, f"turn {turn}")
    assert bench.do(session.compact()).outcome == "applied"
    bench.say(session, "go on")
    return model


def lines(bench: Bench) -> list[tuple[str, str]]:
    """The lines of the meter, and the cuts between them."""
    found = []
    for record in bench.records():
        if isinstance(record, Compaction | Prune):
            found.append(("cut" if isinstance(record, Compaction) else "prune", ""))
        elif isinstance(record, InjectedContext):
            found.append((record.source.removeprefix(f"{METER}: "), record.text))
    return found


@pytest.mark.parametrize("in_one_turn", [False, True])
def test_each_mark_is_told_once_until_the_next_cut(bench: Bench, in_one_turn: bool) -> None:
    """Between turns and amid a loop of tools; after a cut the model is told of it."""
    model = full(bench, Limits(marks=MARKS), in_one_turn=in_one_turn)
    found = lines(bench)
    names = [name for name, _text in found]
    assert "cut" in names
    assert {"50%", "70%"} <= set(names)
    for is_cut, group in itertools.groupby(names, lambda name: name in ("cut", "prune")):
        told = list(group)
        assert is_cut or len(told) == len(set(told))
    after = [found[at + 1] for at, name in enumerate(names[:-1]) if name == "cut"]
    assert after
    assert all("was cut" in text for name, text in after if name not in ("cut", "prune"))
    assert all("was cut" not in text for name, text in found[: names.index("cut")])
    check_requests(model)


@pytest.mark.parametrize("in_one_turn", [False, True])
def test_a_line_is_in_the_request_at_which_its_mark_is_passed(
    bench: Bench, in_one_turn: bool
) -> None:
    """It is behind what was said, and stays: no prefix changes for it."""
    model = full(bench, Limits(marks=MARKS), in_one_turn=in_one_turn)
    asked = [one for one in model.requests if not is_summary_request(one)]
    first = next(at for at, one in enumerate(asked) if METER in texts(one))
    assert METER in texts({"messages": asked[first]["messages"][-1:]})
    before, after = said_in(asked[first - 1]), said_in(asked[first])
    assert after[: len(before)] == before
    assert texts(asked[first]).count("of the room until the next cut is used") == 1


def test_nothing_is_told_unless_marks_are_given(bench: Bench) -> None:
    """It takes tokens, and not every model wants it."""
    model = full(bench, Limits())
    assert METER not in str(model.requests)


@pytest.mark.parametrize("marks", [(0.0,), (1.5,), ("half",), (0.5, 1.0)])
def test_marks_that_make_no_sense_are_refused(marks: Any) -> None:
    with pytest.raises(BadSetting, match="marks"):
        Limits(marks=marks)


@pytest.mark.parametrize("keeps", [True, False])
def test_the_model_takes_a_checkpoint(bench: Bench, keeps: bool) -> None:
    """With the tool `context`, before its next step; a session without checkpoints says so."""
    model = ScriptedModel([calls(("c", "context", {"action": "checkpoint"})), "done"])
    more: Any = {} if keeps else {"checkpoints": "off"}
    session = bench.open(model, tools=[fetch], **more)
    bench.say(session, "Remember where we are.")
    taken = [rec for rec in bench.records() if isinstance(rec, Checkpoint)]
    assert len(taken) == keeps
    answer = texts({"messages": model.requests[-1]["messages"][-1:]})
    assert ("is stored before your next step" in answer) == keeps
    assert ("stores no checkpoints" in answer) != keeps
    check_requests(model)
