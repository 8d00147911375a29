"""Tool calls: announced, run, stored and reported, each with its own result."""

from __future__ import annotations

from tests.core.turn.hand import Hand

from holdfast.core.flow.events import ToolFinished, ToolStarted
from holdfast.core.log.ids import call_key
from holdfast.core.log.records import ToolResult
from holdfast.core.models.messages import ToolCall
from holdfast.core.turn.tool_results import KeyedCall, run_tools

CALLS = [ToolCall("a", "look", {"n": 1}), ToolCall("b", "read", {})]


def keyed(*calls: ToolCall) -> list[KeyedCall]:
    """The calls of a reply, each with its key."""
    return [KeyedCall(call, call_key("main/s", "r1", place)) for place, call in enumerate(calls)]


def test_events_name_the_call_and_the_record_of_its_result() -> None:
    """Each call before it runs; each result once it is in the log."""
    hand = Hand()
    hand.run(run_tools(hand.state, keyed(*CALLS)))
    assert [event.call for event in hand.of(ToolStarted)] == CALLS
    stored = {record.id: record for record in hand.records if isinstance(record, ToolResult)}
    finished = hand.of(ToolFinished)
    assert sorted(event.call.id for event in finished) == ["a", "b"]
    for event in finished:
        result = stored[event.record]
        assert (result.tool_use_id, result.name) == (event.call.id, event.call.name)
        assert (event.is_error, event.chars) == (False, len("seen"))


def test_a_denied_call_is_not_run_and_the_model_hears_why() -> None:
    hand = Hand()
    hand.denied = (ToolStarted,)
    outcomes = hand.run(run_tools(hand.state, keyed(*CALLS)))
    assert hand.started == []
    assert [(outcome.call_id, outcome.is_error) for outcome in outcomes] == [
        ("a", True),
        ("b", True),
    ]
    assert [record.content for record in hand.records if isinstance(record, ToolResult)] == [
        "[Not run: no]",
        "[Not run: no]",
    ]
    assert "StartTools" not in hand.effects


def test_a_call_that_is_repeated_exactly_runs_once() -> None:
    """Another call with the same id waits: their results could not be told apart."""
    hand = Hand()
    same, other = ToolCall("a", "look", {"n": 1}), ToolCall("a", "read", {})
    hand.run(run_tools(hand.state, keyed(CALLS[0], same, other)))
    assert hand.effects.count("StartTools") == 2
    assert hand.effects.count("NextToolResult") == 2
    results = [record for record in hand.records if isinstance(record, ToolResult)]
    assert [result.name for result in results] == ["look", "look", "read"]
