"""`BoundedHistory`, a history processor of Pydantic AI, and `BoundedRequests`, a capability.

The latter bounds requests, and leaves the messages of the run alone.
"""

from __future__ import annotations

import asyncio
import dataclasses
from base64 import b64decode
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

from holdfast.core.dialects.common.writing import SILENT, media_type
from holdfast.core.dialects.registry import target
from holdfast.core.log.records import Unknown
from holdfast.core.models.messages import Image, Text, Tool, ToolAnswer, ToolCall
from holdfast.engine.adapters import require
from holdfast.errors import CannotFit
from holdfast.integrations.common.bounded import ListBounds, NextRequest, Refusals, name_records
from holdfast.integrations.pydantic_ai.messages import records_with_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.messages import Block
    from holdfast.core.projection.policy import Policy, PolicyName
    from holdfast.core.projection.project import Plan
    from holdfast.core.projection.units import MessagePart
    from holdfast.core.window import GivenWindow
    from holdfast.integrations.common.bounded import BoundedView


class BoundedHistory:
    """Keeps the messages of every request within the model's window.

        Agent(model, capabilities=[ProcessHistory(BoundedHistory(window=128_000))])

    Messages that fit are passed on untouched; a conversation store keeps all of them. Others are
    shortened or cut, a call always with its result, and a carry-over replaces what was cut;
    reasoning that a model binds to what stood before it is left out behind a cut. Instructions and
    the schemas of tools count. `plan` is the plan of the newest request.
    """

    def __init__(
        self,
        model: str = "",
        *,
        window: GivenWindow = None,
        policy: Policy | PolicyName | None = None,
    ) -> None:
        _take_run_context()
        self.bounds = ListBounds(target("openai-chat", model=model), window=window, policy=policy)
        self.plan: Plan | None = None

    def __call__(self, ctx: Any, messages: list[Any]) -> list[Any]:
        """Return messages that fit beside the tools of a run. Raises `CannotFit`."""
        return self.fit(messages, tools=read_tools(ctx), model=read_model(ctx))

    def fit(
        self,
        messages: list[Any],
        *,
        tools: Sequence[Tool] = (),
        at_most: int | None = None,
        model: str = "",
    ) -> list[Any]:
        """Return messages that fit: with `at_most`, into so many tokens for the whole request.
        Raises `CannotFit`."""
        if not messages:
            return []
        records: list[Record] = []
        spelled: list[str] = []
        owners: list[tuple[int, list[Any]]] = []
        for place, message in enumerate(messages):
            found = list(records_with_parts(message))
            for record, parts in found or [(Unknown(type="peer_item"), list(message.parts))]:
                records.append(record)
                spelled.append(_spell(record))
                owners.append((place, parts))
        named = name_records(records, spelled)
        view = self.bounds.fit(
            named,
            system=_instructions(messages),
            tools=tools,
            at_most=at_most,
            model=model,
        )
        self.plan = view.plan
        if view.is_unchanged:
            return messages
        return _write(messages, [record.id for record in named], owners, view)


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


def _write(
    messages: Sequence[Any],
    ids: Sequence[str],
    owners: Sequence[tuple[int, list[Any]]],
    view: BoundedView,
) -> list[Any]:
    sent = [message for unit in view.opening for part in unit.parts for message in _messages(part)]
    kept: dict[int, list[Any]] = {}
    after: dict[int, list[Any]] = {}
    for name, (place, parts) in list(zip(ids, owners, strict=True))[view.start :]:
        changed = view.changed.get(name)
        if changed is not None:
            parts = [made for part in changed for made in _parts(part, parts)]
        elif name in view.stale:
            parts = _without_reasoning(parts)
        kept.setdefault(place, []).extend(parts)
        for part in view.added.get(name, ()):
            after.setdefault(place, []).extend(_messages(part))
    for place, parts in kept.items():
        if parts:
            is_whole = len(parts) == len(messages[place].parts) and all(
                made is part for made, part in zip(parts, messages[place].parts, strict=True)
            )
            found = messages[place]
            sent.append(found if is_whole else dataclasses.replace(found, parts=parts))
        sent += after.get(place, [])
    return sent


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
        made.append(theirs.UserPromptPart([_text(part.blocks), *shown]))
        return made
    for block in part.blocks:
        if isinstance(block, ToolAnswer):
            text = _text(block.content)
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


def _text(blocks: Sequence[Block]) -> str:
    return "\n".join(block.text for block in blocks if isinstance(block, Text))


def _spell(record: Record) -> str:
    """Return a text that is the same for the same part in the next request."""
    return repr(record)


def _instructions(messages: Sequence[Any]) -> str:
    """Return the instructions of the newest request, as far as their size is concerned."""
    found = (getattr(message, "instructions", None) for message in reversed(messages))
    return next((text for text in found if isinstance(text, str)), "")


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

    framework_base: ClassVar = "pydantic_ai.capabilities:AbstractCapability"

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
