"""The records that a summary written ahead is made of; the flow is tested in
tests/engine/session/test_background_summary.py."""

from __future__ import annotations

from hypothesis import given
from tests.conversations import sound_logs
from tests.support.runs import examples

from holdfast.core.log.records import Assistant, Record, ToolResult, User
from holdfast.core.turn.background import whole_steps
from holdfast.core.turn.calls import open_calls

CALL = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
SECOND = {"type": "tool_use", "id": "t2", "name": "look", "input": {}}
ASKED: list[Record] = [User(content="look", id="r1")]
CALLED: list[Record] = [*ASKED, Assistant(content=[CALL, SECOND], id="r2")]


def test_a_step_in_flight_is_left_out() -> None:
    half: list[Record] = [*CALLED, ToolResult(tool_use_id="t1", content="x", id="r3")]
    whole: list[Record] = [*half, ToolResult(tool_use_id="t2", content="y", id="r4")]
    assert whole_steps(CALLED) == ASKED
    assert whole_steps(half) == ASKED
    assert whole_steps(whole) == whole
    assert whole_steps([]) == []


@given(records=sound_logs())
@examples(300)
def test_no_call_is_left_open(records: list[Record]) -> None:
    whole = whole_steps(records)
    assert list(whole) == list(records[: len(whole)])
    assert whole is records or not open_calls(whole)
