"""What a provider reports about the reasoning and the cache of a request reaches the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast import JsonlStore, Session, model
from holdfast.core.dialects.registry import find_dialect, target
from holdfast.core.log.records import Assistant
from holdfast.core.owners import ANY_OWNER
from holdfast.events import TroubleNoticed
from holdfast.providers.replies import read_reply
from holdfast.testing import Answer, Loopback

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.log.records import Json

pytest.importorskip("anthropic")

CONTROLS = "thinking-binding-controls-2026-08-01"


def _thinks(_asked: Any) -> Answer:
    return Answer("Done.", thinking="I think so.")


def _say(root: Path, loopback: Loopback, name: str, text: str) -> list[Any]:
    made = model(f"anthropic:{name}", base_url=loopback.url, api_key="any")
    events: list[Any] = []
    with Session.open("s", model=made, store=str(root)) as session:
        session.on(events.append)
        session.say(text)
    return events


def test_reasoning_that_another_model_may_not_read_is_reported(tmp_path: Path) -> None:
    """As an event and in the record of the reply; a request without a change reports nothing."""
    with Loopback(_thinks) as loopback:
        for name, text in (("claude-opus-5-5", "one"), ("claude-opus-5-5", "two")):
            events = _say(tmp_path, loopback, name, text)
            assert not [one for one in events if isinstance(one, TroubleNoticed)]
        events = _say(tmp_path, loopback, "claude-sonnet-5-5", "three")
    (reported,) = [one for one in events if isinstance(one, TroubleNoticed)]
    assert {block.reason for block in reported.reasoning} == {"model_binding_mismatch"}
    assert len(reported.reasoning) == 2
    assert all(block.is_dropped and not block.is_ours for block in reported.reasoning)
    assert reported.detail.startswith("blocks of earlier reasoning: 2 dropped, the first at ")
    with JsonlStore(tmp_path) as store:
        (info,) = store.sessions(owner=ANY_OWNER)
        replies = [rec for rec in store.read(info.key) if isinstance(rec, Assistant)]
    found = [[one["reason"] for one in rec.extra.get("reasoning_report", [])] for rec in replies]
    assert found == [[], [], ["model_binding_mismatch"] * 2]


@pytest.mark.parametrize(
    ("name", "is_asked"),
    [
        ("claude-fable-5-2", True),
        ("claude-sonnet-5-5", True),
        ("claude-sonnet-5", False),
        ("claude-3-5-sonnet", False),
    ],
)
def test_models_that_check_reasoning_are_asked_for_the_report(
    tmp_path: Path, name: str, *, is_asked: bool
) -> None:
    with Loopback(_thinks) as loopback:
        _say(tmp_path, loopback, name, "one")
        headers = {key.lower(): value for key, value in loopback.requests[0].headers.items()}
    assert (CONTROLS in headers.get("anthropic-beta", "")) is is_asked


@pytest.mark.parametrize("streams", [False, True])
def test_a_report_is_read_whole_and_streamed(streams: bool) -> None:
    """Types of a later time are left out, and so is a comparison that is still pending."""
    report: Json = {
        "input_transformations": [
            {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "new_reason"},
            {"type": "thinking_mismatch_allowed", "path": "p", "reason": "prefix_binding_mismatch"},
            {"type": "something_else", "path": "q", "reason": "r"},
        ],
        "diagnostics": {"cache_miss_reason": {"type": "tools_changed"}},
    }
    body: Json = {
        "type": "message",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
    }
    to = target("anthropic", provider="anthropic", model="claude-fable-5-2")
    if streams:
        stream = find_dialect("anthropic").stream()
        stream.take({"type": "message_start", "message": {**body, **report, "content": []}})
        stream.take(
            {"type": "content_block_start", "index": 0, "content_block": body["content"][0]}
        )
        stream.take({"type": "message_stop"})
        reply = find_dialect("anthropic").read(stream.body(), to)
    else:
        reply = read_reply({**body, **report}, to)
    assert [(one.reason, one.is_dropped, one.is_ours) for one in reply.reasoning] == [
        ("new_reason", True, False),
        ("prefix_binding_mismatch", False, True),
    ]
    assert reply.cache_miss == "tools_changed"
    pending = {**body, "diagnostics": {"cache_miss_reason": None}}
    assert read_reply(pending, to).cache_miss == ""


def test_a_reply_without_reports_says_nothing(tmp_path: Path) -> None:
    with Loopback(_thinks) as loopback:
        events = _say(tmp_path, loopback, "claude-fable-5-2", "one")
    assert not [one for one in events if isinstance(one, TroubleNoticed)]
