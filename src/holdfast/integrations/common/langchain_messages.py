"""Messages of LangChain as records, and back. Nothing of LangChain is imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.log.records import Assistant, ToolResult, ToolUse, User
from holdfast.importers.common import blocks
from holdfast.importers.common.harness import refusal, user_extra

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Content, Json, Record


def record_from_message(message: Any) -> Record | None:
    """Return the record with the meaning of a message; None where there is no such record."""
    kind = getattr(message, "type", None)
    content = blocks.content_of(getattr(message, "content", None))
    match kind:
        case "human":
            return User(content=content, name=_text(message, "name"), extra=user_extra(content, {}))
        case "system":
            return User(content=content, extra={"role": "system", "meta": True})
        case "ai":
            return _assistant(message, content)
        case "tool":
            return ToolResult(
                tool_use_id=_text(message, "tool_call_id") or "",
                content=content,
                name=_text(message, "name"),
                is_error=getattr(message, "status", None) == "error",
                refused=refusal(content),
            )
        case _:
            return None


def messages_from_record(record: Record) -> list[Json]:
    """Return the messages that a record amounts to, as LangChain's `messages_from_dict` reads
    them."""
    match record:
        case User():
            kind = "system" if record.extra.get("role") == "system" else "human"
            return [_message(kind, record.content, name=record.name)]
        case Assistant():
            said = record.content if isinstance(record.content, list) else None
            if said is None:
                return [_message("ai", record.content, tool_calls=[])]
            calls = [_call(block) for block in said if block.get("type") == "tool_use"]
            rest = [block for block in said if block.get("type") not in ("tool_use", "reasoning")]
            kinds = [block.get("type") for block in said]
            if "tool_use" in kinds and "text" in kinds[kinds.index("tool_use") :]:
                # Words after a call keep their place among blocks, which name the call again.
                content: Content = [block for block in said if block.get("type") != "reasoning"]
            elif all(block.get("type") == "text" for block in rest):
                content = "\n".join(str(block.get("text", "")) for block in rest)
            else:
                content = rest
            return [_message("ai", content, tool_calls=calls)]
        case ToolUse():
            call = {"id": record.tool_use_id, "name": record.name, "input": record.input}
            return [_message("ai", "", tool_calls=[_call(call)])]
        case ToolResult():
            status = "error" if record.is_error else "success"
            about = {"tool_call_id": record.tool_use_id, "name": record.name, "status": status}
            return [_message("tool", record.content, **about)]
        case _:  # the others are no messages
            return []


def _assistant(message: Any, content: Content) -> Record:
    calls = getattr(message, "tool_calls", None) or []
    made = [
        blocks.call(str(call.get("id") or ""), str(call.get("name") or ""), call.get("args"))
        for call in calls
    ]
    said = _in_order(blocks.blocks_of(content), made)
    about = getattr(message, "response_metadata", None)
    about = about if isinstance(about, dict) else {}
    model = about.get("model_name") or about.get("model")
    usage = getattr(message, "usage_metadata", None)
    return Assistant(
        content=said if made or not isinstance(content, str) else content,
        model=model if isinstance(model, str) else None,
        usage=dict(usage) if isinstance(usage, dict) else None,
    )


def _in_order(said: Sequence[Json], calls: Sequence[Json]) -> list[Json]:
    """Return the blocks of a reply with its calls: where a block names one, else at the end."""
    left = list(calls)
    found: list[Json] = []
    for block in said:
        if block.get("type") != "tool_use":
            found.append(block)
            continue
        call = next((made for made in left if made["id"] == block.get("id")), None)
        if call is not None:
            left.remove(call)
            found.append(call)
    return [*found, *left]


def _text(message: Any, name: str) -> str | None:
    found = getattr(message, name, None)
    return found if isinstance(found, str) else None


def _message(kind: str, content: Any, **more: Any) -> Json:
    data = {name: value for name, value in more.items() if value is not None}
    return {"type": kind, "data": {"type": kind, "content": content or "", **data}}


def _call(block: Json) -> Json:
    arguments = blocks.arguments_of(block.get("input"))
    return {
        "id": block.get("id"),
        "name": block.get("name"),
        "args": arguments,
        "type": "tool_call",
    }
