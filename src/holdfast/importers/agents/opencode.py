"""OpenCode: messages made of parts.

`opencode export` prints one document; a storage folder is put together to the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.importers.apis.responses import output_content
from holdfast.importers.common import blocks
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    integer,
    mapping,
    mappings,
    read_each,
    text_at,
    text_or_empty,
)
from holdfast.importers.common.parsing import parse, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.records import Json

_FRAME: Final = ("step-start", "step-finish", "snapshot", "patch", "compaction", None)


def detect(source: Source) -> bool:
    return any(map(_is_session, _sessions(source)))


def _sessions(source: Source) -> list[Json]:
    value = source.value
    return mappings(value) if isinstance(value, list) else [mapping(value)]


def _is_session(value: Json) -> bool:
    return isinstance(value.get("info"), dict) and any(
        isinstance(item.get("parts"), list) and "info" in item
        for item in mappings(value.get("messages"))[:4]
    )


def read(source: Source) -> list[Imported]:
    found = [session for session in _sessions(source) if isinstance(session.get("info"), dict)]
    return read_each(source, "opencode", found, _carry)


def _carry(draft: Draft, session: Json) -> str:
    draft.label = text_at(session["info"], "title")
    for message in mappings(session.get("messages")):
        _carry_message(draft, mapping(message.get("info")), mappings(message.get("parts")))
    return text_at(session["info"], "id")


def is_storage(names: Iterable[str]) -> bool:
    """Return whether a folder with these names in it is OpenCode's storage."""
    return {"session", "message", "part"} <= set(names)


def assemble(files: dict[str, bytes]) -> bytes:
    """The files of a storage folder, by their path in it, as one document like an export."""
    values = {path: mapping(parse(data)) for path, data in sorted(files.items())}
    parts: dict[str, list[Json]] = {}
    for path, part in values.items():
        if path.startswith("part/"):
            owner = text_at(part, "messageID") or path.split("/")[1]
            parts.setdefault(owner, []).append(part)
    messages: dict[str, list[Json]] = {}
    for path, info in values.items():
        if path.startswith("message/"):
            owner = text_at(info, "sessionID") or path.split("/")[1]
            found = parts.get(text_at(info, "id"), [])
            messages.setdefault(owner, []).append({"info": info, "parts": found})
    sessions = [
        {"info": info, "messages": messages.get(text_at(info, "id"), [])}
        for path, info in values.items()
        if path.startswith("session/")
    ]
    return msgspec.json.encode(sessions)


def _carry_message(draft: Draft, info: Json, parts: list[Json]) -> None:
    about: dict[str, Any] = {
        "record_id": text_at(info, "id"),
        "ts": seconds(mapping(info.get("time")).get("created")),
    }
    if not parts:
        body = text_at(mapping(info.get("summary")), "body")
        parts = [{"type": "text", "text": body}] if body else []
    if info.get("role") == "user":
        content = [block for part in parts for block in _read_text_part(draft, part)]
        files = (part.get("filename") for part in parts if part.get("type") == "file")
        names = [name for name in files if isinstance(name, str) and name]
        draft.user(content, extra={"files": names} if names else {}, **about)
    elif info.get("summary") is True:
        said = [text_at(part, "text") for part in parts if part.get("type") == "text"]
        blocks.compaction(draft, "\n".join(said), **about)
    else:
        _carry_reply(draft, info, parts, about)


def _carry_reply(draft: Draft, info: Json, parts: list[Json], about: dict[str, Any]) -> None:
    model = mapping(info.get("model"))
    steps = _steps(parts) or [[]]
    for step in steps:
        tokens = _step_tokens(step) or (mapping(info.get("tokens")) if len(steps) == 1 else {})
        draft.assistant(
            [block for part in step for block in _read_text_part(draft, part)],
            provider=text_or_empty(info.get("providerID") or model.get("providerID")) or None,
            model=text_or_empty(info.get("modelID") or model.get("modelID")) or None,
            usage=_usage(tokens),
            stop_reason=text_at(info, "finish") or None,
            **about,
        )
        about = {**about, "record_id": ""}
        for part in step:
            if part.get("type") == "tool":
                _carry_result(draft, part)


def _steps(parts: list[Json]) -> list[list[Json]]:
    """A message holds all steps of a turn; words after a call belong to the next one."""
    steps: list[list[Json]] = []
    has_called = True
    for part in parts:
        kind = part.get("type")
        if kind == "step-start" or (has_called and kind in ("text", "reasoning")) or not steps:
            steps.append([])
            has_called = False
        steps[-1].append(part)
        has_called = has_called or kind == "tool"
    return [step for step in steps if any(part.get("type") not in _FRAME for part in step)]


def _read_text_part(draft: Draft, part: Json) -> list[Json]:
    kind = part.get("type")
    if kind == "text":
        return blocks.blocks_of(part.get("text"))
    if kind == "reasoning":
        return [blocks.thinking(text_at(part, "text"))]
    if kind == "tool":
        arguments = mapping(part.get("state")).get("input")
        call_id = draft.call_id(part.get("callID"))
        return [blocks.call(call_id, text_at(part, "tool"), arguments)]
    if kind == "file" and text_at(part, "mime").startswith("image/"):
        return [blocks.image_at(text_at(part, "url"))]
    if kind == "file":
        return _read_file_part(draft, text_at(part, "url"))
    draft.skip(f"part `{kind}`", "no message")
    return []


def _read_file_part(draft: Draft, address: str) -> list[Json]:
    """Return the text of an attached file, which its address may hold."""
    found = blocks.data_in(address)
    if found is not None and (found[0].startswith("text/") or found[0].endswith("json")):
        return blocks.blocks_of(found[1].decode(errors="replace"))
    draft.skip("file part", "it names a file; the text of it is not in the session")
    return []


def _carry_result(draft: Draft, part: Json) -> None:
    state = mapping(part.get("state"))
    status = state.get("status")
    if status in ("pending", "running"):
        draft.skip("call without a result", "it was still running")
        return
    failed = status == "error"
    draft.result(
        draft.answer_id(part.get("callID"), text_at(part, "tool")),
        output_content(state.get("error") if failed else state.get("output")),
        name=text_at(part, "tool"),
        is_error=failed,
        ts=seconds(mapping(state.get("time")).get("end")),
    )


def _step_tokens(parts: list[Json]) -> Json:
    found = [mapping(part.get("tokens")) for part in parts if part.get("type") == "step-finish"]
    return found[-1] if found else {}


def _usage(tokens: Json) -> Json | None:
    cache = mapping(tokens.get("cache"))
    counts = {
        "input_tokens": tokens.get("input"),
        "output_tokens": tokens.get("output"),
        "cache_read_input_tokens": cache.get("read"),
        "cache_creation_input_tokens": cache.get("write"),
    }
    return {name: count for name, count in counts.items() if integer(count) is not None} or None


IMPORTER: Final = Importer("opencode", "OpenCode exports and storage folders", detect, read)
