"""A picture that a provider refuses, in real agents of the frameworks: the talk goes on."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from tests.prompts import png
from tests.support import peers

PICTURE = base64.b64decode(png(37, 41))


class Refused(Exception):
    status_code = 400


def check(sent: list[bool]) -> None:
    """Refused, answered without it, and the next message answered at once without it."""
    assert sent[0]
    assert not any(sent[-2:])
    assert len(sent) == 3


def test_strands_goes_on() -> None:
    peers.needs("strands-agents")
    from strands import Agent
    from strands.models.model import Model

    from holdfast.integrations.strands import HoldfastConversationManager

    sent: list[bool] = []

    class Scripted(Model):  # type: ignore[misc, unused-ignore]
        def update_config(self, **config: Any) -> None:
            pass

        def get_config(self) -> Any:
            return {}

        async def structured_output(self, *_args: Any, **_options: Any) -> Any:
            yield {}

        async def stream(self, messages: Any, *_args: Any, **_options: Any) -> Any:
            sent.append(any("image" in block for one in messages for block in one["content"]))
            if sent[-1]:
                raise Refused("Could not process image")
            assert "Look" in str(messages)
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "Much."}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}

    manager: Any = HoldfastConversationManager(window=100_000)
    agent: Any = Agent(Scripted(), conversation_manager=manager, callback_handler=None)
    image = {"image": {"format": "png", "source": {"bytes": PICTURE}}}
    assert str(agent([{"text": "Look"}, image])).strip() == "Much."
    assert str(agent("And now?")).strip() == "Much."
    check(sent)


def test_pydantic_ai_goes_on() -> None:
    peers.needs("pydantic-ai-slim")
    from pydantic_ai import Agent, BinaryContent
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    from holdfast.integrations.pydantic_ai import BoundedRequests

    sent: list[bool] = []

    def answer(messages: list[Any], _info: Any) -> Any:
        sent.append("BinaryContent" in repr(messages) or "BinaryImage" in repr(messages))
        if sent[-1]:
            raise Refused("Could not process image")
        assert "Look" in repr(messages)
        return ModelResponse([TextPart("Much.")])

    bounded: Any = BoundedRequests(window=100_000)
    agent: Any = Agent(FunctionModel(answer), capabilities=[bounded])

    async def talk() -> None:
        picture = BinaryContent(PICTURE, media_type="image/png")
        first = await agent.run(["Look", picture])
        assert first.output == "Much."
        again = await agent.run("And now?", message_history=first.all_messages())
        assert again.output == "Much."

    asyncio.run(talk())
    check(sent)


def test_langchain_goes_on() -> None:
    peers.needs("langchain")
    from langchain.agents import create_agent
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    from holdfast.integrations.langchain import HoldfastMiddleware

    sent: list[bool] = []

    class Scripted(BaseChatModel):  # type: ignore[misc, unused-ignore]
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def _generate(self, messages: Any, *_args: Any, **_more: Any) -> Any:
            sent.append("image_url" in str([one.content for one in messages]))
            if sent[-1]:
                raise Refused("Could not process image")
            assert "Look" in str(messages)
            return ChatResult(generations=[ChatGeneration(message=AIMessage("Much."))])

    middleware: Any = HoldfastMiddleware(window=100_000)
    agent: Any = create_agent(Scripted(), [], middleware=[middleware])
    url = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"
    content: Any = [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    state = agent.invoke({"messages": [HumanMessage(content)]})
    assert state["messages"][-1].content == "Much."
    assert "image_url" in str(state["messages"][0].content)
    state = agent.invoke({"messages": [*state["messages"], HumanMessage("And now?")]})
    assert state["messages"][-1].content == "Much."
    check(sent)


def test_openai_agents_go_on() -> None:
    peers.needs("openai-agents")
    from agents import Agent, Runner
    from agents.testing import ScriptedModel, assistant_message

    from holdfast.integrations.openai_agents import recover_overflow

    sent: list[bool] = []

    class Refusing(ScriptedModel):  # type: ignore[misc, unused-ignore]
        async def get_response(self, system: Any, items: Any, *args: Any, **options: Any) -> Any:
            sent.append("input_image" in str(items))
            if sent[-1]:
                raise Refused("Could not process image")
            assert "Look" in str(items)
            return await super().get_response(system, items, *args, **options)

    inner = Refusing([[assistant_message("Much.")], [assistant_message("Much.")]])
    agent: Any = Agent(name="helper", model=recover_overflow(inner, window=100_000))
    url = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"
    content = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": url, "detail": "auto"},
    ]
    first = asyncio.run(Runner.run(agent, [{"role": "user", "content": content}]))
    assert first.final_output == "Much."
    items = [*first.to_input_list(), {"role": "user", "content": "And now?"}]
    assert asyncio.run(Runner.run(agent, items)).final_output == "Much."
    check(sent)


def test_adk_goes_on() -> None:
    peers.needs("google-adk")
    from google.adk.agents import LlmAgent
    from google.adk.apps import App
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    from holdfast.integrations.google_adk import BoundedRequests

    sent: list[bool] = []

    class Scripted(BaseLlm):  # type: ignore[misc, unused-ignore]
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            parts = [part for content in llm_request.contents for part in content.parts or ()]
            sent.append(any(part.inline_data for part in parts))
            if sent[-1]:
                raise Refused("Could not process image")
            assert "Look" in str(parts)
            reply = types.Content(role="model", parts=[types.Part(text="Much.")])
            yield LlmResponse(content=reply)

    plugin: Any = BoundedRequests(window=100_000)
    agent = LlmAgent(name="helper", model=Scripted(model="scripted"))
    runner = InMemoryRunner(app=App(name="helper", root_agent=agent, plugins=[plugin]))

    async def ask(parts: list[Any]) -> str:
        events = runner.run_async(
            user_id="ann", session_id="s1", new_message=types.Content(role="user", parts=parts)
        )
        return [str(event.content.parts[0].text) async for event in events][-1]

    async def talk() -> None:
        await runner.session_service.create_session(
            app_name="helper", user_id="ann", session_id="s1"
        )
        picture = types.Part.from_bytes(data=PICTURE, mime_type="image/png")
        assert await ask([types.Part(text="Look"), picture]) == "Much."
        assert await ask([types.Part(text="And now?")]) == "Much."

    asyncio.run(talk())
    check(sent)
