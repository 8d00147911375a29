"""From stored records to what a reader sees: calls once, boundaries where they bind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import records

from holdfast.core.log.records import Assistant, Compaction, ToolResult, ToolUse, User
from holdfast.core.log.replay import Boundaries, SeenCalls, without_doubles

if TYPE_CHECKING:
    from holdfast.core.log.records import Record


def call(tool_use_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_use_id, "name": "read", "input": {}}


def seed_turn(*tool_use_ids: str) -> list[Record]:
    """A turn as the seed stores it: calls in the message, and each again before its result."""
    turn: list[Record] = [User(content="read"), Assistant(content=[call(t) for t in tool_use_ids])]
    for one in tool_use_ids:
        turn += [ToolUse(tool_use_id=one, name="read"), ToolResult(tool_use_id=one, content="ok")]
    return [*turn, Assistant(content="done")]


def kinds(stored: list[Record]) -> list[str]:
    return [record.kind for record in without_doubles(stored)]


def test_without_doubles_drops_the_second_copy_of_a_call() -> None:
    """The seed's `tool_use` record, which repeats a call of the message before, is left out."""
    assert kinds(seed_turn("t1")) == ["user", "assistant", "tool_result", "assistant"]


def test_without_doubles_drops_each_copy_when_a_turn_has_two_calls() -> None:
    """With two calls in one message, both copies go and both results stay in order."""
    shown = list(without_doubles(seed_turn("t1", "t2")))
    assert [one.kind for one in shown] == [
        *("user", "assistant", "tool_result", "tool_result", "assistant"),
    ]
    assert [one.tool_use_id for one in shown if isinstance(one, ToolResult)] == ["t1", "t2"]


def test_without_doubles_keeps_a_call_that_no_message_holds() -> None:
    """A `tool_use` record without a call to repeat is the only trace of it, once."""
    stored: list[Record] = [
        User(content="read"),
        Assistant(content="I will"),
        ToolUse(tool_use_id="t1"),
        ToolUse(tool_use_id="t1"),
        ToolUse(tool_use_id="t2"),
    ]
    assert list(without_doubles(stored)) == [*stored[:3], stored[4]]


def test_without_doubles_keeps_the_same_id_in_a_later_turn() -> None:
    """Some models count their calls anew in each turn; a used id is free when the user speaks."""
    lone: list[Record] = [User(content="again"), ToolUse(tool_use_id="t1")]
    assert kinds([*seed_turn("t1"), *lone])[-2:] == ["user", "tool_use"]
    assert kinds([*seed_turn("t1"), *seed_turn("t1")]) == kinds(seed_turn("t1")) * 2


def test_without_doubles_keeps_a_copy_that_comes_after_another_step() -> None:
    """Only the step it follows can say that a call was stored twice, from wherever one reads."""
    stored: list[Record] = [
        Assistant(content=[call("t1")]),
        ToolResult(tool_use_id="t1"),
        Assistant(content=[call("t2")]),
        ToolUse(tool_use_id="t1"),
    ]
    assert list(without_doubles(stored)) == stored


@pytest.mark.parametrize("block", [{"type": "tool_use"}, {"type": "tool_use", "id": 7}, {}])
def test_without_doubles_passes_over_calls_without_an_id(block: dict[str, Any]) -> None:
    """A call whose id is missing or no text repeats nothing and is repeated by nothing."""
    stored: list[Record] = [Assistant(content=[block]), ToolUse(tool_use_id="7")]
    assert list(without_doubles(stored)) == stored


@given(st.lists(records(), max_size=8))
def test_without_doubles_leaves_out_nothing_but_calls(stored: list[Record]) -> None:
    """Every record but a `tool_use` is passed on, in order; doing it twice changes nothing."""
    shown = list(without_doubles(stored))
    assert [one for one in shown if not isinstance(one, ToolUse)] == [
        one for one in stored if not isinstance(one, ToolUse)
    ]
    assert list(without_doubles(shown)) == shown


def test_seen_calls_answers_for_each_record() -> None:
    """Only a repeated call is a double, however the records arrive."""
    seen = SeenCalls()
    assert [seen.doubles(record) for record in seed_turn("t1", "t2")] == [
        *(False, False, True, False, True, False, False),
    ]


@pytest.mark.parametrize(
    ("made_for", "window", "expected"),
    [
        (100, None, True),
        (None, 100, True),
        (None, None, True),
        (100, 99, True),
        (100, 100, True),
        (100, 101, False),
    ],
)
def test_binds_for_the_same_window_and_smaller_ones(
    made_for: int | None, window: int | None, expected: bool
) -> None:
    """A compaction holds up to the window it was made for; without one, for every window."""
    assert Boundaries(window).is_one(Compaction(summary="s", window=made_for)) is expected
