"""OpenAI's Chat Completions, and the quirks of the hosts that imitate it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.values import as_dict
from holdfast.core.dialects.common.writing import (
    SILENT,
    answer_images,
    answer_text,
    cache_fields,
    data_uri,
    is_of_host,
    output_tokens,
    plain,
    schema_of,
    sendable,
    split,
)
from holdfast.core.dialects.openai_chat.variants import DETAILS
from holdfast.core.models.dialects import CallIds, wire_name
from holdfast.core.models.generation import traits_of
from holdfast.core.models.messages import (
    MESSAGE_FIELDS,
    Image,
    Other,
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

BRIDGE: Final = "(The results are in.)"
"""The assistant's message between results and a user message, for hosts that require one."""

NO_REASONING: Final = " "
"""Passes where a reasoning text must not be missing or empty, and says nothing."""

_REASONING: Final = frozenset({"reasoning_content", DETAILS})
_NEEDS_BRIDGE: Final = frozenset({"mistral", "local"})
_NEEDS_REASONING: Final = frozenset({"deepseek", "kimi"})
_CLOSED: Final = frozenset({"openai", "mistral"})
"""Providers that refuse a message with a field which they do not know as one of a request."""
_PLAIN_TEXT: Final = frozenset({"deepseek", "local"})
"""Hosts on which a content that is only text had better be one string."""


def render(prompt: Prompt, target: Target, written: list[list[Json]]) -> Json:
    """The request's body. Everything that later messages leave alone stands before them."""
    body: Json = {"model": target.model} if target.model else {}
    output = output_tokens(prompt, target)
    if output:
        body[output_field(target)] = output
    if target.thinking and target.variant in _NEEDS_REASONING:
        body["thinking"] = {"type": "enabled"}
    body |= cache_fields(target)
    if prompt.tools:
        body["tools"] = [_tool(tool) for tool in prompt.tools]
    items = [item for items in written for item in items]
    body["messages"] = [*_system(prompt, target), *items]
    return body


def write_head(prompt: Prompt, target: Target) -> tuple[list[Json], list[Json]]:
    """The system prompt and the tools, which stand before every message."""
    return list(_system(prompt, target)), [_tool(tool) for tool in prompt.tools]


def message_writer(prompt: Prompt, target: Target) -> MessageWriter:
    """Write messages one after the other, each as its items."""
    del prompt
    ids = CallIds({}, {})

    def write(message: Message) -> list[Json]:
        ids.add_calls(message, target.dialect)
        return list(_messages(message, ids, target))

    return write


def without_reasoning(item: Json) -> Json | None:
    """A message without its reasoning."""
    return {name: value for name, value in item.items() if name not in _REASONING}


def _system(prompt: Prompt, target: Target) -> Iterator[Json]:
    if prompt.system.strip():
        yield {"role": "system", "content": _text(prompt.system, target)}


def output_field(target: Target) -> str:
    """The name of the output limit; only OpenAI has renamed it."""
    return "max_completion_tokens" if target.variant == "openai" else "max_tokens"


def _tool(tool: Tool) -> Json:
    described = {"description": tool.description} if tool.description.strip() else {}
    function = {"name": tool.name, **described, "parameters": schema_of(tool)}
    return {"type": "function", "function": function}


def _messages(message: Message, ids: CallIds, target: Target) -> Iterator[Json]:
    blocks = sendable(message, target)
    if message.role == "assistant":
        yield _assistant(blocks, ids, target)
        return
    answers = [block for block in blocks if isinstance(block, ToolAnswer)]
    for answer in answers:
        yield {
            "role": "tool",
            "tool_call_id": ids.wire(answer.call_id),
            "content": _text(answer_text(answer, target.dialect), target),
        }
    parts = [*_pictures(answers, ids, target), *_parts(blocks, target)]
    if parts:
        if answers and target.variant in _NEEDS_BRIDGE:
            yield _assistant_message({"role": "assistant", "content": BRIDGE}, "", target)
        yield {"role": "user", "content": _content(parts, target)}


def _assistant(blocks: Sequence[Block], ids: CallIds, target: Target) -> Json:
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    parts = list(_own_parts(blocks, target))
    words = "\n\n".join(part for part in parts if isinstance(part, str))
    thought = "\n\n".join(block.text for block in blocks if isinstance(block, Thinking))
    silent = "" if target.variant in _PLAIN_TEXT else None
    spoken = _text(words, target) if words else (silent if calls else SILENT)
    if len(parts) > sum(isinstance(part, str) for part in parts):
        spoken = [
            {"type": "text", "text": part} if isinstance(part, str) else part for part in parts
        ]
    said: Json = {"role": "assistant", "content": spoken, **_own_fields(blocks, target)}
    said = _assistant_message(said, thought, target)
    if calls:
        said["tool_calls"] = [_call(call, ids, target) for call in calls]
    return said


def _own_fields(blocks: Sequence[Block], target: Target) -> Json:
    """Fields of a reply that go back to the host which made it, as they came."""
    found: Json = {}
    for block in blocks:
        if isinstance(block, Thinking) and block.item is not None:
            found |= block.item
        elif isinstance(block, Other) and block.kind == MESSAGE_FIELDS:
            found |= as_dict(block.raw.get("fields")) if target.provider not in _CLOSED else {}
    return found


def _own_parts(blocks: Sequence[Block], target: Target) -> Iterator[str | Json]:
    """The words of a reply, and parts of kinds that only the host which made them knows."""
    for block in blocks:
        part = plain(block, target.dialect)
        if isinstance(block, Other) and block.kind == MESSAGE_FIELDS:
            continue  # written beside the content
        if isinstance(block, Other) and is_of_host(block, target):
            yield block.raw
        elif isinstance(part, Image):
            yield f"[An image: {part.media_type or 'image'}]"
        elif part:
            yield part


def _assistant_message(said: Json, thought: str, target: Target) -> Json:
    """An assistant's message with its reasoning, for hosts that want it back."""
    is_wanted = target.variant == "kimi" or (target.variant == "deepseek" and target.thinking)
    if is_wanted or traits_of(target.provider, target.model).returns == "after_calls":
        return {**said, "reasoning_content": thought or NO_REASONING}
    return said


def _call(call: ToolCall, ids: CallIds, target: Target) -> Json:
    return {
        "id": ids.wire(call.id),
        "type": "function",
        "function": {
            "name": wire_name(call.name, target.dialect),
            "arguments": arguments_json(call.arguments),
        },
    }


def _pictures(answers: Sequence[ToolAnswer], ids: CallIds, target: Target) -> Iterator[str | Image]:
    """Pictures in results; this API takes them only from a user."""
    for answer in answers:
        images = answer_images(answer, target.dialect)
        if images:
            yield f"[From the result of call {ids.wire(answer.call_id)}:]"
            yield from images


def _parts(blocks: Sequence[Block], target: Target) -> Iterator[str | Image]:
    for block in blocks:
        part = plain(block, target.dialect)
        if part is not None:
            yield part


def _content(parts: Sequence[str | Image], target: Target) -> str | list[Json]:
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) == len(parts) and (len(texts) == 1 or target.variant in _PLAIN_TEXT):
        return _text("\n\n".join(texts), target)
    written: list[Json] = []
    for part in parts:
        if isinstance(part, str):
            written += _text_parts(part, target)
        else:
            written.append({"type": "image_url", "image_url": {"url": data_uri(part)}})
    return written


def _text(text: str, target: Target) -> str | list[Json]:
    """One string; in several parts only where it is longer than a string may be."""
    parts = _text_parts(text, target)
    return text if len(parts) == 1 else parts


def _text_parts(text: str, target: Target) -> list[Json]:
    return [{"type": "text", "text": piece} for piece in split(text, target.dialect)]
