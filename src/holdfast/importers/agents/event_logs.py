"""Agents that keep events, of which messages are only some: Copilot CLI, Kimi, Antigravity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.log.records import ModelChange
from holdfast.importers.apis import chat
from holdfast.importers.apis.responses import output_content
from holdfast.importers.common import blocks
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    about_line,
    integer,
    is_text,
    listing,
    mapping,
    mappings,
    text_at,
)
from holdfast.importers.common.parsing import NOT_JSON, parse, seconds

if TYPE_CHECKING:
    from holdfast.core.log.records import Json


# Copilot CLI


def detect_copilot(source: Source) -> bool:
    return any(
        is_text(item.get("type"))
        and "." in item["type"]
        and isinstance(item.get("data"), dict)
        and ("parentId" in item or item["type"] == "session.start")
        for item in source.head
    )


def read_copilot(source: Source) -> list[Imported]:
    draft = Draft()
    session, model = "", ""
    for line in source.lines:
        event, data = line.value, mapping(line.value.get("data"))
        kind = text_at(event, "type")
        if kind == "session.start":
            session = session or text_at(data, "sessionId")
        model = text_at(data, "newModel", "selectedModel") or model
        if kind == "session.model_change" and model:
            about = about_line(event)
            draft.add(ModelChange(model=model, id=about["record_id"], ts=about["ts"]))
        elif is_text(data.get("parentToolCallId")):
            draft.skip(f"sub-agent's {kind}", "a conversation of its own; its result is carried")
        else:
            _carry_copilot(draft, kind, event, data, model)
    return [draft.finish(source, "copilot", session)]


def _carry_copilot(draft: Draft, kind: str, event: Json, data: Json, model: str) -> None:
    about = about_line(event)
    match kind:
        case "user.message":
            said = data.get("transformedContent") or data.get("content")
            draft.user(blocks.content_of(said), **about)
        case "assistant.message":
            thought = text_at(data, "reasoningText")
            block = [blocks.thinking(thought)] if thought else []
            calls = blocks.calls(draft, data.get("toolRequests"), ids="toolCallId")
            count = integer(data.get("outputTokens"))
            draft.assistant(
                [*block, *blocks.blocks_of(data.get("content")), *calls],
                model=text_at(data, "model") or model or None,
                usage={"output_tokens": count} if count else None,
                **about,
            )
        case "tool.execution_complete":
            result = mapping(data.get("result"))
            failed = data.get("success") is False
            content = result.get("content", mapping(data.get("error")).get("message"))
            draft.result(
                draft.answer_id(data.get("toolCallId")),
                output_content(content),
                is_error=failed,
                **about,
            )
        case "system.message":
            chat.carry_system(draft, blocks.content_of(data.get("content")), about)
        case "session.compaction_complete" if is_text(data.get("summaryContent")):
            before = integer(data.get("preCompactionTokens"))
            blocks.compaction(draft, data["summaryContent"], tokens_before=before, **about)
        case _:
            draft.skip(f"event `{kind}`", "no message")


COPILOT: Final = Importer(
    "copilot", "GitHub Copilot CLI sessions (events.jsonl)", detect_copilot, read_copilot
)


# Kimi


def detect_kimi(source: Source) -> bool:
    return any(
        (item.get("type") == "metadata" and "protocol_version" in item)
        or (is_text(item.get("type")) and item["type"].startswith("context.append_"))
        for item in source.head
    )


def read_kimi(source: Source) -> list[Imported]:
    reader = _Kimi()
    for line in source.lines:
        reader.line(line.value)
    reader.end_step({})
    return [reader.draft.finish(source, "kimi", _kimi_name(source))]


def _kimi_name(source: Source) -> str:
    named = [folder for folder in source.folders if folder.startswith("session_")]
    return "-".join([*named, source.stem]) if named else source.stem


class _Kimi:
    """A step's parts come one by one: its words, its calls, their results, then its end."""

    def __init__(self) -> None:
        self.draft = Draft()
        self._model: str | None = None
        self._said: list[Json] = []
        self._results: list[tuple[Json, float]] = []
        self._ts = 0.0

    def line(self, value: Json) -> None:
        kind = text_at(value, "type")
        ts = seconds(value.get("time"))
        if kind == "context.append_message":
            self.end_step({})
            self._message(mapping(value.get("message")), ts)
        elif kind == "context.append_loop_event":
            self._event(mapping(value.get("event")), ts)
        elif kind == "config.update":
            prompt = text_at(value, "systemPrompt")
            self.draft.system = prompt or self.draft.system
            self._model = text_at(value, "modelAlias") or self._model
        elif kind == "llm.tools_snapshot":
            self.draft.tools = chat.tools_of(value.get("tools")) or self.draft.tools
        else:
            self.draft.skip(f"line `{kind}`", "no message")

    def _message(self, message: Json, ts: float) -> None:
        origin = text_at(mapping(message.get("origin")), "kind")
        if message.get("role") == "user":
            extra = {"role": origin} if origin not in ("", "user") else {}
            self.draft.user(blocks.content_of(message.get("content")), ts=ts, extra=extra)
        else:
            chat.carry_message(self.draft, {**message, "timestamp": ts}, model=self._model)

    def _event(self, event: Json, ts: float) -> None:
        match event.get("type"):
            case "step.begin":
                self.end_step({})
                self._ts = ts
            case "content.part":
                part = mapping(event.get("part"))
                thought = text_at(part, "think")
                block = [blocks.thinking(thought)] if part.get("type") == "think" else [part]
                self._said += block if thought or part.get("type") != "think" else []
            case "tool.call":
                call_id = self.draft.call_id(event.get("toolCallId"))
                name = text_at(event, "name")
                self._said.append(blocks.call(call_id, name, event.get("args")))
            case "tool.result":
                self._results.append((event, ts))
            case "step.end":
                self.end_step(event)
            case other:
                self.draft.skip(f"event `{other}`", "no message")

    def end_step(self, end: Json) -> None:
        """Write the step: the message first, then the results that arrived during it."""
        if self._said:
            self.draft.assistant(
                blocks.content_of(self._said),
                provider="kimi",
                model=self._model,
                usage=blocks.rename_counts(mapping(end.get("usage")), _KIMI_USAGE),
                stop_reason=text_at(end, "finishReason") or None,
                ts=self._ts,
            )
        for event, ts in self._results:
            result = mapping(event.get("result"))
            output = result.get("output", result.get("error", result or None))
            self.draft.result(
                self.draft.answer_id(event.get("toolCallId")),
                output_content(output),
                is_error=result.get("isError") is True or "error" in result,
                ts=ts,
            )
        self._said, self._results = [], []


_KIMI_USAGE: Final = {
    "inputOther": "input_tokens",
    "inputCacheRead": "cache_read_input_tokens",
    "inputCacheCreation": "cache_creation_input_tokens",
    "output": "output_tokens",
}


KIMI: Final = Importer("kimi", "Kimi CLI wire files (wire.jsonl)", detect_kimi, read_kimi)


# Antigravity


def detect_antigravity(source: Source) -> bool:
    return any("step_index" in item and "source" in item for item in source.head)


def read_antigravity(source: Source) -> list[Imported]:
    draft = Draft()
    for line in source.lines:
        _carry_step(draft, line.value)
    return [draft.finish(source, "antigravity")]


def _carry_step(draft: Draft, step: Json) -> None:
    kind, origin = text_at(step, "type"), step.get("source")
    ts = seconds(step.get("created_at"))
    content = text_at(step, "content")
    if "content" in listing(step.get("truncated_fields")):
        draft.skip("part of a text", "the source has cut it off")
    if kind == "USER_INPUT":
        draft.user(content, ts=ts)
    elif kind == "PLANNER_RESPONSE":
        thought = text_at(step, "thinking")
        said = [blocks.thinking(thought)] if thought else []
        said += blocks.blocks_of(content)
        said += [
            blocks.call(
                draft.call_id(),
                text_at(item, "name"),
                _unquote_arguments(item.get("args")),
            )
            for item in mappings(step.get("tool_calls"))
        ]
        draft.assistant(said, provider="google", ts=ts)
    elif kind == "CHECKPOINT" and content.strip():
        blocks.compaction(draft, content, ts=ts)
    elif kind == "SYSTEM_MESSAGE":
        draft.user(content, ts=ts, extra={"role": "system"})
    elif origin == "MODEL" and content:
        call_id = draft.answer_id() or f"step-{step.get('step_index')}"
        draft.result(call_id, content, name=kind.lower(), ts=ts)
    else:
        draft.skip(f"step `{kind}`", "no text")


def _unquote_arguments(arguments: object) -> Json:
    """Each argument is JSON in a text."""
    return {name: _value(value) for name, value in mapping(arguments).items()}


def _value(value: object) -> object:
    read = parse(value) if is_text(value) else NOT_JSON
    return value if read is NOT_JSON else read


ANTIGRAVITY: Final = Importer(
    "antigravity", "Antigravity steps (*.jsonl)", detect_antigravity, read_antigravity
)

IMPORTERS: Final = (COPILOT, KIMI, ANTIGRAVITY)
