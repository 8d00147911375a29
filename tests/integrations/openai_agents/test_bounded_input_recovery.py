"""`recover_overflow`: a refused request is sent again, smaller, and the answer arrives."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.integrations.openai_agents.test_bounded_input import check_pairs, history
from tests.support import peers

from holdfast.integrations.openai_agents import recover_overflow

LIMIT = 60_000
"""Characters that the model below takes."""


class Refused(Exception):
    """The error of a provider, in its words."""

    status_code = 400

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.body = {"error": {"code": "context_length_exceeded", "message": text}}


@pytest.fixture(autouse=True)
def sdk() -> None:
    peers.needs("openai-agents")


def small_model(sizes: list[int], error: str = "Input exceeds the context window.") -> Any:
    """A model of the SDK that refuses more than `LIMIT` characters."""
    from agents.testing import ScriptedModel, assistant_message

    class SmallModel(ScriptedModel):  # type: ignore[misc, unused-ignore]
        def _check(self, items: Any) -> None:
            sizes.append(len(json.dumps(items)))
            if sizes[-1] > LIMIT:
                raise Refused(error)

        async def get_response(self, system: Any, items: Any, *args: Any, **options: Any) -> Any:
            self._check(items)
            return await super().get_response(system, items, *args, **options)

        async def stream_response(self, system: Any, items: Any, *args: Any, **options: Any) -> Any:
            self._check(items)
            async for event in super().stream_response(system, items, *args, **options):
                yield event

    return SmallModel([[assistant_message("ok")]])


@pytest.mark.parametrize("is_streamed", [False, True])
def test_refused_request_is_answered_after_smaller_ones(is_streamed: bool) -> None:
    from agents import Agent, Runner

    sizes: list[int] = []
    inner = small_model(sizes)
    agent = Agent(name="helper", model=recover_overflow(inner, window=200_000))
    items = [*history(150), {"role": "user", "content": "And now?"}]

    async def main() -> str:
        if not is_streamed:
            return str((await Runner.run(agent, items)).final_output)
        result = Runner.run_streamed(agent, items)
        async for _event in result.stream_events():
            pass
        return str(result.final_output)

    assert asyncio.run(main()) == "ok"
    assert 2 <= len(sizes) <= 6
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] <= LIMIT
    (call,) = inner.calls
    check_pairs(call.input)
    assert call.input[-1]["content"] == "And now?"


def test_stated_limit_is_kept_at_once() -> None:
    from agents import Agent, Runner

    sizes: list[int] = []
    text = "This model's maximum context length is 16384 tokens, but you sent 200000 tokens."
    agent = Agent(name="helper", model=recover_overflow(small_model(sizes, text), window=200_000))
    items = [*history(150), {"role": "user", "content": "And now?"}]
    assert asyncio.run(Runner.run(agent, items)).final_output == "ok"
    assert len(sizes) == 2


@pytest.mark.parametrize("error", [ValueError("no"), Refused("rate limit reached")])
def test_other_errors_and_refusals_of_the_least_are_the_models_own(error: Exception) -> None:
    from agents import Agent, Runner
    from agents.testing import ScriptedModel

    calls = []

    class FailingModel(ScriptedModel):  # type: ignore[misc, unused-ignore]
        async def get_response(self, *args: Any, **options: Any) -> Any:
            calls.append(args)
            raise error

    agent = Agent(name="helper", model=recover_overflow(FailingModel(), window=200_000))
    with pytest.raises(type(error)) as raised:
        asyncio.run(Runner.run(agent, "Hello"))
    assert raised.value is error
    assert len(calls) <= 6
