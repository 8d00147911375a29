"""Transcripts of Claude Code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.models.usage import read_usage
from holdfast.importers.common.base import text_or_empty
from holdfast.importers.common.blocks import blocks_of
from holdfast.importers.export.writer import NO_PLACE, TranscriptAbout, TranscriptWriter, as_uuid

if TYPE_CHECKING:
    from holdfast.core.log.records import Assistant, Compaction, Json, ToolResult, User


class ClaudeCodeWriter(TranscriptWriter):
    """A tree of lines; every result is a line of its own."""

    def __init__(self, about: TranscriptAbout) -> None:
        super().__init__(about)
        self._last: str | None = None
        if about.label:
            self.messages.append(
                {"type": "custom-title", "customTitle": about.label, "sessionId": self.name}
            )

    def user(self, record: User) -> None:
        if record.name:
            self.skip("name of a user", NO_PLACE)
        more: Json = {"isMeta": True} if record.extra.get("meta") is True else {}
        if "attachment" in record.extra:
            self.skip("kind of an attachment", "it is carried as a message of the program")
        self._line("user", record.id, {"role": "user", "content": record.content or ""}, **more)

    def assistant(self, record: Assistant) -> None:
        kept = [block for block in blocks_of(record.content) if self._is_known(block)]
        is_synthetic = record.extra.get("synthetic") is True
        message: Json = {
            "id": text_or_empty(record.extra.get("message_id"))
            or f"msg_{record.id or len(self.messages)}",
            "type": "message",
            "role": "assistant",
            "model": "<synthetic>" if is_synthetic else record.model or self._model or "unknown",
            "content": kept,
            "stop_reason": record.stop_reason,
            "usage": _usage(record),
        }
        self._line("assistant", record.id, message)

    def result(self, record: ToolResult) -> None:
        block: Json = {"type": "tool_result", "tool_use_id": record.tool_use_id}
        block["content"] = record.content if record.content is not None else ""
        if record.is_error:
            block["is_error"] = True
        if record.details is not None:
            self.skip("details of a result", NO_PLACE)
        self._line("user", record.id, {"role": "user", "content": [block]})

    def compaction(self, record: Compaction) -> None:
        about: Json = {"trigger": record.reason or "auto", "preTokens": record.tokens_before or 0}
        uuids = [line["uuid"] for line in self.messages if "uuid" in line]
        first = as_uuid(record.first_kept or "")
        if first in uuids:
            kept = uuids[uuids.index(first) :]
            anchor = as_uuid(record.id)  # the summary, after which they are shown
            about["preservedSegment"] = {
                "headUuid": kept[0],
                "anchorUuid": anchor,
                "tailUuid": kept[-1],
            }
            about["preservedMessages"] = {"anchorUuid": anchor, "uuids": kept, "allUuids": kept}
        elif record.turn:
            self.skip("messages that a compaction kept", "they stand before it in the file")
        boundary = as_uuid(f"{record.id}/boundary")
        more: Json = {"subtype": "compact_boundary", "content": "Conversation compacted"}
        more |= {"logicalParentUuid": self._last, "compactMetadata": about, "level": "info"}
        self._last = None
        self._line("system", boundary, None, **more)
        said = {"role": "user", "content": record.summary}
        self._line("user", record.id, said, isCompactSummary=True, isVisibleInTranscriptOnly=True)

    def hint(self) -> str:
        folder = "".join(item if item.isalnum() else "-" for item in self.about.folder)
        return (
            f"put it at ~/.claude/projects/{folder}/{self.name}.jsonl, and in "
            f"{self.about.folder} run: claude --resume {self.name}"
        )

    def _is_known(self, block: Json) -> bool:
        if block.get("type") == "reasoning":
            self.skip("reasoning item", "only its own provider can read it")
            return False
        if block.get("type") == "thinking" and not block.get("signature"):
            self.skip("thought without a signature", "the provider would refuse it")
            return False
        return True

    def _line(self, kind: str, record_id: str, message: Json | None, **more: Any) -> None:
        name = as_uuid(record_id or f"{self.name}/{len(self.messages)}")
        line: Json = {
            "parentUuid": self._last,
            "isSidechain": False,
            "userType": "external",
            "cwd": self.about.folder,
            "sessionId": self.name,
            "version": "2.1.197",
            "type": kind,
            "uuid": name,
            "timestamp": self.stamp(),
        }
        self.messages.append({**line, **({"message": message} if message else {}), **more})
        self._last = name


def _usage(record: Assistant) -> Json:
    """Return a usage as Anthropic spells it, which Claude Code reads."""
    raw = record.usage or {}
    found = read_usage(raw, record.provider or "")
    if found is None:
        return raw if "input_tokens" in raw else {"input_tokens": 0, "output_tokens": 0}
    if found.source in ("anthropic", "plain"):
        return raw
    return {
        "input_tokens": found.plain_input,
        "cache_creation_input_tokens": found.cached_write,
        "cache_read_input_tokens": found.cached_read,
        "output_tokens": found.output or 0,
    }
