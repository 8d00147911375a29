"""Replies, streams and errors as OpenAI's Chat Completions writes them, and its imitators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.rule import bracket_path
from holdfast.core.dialects.common.values import as_dict
from holdfast.core.models.messages import arguments_json
from holdfast.testing.loopback.faults import OVERFLOWS, Sizes, WireFailure
from holdfast.testing.loopback.speaking import Event, in_pieces, sse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.dialects.common.rule import Violation
    from holdfast.core.log.records import Json
    from holdfast.testing.loopback.asking import Call
    from holdfast.testing.loopback.faults import Counts
    from holdfast.testing.loopback.speaking import Spoken, Stage

STOPS: Final = {
    "end": "stop",
    "tools": "tool_calls",
    "length": "length",
    "window": "model_context_window_exceeded",
}
DONE: Final = b"data: [DONE]\n\n"

TYPES: Final = {
    400: "invalid_request_error",
    401: "invalid_request_error",
    402: "insufficient_quota",
    403: "invalid_request_error",
    404: "invalid_request_error",
    413: "invalid_request_error",
    422: "invalid_request_error",
    429: "requests",
}
_HOSTS: Final = {"deepseek": "deepseek", "kimi": "kimi", "mistral": "mistral", "local": "llama.cpp"}
_COUNTS_INPUT_ONLY: Final = frozenset({"mistral"})
"""Hosts whose words about an overflow do not mention the room for the reply."""
_TOO_LONG: Final = frozenset({"string-length", "call-id-length"})


class ChatWire:
    request_header = "x-request-id"
    call_prefix = "call"
    reserves_output = True

    def count(self, tokens: int) -> Json:
        return {"input_tokens": tokens}

    def __init__(self, variant: str = "") -> None:
        self._host = _HOSTS.get(variant, "")

    def reply(self, spoken: Spoken) -> Json:
        choice = {
            "index": 0,
            "message": _message(spoken),
            "logprobs": None,
            "finish_reason": _stop(spoken),
        }
        return {**_head(spoken, "chat.completion"), "choices": [choice], **_usage(spoken.counts)}

    def events(self, spoken: Spoken) -> Iterator[Event]:
        yield _chunk("start", spoken, {"role": "assistant", "content": ""})
        for piece in in_pieces(spoken.thinking):
            yield _chunk("thinking", spoken, {"reasoning_content": piece})
        is_refused = spoken.stop == "refusal"
        for piece in in_pieces(spoken.text):
            yield _chunk("text", spoken, {"refusal" if is_refused else "content": piece})
        for index, call in enumerate(spoken.calls):
            yield from _call_events(spoken, index, call)
        yield _chunk("other", spoken, {}, _stop(spoken))
        asked = as_dict(spoken.body.get("stream_options")).get("include_usage") is True
        if asked and spoken.counts is not None:
            last = {**_head(spoken, "chat.completion.chunk"), "choices": []}
            yield Event("other", sse({**last, **_usage(spoken.counts)}))
        yield Event("other", DONE)

    def error(self, failure: WireFailure, _request_id: str) -> Json:
        return {"error": openai_error(failure)}

    def error_event(self, failure: WireFailure, _spoken: Spoken, _sent: int) -> bytes:
        return sse({"error": openai_error(failure)})

    def refusal(self, violation: Violation) -> WireFailure:
        return openai_refused(violation)

    def over_limit(self, tokens: int, output: int, limit: int) -> WireFailure:
        sizes = Sizes(tokens, output, limit)
        if self._host and (tokens > limit or self._host not in _COUNTS_INPUT_ONLY):
            return OVERFLOWS[self._host].with_sizes(sizes)
        if output:
            return OVERFLOWS["openai"].with_sizes(sizes)
        message = (
            "This model's maximum context length is {limit} tokens. However, your messages "
            "resulted in {input} tokens. Please reduce the length of the messages."
        )
        failure = WireFailure(message, code="context_length_exceeded", param="messages")
        return failure.with_sizes(sizes)

    def too_large(self) -> WireFailure:
        return WireFailure("Request Entity Too Large", 413)

    def over_output(self, output: int, limit: int, _model: str) -> WireFailure:
        return WireFailure(
            f"max_tokens is too large: {output}. This model supports at most {limit} completion "
            f"tokens, whereas you provided {output}.",
            param="max_tokens",
            code="invalid_value",
        )


def openai_error(failure: WireFailure) -> Json:
    """An error object as both of OpenAI's APIs have it."""
    return {
        "message": failure.message,
        "type": failure.type or TYPES.get(failure.status, "server_error"),
        "param": failure.param,
        "code": failure.code,
    }


def openai_refused(violation: Violation) -> WireFailure:
    code = "string_above_max_length" if violation.rule in _TOO_LONG else "invalid_value"
    return WireFailure(violation.quote, param=bracket_path(violation.where) or None, code=code)


def _head(spoken: Spoken, kind: str) -> Json:
    return {
        "id": f"chatcmpl-{spoken.id}",
        "object": kind,
        "created": spoken.created,
        "model": spoken.model,
        "system_fingerprint": "loopback",
    }


def _stop(spoken: Spoken) -> str:
    if spoken.stop == "refusal":
        # Who declines in words has come to an end; a filter leaves no words.
        return "stop" if spoken.text else "content_filter"
    return STOPS.get(spoken.stop, spoken.stop)


def _message(spoken: Spoken) -> Json:
    is_refused = spoken.stop == "refusal"
    message: Json = {
        "role": "assistant",
        "content": (spoken.text or None) if not is_refused else None,
        "refusal": (spoken.text or None) if is_refused else None,
    }
    if spoken.thinking:
        message["reasoning_content"] = spoken.thinking
    if spoken.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": _function(call)}
            for call in spoken.calls
        ]
    return message


def _function(call: Call) -> Json:
    return {"name": call.name, "arguments": arguments_json(call.arguments)}


def _call_events(spoken: Spoken, index: int, call: Call) -> Iterator[Event]:
    named = {"name": call.name, "arguments": ""}
    first = {"index": index, "id": call.id, "type": "function", "function": named}
    yield _chunk("other", spoken, {"tool_calls": [first]})
    for piece in in_pieces(arguments_json(call.arguments)):
        more = {"index": index, "function": {"arguments": piece}}
        yield _chunk("call", spoken, {"tool_calls": [more]})


def _chunk(stage: Stage, spoken: Spoken, delta: Json, stop: str | None = None) -> Event:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}
    return Event(stage, sse({**_head(spoken, "chat.completion.chunk"), "choices": [choice]}))


def _usage(counts: Counts | None) -> Json:
    if counts is None:
        return {}
    return {
        "usage": {
            "prompt_tokens": counts.prompt,
            "completion_tokens": counts.output,
            "total_tokens": counts.prompt + counts.output,
            "prompt_tokens_details": {"cached_tokens": counts.read, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": counts.thinking},
        }
    }
