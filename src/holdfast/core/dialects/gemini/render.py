"""Gemini's generateContent. The model is in the address, not in the body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.writing import (
    answer_images,
    answer_text,
    media_type,
    output_tokens,
    plain,
    schema_of,
    sendable,
)
from holdfast.core.dialects.gemini.rules import wants_signatures
from holdfast.core.models.dialects import CallIds, wire_name
from holdfast.core.models.messages import Image, Other, Text, Thinking, ToolAnswer, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.dialects.dialect import MessageWriter
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Block, Message, Prompt, Tool

LOST_SIGNATURE: Final = "skip_thought_signature_validator"
"""The signature that the API documents for a call whose own is missing."""


def render(prompt: Prompt, target: Target, written: list[list[Json]]) -> Json:
    """The request's body. Everything that later messages leave alone stands before them."""
    body: Json = {}
    if prompt.system.strip():
        body["systemInstruction"] = {"parts": [{"text": prompt.system}]}
    if prompt.tools:
        body["tools"] = [{"functionDeclarations": [_tool(tool) for tool in prompt.tools]}]
    settings: Json = {}
    output = output_tokens(prompt, target)
    if output:
        settings["maxOutputTokens"] = output
    if target.thinking:
        budget = {"thinkingBudget": target.thinking_tokens} if target.thinking_tokens else {}
        settings["thinkingConfig"] = {"includeThoughts": True, **budget}
    if settings:
        body["generationConfig"] = settings
    body["contents"] = [item for items in written for item in items]
    return body


def write_head(prompt: Prompt, target: Target) -> tuple[list[Json], list[Json]]:
    """The system instruction and the tools, which stand before every content."""
    del target
    system = [{"text": prompt.system}] if prompt.system.strip() else []
    return system, [_tool(tool) for tool in prompt.tools]


def message_writer(prompt: Prompt, target: Target) -> MessageWriter:
    """Write messages one after the other, each as its items."""
    del prompt
    ids, names = CallIds({}, {}), dict[str, str]()

    def write(message: Message) -> list[Json]:
        ids.add_calls(message, target.dialect)
        calls = (block for block in message.blocks if isinstance(block, ToolCall))
        names.update((call.id, wire_name(call.name, target.dialect)) for call in calls)
        return [_content(message, ids, names, target)]

    return write


def without_reasoning(item: Json) -> Json | None:
    """A content without thoughts and their signatures."""
    parts = [
        {name: value for name, value in part.items() if name != "thoughtSignature"}
        for part in item["parts"]
        if not part.get("thought")
    ]
    return {**item, "parts": parts}


def _tool(tool: Tool) -> Json:
    described = {"description": tool.description} if tool.description.strip() else {}
    shape = {"parametersJsonSchema": schema_of(tool)} if tool.parameters else {}
    return {"name": tool.name, **described, **shape}


def _content(message: Message, ids: CallIds, names: dict[str, str], target: Target) -> Json:
    blocks = sendable(message, target)
    if message.role == "assistant":
        return {"role": "model", "parts": _render_parts(blocks, ids, names, target)}
    answers = [block for block in blocks if isinstance(block, ToolAnswer)]
    parts = [
        *(_answer(answer, ids, names, target) for answer in answers),
        *_pictures(answers, names, target),
        *_parts(blocks, target),
    ]
    return {"role": "user", "parts": parts}


def _render_parts(
    blocks: Sequence[Block], ids: CallIds, names: dict[str, str], target: Target
) -> list[Json]:
    parts: list[Json] = []
    is_first_call = True
    for block in blocks:
        if isinstance(block, ToolCall):
            parts.append(_call(block, ids, names, target, is_first=is_first_call))
            is_first_call = False
        elif isinstance(block, Thinking):
            signed = {"thoughtSignature": block.signature} if block.signature else {}
            parts.append({"text": block.text, "thought": True, **signed})
        elif isinstance(block, Other) and block.dialect == target.dialect.name:
            parts.append(_own_part(block))
        else:
            sealed = target.text_signature(block) if isinstance(block, Text) else ""
            found = list(_parts([block], target))
            parts += [{**part, "thoughtSignature": sealed} for part in found] if sealed else found
    return parts


def _own_part(block: Other) -> Json:
    """A part of a kind that only this API knows, as it came."""
    raw = {name: value for name, value in block.raw.items() if name != "type"}
    signature = raw.pop("thought_signature", None)
    return {**raw, "thoughtSignature": signature} if signature else raw


def _call(
    call: ToolCall, ids: CallIds, names: dict[str, str], target: Target, *, is_first: bool
) -> Json:
    # Only the first of parallel calls is signed. The stand-in is set in every turn, although
    # only the current one is checked: a request's beginning must not change when a turn ends.
    signature = target.signature_of(call)
    if not signature and is_first and wants_signatures(target.model):
        signature = LOST_SIGNATURE
    return {
        "functionCall": {
            **_id(call.id, ids, target),
            "name": names[call.id],
            "args": call.arguments,
        },
        **({"thoughtSignature": signature} if signature else {}),
    }


def _answer(answer: ToolAnswer, ids: CallIds, names: dict[str, str], target: Target) -> Json:
    kind = "error" if answer.is_error else "output"
    return {
        "functionResponse": {
            **_id(answer.call_id, ids, target),
            "name": names[answer.call_id],
            "response": {kind: answer_text(answer, target.dialect, marks_errors=False)},
        }
    }


def _id(call_id: str, ids: CallIds, target: Target) -> Json:
    """Vertex knows calls by name and order only, and refuses the field."""
    return {} if target.variant == "vertex" else {"id": ids.wire(call_id)}


def _pictures(
    answers: Sequence[ToolAnswer], names: dict[str, str], target: Target
) -> Iterator[Json]:
    """Pictures in results, behind all of them: a response part is counted, and holds no data."""
    for answer in answers:
        images = answer_images(answer, target.dialect)
        if images:
            yield {"text": f"[From the result of {names[answer.call_id]}:]"}
            yield from map(_picture, images)


def _parts(blocks: Sequence[Block], target: Target) -> Iterator[Json]:
    for block in blocks:
        part = plain(block, target.dialect)
        if part is not None:
            yield {"text": part} if isinstance(part, str) else _picture(part)


def _picture(image: Image) -> Json:
    if image.url:
        return {"fileData": {"mimeType": media_type(image), "fileUri": image.url}}
    return {"inlineData": {"mimeType": media_type(image), "data": image.data}}
