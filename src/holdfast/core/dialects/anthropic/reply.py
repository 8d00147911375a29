"""Replies of the Messages API: read whole or as a stream, and written for an agent that answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.dialects.common.reading import (
    ReplyFailed,
    arguments,
    is_whole,
    settle_stop,
)
from holdfast.core.dialects.common.rounds import write_event
from holdfast.core.dialects.common.speaking import AgentApi
from holdfast.core.dialects.common.values import as_dict, as_dicts, as_text
from holdfast.core.models.replies import Delta, ReasoningReport, Reply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.dialects.common.reading import TokenCounts
    from holdfast.core.dialects.common.speaking import AgentReply, ListedModel, ReplyStream
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.replies import Stop


_STOPS: Final[Mapping[str, Stop]] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "window",
    "refusal": "refusal",
}
_CUT: Final = frozenset({"max_tokens", "model_context_window_exceeded"})
_CALLS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")
_TRANSFORMATIONS: Final[Mapping[str, bool]] = {
    "thinking_dropped": True,
    "thinking_mismatch_allowed": False,
}
"""Reports about thinking in the request, true where the model did not see it. The API asks to
ignore other types."""


def is_reply(body: Json) -> bool:
    return "content" in body or body.get("type") in ("message", "error")


def read(body: Json, target: Target) -> Reply:
    """A reply from the JSON of a message."""
    if body.get("type") == "error" or ("error" in body and "content" not in body):
        raise ReplyFailed("the provider answered with an error", body=body)
    given = body.get("content")
    content = [{"type": "text", "text": given}] if isinstance(given, str) else as_dicts(given)
    reason = as_text(body.get("stop_reason"))
    if reason in _CUT and content and content[-1].get("type") == "tool_use":
        content = content[:-1]  # the API says so: a call at the end of a cut reply is incomplete
    content = [_block(block) for block in content]
    return Reply(
        content=content,
        stop=settle_stop(_STOPS.get(reason, "other" if reason else "end"), content),
        stop_reason=reason,
        raw_usage=as_dict(body.get("usage")) or None,
        provider=target.provider,
        model=target.model or as_text(body.get("model")),
        reasoning=_read_report(body),
        cache_miss=as_text(_miss(body).get("type")),
    )


def _read_report(body: Json) -> tuple[ReasoningReport, ...]:
    return tuple(
        ReasoningReport(as_text(item.get("path")), as_text(item.get("reason")), is_dropped)
        for item in as_dicts(body.get("input_transformations"))
        for is_dropped in (_TRANSFORMATIONS.get(as_text(item.get("type"))),)
        if is_dropped is not None
    )


def _miss(body: Json) -> Json:
    """The reason of a cache miss; nothing while the comparison is pending."""
    return as_dict(as_dict(body.get("diagnostics")).get("cache_miss_reason"))


def _block(block: Json) -> Json:
    """A block as the log has it: whatever the API may have back, and nothing that is null."""
    kept = {name: value for name, value in block.items() if value is not None}
    if "type" in kept:
        kept = {"type": kept["type"], **kept}  # as people expect to read it
    if kept.get("type") == "tool_use":
        kept["input"] = arguments(kept.get("input"))
    return kept


class AnthropicStream:
    """Puts a streamed message together."""

    def __init__(self) -> None:
        self.is_complete = False
        self._message: Json = {}
        self._blocks: dict[int, _Growing] = {}

    def take(self, event: Json) -> list[Delta]:
        match event.get("type"):
            case "message_start":
                self._message = {**as_dict(event.get("message"))}
            case "content_block_start":
                block = as_dict(event.get("content_block"))
                self._blocks[block_index(event)] = _Growing(block)
                return _open_block(block)
            case "content_block_delta":
                growing = self._blocks.setdefault(block_index(event), _Growing({"type": "text"}))
                return growing.add(as_dict(event.get("delta")))
            case "content_block_stop":
                if block_index(event) in self._blocks:
                    self._blocks[block_index(event)].is_closed = True
            case "message_delta":
                self._message.update(as_dict(event.get("delta")))
                usage = as_dict(self._message.get("usage"))
                said = as_dict(event.get("usage")).items()
                # Totals so far, not additions; what is not repeated still holds.
                news = {name: value for name, value in said if value is not None}
                self._message["usage"] = {**usage, **news}
            case "message_stop":
                self.is_complete = True
            case "error":
                raise ReplyFailed("the provider broke the stream off with an error", body=event)
        return []

    def body(self) -> Json:
        grown = [self._blocks[index] for index in sorted(self._blocks)]
        kept = [growing for growing in grown if self.is_complete or not growing.is_half_a_call]
        return {**self._message, "content": [growing.block() for growing in kept]}


class _Growing:
    """A block while it comes in."""

    def __init__(self, block: Json) -> None:
        self.is_closed = False
        self._start = block
        self._texts: dict[str, list[str]] = {}
        self._lists: dict[str, list[Any]] = {}
        self._set: Json = {}

    @property
    def is_half_a_call(self) -> bool:
        is_call = self._start.get("type") in _CALLS
        return is_call and not (self.is_closed and is_whole(self._json()))

    def add(self, delta: Json) -> list[Delta]:
        match delta.get("type"):
            case "text_delta":
                return self._grow("text", delta.get("text"), "text")
            case "thinking_delta":
                return self._grow("thinking", delta.get("thinking"), "thinking")
            case "input_json_delta":
                self._grow("input", delta.get("partial_json"))
            case "citations_delta":
                self._lists.setdefault("citations", []).append(delta.get("citation"))
            case _:  # `signature_delta`, and kinds of a later time: texts grow, the rest is set
                for name, value in delta.items():
                    if isinstance(value, str) and name != "type":
                        self._grow(name, value)
                    elif name != "type":
                        self._set[name] = value
        return []

    def block(self) -> Json:
        grown: Json = {**self._start, **self._set}
        for name, pieces in self._texts.items():
            if name != "input":
                grown[name] = as_text(self._start.get(name)) + "".join(pieces)
        for name, items in self._lists.items():
            before = self._start.get(name)
            grown[name] = [*(before if isinstance(before, list) else []), *items]
        if "input" in self._texts:
            grown["input"] = arguments(self._json())
        return grown

    def _json(self) -> str:
        return "".join(self._texts.get("input", ()))

    def _grow(self, name: str, piece: object, kind: str = "") -> list[Delta]:
        said = as_text(piece)
        self._texts.setdefault(name, []).append(said)
        if not said or not kind:
            return []
        return [Delta("thinking" if kind == "thinking" else "text", said)]


def _open_block(block: Json) -> list[Delta]:
    match block.get("type"):
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            return [Delta("call", as_text(block.get("name")))]
        case "text" if as_text(block.get("text")):
            return [Delta("text", block["text"])]
        case "thinking" if as_text(block.get("thinking")):
            return [Delta("thinking", block["thinking"])]
        case _:
            return []


def block_index(event: Json) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0


def report_usage(counts: TokenCounts) -> Json:
    return {
        "input_tokens": counts.prompt - counts.read - counts.written,
        "cache_read_input_tokens": counts.read,
        "cache_creation_input_tokens": counts.written,
        "output_tokens": counts.output,
    }


_STOP_REASONS: Final[Mapping[str, str]] = {
    "length": "max_tokens",
    "window": "model_context_window_exceeded",
    "refusal": "refusal",
}


class AnthropicAgentApi(AgentApi):
    """A message with one block of text."""

    fields = frozenset(("model", "messages", "stream", "metadata"))
    tuning_fields = frozenset(
        ("max_tokens", "temperature", "top_p", "top_k", "thinking", "service_tier", "cache_control")
    )
    plain_values: Mapping[str, object] = {"tool_choice": {"type": "none"}}

    def write(self, reply: AgentReply) -> Json:
        return {
            **_head(reply),
            "content": [{"type": "text", "text": reply.text}],
            "stop_reason": _stop_reason(reply),
            "usage": report_usage(reply.counts),
        }

    def open_stream(self, reply: AgentReply, body: Json) -> ReplyStream:
        del body
        return _MessageStream(reply)

    def write_model(self, model: ListedModel) -> Json:
        return {
            "type": "model",
            "id": model.id,
            "display_name": model.id,
            "created_at": model.stamp,
        }

    def list_models(self, models: Sequence[ListedModel]) -> Json:
        ends = {"first_id": models[0].id, "last_id": models[-1].id} if models else {}
        return {"data": [self.write_model(model) for model in models], "has_more": False, **ends}


class _MessageStream:
    def __init__(self, reply: AgentReply) -> None:
        self._reply = reply

    def begin(self) -> bytes:
        message = {
            **_head(self._reply),
            "content": [],
            "stop_reason": None,
            "usage": report_usage(self._reply.counts),
        }
        block = {"type": "text", "text": ""}
        return _write_event({"type": "message_start", "message": message}) + _write_event(
            {"type": "content_block_start", "index": 0, "content_block": block}
        )

    def say(self, text: str) -> bytes:
        delta = {"type": "text_delta", "text": text}
        return _write_event({"type": "content_block_delta", "index": 0, "delta": delta})

    def end(self, reply: AgentReply) -> bytes:
        delta = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
        usage = report_usage(reply.counts)
        return (
            _write_event({"type": "content_block_stop", "index": 0})
            + _write_event({"type": "message_delta", "delta": delta, "usage": usage})
            + _write_event({"type": "message_stop"})
        )


def _head(reply: AgentReply) -> Json:
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "stop_sequence": None,
    }


def _stop_reason(reply: AgentReply) -> str:
    return _STOP_REASONS.get(reply.stop, "end_turn")


def _write_event(event: Json) -> bytes:
    return write_event(event, event["type"])
