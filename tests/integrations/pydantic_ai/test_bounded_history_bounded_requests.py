"""`BoundedRequests` in a real agent of Pydantic AI: requests fit, and the run keeps everything."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.integrations.pydantic_ai.test_bounded_history import WINDOW, history, pairs
from tests.support import peers

from holdfast.integrations import pydantic_ai as adapter
from holdfast.stores import open_store


@pytest.fixture(autouse=True)
def framework() -> None:
    peers.needs("pydantic-ai-slim")


def test_what_is_cut_within_a_turn_is_in_the_conversation_that_is_saved() -> None:
    """A long history, then a result that fills the window many times over, within one run."""
    from pydantic_ai import Agent
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    sent: list[list[Any]] = []
    page = "\n".join(f"row {number}" for number in range(40_000))

    def answer(messages: list[Any], _info: Any) -> Any:
        sent.append(messages)
        if len(sent) == 1:
            return ModelResponse([ToolCallPart("look", {}, "big")])
        return ModelResponse([TextPart("Much.")])

    def look() -> str:
        return page

    bounded: Any = adapter.BoundedRequests(window=WINDOW)
    agent: Any = Agent(FunctionModel(answer), tools=[look], capabilities=[bounded])
    before = history(60, 400)

    async def talk() -> list[Any]:
        with open_store("memory:") as opened:
            store: Any = adapter.HoldfastConversationStore(store=opened)
            await store.save(Conversation(conversation_id="c", messages=before))
            conversation = await store.load("c")
            result = await agent.run("And now?", conversation=conversation)
            assert result.output == "Much."
            await store.save(result)
            return list((await store.load("c")).messages)

    kept = asyncio.run(talk())
    assert len(kept) == len(before) + 4
    assert kept[len(before)].parts[0].content == "And now?"
    assert kept[-2].parts[0].content == page
    assert bounded.plan.tokens.total <= WINDOW
    for request in sent:
        calls, results = pairs(request)
        assert calls == results
        assert sum(len(str(part)) for message in request for part in message.parts) < 8 * WINDOW
