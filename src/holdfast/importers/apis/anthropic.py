"""Anthropic Messages: message lists and request bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.importers.apis.chat import (
    are_known,
    carry_system,
    first_messages,
    lists_in,
    tools_of,
)
from holdfast.importers.common import blocks
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    listing,
    mapping,
    mappings,
    read_each,
    text_at,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.records import Content, Json

_BLOCKS: Final = frozenset(
    (
        *("tool_use", "tool_result", "thinking", "redacted_thinking", "document"),
        *("server_tool_use", "web_search_tool_result"),
    )
)


def carry_messages(draft: Draft, messages: Iterable[object], *, model: str | None = None) -> None:
    for message in messages:
        if isinstance(message, dict):
            carry_message(draft, message, model=model)
        else:
            draft.skip("item that is not a message", f"found {type(message).__name__}")


def carry_message(draft: Draft, message: Json, **about: Any) -> None:
    """One message; results in a user message become records of their own, before its text."""
    role = message.get("role")
    content = blocks.content_of(message.get("content"))
    if role == "assistant":
        usage = mapping(message.get("usage")) or None
        draft.assistant(
            blocks.with_ids(draft, content),
            **{
                "provider": "anthropic",
                "usage": usage,
                "stop_reason": text_at(message, "stop_reason") or None,
                **about,
                "model": text_at(message, "model") or about.get("model"),
            },
        )
        return
    about = {name: value for name, value in about.items() if name not in ("model", "provider")}
    if role in ("system", "developer"):
        carry_system(draft, content, about)
    elif role == "user":
        carry_user(draft, content, **about)
    else:
        blocks.skip_role(draft, role)


def carry_user(draft: Draft, content: Any, **about: Any) -> None:
    if not isinstance(content, list):
        draft.user(content, **about)
        return
    answers = [block for block in content if block.get("type") in ("tool_result", "tool-result")]
    for answer in answers:
        draft.result(
            draft.answer_id(
                answer.get("tool_use_id") or answer.get("toolCallId"),
                text_at(answer, "name"),
            ),
            _result_content(answer),
            name=text_at(answer, "name", "toolName"),
            is_error=answer.get("is_error") is True,
            **about,
        )
        about = {**about, "record_id": ""}  # a line's id belongs to the first record made of it
    said = [block for block in content if block not in answers]
    if said or not answers:
        draft.user(said, **about)


def _result_content(answer: Json) -> Content:
    """Return the words of a result: in `content`, or `output` or `result` as the AI SDK has it."""
    if "content" in answer:
        return blocks.content_of(answer["content"])
    said = answer.get("output", answer.get("result"))
    if isinstance(said, dict) and "value" in said:  # {"type": "text" or "json", "value": …}
        said = said["value"]
    return blocks.as_text(said)


def detect(source: Source) -> bool:
    value = source.value
    body = value if isinstance(value, dict) else {}
    messages = first_messages(source)
    if not messages or any(item.get("role") not in ("user", "assistant") for item in messages):
        return False
    if any("tool_calls" in item or "function_call" in item for item in messages):
        return False
    if not are_known(messages):
        return False
    if "system" in body or any("input_schema" in tool for tool in mappings(body.get("tools"))):
        return True
    return any(
        text_at(block, "type") in _BLOCKS or (block.get("type") == "image" and "source" in block)
        for message in messages
        for block in mappings(message.get("content"))
    )


def read(source: Source) -> list[Imported]:
    return read_each(source, "anthropic", lists_in(source), _carry_body)


def _carry_body(draft: Draft, body: Json) -> str:
    draft.add_system(blocks.content_of(body.get("system")))
    draft.tools = tools_of(body.get("tools"))
    carry_messages(draft, listing(body["messages"]), model=text_at(body, "model") or None)
    blocks.pass_over(draft, body, ("messages", "system", "tools"))
    return ""


IMPORTER: Final = Importer("anthropic", "Anthropic message lists or request bodies", detect, read)
