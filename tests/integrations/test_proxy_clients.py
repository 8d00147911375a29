"""Agents of other frameworks through the proxy: unmodified, with only the address changed.

`make peers` installs the frameworks; anywhere else these tests are skipped, and say so.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.peers import needs

from holdfast.core.log.records import Assistant, ToolResult, User, text_of
from holdfast.core.owners import ANY_OWNER
from holdfast.testing import Answer, Call, Loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.surfaces.proxy.proxies import RunningProxy

    from holdfast.testing.loopback import Asked

pytestmark = pytest.mark.files_only("it makes its own stores, and asks none for more than a log")

STEPS = 8
LIMIT = 16_000
"""Tokens of the provider: the outputs of the tools outgrow them."""
LINE = "a line of what was read "


def brain(asked: Asked) -> Answer:
    """Looks at eight files, one after the other, and answers then."""
    text = str(asked.messages)
    done = max((step for step in range(1, STEPS + 1) if f"part {step} of" in text), default=0)
    thinking = "Hm." if asked.thinks else ""
    if done < STEPS and asked.tools:
        return Answer("", (Call("read_part", {"number": done + 1}),), thinking=thinking)
    return Answer("All parts are read.", thinking=thinking)


def read_part(number: int) -> str:
    """Read a part of the file."""
    return f"part {number} of it: " + LINE * 500


@contextmanager
def serving() -> Iterator[tuple[Loopback, RunningProxy]]:
    needs("httpx2")
    from tests.surfaces.proxy.proxies import running_proxy

    with Loopback(brain, limit=LIMIT) as upstream, running_proxy(upstream) as proxy:
        yield upstream, proxy


def run_openai_agents(proxy: RunningProxy, *, is_chat: bool) -> str:
    needs("openai-agents")
    import agents
    import openai

    agents.set_tracing_disabled(disabled=True)
    client = openai.AsyncOpenAI(base_url=proxy.openai_url, api_key="any")
    kind: Any = agents.OpenAIChatCompletionsModel if is_chat else agents.OpenAIResponsesModel
    agent = agents.Agent(
        name="reader",
        instructions="Read all parts.",
        model=kind(model="gpt-4o" if is_chat else "gpt-5", openai_client=client),
        model_settings=agents.ModelSettings(
            reasoning=None if is_chat else openai.types.Reasoning(effort="low")
        ),
        tools=[agents.function_tool(read_part)],
    )

    async def run() -> str:
        done = await agents.Runner.run(agent, "Read the file.", max_turns=30)
        await client.close()
        return str(done.final_output)

    return asyncio.run(run())


def run_langchain(proxy: RunningProxy) -> str:
    needs("langchain")
    needs("langchain-anthropic")
    from langchain.agents import create_agent
    from langchain_anthropic import ChatAnthropic

    model: Any = ChatAnthropic
    chat = model(model="claude-opus-4-5", base_url=proxy.url, api_key="any", max_retries=0)
    agent: Any = create_agent(chat, [read_part], system_prompt="Read all parts.")
    asked = {"messages": [{"role": "user", "content": "Read the file."}]}
    done = agent.invoke(asked, {"recursion_limit": 60})
    return str(done["messages"][-1].text)


def run_pydantic_ai(proxy: RunningProxy) -> str:
    needs("pydantic-ai-slim")
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(api_key="any", base_url=proxy.url)
    agent: Any = Agent(
        AnthropicModel("claude-opus-4-5", provider=provider),
        instructions="Read all parts.",
        tools=[read_part],
    )

    async def run() -> str:
        async with agent.run_stream("Read the file.") as streamed:
            said = str(await streamed.get_output())
        await provider.client.close()
        return said

    return asyncio.run(run())


def run_strands(proxy: RunningProxy) -> str:
    needs("strands-agents")
    from strands import Agent, tool
    from strands.agent.conversation_manager import NullConversationManager
    from strands.models.anthropic import AnthropicModel

    model = AnthropicModel(
        client_args={"api_key": "any", "base_url": proxy.url},
        model_id="claude-opus-4-5",
        max_tokens=1_000,
    )
    made: Any = tool
    agent = Agent(
        model=model,
        system_prompt="Read all parts.",
        tools=[made(read_part)],
        callback_handler=None,
        conversation_manager=NullConversationManager(),
    )

    async def run() -> str:
        said = str(await agent.invoke_async("Read the file.")).strip()
        await model.client.close()  # Strands leaves its connections to the garbage collector
        return said

    return asyncio.run(run())


FRAMEWORKS: dict[str, Callable[[RunningProxy], str]] = {
    "openai-agents, Responses": lambda proxy: run_openai_agents(proxy, is_chat=False),
    "openai-agents, Chat": lambda proxy: run_openai_agents(proxy, is_chat=True),
    "langchain": run_langchain,
    "pydantic-ai": run_pydantic_ai,
    "strands": run_strands,
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_an_agent_outgrows_its_window_and_goes_on(name: str) -> None:
    """The agent knows nothing of the proxy. Its provider refuses what is too large; the agent
    gets its answer, and one log has every step of it, once and whole."""
    with serving() as (upstream, proxy):
        assert FRAMEWORKS[name](proxy) == "All parts are read."
        statuses = [request.status for request in upstream.requests]
        (info,) = proxy.store.sessions(owner=ANY_OWNER)
        records = list(proxy.store.read(info.key))
    assert any(status >= 400 for status in statuses), "no request was too large"
    results = [text_of(rec.content) or "" for rec in records if isinstance(rec, ToolResult)]
    numbers = [
        step for step in range(1, STEPS + 1) for text in results if f"part {step} of" in text
    ]
    assert numbers == list(range(1, STEPS + 1))
    assert all(len(text) > len(LINE) * 499 for text in results)
    assert sum(isinstance(rec, User) for rec in records) == 1
    assert sum(isinstance(rec, Assistant) for rec in records) == STEPS + 1
    assert not [thread for thread in threading.enumerate() if thread.name == "holdfast-proxy"]
