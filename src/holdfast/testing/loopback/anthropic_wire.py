"""Replies, streams and errors as Anthropic's Messages API writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.models.messages import arguments_json
from holdfast.testing.loopback.faults import OVERFLOWS, Sizes, WireFailure
from holdfast.testing.loopback.speaking import Event, in_pieces, sse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.dialects.common.rule import Violation
    from holdfast.core.log.records import Json
    from holdfast.testing.loopback.speaking import Spoken, Stage

STOPS: Final = {
    "end": "end_turn",
    "tools": "tool_use",
    "length": "max_tokens",
    "window": "model_context_window_exceeded",
    "refusal": "refusal",
}
_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class AnthropicWire:
    request_header = "request-id"
    call_prefix = "toolu"
    reserves_output = True

    def count(self, tokens: int) -> Json:
        return {"input_tokens": tokens}

    def reply(self, spoken: Spoken) -> Json:
        return {
            **_message(spoken),
            "content": _content(spoken),
            "stop_reason": _stop(spoken),
            **_report(spoken),
            **_usage(spoken),
        }

    def events(self, spoken: Spoken) -> Iterator[Event]:
        # What the input took is known at once; of the output, only that it has begun.
        begun = {**_report(spoken), **_usage(spoken, output=1)}
        message = {**_message(spoken), "content": [], "stop_reason": None, **begun}
        yield _event("start", {"type": "message_start", "message": message})
        yield _event("other", {"type": "ping"})
        for index, block in enumerate(_content(spoken)):
            yield from _block_events(index, block)
        delta = {"stop_reason": _stop(spoken), "stop_sequence": None}
        yield _event("other", {"type": "message_delta", "delta": delta, **_usage(spoken)})
        yield _event("other", {"type": "message_stop"})

    def error(self, failure: WireFailure, request_id: str) -> Json:
        return {"type": "error", "error": _error(failure), "request_id": request_id}

    def error_event(self, failure: WireFailure, _spoken: Spoken, _sent: int) -> bytes:
        return sse({"type": "error", "error": _error(failure)}, "error")

    def refusal(self, violation: Violation) -> WireFailure:
        return WireFailure(violation.quote)

    def over_limit(self, tokens: int, output: int, limit: int) -> WireFailure:
        host = "anthropic" if tokens > limit else "anthropic-output"
        return OVERFLOWS[host].with_sizes(Sizes(tokens, output, limit))

    def too_large(self) -> WireFailure:
        return WireFailure("Request exceeds the maximum size", 413)

    def over_output(self, output: int, limit: int, model: str) -> WireFailure:
        return WireFailure(
            f"max_tokens: {output} > {limit}, which is the maximum allowed number of output "
            f"tokens for {model}"
        )


def _message(spoken: Spoken) -> Json:
    return {
        "id": f"msg_{spoken.id}",
        "type": "message",
        "role": "assistant",
        "model": spoken.model,
        "stop_sequence": None,
    }


def _content(spoken: Spoken) -> list[Json]:
    content = [*spoken.thoughts]
    if spoken.text:
        content.append({"type": "text", "text": spoken.text})
    content += spoken.notes
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in spoken.calls
    ]
    return content


def _stop(spoken: Spoken) -> str:
    return str(spoken.report.get("stop_reason") or STOPS.get(spoken.stop, "pause_turn"))


def _report(spoken: Spoken) -> Json:
    known = ("stop_reason", "usage")
    return {name: value for name, value in spoken.report.items() if name not in known}


def _usage(spoken: Spoken, output: int | None = None) -> Json:
    counts = spoken.counts
    if counts is None:
        return {}
    return {
        "usage": {
            "input_tokens": counts.prompt - counts.read - counts.written,
            "cache_creation_input_tokens": counts.written,
            "cache_read_input_tokens": counts.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": counts.written - counts.written_1h,
                "ephemeral_1h_input_tokens": counts.written_1h,
            },
            "output_tokens": counts.output if output is None else min(output, counts.output),
            "service_tier": "standard",
            **spoken.report.get("usage", {}),
        }
    }


def _block_events(index: int, block: Json) -> Iterator[Event]:
    def delta(stage: Stage, change: Json) -> Event:
        return _event(stage, {"type": "content_block_delta", "index": index, "delta": change})

    match block["type"]:
        case "thinking":
            bare: Json = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [
                delta("thinking", {"type": "thinking_delta", "thinking": piece})
                for piece in in_pieces(block["thinking"]) or [""]
            ]
            deltas.append(
                delta("thinking", {"type": "signature_delta", "signature": block["signature"]})
            )
        case "redacted_thinking":
            bare, deltas = block, []
        case "compaction" if "signature" in block:
            bare, deltas = block, []
        case "compaction":
            bare = {"type": "compaction", "content": ""}
            whole = {"type": "compaction_delta", "content": block["content"]}
            deltas = [delta("other", whole)]
        case "tool_use":
            bare = {**block, "input": {}}
            deltas = [
                delta("call", {"type": "input_json_delta", "partial_json": piece})
                for piece in in_pieces(arguments_json(block["input"]))
            ]
        case _:
            bare = {"type": "text", "text": ""}
            deltas = [
                delta("text", {"type": "text_delta", "text": piece})
                for piece in in_pieces(block["text"])
            ]
    start = {"type": "content_block_start", "index": index, "content_block": bare}
    yield _event("other", start)
    yield from deltas
    yield _event("other", {"type": "content_block_stop", "index": index})


def _error(failure: WireFailure) -> Json:
    kind = failure.type or _TYPES.get(failure.status, "api_error")
    return {"type": kind, "message": failure.message}


def _event(stage: Stage, data: Json) -> Event:
    return Event(stage, sse(data, data["type"]))
