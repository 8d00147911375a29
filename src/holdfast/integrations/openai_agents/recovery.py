"""`recover_overflow`: a model of the OpenAI Agents SDK that survives refused requests."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from holdfast.engine.adapters import require
from holdfast.errors import CannotFit
from holdfast.integrations.common.bounded import Refusals
from holdfast.integrations.openai_agents.bounded_input import BoundedInput, read_tools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.core.projection.policy import Policy, PolicyName
    from holdfast.core.window import GivenWindow

_INPUT: Final = 1
"""The place of the input among the arguments of a model call."""


def recover_overflow(
    model: Any,
    *,
    window: GivenWindow = None,
    policy: Policy | PolicyName | None = None,
) -> Any:
    """Return a model that sends a request again when the provider refuses it: smaller, or without
    the media or words that it refuses.

        Agent(name="helper", model=recover_overflow(OpenAIResponsesModel("gpt-5", client)))

    At most five times; then, or where nothing smaller can be sent, the provider's own error is
    raised. A stream is sent again only while nothing of it was delivered. Conversations that the
    provider keeps (`conversation_id`, `previous_response_id`) are passed through as they are.
    """
    require("openai_agents")
    return _model_class()(model, BoundedInput(_name_of(model), window=window, policy=policy))


class Retry:
    """The requests for one reply, each smaller than the one that was refused."""

    def __init__(self, bounds: BoundedInput, arguments: tuple[Any, ...], options: Any) -> None:
        self._bounds = bounds
        self.arguments = arguments
        self._given = arguments[_INPUT]
        """The items as they came: what was decided is about these."""
        self._refusals = Refusals(bounds.bounds)
        is_kept_there = options.get("conversation_id") or options.get("previous_response_id")
        self._can_shrink = isinstance(arguments[_INPUT], list) and not is_kept_there

    async def begin(self) -> None:
        """Make the first request as earlier ones were: cut where they were cut, and without what
        was refused in them."""
        if not self._can_shrink or not self._bounds.bounds.has_decisions:
            return
        try:
            items = await asyncio.to_thread(self._refit)
        except CannotFit:
            return  # the provider says so in its own words
        self.arguments = (self.arguments[0], items, *self.arguments[2:])

    def _refit(self) -> list[Any]:
        return self._bounds.fit(self.arguments[_INPUT], **self._about())

    async def shrink(self, error: Exception) -> bool:
        """Make the request smaller; False where that would not help, or is impossible."""
        if not self._can_shrink:
            return False
        try:
            items = await asyncio.to_thread(self._fit, error)
        except CannotFit:
            return False
        if items is None or items == self.arguments[_INPUT]:
            return False
        self.arguments = (self.arguments[0], items, *self.arguments[2:])
        return True

    def _fit(self, error: Exception) -> list[Any] | None:
        items, about = self._given, self._about()
        self._bounds.fit(items, **about)  # for the size of what was refused
        assert self._bounds.plan is not None
        reply = about["output_tokens"] or 0
        found = self._refusals.answer(error, self._bounds.plan, output_tokens=reply)
        return None if found is None else self._bounds.fit(items, **about, at_most=found.at_most)

    def _about(self) -> dict[str, Any]:
        """Return what a request has beside its items, as far as their size is concerned."""
        system, _items, settings, tools = self.arguments[:4]
        output = getattr(settings, "max_tokens", None)
        return {
            "system": system or "",
            "tools": read_tools(tools),
            "output_tokens": output if isinstance(output, int) else None,
        }


@cache
def _model_class() -> type:
    """Return the class, made on first use: its base is a class of the SDK."""
    from agents.models.interface import Model

    class RecoveringModel(Model):  # type: ignore[misc, unused-ignore]
        """A model of the SDK that survives refused requests."""

        def __init__(self, model: Any, bounds: BoundedInput) -> None:
            self._model = model
            self._bounds = bounds

        def __getattr__(self, name: str) -> Any:
            return getattr(self._model, name)

        async def close(self) -> None:
            await self._model.close()

        def get_retry_advice(self, request: Any) -> Any:
            return self._model.get_retry_advice(request)

        async def get_response(self, *args: Any, **options: Any) -> Any:
            retry = Retry(self._bounds, *_arguments(args, options))
            await retry.begin()
            while True:
                try:
                    return await self._model.get_response(*retry.arguments, **options)
                except Exception as error:
                    if not await retry.shrink(error):
                        raise

        async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
            retry = Retry(self._bounds, *_arguments(args, options))
            await retry.begin()
            while True:
                has_begun = False
                try:
                    async for event in self._model.stream_response(*retry.arguments, **options):
                        has_begun = True
                        yield event
                    return
                except Exception as error:
                    if has_begun or not await retry.shrink(error):
                        raise

    return RecoveringModel


_NAMES: Final = (
    *("system_instructions", "input", "model_settings", "tools", "output_schema", "handoffs"),
    "tracing",
)


def _arguments(args: tuple[Any, ...], options: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
    """Return the positional arguments of a model call, also of those given by name."""
    named = [options.pop(name) for name in _NAMES[len(args) :]]
    return (*args, *named), options


def _name_of(model: Any) -> str:
    name = getattr(model, "model", "")
    return name if isinstance(name, str) else ""
