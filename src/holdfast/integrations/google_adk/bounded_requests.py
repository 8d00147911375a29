"""`BoundedRequests`: a plugin of ADK that keeps requests within a window."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack

from holdfast.core.dialects.common.writing import SILENT
from holdfast.core.log.records import ToolResult, Unknown, encode
from holdfast.core.models.messages import (
    Image,
    Text,
    Thinking,
    Tool,
    ToolAnswer,
    ToolCall,
    text_of_blocks,
)
from holdfast.importers.apis.gemini import carry_content
from holdfast.importers.common.base import Draft
from holdfast.integrations.common.bounded import (
    DECISIONS_FIELD,
    Attempts,
    BoundedMessages,
    write_parts,
)
from holdfast.integrations.google_adk.events import standard_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.messages import Block
    from holdfast.core.projection.units import MessagePart
    from holdfast.integrations.common.bounded import BoundsOptions, RequestSize

_REQUESTS_MAX: Final = 64
"""Requests that are known until their replies are there."""


class PluginMethods(BoundedMessages):
    """Keeps every request of an app within the model's window. A `BasePlugin` of ADK.

        App(name="helper", root_agent=agent, plugins=[BoundedRequests(window=128_000)])

    Contents that fit are passed on untouched; the session keeps all events. Others are shortened
    or cut, a call always with its result, and a carry-over replaces what was cut. A request
    that the provider refuses is sent again, up to five times: smaller, or without the media or
    words that it refuses. Reasoning that a model binds to what stood before it is left out behind a
    cut. The event of a reply keeps the cut that its request began with in its `custom_metadata`,
    so that another process goes on from it. `plan` is the plan of the newest request.
    """

    framework_base: ClassVar = "google.adk.plugins.base_plugin:BasePlugin"

    dialect: ClassVar = "gemini"
    provider: ClassVar = "google"
    framework_arguments: ClassVar = ("holdfast_bounded_requests",)

    def __init__(self, model: str = "", **bounds: Unpack[BoundsOptions]) -> None:
        super().__init__(model, **bounds)
        self._asked: dict[tuple[str, ...], Attempts] = {}
        """The newest request of each agent of an invocation."""

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> Any:
        """Put contents that fit into a request. Raises `CannotFit`."""
        output = getattr(llm_request.config, "max_output_tokens", None) or 0
        events = callback_context.session.events
        kept = [made for event in events for made in _decisions_of(event)]
        given = (llm_request, list(llm_request.contents), kept)
        attempts = Attempts(self, self._fit, *given, output_tokens=output)
        self._asked[_who(callback_context)] = attempts
        while len(self._asked) > _REQUESTS_MAX:
            self._asked.pop(next(iter(self._asked)), None)
        llm_request.contents = await asyncio.to_thread(attempts.fit)

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Keep the decisions that the request was made with beside its reply."""
        attempts = self._asked.get(_who(callback_context))
        if attempts is not None and not llm_response.partial:
            _keep(llm_response, attempts)

    async def on_model_error_callback(
        self, *, callback_context: Any, llm_request: Any, error: Exception
    ) -> Any:
        """Return the reply to a smaller request; None where the error is about something else."""
        attempts = self._asked.get(_who(callback_context))
        if attempts is None:
            return None
        while (contents := await asyncio.to_thread(attempts.after, error)) is not None:
            llm_request.contents = contents
            try:
                reply = await _ask_again(callback_context, llm_request)
                _keep(reply, attempts)
                return reply
            except Exception as again:
                error = again
        return None

    def fit(self, llm_request: Any, at_most: int | None = None) -> list[Any]:
        """Return contents that fit: with `at_most`, into so many tokens for the whole request."""
        return self._fit(llm_request, llm_request.contents, (), at_most)

    def _fit(
        self, llm_request: Any, contents: list[Any], kept: Sequence[Any], at_most: int | None
    ) -> list[Any]:
        from google.genai import types

        if not contents:
            return []
        found = list(_records(contents))
        records = [record for record, _place, _parts in found]
        config = llm_request.config
        size: RequestSize = {
            "system": _system(config),
            "tools": _tools(config),
            "output_tokens": getattr(config, "max_output_tokens", None),
            "at_most": at_most,
            "model": str(llm_request.model or ""),
        }
        view = self.view_of(records, [encode(record).decode() for record in records], size, kept)
        if view.is_unchanged:
            return contents
        return write_parts(
            *(contents, [(place, parts) for _record, place, parts in found], view),
            write=_contents,
            rewrite=lambda part, parts: _parts(part.blocks, parts),
            without_reasoning=_without_reasoning,
            copy=lambda content, parts: types.Content(role=content.role, parts=parts),
        )


def _who(callback_context: Any) -> tuple[str, ...]:
    """Return a name of the request that an agent waits for: it has one at a time."""
    invocation = callback_context._invocation_context
    return (invocation.invocation_id, callback_context.agent_name, invocation.branch or "")


def _keep(reply: Any, attempts: Attempts) -> None:
    made = attempts.decisions()
    if made:
        reply.custom_metadata = {**(reply.custom_metadata or {}), DECISIONS_FIELD: made}


def _decisions_of(event: Any) -> list[Any]:
    """Return the decisions that an event keeps."""
    found = (event.custom_metadata or {}).get(DECISIONS_FIELD)
    return found if isinstance(found, list) else []


async def _ask_again(callback_context: Any, llm_request: Any) -> Any:
    """Return the reply of the agent's model to a request, whole."""
    model = callback_context._invocation_context.agent.canonical_model
    replies = model.generate_content_async(llm_request, stream=False)
    return [reply async for reply in replies][-1]


def _records(contents: Sequence[Any]) -> Iterator[tuple[Record, int, list[Any]]]:
    """Yield the records of contents, each with the place of its content and its parts."""
    draft = Draft()
    for place, content in enumerate(contents):
        begin = len(draft.records)
        parts = list(content.parts or ())
        spelled = [part.model_dump(mode="json", exclude_none=True) for part in parts]
        carry_content(draft, content.role or "user", list(standard_parts(spelled)))
        made = draft.records[begin:]
        answers = [part for part in parts if part.function_response]
        others = [part for part in parts if not part.function_response]
        if not made:
            yield Unknown(type="peer_item"), place, parts
        for record in made:
            yield record, place, [answers.pop(0)] if isinstance(record, ToolResult) else others


def _without_reasoning(parts: Sequence[Any]) -> list[Any]:
    """Return the parts of a reply without thoughts and their signatures."""
    from google.genai import types

    bare: list[Any] = []
    for part in parts:
        if part.thought:
            continue
        if part.thought_signature is None:
            bare.append(part)
            continue
        unsigned = part.model_copy(update={"thought_signature": None})
        bare += [unsigned] if unsigned.model_dump(exclude_none=True) else []
    return bare or [types.Part(text=SILENT)]


def _contents(part: MessagePart) -> list[Any]:
    """Return the contents of a part of a view that no content of the request stands for."""
    from google.genai import types

    parts = _parts(part.blocks, [])
    role = "model" if part.role == "assistant" else "user"
    return [types.Content(role=role, parts=parts)] if parts else []


def _parts(blocks: Sequence[Block], originals: Sequence[Any]) -> list[Any]:
    """Return the parts of a content for blocks; what is as it was is the original itself."""
    from google.genai import types

    calls = [part for part in originals if part.function_call]
    thoughts = [part for part in originals if part.thought]
    media = [(_data_of(part), part) for part in originals if part.inline_data or part.file_data]
    answers = [part for part in originals if part.function_response]
    made: list[Any] = []
    for block in blocks:
        match block:
            case Text():
                same = [part for part in originals if part.text == block.text and not part.thought]
                made.append(same[0] if same else types.Part(text=block.text))
            case ToolCall():
                made.append(_call(block, calls.pop(0) if calls else None))
            case ToolAnswer():
                made.append(_answer(block, answers.pop(0) if answers else None))
            case Thinking() if thoughts:
                made.append(thoughts.pop(0))
            case Image():
                made += [part for data, part in media if data in (block.data, block.url)][:1]
            case _:  # a part of a kind that only the provider knows goes with what was cut
                pass
    return made


def _data_of(part: Any) -> str:
    """Return the base64 of a part's file, or its address."""
    if part.inline_data is None:
        return str(part.file_data.file_uri)
    return base64.b64encode(part.inline_data.data or b"").decode()


def _call(block: ToolCall, original: Any) -> Any:
    from google.genai import types

    if original is None:
        call = types.FunctionCall(id=block.id, name=block.name, args=block.arguments)
        return types.Part(function_call=call)
    if original.function_call.args == block.arguments:
        return original
    call = original.function_call.model_copy(update={"args": block.arguments})
    return original.model_copy(update={"function_call": call})


def _answer(block: ToolAnswer, original: Any) -> Any:
    from google.genai import types

    text = text_of_blocks(block.content)
    said = {"error" if block.is_error else "result": text}
    if original is None:
        answer = types.FunctionResponse(id=block.call_id, name=block.name or "tool", response=said)
        return types.Part(function_response=answer)
    answer = original.function_response.model_copy(update={"response": said, "parts": None})
    return original.model_copy(update={"function_response": answer})


def _system(config: Any) -> str:
    """Return the instructions of a request, as far as their size is concerned."""
    given = getattr(config, "system_instruction", None)
    if given is None or isinstance(given, str):
        return given or ""
    parts = getattr(given, "parts", None) or (given if isinstance(given, list) else [given])
    return "\n".join(part if isinstance(part, str) else str(part.text or "") for part in parts)


def _tools(config: Any) -> list[Tool]:
    """Return the functions of a request, as far as their size is concerned."""
    found = []
    for tool in getattr(config, "tools", None) or ():
        for declared in getattr(tool, "function_declarations", None) or ():
            schema = declared.parameters_json_schema
            if schema is None and declared.parameters is not None:
                schema = declared.parameters.model_dump(mode="json", exclude_none=True)
            about = schema if isinstance(schema, dict) else {}
            found.append(Tool(declared.name or "", declared.description or "", about))
    return found
