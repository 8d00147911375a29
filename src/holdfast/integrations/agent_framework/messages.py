"""Messages of Microsoft Agent Framework as records, and back: both as the framework's own JSON.

A reply is one record, and so is what a user or the system says. Each result of a function is a
record of its own. Nothing of the framework is imported here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.log.records import Assistant, ToolResult, ToolUse, User, text_of
from holdfast.importers.common import blocks
from holdfast.importers.common.base import mapping, mappings, text_or_empty

if TYPE_CHECKING:
    from holdfast.core.log.records import Content, Json, Record

_MEDIA: Final = ("data", "uri")
_COUNTS: Final = {"input_token_count": "input_tokens", "output_token_count": "output_tokens"}


def records_from_message(message: Json) -> list[Record]:
    """Return the records with the meaning of a message; none where it has none for a model."""
    records: list[Record] = []
    said: list[Json] = []
    usage: dict[str, Any] = {}
    for content in mappings(message.get("contents")):
        match content.get("type"):
            case "function_result":
                records.append(_result(content))
            case "usage":
                details = mapping(content.get("usage_details"))
                usage |= {name: details[key] for key, name in _COUNTS.items() if key in details}
            case _:
                if block := _block(content):
                    said.append(block)
    if not said:
        return records
    role = message.get("role")
    if role == "assistant":
        return [Assistant(content=_plain(said), usage=usage or None), *records]
    extra: Json = {"role": "system", "meta": True} if role == "system" else {}
    return [User(content=_plain(said), extra=extra), *records]


def messages_from_record(record: Record) -> list[Json]:
    """Return the messages that a record's own fields amount to, as the framework writes them."""
    match record:
        case User():
            role = "system" if record.extra.get("role") == "system" else "user"
            return [_message(role, _contents(record.content))]
        case Assistant():
            return [_message("assistant", _contents(record.content))]
        case ToolUse():
            call = blocks.call(record.tool_use_id, record.name, record.input)
            return [_message("assistant", _contents([call]))]
        case ToolResult():
            text = text_of(record.content)
            failed = {"exception": "FunctionInvocationError"} if record.is_error else {}
            about = {"call_id": record.tool_use_id, **failed, "result": text}
            return [_message("tool", [_content("function_result", **about, items=[_text(text)])])]
        case _:  # the others are no messages
            return []


def _block(content: Json) -> Json | None:
    """Return a piece of a message as a block; None for one that no other provider can read."""
    match content.get("type"):
        case "text":
            return blocks.text(text_or_empty(content.get("text"))) if content.get("text") else None
        case "text_reasoning":
            thought = text_or_empty(content.get("text"))
            return blocks.thinking(thought) if thought else None
        case "function_call":
            name, call_id = (text_or_empty(content.get(key)) for key in ("name", "call_id"))
            return blocks.call(call_id, name, content.get("arguments"))
        case kind if kind in _MEDIA:
            address = text_or_empty(content.get("uri"))
            media_type = text_or_empty(content.get("media_type"))
            if media_type.startswith("image/"):
                return blocks.image_at(address)
            about = media_type if kind == "data" else f"{media_type} {address}".strip()
            return blocks.text(f"[{kind} {about}]")
        case _:
            return None


def _result(content: Json) -> ToolResult:
    result = content.get("result")
    items = [block for item in mappings(content.get("items")) if (block := _block(item))]
    is_plain = not items or (len(items) == 1 and items[0].get("text") == result)
    return ToolResult(
        tool_use_id=text_or_empty(content.get("call_id")),
        content=blocks.as_text(result) if is_plain else items,
        is_error=content.get("exception") is not None,
    )


def _plain(said: list[Json]) -> Content:
    return said[0]["text"] if len(said) == 1 and said[0]["type"] == "text" else said


def _contents(content: Content) -> list[Json]:
    return [made for block in blocks.blocks_of(content) if (made := _from_block(block))]


def _from_block(block: Json) -> Json | None:
    match block.get("type"):
        case "text":
            return _text(text_or_empty(block.get("text")))
        case "thinking":
            return _content("text_reasoning", text=text_or_empty(block.get("thinking")))
        case "tool_use":
            arguments = msgspec.json.encode(blocks.arguments_of(block.get("input"))).decode()
            about = {
                "call_id": text_or_empty(block.get("id")),
                "name": text_or_empty(block.get("name")),
            }
            return _content("function_call", **about, arguments=arguments)
        case "image":
            source = mapping(block.get("source"))
            media_type = text_or_empty(source.get("media_type")) or "image/png"
            if isinstance(source.get("data"), str):
                address = f"data:{media_type};base64,{source['data']}"
                return _content("data", uri=address, media_type=media_type)
            if isinstance(source.get("url"), str):
                return _content("uri", uri=source["url"], media_type=media_type)
    return None


def _text(text: str) -> Json:
    return _content("text", text=text)


def _content(kind: str, **fields: Any) -> Json:
    return {"type": kind, **fields, "additional_properties": {}}


def _message(role: str, contents: list[Json]) -> Json:
    return {"type": "message", "role": role, "contents": contents, "additional_properties": {}}
