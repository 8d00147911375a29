"""Goose: a line about the session, then one message a line, whose parts are Goose's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.log.records import Compaction
from holdfast.importers.common import blocks
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    about_line,
    mapping,
    text_at,
)

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

_OWN: Final = frozenset(
    (
        *("toolRequest", "toolResponse", "frontendToolRequest", "toolConfirmationRequest"),
        *("redactedThinking", "conversationCompacted", "summarizationRequested"),
    )
)
"""Types of parts that no other format has."""


def detect(source: Source) -> bool:
    head = source.head
    if not head:
        return False
    is_titled = "working_dir" in head[0] and bool({"description", "message_count"} & {*head[0]})
    return any(map(_is_message, head)) and (
        is_titled or any(str(part.get("type")) in _OWN for line in head for part in _parts(line))
    )


def _is_message(line: Json) -> bool:
    is_content = isinstance(line.get("content"), list | str)
    return line.get("role") in ("user", "assistant") and is_content


def _parts(line: Json) -> list[Json]:
    return blocks.parts_of(line.get("content"))


def read(source: Source) -> list[Imported]:
    draft = Draft()
    for line in (line.value for line in source.lines):
        if _is_message(line):
            _carry(draft, line)
        elif "working_dir" in line or "message_count" in line:
            draft.label = text_at(line, "description") or draft.label
        else:
            draft.skip("line that is not a message", "neither a message nor about the session")
    return [draft.finish(source, "goose")]


def _carry(draft: Draft, line: Json) -> None:
    about = about_line(line, "created")
    said: list[Json] = []
    for part in _parts(line):
        match part.get("type"):
            case "toolRequest" | "frontendToolRequest":
                said.append(_call(draft, part))
            case "toolResponse":
                content, is_error = _outcome(part.get("toolResult"))
                call_id = draft.answer_id(part.get("id"))
                draft.result(call_id, content, is_error=is_error, **about)
                about["record_id"] = ""
            case "redactedThinking":
                data = text_at(part, "data")
                said.append({"type": "redacted_thinking", "data": data})
            case "conversationCompacted":
                draft.add(Compaction(summary=text_at(part, "msg"), ts=about["ts"]))
            case "toolConfirmationRequest" | "summarizationRequested" | "contextLengthExceeded":
                draft.skip(f"part `{part['type']}`", "for the screen; no model saw it")
            case _:
                said += blocks.blocks_of([part])
    if not said:
        return
    if line["role"] == "assistant":
        draft.assistant(said, **about)
    else:
        draft.user(said, **about)


def _call(draft: Draft, part: Json) -> Json:
    asked = mapping(part.get("toolCall"))
    value = mapping(asked.get("value"))
    name, arguments = text_at(value, "name"), value.get("arguments")
    if not value:  # a call that the model spelled wrongly
        name, arguments = "?", {"error": blocks.as_text(asked.get("error"))}
    return blocks.call(draft.call_id(part.get("id")), name, arguments)


def _outcome(result: object) -> tuple[Any, bool]:
    """Return the content of a result, and whether it is an error."""
    found = mapping(result)
    if found.get("status") == "error" or ("error" in found and "value" not in found):
        return blocks.as_text(found.get("error")), True
    value = found.get("value", result if not found else None)
    if isinstance(value, dict) and "content" in value:
        return blocks.content_of(value["content"]), value.get("isError") is True
    return blocks.content_of(value), False


IMPORTER: Final = Importer(
    "goose", "Goose sessions (~/.local/share/goose/sessions/*.jsonl)", detect, read
)
