"""Summaries written ahead: used by the cut where they are true, never in the way of a turn."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.engine.session.test_session_compaction import SUMMARY, fill, model_with
from tests.engine.sessions import (
    KINDS,
    Bench,
    boundaries,
    check_requests,
    is_summary_request,
    texts,
)
from tests.support.runs import examples

from holdfast.core.flow.effects import Cancelled, Deny
from holdfast.core.flow.events import (
    BackgroundSummary,
    CallFinished,
    CallStarted,
    CompactionFinished,
)
from holdfast.core.log.records import Compaction, User
from holdfast.core.models.prices import Price
from holdfast.core.turn.background import is_draft_due
from holdfast.core.turn.options import Limits, Summary
from holdfast.engine.session.session import Session
from holdfast.errors import BadSetting
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Iterator

LINE = "Heavy parcels go to the lowest shelf"
PATIENCE = 20.0
"""Seconds in which even a very slow machine gets there; nothing is measured with it."""


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(request.param)
    yield made
    made.close()


@pytest.fixture
def blocking() -> Iterator[Bench]:
    made = Bench("blocking")
    yield made
    made.close()


def drafts_of(session: Any) -> Any:
    return session._state.run.drafts


def let_it_write(bench: Bench, session: Any) -> None:
    """Wait until no summary is being written."""
    until = time.monotonic() + PATIENCE
    while drafts_of(session).is_running and time.monotonic() < until:
        if bench.is_async:
            bench.do(asyncio.sleep(0.01))
        else:
            time.sleep(0.01)
    assert not drafts_of(session).is_running


def applied(bench: Bench) -> list[CompactionFinished]:
    return [made for made in bench.of(CompactionFinished) if made.outcome == "applied"]


def outcomes(bench: Bench) -> list[str]:
    return [event.outcome for event in bench.of(BackgroundSummary)]


def nearly_full(bench: Bench, model: ScriptedModel, **options: Any) -> Any:
    """A session whose view is above the threshold, and below that of a cut."""
    session = bench.open(model, summary=Summary(ahead=True), **options)
    number = 0
    while not is_due(session):
        fill(bench, session, 1, start=number)
        number += 1
        bench.do(session.plan())
        assert number < 60
    return session


def is_due(session: Any) -> bool:
    return is_draft_due(session._state.run)


def push_over(bench: Bench, session: Any) -> None:
    """Short messages until the view is cut; what the model writes ahead is waited for."""
    for number in range(40):
        before = len(applied(bench))
        bench.say(session, f"And then? {number} " + "more of it " * 60)
        if len(applied(bench)) > before:
            return
        let_it_write(bench, session)
    pytest.fail("the view was never cut")


def test_the_cut_takes_the_summary_that_is_ready(bench: Bench) -> None:
    model = model_with(SUMMARY)
    session = nearly_full(
        bench, model, price=Price(input=1.0, output=2.0, cache_read=0.1, cache_write=1.25)
    )
    bench.say(session, "anything new?")
    let_it_write(bench, session)
    assert outcomes(bench) == ["ready"]
    asked = [request for request in model.requests if is_summary_request(request)]
    push_over(bench, session)
    assert outcomes(bench) == ["ready", "used"]
    assert [request for request in model.requests if is_summary_request(request)] == asked
    made = boundaries(bench.records())[-1]
    assert made.method == "model"
    assert LINE in made.summary
    assert LINE in texts(model.requests[-1]), "the model has it in its next request"
    assert applied(bench)[-1].calls == 1
    draft_cost = [call.cost for call in bench.of(CallFinished) if call.purpose == "draft"]
    assert made.cost == pytest.approx(sum(draft_cost))
    assert made.usage
    check_requests(model)


def test_it_is_written_while_a_tool_runs(bench: Bench) -> None:
    asked = threading.Event()

    def slow() -> str:
        """Take a while."""
        assert asked.wait(PATIENCE), "the summary was not asked for while the tool ran"
        return "done"

    def write(_request: Any) -> str:
        asked.set()
        return SUMMARY

    wants_tool = [calls(("c1", "slow", {}))]

    def turn(_request: Any) -> Any:
        return wants_tool.pop() if wants_tool else "noted"

    model = model_with(write, turn)
    session = nearly_full(bench, model, tools=[slow])
    assert bench.say(session, "look").text == "noted"
    let_it_write(bench, session)
    assert "ready" in outcomes(bench)
    request = next(request for request in model.requests if is_summary_request(request))
    assert "slow" not in str(request["messages"]), "a step in flight is not summed up"
    check_requests(model)


def test_without_the_option_nothing_is_written_ahead(bench: Bench) -> None:
    for options in ({}, {"summary": Summary(writer="extract", ahead=True)}):
        model = model_with(SUMMARY)
        session = bench.open(model, name=f"s{len(options)}", **options)
        fill(bench, session, 20)
        bench.say(session, "anything new?")
        let_it_write(bench, session)
        assert outcomes(bench) == []
    with pytest.raises(BadSetting, match="ahead"):
        bench.open(model_with(SUMMARY), name="s3", summary=Summary(ahead="yes"))  # type: ignore[arg-type]


def test_a_writer_that_hangs_holds_up_no_turn_and_no_close(blocking: Bench) -> None:
    release = threading.Event()

    def hang(_request: Any) -> str:
        release.wait(PATIENCE)
        return SUMMARY

    model = model_with(hang)
    session = nearly_full(blocking, model)
    for number in range(2):
        assert blocking.say(session, f"still there? {number}").text == "noted"
    assert drafts_of(session).is_running
    threads = threading.active_count()
    session.close()
    assert not drafts_of(session).is_running
    release.set()
    assert threading.active_count() <= threads


def test_a_cut_waits_for_what_is_left_of_the_call(blocking: Bench) -> None:
    bench = blocking
    begun, release = threading.Event(), threading.Event()

    def write(_request: Any) -> str:
        begun.set()
        assert release.wait(PATIENCE)
        return SUMMARY

    model = model_with(write)
    session = nearly_full(bench, model)
    bench.say(session, "anything new?")
    assert begun.wait(PATIENCE)
    fill(bench, session, 4, start=90)
    timer = threading.Timer(0.2, release.set)
    timer.start()
    push_over(bench, session)
    timer.join()
    assert outcomes(bench) == ["ready", "used"]
    assert len([request for request in model.requests if is_summary_request(request)]) == 1


def test_a_cancelled_turn_does_not_wait_for_it(blocking: Bench) -> None:
    release = threading.Event()

    def hang(_request: Any) -> str:
        release.wait(PATIENCE)
        return SUMMARY

    session = nearly_full(blocking, model_with(hang))
    blocking.say(session, "anything new?")
    fill(blocking, session, 8, start=90)
    threading.Timer(0.2, session.cancel).start()
    with pytest.raises(Cancelled):
        blocking.say(session, "and now?")
    release.set()
    session.close()


def test_a_listener_can_deny_the_call(bench: Bench) -> None:
    model = model_with(SUMMARY)
    session = nearly_full(bench, model)
    session.on(lambda event: Deny("no") if event.purpose == "draft" else None, CallStarted)
    bench.say(session, "anything new?")
    let_it_write(bench, session)
    assert outcomes(bench) == ["failed"]
    assert not [request for request in model.requests if is_summary_request(request)]
    push_over(bench, session)
    assert applied(bench)[-1].method == "model", "the cut asks for itself"


def test_drafts_that_fail_are_bounded(bench: Bench) -> None:
    model = model_with("")
    session = nearly_full(bench, model)
    push_over(bench, session)
    assert 1 <= outcomes(bench).count("failed") <= 2
    assert applied(bench)[-1].method == "extract"


def test_a_focus_asks_anew(bench: Bench) -> None:
    model = model_with(SUMMARY)
    session = nearly_full(bench, model)
    bench.say(session, "anything new?")
    let_it_write(bench, session)
    assert bench.do(session.compact("the shelves")).method == "model"
    assert outcomes(bench) == ["ready"]
    assert "the shelves" in texts(model.requests[-1])


def test_an_asked_compaction_takes_the_draft(bench: Bench) -> None:
    model = model_with(SUMMARY)
    session = nearly_full(bench, model)
    bench.say(session, "anything new?")
    let_it_write(bench, session)
    before = len(model.requests)
    assert LINE in bench.do(session.compact()).summary
    assert len(model.requests) == before
    assert outcomes(bench) == ["ready", "used"]


def test_the_cost_of_a_dropped_draft_is_in_the_cut(bench: Bench) -> None:
    model = model_with(SUMMARY)
    session = nearly_full(
        bench, model, price=Price(input=1.0, output=2.0, cache_read=0.1, cache_write=1.25)
    )
    bench.say(session, "anything new?")
    let_it_write(bench, session)
    fill(bench, session, 22, start=200)
    bench.say(session, "and now?")
    assert outcomes(bench) == ["ready", "dropped"]
    spent = [call.cost for call in bench.of(CallFinished) if call.purpose in ("draft", "summary")]
    made = boundaries(bench.records())[-1]
    assert len(spent) >= 2
    assert made.cost == pytest.approx(sum(spent))


def test_one_draft_is_enough_until_the_next_cut(bench: Bench) -> None:
    """However often the session waits; and each boundary gets one of its own."""
    wants: list[Any] = []

    def turn(_request: Any) -> Any:
        return wants.pop() if wants else "noted"

    def look() -> str:
        """Look at the shelf."""
        return "dry"

    numbers = itertools.count()

    def write(_request: Any) -> str:
        return f"{SUMMARY}\nBatch {next(numbers)} of the winter delivery is still to come."

    model = model_with(write, turn)
    session = nearly_full(bench, model, tools=[look])
    for number in range(3):
        wants.append(calls((f"c{number}", "look", {})))
        bench.say(session, f"look {number}")
        let_it_write(bench, session)
    assert outcomes(bench) == ["ready"]
    push_over(bench, session)
    assert outcomes(bench) == ["ready", "used"]
    number = 0
    while not is_due(session):
        fill(bench, session, 1, start=300 + number)
        number += 1
        bench.do(session.plan())
    bench.say(session, "anything else?")
    let_it_write(bench, session)
    assert outcomes(bench)[:3] == ["ready", "used", "ready"]


def test_a_writer_that_is_gone_is_waited_for_once(blocking: Bench) -> None:
    """After a fork the child has no such thread; a machine may have none to give."""
    session = nearly_full(blocking, model_with(SUMMARY), limits=Limits(summary_seconds=0.2))
    drafts_of(session).is_running = True
    fill(blocking, session, 8, start=90)
    blocking.say(session, "and now?")
    assert [made.method for made in applied(blocking)] == ["model"]
    assert not drafts_of(session).is_running


def test_where_no_thread_can_be_had_the_cut_asks(
    blocking: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = nearly_full(blocking, model_with(SUMMARY))

    def refuse(_thread: Any) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr("threading.Thread.start", refuse)
        session._state.world.on_wait()
    assert not drafts_of(session).is_running
    push_over(blocking, session)
    assert applied(blocking)[-1].method == "model"


STEPS = st.sampled_from(["say", "long", "tool", "rewind", "undo", "compact", "other", "fill"])


@given(steps=st.lists(STEPS, min_size=2, max_size=16))
@example(steps=["say", "rewind", "say", "long", "say", "long", "say"])
@example(steps=["say", "fill", "fill", "fill", "say"])
@example(steps=["say", "other", "compact", "fill", "say"])
@example(steps=["say", "compact", "undo", "say", "long", "long"])
@example(steps=["tool", "say", "long", "tool", "long", "tool"])
@examples(200)
def test_a_draft_is_used_only_where_it_stands_for_all_that_the_cut_takes(steps: list[str]) -> None:
    """Whatever happens between draft and cut, in this session object or in another one."""
    bench = Bench("blocking")
    wants_tool: list[Any] = []

    def turn(_request: Any) -> Any:
        return wants_tool.pop() if wants_tool else "Noted: " + "it is dry. " * 60

    def look() -> str:
        """Look at the shelf."""
        return "the shelf has room " * 50

    numbers = itertools.count()

    def write(_request: Any) -> str:
        return f"{SUMMARY}\nBatch {next(numbers)} of the winter delivery is still to come."

    model = model_with(write, turn)
    session = nearly_full(bench, model, tools=[look])
    other = Session.open("s", model=model_with(write), store=bench.store)
    cuts: list[tuple[str, str]] = []
    used: list[str] = []

    def note(event: Any) -> None:
        if isinstance(event, BackgroundSummary) and event.outcome == "used":
            used.append(event.record)
        elif isinstance(event, CompactionFinished):
            if event.outcome == "applied" and used:
                cuts.append((used[-1], event.record))
            used.clear()

    session.on(note)
    for number, step in enumerate(steps):
        match step:
            case "say":
                session.say(f"message {number}")
            case "long":
                session.say(f"message {number} " + "more of it " * 500)
            case "tool":
                wants_tool.append(calls((f"c{number}", "look", {})))
                session.say(f"look {number}")
            case "rewind" if any(isinstance(rec, User) for rec in bench.records()):
                session.rewind(turns=1)
            case "undo" if boundaries(bench.records()):
                session.undo()
            case "compact":
                session.compact()
            case "other":
                other.compact()
            case "fill":
                fill(bench, session, 7, start=100 * number)
        let_it_write(bench, session)
    written = {entry.record.id: entry.record for entry in bench.store.read_all(session.key)}
    for last, record in cuts:
        made = written[record]
        assert isinstance(made, Compaction)
        assert made.covers is not None
        path = list(bench.store.read_branch(session.key, record))
        places = {rec.id: place for place, rec in enumerate(path)}
        assert places[made.covers[1]] <= places[last], "the cut takes more than was summed up"
    check_requests(model)
    session.close()
    bench.close()
