"""`BoundedInput`: a `call_model_input_filter` of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.dialects import openai_responses
from holdfast.core.dialects.openai_responses.items import ResponsesItems
from holdfast.core.dialects.registry import target
from holdfast.core.models.messages import Message, Prompt, Tool, ToolAnswer, ToolCall
from holdfast.core.projection.units import ContextUnit, messages_of
from holdfast.integrations.common.bounded import ListBounds, name_records
from holdfast.integrations.common.originals import spell_item
from holdfast.integrations.common.responses_items import records_from_items
from holdfast.providers.requests import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.projection.policy import Policy, PolicyName
    from holdfast.core.projection.project import Plan
    from holdfast.core.window import GivenWindow
    from holdfast.integrations.common.bounded import BoundedView

_DIALECT: Final = openai_responses.ENTRY.own.name
_ITEMS: Final = ResponsesItems()


class BoundedInput:
    """Keeps every request of a run within the model's window.

        run_config = RunConfig(call_model_input_filter=BoundedInput(window=128_000))

    Items that fit are passed on untouched. Others are shortened or cut, a call always with its
    result, and a carry-over stands for what was cut; reasoning that a model binds to what stood
    before it is left out behind it. The session keeps everything. `plan` is the
    plan of the newest request, with a ledger of every item.
    """

    def __init__(
        self,
        model: str = "",
        *,
        window: GivenWindow = None,
        policy: Policy | PolicyName | None = None,
    ) -> None:
        self._target = target(_DIALECT, provider="openai", model=model)
        self.bounds = ListBounds(self._target, window=window, policy=policy)
        self.plan: Plan | None = None

    async def __call__(self, data: Any) -> Any:
        """Return the input of a model call, within the window. Raises `CannotFit`."""
        from agents.run_config import ModelInputData

        given = data.model_data
        tools = read_tools(getattr(data.agent, "tools", None) or ())
        system = given.instructions or ""
        model = getattr(data.agent, "model", None)
        name = model if isinstance(model, str) else getattr(model, "model", None)
        items = await asyncio.to_thread(
            self.fit, given.input, system=system, tools=tools, model=name or ""
        )
        return ModelInputData(input=items, instructions=given.instructions)

    def fit(
        self,
        items: Sequence[Any],
        *,
        system: str = "",
        tools: Sequence[Tool] = (),
        output_tokens: int | None = None,
        at_most: int | None = None,
        model: str = "",
    ) -> list[Any]:
        """Return items that fit: with `at_most`, into so many tokens for the whole request."""
        if not items:
            return []
        spelled = [spell_item(item) for item in items]
        records = name_records(records_from_items(items), spelled)
        view = self.bounds.fit(
            records,
            system=system,
            tools=tools,
            output_tokens=output_tokens,
            at_most=at_most,
            model=model,
        )
        self.plan = view.plan
        if view.is_unchanged:
            return list(items)
        return self._write(items, [record.id for record in records], view)

    def _write(self, items: Sequence[Any], ids: Sequence[str], view: BoundedView) -> list[Any]:
        start = view.start
        while start and start < len(items) and items[start - 1].get("type") == "reasoning":
            start -= 1  # the API wants a reasoning item before the call that it led to
        sent = self._render(view.opening)
        for place in range(start, len(items)):
            name = ids[place]
            if name in view.changed:
                parts = view.changed[name]
                sent += self._render([ContextUnit((part,)) for part in parts])
            elif name in view.stale:
                bare = _ITEMS.without_reasoning(items[place])
                sent += [] if bare is None else [bare]
            else:
                sent.append(items[place])
            sent += self._render([ContextUnit((part,)) for part in view.added.get(name, ())])
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
        written: list[Json] = render(prompt, self._target)["input"]
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
