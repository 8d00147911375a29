"""`BoundedInput`, a `call_model_input_filter` of the OpenAI Agents SDK, and `recover_overflow`.

The latter is a model that survives refused requests.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack

from holdfast.core.dialects import openai_responses
from holdfast.core.dialects.openai_responses.client import ResponsesItems
from holdfast.core.dialects.registry import render_body
from holdfast.core.models.messages import Message, Prompt, Tool, ToolAnswer, ToolCall
from holdfast.core.projection.units import ContextUnit, messages_of
from holdfast.engine.adapters import require
from holdfast.errors import CannotFit
from holdfast.integrations.common.bounded import Attempts, BoundedMessages
from holdfast.integrations.common.originals import spell_item
from holdfast.integrations.common.responses_items import records_from_items

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from holdfast.core.log.records import Json
    from holdfast.integrations.common.bounded import BoundsOptions, RequestSize
    from holdfast.integrations.openai_agents.session import HoldfastSession


_ITEMS: Final = ResponsesItems()


class BoundedInput(BoundedMessages):
    """Keeps every request of a run within the model's window.

        run_config = RunConfig(call_model_input_filter=BoundedInput(window=128_000))

    Items that fit are passed on untouched. Others are shortened or cut, a call always with its
    result, and a carry-over replaces what was cut; reasoning that a model binds to what stood
    before it is left out behind it. The session keeps everything. `plan` is the
    plan of the newest request, with a ledger of every item.

    The items of the SDK have no room for more. A `HoldfastSession` that is passed as `session`
    keeps the cuts, so that another process goes on from them.
    """

    dialect: ClassVar = openai_responses.ENTRY.own.name
    provider: ClassVar = "openai"

    def __init__(
        self,
        model: str = "",
        *,
        session: HoldfastSession | None = None,
        **bounds: Unpack[BoundsOptions],
    ) -> None:
        super().__init__(model, **bounds)
        self._session = session

    async def __call__(self, data: Any) -> Any:
        """Return the input of a model call, within the window. Raises `CannotFit`."""
        from agents.run_config import ModelInputData

        given = data.model_data
        tools = read_tools(getattr(data.agent, "tools", None) or ())
        system = given.instructions or ""
        model = getattr(data.agent, "model", None)
        name = model if isinstance(model, str) else getattr(model, "model", None)
        about: RequestSize = {"system": system, "tools": tools, "model": name or ""}
        items = await asyncio.to_thread(self._fit_and_keep, given.input, about)
        return ModelInputData(input=items, instructions=given.instructions)

    def _fit_and_keep(self, items: Sequence[Any], about: RequestSize) -> list[Any]:
        attempts = Attempts(self, lambda _at_most: self.fit(items, **about))
        sent = attempts.fit()
        self.keep(attempts)
        return sent

    def keep(self, attempts: Attempts) -> None:
        """Store the decisions that a request was made with, where there is a session."""
        if self._session is not None:
            self._session.keep(attempts.decisions())

    @property
    def has_decisions(self) -> bool:
        """True where a conversation was cut, or something is left out of one."""
        return self.bounds.has_decisions or bool(self._read_decisions())

    def _read_decisions(self) -> list[Any]:
        return [] if self._session is None else self._session.decisions()

    def fit(self, items: Sequence[Any], **size: Unpack[RequestSize]) -> list[Any]:
        """Return items that fit: with `at_most`, into so many tokens for the whole request."""
        if not items:
            return []
        spelled = [spell_item(item) for item in items]
        view = self.view_of(records_from_items(items), spelled, size, self._read_decisions())
        if view.is_unchanged:
            return list(items)
        start = view.start
        while start and start < len(items) and items[start - 1].get("type") == "reasoning":
            start -= 1  # the API wants a reasoning item before the call that it led to
        sent = self._render(view.opening)
        for place, changed, is_stale, added in view.rows(start):
            if changed is not None:
                sent += self._render([ContextUnit((part,)) for part in changed])
            elif is_stale:
                bare = _ITEMS.without_reasoning(items[place])
                sent += [] if bare is None else [bare]
            else:
                sent.append(items[place])
            sent += self._render([ContextUnit((part,)) for part in added])
        return sent

    def _render(self, units: Sequence[ContextUnit]) -> list[Json]:
        if not units:
            return []
        messages = messages_of(units)
        blocks = [block for message in messages for block in message.blocks]
        made = {block.id for block in blocks if isinstance(block, ToolCall)}
        answers = [block for block in blocks if isinstance(block, ToolAnswer)]
        # A result is written beside its call; a call that goes out as an item is not repeated.
        calls = [
            ToolCall(answer.call_id, answer.name or "tool", {})
            for answer in answers
            if answer.call_id not in made
        ]
        first = [Message("assistant", tuple(calls))] if calls else []
        prompt = Prompt(messages=(*first, *messages))
        written: list[Json] = render_body(prompt, self.bounds.target)["input"]
        return written[len(calls) :]


def read_tools(tools: Sequence[Any]) -> list[Tool]:
    """Return the tools of an agent that have a schema, as far as their size is concerned."""
    found = []
    for tool in tools:
        schema = getattr(tool, "params_json_schema", None)
        if isinstance(schema, dict):
            description = str(getattr(tool, "description", "") or "")
            found.append(Tool(str(tool.name), description, schema))
    return found


_INPUT: Final = 1
"""The place of the input among the arguments of a model call."""


def recover_overflow(
    model: Any,
    *,
    session: HoldfastSession | None = None,
    **bounds: Unpack[BoundsOptions],
) -> Any:
    """Return a model that sends a request again when the provider refuses it: smaller, or without
    the media or words that it refuses.

        Agent(name="helper", model=recover_overflow(OpenAIResponsesModel("gpt-5", client)))

    At most five times; then, or where nothing smaller can be sent, the provider's own error is
    raised. A stream is sent again only while nothing of it was delivered. Conversations that the
    provider keeps (`conversation_id`, `previous_response_id`) are passed through as they are.
    `session` keeps the cuts for another process, as it does for `BoundedInput`.
    """
    require("openai_agents")
    return _model_class()(model, BoundedInput(_name_of(model), session=session, **bounds))


class Retry:
    """The requests for one reply, each smaller than the one that was refused."""

    def __init__(self, bounds: BoundedInput, arguments: tuple[Any, ...], options: Any) -> None:
        self._bounds = bounds
        self.arguments = arguments
        about = self._about()
        self._attempts = Attempts(
            *(bounds, lambda items, at_most: bounds.fit(items, **about, at_most=at_most)),
            arguments[_INPUT],
            output_tokens=about["output_tokens"] or 0,
        )
        is_kept_there = options.get("conversation_id") or options.get("previous_response_id")
        self._can_shrink = isinstance(arguments[_INPUT], list) and not is_kept_there

    async def begin(self) -> None:
        """Make the first request as earlier ones were: cut where they were cut, and without what
        was refused in them."""
        if self._can_shrink and await asyncio.to_thread(lambda: self._bounds.has_decisions):
            with suppress(CannotFit):  # the provider says so in its own words
                self._take(await asyncio.to_thread(self._attempts.fit))

    async def end(self) -> None:
        """Keep the decisions that the request was made with: it has a reply."""
        await asyncio.to_thread(self._bounds.keep, self._attempts)

    async def shrink(self, error: Exception) -> bool:
        """Make the request smaller; False where that would not help, or is impossible."""
        if not self._can_shrink:
            return False
        items = await asyncio.to_thread(self._attempts.after, error)
        if items is None:
            return False
        self._take(items)
        return True

    def _take(self, items: list[Any]) -> None:
        self.arguments = (self.arguments[0], items, *self.arguments[2:])

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
                    reply = await self._model.get_response(*retry.arguments, **options)
                except Exception as error:
                    if not await retry.shrink(error):
                        raise
                else:
                    await retry.end()
                    return reply

        async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
            retry = Retry(self._bounds, *_arguments(args, options))
            await retry.begin()
            while True:
                has_begun = False
                try:
                    async for event in self._model.stream_response(*retry.arguments, **options):
                        if not has_begun:
                            has_begun = True
                            await retry.end()
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
