"""`HoldfastMiddleware`: requests of a LangChain agent that fit, and answers after a refusal."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Final

from holdfast.core.dialects.common.block_atoms import THINKING
from holdfast.core.dialects.common.writing import SILENT, data_uri
from holdfast.core.dialects.registry import target
from holdfast.core.log.records import Unknown
from holdfast.core.models.messages import Image, Text, Tool, ToolAnswer, ToolCall
from holdfast.errors import CannotFit
from holdfast.integrations.common.bounded import ListBounds, NextRequest, Refusals, name_records
from holdfast.integrations.common.langchain_messages import record_from_message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.messages import Block
    from holdfast.core.projection.policy import Policy, PolicyName
    from holdfast.core.projection.project import Plan
    from holdfast.core.projection.units import MessagePart
    from holdfast.core.window import GivenWindow


_SERVER: Final = ("reasoning", "__openai_function_call_ids__")
"""Fields beside a reply with reasoning, and with ids that a server joins to it."""


class MiddlewareMethods:
    """Keeps every request of an agent within the model's window. An `AgentMiddleware`.

    Messages that fit are passed on untouched; the state of the agent keeps all of them. A request
    that the provider refuses is sent again, up to five times: smaller, or without the media or
    words that it refuses. Reasoning that a model binds to what stood before it is left out behind a
    cut. `plan` is the plan of the newest request.
    """

    framework_base: ClassVar = "langchain.agents.middleware:AgentMiddleware"

    def __init__(
        self,
        model: str = "",
        *,
        window: GivenWindow = None,
        policy: Policy | PolicyName | None = None,
    ) -> None:
        super().__init__()
        self._bounds = ListBounds(target("openai-chat", model=model), window=window, policy=policy)
        self.plan: Plan | None = None

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call the model with messages that fit."""
        refusals, now = Refusals(self._bounds), NextRequest()
        while True:
            fitted = self._fit(request, now.at_most)
            try:
                return handler(fitted)
            except Exception as error:
                found = self._next_try(refusals, request, fitted.messages, error)
                if found is None:
                    raise
                now = found

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call the model with messages that fit."""
        refusals, now = Refusals(self._bounds), NextRequest()
        while True:
            fitted = await asyncio.to_thread(self._fit, request, now.at_most)
            try:
                return await handler(fitted)
            except Exception as error:
                found = await asyncio.to_thread(
                    self._next_try, refusals, request, fitted.messages, error
                )
                if found is None:
                    raise
                now = found

    def fit(
        self,
        messages: Sequence[Any],
        *,
        system: str = "",
        tools: Sequence[Tool] = (),
        at_most: int | None = None,
        model: str = "",
    ) -> list[Any]:
        """Return messages that fit: with `at_most`, into so many tokens for the whole request."""
        if not messages:
            return []
        found = [record_from_message(message) for message in messages]
        records = [Unknown(type="peer_item") if record is None else record for record in found]
        spelled = [_spell(message, record) for message, record in zip(messages, found, strict=True)]
        named = name_records(records, spelled)
        view = self._bounds.fit(named, system=system, tools=tools, at_most=at_most, model=model)
        self.plan = view.plan
        if view.is_unchanged:
            return list(messages)
        sent = [message for unit in view.opening for message in _messages(unit.parts)]
        for place in range(view.start, len(messages)):
            name = named[place].id
            if name in view.changed:
                sent += _messages(view.changed[name], messages[place])
            elif name in view.stale:
                sent.append(_without_reasoning(messages[place]))
            else:
                sent.append(messages[place])
            sent += _messages(view.added.get(name, ()))
        return sent

    def _fit(self, request: Any, at_most: int | None) -> Any:
        system = getattr(request.system_message, "text", None)
        messages = self.fit(
            request.messages,
            system=str(system) if isinstance(system, str) else "",  # a text of theirs is no JSON
            tools=_tools(request.tools or ()),
            at_most=at_most,
            model=_name_of(request.model),
        )
        return request.override(messages=messages)

    def _next_try(
        self, refusals: Refusals, request: Any, before: list[Any], error: Exception
    ) -> NextRequest | None:
        """Return the next try; None where no other request would help, or none can be made."""
        found = None if self.plan is None else refusals.answer(error, self.plan)
        if found is None:
            return None
        try:
            fitted = self._fit(request, found.at_most)
        except CannotFit:
            return None
        return None if fitted.messages == before else found


def _messages(parts: Sequence[MessagePart], original: Any = None) -> list[Any]:
    """Return parts of a view as messages of LangChain; a result keeps the fields of its message."""
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    made: list[Any] = []
    for part in parts:
        answers = [block for block in part.blocks if isinstance(block, ToolAnswer)]
        calls = [block for block in part.blocks if isinstance(block, ToolCall)]
        text = _text(part.blocks)
        for answer in answers:
            content = _text(answer.content)
            if isinstance(original, ToolMessage) and original.tool_call_id == answer.call_id:
                made.append(original.model_copy(update={"content": content}))
            else:
                status = "error" if answer.is_error else "success"
                made.append(
                    ToolMessage(
                        content, tool_call_id=answer.call_id, name=answer.name, status=status
                    )
                )
        if part.role == "assistant":
            asked = [
                {"id": call.id, "name": call.name, "args": call.arguments, "type": "tool_call"}
                for call in calls
            ]
            made.append(AIMessage(text, tool_calls=asked))
        elif text:
            made.append(HumanMessage(_compose(part.blocks, text)))
    return made


def _without_reasoning(message: Any) -> Any:
    """Return a reply without its reasoning, and without the ids by which a server knows that it
    had some."""
    content = message.content
    if isinstance(content, list):
        content = [_without_id(block) for block in content if not _is_reasoning(block)]
        content = content or ("" if message.tool_calls else SILENT)
    more = {name: value for name, value in message.additional_kwargs.items() if name not in _SERVER}
    return message.model_copy(update={"content": content, "additional_kwargs": more})


def _is_reasoning(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in THINKING


def _without_id(block: Any) -> Any:
    if not isinstance(block, dict) or block.get("type") not in ("text", "function_call"):
        return block
    return {name: value for name, value in block.items() if name != "id"}


def _name_of(model: Any) -> str:
    """Return the name of the model that a request is for; empty where its class does not say it."""
    found = (getattr(model, name, None) for name in ("model_name", "model", "model_id"))
    return next((name for name in found if isinstance(name, str)), "")


def _compose(blocks: Sequence[Block], text: str) -> Any:
    """Return the content of a person's message, with the pictures that are left of it."""
    pictures = [block for block in blocks if isinstance(block, Image)]
    shown = [{"type": "image_url", "image_url": {"url": data_uri(block)}} for block in pictures]
    return [{"type": "text", "text": text}, *shown] if shown else text


def _text(blocks: Sequence[Block]) -> str:
    return "\n".join(block.text for block in blocks if isinstance(block, Text))


def _spell(message: Any, record: Record | None) -> str:
    """Return a text that is the same for the same message in the next request."""
    said = getattr(message, "content", "")
    calls = getattr(message, "tool_calls", "")
    answered = getattr(message, "tool_call_id", "")
    kind = type(message).__name__ if record is None else record.kind
    return f"{kind} {getattr(message, 'id', '')} {answered} {said!r} {calls!r}"


def _tools(tools: Sequence[Any]) -> list[Tool]:
    """Return the tools of a request, as far as their size is concerned."""
    from langchain_core.utils.function_calling import convert_to_openai_tool

    found = []
    for tool in tools:
        schema = convert_to_openai_tool(tool).get("function")
        if isinstance(schema, dict):
            parameters = schema.get("parameters") or {}
            name, description = str(schema.get("name", "")), str(schema.get("description", ""))
            found.append(Tool(name, description, parameters))
    return found
