"""Gemini: lists of contents and request bodies, and the two command lines that keep such parts.

Gemini's calls may have no ids; results then answer the oldest open call of their function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.log.records import Assistant, User, text_of
from holdfast.importers.apis.chat import tools_of
from holdfast.importers.common import blocks
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    about_line,
    integer,
    is_text,
    keep_from,
    listing,
    mapping,
    mappings,
    path_to,
    text_at,
    text_or_empty,
)
from holdfast.importers.common.parsing import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json


COMPACTION: Final = "compaction"


def read_messages(lines: list[Json]) -> Iterator[Json]:
    """The messages of a file in order, and a `compaction` for each summary: its `id`, `timestamp`,
    `summary`, and the `kept` ids."""
    seen: set[str] = set()
    shown: set[str] = set()
    """The messages that the newest history has."""
    for line in lines:
        if is_text(line.get("type")):
            yield line
            if is_text(line.get("id")):
                seen.add(line["id"])
                shown.add(line["id"])
            continue
        history = mappings(mapping(line.get("$set")).get("messages"))
        ids = [text_at(message, "id") for message in history]
        new = [at for at, name in enumerate(ids) if name and name not in seen]
        if history and shown - set(ids) and new and history[new[0]].get("type") == "user":
            summary = history[new[0]]
            yield {
                "type": COMPACTION,
                "id": summary["id"],
                "timestamp": summary.get("timestamp"),
                "summary": _text(summary.get("parts", summary.get("content"))),
                "kept": [name for name in ids[new[0] + 1 :] if name in seen],
            }
        if history:
            shown = {name for name in ids if name}
            seen |= shown


def _text(content: object) -> str:
    if is_text(content):
        return content
    return "\n".join(text_at(part, "text") for part in mappings(content))


_MODEL_ROLES: Final = ("model", "gemini", "assistant")


def carry_content(draft: Draft, role: object, parts: object, **about: Any) -> None:
    """One content: what the model said, or results and words for it."""
    items = parts if isinstance(parts, list) else [parts]
    if role in _MODEL_ROLES:
        said = [block for item in items for block in _read_text_part(draft, item)]
        draft.assistant(said, **{"provider": "google", **about})
        return
    about = {name: about[name] for name in ("record_id", "ts", "extra") if name in about}
    said = []
    for item in items:
        answer = _function_response(item)
        if answer:
            _carry_answer(draft, answer, **about)
            about["record_id"] = ""
        else:
            said += _read_text_part(draft, item)
    if said:
        draft.user(said, **about)
    elif not items:
        draft.skip("empty content", "it says nothing")


def _read_text_part(draft: Draft, part: object) -> list[Json]:
    if not isinstance(part, dict):
        return blocks.blocks_of(part)
    signature = text_at(part, "thoughtSignature", "thought_signature")
    made = mapping(part.get("functionCall") or part.get("function_call"))
    if made:
        call_id = draft.call_id(made.get("id"))
        name = text_at(made, "name")
        return [blocks.call(call_id, name, made.get("args"), signature)]
    data = mapping(part.get("inlineData") or part.get("inline_data"))
    if is_text(data.get("data")):
        kind = text_at(data, "mimeType", "mime_type")
        return [blocks.image(data["data"], kind)] if _is_image(kind) else [_raw(part)]
    place = mapping(part.get("fileData") or part.get("file_data"))
    address = place.get("fileUri") or place.get("file_uri")
    if is_text(address):
        kind = text_at(place, "mimeType", "mime_type")
        return [blocks.image_at(address)] if _is_image(kind) else [_raw(part)]
    if not is_text(part.get("text")):
        return [_raw(part)] if part else []
    if part.get("thought") is True:
        return [blocks.thinking(part["text"], signature)]
    return blocks.blocks_of(part["text"])


def _raw(part: Json) -> Json:
    kind = next(iter(part), "part")
    return {**part, "type": f"gemini_{kind}"}


def _is_image(kind: str) -> bool:
    return not kind or kind.startswith("image/")


def _function_response(part: object) -> Json:
    inner = mapping(part)
    return mapping(inner.get("functionResponse") or inner.get("function_response"))


def _carry_answer(draft: Draft, answer: Json, **about: Any) -> None:
    name = text_at(answer, "name")
    response = answer.get("response")
    inner = mapping(response)
    is_error = "error" in inner and "output" not in inner
    text = inner.get("error") if is_error else inner.get("output", inner.get("result"))
    is_whole = is_text(text) and len(inner) == 1
    pictures = [
        block for part in listing(answer.get("parts")) for block in _read_text_part(draft, part)
    ]
    content: Any = text if is_whole else blocks.as_text(response)
    if pictures:
        content = [*blocks.blocks_of(content), *pictures]
    draft.result(
        draft.answer_id(answer.get("id"), name), content, name=name, is_error=is_error, **about
    )


def _usage(value: object) -> Json | None:
    return mapping(value) or None


# Contents


def _contents(source: Source) -> list[Json]:
    value = source.value
    if isinstance(value, dict):
        return mappings(value.get("contents"))
    return mappings(value) if isinstance(value, list) else []


def detect(source: Source) -> bool:
    found = _contents(source)
    return bool(found) and any("parts" in item for item in found)


def read(source: Source) -> list[Imported]:
    body = mapping(source.value)
    draft = Draft()
    system = body.get("systemInstruction") or body.get("system_instruction")
    parts = mapping(system).get("parts") if isinstance(system, dict) else [system]
    said = [block for part in listing(parts) for block in _read_text_part(draft, part)]
    draft.system = "\n".join(text_at(block, "text") for block in said)
    draft.tools = tools_of(body.get("tools"))
    for content in _contents(source):
        carry_content(
            draft,
            content.get("role"),
            content.get("parts"),
            model=text_at(body, "model") or None,
        )
    return [draft.finish(source, "gemini")]


IMPORTER: Final = Importer("gemini", "Gemini contents or request bodies", detect, read)


# Gemini CLI


def detect_cli(source: Source) -> bool:
    value = source.value
    if isinstance(value, dict) and "sessionId" in value and "projectHash" in value:
        return True
    if isinstance(value, dict) and isinstance(value.get("history"), list):
        return any("parts" in item for item in mappings(value["history"]))
    return any("sessionId" in item and "projectHash" in item for item in source.head[:1])


def read_cli(source: Source) -> list[Imported]:
    value = source.value
    draft = Draft()
    if isinstance(value, dict):
        header, messages = value, mappings(value.get("messages"))
    else:
        lines = [line.value for line in source.lines]
        header = next((item for item in lines if "projectHash" in item), {})
        messages = list(read_messages(lines))
        others = len(lines) - len(messages) - bool(header)
        draft.skip("update of the header", "no message", others)
    draft.label = text_at(header, "summary")
    for content in mappings(header.get("history")):
        ts = seconds(content.get("ts") or content.get("timestamp"))
        carry_content(draft, content.get("role"), content.get("parts"), ts=ts)
    for message in _newest(messages):
        _carry_cli(draft, message)
    return [draft.finish(source, "gemini-cli", text_at(header, "sessionId"))]


def _newest(messages: list[Json]) -> list[Json]:
    """In the line format a message is written again when it grows; the last one counts."""
    last = {message["id"]: message for message in messages if is_text(message.get("id"))}
    seen: set[str] = set()
    kept: list[Json] = []
    for item in messages:
        key = item.get("id")
        if not is_text(key):
            kept.append(item)
        elif key not in seen:
            seen.add(key)
            kept.append(last[key])
    return kept


def _carry_cli(draft: Draft, message: Json) -> None:
    kind = message.get("type")
    about = about_line(message)
    if kind == "user":
        parts = message.get("parts", message.get("content"))
        carry_content(draft, "user", parts, **about)
    elif kind in _MODEL_ROLES:
        _carry_reply(draft, message, about)
    elif kind == COMPACTION:
        kept = next(filter(draft.has, message["kept"]), None)
        blocks.compaction(draft, message["summary"], first_kept=kept, **about)
    else:
        draft.skip(f"message `{kind}`", "a note of the program; no model saw it")


def _carry_reply(draft: Draft, message: Json, about: dict[str, Any]) -> None:
    said = [_read_thought(entry) for entry in mappings(message.get("thoughts"))]
    content = message.get("parts", message.get("content"))
    items = content if isinstance(content, list) else [content]
    said += [block for item in items for block in _read_text_part(draft, item)]
    made = mappings(message.get("toolCalls"))
    ids = [draft.call_id(call.get("id")) for call in made]
    said += [
        blocks.call(call_id, text_at(call, "name"), call.get("args"))
        for call_id, call in zip(ids, made, strict=True)
    ]
    draft.assistant(
        said,
        provider="google",
        model=text_at(message, "model") or None,
        usage=_cli_usage(mapping(message.get("tokens"))),
        **about,
    )
    for call_id, call in zip(ids, made, strict=True):
        ts = seconds(call.get("timestamp")) or about["ts"]
        answers = [_function_response(part) for part in listing(call.get("result"))]
        if not any(answers):
            draft.skip("call without a result", "none was recorded")
        for answer in filter(None, answers):
            _carry_answer(draft, {**answer, "id": answer.get("id") or call_id}, ts=ts)


def _read_thought(thought: Json) -> Json:
    texts = [text_or_empty(thought.get(name)) for name in ("subject", "description")]
    return blocks.thinking("\n".join(filter(None, texts)))


def _cli_usage(tokens: Json) -> Json | None:
    names = {
        "input": "promptTokenCount",
        "output": "candidatesTokenCount",
        "cached": "cachedContentTokenCount",
        "thoughts": "thoughtsTokenCount",
        "tool": "toolUsePromptTokenCount",
        "total": "totalTokenCount",
    }
    return {
        new: tokens[old] for old, new in names.items() if integer(tokens.get(old)) is not None
    } or None


CLI: Final = Importer(
    "gemini-cli", "Gemini CLI sessions (~/.gemini/tmp/…/chats/*.json)", detect_cli, read_cli
)


# Qwen Code


def detect_qwen(source: Source) -> bool:
    return any(
        "uuid" in item
        and "sessionId" in item
        and ("parts" in mapping(item.get("message")) or "systemPayload" in item)
        for item in source.head
    )


def read_qwen(source: Source) -> list[Imported]:
    lines = [line.value for line in source.lines]
    draft = Draft()
    path = _qwen_path(lines)
    left = Draft()
    for place, line in enumerate(lines):
        if place not in path:
            _carry_qwen(left, line)
    draft.leave(left, len(lines) - len(path))
    for place, line in enumerate(lines):
        if place in path:
            _carry_qwen(draft, line)
    session = next((item["sessionId"] for item in lines if is_text(item.get("sessionId"))), "")
    return [draft.finish(source, "qwen", session)]


def _qwen_path(lines: list[Json]) -> set[int]:
    places: dict[str, int] = {}
    parents: list[int | None] = []
    head: int | None = None
    for place, line in enumerate(lines):
        named = line.get("parentUuid")
        before = place - 1 if place else None
        found = places.get(named) if is_text(named) else None
        is_root = "parentUuid" in line and named is None
        parents.append(None if is_root else before if found is None else found)
        if is_text(line.get("uuid")):
            places[line["uuid"]] = place
        if line.get("type") in ("user", "assistant", "tool_result"):
            head = place
    return path_to(head, parents)


def _carry_qwen(draft: Draft, line: Json) -> None:
    message = mapping(line.get("message"))
    about = about_line(line, name="uuid")
    kind, subtype = line.get("type"), text_at(line, "subtype")
    payload = mapping(line.get("systemPayload"))
    if kind == "system":
        title = text_at(payload, "customTitle")
        if subtype == "custom_title" and title:
            draft.label = title
        elif subtype == "chat_compression":
            _carry_compression(draft, payload, about)
        else:
            draft.skip(f"system {subtype}".strip(), "a note of the program; no model saw it")
    elif kind == "assistant":
        carry_content(
            draft,
            "model",
            message.get("parts"),
            provider="qwen",
            model=text_at(line, "model") or None,
            usage=_usage(line.get("usageMetadata")),
            **about,
        )
    elif kind in ("user", "tool_result"):
        carry_content(draft, "user", message.get("parts"), **about)
    else:
        draft.skip(f"line `{kind}`", "no message")


def _carry_compression(draft: Draft, payload: Json, about: dict[str, Any]) -> None:
    history = mappings(payload.get("compressedHistory"))
    texts = [text_at(part, "text") for item in history[:1] for part in mappings(item.get("parts"))]
    summary = "\n".join(filter(None, texts))
    if not summary.strip():
        draft.skip("compaction", "its summary is empty")
        return
    kept = next((place for item in history[1:] if (place := _place_of(draft, item)) >= 0), None)
    blocks.compaction(
        draft,
        summary,
        first_kept=None if kept is None else keep_from(draft, kept),
        tokens_before=integer(mapping(payload.get("info")).get("originalTokenCount")),
        **about,
    )
    draft.skip("kept by a compaction", "it repeats messages of the log", len(history) - 1)


def _place_of(draft: Draft, item: Json) -> int:
    """The place of the newest record that says what a kept message says; -1 where none does.

    The reply that Qwen makes up for its summary is such a message. Since 0.24 it puts reminders of
    its own, as the date, before the words of a message that it keeps.
    """
    texts = [*filter(None, (text_at(part, "text") for part in mappings(item.get("parts"))))]
    said = {"\n".join(texts[first:]) for first in range(len(texts))}
    kind = Assistant if item.get("role") == "model" else User
    for place in range(len(draft.records) - 1, -1, -1):
        record = draft.records[place]
        if isinstance(record, kind) and text_of(record.content) in said:
            return place
    return -1


QWEN: Final = Importer(
    "qwen", "Qwen Code sessions (~/.qwen/projects/…/chats/*.jsonl)", detect_qwen, read_qwen
)
