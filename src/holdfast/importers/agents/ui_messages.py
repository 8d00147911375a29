"""UI messages of the Vercel AI SDK: a message is a list of parts, and a call holds its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.importers.common import blocks
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    about_line,
    finish,
    is_text,
    mapping,
    mappings,
    names_for,
    text_at,
)
from holdfast.importers.common.parsing import seconds

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

_ROLES: Final = ("system", "user", "assistant", "data")
"""The last one is for the screen."""
_FRAME: Final = ("source-url", "source-document", "source")
"""Types of parts that the screen shows and no model sees."""
_OF_MODELS: Final = ("tool-call", "tool-result")
"""Types of parts in the SDK's messages for models. A part of a tool that is called `call` or
`result` looks the same, but has a state."""

_READ: Final = (
    *("parts", "content", "toolInvocations", "experimental_attachments", "metadata", "createdAt"),
    "revisionId",
)
"""Fields of a message that are read, or that say how it came."""


def detect(source: Source) -> bool:
    messages = [
        message
        for chat in _chats(source, is_head=True)
        for message in mappings(chat.get("messages"))
    ]
    return any(map(_is_own, messages)) and all(
        message.get("role") in _ROLES
        and (_is_own(message) or is_text(message.get("content")))
        and all(is_text(part.get("type")) for part in mappings(message.get("parts")))
        for message in messages
    )


def _is_own(message: Json) -> bool:
    return isinstance(message.get("parts"), list) or "toolInvocations" in message


def _chats(source: Source, *, is_head: bool = False) -> list[Json]:
    value = source.value
    if isinstance(value, dict):
        return [value] if isinstance(value.get("messages"), list) else []
    if isinstance(value, list):
        if any("messages" in message for message in mappings(value)):
            return mappings(value)
        return [{"messages": value}]
    lines = source.head if is_head else [line.value for line in source.lines]
    if any("messages" in line for line in lines):
        return list(lines)
    return [{"messages": lines}] if lines else []


def read(source: Source) -> list[Imported]:
    chats = _chats(source)
    found = [chat for chat in chats if isinstance(chat.get("messages"), list)]
    sessions: list[tuple[str, Draft]] = []
    for chat, name in zip(found, names_for(source.stem, len(found)), strict=True):
        draft = Draft()
        draft.label = text_at(chat, "title")
        for message in blocks.messages_in(draft, chat["messages"]):
            _carry(draft, message)
        blocks.pass_over(draft, chat, ("messages",))
        sessions.append((text_at(chat, "id") or name, draft))
    if sessions:
        why = "a chat or a line without a list of messages"
        sessions[0][1].skip("item without messages", why, len(chats) - len(found))
    return finish(source, "vercel-ui", sessions)


def _carry(draft: Draft, message: Json) -> None:
    blocks.pass_over(draft, message, _READ, beside="parts of a message")
    parts = blocks.parts_of(message.get("parts") or [])
    if not parts:
        thought = text_at(message, "reasoning")
        parts = [{"type": "reasoning", "text": thought}, *blocks.blocks_of(message.get("content"))]
    told = [mapping(part.get("toolInvocation")).get("toolCallId") for part in parts]
    told += [part.get("toolCallId") for part in parts]
    parts += [
        {"type": "tool-invocation", "toolInvocation": call}
        for call in mappings(message.get("toolInvocations"))
        if call.get("toolCallId") not in told
    ]
    parts += [
        {"type": "file", "mediaType": file.get("contentType"), "url": file.get("url")}
        for file in mappings(message.get("experimental_attachments"))
    ]
    about = about_line(message, "createdAt")
    about["ts"] = about["ts"] or seconds(mapping(message.get("metadata")).get("createdAt"))
    match message.get("role"):
        case "assistant":
            model = text_at(mapping(message.get("metadata")), "model") or None
            _carry_steps(draft, parts, {**about, "model": model})
        case "user":
            draft.user(_speech(draft, parts), **about)
        case "system":
            draft.add_system(parts)
        case role:
            blocks.skip_role(draft, role)


def _carry_steps(draft: Draft, parts: list[Json], about: dict[str, Any]) -> None:
    """A message of the model holds several calls to it: each step is a message of its own."""
    said: list[Json] = []
    answers: list[tuple[str, Any, bool]] = []

    def end() -> None:
        if said:
            draft.assistant(list(said), **about)
            about["record_id"] = ""
        for call_id, content, is_error in answers:
            draft.result(call_id, content, is_error=is_error, ts=about["ts"])
        said.clear()
        answers.clear()

    for part in parts:
        call = _call(part)
        if part.get("type") == "step-start" or (call is None and answers):
            end()
        if call is None:
            said += _speech(draft, [part])
            continue
        call_id, name, arguments, outcome = call
        call_id = draft.call_id(call_id)
        said.append(blocks.call(call_id, name, arguments))
        if outcome is not None:
            answers.append((call_id, *outcome))
    end()


def _call(part: Json) -> tuple[str, str, object, tuple[Any, bool] | None] | None:
    """Return the id, the tool, the arguments and the outcome of a call; None for other parts."""
    kind = text_at(part, "type")
    if kind == "tool-invocation":
        call = mapping(part.get("toolInvocation"))
        is_done = call.get("state") == "result" or "result" in call
        outcome = (_content(call.get("result")), False) if is_done else None
        name = text_at(call, "toolName")
        return text_at(call, "toolCallId"), name, call.get("args"), outcome
    if kind != "dynamic-tool" and not (kind.startswith("tool-") and "toolCallId" in part):
        return None
    if kind in _OF_MODELS and "state" not in part:
        return None
    name = text_at(part, "toolName") or kind.removeprefix("tool-")
    outcome = None
    if "output" in part:
        outcome = (_content(part["output"]), False)
    elif part.get("state") in ("output-error", "output-denied") or "errorText" in part:
        outcome = (text_at(part, "errorText") or "denied", True)
    given = part.get("input", part.get("rawInput"))
    return text_at(part, "toolCallId"), name, given, outcome


def _content(value: object) -> Any:
    inner = mapping(value).get("content")
    if isinstance(inner, list):  # as MCP tools answer
        return blocks.content_of(inner)
    return blocks.as_text(value)


def _speech(draft: Draft, parts: list[Json]) -> list[Json]:
    said: list[Json] = []
    for part in parts:
        kind = text_at(part, "type")
        if kind == "text":
            said.append(blocks.text(text_at(part, "text")))
        elif kind == "reasoning":
            words = text_at(part, "text", "reasoning")
            said += [blocks.thinking(words)] if words else []
        elif kind == "file":
            said.append(_file(part))
        elif kind in _FRAME or kind.startswith("data-"):
            draft.skip(f"part `{kind[:60]}`", "for the screen; no model saw it")
        elif kind != "step-start":
            said += blocks.blocks_of([part])
    return said


def _file(part: Json) -> Json:
    media_type = text_at(part, "mediaType", "mimeType")
    address = text_at(part, "url")
    if not address and is_text(part.get("data")):
        address = f"data:{media_type};base64,{part['data']}"
    if media_type.startswith("image/"):
        return blocks.image_at(address)
    return {"type": "file", "media_type": media_type, "url": address}


IMPORTER: Final = Importer(
    "vercel-ui", "UI messages of the Vercel AI SDK, as chats store them", detect, read
)
