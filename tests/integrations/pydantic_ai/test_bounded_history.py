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
    assert bounded(said) is said
    assert bounded([]) == []


def test_a_cut_holds_while_the_history_grows() -> None:
    bounded = BoundedHistory(window=WINDOW)
    said = history(60, 400)
    first = bounded(said)
    second = bounded([*said, *history(1, 5)])
    same = [m for m, n in zip(first, second, strict=False) if str(m.parts) == str(n.parts)]
    assert len(same) >= len(first) - 1
