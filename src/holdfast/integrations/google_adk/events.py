"""Events of ADK as records, and back, by their JSON. Nothing of ADK is imported here.

What a model said is one record; words and results for it are a record each. An event without
words, such as a change of state, is a record of the type `peer_item`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.log.records import Assistant, ToolResult, ToolUse, User, text_of
from holdfast.importers.apis.gemini import carry_content
from holdfast.importers.common import blocks
from holdfast.importers.common.base import Draft
from holdfast.integrations.common.originals import SPOKEN, keep_originals, original_json, spell_item

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.log.records import Content, Json, Record
    from holdfast.integrations.common.originals import StoredItem

FORMAT_NAME: Final = "google-adk"
_USER: Final = "user"
_REPLY: Final = str(Assistant.__struct_config__.tag)
_STANDARD: Final = str.maketrans("-_", "+/")
"""ADK writes bytes in the alphabet of base64 that is safe in addresses; records have the usual."""


def records_from_event(event: Json, spelled: str) -> list[Record]:
    """Return the records of an event, of which the first gives it back: `spelled` is its JSON."""
    content = event.get("content") or {}
    author, ts = str(event.get("author") or ""), float(event.get("timestamp") or 0.0)
    draft = Draft()
    if content.get("parts"):
        role = content.get("role") or (_USER if author == _USER else "model")
        if any(part.get("function_response") for part in content["parts"]):
            role = _USER  # a result is not a reply, no matter who is said to have written it
        about = {
            "ts": ts,
            "extra": {"author": author} if role == "model" else {},
            "model": event.get("model_version"),
            "usage": event.get("usage_metadata"),
            "stop_reason": event.get("finish_reason"),
        }
        carry_content(draft, role, list(standard_parts(content["parts"])), **about)
    records = [record for record in draft.records if not _is_empty(record)]
    kept = keep_originals(records, spelled, FORMAT_NAME)
    return [msgspec.structs.replace(record, id="", ts=ts) for record in kept]


def standard_parts(parts: Iterable[Json]) -> Iterator[Json]:
    """Yield the JSON of parts with bytes as records have them."""
    for part in parts:
        part = dict(part)
        blob, signature = part.get("inline_data"), part.get("thought_signature")
        if isinstance(blob, dict) and isinstance(blob.get("data"), str):
            part["inline_data"] = {**blob, "data": blob["data"].translate(_STANDARD)}
        if isinstance(signature, str):
            part["thought_signature"] = signature.translate(_STANDARD)
        yield part


def events_as_json(items: Iterable[StoredItem], author: str) -> Iterator[tuple[str, StoredItem]]:
    """Yield the JSON of the events of records in their order, each with the first of its records.

    What another program wrote is an event too: `author` is the agent of the first reply, and then
    the agent that spoke last.
    """
    names: dict[str, str] = {}
    before: list[StoredItem] = []  # since the last record of another program: only it needs them
    for item in items:
        if item.spelled:
            yield item.spelled, item
        elif item.spelled is None and item.kind in SPOKEN and (record := item.record) is not None:
            said = [each.spelled for each in reversed(before) if each.spelled]
            author = next(filter(None, map(_agent_of, said)), author)
            names |= _call_names(before)
            before.clear()
            made = _event_from_record(record, author, names)
            if made is not None:
                yield spell_item(made), item
        before.append(item)


def _call_names(items: Iterable[StoredItem]) -> dict[str, str]:
    """Return the names of the tools that replies call, by the ids of the calls."""
    return {
        str(block.get("id")): str(block.get("name"))
        for item in items
        if item.kind == _REPLY and isinstance(record := item.record, Assistant)
        for block in blocks.blocks_of(record.content)
        if block.get("type") == "tool_use"
    }


def has_event(record: Record) -> bool:
    """Return whether an event begins with this record."""
    spelled = event_json(record)
    if spelled is None:
        return isinstance(record, User | Assistant | ToolResult | ToolUse)
    return bool(spelled)


def event_json(record: Record) -> str | None:
    """Return the JSON of the event that a record keeps; empty where the one before it does."""
    return original_json(record, FORMAT_NAME)


def _event_from_record(record: Record, author: str, names: dict[str, str]) -> Json | None:
    """Return the event that a record's own fields amount to; None where it is not a message."""
    role, parts = "model", []
    match record:
        case User():
            role, author = _USER, _USER
            parts = parts_of(record.content)
        case Assistant():
            parts = parts_of(record.content, is_signed=record.provider == "google")
        case ToolUse():
            call = {"id": record.tool_use_id, "name": record.name, "args": record.input}
            parts = [{"function_call": call}]
        case ToolResult():
            role = _USER
            name = record.name or names.get(record.tool_use_id) or "tool"
            said = {"error" if record.is_error else "result": text_of(record.content)}
            answer = {"id": record.tool_use_id, "name": name, "response": said}
            parts = [{"function_response": answer}]
        case _:  # the others are no messages
            return None
    if not parts:
        return None
    return {
        "id": record.id,
        "invocation_id": record.id,
        "timestamp": record.ts,
        "author": author,
        "content": {"role": role, "parts": parts},
    }


def parts_of(content: Content, *, is_signed: bool = False) -> list[Json]:
    """Return the parts of a content for the blocks of a record."""
    parts = [_part(block, is_signed=is_signed) for block in blocks.blocks_of(content)]
    return [part for part in parts if part]


def _part(block: Json, *, is_signed: bool) -> Json:
    part: Json = {}
    match block.get("type"):
        case "text":
            part = {"text": str(block.get("text", ""))}
        case "thinking":
            part = {"text": str(block.get("thinking", "")), "thought": True}
        case "tool_use":
            call_id, name = str(block.get("id", "")), str(block.get("name", ""))
            arguments = blocks.arguments_of(block.get("input"))
            part = {"function_call": {"id": call_id, "name": name, "args": arguments}}
        case "image":
            part = _picture(block.get("source"))
        case _:
            text = text_of([block])
            part = {"text": text} if text else {}
    signature = block.get("thought_signature") or block.get("signature")
    if part and is_signed and isinstance(signature, str):
        part["thought_signature"] = signature
    return part


def _picture(source: Any) -> Json:
    if not isinstance(source, dict):
        return {}
    kind = source.get("media_type") or "image/png"
    if isinstance(source.get("url"), str):
        return {"file_data": {"file_uri": source["url"], "mime_type": kind}}
    return {"inline_data": {"data": str(source.get("data") or ""), "mime_type": kind}}


def _agent_of(spelled: str) -> str:
    """Return the agent that wrote an event; empty for the user's, and for JSON of no event."""
    try:
        author = str(json.loads(spelled).get("author") or "")
    except (ValueError, AttributeError):
        return ""
    return "" if author == _USER else author


def _is_empty(record: Record) -> bool:
    return isinstance(record, User | Assistant) and not record.content
