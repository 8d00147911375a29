"""`HoldfastConversationManager`: a conversation manager of Strands.

The messages of an agent are bounded before each request, and again, smaller, where the provider
refuses one. What is taken out of them stays in the session.
"""

from __future__ import annotations

import base64
import contextlib
import copy
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack

from holdfast.core.dialects.common.writing import SILENT, media_type
from holdfast.core.log.records import Unknown, encode
from holdfast.core.models.generation import traits_of
from holdfast.core.models.messages import Image, Text, Tool, ToolAnswer, ToolCall, text_of_blocks
from holdfast.errors import CannotFit
from holdfast.integrations.common.bounded import BoundedMessages, Refusals
from holdfast.integrations.strands.messages import records_from_message
from holdfast.providers.failures import name_failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.models.messages import Block
    from holdfast.core.projection.project import Plan
    from holdfast.core.projection.units import MessagePart
    from holdfast.integrations.common.bounded import BoundedView, BoundsOptions, RequestSize

_READ: Final = "I have read the record and go on from there."
_SMALLER_SHARE: Final = 0.7
"""Of a refused size, for the next request: the SDK's exception may not say more."""


class ManagerMethods(BoundedMessages):
    """Keeps every request of an agent within a window. A `ConversationManager` of Strands.

        Agent(model, conversation_manager=HoldfastConversationManager(window=128_000))

    Messages that fit are left alone. Others are shortened or cut, a call always with its result,
    and a carry-over replaces what was cut. A request that the provider refuses as too large is
    made smaller until it fits; what it refuses of media or words is left out, and so is reasoning
    that a model binds to what stood before a cut. `plan` is the plan of the newest request.
    """

    framework_base: ClassVar = (
        "strands.agent.conversation_manager.conversation_manager:ConversationManager"
    )

    removed_message_count: int

    dialect: ClassVar = "anthropic"

    def __init__(self, model: str = "", **bounds: Unpack[BoundsOptions]) -> None:
        super().__init__(model, **bounds)
        self._opening: list[Any] = []
        """The messages at the beginning that stand for those that were removed."""
        self._edited: dict[str, Any] = {}
        """Messages that were changed, which a session keeps as they were, by their places there."""
        self._is_apart = False
        """True once the messages are no longer those of a session one by one."""
        self._is_resumed = False
        """True while the messages of a session wait for their first request."""
        self._given: list[Any] | None = None
        """The messages as they were before the newest request."""
        self._refused: tuple[Refusals, list[Any]] | None = None
        """The refusals of the newest request, and its messages before them."""

    def register_hooks(self, registry: Any, **options: Any) -> None:
        """Bound the messages before each call of the model."""
        from strands.hooks.events import AfterModelCallEvent, BeforeModelCallEvent

        super().register_hooks(registry, **options)  # type: ignore[misc]
        registry.add_callback(BeforeModelCallEvent, lambda event: self._fit(event.agent))
        registry.add_callback(AfterModelCallEvent, self._after_call)

    def _after_call(self, event: Any) -> None:
        """Have a request that was refused for its content sent again without it. One that was
        refused for its size is the framework's to bring to `reduce_context`."""
        error, messages = event.exception, event.agent.messages
        if error is None or self.plan is None:
            self._refused = None
            return
        if not isinstance(error, Exception) or name_failure(error).is_overflow:
            return
        if self._refused is None:
            self._refused = (Refusals(self.bounds), list(self._given or messages))
        refusals, before = self._refused
        found = refusals.answer(error, self.plan)
        sent = list(messages)
        messages[:] = before
        if found is not None:
            with contextlib.suppress(CannotFit):
                self._fit(event.agent, found.at_most)
                event.retry = messages != sent
        if not event.retry:
            self._refused = None

    def apply_management(self, agent: Any, **options: Any) -> None:
        """Do nothing: the next call of the model bounds the messages."""

    def reduce_context(self, agent: Any, e: Exception | None = None, **_options: Any) -> None:
        """Make the messages smaller. Raises `e` where there is nothing to leave out."""
        before = copy.copy(agent.messages)
        try:
            self._fit(agent)  # for the size of what was refused
            assert self.plan is not None
            self._fit(agent, self._next_size(e, self.plan))
        except CannotFit as error:
            if e is not None:
                raise e from error
        if e is not None and agent.messages == before:
            raise e

    def get_state(self) -> dict[str, Any]:
        """Return the state that a session keeps: what was removed, what stands for it, and which
        messages were changed."""
        state: dict[str, Any] = super().get_state()  # type: ignore[misc]
        return {
            **state,
            "opening": self._opening,
            "edited": copy.deepcopy(self._edited),
            "apart": self._is_apart,
        }

    def restore_from_session(self, state: dict[str, Any]) -> list[Any] | None:
        """Take a state up again; returns the messages that stand for removed ones."""
        super().restore_from_session(state)  # type: ignore[misc]
        self._opening = list(state.get("opening") or [])
        edited = state.get("edited")
        self._edited = dict(edited) if isinstance(edited, dict) else {}
        self._is_apart = bool(state.get("apart", self._opening or edited))  # as 0.1 had it
        self._is_resumed = bool(self._edited or self._is_apart)
        return copy.deepcopy(self._opening) or None

    def _next_size(self, error: Exception | None, plan: Plan) -> int:
        for found in (error, getattr(error, "__cause__", None)):
            if isinstance(found, Exception) and name_failure(found).is_overflow:
                answer = Refusals(self.bounds).answer(found, plan)
                if answer is not None and answer.at_most is not None:
                    return answer.at_most
        return int(_SMALLER_SHARE * plan.tokens.total)

    def _fit(self, agent: Any, at_most: int | None = None) -> None:
        """Bound the messages of an agent, in place. Raises `CannotFit`."""
        messages: list[Any] = agent.messages
        if not messages:
            return
        if self._is_resumed:
            self._take_up(messages, _model_of(agent))
            self._is_resumed = False
        self._given = list(messages)
        owners: list[int] = []
        records = []
        for place, message in enumerate(messages):
            made = records_from_message(message) or [Unknown(type="peer_item")]
            records += made
            owners += [place] * len(made)
        size: RequestSize = {
            "system": _system(agent),
            "tools": _tools(agent),
            "at_most": at_most,
            "model": _model_of(agent),
        }
        view = self.view_of(records, [encode(record).decode() for record in records], size)
        if not view.is_unchanged:
            self._write(messages, owners, view)

    def _take_up(self, messages: list[Any], reader: str) -> None:
        """Change the messages of a session as they were changed before the restart."""
        for place, message in enumerate(messages):
            messages[place] = self._edited.get(self._place_in_session(place), message)
        if self._is_apart:  # reasoning is bound to another list
            messages[:] = [
                _without_reasoning(message) if _is_bound(message, reader) else message
                for message in messages
            ]

    def _place_in_session(self, place: int) -> str:
        return str(self.removed_message_count + place - len(self._opening))

    def _write(self, messages: list[Any], owners: Sequence[int], view: BoundedView) -> None:
        ids = view.ids
        start = owners[view.start] if view.start < len(owners) else len(messages)
        changed = {
            place
            for name, place in zip(ids, owners, strict=True)
            if name in view.changed or name in view.added
        }
        stale = {place for name, place in zip(ids, owners, strict=True) if name in view.stale}
        kept: list[Any] = []
        for place in range(start, len(messages)):
            made = [messages[place]]
            if place in changed:
                own = [name for name, owner in zip(ids, owners, strict=True) if owner == place]
                made = _rebuild(messages[place], own, view)
            elif place in stale:
                made = [_without_reasoning(messages[place])]
            if len(made) != 1:
                self._is_apart = True
            elif made[0] is not messages[place]:
                self._edited[self._place_in_session(place)] = made[0]
            kept += made
        if start:
            opening = [part for unit in view.opening for part in unit.parts]
            removed = max(0, start - len(self._opening))
            self.removed_message_count += removed
            self._opening = _messages(opening)
            if self._opening and kept and self._opening[-1]["role"] == kept[0]["role"] == "user":
                # Bedrock refuses two messages of one role in a row.
                self._opening.append({"role": "assistant", "content": [{"text": _READ}]})
            first = self.removed_message_count
            self._edited = {at: one for at, one in self._edited.items() if int(at) >= first}
            kept = [*copy.deepcopy(self._opening), *kept]
        messages[:] = kept


def _without_reasoning(message: Any) -> Any:
    """Return a reply without its reasoning."""
    kept = [block for block in message["content"] if "reasoningContent" not in block]
    return {**message, "content": kept or [{"text": SILENT}]}


def _is_bound(message: Any, reader: str) -> bool:
    """Return whether a message is a reply whose reasoning is valid behind its own prefix alone."""
    return message["role"] == "assistant" and traits_of("", reader).is_bound


def _model_of(agent: Any) -> str:
    """Return the name of the model that an agent asks; empty where its class does not say it."""
    config = agent.model.get_config() if hasattr(agent, "model") else None
    name = config.get("model_id") if isinstance(config, dict) else None
    return name if isinstance(name, str) else ""


def _rebuild(message: Any, ids: Sequence[str], view: BoundedView) -> list[Any]:
    """Return a message with its changed results, and what has to follow it."""
    texts = {
        block.call_id: text_of_blocks(block.content)
        for name in ids
        for part in view.changed.get(name, ())
        for block in part.blocks
        if isinstance(block, ToolAnswer)
    }
    is_result = any("toolResult" in block for block in message["content"])
    if is_result:
        content = [_shorten(block, texts) for block in message["content"]]
        made = [{**message, "content": content}]
    elif any(name in view.changed for name in ids):
        made = _messages([part for name in ids for part in view.changed.get(name, ())])
    else:
        made = [message]
    return [*made, *_messages([part for name in ids for part in view.added.get(name, ())])]


def _shorten(block: Any, texts: dict[str, str]) -> Any:
    result = block.get("toolResult")
    if result is None or result["toolUseId"] not in texts:
        return block
    return {"toolResult": {**result, "content": [{"text": texts[result["toolUseId"]]}]}}


def _messages(parts: Sequence[MessagePart]) -> list[Any]:
    """Return the messages of parts of a view; parts of one role in a row are one message."""
    made: list[Any] = []
    for part in parts:
        content = [found for block in part.blocks if (found := _content(block))]
        if content and made and made[-1]["role"] == part.role:
            made[-1]["content"] += content
        elif content:
            made.append({"role": part.role, "content": content})
    return made


def _content(block: Block) -> Any:
    match block:
        case Text():
            return {"text": block.text}
        case ToolCall():
            call = {"toolUseId": block.id, "name": block.name, "input": block.arguments}
            return {"toolUse": call}
        case ToolAnswer():
            status = "error" if block.is_error else "success"
            content = [{"text": text_of_blocks(block.content)}]
            return {
                "toolResult": {"toolUseId": block.call_id, "status": status, "content": content}
            }
        case Image() if block.data:
            kind = media_type(block).removeprefix("image/")
            return {"image": {"format": kind, "source": {"bytes": base64.b64decode(block.data)}}}
        case _:  # thinking and other media go with what was cut
            return None


def _system(agent: Any) -> str:
    found = getattr(agent, "system_prompt", None)
    return found if isinstance(found, str) else ""


def _tools(agent: Any) -> list[Tool]:
    """Return the tools of an agent, as far as their size is concerned."""
    registry = getattr(agent, "tool_registry", None)
    specs = registry.get_all_tool_specs() if registry is not None else []
    return [
        Tool(spec["name"], spec.get("description") or "", spec["inputSchema"].get("json") or {})
        for spec in specs
    ]
