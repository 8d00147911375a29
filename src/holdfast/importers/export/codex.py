"""Rollouts of Codex."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.core.log.records import User, from_json, text_of
from holdfast.importers.common.base import mapping, text_or_empty
from holdfast.importers.common.blocks import as_text, blocks_of
from holdfast.importers.export.writer import NO_PLACE, TranscriptAbout, TranscriptWriter

if TYPE_CHECKING:
    from holdfast.core.log.records import Assistant, Compaction, Content, Json, ToolResult


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
        name, call = block.get("name"), text_or_empty(block.get("id"))
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
            return {"type": f"{way}_text", "text": text_or_empty(block.get("text"))}
        source = mapping(block.get("source"))
        if block.get("type") == "image":
            kind = text_or_empty(source.get("media_type")) or "image/png"
            data = f"data:{kind};base64,{text_or_empty(source.get('data'))}"
            return {"type": "input_image", "image_url": text_or_empty(source.get("url")) or data}
        self.skip(f"block `{block.get('type')}` as it is", "it is carried as text")
        return {"type": f"{way}_text", "text": as_text(block)}

    def _item(self, item: Json, record_id: str) -> None:
        self._places.setdefault(record_id, len(self.messages))
        self._put("response_item", item)

    def _put(self, kind: str, payload: Json) -> None:
        self.messages.append({"timestamp": self.stamp(), "type": kind, "payload": payload})
