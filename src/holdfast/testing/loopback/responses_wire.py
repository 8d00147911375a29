"""Replies, streams and errors as OpenAI's Responses API writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.models.messages import arguments_json
from holdfast.testing.loopback.chat_wire import openai_error, openai_refused
from holdfast.testing.loopback.faults import OVERFLOWS, Sizes, WireFailure
from holdfast.testing.loopback.speaking import Event, in_pieces, sse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.dialects.common.rule import Violation
    from holdfast.core.log.records import Json
    from holdfast.testing.loopback.faults import Counts
    from holdfast.testing.loopback.speaking import Spoken, Stage


class ResponsesWire:
    request_header = "x-request-id"
    call_prefix = "call"
    reserves_output = True

    def count(self, tokens: int) -> Json:
        return {"input_tokens": tokens, "object": "response.input_tokens"}

    def reply(self, spoken: Spoken) -> Json:
        return _response(spoken, _status(spoken), _items(spoken), spoken.counts)

    def events(self, spoken: Spoken) -> Iterator[Event]:
        for number, (stage, kind, data) in enumerate(self._events(spoken)):
            yield Event(stage, sse({"type": kind, "sequence_number": number, **data}, kind))

    def _events(self, spoken: Spoken) -> Iterator[tuple[Stage, str, Json]]:
        begun = {"response": _response(spoken, "in_progress", [], None)}
        yield "start", "response.created", begun
        yield "other", "response.in_progress", begun
        for index, item in enumerate(_items(spoken)):
            bare = {**item, "status": "in_progress", **_EMPTIED[item["type"]]}
            yield "other", "response.output_item.added", {"output_index": index, "item": bare}
            where = {"item_id": item["id"], "output_index": index}
            yield from _TELL[item["type"]](item, where)
            yield "other", "response.output_item.done", {"output_index": index, "item": item}
        status = _status(spoken)
        yield "other", f"response.{status}", {"response": self.reply(spoken)}

    def error(self, failure: WireFailure, _request_id: str) -> Json:
        return {"error": openai_error(failure)}

    def error_event(self, failure: WireFailure, spoken: Spoken, sent: int) -> bytes:
        """An overflow fails the response; anything else is an error of the stream."""
        if failure.code == "context_length_exceeded":
            said = {"code": failure.code, "message": failure.message}
            response = {**_response(spoken, "failed", [], None), "error": said}
            data: Json = {"type": "response.failed", "response": response}
            return sse({**data, "sequence_number": sent}, "response.failed")
        told = openai_error(failure)
        event = {name: told[name] for name in ("code", "message", "param")}
        return sse({"type": "error", **event, "sequence_number": sent}, "error")

    def refusal(self, violation: Violation) -> WireFailure:
        return openai_refused(violation)

    def over_limit(self, tokens: int, output: int, limit: int) -> WireFailure:
        return OVERFLOWS["openai-responses"].with_sizes(Sizes(tokens, output, limit))

    def too_large(self) -> WireFailure:
        return WireFailure("Request Entity Too Large", 413)

    def over_output(self, output: int, limit: int, _model: str) -> WireFailure:
        return WireFailure(
            f"Invalid 'max_output_tokens': integer above maximum value. Expected a value <= "
            f"{limit}, but got {output} instead.",
            param="max_output_tokens",
            code="integer_above_max_value",
        )


def _status(spoken: Spoken) -> str:
    return "incomplete" if _reason(spoken) else "completed"


def _reason(spoken: Spoken) -> str | None:
    """Why a response is incomplete; this API does not tell the window from the output cap."""
    if spoken.stop in ("length", "window"):
        return "max_output_tokens"
    return "content_filter" if spoken.stop == "refusal" and not spoken.text else None


def _response(spoken: Spoken, status: str, output: list[Json], counts: Counts | None) -> Json:
    reason = _reason(spoken) if status == "incomplete" else None
    return {
        "id": f"resp_{spoken.id}",
        "object": "response",
        "created_at": spoken.created,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": spoken.body.get("instructions"),
        "metadata": {},
        "model": spoken.model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": spoken.body.get("tool_choice", "auto"),
        "tools": spoken.body.get("tools", []),
        "top_p": 1.0,
        "max_output_tokens": spoken.body.get("max_output_tokens"),
        "previous_response_id": None,
        "reasoning": spoken.body.get("reasoning") or {"effort": None, "summary": None},
        "store": spoken.body.get("store", True),
        "text": {"format": {"type": "text"}},
        "truncation": "disabled",
        "usage": _usage(counts),
    }


def _items(spoken: Spoken) -> list[Json]:
    items = [*spoken.thoughts]
    if spoken.text:
        is_refused = spoken.stop == "refusal"
        part: Json = (
            {"type": "refusal", "refusal": spoken.text}
            if is_refused
            else {"type": "output_text", "text": spoken.text, "annotations": []}
        )
        items.append(
            {
                "type": "message",
                "id": f"msg_{spoken.id}",
                "role": "assistant",
                "status": _status(spoken),
                "content": [part],
            }
        )
    items += [
        {
            "type": "function_call",
            "id": f"fc_{spoken.id}_{index}",
            "call_id": call.id,
            "name": call.name,
            "arguments": arguments_json(call.arguments),
            "status": "completed",
        }
        for index, call in enumerate(spoken.calls)
    ]
    return items


_EMPTIED: Final[dict[str, Json]] = {
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "reasoning": {"summary": []},
    "compaction": {},
}


def _tell_message(item: Json, where: Json) -> Iterator[tuple[Stage, str, Json]]:
    part = item["content"][0]
    place = {**where, "content_index": 0}
    kind, field = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
    bare = {**part, field: ""}
    yield "other", "response.content_part.added", {**place, "part": bare}
    for piece in in_pieces(part[field]):
        yield "text", f"response.{kind}.delta", {**place, "delta": piece, "logprobs": []}
    yield "other", f"response.{kind}.done", {**place, field: part[field], "logprobs": []}
    yield "other", "response.content_part.done", {**place, "part": part}


def _tell_call(item: Json, where: Json) -> Iterator[tuple[Stage, str, Json]]:
    for piece in in_pieces(item["arguments"]):
        yield "call", "response.function_call_arguments.delta", {**where, "delta": piece}
    done = {**where, "name": item["name"], "arguments": item["arguments"]}
    yield "other", "response.function_call_arguments.done", done


def _tell_reasoning(item: Json, where: Json) -> Iterator[tuple[Stage, str, Json]]:
    if not item["summary"]:
        return
    part = item["summary"][0]
    place = {**where, "summary_index": 0}
    bare = {**part, "text": ""}
    yield "other", "response.reasoning_summary_part.added", {**place, "part": bare}
    for piece in in_pieces(part["text"]):
        yield "thinking", "response.reasoning_summary_text.delta", {**place, "delta": piece}
    yield "other", "response.reasoning_summary_text.done", {**place, "text": part["text"]}
    yield "other", "response.reasoning_summary_part.done", {**place, "part": part}


def _tell_nothing(_item: Json, _where: Json) -> Iterator[tuple[Stage, str, Json]]:
    yield from ()


_TELL: Final = {
    "message": _tell_message,
    "function_call": _tell_call,
    "reasoning": _tell_reasoning,
    "compaction": _tell_nothing,
}


def _usage(counts: Counts | None) -> Json | None:
    if counts is None:
        return None
    return {
        "input_tokens": counts.prompt,
        "input_tokens_details": {"cached_tokens": counts.read},
        "output_tokens": counts.output,
        "output_tokens_details": {"reasoning_tokens": counts.thinking},
        "total_tokens": counts.prompt + counts.output,
    }
