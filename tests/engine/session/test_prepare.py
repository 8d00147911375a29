"""From records to a request body that was judged before anybody else could."""

from __future__ import annotations

import pytest
from tests.conversations import said

from holdfast.core.dialects.registry import target
from holdfast.core.log.records import Assistant, Record, ToolResult, User
from holdfast.core.models.messages import Tool
from holdfast.core.projection.policy import PromptCache
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.window import Window
from holdfast.engine.session.prepare import prepare_request
from holdfast.errors import BadSetting


def test_request_is_the_providers_body() -> None:
    records = said([User(content="hi")])
    prepared = prepare_request(
        ProjectionRequest(
            records, Window(64_000), target("anthropic", model="m"), system="Be brief."
        )
    )
    assert prepared.request["model"] == "m"
    assert prepared.request["max_tokens"] == prepared.plan.budget.output_reserve
    assert prepared.request["messages"][0]["role"] == "user"


def test_tools_the_provider_refuses_are_the_callers_to_mend() -> None:
    """Its rule is quoted, and nothing is blamed on the log."""
    records = said([User(content="hi")])
    with pytest.raises(BadSetting, match="refuse these tools"):
        prepare_request(
            ProjectionRequest(
                records, Window(64_000), target("anthropic"), tools=[Tool("not a name!")]
            )
        )
    many = [Tool(f"tool_{number}") for number in range(129)]
    with pytest.raises(BadSetting, match="128"):
        prepare_request(
            ProjectionRequest(records, Window(64_000), target("openai-chat"), tools=many)
        )


def test_more_messages_than_the_provider_takes_are_cut() -> None:
    """OpenAI Chat takes 2,048 messages, and each result is one of them."""
    records: list[Record] = []
    for number in range(900):
        call = {"type": "tool_use", "id": f"c{number}", "name": "x", "input": {}}
        records += [
            User(content=f"q{number}"),
            Assistant(content=[call]),
            ToolResult(tool_use_id=f"c{number}", content="r"),
        ]
    log = said([*records, User(content="last words")])
    prepared = prepare_request(ProjectionRequest(log, Window(1_000_000), target("openai-chat")))
    assert 500 < len(prepared.request["messages"]) <= 1_100
    assert "last words" in str(prepared.request["messages"][-1])
    assert (
        prepare_request(
            ProjectionRequest(log, Window(1_000_000), target("anthropic"))
        ).plan.decisions
        == ()
    )


def test_call_ids_are_mapped_both_ways() -> None:
    """An id that the provider would refuse has another on the wire."""
    call = {"type": "tool_use", "id": "bad id!", "name": "x", "input": {}}
    log = said([User(content="q"), Assistant(content=[call]), ToolResult(tool_use_id="bad id!")])
    prepared = prepare_request(ProjectionRequest(log, Window(64_000), target("anthropic")))
    wire = prepared.request["messages"][1]["content"][0]["id"]
    assert wire != "bad id!"
    assert prepared.call_ids.log(wire) == "bad id!"


def test_what_the_number_of_messages_cut_is_not_counted_again() -> None:
    """Half of them are left, well below where a cold cache is used for a deeper cut."""
    words = "word " * 5
    records: list[Record] = []
    for number in range(1_100):
        records += [User(content=f"q{number} {words}"), Assistant(content=words)]
    log = said([*records, User(content="last words")])
    cold = PromptCache(idle_seconds=9_999.0)
    prepared = prepare_request(
        ProjectionRequest(log, Window(400_000), target("openai-chat"), prompt_cache=cold)
    )
    assert len(prepared.request["messages"]) >= 1_000
    assert "last words" in str(prepared.request["messages"][-1])
