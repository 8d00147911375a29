"""A question is one message with its outcome; a button has what Telegram takes; for any call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.operations.approvals import ApproveCall, DenyCall, WaitingCall
from holdfast.errors import BadSetting
from holdfast.surfaces.formatting import call_outcome
from holdfast.surfaces.telegram.replies import (
    call_digest,
    decision_buttons,
    is_decision,
    question_of,
    read_decision,
    split_text,
)
from holdfast.surfaces.telegram.settings import TelegramSettings, read_approvers


def waiting(key: str = "key", **fields: Any) -> WaitingCall:
    given: dict[str, Any] = {"arguments": {"amount": 80}, "reason": "why", "state": "parked"}
    given |= {"approvers": [], "since": 1.0, "until": None, "tool": "refund", **fields}
    return WaitingCall(key=key, session="main/tg_99", owner="telegram:99", **given)


@given(st.text(max_size=300), st.text(max_size=3_000), st.text(max_size=600))
def test_a_question_is_one_message(key: str, note: str, reason: str) -> None:
    call = waiting(key, arguments={"note": note}, reason=reason, state="denied", by="x" * 100)
    question = question_of(call)
    assert len(split_text(f"{question}\n{call_outcome(call, 2.0)}")) == 1
    (row,) = decision_buttons(call)
    for button in row:
        data = button["callback_data"]
        assert len(data.encode()) <= 64
        assert is_decision(data)
        assert read_decision(data)[1] == call_digest(key)
    is_whole = "in full" not in question.rpartition("```")[2]
    assert [read_decision(button["callback_data"])[0] for button in row] == (
        [ApproveCall, DenyCall] if is_whole else [DenyCall]
    )


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({}, ""),
        ({"until": 3.0}, ""),
        ({"until": 2.0}, "Expired: no one decided in time."),
        ({"state": "expired"}, "Expired."),
        ({"state": "started", "by": "ann"}, "Approved by ann."),
        ({"state": "denied", "by": "ann"}, "Denied by ann."),
        ({"state": "withdrawn"}, "Withdrawn."),
    ],
)
def test_what_became_of_a_call(fields: dict[str, Any], outcome: str) -> None:
    assert call_outcome(waiting(**fields), 2.0) == outcome


def test_approvers_are_ids_with_names() -> None:
    assert read_approvers("99=ann, 98 = bob") == {99: "ann", 98: "bob"}
    assert read_approvers("") == {}
    with pytest.raises(BadSetting, match="not all people by their ids"):
        read_approvers("ann")
    with pytest.raises(BadSetting, match="has no name"):
        TelegramSettings(token="1:abcdefgh", approvers=read_approvers("99"))
