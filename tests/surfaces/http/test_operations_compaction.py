"""A compaction that is asked for over HTTP is the one that a turn of the agent makes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from tests.surfaces.console.test_console import talk
from tests.surfaces.http.servers import BASE, serving, token_for

from holdfast.core.dialects.registry import target
from holdfast.core.log.records import Compaction, Undo
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces import gateway_agents
from holdfast.surfaces.serve_settings import AgentSettings
from holdfast.testing.scripted import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import httpx2

    from holdfast.core.log.ids import SessionKey

WORDS = "The heron stands in the water and waits at port 8003."
SUMMARY = f"### Goal\n{WORDS}\n### Progress\nDone: the questions up to 8 have an answer."
AGENTS = {"main": AgentSettings(model="scripted", window=24_000)}


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ScriptedModel:
    """The model of every agent: it says the same of whatever it is to summarise."""
    found = ScriptedModel(otherwise=SUMMARY, target=target("anthropic", model="claude-sonnet-4-5"))
    monkeypatch.setattr(gateway_agents, "async_model", lambda _name: found.as_async())
    return found


def run(
    scenario: Callable[[httpx2.AsyncClient, MemoryStore, SessionKey], Awaitable[None]],
    *tokens: Any,
    agents: dict[str, AgentSettings] = AGENTS,
) -> list[Compaction]:
    """Run a scenario on a session of twelve turns, and return its compactions."""

    async def whole() -> list[Compaction]:
        with MemoryStore() as store:
            key = talk(store, "work", 12)
            async with serving(store, *tokens, agents=agents) as client:
                await scenario(client, store, key)
            return [record for record in store.read(key) if isinstance(record, Compaction)]

    return asyncio.run(whole())


async def compact(client: httpx2.AsyncClient, status: int = 200, **body: Any) -> Any:
    answer = await client.post("/v1/sessions/main/work/compact", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_the_model_of_the_agent_writes_the_summary(model: ScriptedModel) -> None:
    async def scenario(client: httpx2.AsyncClient, store: MemoryStore, _key: SessionKey) -> None:
        made = await compact(client, focus="the port")
        assert made["outcome"] == "applied"
        (access,) = [each for each in store.audit.entries().accesses if each.action == "compact"]
        assert access.is_allowed

    (cut,) = run(scenario)
    assert WORDS in cut.summary
    assert cut.model == "claude-sonnet-4-5"
    assert len(model.requests) == 1
    assert "the port" in str(model.requests)


def test_no_model_is_asked_for_a_preview_or_for_another_programs_agent(
    model: ScriptedModel,
) -> None:
    async def look(client: httpx2.AsyncClient, _store: MemoryStore, _key: SessionKey) -> None:
        await compact(client, preview=True)

    async def make(client: httpx2.AsyncClient, _store: MemoryStore, _key: SessionKey) -> None:
        assert (await compact(client))["outcome"] == "applied"

    assert run(look) == []
    (cut,) = run(make, agents={"another": AgentSettings(model="scripted")})
    assert cut.model is None
    assert model.requests == []


def test_a_form_makes_it_again_after_an_undo(model: ScriptedModel) -> None:
    """The session that the gateway holds open sees what was undone beside it."""

    async def scenario(client: httpx2.AsyncClient, store: MemoryStore, key: SessionKey) -> None:
        await compact(client)
        (first,) = [each.id for each in store.read(key) if isinstance(each, Compaction)]
        form = urlencode({"record": first, "focus": "the heron"})
        headers = {"content-type": "application/x-www-form-urlencoded", "origin": BASE}
        again = await client.post("/s/main/work/compaction/run", content=form, headers=headers)
        assert again.status_code == 303, again.text
        assert [each.target for each in store.read(key) if isinstance(each, Undo)] == [first]

    first, second = run(scenario)
    assert first.covers == second.covers
    assert WORDS in second.summary
    assert len(model.requests) == 2


def test_while_a_turn_runs_it_is_refused(model: ScriptedModel) -> None:
    async def scenario(client: httpx2.AsyncClient, store: MemoryStore, key: SessionKey) -> None:
        held = store.leases.acquire(key, "another process", seconds=60)
        assert held
        await compact(client, status=409)
        accesses = store.audit.entries().accesses
        assert [each.is_allowed for each in accesses if each.action == "compact"] == [False]

    assert run(scenario) == []
    assert model.requests == []


def test_another_owner_has_nothing_compacted(model: ScriptedModel) -> None:
    token, settings = token_for("ann")

    async def scenario(client: httpx2.AsyncClient, _store: MemoryStore, _key: SessionKey) -> None:
        client.headers["Authorization"] = f"Bearer {token}"
        await compact(client, status=404)

    assert run(scenario, settings) == []
    assert model.requests == []
