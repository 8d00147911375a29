"""Back to the transcripts of other tools: lines that the tool itself resumes.

The tools are Claude Code, Codex, pi, and OpenClaw before it had a database.
"""

from __future__ import annotations

import uuid
from abc import abstractmethod
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Label,
    ModelChange,
    Record,
    User,
    from_json,
    text_of,
)
from holdfast.core.models.usage import read_usage
from holdfast.importers.common.base import Skipped, integer, mapping, text_at, text_or_empty
from holdfast.importers.common.blocks import as_text, blocks_of
from holdfast.importers.export_messages import MessageWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.log.records import Content, Json, ToolResult


_SPACE: Final = uuid.UUID("6f1d5a30-6a58-5b0e-9d5c-1f0a3d1c8b11")
"""The namespace of ids that a tool wants as UUIDs."""
NO_PLACE: Final = "the format has no place for it"


class TranscriptAbout(msgspec.Struct, frozen=True):
    """The facts about a session that are not in its records."""

    session: str
    folder: str
    label: str = ""
    created: float = 0.0


class TranscriptWriter(MessageWriter):
    """Shared by the formats: times, ids, and what stands between messages."""

    def __init__(self, about: TranscriptAbout) -> None:
        super().__init__()
        self.about = about
        self.name = as_uuid(about.session)
        self._model = ""
        self._now = about.created

    def add(self, record: Record) -> None:
        self._now = record.ts or self._now
        match record:
            case Compaction():
                self.compaction(record)
            case ModelChange():
                self._model = record.model
                self.model_change(record)
            case Label():
                self.label(record)
            case _:
                if isinstance(record, Assistant):
                    self._model = record.model or self._model
                super().add(record)

    @abstractmethod
    def compaction(self, record: Compaction) -> None: ...

    def model_change(self, record: ModelChange) -> None:
        self.skip(f"{record.kind} record", NO_PLACE)

    def label(self, record: Label) -> None:
        self.skip(f"{record.kind} record", NO_PLACE)

    @abstractmethod
    def hint(self) -> str:
        """Return the place for the file, and the command that goes on with it."""

    def stamp(self) -> str:
        moment = datetime.fromtimestamp(max(0.0, self._now), UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_uuid(name: str) -> str:
    """Return a name that is a UUID as it is, and the same UUID for the same other name."""
    try:
        return str(uuid.UUID(name))
    except ValueError:
        return str(uuid.uuid5(_SPACE, name))


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
            "id": text_at(record.extra, "message_id") or f"msg_{record.id or len(self.messages)}",
            "type": "message",
            "role": "assistant",
            "model": "<synthetic>" if is_synthetic else record.model or self._model or "unknown",
            "content": kept,
            "stop_reason": record.stop_reason,
            "usage": _claude_usage(record),
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


def _claude_usage(record: Assistant) -> Json:
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


class CodexWriter(TranscriptWriter):
    """The items of the Responses API, one a line."""

    def __init__(self, about: TranscriptAbout) -> None:
        super().__init__(about)
        self._custom: set[str] = set()
        self._places: dict[str, int] = {}
        self._users: list[Json] = []
        meta = {"id": self.name, "timestamp": self.stamp(), "cwd": about.folder}
        meta |= {"originator": "codex_cli_rs", "cli_version": "0.166.0"}
        self._put("session_meta", meta)
        if about.label:
            self.skip("label of the session", "Codex keeps it in its index")

    def user(self, record: User) -> None:
        if record.name:
            self.skip("name of a user", NO_PLACE)
        item = self._message("user", record.content)
        self._users.append(item)
        self._item(item, record.id)

    def assistant(self, record: Assistant) -> None:
        if record.usage:
            self.skip("usage of a reply", "Codex counts it for its screen alone")
        said: list[Json] = []
        for block in blocks_of(record.content):
            kind = block.get("type")
            if kind == "text":
                said.append(block)
                continue
            self._say(said, record.id)
            said = []
            if kind == "tool_use":
                self._call(block, record.id)
            elif kind in ("thinking", "redacted_thinking"):
                self.skip("thought", "only its own provider can read it")
            else:
                self._item(block, record.id)
        self._say(said, record.id)

    def result(self, record: ToolResult) -> None:
        if record.is_error:
            self.skip("error flag of a result", NO_PLACE)
        if record.details is not None:
            self.skip("details of a result", NO_PLACE)
        content = record.content
        is_plain = all(block.get("type") == "text" for block in blocks_of(content))
        output = text_of(content) if is_plain else self._parts("input", content)
        is_custom = record.tool_use_id in self._custom
        kind = "custom_tool_call_output" if is_custom else "function_call_output"
        item = {"type": kind, "call_id": record.tool_use_id, "output": output}
        self._item(item, record.id)

    def compaction(self, record: Compaction) -> None:
        kept = self._users
        if record.turn is not None:
            found = map(from_json, record.turn)
            kept = [self._message("user", each.content) for each in found if isinstance(each, User)]
        place = self._places.get(record.first_kept or "", len(self.messages))
        rest = [line["payload"] for line in self.messages[place:] if "item" in line["type"]]
        kept = [item for item in kept if item not in rest]
        history = [*kept, self._message("user", record.summary), *rest]
        self._put("compacted", {"message": record.summary, "replacement_history": history})

    def hint(self) -> str:
        moment = datetime.fromtimestamp(max(0.0, self.about.created), UTC)
        name = f"rollout-{moment:%Y-%m-%dT%H-%M-%S}-{self.name}.jsonl"
        return (
            f"put it at ~/.codex/sessions/{moment:%Y/%m/%d}/{name}, "
            f"and run: codex exec resume {self.name}"
        )

    def _say(self, said: list[Json], record_id: str) -> None:
        if said:
            self._item(self._message("assistant", said), record_id)

    def _call(self, block: Json, record_id: str) -> None:
        given = block.get("input")
        name, call = block.get("name"), text_at(block, "id")
        if name == "apply_patch" and isinstance(given, dict) and [*given] == ["input"]:
            self._custom.add(call)
            item = {"type": "custom_tool_call", "call_id": call, "name": name, **given}
        else:
            item = {"type": "function_call", "name": name, "arguments": as_text(given or {})}
            item["call_id"] = call
        self._item(item, record_id)

    def _message(self, role: str, content: Content) -> Json:
        way = "output" if role == "assistant" else "input"
        return {"type": "message", "role": role, "content": self._parts(way, content)}

    def _parts(self, way: str, content: Content) -> list[Json]:
        return [self._part(way, block) for block in blocks_of(content)]

    def _part(self, way: str, block: Json) -> Json:
        if block.get("type") == "text":
            return {"type": f"{way}_text", "text": text_at(block, "text")}
        source = mapping(block.get("source"))
        if block.get("type") == "image":
            kind = text_at(source, "media_type") or "image/png"
            data = f"data:{kind};base64,{text_or_empty(source.get('data'))}"
            return {"type": "input_image", "image_url": text_at(source, "url") or data}
        self.skip(f"block `{block.get('type')}` as it is", "it is carried as text")
        return {"type": f"{way}_text", "text": as_text(block)}

    def _item(self, item: Json, record_id: str) -> None:
        self._places.setdefault(record_id, len(self.messages))
        self._put("response_item", item)

    def _put(self, kind: str, payload: Json) -> None:
        self.messages.append({"timestamp": self.stamp(), "type": kind, "payload": payload})


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
            made: Json = {"type": "thinking", "thinking": text_at(block, "thinking")}
            signature = block.get("signature")
            return {**made, "thinkingSignature": signature} if signature else made
        if kind == "redacted_thinking":
            made = {"type": "thinking", "thinking": "", "redacted": True}
            return {**made, "thinkingSignature": text_at(block, "data")}
        if kind == "image":
            source = mapping(block.get("source"))
            if not isinstance(source.get("data"), str):
                self.skip("picture at an address", NO_PLACE)
                return {}
            return {
                "type": "image",
                "data": source["data"],
                "mimeType": text_at(source, "media_type") or "image/png",
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


class ExportedTranscript(msgspec.Struct, frozen=True):
    """The lines of a transcript, and what has no place in them."""

    lines: list[Json]
    skipped: list[Skipped]
    session: str
    """The id by which the tool finds it."""
    hint: str
    """The place for the file, and the command that goes on with it."""


def export_transcript(
    records: Iterable[Record], kind: str, about: TranscriptAbout
) -> ExportedTranscript:
    """Return the records as a transcript of a tool: a key of `TRANSCRIPTS`."""
    writer = TRANSCRIPTS[kind](about)
    for record in records:
        writer.add(record)
    skipped = [Skipped(what, why, count) for (what, why), count in writer.skipped.items()]
    return ExportedTranscript(writer.messages, skipped, writer.name, writer.hint())


TRANSCRIPTS: Final[dict[str, Callable[[TranscriptAbout], TranscriptWriter]]] = {
    "claude-code": ClaudeCodeWriter,
    "codex": CodexWriter,
    "pi": PiWriter,
    "openclaw": OpenClawWriter,
}
