"""Items of OpenAI's Responses API as records, and back.

An item is one record: a message, a call, a result, a reasoning item. A record that something else
wrote may be several items: the texts and the calls of one reply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.log.records import ToolUse
from holdfast.errors import BadItem
from holdfast.importers.apis.responses import ResponseReply
from holdfast.importers.common import blocks
from holdfast.importers.common.base import Draft
from holdfast.integrations.common.originals import (
    item_json,
    keep_original,
    original_of,
    read_original,
    spell_item,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Content, Json, Record
    from holdfast.integrations.common.originals import MessageLine

FORMAT_NAME: Final = "openai-responses"
_PROMPT_ROLES: Final = ("system", "developer")


def records_from_items(items: Sequence[Any]) -> list[Record]:
    """Return a record for each item. Raises `BadItem`, before anything is made of the others."""
    spelled = [spell_item(item) for item in items]
    for item in items:
        if not isinstance(item, dict):
            raise BadItem(
                f"cannot store an item: it is {type(item).__name__}, not an object",
                hint="items are dictionaries, as in `to_input_list()`; nothing was stored",
            )
    return [
        keep_original(_read_item(item), text, FORMAT_NAME, rebuild_items)
        for item, text in zip(items, spelled, strict=True)
    ]


def items_from_record(record: Record) -> list[Any]:
    """Return the items of a record: exactly those that were stored, else those it amounts to."""
    original = original_of(record, FORMAT_NAME)
    return rebuild_items(record) if original is None else original


def items_from_line(line: MessageLine) -> list[Any]:
    """Return the items of a line, as `items_from_record` does for its record."""
    original = read_original(item_json(line.original, FORMAT_NAME))
    if original is not None:
        return original
    return _rebuild(line, line.type, line.role)


def rebuild_items(record: Record) -> list[Json]:
    """Return the items that a record's own fields amount to; none for a record that is no
    message."""
    if isinstance(record, ToolUse):
        call = {"id": record.tool_use_id, "name": record.name, "input": record.input}
        return [_call_item(call)]
    return _rebuild(record, record.kind, record.extra.get("role"))


def _rebuild(message: Any, kind: str, role: Any) -> list[Json]:
    """Return the items of a message, which is a record or a line."""
    match kind:
        case "user":
            role = role if role in _PROMPT_ROLES else "user"
            return [{"role": role, **_message_content(message.content)}]
        case "assistant":
            return _assistant_items(message.content)
        case "tool_result":
            output = _output(message.content)
            return [
                {"type": "function_call_output", "call_id": message.tool_use_id, "output": output}
            ]
        case _:  # the others are no messages
            return []


def _read_item(item: Json) -> Record | None:
    """Return the record with the meaning of an item; None where there is no such record."""
    draft = Draft()
    role = item.get("role")
    if role in _PROMPT_ROLES and item.get("type") in (None, "message"):
        content = blocks.content_of(item.get("content"))
        draft.user(content, extra={"role": role, "meta": True})
    else:
        reply = ResponseReply(draft)
        reply.item(item)
        reply.end()
    if len(draft.records) != 1:
        return None
    return msgspec.structs.replace(draft.records[0], id="", ts=0.0)


def _message_content(content: Content) -> Json:
    if not isinstance(content, list):
        return {"content": content or ""}
    return {"content": [_input_part(block) for block in content]}


def _input_part(block: Json) -> Json:
    match block.get("type"):
        case "text":
            return {"type": "input_text", "text": block.get("text", "")}
        case "image":
            source = block.get("source")
            source = source if isinstance(source, dict) else {}
            address = source.get("url")
            if not isinstance(address, str):
                kind, data = source.get("media_type", "image/png"), source.get("data", "")
                address = f"data:{kind};base64,{data}"
            return {"type": "input_image", "image_url": address, "detail": "auto"}
        case _:
            return block


def _assistant_items(content: Content) -> list[Json]:
    if not isinstance(content, list):
        return [{"role": "assistant", "content": content or ""}]
    items: list[Json] = []
    texts: list[str] = []

    def end_text() -> None:
        if texts:
            items.append({"role": "assistant", "content": "\n".join(texts)})
            texts.clear()

    for block in content:
        kind = block.get("type")
        if kind == "text":
            texts.append(str(block.get("text", "")))
            continue
        if kind in ("thinking", "redacted_thinking"):
            continue  # another provider's thoughts: only that one can read them
        end_text()
        items.append(_call_item(block) if kind == "tool_use" else block)
    end_text()
    return items


def _call_item(call: Json) -> Json:
    arguments = blocks.as_text(call.get("input") or {})
    return {
        "type": "function_call",
        "call_id": call.get("id", ""),
        "name": call.get("name", ""),
        "arguments": arguments,
    }


def _output(content: Content) -> Any:
    if not isinstance(content, list):
        return content or ""
    return [_input_part(block) for block in content]
