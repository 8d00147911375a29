"""OpenAI's Responses API, without anything stored on the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.common.writing import (
    SILENT,
    answer_images,
    answer_text,
    cache_fields,
    data_uri,
    head_tools,
    output_tokens,
    plain,
    schema_of,
    sendable,
    split,
    tools_added_in,
)
from holdfast.core.dialects.openai_responses.rules import OUTPUT_TOKENS_MIN
from holdfast.core.models.dialects import CallIds, wire_name
from holdfast.core.models.generation import traits_of
from holdfast.core.models.messages import (
    AddedTools,
    Image,
    Other,
    Text,
    Thinking,
    ToolAnswer,
    ToolCall,
    arguments_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.dialects.dialect import MessageWriter
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Block, Message, Prompt, Tool

ENCRYPTED: Final = "reasoning.encrypted_content"

_REASONING_FIELDS: Final = ("type", "id", "summary", "encrypted_content")
"""Fields of a reasoning item that the API accepts back; `status` and others are refused."""


def render(prompt: Prompt, target: Target, written: list[list[Json]]) -> Json:
    """The request's body. Everything that later messages leave alone stands before them."""
    body: Json = {"model": target.model} if target.model else {}
    body["store"] = False
    if target.thinking or traits_of(target.provider, target.model).thinks_unasked:
        # Nothing is stored on the server: without it the next request could not give it back.
        body["include"] = [ENCRYPTED]
    output = output_tokens(prompt, target)
    if output:
        body["max_output_tokens"] = max(OUTPUT_TOKENS_MIN, output)
    body |= cache_fields(target)
    tools = [_tool(tool) for tool in head_tools(prompt, target)]
    if tools:
        body["tools"] = tools
    items = [item for items in written for item in items]
    for system in _system(prompt, target):
        body |= system if "instructions" in system else {}
        items[:0] = [] if "instructions" in system else [system]
    body["input"] = items
    return body


def write_head(prompt: Prompt, target: Target) -> tuple[list[Json], list[Json]]:
    """The instructions and the tools, which stand before every item."""
    return _system(prompt, target), [_tool(tool) for tool in head_tools(prompt, target)]


def _system(prompt: Prompt, target: Target) -> list[Json]:
    """The instructions. A host that charges for writing marks the end of a developer's message that
    comes first: it is read again after a cut, and by other sessions."""
    if not prompt.system.strip():
        return []
    if not traits_of(target.provider, target.model).charges_writes:
        return [{"instructions": prompt.system}]
    content = [{"type": "input_text", "text": prompt.system}]
    return [{"type": "message", "role": "developer", "content": content}]


def message_writer(prompt: Prompt, target: Target) -> MessageWriter:
    """Write messages one after the other, each as its items."""
    ids, seen = CallIds({}, {}), set[str]()

    def write(message: Message) -> list[Json]:
        ids.add_calls(message, target.dialect)
        return [
            item
            for piece in _pieces(message)
            for item in (
                *_items(piece, ids, target, seen),
                *_addition(tools_added_in(piece, prompt, target)),
            )
        ]

    return write


def _pieces(message: Message) -> Iterator[Message]:
    """Yield a message as it grew: what is said once a call failed stands behind the tools that were
    added for that call."""
    start = 0
    for place, block in enumerate(message.blocks[:-1], 1):
        if isinstance(block, AddedTools):
            yield msgspec.structs.replace(message, blocks=message.blocks[start:place])
            start = place
    yield msgspec.structs.replace(message, blocks=message.blocks[start:]) if start else message


def _addition(tools: Sequence[Tool]) -> list[Json]:
    """The item that adds tools, right behind a user's message."""
    added = [_tool(tool) for tool in tools]
    return [{"type": "additional_tools", "role": "developer", "tools": added}] if added else []


def without_reasoning(item: Json) -> Json | None:
    """An item, unless it is reasoning."""
    return None if item.get("type") == "reasoning" else item


def _tool(tool: Tool) -> Json:
    described = {"description": tool.description} if tool.description.strip() else {}
    return {
        "type": "function",
        "name": tool.name,
        **described,
        "parameters": schema_of(tool),
        "strict": False,
    }


def _items(message: Message, ids: CallIds, target: Target, seen: set[str]) -> Iterator[Json]:
    blocks = sendable(message, target)
    if message.role == "assistant":
        yield from _assistant(blocks, ids, target, seen)
        return
    for answer in blocks:
        if isinstance(answer, ToolAnswer):
            yield {
                "type": "function_call_output",
                "call_id": ids.wire(answer.call_id),
                "output": _output(answer, target),
            }
    found = (plain(block, target.dialect) for block in blocks)
    parts = [part for part in found if part is not None]
    if parts:
        content = [item for part in parts for item in _render_content(part, target)]
        yield {"type": "message", "role": "user", "content": content}


def _assistant(
    blocks: Sequence[Block], ids: CallIds, target: Target, seen: set[str]
) -> Iterator[Json]:
    """A message's items. Reasoning stands right before what it led to, or is left out."""
    reasoning: list[Json] = []
    silent = True
    for block in blocks:
        if isinstance(block, Thinking):
            reasoning += _reasoning(block, seen)
            continue
        yield from reasoning
        reasoning, silent = [], False
        yield from _render_assistant_block(block, ids, target)
    if silent:
        yield {"type": "message", "role": "assistant", "content": SILENT}


def _reasoning(block: Thinking, seen: set[str]) -> list[Json]:
    item = block.item
    if item is None or item["id"] in seen:
        return []
    seen.add(item["id"])
    known: Json = {name: item[name] for name in _REASONING_FIELDS if name in item}
    return [{"summary": [], **known}]


def _render_assistant_block(block: Block, ids: CallIds, target: Target) -> Iterator[Json]:
    if isinstance(block, ToolCall):
        yield {
            "type": "function_call",
            "call_id": ids.wire(block.id),
            "name": wire_name(block.name, target.dialect),
            "arguments": arguments_json(block.arguments),
        }
        return
    if isinstance(block, Other) and block.dialect == target.dialect.name and "type" in block.raw:
        yield block.raw
        return
    phase = (block.fields or {}).get("phase") if isinstance(block, Text) else None
    part = plain(block, target.dialect)
    for text in split(part if isinstance(part, str) else "[An image]", target.dialect):
        message = {"type": "message", "role": "assistant", "content": text}
        yield {**message, "phase": phase} if isinstance(phase, str) else message


def _output(answer: ToolAnswer, target: Target) -> str | list[Json]:
    text = answer_text(answer, target.dialect)
    parts = _render_content(text, target)
    for image in answer_images(answer, target.dialect):
        parts += _render_content(image, target)
    return text if len(parts) == 1 else parts


def _render_content(part: str | Image, target: Target) -> list[Json]:
    if isinstance(part, str):
        return [{"type": "input_text", "text": text} for text in split(part, target.dialect)]
    return [{"type": "input_image", "image_url": data_uri(part), "detail": "auto"}]
