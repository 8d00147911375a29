"""From records to a request body that was judged before anybody else could."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conversations import PNG, said
from tests.prompts import prompts, targets
from tests.support.runs import examples

from holdfast.core.dialects.registry import render_body, target, validate_body
from holdfast.core.log.records import Assistant, Record, ToolResult, User
from holdfast.core.models.messages import (
    Image,
    Message,
    Prompt,
    Text,
    Tool,
    ToolAnswer,
    ToolCall,
)
from holdfast.core.projection.policy import PromptCache
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.window import Window
from holdfast.engine.session.prepare import RequestWriter, prepare_request
from holdfast.errors import BadSetting, InvalidRequest

if TYPE_CHECKING:
    from holdfast.core.models.dialects import Target


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


@examples(60)
@given(prompts(max_turns=6), st.sampled_from(targets()), st.data())
def test_a_request_that_goes_on_is_the_one_written_alone(
    prompt: Prompt, to: Target, data: st.DataObject
) -> None:
    """Byte for byte, after requests that it goes on from and others; and whatever a caller does to
    the bodies it was given."""
    writer = RequestWriter()
    ends = [at + 1 for at, one in enumerate(prompt.messages) if one.role == "user"]
    for end in sorted(data.draw(st.lists(st.sampled_from(ends), max_size=4))) + ends[-1:]:
        part = msgspec.structs.replace(prompt, messages=prompt.messages[:end])
        alone = render_body(part, to)
        assert validate_body(alone, to) == []
        written = writer.write(part, to)
        assert msgspec.json.encode(written) == msgspec.json.encode(alone)
        _spoil(written)


def _spoil(value: Any) -> None:
    """Empty every list and object of a conversation."""
    for item in list(value.values()) if isinstance(value, dict) else list(value):
        if isinstance(item, dict | list):
            _spoil(item)
    value.clear()


def _talk(turns: int) -> list[Message]:
    """So many turns with a call each, and the next question."""
    made: list[Message] = []
    for turn in range(turns):
        made += [
            Message("user", (Text(f"Question {turn}."),)),
            Message("assistant", (ToolCall(f"c{turn}", "look", {"at": turn}),)),
            Message("user", (ToolAnswer(f"c{turn}", (Text("seen"),)),)),
            Message("assistant", (Text(f"Answer {turn}."),)),
        ]
    return [*made, Message("user", (Text("And now?"),))]


FLAWS = {
    "a call whose id was used before": [
        Message("assistant", (ToolCall("c1", "look", {}),)),
        Message("user", (ToolAnswer("c1", (Text("seen"),)),)),
    ],
    "a result that nobody asked for": [
        Message("assistant", (ToolCall("c9", "look", {}),)),
        Message("user", (ToolAnswer("c9", (Text("seen"),)), ToolAnswer("c0", (Text("seen"),)))),
    ],
    "a call without its result": [
        Message("assistant", (ToolCall("c9", "look", {}),)),
        Message("user", (Text("Well?"),)),
    ],
    "too many pictures": [
        Message("assistant", (Text("Show me."),)),
        Message("user", (Image(PNG, "image/png"),) * 101),
    ],
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_in_what_is_new_is_found_behind_what_was_judged(flaw: str) -> None:
    """A request that goes on from a valid one is judged as it would be alone."""
    to = target("anthropic", provider="anthropic", model="m")
    head = Prompt((), tools=(Tool("look"),), output_tokens=100)
    writer = RequestWriter()
    for turns in (1, 2, 3):
        writer.write(msgspec.structs.replace(head, messages=tuple(_talk(turns))), to)
    flawed = msgspec.structs.replace(head, messages=(*_talk(3), *FLAWS[flaw]))
    alone = validate_body(render_body(flawed, to), to)
    assert alone
    with pytest.raises(InvalidRequest) as caught:
        writer.write(flawed, to)
    assert f"at {alone[0].where}: {alone[0].quote}" in str(caught.value)
    writer.write(msgspec.structs.replace(head, messages=tuple(_talk(4))), to)


def test_pictures_add_up_over_requests() -> None:
    """No single message has too many."""
    to = target("anthropic", provider="anthropic", model="m")
    shown = Message("user", (Image(PNG, "image/png"),))
    talk = [shown, Message("assistant", (Text("Seen."),))] * 101
    writer = RequestWriter()
    for end in range(1, 201, 2):
        writer.write(Prompt(tuple(talk[:end]), output_tokens=100), to)
    with pytest.raises(InvalidRequest, match="images"):
        writer.write(Prompt(tuple(talk[:201]), output_tokens=100), to)
