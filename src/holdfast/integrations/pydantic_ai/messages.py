"""Messages of Pydantic AI as records, and back.

A response is one record. A request is a record for each of its parts: the words of the user, the
prompt of the system, a result. Nothing of Pydantic AI is imported until a message is made.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from holdfast.core.log.records import Assistant, ToolResult, ToolUse, User, text_of
from holdfast.importers.common import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Content, Json, Record


def records_from_message(message: Any) -> list[Record]:
    """Return the records with the meaning of a message; none where it has none for a model."""
    return [record for record, _parts in records_with_parts(message)]


def records_with_parts(message: Any) -> Iterator[tuple[Record, list[Any]]]:
    """Yield the records of a message, each with the parts that it stands for."""
    if message.kind == "response":
        said = [block for part in message.parts if (block := _response_block(part))]
        if said:
            usage = {
                name: count
                for name in ("input_tokens", "output_tokens", "cache_read_tokens")
                if isinstance(count := getattr(message.usage, name, None), int) and count
            }
            reply = Assistant(
                content=said,
                provider=message.provider_name,
                model=message.model_name,
                usage=usage or None,
                stop_reason=message.finish_reason,
            )
            yield reply, list(message.parts)
        return
    for part in message.parts:
        record = _record_from_part(part)
        if record is not None:
            yield record, [part]


def messages_from_record(record: Record) -> list[Any]:
    """Return the messages of Pydantic AI that a record's own fields amount to."""
    from pydantic_ai import messages as theirs

    at = datetime.fromtimestamp(record.ts, UTC)
    match record:
        case User():
            part: Any
            if record.extra.get("role") == "system":
                part = theirs.SystemPromptPart(text_of(record.content), timestamp=at)
            else:
                part = theirs.UserPromptPart(_prompt(record.content), timestamp=at)
            return [theirs.ModelRequest([part], timestamp=at)]
        case ToolResult():
            outcome: Any = "failed" if record.is_error else "success"
            if record.refused is not None:
                outcome = "denied"
            result = theirs.ToolReturnPart(
                record.name or "tool",
                text_of(record.content),
                record.tool_use_id,
                timestamp=at,
                outcome=outcome,
            )
            return [theirs.ModelRequest([result], timestamp=at)]
        case Assistant():
            said = blocks.blocks_of(record.content)
            return [
                theirs.ModelResponse(
                    [part for block in said if (part := response_part(block)) is not None],
                    model_name=record.model,
                    timestamp=at,
                )
            ]
        case ToolUse():
            call = theirs.ToolCallPart(record.name, record.input, record.tool_use_id)
            return [theirs.ModelResponse([call], timestamp=at)]
        case _:  # the others are no messages
            return []


def response_part(block: Json) -> Any:
    """Return the part of a response for a block; None where there is none."""
    from pydantic_ai import messages as theirs

    match block.get("type"):
        case "text":
            return theirs.TextPart(str(block.get("text", "")))
        case "thinking":
            signature = block.get("signature") or None
            return theirs.ThinkingPart(str(block.get("thinking", "")), signature=signature)
        case "tool_use":
            name, call_id = str(block.get("name", "")), str(block.get("id", ""))
            return theirs.ToolCallPart(name, blocks.arguments_of(block.get("input")), call_id)
        case _:
            return None


def _response_block(part: Any) -> Json | None:
    """Return the block of a part of a response; None for one that no other provider can read."""
    match part.part_kind:
        case "text":
            return blocks.text(part.content)
        case "thinking":
            return blocks.thinking(part.content, part.signature or "")
        case "tool-call":
            return blocks.call(part.tool_call_id, part.tool_name, part.args)
        case _:
            return None


def _record_from_part(part: Any) -> Record | None:
    """Return the record of a part of a request; None for one that is not a message."""
    match part.part_kind:
        case "user-prompt":
            return User(content=_content(part.content))
        case "system-prompt":
            return User(content=part.content, extra={"role": "system", "meta": True})
        case "retry-feedback":
            return User(content=part.model_response(), extra={"meta": True})
        case "retry-prompt":
            text = part.model_response()
            if part.tool_name is None:
                return User(content=text, extra={"meta": True})
            return ToolResult(
                tool_use_id=part.tool_call_id, content=text, name=part.tool_name, is_error=True
            )
        case "tool-return":
            is_denied = part.outcome == "denied"
            return ToolResult(
                tool_use_id=part.tool_call_id,
                # A failed text is sent as {"error": …}; the record says that it is an error.
                content=part.content
                if isinstance(part.content, str)
                else part.model_response_str(),
                name=part.tool_name,
                is_error=part.outcome != "success",
                refused=str(part.content) if is_denied else None,
            )
        case _:
            return None


def _content(content: Any) -> Content:
    return content if isinstance(content, str) else [_user_block(item) for item in content]


def _user_block(item: Any) -> Json:
    """Return the block of a piece of a user's prompt; what is not a text or picture is named."""
    if isinstance(item, str):
        return blocks.text(item)
    kind = item.kind
    if kind == "text-content":
        return blocks.text(item.content)
    if kind == "image-url":
        return blocks.image_at(item.url)
    if kind == "binary" and item.media_type.startswith("image/"):
        return blocks.image(base64.b64encode(item.data).decode(), item.media_type)
    about = getattr(item, "url", None) or getattr(item, "media_type", None) or ""
    return blocks.text(f"[{kind} {about}]")


def _prompt(content: Content) -> Any:
    """Return the content of a user's prompt."""
    from pydantic_ai import messages as theirs

    if not isinstance(content, list):
        return content or ""
    pieces: list[Any] = []
    for block in content:
        source = block.get("source")
        if block.get("type") == "image" and isinstance(source, dict):
            if isinstance(source.get("url"), str):
                pieces.append(theirs.ImageUrl(source["url"]))
                continue
            try:
                data = base64.b64decode(source.get("data") or "", validate=True)
            except (TypeError, ValueError):
                continue  # no picture
            kind = str(source.get("media_type") or "image/png")
            pieces.append(theirs.BinaryContent(data, media_type=kind))
        elif text := text_of([block]):
            pieces.append(text)
    return pieces
