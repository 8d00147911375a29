"""`BoundedRequests` in a real ADK agent against a provider on this machine: what is sent fits."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import peers

from holdfast.integrations import google_adk as adapter
from holdfast.stores import open_store
from holdfast.testing import Loopback
from holdfast.testing.loopback import Answer, Call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("default")  # of ADK, about itself
WINDOW = 25_000
WHO: dict[str, Any] = {"app_name": "helper", "user_id": "ann", "session_id": "s1"}


@pytest.fixture(autouse=True)
def framework(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    peers.needs("google-adk")
    monkeypatch.setenv("GOOGLE_API_KEY", "any")
    for name in ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"):
        monkeypatch.delenv(name, raising=False)
    yield
    gc.collect()  # ADK leaves connections open: their warnings belong here, not to another test


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "store") as opened:
        yield opened


def look(where: str) -> dict[str, str]:
    """Look somewhere."""
    return {"result": f"{where}: " + "words of a long result " * 17_500}


def history(turns: int) -> list[Any]:
    """Turns with a call each, as ADK writes them."""
    from google.adk.events import Event
    from google.genai import types

    said: list[Any] = []
    for number in range(turns):
        call = types.FunctionCall(id=f"adk-{number}", name="look", args={"where": str(number)})
        seen = {"result": f"place {number} has words " * 250}
        answer = types.FunctionResponse(id=f"adk-{number}", name="look", response=seen)
        for author, role, part in (
            ("user", "user", types.Part(text=f"Look at {number}.")),
            ("helper", "model", types.Part(function_call=call)),
            ("helper", "user", types.Part(function_response=answer)),
            ("helper", "model", types.Part(text=f"I saw {number}.")),
        ):
            content = types.Content(role=role, parts=[part])
            said.append(Event(author=author, invocation_id=f"i{number}", content=content))
    return said


async def ask(store: Any, loopback: Loopback, words: str, *plugins: Any, turns: int = 0) -> Any:
    """The events of one run of an agent, whose session has a history."""
    from google.adk.agents import LlmAgent
    from google.adk.apps import App
    from google.adk.models import Gemini
    from google.adk.runners import Runner
    from google.genai import types

    model = Gemini(model="gemini-2.5-flash", base_url=loopback.url)
    agent = LlmAgent(name="helper", model=model, instruction="Be brief.", tools=[look])
    app = App(name="helper", root_agent=agent, plugins=list(plugins))
    sessions = adapter.HoldfastSessionService(store=store)
    session = await sessions.get_session(**WHO) or await sessions.create_session(**WHO)
    for event in history(turns):
        await sessions.append_event(session, event)
    runner = Runner(app=app, session_service=sessions)
    said = types.Content(role="user", parts=[types.Part(text=words)])
    run = runner.run_async(user_id="ann", session_id="s1", new_message=said)
    try:
        return [event async for event in run]
    finally:
        await model.api_client.aio.aclose()


def brain(asked: Any) -> Answer:
    """Calls the tool once, and then answers."""
    return Answer("Much.") if asked.results else Answer("", calls=(Call("look", {"where": "x"}),))


@pytest.mark.parametrize("window", [WINDOW, 1_000_000])
def test_a_long_history_is_answered(store: Any, window: int) -> None:
    """Fourteen windows of history and a result of 400,000 characters; with a wrong window, the
    provider's refusals make the requests smaller."""
    plugin: Any = adapter.BoundedRequests("gemini-2.5-flash", window=window)
    with Loopback(brain, limit=WINDOW) as loopback:
        events = asyncio.run(ask(store, loopback, "And now?", plugin, turns=240))
        assert events[-1].content.parts[0].text == "Much."
        bodies = [request.body for request in loopback.requests]
        assert bool(loopback.over_limit) == (window > WINDOW)

    sent = bodies[-1]["contents"]
    parts = [part for content in sent for part in content["parts"]]
    calls = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
    answers = [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]
    assert calls == answers
    assert len(calls) >= 1
    assert "And now?" in str(sent)
    assert plugin.plan is not None

    async def stored() -> list[Any]:
        found = await adapter.HoldfastSessionService(store=store).get_session(**WHO)
        return list(found.events)

    kept = asyncio.run(stored())
    assert len(kept) == 4 * 240 + 4
    assert len(str(kept[-2].content.parts[0].function_response.response)) > 400_000


def test_without_the_plugin_the_provider_refuses(store: Any) -> None:
    from google.genai.errors import ClientError

    match = "exceeds the maximum number of tokens"
    with Loopback(brain, limit=WINDOW) as loopback, pytest.raises(ClientError, match=match):
        asyncio.run(ask(store, loopback, "And now?", turns=240))


def test_what_fits_is_sent_as_it_is(store: Any) -> None:
    """The same requests, to the byte, with the plugin and without; the session goes on."""
    bodies = []
    for plugins in ([], [adapter.BoundedRequests(window=1_000_000)]):
        with open_store("memory:") as opened, Loopback(brain) as loopback:
            asyncio.run(ask(opened, loopback, "And now?", *plugins, turns=3))
            asyncio.run(ask(opened, loopback, "And then?", *plugins))
            bodies.append([request.body for request in loopback.requests])
    assert bodies[0] == bodies[1]
    assert len(bodies[0]) == 4


def test_an_error_of_another_kind_is_raised(store: Any) -> None:
    from google.genai.errors import APIError

    plugin: Any = adapter.BoundedRequests(window=WINDOW)
    with Loopback(brain, api_key="another") as loopback:
        with pytest.raises(APIError):
            asyncio.run(ask(store, loopback, "And now?", plugin))
        assert len(loopback.requests) == 1
