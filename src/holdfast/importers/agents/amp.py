"""Amp: a thread as one document, with messages in Anthropic's shape and results of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.importers.common import blocks
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    mapping,
    mappings,
    text_at,
)
from holdfast.importers.common.parsing import seconds

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

_USAGE: Final = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheCreationInputTokens": "cache_creation_input_tokens",
    "cacheReadInputTokens": "cache_read_input_tokens",
}
"""Amp's names for the counts that Anthropic reports."""

_READ: Final = ("content", "usage", "state", "meta")
"""Fields of a message that are read, or that say how it went."""


def detect(source: Source) -> bool:
    thread = mapping(source.value)
    messages = mappings(thread.get("messages"))
    if not messages:
        return False
    has_results = any(
        "toolUseID" in block for message in messages for block in mappings(message.get("content"))
    )
    is_thread = text_at(thread, "id").startswith("T-")
    return has_results or (is_thread and "v" in thread)


def read(source: Source) -> list[Imported]:
    thread = mapping(source.value)
    draft = Draft()
    draft.label = text_at(thread, "title")
    for message in blocks.messages_in(draft, thread.get("messages")):
        _carry(draft, message)
    blocks.pass_over(draft, thread, ("messages",))
    return [draft.finish(source, "amp", text_at(thread, "id"))]


def _carry(draft: Draft, message: Json) -> None:
    sent = mapping(message.get("meta")).get("sentAt") or message.get("created")
    about: dict[str, Any] = {"ts": seconds(sent)}
    blocks.pass_over(draft, message, _READ, beside="content of a message")
    found = blocks.parts_of(message.get("content"))
    answers = [block for block in found if block.get("type") == "tool_result"]
    for answer in answers:
        run = mapping(answer.get("run"))
        status = run.get("status")
        is_error = status not in (None, "done", "in-progress")
        outcomes = (run.get(name) for name in ("result", "error", "reason"))
        value = next((known for known in outcomes if known is not None), answer.get("content"))
        if status == "rejected-by-user":
            about["refused"] = blocks.as_text(run.get("reason"))
        call_id = draft.answer_id(answer.get("toolUseID") or answer.get("tool_use_id"))
        draft.result(call_id, blocks.as_text(value), is_error=is_error, **about)
        about.pop("refused", None)
    said = blocks.blocks_of([block for block in found if block not in answers])
    for block in said:
        block.pop("complete", None)
    if not said:
        return
    if message.get("role") == "assistant":
        usage = mapping(message.get("usage"))
        state = mapping(message.get("state"))
        draft.assistant(
            blocks.with_ids(draft, said),
            provider="anthropic",
            model=text_at(usage, "model") or None,
            usage=blocks.rename_counts(usage, _USAGE),
            stop_reason=text_at(state, "stopReason") or None,
            **about,
        )
    elif message.get("role") == "user":
        draft.user(said, **about)
    else:
        blocks.skip_role(draft, message.get("role"))


IMPORTER: Final = Importer("amp", "Amp threads (~/.local/share/amp/threads/T-*.json)", detect, read)
