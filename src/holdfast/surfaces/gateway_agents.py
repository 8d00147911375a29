"""Opens the sessions of a gateway: each agent has its model and its terms."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.config import AGENT_DEFAULT
from holdfast.core.approval_rules import check_rules, read_rules
from holdfast.core.history.access import Caller
from holdfast.core.owners import owner_of
from holdfast.engine.operations.timers import CancelTimer, ChangeTimer, ListTimers, SetTimer
from holdfast.engine.operations.tools import TOOLS
from holdfast.engine.session.async_session import AsyncSession
from holdfast.engine.session.options import (
    check_window,
    find_summariser,
    read_options,
    window_and_floor,
)
from holdfast.engine.simulation.policies import policy_from
from holdfast.engine.spending.meter import CallMeter, Spender, meter_model
from holdfast.engine.tools import describe_tools, make_tools
from holdfast.engine.workspace.facts import TurnTerms
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.providers.models import async_model
from holdfast.surfaces.serve_settings import AgentSettings, load_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.models.messages import Tool
    from holdfast.engine.session.options import SessionOptions
    from holdfast.ports import AsyncModel, SessionStore


class GatewayAgents:
    """The agents of a gateway. An agent that the settings do not name has the default ones."""

    def __init__(
        self,
        store: SessionStore,
        agents: Mapping[str, AgentSettings],
        *,
        model: str,
        meter: CallMeter | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        """`model` answers for agents without one; `meter` counts the calls of every model. Raises
        `BadSetting` for what cannot be used."""
        self._store = store
        self._replaced: list[AsyncModel] = []
        self._default = model
        self._meter = meter or CallMeter(store.spending)
        self._secrets = dict(secrets or {})
        self._agents = {"": AgentSettings(), **agents}
        self._models: dict[str, AsyncModel] = {}
        self._options = {name: self._read(name, agent) for name, agent in self._agents.items()}

    def _read(self, name: str, agent: AgentSettings) -> SessionOptions:
        tools: tuple[Callable[..., Any] | Tool, ...] = (
            *load_tools(agent.tools),
            *_timer_tools(agent),
        )
        place = f"agents.{name}.limits.approvals"
        check_rules(
            read_rules(agent.limits.approvals, place), describe_tools(make_tools(tools)), place
        )
        options = read_options(
            {
                "system": agent.system or None,
                "window": agent.window,
                "summary": agent.summary,
                "limits": agent.limits,
                "policy": policy_from(agent.policy),
                "notes": agent.notes,
                "checkpoints": agent.checkpoints,
                "tools": tools,
                "secrets": self._secrets or None,
            }
        )
        check_window(options, self._model(agent.model or self._default))
        return options

    def _model(self, name: str) -> AsyncModel:
        if name not in self._models:
            self._models[name] = async_model(name)
        return self._models[name]

    def make_others(self, agents: Mapping[str, AgentSettings]) -> GatewayAgents:
        """Return agents with other settings over the same store. Raises `BadSetting`."""
        return GatewayAgents(
            self._store, agents, model=self._default, meter=self._meter, secrets=self._secrets
        )

    def take(self, others: GatewayAgents) -> None:
        """Have the agents of `others` from now on. Sessions that are open keep theirs."""
        self._replaced += self._models.values()
        self._agents, self._models, self._options = others._agents, others._models, others._options

    @property
    def models(self) -> list[AsyncModel]:
        """The models of all agents, each once."""
        return list(self._models.values())

    @property
    def names(self) -> list[str]:
        """The agents that clients may ask for."""
        return [name for name in self._agents if name] or [AGENT_DEFAULT]

    async def close(self) -> None:
        """Close the connections of all models."""
        for model in (*self._models.values(), *self._replaced):
            close = getattr(model, "close", None)
            if close is not None:
                await close()

    def model_name(self, agent: str) -> str:
        """Return the name of the model that answers for an agent."""
        return self._agents.get(agent, self._agents[""]).model or self._default

    def model(self, agent: str) -> AsyncModel:
        """Return the model that answers for an agent."""
        return self._model(self.model_name(agent))

    def options(self, agent: str) -> SessionOptions:
        """Return the terms of an agent's sessions."""
        return self._options.get(agent, self._options[""])

    def turn_terms(self, agent: str) -> TurnTerms:
        """Return the terms that turns of an agent work with."""
        model, options = self.model(agent), self.options(agent)
        window, floor = window_and_floor(options, model)
        return TurnTerms(
            model.target, options, window, floor, is_stated=bool(agent) and agent in self._agents
        )

    async def open(self, key: SessionKey) -> AsyncSession:
        """Open a session, off the event loop."""
        return await asyncio.to_thread(self._open, key)

    def _open(self, key: SessionKey) -> AsyncSession:
        agent = self._agents.get(key.agent, self._agents[""])
        options = self.options(key.agent)
        owner = owner_of(self._store.header(key).owner)
        if agent.timers:
            caller = Caller(key.agent, key.session, owner=owner, visibility="self")
            workspace = CallerWorkspace(self._store, caller)
            bound = (TOOLS[tool.name].bind(workspace) for tool in _timer_tools(agent))
            own = load_tools(agent.tools)
            options = msgspec.structs.replace(options, tools=(*own, *bound))
        spender = Spender(owner, key.agent, str(key))
        return AsyncSession(
            self._store,
            key,
            meter_model(self.model(key.agent), self._meter, spender),
            options,
            summariser=find_summariser(
                options, lambda name: meter_model(self._model(name), self._meter, spender)
            ),
        )


_TIMERS: Final = (SetTimer, ListTimers, ChangeTimer, CancelTimer)


def _timer_tools(agent: AgentSettings) -> tuple[Tool, ...]:
    """Return the tools for timers that an agent's models have."""
    if not agent.timers:
        return ()
    return tuple(TOOLS[kind.tool].declaration for kind in _TIMERS)
