"""Summaries for cuts on a cold cache: written while the user is away, and only then."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.engine.session.test_session_background import (
    LINE,
    PATIENCE,
    applied,
    drafts_of,
    let_it_write,
    outcomes,
)
from tests.engine.session.test_session_compaction import SUMMARY, fill, fill_to, model_with
from tests.engine.sessions import KINDS, Bench, check_requests, is_summary_request, texts
from tests.support.runs import examples

from holdfast.core.projection.policy import Policy
from holdfast.core.turn.background import cold_draft_delay, draft_before_cold, is_draft_due
from holdfast.core.turn.options import Summary
from holdfast.engine.session.drivers.waiting import AlarmClock
from holdfast.testing.scripted import calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.testing.scripted import ScriptedModel

CUTS_COLD = Policy(keep=0.2, cold_cut=0.4)
"""A policy that cuts on a cold cache."""
LIFETIME = 300.0
"""Seconds for which the scripted model's provider keeps a prompt cached."""


class Away:
    """A session whose user comes and goes: its clock, and the alarms that it sets."""

    def __init__(self, bench: Bench, model: ScriptedModel, **options: Any) -> None:
        self.bench, self.model = bench, model
        self.now = time.time()
        self.alarms: list[tuple[float, Callable[[], None]]] = []
        options.setdefault("summary", Summary(ahead=True))
        options.setdefault("policy", CUTS_COLD)
        self.session = bench.open(model, clock=lambda: self.now, **options)
        self.session._writer.set_alarm = self._set

    def _set(self, seconds: float, work: Callable[[], None]) -> Any:
        alarm = (self.now + seconds, work)
        self.alarms.append(alarm)
        alarms = self.alarms

        class Set:
            def cancel(self) -> None:
                if alarm in alarms:
                    alarms.remove(alarm)

        return Set()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and ring what is due."""
        until = self.now + seconds
        for at, work in sorted(self.alarms, key=lambda alarm: alarm[0]):
            if at <= until:
                self.now = max(self.now, at)
                self.alarms.remove((at, work))
                self.ring(work)
        self.now = until

    def ring(self, work: Callable[[], None]) -> None:
        async def ring() -> None:
            work()

        if self.bench.is_async:
            self.bench.do(ring())
        else:
            work()
        let_it_write(self.bench, self.session)

    def say(self, text: str) -> Any:
        return self.bench.say(self.session, text)

    def asked(self) -> int:
        """Requests for summaries so far."""
        return sum(is_summary_request(request) for request in self.model.requests)


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(request.param)
    yield made
    made.close()


def large(bench: Bench, model: ScriptedModel, **options: Any) -> Away:
    """A session that a cold cache would have cut, and a full view not yet."""
    away = Away(bench, model, **options)
    fill_to(bench, away.session, 0.6)
    away.say("anything new?")
    return away


def test_cut_on_a_cold_cache_finds_its_summary(bench: Bench) -> None:
    """The request after the wait holds the prose, and no model was asked for it in the turn."""
    away = large(bench, model_with(SUMMARY))
    assert not is_draft_due(away.session._state.run)
    away.pass_time(0.7 * LIFETIME)
    assert away.asked() == 0, "too early: the user may come back in time"
    away.pass_time(2 * LIFETIME)
    assert outcomes(bench) == ["ready"]
    assert away.asked() == 1

    away.say("I am back")

    assert away.asked() == 1, "the turn asked for no summary"
    assert outcomes(bench) == ["ready", "used"]
    assert [(made.reason, made.method) for made in applied(bench)] == [("cold", "model")]
    assert LINE in texts(away.model.requests[-1])
    check_requests(away.model)


def test_without_it_the_turn_after_the_wait_asks(bench: Bench) -> None:
    """The pause that the option saves."""
    away = large(bench, model_with(SUMMARY), summary=Summary(ahead=False))
    assert away.alarms == []
    away.pass_time(3 * LIFETIME)
    assert away.asked() == 0
    away.say("I am back")
    assert away.asked() == 1


def test_user_who_comes_back_soon_costs_nothing(bench: Bench) -> None:
    away = large(bench, model_with(SUMMARY))
    first = away.alarms[0][1]
    for number in range(3):
        away.pass_time(0.5 * LIFETIME)
        away.say(f"still here {number}")
        assert len(away.alarms) == 1, "each wait has an alarm of its own"
    away.ring(first)
    assert outcomes(bench) == []
    assert away.asked() == 0


def test_alarm_that_rings_in_a_turn_writes_nothing(bench: Bench) -> None:
    """What the user says is stored before the model is called; the alarm sees it."""
    rung: list[bool] = []

    def turn(_request: Any) -> str:
        if away.alarms or rung:
            rung.append(True)
            away.session._writer._write(world, run, draft_before_cold)
        return "noted"

    away = Away(bench, model_with(SUMMARY, turn))
    world, run = away.session._state.world, away.session._state.run
    fill_to(bench, away.session, 0.6)
    away.say("one")
    away.now += 0.9 * LIFETIME
    away.say("two")
    let_it_write(bench, away.session)
    assert rung
    assert outcomes(bench) == []


def test_draft_of_a_wait_that_ended_in_time_serves_the_next_cold_cut(bench: Bench) -> None:
    """As long as it stands for all that the cut takes."""
    away = large(bench, model_with(SUMMARY))
    away.pass_time(0.9 * LIFETIME)
    assert outcomes(bench) == ["ready"]
    away.say("back in time")
    assert applied(bench) == []
    away.pass_time(2 * LIFETIME)
    away.say("back late")
    assert outcomes(bench) == ["ready", "used"]
    assert away.asked() == 1


def test_draft_that_is_out_of_date_is_written_again(bench: Bench) -> None:
    away = large(bench, model_with(SUMMARY))
    away.pass_time(0.9 * LIFETIME)
    fill(bench, away.session, 6, start=900)
    away.say("back in time")
    assert applied(bench) == []
    away.pass_time(2 * LIFETIME)
    away.say("back late")
    assert outcomes(bench) == ["ready", "ready", "used"]
    assert away.asked() == 2
    assert [made.method for made in applied(bench)] == ["model"]


def test_small_view_sets_no_alarm(bench: Bench) -> None:
    away = Away(bench, model_with(SUMMARY))
    away.say("hello")
    assert away.alarms == []


def test_close_cancels_the_alarm(bench: Bench) -> None:
    away = large(bench, model_with(SUMMARY))
    assert len(away.alarms) == 1
    bench.do(away.session.close())
    assert away.alarms == []


def test_real_alarms_of_a_session_are_cancelled_by_close(bench: Bench) -> None:
    """Nothing is left of a session that is closed while its user is away."""
    session = bench.open(model_with(SUMMARY), summary=Summary(ahead=True), policy=CUTS_COLD)
    fill_to(bench, session, 0.6)
    bench.say(session, "anything new?")
    assert session._writer._alarm is not None
    bench.do(session.close())
    assert session._writer._alarm is None
    assert not drafts_of(session).is_running


@given(view=st.integers(0, 200_000), budget=st.integers(1_000, 180_000))
@example(view=40_001, budget=100_000)
@example(view=40_000, budget=100_000)
@example(view=8_001, budget=20_000)
@example(view=8_000, budget=20_000)
@examples(200)
def test_alarm_is_for_views_that_a_cold_cache_would_have_cut(view: int, budget: int) -> None:
    bench = Bench("blocking")
    session = bench.open(model_with(SUMMARY), summary=Summary(ahead=True), policy=CUTS_COLD)
    run = session._state.run
    run.budget_tokens, run.view_tokens = budget, view
    policy = run.policy
    is_large = view > policy.cold_cut * budget
    assert cold_draft_delay(run) == (0.8 * LIFETIME if is_large else None)
    run.drafts.is_running = True
    assert cold_draft_delay(run) is None
    session.close()
    bench.close()


def test_alarms_ring_in_their_order_and_cancelled_ones_do_not() -> None:
    """In one thread, which ends with the last of them and begins again."""
    clock = AlarmClock()
    for _again in range(2):
        rung: list[str] = []
        done = threading.Event()
        clock.set(0.02, lambda: rung.append("second"))  # noqa: B023
        clock.set(0.0, lambda: rung.append("first"))  # noqa: B023
        clock.set(0.01, lambda: rung.append("never")).cancel()  # noqa: B023
        clock.set(0.03, done.set)
        assert done.wait(PATIENCE)
        assert rung == ["first", "second"]


def test_no_thread_is_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = AlarmClock()

    def refuse(_thread: Any) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr("threading.Thread.start", refuse)
        clock.set(0.0, lambda: None)
    rung = threading.Event()
    clock.set(0.0, rung.set)
    assert rung.wait(PATIENCE)


def test_cache_that_goes_cold_while_a_tool_runs_is_prepared_for() -> None:
    """A tool that waits for somebody's consent takes as long as a user who is away."""

    def ask() -> str:
        """Wait for consent."""
        at, work = away.alarms.pop()
        away.now = max(away.now, at)
        work()
        until = time.monotonic() + PATIENCE
        while drafts_of(away.session).is_running and time.monotonic() < until:
            time.sleep(0.01)
        away.now += LIFETIME
        return "yes"

    wants = [calls(("c1", "ask", {}))]

    def turn(_request: Any) -> Any:
        return wants.pop() if wants else "noted"

    bench = Bench("blocking")
    away = Away(bench, model_with(SUMMARY, turn), tools=[ask])
    fill_to(bench, away.session, 0.6)
    away.say("go on")
    assert outcomes(bench) == ["ready"]
    assert applied(bench) == [], "an epoch amid a tool loop would end its reasoning"
    away.now += 2 * LIFETIME
    away.say("and now?")
    assert outcomes(bench) == ["ready", "used"]
    assert [(made.reason, made.method) for made in applied(bench)] == [("cold", "model")]
    assert away.asked() == 1
    request = next(request for request in away.model.requests if is_summary_request(request))
    assert "'c1'" not in str(request["messages"]), "a step in flight is not summed up"
    check_requests(away.model)
    away.session.close()
    bench.close()
