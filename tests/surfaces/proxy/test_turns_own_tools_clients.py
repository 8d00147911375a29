"""The real `anthropic` and `openai` packages, whose model reads back what the proxy cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.surfaces.proxy.proxies import running_proxy
from tests.surfaces.proxy.test_turns import OUTPUT, long_client
from tests.surfaces.proxy.test_turns_own_tools import WINDOW, exchanges_in

from holdfast.core.models.messages import Text, ToolAnswer, ToolCall
from holdfast.engine.proxy.own_tools import OWN_NAMES
from holdfast.testing import Answer, Call, Loopback

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.testing.loopback import Asked

THOUGHT = "I should look it up."
FOUND = "It said: "
CALLS = (
    Call("sessions_history", {"sessionKey": "current", "query": "line", "includeTools": True}),
)


def think(asked: Asked) -> Answer:
    """Search once, then answer with what was found, and call a tool of the client's."""
    calls = [block for block in asked.messages[-2].blocks if isinstance(block, ToolCall)]
    if any(call.name in OWN_NAMES for call in calls):
        (answer,) = (b for b in asked.messages[-1].blocks if isinstance(b, ToolAnswer))
        text = "".join(piece.text for piece in answer.content if isinstance(piece, Text))
        thought = THOUGHT if asked.thinks else ""
        return Answer(f"{FOUND}{text[:10]}", (Call("read", {"path": "z"}),), thinking=thought)
    thought = THOUGHT if asked.thinks else ""
    return Answer("Let me look.", CALLS, thinking=thought)


def body_of(dialect: str) -> Json:
    """The arguments of a call of an SDK, for a conversation that does not fit."""
    client = long_client(dialect)
    client.say("What did the first file say?")
    body: Json = client.request().body
    return body


def check(loopback: Loopback, dialect: str, requests: int = 2) -> None:
    """The provider got the output in the second request, and broke no rule in any."""
    assert [request.status for request in loopback.requests] == [200] * requests
    assert all(not request.violations for request in loopback.requests)
    (found,) = exchanges_in(loopback.requests[1].body, dialect).values()
    assert OUTPUT[:100] in found


@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_anthropic_package_sees_the_final_reply(is_streamed: bool) -> None:
    """It sees texts and thinking of both rounds and its own call; the next request goes through
    with the thinking that was signed in each round."""
    import anthropic

    body = body_of("anthropic")
    body |= {"max_tokens": 2_048, "thinking": {"type": "adaptive", "display": "summarized"}}
    with Loopback(think) as loopback, running_proxy(loopback, window=WINDOW, has_tools=True) as it:
        client = anthropic.Anthropic(base_url=it.url, api_key="k", max_retries=0)

        def ask() -> Any:
            if not is_streamed:
                return client.messages.create(**body)
            with client.messages.stream(**body) as stream:
                return stream.get_final_message()

        message = ask()
        kinds = [block.type for block in message.content]
        assert kinds == ["thinking", "text", "thinking", "text", "tool_use"]
        assert message.content[1].text == "Let me look."
        assert message.content[3].text.startswith(FOUND)
        assert message.content[-1].name == "read"
        assert message.stop_reason == "tool_use"
        prompts = [request.tokens for request in loopback.requests]
        used = message.usage
        assert used.input_tokens + (used.cache_read_input_tokens or 0) == sum(prompts)
        check(loopback, "anthropic")
        content = [block.model_dump(exclude_none=True) for block in message.content]
        result = {"type": "tool_result", "tool_use_id": message.content[-1].id, "content": "mine"}
        body["messages"] += [
            {"role": "assistant", "content": content},
            {"role": "user", "content": [result]},
        ]
        assert ask().content
        check(loopback, "anthropic", 4)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_openai_package_sees_the_final_completion(is_streamed: bool) -> None:
    """It sees one text and its own call."""
    import openai

    body = body_of("openai-chat")
    with Loopback(think) as loopback, running_proxy(loopback, window=WINDOW, has_tools=True) as it:
        client = openai.OpenAI(base_url=it.openai_url, api_key="k", max_retries=0)
        if is_streamed:
            with client.chat.completions.stream(**body) as stream:
                completion: Any = stream.get_final_completion()
        else:
            completion = client.chat.completions.create(**body)
        (choice,) = completion.choices
        assert choice.message.content.startswith(f"Let me look.\n\n{FOUND}")
        assert [call.function.name for call in choice.message.tool_calls] == ["read"]
        assert choice.finish_reason == "tool_calls"
        check(loopback, "openai-chat")


@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_openai_package_sees_the_final_response(is_streamed: bool) -> None:
    """It sees the items of both rounds, without the call that was not for it."""
    import openai

    body = body_of("openai-responses")
    with Loopback(think) as loopback, running_proxy(loopback, window=WINDOW, has_tools=True) as it:
        client = openai.OpenAI(base_url=it.openai_url, api_key="k", max_retries=0)
        if is_streamed:
            with client.responses.stream(**body) as stream:
                response: Any = stream.get_final_response()
        else:
            response = client.responses.create(**body)
        assert [item.type for item in response.output] == ["message", "message", "function_call"]
        assert response.output[-1].name == "read"
        assert response.output_text.startswith(f"Let me look.{FOUND}")
        assert [tool.name for tool in response.tools] == ["read"]
        check(loopback, "openai-responses")
