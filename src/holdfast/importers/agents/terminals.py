"""Agents of the terminal and the editor that keep messages: Cursor, Droid, Grok, Hermes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.importers.apis import anthropic, chat
from holdfast.importers.apis.responses import output_content
from holdfast.importers.common import blocks
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    about_line,
    mapping,
    mappings,
    text_at,
    text_or_empty,
)

if TYPE_CHECKING:
    from holdfast.core.log.records import Json


# Cursor


def detect_cursor(source: Source) -> bool:
    return any(
        item.get("role") in ("user", "assistant")
        and "content" in mapping(item.get("message"))
        and "type" not in item
        for item in source.head
    )


def read_cursor(source: Source) -> list[Imported]:
    draft = Draft()
    for line in source.lines:
        value, message = line.value, mapping(line.value.get("message"))
        if not message:
            draft.skip(f"line `{value.get('type')}`", "no message")
            continue
        role = value.get("role")
        model = text_at(value, "model") or None
        anthropic.carry_message(
            draft, {**message, "role": role}, provider=None, model=model, **about_line(value)
        )
    return [draft.finish(source, "cursor")]


CURSOR: Final = Importer("cursor", "Cursor agent transcripts (*.jsonl)", detect_cursor, read_cursor)


# Droid: a session store, or the stream that `--output-format stream-json` prints.


def detect_droid(source: Source) -> bool:
    return any(map(_is_droid, source.head))


def _is_droid(value: Json) -> bool:
    kind = value.get("type")
    if kind == "session_start":
        return "id" in value
    has_session = "session_id" in value or "sessionId" in value
    is_said = kind == "message" and "role" in value and "text" in value
    is_call = kind == "tool_call" and "toolName" in value
    return has_session and (is_said or is_call or (kind == "completion" and "finalText" in value))


def read_droid(source: Source) -> list[Imported]:
    draft = Draft()
    session, model = "", ""
    for line in source.lines:
        value = line.value
        named = value.get("session_id") or value.get("sessionId")
        model = text_at(value, "model") or model
        if value.get("type") == "session_start":
            named = value.get("id")
            title = value.get("sessionTitle") or value.get("title")
            draft.label = text_or_empty(title)
        session = session or text_or_empty(named)
        _carry_droid(draft, value, model or None)
    return [draft.finish(source, "droid", session)]


def _carry_droid(draft: Draft, value: Json, model: str | None) -> None:
    about = about_line(value)
    kind = value.get("type")
    if kind == "message" and isinstance(value.get("message"), dict):
        anthropic.carry_message(draft, value["message"], provider=None, model=model, **about)
    elif kind == "message":
        message = {"role": value.get("role"), "content": value.get("text")}
        anthropic.carry_message(draft, message, provider=None, model=model, **about)
    elif kind == "tool_call":
        call_id = draft.call_id(value.get("toolCallId") or value.get("id"))
        name = text_at(value, "toolName")
        draft.assistant([blocks.call(call_id, name, value.get("parameters"))], model=model, **about)
    elif kind == "tool_result":
        draft.result(
            draft.answer_id(value.get("toolCallId") or value.get("id")),
            output_content(value.get("value")),
            is_error=value.get("isError") is True,
            ts=about["ts"],
        )
    elif kind == "completion":
        usage = mapping(value.get("usage")) or None
        said = text_at(value, "finalText")
        draft.assistant(said, model=model, usage=usage, **about)
    elif kind != "session_start":
        draft.skip(f"line `{kind}`", "no message")


DROID: Final = Importer("droid", "Droid sessions and stream-json output", detect_droid, read_droid)


# Grok

_GROK: Final = ("prompt_index", "synthetic_reason", "model_id", "tool_call_id", "model_fingerprint")


def detect_grok(source: Source) -> bool:
    return any(
        item.get("type") in ("system", "user", "assistant", "tool_result")
        and any(name in item for name in _GROK)
        and "uuid" not in item
        for item in source.head
    )


def read_grok(source: Source) -> list[Imported]:
    draft = Draft()
    waiting: list[Json] = []
    for line in source.lines:
        value = line.value
        kind = value.get("type")
        if kind in ("reasoning", "backend_tool_call"):
            waiting.append(value)
            continue
        if kind == "assistant":
            calls = blocks.calls(draft, value.get("tool_calls"))
            draft.assistant(
                [*waiting, *blocks.blocks_of(value.get("content")), *calls],
                provider="xai",
                model=text_at(value, "model_id") or None,
            )
            waiting = []
            continue
        _flush(draft, waiting)
        waiting = []
        if kind == "system":
            chat.carry_system(draft, blocks.content_of(value.get("content")), {})
        elif kind == "user":
            reason = text_at(value, "synthetic_reason")
            extra = {"role": reason} if reason else {}
            draft.user(blocks.content_of(value.get("content")), extra=extra)
        elif kind == "tool_result":
            call_id = draft.answer_id(value.get("tool_call_id"))
            draft.result(call_id, output_content(value.get("content")))
        else:
            draft.skip(f"line `{kind}`", "no message")
    _flush(draft, waiting)
    name = source.folders[-1] if source.stem == "chat_history" and source.folders else source.stem
    return [draft.finish(source, "grok", name)]


def _flush(draft: Draft, waiting: list[Json]) -> None:
    """Thoughts that no words followed: the reply was interrupted."""
    if waiting:
        draft.assistant(list(waiting), provider="xai")


GROK: Final = Importer("grok", "Grok CLI sessions (chat_history.jsonl)", detect_grok, read_grok)


# Hermes


def detect_hermes(source: Source) -> bool:
    value = mapping(source.value)
    return (
        isinstance(value.get("messages"), list)
        and "session_id" in value
        and ("session_start" in value or "platform" in value)
    )


def read_hermes(source: Source) -> list[Imported]:
    value = mapping(source.value)
    draft = Draft()
    draft.system = text_at(value, "system_prompt")
    draft.tools = chat.tools_of(value.get("tools"))
    model = text_at(value, "model") or None
    for message in mappings(value.get("messages")):
        if message.get("role") == "session_meta":
            draft.skip("session_meta", "the program's bookkeeping")
        else:
            chat.carry_message(draft, message, model=model)
    return [draft.finish(source, "hermes", text_at(value, "session_id"))]


HERMES: Final = Importer("hermes", "Hermes sessions (*.json)", detect_hermes, read_hermes)

IMPORTERS: Final = (CURSOR, DROID, GROK, HERMES)
