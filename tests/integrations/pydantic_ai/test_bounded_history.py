"""`BoundedHistory`: what a model is sent fits, and pairs stay together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support import peers

from holdfast.integrations.pydantic_ai import BoundedHistory

WINDOW = 8_000


@pytest.fixture(autouse=True)
def framework() -> None:
    peers.needs("pydantic-ai-slim")


def history(turns: int, size: int) -> list[Any]:
    from pydantic_ai import messages as theirs

    said: list[Any] = []
    for number in range(turns):
        call = f"c{number}"
        said += [
            theirs.ModelRequest(
                [theirs.SystemPromptPart("Be brief."), theirs.UserPromptPart(f"Look at {number}.")]
            ),
            theirs.ModelResponse([theirs.ToolCallPart("look", {"at": number}, call)]),
            theirs.ModelRequest([theirs.ToolReturnPart("look", f"{number} " * size, call)]),
            theirs.ModelResponse([theirs.TextPart(f"I saw {number}.")]),
        ]
    return [*said, theirs.ModelRequest([theirs.UserPromptPart("What did you see?")])]


def pairs(messages: list[Any]) -> tuple[list[str], list[str]]:
    parts = [part for message in messages for part in message.parts]
    return (
        [part.tool_call_id for part in parts if part.part_kind == "tool-call"],
        [part.tool_call_id for part in parts if part.part_kind == "tool-return"],
    )


@pytest.mark.parametrize(("turns", "size"), [(60, 400), (3, 20_000), (200, 10)])
def test_a_long_history_is_sent_within_the_window(turns: int, size: int) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import ProcessHistory
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    seen: list[list[Any]] = []

    def answer(messages: list[Any], _info: Any) -> Any:
        seen.append(messages)
        return ModelResponse([TextPart("Much.")])

    bounded = BoundedHistory(window=WINDOW)
    agent: Any = Agent(FunctionModel(answer), capabilities=[ProcessHistory(bounded)])
    before = history(turns, size)
    result = asyncio.run(agent.run("And now?", message_history=before))

    assert result.output == "Much."
    assert bounded.plan is not None
    assert bounded.plan.tokens.total <= WINDOW
    calls, results = pairs(seen[0])
    assert calls == results
    assert seen[0][-1].parts[-1].content == "And now?"
    characters = sum(len(str(part)) for message in seen[0] for part in message.parts)
    assert characters < 8 * WINDOW


def test_a_history_that_fits_is_passed_on_as_it_is() -> None:
    bounded = BoundedHistory(window=200_000)
    said = history(3, 10)
    assert bounded.fit(said) is said
    assert bounded.fit([]) == []


def test_a_cut_holds_while_the_history_grows() -> None:
    bounded = BoundedHistory(window=WINDOW)
    said = history(60, 400)
    first = bounded.fit(said)
    second = bounded.fit([*said, *history(1, 5)])
    same = [m for m, n in zip(first, second, strict=False) if str(m.parts) == str(n.parts)]
    assert len(same) >= len(first) - 1


def test_the_schemas_of_tools_count() -> None:
    """What is sent beside the tools fits with them: more tools, fewer messages."""
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import ProcessHistory
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    sent: dict[int, int] = {}
    for count in (0, 40):
        bounded = BoundedHistory(window=WINDOW)

        def answer(messages: list[Any], info: Any, count: int = count) -> Any:
            assert len(info.function_tools) == count
            sent[count] = sum(len(str(m.parts)) for m in messages)
            return ModelResponse([TextPart("Much.")])

        agent: Any = Agent(FunctionModel(answer), capabilities=[ProcessHistory(bounded)])
        for number in range(count):

            def look(where: str) -> str:
                return where

            look.__name__ = f"look_{number}"
            look.__doc__ = f"Look at place {number}. " + "It is far away, so take a coat. " * 8
            agent.tool_plain(look)
        asyncio.run(agent.run("And now?", message_history=history(60, 100)))
        assert bounded.plan is not None
        assert bool(bounded.plan.tokens.tools) == bool(count)
        assert bounded.plan.tokens.total <= WINDOW
    assert sent[40] < sent[0] / 2
