"""`HoldfastMiddleware`: what the model of an agent gets fits, is valid, and is answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support import peers

from holdfast.integrations import langchain as adapter

WINDOW = 25_000


@pytest.fixture(autouse=True)
def framework() -> None:
    peers.needs("langchain")


def history(turns: int, result: str = "result " * 600) -> list[Any]:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    found: list[Any] = []
    for number in range(turns):
        call = {"id": f"c{number}", "name": "look", "args": {}, "type": "tool_call"}
        found += [
            HumanMessage(f"question {number} " + "words " * 100),
            AIMessage("", tool_calls=[call]),
            ToolMessage(result, tool_call_id=f"c{number}"),
            AIMessage(f"done {number}"),
        ]
    return [*found, HumanMessage("And now?")]


def check_pairs(messages: list[Any]) -> None:
    calls = [call["id"] for m in messages for call in getattr(m, "tool_calls", ())]
    assert calls == [m.tool_call_id for m in messages if m.type == "tool"]
    assert messages[0].type == "human"


def size(messages: list[Any]) -> int:
    return sum(len(str(message.content)) for message in messages)


def small_agent(middleware: Any, asked: list[list[Any]], limit: int) -> Any:
    """An agent with a model that refuses more than `limit` characters."""
    from langchain.agents import create_agent
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class SmallModel(BaseChatModel):  # type: ignore[misc, unused-ignore]
        @property
        def _llm_type(self) -> str:
            return "small"

        def _generate(self, messages: Any, *_args: Any, **_more: Any) -> Any:
            asked.append(messages)
            if size(messages) > limit:
                raise ValueError("This model's maximum context length is exceeded")
            return ChatResult(generations=[ChatGeneration(message=AIMessage("ok"))])

    return create_agent(SmallModel(), [], middleware=[middleware])


@pytest.mark.parametrize("is_async", [False, True])
def test_agent_with_a_long_history_is_answered_and_keeps_its_state(is_async: bool) -> None:
    asked: list[list[Any]] = []
    middleware = adapter.HoldfastMiddleware(window=WINDOW)
    agent = small_agent(middleware, asked, limit=4 * WINDOW)
    messages = history(120)
    assert size(messages) > 14 * WINDOW
    given = {"messages": messages}
    state = asyncio.run(agent.ainvoke(given)) if is_async else agent.invoke(given)
    assert state["messages"][-1].content == "ok"
    assert [m.content for m in state["messages"][:-1]] == [m.content for m in messages]
    (sent,) = asked
    check_pairs(sent)
    assert sent[-1].content == "And now?"
    assert middleware.plan is not None
    assert middleware.plan.tokens.total <= WINDOW


def test_refused_request_is_sent_again_smaller() -> None:
    asked: list[list[Any]] = []
    middleware = adapter.HoldfastMiddleware(window=1_000_000)
    agent = small_agent(middleware, asked, limit=60_000)
    state = agent.invoke({"messages": history(60)})
    assert state["messages"][-1].content == "ok"
    sizes = [size(sent) for sent in asked]
    assert 2 <= len(sizes) <= 6
    assert sizes == sorted(sizes, reverse=True)
    check_pairs(asked[-1])


def test_huge_result_is_shortened_in_the_request_alone() -> None:
    middleware = adapter.HoldfastMiddleware(window=WINDOW)
    messages = history(1, result="x y z " * 70_000)
    sent = middleware.fit(messages)
    check_pairs(sent)
    assert size(sent) < 4 * WINDOW
    assert len(messages[2].content) == 420_000
    assert middleware.fit(history(2, result="short")) == history(2, result="short")


def test_other_errors_are_the_models_own() -> None:
    from langchain.agents.middleware import ModelRequest

    error = RuntimeError("rate limit reached")
    calls = []

    def fail(request: Any) -> Any:
        calls.append(request)
        raise error

    middleware = adapter.HoldfastMiddleware(window=WINDOW)
    request: Any = ModelRequest(model=None, messages=history(1))
    with pytest.raises(RuntimeError) as raised:
        middleware.wrap_model_call(request, fail)
    assert raised.value is error
    assert len(calls) == 1


def test_agent_with_a_system_prompt_is_answered() -> None:
    """LangChain's text of a system message is a type of its own."""
    from langchain.agents.middleware import ModelRequest
    from langchain_core.messages import SystemMessage

    middleware = adapter.HoldfastMiddleware(window=WINDOW)
    prompt = SystemMessage("Be brief.")
    request: Any = ModelRequest(model=None, messages=history(120), system_message=prompt)
    sent = middleware.wrap_model_call(request, lambda given: given.messages)
    assert middleware.plan is not None
    assert middleware.plan.prompt.system == "Be brief."
    check_pairs(sent)
