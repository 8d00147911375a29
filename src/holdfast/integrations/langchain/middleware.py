"""`HoldfastMiddleware`: requests of a LangChain agent that fit, and answers after a refusal."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack

from holdfast.core.dialects.common.digests import THINKING
from holdfast.core.dialects.common.writing import SILENT, data_uri
from holdfast.core.log.records import Unknown
from holdfast.core.models.messages import Image, Tool, ToolAnswer, ToolCall, text_of_blocks
from holdfast.integrations.common.bounded import DECISIONS_FIELD, Attempts, BoundedMessages
from holdfast.integrations.common.langchain_messages import record_from_message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.messages import Block
    from holdfast.core.projection.units import MessagePart
    from holdfast.integrations.common.bounded import RequestSize


_SERVER: Final = ("reasoning", "__openai_function_call_ids__")
"""Fields beside a reply with reasoning, and with ids that a server joins to it."""


class MiddlewareMethods(BoundedMessages):
    """Keeps every request of an agent within the model's window. An `AgentMiddleware`.

    Messages that fit are passed on untouched; the state of the agent keeps all of them. A request
    that the provider refuses is sent again, up to five times: smaller, or without the media or
    words that it refuses. Reasoning that a model binds to what stood before it is left out behind a
    cut. A reply keeps the cut that its request began with in its `response_metadata`, so that
    another process goes on from it. `plan` is the plan of the newest request.
    """

    framework_base: ClassVar = "langchain.agents.middleware:AgentMiddleware"

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call the model with messages that fit."""
        attempts = Attempts(self, self._fit, request)
        messages: list[Any] | None = attempts.fit()
        while True:
            try:
                return _keep(handler(request.override(messages=messages)), attempts.decisions())
            except Exception as error:
                messages = attempts.after(error)
                if messages is None:
                    raise

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call the model with messages that fit."""
        attempts = Attempts(self, self._fit, request)
        messages: list[Any] | None = await asyncio.to_thread(attempts.fit)
        while True:
            try:
                reply = await handler(request.override(messages=messages))
                return _keep(reply, attempts.decisions())
            except Exception as error:
                messages = await asyncio.to_thread(attempts.after, error)
                if messages is None:
                    raise

    def fit(self, messages: Sequence[Any], **size: Unpack[RequestSize]) -> list[Any]:
        """Return messages that fit: with `at_most`, into so many tokens for the whole request."""
        if not messages:
            return []
        found = [record_from_message(message) for message in messages]
        records = [Unknown(type="peer_item") if record is None else record for record in found]
        spelled = [_spell(message, record) for message, record in zip(messages, found, strict=True)]
        kept = [made for message in messages for made in _decisions_of(message)]
        view = self.view_of(records, spelled, size, kept)
        if view.is_unchanged:
            return list(messages)
        sent = [message for unit in view.opening for message in _messages(unit.parts)]
        for place, changed, is_stale, added in view.rows():
            message = messages[place]
            if changed is not None:
                sent += _messages(changed, message)
            else:
                sent.append(_without_reasoning(message) if is_stale else message)
            sent += _messages(added)
        return sent

    def _fit(self, request: Any, at_most: int | None) -> list[Any]:
        system = getattr(request.system_message, "text", None)
        return self.fit(
            request.messages,
            system=str(system) if isinstance(system, str) else "",  # a text of theirs is not JSON
            tools=_tools(request.tools or ()),
            at_most=at_most,
            model=_name_of(request.model),
        )


def _keep(response: Any, decisions: list[Json]) -> Any:
    """Return the response of a model with decisions beside its reply."""
    messages: list[Any] = list(getattr(response, "result", None) or ())
    replies = (place for place, each in enumerate(messages) if getattr(each, "type", "") == "ai")
    place = next(replies, None)
    if not decisions or place is None:
        return response
    about = {**messages[place].response_metadata, DECISIONS_FIELD: decisions}
    messages[place] = messages[place].model_copy(update={"response_metadata": about})
    return dataclasses.replace(response, result=messages)


def _decisions_of(message: Any) -> list[Any]:
    """Return the decisions that a message of the state keeps."""
    about = getattr(message, "response_metadata", None)
    found = about.get(DECISIONS_FIELD) if isinstance(about, dict) else None
    return found if isinstance(found, list) else []


def _messages(parts: Sequence[MessagePart], original: Any = None) -> list[Any]:
    """Return parts of a view as messages of LangChain; a result keeps the fields of its message."""
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    made: list[Any] = []
    for part in parts:
        answers = [block for block in part.blocks if isinstance(block, ToolAnswer)]
        calls = [block for block in part.blocks if isinstance(block, ToolCall)]
        text = text_of_blocks(part.blocks)
        for answer in answers:
            content = text_of_blocks(answer.content)
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
