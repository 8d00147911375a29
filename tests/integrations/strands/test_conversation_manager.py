"""`HoldfastConversationManager` in a real Strands agent: what a model is sent fits."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import peers

from holdfast.integrations import strands as adapter
from holdfast.stores import open_store
from holdfast.testing import Answer, Call, Loopback

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WINDOW = 8_000


@pytest.fixture(autouse=True)
def framework() -> None:
    peers.needs("strands-agents")


def history(turns: int, size: int) -> list[Any]:
    said: list[Any] = []
    for number in range(turns):
        call = {"toolUseId": f"c{number}", "name": "look", "input": {"at": number}}
        seen = [{"text": f"{number} " * size}]
        result = {"toolUseId": f"c{number}", "status": "success", "content": seen}
        said += [
            {"role": "user", "content": [{"text": f"Look at {number}."}]},
            {"role": "assistant", "content": [{"toolUse": call}]},
            {"role": "user", "content": [{"toolResult": result}]},
            {"role": "assistant", "content": [{"text": f"I saw {number}."}]},
        ]
    return said


def model(limit: int) -> Any:
    """A model that refuses more characters, and keeps what it was sent."""
    from strands.models.model import Model
    from strands.types.exceptions import ContextWindowOverflowException

    class Scripted(Model):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            self.sent: list[Any] = []
            self.refused = 0

        def update_config(self, **config: Any) -> None:
            pass

        def get_config(self) -> Any:
            return {}

        async def structured_output(self, *_args: Any, **_options: Any) -> Any:
            yield {}

        async def stream(self, messages: Any, *_args: Any, **_options: Any) -> Any:
            if len(str(messages)) > limit:
                self.refused += 1
                raise ContextWindowOverflowException("prompt is too long")
            self.sent.append([dict(message) for message in messages])
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "Much."}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}

    return Scripted()


def pairs(messages: list[Any]) -> tuple[list[str], list[str]]:
    blocks = [block for message in messages for block in message["content"]]
    calls = [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block]
    results = [block["toolResult"]["toolUseId"] for block in blocks if "toolResult" in block]
    return calls, results


@pytest.mark.parametrize(("turns", "size"), [(60, 400), (3, 20_000), (200, 10)])
@pytest.mark.parametrize("window", [WINDOW, 1_000_000])
def test_a_long_history_is_answered(turns: int, size: int, window: int) -> None:
    """Within a known window without a refusal; with a wrong one, after refusals."""
    from strands import Agent

    scripted = model(4 * WINDOW if window > WINDOW else 100 * WINDOW)
    manager: Any = adapter.HoldfastConversationManager(window=window)
    messages = history(turns, size)
    agent = Agent(scripted, messages=messages, conversation_manager=manager, callback_handler=None)
    assert str(agent("And now?")).strip() == "Much."
    assert bool(scripted.refused) == (window > WINDOW)
    assert manager.plan.tokens.total <= window
    (sent,) = scripted.sent
    calls, results = pairs(sent)
    assert calls == results
    assert sent[0]["role"] == "user"
    assert sent[-1]["content"][-1]["text"] == "And now?"
    roles = [message["role"] for message in sent]
    assert all(role != after for role, after in pairwise(roles))


def test_what_fits_is_sent_as_it_is_and_what_cannot_is_refused() -> None:
    from strands import Agent
    from strands.types.exceptions import ContextWindowOverflowException

    scripted = model(10**9)
    manager: Any = adapter.HoldfastConversationManager(window=1_000_000)
    said = history(3, 10)
    agent = Agent(
        scripted, messages=history(3, 10), conversation_manager=manager, callback_handler=None
    )
    agent("And now?")
    assert scripted.sent[0][:-1] == said
    agent = Agent(
        model(5), messages=history(3, 10), conversation_manager=manager, callback_handler=None
    )
    with pytest.raises(ContextWindowOverflowException):
        agent("And now?")


def test_a_session_goes_on_after_a_cut(tmp_path: Path) -> None:
    """The session keeps every message; an agent that takes it up has what the last one had."""
    from strands import Agent
    from strands.session.repository_session_manager import RepositorySessionManager

    with open_store(tmp_path / "store") as store:

        def agent(messages: list[Any] | None = None) -> Any:
            repository = adapter.HoldfastSessionRepository(store=store)
            return Agent(
                scripted,
                agent_id="default",
                messages=messages,
                conversation_manager=adapter.HoldfastConversationManager(window=WINDOW),
                session_manager=RepositorySessionManager("thread-1", repository),
                callback_handler=None,
            )

        scripted = model(100 * WINDOW)
        first = agent(history(60, 400))
        first("And now?")
        removed = first.conversation_manager.removed_message_count
        assert removed > 0
        kept = adapter.HoldfastSessionRepository(store=store).list_messages("thread-1", "default")
        assert [m.message["content"][0] for m in kept[:4]] == [
            message["content"][0] for message in history(1, 400)
        ]
        assert len(kept) == 242
        second = agent()
        assert len(second.messages) == len(first.messages)
        assert second.messages[0] == first.messages[0]
        second("And then?")
        calls, results = pairs(scripted.sent[-1])
        assert calls == results
        assert second.conversation_manager.plan.tokens.total <= WINDOW


def run_agents(folder: Path, runs: Sequence[int]) -> tuple[set[str], list[int]]:
    """What a provider that checks prefixes refused to agents, each of so many turns, and which
    requests do not go on from the one before."""
    import asyncio

    from strands import Agent, tool
    from strands.models.anthropic import AnthropicModel
    from strands.session.repository_session_manager import RepositorySessionManager
    from tests.lives.living import fetch
    from tests.lives.oracle import read_request

    def brain(asked: Any) -> Any:
        if asked.results:
            return Answer("Seen.")
        tag = f"t{len(asked.messages)}"
        return Answer("Let me look.", (Call("fetch", {"words": 700, "tag": tag}),))

    made: Any = tool
    with Loopback(brain, limit=WINDOW * 2) as provider, open_store(folder) as store:

        async def run(turns: int, first: int) -> None:
            model = AnthropicModel(
                client_args={"api_key": "any", "base_url": provider.url, "max_retries": 0},
                model_id="claude-fable-5-2",
                max_tokens=500,
            )
            repository = adapter.HoldfastSessionRepository(store=store)
            agent: Any = Agent(
                model,
                agent_id="default",
                tools=[made(fetch)],
                conversation_manager=adapter.HoldfastConversationManager(window=2 * WINDOW),
                session_manager=RepositorySessionManager("thread-1", repository),
                callback_handler=None,
            )
            for number in range(first, first + turns):
                await agent.invoke_async(f"Look at {number}.")
            await model.client.close()

        for place, turns in enumerate(runs):
            asyncio.run(run(turns, sum(runs[:place])))
        said = {request.said for request in provider.requests}
        items = [read_request("anthropic", request.body)[1] for request in provider.requests]
    pairs = enumerate(pairwise(items), 1)
    return said - {""}, [at for at, (old, new) in pairs if new[: len(old)] != old]


def test_a_restart_changes_no_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent a turn sends what one agent sends: the session has its messages whole, and the
    manager says how they were sent."""
    refused, changed = run_agents(tmp_path / "one", [16])
    assert not refused
    assert len(changed) in range(1, 12)
    assert run_agents(tmp_path / "many", [1] * 16) == (refused, changed)
    from holdfast.integrations.strands.conversation_manager import ManagerMethods

    monkeypatch.setattr(ManagerMethods, "_take_up", lambda *_args: None)
    refused, _changed = run_agents(tmp_path / "forgetful", [1] * 16)
    assert refused
