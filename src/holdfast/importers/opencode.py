"""OpenCode: messages made of parts.

`opencode export` prints one document; a storage folder is put together to the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.records import Compaction
from holdfast.importers import blocks
from holdfast.importers.base import (
    Draft,
    Imported,
    Importer,
    Source,
    finish,
    integer,
    mapping,
    mappings,
    names_for,
    text_or_empty,
)
from holdfast.importers.parsing import seconds
from holdfast.importers.responses import output_content

if TYPE_CHECKING:
    from holdfast.core.records import Json


def detect(source: Source) -> bool:
    return any(map(_is_opencode, _opencode_sessions(source)))


def _opencode_sessions(source: Source) -> list[Json]:
    value = source.value
    return mappings(value) if isinstance(value, list) else [mapping(value)]


def _is_opencode(value: Json) -> bool:
    return isinstance(value.get("info"), dict) and any(
        isinstance(one.get("parts"), list) and "info" in one
        for one in mappings(value.get("messages"))[:4]
    )


def read(source: Source) -> list[Imported]:
    sessions: list[tuple[str, Draft]] = []
    found = [one for one in _opencode_sessions(source) if isinstance(one.get("info"), dict)]
    for value, name in zip(found, names_for(source.stem, len(found)), strict=True):
        draft = Draft()
        info = mapping(value.get("info"))
        draft.label = text_or_empty(info.get("title"))
        for message in mappings(value.get("messages")):
            about, parts = mapping(message.get("info")), mappings(message.get("parts"))
            _carry_opencode(draft, about, parts)
        sessions.append((text_or_empty(info.get("id")) or name, draft))
    return finish(source, "opencode", sessions)


def _carry_opencode(draft: Draft, info: Json, parts: list[Json]) -> None:
    about: dict[str, Any] = {
        "record_id": text_or_empty(info.get("id")),
        "ts": seconds(mapping(info.get("time")).get("created")),
    }
    said: list[Json] = []
    for part in parts:
        said += _opencode_said(draft, part)
    if not parts:
        body = text_or_empty(mapping(info.get("summary")).get("body"))
        said = blocks.blocks_of(body) if body else []
    if info.get("role") == "user":
        draft.user(said, **about)
        return
    model = mapping(info.get("model"))
    tokens = mapping(info.get("tokens")) or _step_tokens(parts)
    summary = "\n".join(text_or_empty(one.get("text")) for one in said if one["type"] == "text")
    if info.get("summary") is True and summary.strip():
        draft.add(
            Compaction(summary=summary, method="model", id=about["record_id"], ts=about["ts"])
        )
        return
    draft.assistant(
        said,
        provider=text_or_empty(info.get("providerID") or model.get("providerID")) or None,
        model=text_or_empty(info.get("modelID") or model.get("modelID")) or None,
        usage=_opencode_usage(tokens),
        stop_reason=text_or_empty(info.get("finish")) or None,
        **about,
    )
    for part in parts:
        if part.get("type") == "tool":
            _carry_opencode_result(draft, part)


def _opencode_said(draft: Draft, part: Json) -> list[Json]:
    kind = part.get("type")
    if kind == "text":
        return blocks.blocks_of(part.get("text"))
    if kind == "reasoning":
        return [blocks.thinking(text_or_empty(part.get("text")))]
    if kind == "tool":
        arguments = mapping(part.get("state")).get("input")
        call_id = draft.call_id(part.get("callID"))
        return [blocks.call(call_id, text_or_empty(part.get("tool")), arguments)]
    if kind == "file" and text_or_empty(part.get("mime")).startswith("image/"):
        return [blocks.image_at(text_or_empty(part.get("url")))]
    if kind == "file":
        draft.skip("file part", "it names a file; the text of it is not in the session")
    else:
        draft.skip(f"part `{kind}`", "no message")
    return []


def _carry_opencode_result(draft: Draft, part: Json) -> None:
    state = mapping(part.get("state"))
    status = state.get("status")
    if status in ("pending", "running"):
        draft.skip("call without a result", "it was still running")
        return
    failed = status == "error"
    draft.result(
        draft.answered(part.get("callID"), text_or_empty(part.get("tool"))),
        output_content(state.get("error") if failed else state.get("output")),
        name=text_or_empty(part.get("tool")),
        is_error=failed,
        ts=seconds(mapping(state.get("time")).get("end")),
    )


def _step_tokens(parts: list[Json]) -> Json:
    found = [mapping(part.get("tokens")) for part in parts if part.get("type") == "step-finish"]
    return found[-1] if found else {}


def _opencode_usage(tokens: Json) -> Json | None:
    cache = mapping(tokens.get("cache"))
    counts = {
        "input_tokens": tokens.get("input"),
        "output_tokens": tokens.get("output"),
        "cache_read_input_tokens": cache.get("read"),
        "cache_creation_input_tokens": cache.get("write"),
    }
    return {name: count for name, count in counts.items() if integer(count) is not None} or None


IMPORTER: Final = Importer("opencode", "OpenCode exports and storage folders", detect, read)
