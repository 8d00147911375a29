"""Anthropic's Messages API, and Bedrock's quirks with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.dialects.anthropic.rules import THINKING_TOKENS_MIN, is_adaptive
from holdfast.core.dialects.common.writing import (
    SILENT,
    head_tools,
    image_note,
    is_sendable_image,
    media_type,
    output_tokens,
    schema_of,
    sendable,
    text_of_other,
    tools_added_in,
)
from holdfast.core.models.dialects import CallIds, wire_name
from holdfast.core.models.messages import (
    EMPTY_RESULT,
    Image,
    Other,
    Text,
    Thinking,
    ToolAnswer,
    ToolCall,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.dialects.dialect import MessageWriter
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Block, Message, Prompt, Tool

OUTPUT_TOKENS: Final = 4_096
"""The API insists on a number; this one serves where the caller gave none."""

BEDROCK_VERSION: Final = "bedrock-2023-05-31"

_NATIVE: Final = frozenset({"document", "search_result", "container_upload"})
"""Blocks of this API that stand for themselves."""
_NATIVE_IN_RESULTS: Final = frozenset({"document", "search_result"})
_UNMARKABLE: Final = frozenset({"thinking", "redacted_thinking"})

PLACEHOLDER_TOOL: Final = {
    "name": "no_tool_available",
    "description": "Tools were used earlier in this conversation. None can be called now.",
    "input_schema": {"type": "object", "properties": {}},
}
"""Bedrock refuses a history with tool calls where no tool is declared."""


def render(prompt: Prompt, target: Target, written: list[list[Json]]) -> Json:
    """The request's body. Everything that later messages leave alone stands before them."""
    output = output_tokens(prompt, target) or OUTPUT_TOKENS
    thinks = _may_think(prompt, target)
    messages = [item for items in written for item in items]
    system, tools = write_head(prompt, target)

    body: Json = {}
    if target.variant == "bedrock":
        body["anthropic_version"] = BEDROCK_VERSION  # the model is in the address
    elif target.model:
        body["model"] = target.model
    body["max_tokens"] = output
    if thinks and is_adaptive(target.model):
        # Only what is shown can be stored whole, and so be sent back.
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
    elif thinks and not _lacks_thinking([items[0] for items in written]):
        body["thinking"] = {"type": "enabled", "budget_tokens": _budget(target, output)}
    if not prompt.tools and target.variant == "bedrock" and _has_calls(prompt):
        tools, body["tool_choice"] = [dict(PLACEHOLDER_TOOL)], {"type": "none"}
    if tools:
        body["tools"] = tools
    if system:
        body["system"] = system
    body["messages"] = messages
    if target.cache != "none":
        _mark(tools, system, written, prompt.stable, target)
    return body


def write_head(prompt: Prompt, target: Target) -> tuple[list[Json], list[Json]]:
    """The system prompt and the tools, which stand before every message."""
    system = [{"type": "text", "text": prompt.system}] if prompt.system.strip() else []
    return system, [_tool(tool) for tool in head_tools(prompt, target)]


def message_writer(prompt: Prompt, target: Target) -> MessageWriter:
    """Write messages one after the other, each as its items without marks."""
    ids, thinks = CallIds({}, {}), _may_think(prompt, target)

    def write(message: Message) -> list[Json]:
        ids.add_calls(message, target.dialect)
        return [
            _message(message, ids, target, thinks=thinks),
            *_addition(tools_added_in(message, prompt, target)),
        ]

    return write


def _addition(tools: Sequence[Tool]) -> list[Json]:
    """The operator's message that defines tools, right behind a user's."""
    content = [
        {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": _tool(tool)}}
        for tool in tools
    ]
    return [{"role": "system", "content": content}] if content else []


def _has_calls(prompt: Prompt) -> bool:
    return any(type(block) is ToolCall for message in prompt.messages for block in message.blocks)


def _may_think(prompt: Prompt, target: Target) -> bool:
    """Return whether the model is asked to think: a short reply has no room for it."""
    output = output_tokens(prompt, target) or OUTPUT_TOKENS
    return target.thinking and output > THINKING_TOKENS_MIN


def without_reasoning(item: Json) -> Json | None:
    """A message without its thinking, which is not part of the prefix that thinking is bound to."""
    content = item["content"]
    kept = [block for block in content if block["type"] not in _UNMARKABLE]
    return item if len(kept) == len(content) else {**item, "content": kept}


def _budget(target: Target, output: int) -> int:
    wanted = target.thinking_tokens or output // 2
    return max(THINKING_TOKENS_MIN, min(wanted, output - 1))


def _lacks_thinking(messages: Sequence[Json]) -> bool:
    """Return whether the model is amid a turn that it began without thinking: it cannot start
    now."""
    if len(messages) < 2:
        return False
    blocks = messages[-2]["content"]
    return any(block["type"] == "tool_use" for block in blocks) and not _starts_thinking(blocks)


def _starts_thinking(blocks: Sequence[Json]) -> bool:
    return bool(blocks) and blocks[0]["type"] in _UNMARKABLE


def _tool(tool: Tool) -> Json:
    described = {"description": tool.description} if tool.description.strip() else {}
    schema = schema_of(tool)
    return {"name": tool.name, **described, "input_schema": {"type": "object", **schema}}


def _message(message: Message, ids: CallIds, target: Target, *, thinks: bool) -> Json:
    blocks = sendable(message, target)
    if not is_adaptive(target.model):
        # Older models show all their thinking: a block without its text was changed. They think
        # first or not at all, and take thinking back only while they may think.
        blocks = [block for block in blocks if not _is_emptied(block)]
        if not (thinks and blocks and isinstance(blocks[0], Thinking)):
            blocks = [block for block in blocks if not isinstance(block, Thinking)]
        blocks = blocks or [Text(SILENT)]
    if message.role == "assistant":
        served = _server_call_indexes(blocks)
        content = [
            _raw(block)
            if at in served and isinstance(block, Other)
            else _render_assistant_block(block, ids, target)
            for at, block in enumerate(blocks)
        ]
    else:
        content = [_render_user_block(block, ids, target) for block in blocks]
    return {"role": message.role, "content": content}


def _is_emptied(block: Block) -> bool:
    return isinstance(block, Thinking) and not (block.text or block.redacted)


def _server_call_indexes(blocks: Sequence[Block]) -> frozenset[int]:
    """Return the positions of server tool calls and their results in a message, in order."""
    called: dict[str, int] = {}
    served: set[int] = set()
    for at, block in enumerate(blocks):
        call_id = _server_call_id(block)
        if isinstance(block, Other) and call_id:
            if block.kind == "server_tool_use":
                called.setdefault(call_id, at)
            elif call_id in called and called[call_id] not in served:
                served |= {called[call_id], at}
    return frozenset(served)


def _server_call_id(block: Block) -> str:
    """The id that joins a server tool's call and its result; empty for other blocks."""
    if not isinstance(block, Other) or block.raw.get("type") != block.kind:
        return ""
    names = {"server_tool_use": "id"}
    if block.kind.endswith("_tool_result"):
        names[block.kind] = "tool_use_id"
    found = block.raw.get(names.get(block.kind, ""))
    return found if isinstance(found, str) else ""


def _render_assistant_block(block: Block, ids: CallIds, target: Target) -> Json:
    match block:
        case ToolCall():
            return {
                "type": "tool_use",
                "id": ids.wire(block.id),
                "name": wire_name(block.name, target.dialect),
                "input": block.arguments,
            }
        case Thinking() if block.redacted:
            return {"type": "redacted_thinking", "data": block.redacted}
        case Thinking():
            return {"type": "thinking", "thinking": block.text, "signature": block.signature}
        case Image():  # only users show pictures
            return {"type": "text", "text": image_note(block)}
        case Other() if block.dialect == target.dialect.name:
            return _raw(block)
        case Text(fields=dict() as fields):
            return {**_without_marks(fields), "type": "text", "text": block.text}
        case _:  # text and what another API made: written as anywhere else
            return _piece(block, target)


def _render_user_block(block: Block, ids: CallIds, target: Target) -> Json:
    match block:
        case ToolAnswer():
            return _answer(block, ids, target)
        case Other() if _is_native(block, _NATIVE):
            return _raw(block)
        case _:  # text and pictures; a user's message holds no call and no thinking
            return _piece(block, target)


def _answer(answer: ToolAnswer, ids: CallIds, target: Target) -> Json:
    content = [
        _raw(piece)
        if isinstance(piece, Other) and _is_native(piece, _NATIVE_IN_RESULTS)
        else _piece(piece, target)
        for piece in answer.content
        if not isinstance(piece, Text) or piece.text.strip()
    ]
    return {
        "type": "tool_result",
        "tool_use_id": ids.wire(answer.call_id),
        "content": content or [{"type": "text", "text": EMPTY_RESULT}],
        **({"is_error": True} if answer.is_error else {}),
    }


def _piece(piece: Block, target: Target) -> Json:
    match piece:
        case Text():
            return {"type": "text", "text": piece.text}
        case Image() if is_sendable_image(piece, target.dialect):
            return {"type": "image", "source": _source(piece)}
        case Image():
            return {"type": "text", "text": image_note(piece)}
        case Other():
            return {"type": "text", "text": text_of_other(piece)}
        case _:  # calls, answers and thinking stand elsewhere
            raise AssertionError(f"a prompt promises to have no `{type(piece).__name__}` here")


def _source(image: Image) -> Json:
    if image.url:
        return {"type": "url", "url": image.url}
    return {"type": "base64", "media_type": media_type(image), "data": image.data}


def _is_native(block: Other, kinds: frozenset[str]) -> bool:
    return block.kind in kinds and block.raw.get("type") == block.kind


def _raw(block: Other) -> Json:
    """A stored block as it came, but for its cache marks: they would add to this request's."""
    raw: Json = _without_marks(block.raw)
    return raw


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_marks(item) for name, item in value.items() if name != "cache_control"
        }
    return [_without_marks(item) for item in value] if isinstance(value, list) else value


def _mark(
    tools: list[Json],
    system: list[Json],
    written: Sequence[Sequence[Json]],
    stable: Sequence[int],
    target: Target,
) -> None:
    """Mark what later requests repeat: the head, the newest stable boundaries, the end."""
    mark = {"type": "ephemeral", **({"ttl": "1h"} if target.cache == "1h" else {})}
    left = target.dialect.cache_marks
    head = system or tools
    if head:
        head[-1] = {**head[-1], "cache_control": mark}
        left -= 1
    for index in _choose_marks(written, stable, left, target.dialect.cache_lookback):
        content = written[index][-1]["content"]
        place = max(
            (at for at, block in enumerate(content) if block["type"] not in _UNMARKABLE),
            default=None,
        )
        if place is not None:
            content[place] = {**content[place], "cache_control": mark}


def _choose_marks(
    messages: Sequence[Sequence[Json]], stable: Sequence[int], room: int, lookback: int
) -> list[int]:
    """The messages to mark, most useful first, at most `room` of them."""
    last = len(messages) - 1
    wanted = [last]
    # The request before this one ended two messages ago. The provider looks back only so many
    # blocks for what it has, so after a large step its end is marked once more to be found.
    newest = [item for items in messages[-2:] for item in items]
    if last >= 2 and sum(len(item["content"]) for item in newest) >= lookback:
        wanted.append(last - 2)
    wanted += [index for index in reversed(stable) if 0 <= index < last]
    return list(dict.fromkeys(wanted))[:room]
