"""`BoundedRequests`: a capability of Pydantic AI that bounds requests, and leaves the run alone."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from holdfast.engine.adapters import require
from holdfast.errors import CannotFit
from holdfast.integrations.common.bounded import NextRequest, Refusals
from holdfast.integrations.pydantic_ai.bounded_history import BoundedHistory, read_model, read_tools

if TYPE_CHECKING:
    from holdfast.core.models.messages import Tool
    from holdfast.core.projection.policy import Policy, PolicyName
    from holdfast.core.projection.project import Plan
    from holdfast.core.window import GivenWindow


_STEPS_MAX: Final = 64
"""Steps of runs whose refusals are remembered."""


class _Attempt:
    """The requests of one step of a run."""

    def __init__(self, history: BoundedHistory) -> None:
        self._history = history
        self._refusals = Refusals(history.bounds)
        self._now = NextRequest()
        self._sent: tuple[Plan, list[Any]] | None = None
        self._given: tuple[list[Any], list[Tool], str] = ([], [], "")

    def fit(self, messages: list[Any], tools: list[Tool], model: str) -> list[Any]:
        """Return the messages of the next request."""
        self._given = (messages, tools, model)
        at_most = self._now.at_most
        found = self._history.fit(messages, tools=tools, at_most=at_most, model=model)
        if self._history.plan is not None:
            self._sent = (self._history.plan, found)
        return found

    def can_go_on(self, error: Exception) -> bool:
        """Decide the next request; False where none would help, or it would be the same."""
        if self._sent is None:
            return False
        plan, before = self._sent
        found = self._refusals.answer(error, plan)
        if found is None:
            return False
        self._now = found
        try:
            return self.fit(*self._given) != before
        except CannotFit:
            return False


class RequestBounds:
    """Keeps every request of an agent within the model's window. A capability of Pydantic AI.

        Agent(model, capabilities=[BoundedRequests(window=128_000)])

    It bounds as `BoundedHistory` does, and changes the request alone: the messages of the run, and
    so the conversation that is saved, stay whole. A request that the provider refuses is sent
    again, up to five times: smaller, or without the media or words that it refuses. `plan` is the
    plan of the newest request.
    """

    def __init__(
        self,
        model: str = "",
        *,
        window: GivenWindow = None,
        policy: Policy | PolicyName | None = None,
    ) -> None:
        super().__init__()
        self._history = BoundedHistory(model, window=window, policy=policy)
        self._attempts: dict[tuple[Any, Any], _Attempt] = {}
        """The newest steps of runs, each with what was refused in it."""

    @property
    def plan(self) -> Plan | None:
        """The plan of the newest request; None before the first."""
        return self._history.plan

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Bound the messages of an attempt. Raises `CannotFit`."""
        attempt = self._attempts.setdefault((ctx.run_id, ctx.run_step), _Attempt(self._history))
        while len(self._attempts) > _STEPS_MAX:
            self._attempts.pop(next(iter(self._attempts)), None)
        messages = list(request_context.messages)
        about = (read_tools(ctx), read_model(ctx))
        fitted = await asyncio.to_thread(attempt.fit, messages, *about)
        request_context.messages = list(fitted)
        return request_context

    async def on_model_request_error(
        self, ctx: Any, *, request_context: Any, error: Exception
    ) -> Any:
        """Make another attempt; raises the error where none would help."""
        from pydantic_ai.exceptions import RetryModelRequest

        del request_context
        attempt = self._attempts.get((ctx.run_id, ctx.run_step))
        if attempt is None or not await asyncio.to_thread(attempt.can_go_on, error):
            raise error
        raise RetryModelRequest

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it is made in a program."""
        return None


@cache
def requests_class() -> type:
    """Return `BoundedRequests`, made on first use."""
    require("pydantic_ai")
    from pydantic_ai.capabilities import AbstractCapability

    return type(
        "BoundedRequests",
        (RequestBounds, AbstractCapability),
        {"__doc__": RequestBounds.__doc__, "__module__": "holdfast.integrations.pydantic_ai"},
    )
