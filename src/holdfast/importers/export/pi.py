"""Sessions of pi, and of OpenClaw before it had a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.models.usage import read_usage
from holdfast.importers.common.base import integer, mapping, text_or_empty
from holdfast.importers.common.blocks import blocks_of
from holdfast.importers.export.writer import NO_PLACE, TranscriptAbout, TranscriptWriter

if TYPE_CHECKING:
    from holdfast.core.log.records import (
        Assistant,
        Compaction,
        Content,
        Json,
        Label,
        ModelChange,
        ToolResult,
        User,
    )

_APIS: Final = {"anthropic": "anthropic-messages", "openai": "openai-responses"}
_STOPS: Final = {"tool_use": "toolUse", "max_tokens": "length", "length": "length"}
_OWN_STOPS: Final = ("stop", "length", "toolUse", "error", "aborted")


class PiWriter(TranscriptWriter):
    """Entries in a tree; the newest is the last."""

    def __init__(self, about: TranscriptAbout) -> None:
        super().__init__(about)
        self._last: str | None = None
        head: Json = {"type": "session", "version": 3, "id": self.name}
        self.messages.append({**head, "timestamp": self.stamp(), "cwd": about.folder})
        if about.label:
            self._entry("session_info", "session-info", name=about.label)

    def user(self, record: User) -> None:
        if record.name:
            self.skip("name of a user", NO_PLACE)
        self._say(record.id, {"role": "user", "content": self._content(record.content)})

    def assistant(self, record: Assistant) -> None:
        content = self._content(record.content)
        calls = any(block.get("type") == "toolCall" for block in content)
        stop = record.stop_reason or ""
        provider = record.provider or "anthropic"
        self._say(
            record.id,
            {
                "role": "assistant",
                "content": content,
                "api": _APIS.get(provider, "openai-completions"),
                "provider": provider,
                "model": record.model or self._model or "unknown",
                "usage": _usage(record),
                "stopReason": stop
                if stop in _OWN_STOPS
                else _STOPS.get(stop, "toolUse" if calls else "stop"),
            },
        )

    def result(self, record: ToolResult) -> None:
        message: Json = {
            "role": "toolResult",
            "toolCallId": record.tool_use_id,
            "toolName": record.name or "",
            "content": self._content(record.content),
            "isError": record.is_error,
        }
        if record.details is not None:
            message["details"] = record.details
        self._say(record.id, message)

    def compaction(self, record: Compaction) -> None:
        if record.turn and not record.first_kept:
            self.skip("messages that a compaction kept", "the format keeps the newest part alone")
        name = record.id or f"e{len(self.messages)}"
        more = {"summary": record.summary, "firstKeptEntryId": record.first_kept or name}
        self._entry("compaction", name, **more, tokensBefore=record.tokens_before or 0)

    def model_change(self, record: ModelChange) -> None:
        more = {"provider": record.provider or "", "modelId": record.model}
        self._entry("model_change", record.id, **more)

    def label(self, record: Label) -> None:
        if record.target is None:
            return  # the name of the session, which stands at the beginning
        self._entry("label", record.id, targetId=record.target, label=record.label)

    def hint(self) -> str:
        folder = self.about.folder.strip("/").replace("/", "-")
        stamp = self.messages[0]["timestamp"].replace(":", "-").replace(".", "-")
        return (
            f"put it at ~/.pi/agent/sessions/--{folder}--/{stamp}_{self.name}.jsonl, "
            f"and run: pi --session {self.name}"
        )

    def _say(self, record_id: str, message: Json) -> None:
        stamped = {**message, "timestamp": int(self._now * 1000)}
        self._entry("message", record_id, message=stamped)

    def _entry(self, kind: str, record_id: str, **more: Any) -> None:
        name = record_id or f"e{len(self.messages)}"
        entry: Json = {"type": kind, "id": name, "parentId": self._last}
        self.messages.append({**entry, "timestamp": self.stamp(), **more})
        self._last = name

    def _content(self, content: Content) -> list[Json]:
        made = (self._block(block) for block in blocks_of(content))
        return [block for block in made if block]

    def _block(self, block: Json) -> Json:
        kind = block.get("type")
        if kind == "tool_use":
            call = {"id": block.get("id"), "name": block.get("name")}
            return {"type": "toolCall", **call, "arguments": block.get("input") or {}}
        if kind == "thinking":
            made: Json = {"type": "thinking", "thinking": text_or_empty(block.get("thinking"))}
            signature = block.get("signature")
            return {**made, "thinkingSignature": signature} if signature else made
        if kind == "redacted_thinking":
            made = {"type": "thinking", "thinking": "", "redacted": True}
            return {**made, "thinkingSignature": text_or_empty(block.get("data"))}
        if kind == "image":
            source = mapping(block.get("source"))
            if not isinstance(source.get("data"), str):
                self.skip("picture at an address", NO_PLACE)
                return {}
            return {
                "type": "image",
                "data": source["data"],
                "mimeType": text_or_empty(source.get("media_type")) or "image/png",
            }
        if kind == "reasoning":
            self.skip("reasoning item", "only its own provider can read it")
            return {}
        if kind != "text":
            self.skip(f"block `{kind}` as it is", "the program may not know it")
        return block


class OpenClawWriter(PiWriter):
    """The same entries; OpenClaw finds them by an index."""

    def hint(self) -> str:
        return (
            f"put it at ~/.openclaw/agents/main/sessions/{self.name}.jsonl, with "
            f'{{"agent:main:{self.about.session}": {{"sessionId": "{self.name}", "updatedAt": '
            f'{int(self._now * 1000)}, "sessionFile": "{self.name}.jsonl"}}}} in sessions.json '
            "beside it, and run: openclaw doctor --fix"
        )


def _usage(record: Assistant) -> Json:
    """Return a usage in the spelling of pi, which has all of its fields."""
    raw = record.usage or {}
    if "input" in raw or "totalTokens" in raw:
        found = raw
    elif usage := read_usage(raw, record.provider or ""):
        found = {
            "input": usage.plain_input,
            "output": usage.output,
            "cacheRead": usage.cached_read,
            "cacheWrite": usage.cached_write,
        }
    else:
        found = {}
    counts = {
        name: integer(found.get(name)) or 0
        for name in ("input", "output", "cacheRead", "cacheWrite")
    }
    free = dict.fromkeys((*counts, "total"), 0)
    total = integer(found.get("totalTokens")) or sum(counts.values())
    return {"cost": free, **found, **counts, "totalTokens": total}
