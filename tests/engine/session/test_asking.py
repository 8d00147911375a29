"""A model asks what it no longer sees, how full its context is, and for a cut."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.sessions import EITHER_KIND, KINDS, Bench, check_requests, texts

from holdfast.core.flow.events import CompactionFinished
from holdfast.core.log.records import Assistant, Compaction, OutputRef, ToolResult, User, text_of
from holdfast.core.models.messages import Tool, ToolCall
from holdfast.core.turn.options import Summary
from holdfast.engine.context_tool import context_declaration
from holdfast.ports import ANY_HEAD
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = EITHER_KIND

WORDS = "The answer to the question about the harbour, in many words. " * 40


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(request.param)
    yield made
    made.close()


def look(place: str) -> str:
    """Look."""
    return f"{place}: nothing but water, and the number {len(place) * 1_117}"


def talk(bench: Bench, session: Any, turns: int = 8) -> None:
    for number in range(turns):
        bench.say(session, f"question {number}: what of pier {number}?")


def names(request: Any) -> list[str]:
    return [tool["name"] for tool in request.get("tools", [])]


def cut_lines(request: Any) -> list[str]:
    return re.findall(r"^\[Everything up to record .*\]$", texts(request), re.MULTILINE)


def test_a_request_after_a_cut_says_what_was_cut_and_which_tool_has_it(bench: Bench) -> None:
    """One line, the same in every request until the next cut, and none before the first."""
    found: list[str] = []

    def read_it(request: Any) -> Any:
        (line,) = cut_lines(request)
        ref = re.search(r'ref="(\.\.[^"]+)"', line)
        assert ref is not None
        assert "`context`" in line
        found.append(line)
        return calls(("r1", "context", {"ref": ref[1], "search": "pier 0"}))

    model = ScriptedModel([*[WORDS] * 8, read_it, "it is there", "yes"], window=200_000)
    session = bench.open(model, tools=[look], summary="extract")
    talk(bench, session)
    assert not any(map(cut_lines, model.requests))
    assert bench.do(session.compact()).outcome == "applied"
    bench.say(session, "what did I ask about pier 0?")
    assert ":question 0: what of pier 0?" in texts(model.requests[-1])
    bench.say(session, "sure?")
    assert [cut_lines(request) for request in model.requests[-3:]] == [found] * 3
    assert {tuple(names(request)) for request in model.requests} == {("look", "context")}
    check_requests(model)


def test_without_the_tool_no_line_names_it(bench: Bench) -> None:
    """A model that cannot call it is not told to."""
    model = ScriptedModel([*[WORDS] * 8, "well"], window=200_000)
    session = bench.open(model, summary="extract")
    talk(bench, session)
    bench.do(session.compact())
    bench.say(session, "and now?")
    assert "conversation_so_far" in texts(model.requests[-1])
    assert cut_lines(model.requests[-1]) == []


def test_the_model_compacts_with_a_focus_before_its_next_step(bench: Bench) -> None:
    """The call has its result in the log first; the next request is cut, with the same tools."""
    summary = ScriptedModel(["## Goal\nKeep the piers.\n"], window=200_000)
    model = ScriptedModel(
        [
            *[WORDS] * 8,
            calls(("c1", "context", {"action": "compact", "focus": "the piers"})),
            "smaller now",
        ],
        window=200_000,
    )
    session = bench.open(model, tools=[look], summary=Summary(model=summary))
    talk(bench, session)
    assert bench.say(session, "make room").text == "smaller now"
    kinds = [record.kind for record in bench.records()]
    (made,) = [one for one in bench.records() if isinstance(one, Compaction)]
    assert kinds.index("compaction") > kinds.index("tool_result")
    assert "the piers" in texts(summary.requests[0])
    assert cut_lines(model.requests[-1])
    assert made.tokens_after is not None
    assert made.tokens_before is not None
    assert made.tokens_after < made.tokens_before
    assert [one.outcome for one in bench.of(CompactionFinished)] == ["applied"]
    check_requests(model)


def test_a_cut_that_would_gain_nothing_is_refused_with_the_reason(bench: Bench) -> None:
    """And the turn goes on, uncut."""
    model = ScriptedModel([calls(("c1", "context", {"action": "compact"})), "fine"])
    session = bench.open(model, tools=[look])
    assert bench.say(session, "make room").text == "fine"
    (result,) = [one for one in bench.records() if isinstance(one, ToolResult)]
    assert result.is_error
    assert "too few messages to compact" in text_of(result.content)
    assert not any(isinstance(one, Compaction) for one in bench.records())


def test_the_status_is_that_of_the_session(bench: Bench) -> None:
    """The model reads the numbers that its user reads."""
    model = ScriptedModel([calls(("c1", "context", {"action": "status"})), "fine"])
    session = bench.open(model, tools=[look])
    bench.say(session, "how full is it?")
    (result,) = [one for one in bench.records() if isinstance(one, ToolResult)]
    told, status = text_of(result.content), bench.do(session.status())
    assert f"of {status.window.tokens:,} tokens are in use" in told
    assert f"compacted at {status.compact_at:,}" in told
    assert told.endswith("Nothing was cut.")


def test_a_loop_of_the_callers_declares_it_and_answers_with_the_session(bench: Bench) -> None:
    """The declaration is there before the session is; mistakes are answers."""
    mine = Tool("look", "Look.", {"type": "object", "properties": {}})
    model = ScriptedModel(["unused"], window=200_000)
    session = bench.open(model, tools=[mine, context_declaration()], summary="extract")
    sent: list[Any] = []

    def send(request: Any) -> Any:
        sent.append(request)
        return ScriptedModel([WORDS]).send(request, None)

    def as_the_bench(request: Any) -> Any:
        async def later() -> Any:
            return send(request)

        return later() if bench.is_async else send(request)

    for number in range(8):
        bench.do(session.own_loop.add_user(f"question {number}: what of pier {number}?"))
        bench.do(session.own_loop.call(as_the_bench))
    bench.do(session.compact())
    bench.do(session.own_loop.add_user("and now?"))
    bench.do(session.own_loop.call(as_the_bench))
    assert names(sent[0]) == ["look", "context"]
    (line,) = cut_lines(sent[-1])
    ref = re.search(r'ref="([^"]+)"', line)
    assert ref is not None
    call = ToolCall("c1", "context", {"ref": ref[1], "search": "pier 3"})
    answer = bench.do(session.own_loop.answer_context(call))
    assert "question 3" in answer.content
    wrong = bench.do(session.own_loop.answer_context(ToolCall("c2", "context", {"rff": "x"})))
    assert wrong.is_error
    assert "rff" in wrong.content
    asked = bench.do(
        session.own_loop.answer_context(ToolCall("c3", "context", {"action": "status"}))
    )
    assert "tokens are in use" in asked.content


def test_a_session_of_the_first_release_goes_on(bench: Bench) -> None:
    """Its log has calls of `output_read`, and the model may call that again."""
    sha256 = bench.store.blobs.put(b"one\ntwo\nthree\n")
    ref = sha256[:16]
    again = calls(("c2", "output_read", {"ref": ref, "lines": "2", "max_chars": 900}))
    model = ScriptedModel([again, "two, as before"], window=200_000)
    session = bench.open(model, tools=[look])
    called = {"type": "tool_use", "id": "c1", "name": "output_read", "input": {"ref": ref}}
    bench.store.append(
        session.key,
        [
            User(content="what is in it?"),
            Assistant(content=[{"type": "tool_use", "id": "c0", "name": "look", "input": {}}]),
            ToolResult(
                tool_use_id="c0",
                content=f'[Preview; more with output_read(ref="{ref}")]',
                output_ref=OutputRef(sha256=sha256, bytes=14, kind="text"),
            ),
            Assistant(content=[called]),
            ToolResult(tool_use_id="c1", name="output_read", content="two"),
            Assistant(content="It has two."),
        ],
        expect=ANY_HEAD,
    )
    assert bench.say(session, "read it again").text == "two, as before"
    assert names(model.requests[0]) == ["look", "context"]
    assert "\ntwo\n" in texts(model.requests[-1])
    newest = [one for one in bench.records() if isinstance(one, ToolResult)][-1]
    assert not newest.is_error
    check_requests(model)
