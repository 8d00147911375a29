"""`BoundedHistory`, a history processor of Pydantic AI, and `BoundedRequests`, a capability.

The latter bounds requests, and leaves the messages of the run alone.
"""

from __future__ import annotations

import asyncio
import dataclasses
from base64 import b64decode
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack

from holdfast.core.dialects.common.writing import SILENT, media_type
from holdfast.core.log.records import Unknown
from holdfast.core.models.messages import Image, Text, Tool, ToolAnswer, ToolCall, text_of_blocks
from holdfast.engine.adapters import require
from holdfast.integrations.common.bounded import (
    DECISIONS_FIELD,
    Attempts,
    BoundedMessages,
    write_parts,
)
from holdfast.integrations.pydantic_ai.messages import records_with_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.projection.project import Plan
    from holdfast.core.projection.units import MessagePart
    from holdfast.integrations.common.bounded import BoundsOptions, RequestSize


class BoundedHistory(BoundedMessages):
    """Keeps the messages of every request within the model's window.

        Agent(model, capabilities=[ProcessHistory(BoundedHistory(window=128_000))])

    Messages that fit are passed on untouched; a conversation store keeps all of them. Others are
    shortened or cut, a call always with its result, and a carry-over replaces what was cut;
    reasoning that a model binds to what stood before it is left out behind a cut. Instructions and
    the schemas of tools count. `plan` is the plan of the newest request.
    """

    def __init__(self, model: str = "", **bounds: Unpack[BoundsOptions]) -> None:
        _take_run_context()
        super().__init__(model, **bounds)

    def __call__(self, ctx: Any, messages: list[Any]) -> list[Any]:
        """Return messages that fit beside the tools of a run. Raises `CannotFit`."""
        return self.fit(messages, tools=read_tools(ctx), model=read_model(ctx))

    def fit(self, messages: list[Any], **size: Unpack[RequestSize]) -> list[Any]:
        """Return messages that fit: with `at_most`, into so many tokens for the whole request.
        Raises `CannotFit`."""
        if not messages:
            return []
        records: list[Record] = []
        owners: list[tuple[int, list[Any]]] = []
        for place, message in enumerate(messages):
            found = list(records_with_parts(message))
            for record, parts in found or [(Unknown(type="peer_item"), list(message.parts))]:
                records.append(record)
                owners.append((place, parts))
        size["system"] = _instructions(messages)
        kept = [made for message in messages for made in _decisions_of(message)]
        view = self.view_of(records, [repr(record) for record in records], size, kept)
        if view.is_unchanged:
            return messages
        return write_parts(
            *(messages, owners, view),
            write=_messages,
            rewrite=_parts,
            without_reasoning=_without_reasoning,
            copy=lambda message, parts: dataclasses.replace(message, parts=parts),
        )


def _decisions_of(message: Any) -> list[Any]:
    """Return the decisions that a message of the run keeps."""
    found = (getattr(message, "metadata", None) or {}).get(DECISIONS_FIELD)
    return found if isinstance(found, list) else []


@cache
def _take_run_context() -> None:
    """Have Pydantic AI pass the context of a run: it looks at the type of the first parameter."""
    require("pydantic_ai")
    from pydantic_ai import RunContext

    BoundedHistory.__call__.__annotations__["ctx"] = RunContext


def read_tools(ctx: Any) -> list[Tool]:
    """Return the tools that a run offers, as far as their size is concerned."""
    manager = ctx.tool_manager
    if manager is None or manager.tools is None:
        return []
    return [
        Tool(each.name, each.description or "", each.parameters_json_schema)
        for each in manager.tool_defs
    ]


def read_model(ctx: Any) -> str:
    """Return the name of the model that a run asks; empty where it has none."""
    name = getattr(getattr(ctx, "model", None), "model_name", "")
    return name if isinstance(name, str) else ""


def _messages(part: MessagePart) -> list[Any]:
    """Return the messages of a part of a view that no message of the framework stands for."""
    from pydantic_ai import messages as theirs

    parts = _parts(part, [])
    if not parts:
        return []
    if part.role == "assistant":
        return [theirs.ModelResponse(parts)]
    return [theirs.ModelRequest(parts)]


def _parts(part: MessagePart, originals: Sequence[Any]) -> list[Any]:
    """Return the parts of a message for a part of a view; a result keeps its other fields."""
    from pydantic_ai import messages as theirs

    made: list[Any] = []
    pictures = [block for block in part.blocks if isinstance(block, Image) and block.data]
    if pictures and part.role == "user":
        shown = [
            theirs.BinaryContent(b64decode(image.data), media_type=media_type(image))
            for image in pictures
        ]
        made.append(theirs.UserPromptPart([text_of_blocks(part.blocks), *shown]))
        return made
    for block in part.blocks:
        if isinstance(block, ToolAnswer):
            text = text_of_blocks(block.content)
            same = [each for each in originals if each.part_kind == "tool-return"]
            if same and same[0].tool_call_id == block.call_id:
                made.append(dataclasses.replace(same[0], content=text))
            else:
                outcome: Any = "failed" if block.is_error else "success"
                made.append(
                    theirs.ToolReturnPart(
                        block.name or "tool", text, block.call_id, outcome=outcome
                    )
                )
        elif isinstance(block, ToolCall):
            made.append(theirs.ToolCallPart(block.name, block.arguments, block.id))
        elif isinstance(block, Text):
            kind: Any = theirs.TextPart if part.role == "assistant" else theirs.UserPromptPart
            made.append(kind(block.text))
    return made


def _without_reasoning(parts: Sequence[Any]) -> list[Any]:
    """Return the parts of a response without its reasoning, and without the ids by which a server
    knows that it had some."""
    from pydantic_ai import messages as theirs

    kept = [part for part in parts if part.part_kind != "thinking"]
    if len(kept) == len(parts):
        return kept
    bare = [
        dataclasses.replace(part, id=None, provider_details=None)
        if part.part_kind in ("text", "tool-call")
        else part
        for part in kept
    ]
    return bare or [theirs.TextPart(SILENT)]


def _instructions(messages: Sequence[Any]) -> str:
    """Return the instructions of the newest request, as far as their size is concerned."""
    found = (getattr(message, "instructions", None) for message in reversed(messages))
    return next((text for text in found if isinstance(text, str)), "")


_STEPS_MAX: Final = 64
"""Steps of runs whose refusals are remembered."""


class RequestBounds:
    """Keeps every request of an agent within the model's window. A capability of Pydantic AI.

        Agent(model, capabilities=[BoundedRequests(window=128_000)])

    It bounds as `BoundedHistory` does, and changes the request alone: the messages of the run, and
    so the conversation that is saved, stay whole. A request that the provider refuses is sent
    again, up to five times: smaller, or without the media or words that it refuses. A response
    keeps the cut that its request began with in its `metadata`, so that another process goes on
    from it. `plan` is the plan of the newest request.
    """

    framework_base: ClassVar = "pydantic_ai.capabilities:AbstractCapability"

    def __init__(self, model: str = "", **bounds: Unpack[BoundsOptions]) -> None:
        super().__init__()
        self._history = BoundedHistory(model, **bounds)
        self._attempts: dict[tuple[Any, Any], Attempts] = {}
        """The newest steps of runs, each with what was refused in it."""

    @property
    def plan(self) -> Plan | None:
        """The plan of the newest request; None before the first."""
        return self._history.plan

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Bound the messages of an attempt. Raises `CannotFit`."""
        new = Attempts(self._history, self._fit)
        attempts = self._attempts.setdefault((ctx.run_id, ctx.run_step), new)
        while len(self._attempts) > _STEPS_MAX:
            self._attempts.pop(next(iter(self._attempts)), None)
        given = (list(request_context.messages), read_tools(ctx), read_model(ctx))
        request_context.messages = list(await asyncio.to_thread(attempts.fit, *given))
        return request_context

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        """Keep the decisions that the request was made with beside its response."""
        del request_context
        attempts = self._attempts.get((ctx.run_id, ctx.run_step))
        made = [] if attempts is None else attempts.decisions()
        if made:
            response.metadata = {**(response.metadata or {}), DECISIONS_FIELD: made}
        return response

    async def on_model_request_error(
        self, ctx: Any, *, request_context: Any, error: Exception
    ) -> Any:
        """Make another attempt; raises the error where none would help."""
        from pydantic_ai.exceptions import RetryModelRequest

        del request_context
        attempts = self._attempts.get((ctx.run_id, ctx.run_step))
        if attempts is None or await asyncio.to_thread(attempts.after, error) is None:
            raise error
        raise RetryModelRequest

    def _fit(
        self, messages: list[Any], tools: list[Tool], model: str, at_most: int | None
    ) -> list[Any]:
        return self._history.fit(messages, tools=tools, model=model, at_most=at_most)

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it is made in a program."""
        return None
