"""A model of the gateway sets timers of its own session, and of no other."""

from __future__ import annotations

import asyncio
from contextlib import closing

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import ToolResult, text_of
from holdfast.core.owners import ANY_OWNER, NamedOwner
from holdfast.engine.timers import Timers
from holdfast.engine.tools import Toolbox
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.gateway_agents import GatewayAgents
from holdfast.surfaces.serve_settings import AgentSettings

ANN, BOB = SessionKey("main", "ann"), SessionKey("main", "bob")


def results(store: MemoryStore, agents: dict[str, AgentSettings], *words: str) -> list[str]:
    """Return the results of the calls that a model makes in the session of Ann."""

    async def talk() -> None:
        async with await GatewayAgents(store, agents, model="offline").open(ANN) as session:
            for each in words:
                await session.say(each)

    asyncio.run(talk())
    return [text_of(r.content) for r in store.read(ANN) if isinstance(r, ToolResult)]


def test_a_model_sets_lists_and_cancels_timers_of_its_session() -> None:
    with closing(MemoryStore()) as store:
        store.create(ANN, owner=NamedOwner("ann"))
        store.create(BOB, owner=NamedOwner("bob"))
        Timers(store).set(BOB, "1h", "for bob", owner=NamedOwner("bob"), name="bobs")
        agents = {"main": AgentSettings(timers=True)}
        found = results(
            store,
            agents,
            'timer_set(when="30m", text="tea", name="tea")',
            "timer_list()",
            'timer_set(when="30m", text="x", sessionKey="main/bob")',
            'timer_list(sessionKey="main/bob")',
            'timer_cancel(name="bobs")',
            'timer_set(when="someday", text="x")',
        )
        assert "tea" in found[1]
        assert not any("for bob" in text for text in found)
        assert all("error" in text for text in found[2:5])
        assert "2026-11-20T09:00" in found[5]
        owners = [(owner, timer.name) for owner, timer in Timers(store).ahead(ANY_OWNER)]
        assert sorted(owners, key=str) == [
            (NamedOwner("ann"), "tea"),
            (NamedOwner("bob"), "bobs"),
        ]
        results(store, agents, 'timer_cancel(name="tea")')
        assert [timer.name for _, timer in Timers(store).ahead(ANY_OWNER)] == ["bobs"]


def test_an_agent_without_the_setting_has_none() -> None:
    with closing(MemoryStore()) as store:
        agents = GatewayAgents(store, {"helper": AgentSettings(timers=True)}, model="offline")
        assert [tool.name for tool in Toolbox(agents.options("helper").tools).tools] == [
            *("timer_set", "timer_list", "timer_change", "timer_cancel")
        ]
        assert agents.options("main").tools == ()
