"""The flows of a turn, driven by hand: what they ask of the world, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.conversations import said

from holdfast.core.flow.effects import (
    Append,
    CallModel,
    Cancelled,
    Emit,
    IsTurnRunning,
    NextToolResult,
    Now,
    Outcome,
    Read,
    StartTools,
)
from holdfast.core.log.records import Assistant, ToolResult, ToolUse, User
from holdfast.core.models.dialects import target
from holdfast.core.models.messages import INTERRUPTED
from holdfast.core.models.replies import Reply
from holdfast.core.models.window import Window
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.turn import turn
from holdfast.core.turn.run import RunSettings, RunState
from holdfast.core.turn.tool_results import open_calls as calls_left

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record

SETTINGS = RunSettings(target=target("anthropic", model="m"), window=Window(64_000))


def call_block(call_id: str, name: str = "look") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


class Hand:
    """Carries a flow out on a list; the answers of the model are given one by one."""

    def __init__(self, records: Sequence[Record] = (), answers: Sequence[Any] = ()) -> None:
        self.records: list[Record] = said(records)
        self.answers = list(answers)
        self.state = RunState(SETTINGS, ProjectionCache())
        self.effects: list[str] = []
        self.started: list[Any] = []
        self.is_turn_running = False

    def run(self, flow: Any) -> Any:
        value: Any = None
        while True:
            try:
                effect = flow.send(value)
            except StopIteration as done:
                return done.value
            self.effects.append(self._name(effect))
            value = self._perform(effect)

    def _name(self, effect: Any) -> str:
        if isinstance(effect, Append):
            return "+" + "+".join(record.kind for record in effect.records)
        return type(effect).__name__

    def _perform(self, effect: Any) -> Any:
        match effect:
            case Read():
                return tuple(self.records)
            case Now():
                return 1_700_000_000.0
            case Append():
                stored = [
                    msgspec.structs.replace(one, id=f"n{len(self.records) + place:04d}")
                    for place, one in enumerate(effect.records)
                ]
                self.records += stored
                return tuple(stored)
            case CallModel():
                return self.answers.pop(0)
            case StartTools():
                self.started += effect.calls
            case NextToolResult():
                return Outcome(self.started.pop().id, "seen")
            case IsTurnRunning():
                return self.is_turn_running
            case Emit():
                return None
        return None


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
    assert [call.id for call in calls_left(said(records))] == open_calls


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
        effect = flow.send(hand._perform(effect))
    text = {"type": "text", "text": "as far as it went"}
    partial = Reply(content=[text, call_block("a")], stop="cancelled")
    effect = flow.throw(Cancelled(partial))

    def to_the_end(effect: Any) -> None:
        for _ in range(20):
            effect = flow.send(hand._perform(effect))

    with pytest.raises(Cancelled):
        to_the_end(effect)
    kinds = [one.kind for one in hand.records]
    assert kinds == ["user", "assistant", "tool_result"]


def test_results_that_no_line_could_hold_are_cut() -> None:
    """Text, blocks and details alike."""
    huge = "x" * 5_000_000
    hand = Hand([Assistant(content=[call_block("a")])])
    blocks: list[Any] = [
        {"type": "text", "text": huge},
        {"type": "image", "source": {"data": huge}},
    ]
    hand.run(turn.add_result(hand.state, "a", huge))
    hand.run(turn.add_result(hand.state, "a", blocks, details={"raw": huge}))
    for record in hand.records[1:]:
        size = len(msgspec.json.encode(record))
        assert size < 4_200_000
    last = hand.records[-1]
    assert isinstance(last, ToolResult)
    assert "too large" in str(last.content)
    assert "too large" in str(last.details)
