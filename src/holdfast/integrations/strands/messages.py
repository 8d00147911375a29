"""Messages of Strands as records, and back. Nothing of Strands is imported here.

A message of a user with results is a record for each of its blocks; a reply is one record.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from holdfast.core.log.records import Assistant, ToolResult, ToolUse, User, text_of
from holdfast.importers.common import blocks
from holdfast.importers.common.harness import refusal, user_extra

if TYPE_CHECKING:
    from holdfast.core.log.records import Content, Json, Record
    from holdfast.integrations.common.originals import MessageLine


def records_from_message(message: Any) -> list[Record]:
    """Return the records with the meaning of a message; none where it has none for a model."""
    content = message.get("content") or []
    if message.get("role") == "assistant":
        reply = [block for part in content if (block := _reply_block(part))]
        return [Assistant(content=reply)] if reply else []
    records: list[Record] = []
    words: list[Json] = []
    for part in content:
        result = part.get("toolResult")
        if isinstance(result, dict):
            records += [_user(words)] if words else []
            words = []
            content = [
                block for item in result.get("content") or [] if (block := _user_block(item))
            ]
            records.append(
                ToolResult(
                    tool_use_id=str(result.get("toolUseId", "")),
                    content=content,
                    is_error=result.get("status") == "error",
                    refused=refusal(content),
                )
            )
        elif block := _user_block(part):
            words.append(block)
    return [*records, _user(words)] if words else records


def _user(words: list[Json]) -> User:
    return User(content=words, extra=user_extra(words, {}))


def messages_from_record(record: Record) -> list[Json]:
    """Return the messages of Strands that a record's own fields amount to."""
    if isinstance(record, ToolUse):
        call = {"id": record.tool_use_id, "name": record.name, "input": record.input}
        return [{"role": "assistant", "content": [_reply_part({"type": "tool_use", **call})]}]
    return _messages(record, record.kind)


def messages_from_line(line: MessageLine) -> list[Json]:
    """Return the messages of Strands that the fields of a line amount to."""
    return _messages(line, line.type)


def _messages(message: Any, kind: str) -> list[Json]:
    match kind:
        case "user":
            return [{"role": "user", "content": _parts(message.content)}]
        case "tool_result":
            result = {
                "toolUseId": message.tool_use_id,
                "status": "error" if message.is_error else "success",
                "content": _parts(message.content),
            }
            return [{"role": "user", "content": [{"toolResult": result}]}]
        case "assistant":
            content = [_reply_part(block) for block in blocks.blocks_of(message.content)]
            return [{"role": "assistant", "content": [part for part in content if part]}]
        case _:  # the others are no messages
            return []


def _reply_block(part: Json) -> Json | None:
    call, thought = part.get("toolUse"), part.get("reasoningContent")
    if isinstance(part.get("text"), str):
        return blocks.text(part["text"])
    if isinstance(call, dict):
        return blocks.call(
            str(call.get("toolUseId", "")), str(call.get("name", "")), call.get("input")
        )
    text = thought.get("reasoningText") if isinstance(thought, dict) else None
    if isinstance(text, dict):
        return blocks.thinking(str(text.get("text", "")), str(text.get("signature") or ""))
    return None


def _user_block(part: Json) -> Json | None:
    """Return the block of a piece of a user's message; what is not a text or picture is named."""
    if isinstance(part.get("text"), str):
        return blocks.text(part["text"])
    if "json" in part:
        return blocks.text(blocks.as_text(part["json"]))
    image = part.get("image")
    if isinstance(image, dict):
        data = (image.get("source") or {}).get("bytes")
        if isinstance(data, bytes):
            return blocks.image(base64.b64encode(data).decode(), f"image/{image.get('format')}")
    kind = next(iter(part), "")
    return None if kind in ("", "cachePoint", "guardContent") else blocks.text(f"[{kind}]")


def _parts(content: Content) -> list[Json]:
    parts: list[Json] = []
    for item in content if isinstance(content, list) else blocks.blocks_of(content):
        if item.get("type") == "text" and isinstance(item.get("text"), str):
            parts += [{"text": item["text"]}] if item["text"] else []  # most of them
            continue
        parts += [
            {"text": text} for block in blocks.blocks_of([item]) if (text := text_of([block]))
        ]
    return parts


def _reply_part(block: Json) -> Json:
    match block.get("type"):
        case "text":
            return {"text": str(block.get("text", ""))}
        case "tool_use":
            call = {
                "toolUseId": str(block.get("id", "")),
                "name": str(block.get("name", "")),
                "input": blocks.arguments_of(block.get("input")),
            }
            return {"toolUse": call}
        case _:
            return {}
