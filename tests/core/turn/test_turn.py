"""The flows of a turn, driven by hand: what they ask of the world, and in which order."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.conversations import said
from tests.core.secrets.planted_secrets import TOKENS
from tests.core.turn.hand import Hand, call_block

from holdfast.core.flow.effects import CallModel, Cancelled
from holdfast.core.flow.events import SecretFound
from holdfast.core.limits import CONTEXT_CHARS_MAX
from holdfast.core.log.records import Assistant, InjectedContext, ToolResult, ToolUse, User
from holdfast.core.models.messages import INTERRUPTED
from holdfast.core.models.replies import Reply
from holdfast.core.secrets.found import SecretWatch
from holdfast.core.turn import turn
from holdfast.core.turn.calls import open_calls as calls_left
from holdfast.errors import UsageError


def story(hand: Hand) -> list[str]:
    """The effects that matter, without looking and telling."""
    return [one for one in hand.effects if one not in ("Read", "Now", "Emit", "IsTurnRunning")]


def test_the_order_of_a_turn_with_tools() -> None:
    """Words, call, reply, tools, each result, and only then the next call."""
    first = Reply(content=[call_block("a"), call_block("b")], stop="tools")
    hand = Hand(answers=[first, Reply(content=[{"type": "text", "text": "done"}])])
    reply = hand.run(turn.turn(hand.state, "go"))
    assert reply.text == "done"
    assert story(hand) == [
        *("+user", "CallModel", "+assistant", "StartTools"),
        *("NextToolResult", "+tool_result", "NextToolResult", "+tool_result"),
        *("CallModel", "+assistant"),
    ]


def test_interruptions_are_stored_with_the_words_that_follow() -> None:
    """All or none: a crash between them would tell the model of one without the other."""
    hand = Hand([User(content="q"), Assistant(content=[call_block("a"), call_block("b")])])
    hand.run(turn.add_user(hand.state, "what happened?"))
    assert story(hand) == ["+tool_result+tool_result+user"]
    results = [one for one in hand.records if isinstance(one, ToolResult)]
    assert [one.content for one in results] == [INTERRUPTED, INTERRUPTED]


def test_calls_of_a_running_turn_are_not_interrupted() -> None:
    """A message that is added beside a turn, of whichever process, leaves its calls alone."""
    hand = Hand([User(content="q"), Assistant(content=[call_block("a"), call_block("b")])])
    hand.is_turn_running = True
    hand.run(turn.add_user(hand.state, "still there?"))
    assert story(hand) == ["+user"]


@pytest.mark.parametrize(
    ("records", "open_calls"),
    [
        ([], []),
        ([User(content="q")], []),
        ([Assistant(content=[call_block("a")])], ["a"]),
        ([Assistant(content=[call_block("a")]), ToolResult(tool_use_id="a")], []),
        (
            [Assistant(content=[call_block("a"), call_block("b")]), ToolResult(tool_use_id="b")],
            ["a"],
        ),
        ([Assistant(content=[call_block("a")]), User(content="meanwhile")], ["a"]),
        ([Assistant(content=[call_block("a")]), Assistant(content="went on")], []),
        (
            [
                Assistant(content=[call_block("a")]),
                User(content=[{"type": "tool_result", "tool_use_id": "a", "content": "x"}]),
            ],
            [],
        ),
        ([Assistant(content="text"), ToolUse(tool_use_id="t", name="look")], ["t"]),
    ],
)
def test_which_calls_have_no_result(records: list[Any], open_calls: list[str]) -> None:
    """Of the newest reply; results in a provider's own shape count."""
    assert [found.call.id for found in calls_left(said(records))] == open_calls


@pytest.mark.parametrize(
    ("records", "is_open"),
    [
        ([], False),
        ([User(content="q")], True),
        ([User(content="q"), Assistant(content="a")], False),
        ([Assistant(content=[call_block("a")]), ToolResult(tool_use_id="a")], True),
    ],
)
def test_whether_an_answer_is_due(records: list[Any], is_open: bool) -> None:
    assert turn.is_unanswered(said(records)) is is_open


def test_a_cancelled_call_keeps_what_was_said_and_answers_what_was_asked() -> None:
    """What had arrived is stored, and a call in it is not left without a result."""
    hand = Hand([User(content="q")])
    flow = turn.answer(hand.state)
    effect: Any = flow.send(None)
    while not isinstance(effect, CallModel):
        effect = flow.send(hand.perform(effect))
    text = {"type": "text", "text": "as far as it went"}
    partial = Reply(content=[text, call_block("a")], stop="cancelled")
    effect = flow.throw(Cancelled(partial))

    def to_the_end(effect: Any) -> None:
        for _ in range(20):
            effect = flow.send(hand.perform(effect))

    with pytest.raises(Cancelled):
        to_the_end(effect)
    kinds = [one.kind for one in hand.records]
    assert kinds == ["user", "assistant", "tool_result"]


def test_a_credential_is_reported_once_with_the_record_that_holds_it() -> None:
    """Whatever stores it: the user's words, a result, injected context."""
    token = TOKENS["GitHub"]
    flows: list[Any] = [
        lambda run, _name: turn.add_user(run, f"use {token}"),
        lambda run, name: turn.add_result(run, name, f"use {token}"),
        lambda run, _name: turn.inject_context(run, f"use {token}", "a program"),
    ]
    for flow in flows:
        hand = Hand([Assistant(content=[call_block("a"), call_block("b")])])
        hand.is_turn_running = True
        hand.state.secret_watch = SecretWatch(hand.state.vault, "warn")
        for name in ("a", "b"):
            hand.run(flow(hand.state, name))
        stored = hand.records[1]
        assert hand.of(SecretFound) == [SecretFound(stored.id, stored.kind, "ghp_", True)]


@pytest.mark.parametrize("text", ["", "  \n", "x" * (CONTEXT_CHARS_MAX + 1)])
def test_context_that_says_nothing_or_too_much_is_refused(text: str) -> None:
    """The longest that is allowed is stored."""
    hand = Hand()
    with pytest.raises(UsageError, match="injected context"):
        hand.run(turn.inject_context(hand.state, text, "a program"))
    assert hand.records == []
    hand.run(turn.inject_context(hand.state, "x" * CONTEXT_CHARS_MAX, "a\n program"))
    (record,) = hand.records
    assert isinstance(record, InjectedContext)
    assert (len(record.text), record.source) == (CONTEXT_CHARS_MAX, "a program")


@pytest.mark.parametrize(
    ("flow", "name", "given"),
    [
        (turn.add_result, "call_id", {"call_id": 5, "content": "x"}),
        (turn.add_result, "is_error", {"call_id": "a", "content": "x", "is_error": "no"}),
        (turn.inject_context, "text", {"text": 5, "source": "a program"}),
        (turn.inject_context, "source", {"text": "x", "source": 5}),
        (turn.add_user, "name", {"content": "x", "name": 5}),
        (turn.add_user, "key", {"content": "x", "key": 5}),
        (turn.add_user, "key", {"content": "x", "key": ""}),
        (turn.add_user, "extra", {"content": "x", "extra": 5}),
        (turn.add_user, "extra", {"content": "x", "extra": {"content": "y"}}),
    ],
)
def test_a_wrong_argument_is_refused_by_its_name(
    flow: Any, name: str, given: dict[str, Any]
) -> None:
    """Before anything is asked of the world."""
    hand = Hand([Assistant(content=[call_block("a")])])
    with pytest.raises(UsageError, match=f"`{name}`"):
        hand.run(flow(hand.state, **given))
    assert hand.effects == []


def test_results_that_no_line_could_hold_are_cut() -> None:
    """Text, blocks and details alike."""
    huge = "x" * 5_000_000
    hand = Hand([Assistant(content=[call_block("a"), call_block("b")])])
    blocks: list[Any] = [
        {"type": "text", "text": huge},
        {"type": "image", "source": {"data": huge}},
    ]
    hand.run(turn.add_result(hand.state, "a", huge))
    hand.run(turn.add_result(hand.state, "b", blocks, details={"raw": huge}))
    for record in hand.records[1:]:
        size = len(msgspec.json.encode(record))
        assert size < 4_200_000
    last = hand.records[-1]
    assert isinstance(last, ToolResult)
    assert "too large" in str(last.content)
    assert "too large" in str(last.details)
