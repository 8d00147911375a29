"""Replies, streams and errors as Gemini's generateContent writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.testing.loopback.faults import OVERFLOWS, Sizes, WireFailure
from holdfast.testing.loopback.speaking import Event, in_pieces, sse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.dialects.common.rule import Violation
    from holdfast.core.log.records import Json
    from holdfast.testing.loopback.faults import Counts
    from holdfast.testing.loopback.speaking import Spoken, Stage

STOPS: Final = {
    "end": "STOP",
    "tools": "STOP",
    "length": "MAX_TOKENS",
    "window": "MAX_TOKENS",
    "refusal": "SAFETY",
}
_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class GeminiWire:
    request_header = "x-request-id"
    call_prefix = "call"
    reserves_output = False

    def count(self, tokens: int) -> Json:
        return {"totalTokens": tokens}

    def reply(self, spoken: Spoken) -> Json:
        parts = [part for _stage, part in _parts(spoken, in_whole=True)]
        if spoken.signature and not spoken.calls:
            parts[-1] = {**parts[-1], **_sign_text(spoken)}
        return _response(spoken, parts, stop=_stop(spoken))

    def events(self, spoken: Spoken) -> Iterator[Event]:
        """Each event is a response of its own; the last one says why the reply ended."""
        for stage, part in _parts(spoken):
            yield Event(stage, sse(_response(spoken, [part])))
        signed = {} if spoken.calls or not spoken.signature else _sign_text(spoken)
        last = _response(spoken, [{"text": "", **signed}], stop=_stop(spoken))
        yield Event("other", sse(last))

    def error(self, failure: WireFailure, _request_id: str) -> Json:
        status = failure.type or _STATUSES.get(failure.status, "UNKNOWN")
        return {"error": {"code": failure.status, "message": failure.message, "status": status}}

    def error_event(self, failure: WireFailure, _spoken: Spoken, _sent: int) -> bytes:
        return sse(self.error(failure, ""))

    def refusal(self, violation: Violation) -> WireFailure:
        return WireFailure(violation.quote)

    def over_limit(self, tokens: int, output: int, limit: int) -> WireFailure:
        return OVERFLOWS["gemini"].with_sizes(Sizes(tokens, output, limit))

    def too_large(self) -> WireFailure:
        return WireFailure("Request payload size exceeds the limit: 20971520 bytes.")

    def over_output(self, output: int, limit: int, _model: str) -> WireFailure:
        return WireFailure(
            f"Unable to submit request because it has a maxOutputTokens value of {output} but the "
            f"supported range is from 1 (inclusive) to {limit + 1} (exclusive). Update the value "
            "and try again."
        )


def _stop(spoken: Spoken) -> str:
    return STOPS.get(spoken.stop, "OTHER")


def _response(spoken: Spoken, parts: list[Json], stop: str = "") -> Json:
    candidate: Json = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if stop:
        candidate["finishReason"] = stop
    return {
        "candidates": [candidate],
        **(_usage(spoken.counts) if stop else {}),
        "modelVersion": spoken.model,
        "responseId": spoken.id,
    }


def _sign_text(spoken: Spoken) -> Json:
    return {"thoughtSignature": spoken.signature}


def _parts(spoken: Spoken, *, in_whole: bool = False) -> Iterator[tuple[Stage, Json]]:
    """The parts of a reply, texts in pieces. The first of several calls is signed."""
    for text, stage, mark in (
        (spoken.thinking, "thinking", {"thought": True}),
        (spoken.text, "text", {}),
    ):
        for piece in [text] if in_whole and text else in_pieces(text):
            yield stage, {"text": piece, **mark}  # type: ignore[misc]
    for index, call in enumerate(spoken.calls):
        part: Json = {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}}
        if index == 0:
            part["thoughtSignature"] = spoken.signature
        yield "call", part


def _usage(counts: Counts | None) -> Json:
    if counts is None:
        return {}
    return {
        "usageMetadata": {
            "promptTokenCount": counts.prompt,
            "cachedContentTokenCount": counts.read,
            "candidatesTokenCount": counts.output - counts.thinking,
            "thoughtsTokenCount": counts.thinking,
            "totalTokenCount": counts.prompt + counts.output,
        }
    }
