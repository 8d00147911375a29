"""`BoundedRequests`: a capability of Pydantic AI that bounds requests, and leaves the run alone."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any

from holdfast.engine.adapters import require
from holdfast.integrations.pydantic_ai.bounded_history import BoundedHistory

if TYPE_CHECKING:
    from holdfast.core.projection.policy import Policy, PolicyName
    from holdfast.core.projection.project import Plan


class RequestBounds:
    """Keeps every request of an agent within the model's window. A capability of Pydantic AI.

        Agent(model, capabilities=[BoundedRequests(window=128_000)])

    It bounds as `BoundedHistory` does, and changes the request alone: the messages of the run, and
    so the conversation that is saved, stay whole. `plan` is the plan of the newest request.
    """

    def __init__(
        self,
        model: str = "",
        *,
        window: int | None = None,
        policy: Policy | PolicyName | None = None,
    ) -> None:
        super().__init__()
        self._history = BoundedHistory(model, window=window, policy=policy)

    @property
    def plan(self) -> Plan | None:
        """The plan of the newest request; None before the first."""
        return self._history.plan

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Bound the messages of a request. Raises `CannotFit`."""
        messages = list(request_context.messages)
        request_context.messages = list(
            await asyncio.to_thread(self._history.__call__, ctx, messages)
        )
        return request_context

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
