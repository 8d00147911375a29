"""Replies of the Responses API: read whole or as a stream, and written for an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.reading import (
    ReplyFailed,
    call_block,
    is_whole,
    settle_stop,
    text_block,
)
from holdfast.core.dialects.common.rounds import write_event
from holdfast.core.dialects.common.speaking import AgentApi
from holdfast.core.dialects.common.values import as_dict, as_dicts, as_text
from holdfast.core.dialects.openai_chat.reply import list_openai_models, write_openai_model
from holdfast.core.models.replies import Delta, Reply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.dialects.common.reading import TokenCounts
    from holdfast.core.dialects.common.speaking import AgentReply, ListedModel, ReplyStream
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.replies import Stop


_STOPS: Final[Mapping[str, Stop]] = {
    "completed": "end",
    "cancelled": "cancelled",
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "refusal",
}
_TEXTS: Final = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THOUGHTS: Final = frozenset(
    {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
)
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.cancelled"})


def is_reply(body: Json) -> bool:
    return "output" in body or body.get("object") == "response" or bool(body.get("error"))


def read(body: Json, target: Target) -> Reply:
    """A reply from the JSON of a response."""
    if body.get("status") == "failed" or (body.get("error") and not body.get("output")):
        raise ReplyFailed("the provider's response failed", body=body)
    reason = as_text(as_dict(body.get("incomplete_details")).get("reason"))
    reason = reason or as_text(body.get("status"))
    items = as_dicts(body.get("output"))
    if _STOPS.get(reason) == "length":
        items = _without_half_a_call(items)
    content = [block for item in items for block in _blocks(item)]
    stop = _STOPS.get(reason, "other" if reason else "end")
    if any(part.get("type") == "refusal" for item in items for part in _parts(item)):
        stop = "refusal"
    return Reply(
        content=content,
        stop=settle_stop(stop, content),
        stop_reason=reason,
        raw_usage=as_dict(body.get("usage")) or None,
        provider=target.provider,
        model=target.model or as_text(body.get("model")),
    )


def _without_half_a_call(items: list[Json]) -> list[Json]:
    last = items[-1] if items else {}
    is_half = last.get("status") == "incomplete" or not is_whole(last.get("arguments"))
    return items[:-1] if last.get("type") == "function_call" and is_half else items


def _parts(item: Json) -> list[Json]:
    return as_dicts(item.get("content")) if item.get("type") == "message" else []


def _blocks(item: Json) -> list[Json]:
    match item.get("type"):
        case "message":
            phase = {"phase": item["phase"]} if isinstance(item.get("phase"), str) else {}
            return [{**block, **phase} for part in _parts(item) for block in _text_blocks(part)]
        case "function_call":
            call_id = item.get("call_id") or item.get("id")
            return [call_block(call_id, item.get("name"), item.get("arguments"))]
        case "custom_tool_call":
            given = {"input": item.get("input")}
            return [call_block(item.get("call_id"), item.get("name"), given)]
        case _:  # reasoning goes back as it came; what servers' tools did is kept
            return [{name: value for name, value in item.items() if value is not None}]


def _text_blocks(part: Json) -> list[Json]:
    match part.get("type"):
        case "output_text" | "text":
            notes = as_dicts(part.get("annotations"))
            said = text_block(as_text(part.get("text")))
            return [{**block, **({"annotations": notes} if notes else {})} for block in said]
        case "refusal":
            return text_block(as_text(part.get("refusal")))
        case _:
            return [part]


class ResponsesStream:
    """Puts a streamed response together."""

    def __init__(self) -> None:
        self.is_complete = False
        self._response: Json = {}
        self._done: dict[int, Json] = {}
        self._open: dict[int, Json] = {}
        self._words: dict[int, dict[int, list[str]]] = {}

    def take(self, event: Json) -> list[Delta]:
        kind = as_text(event.get("type"))
        place = _number(event, "output_index")
        if kind in _ENDS:
            self._response = as_dict(event.get("response"))
            self.is_complete = True
        elif kind in ("error", "response.failed", "response.error"):
            body = as_dict(event.get("response")) or event
            raise ReplyFailed("the provider broke the stream off with an error", body=body)
        elif kind in ("response.created", "response.in_progress"):
            self._response = as_dict(event.get("response"))
        elif kind == "response.output_item.added":
            item = self._open[place] = as_dict(event.get("item"))
            if item.get("type") in ("function_call", "custom_tool_call"):
                return [Delta("call", as_text(item.get("name")))]
        elif kind == "response.output_item.done":
            self._done[place] = as_dict(event.get("item"))
        elif kind in _TEXTS:
            parts = self._words.setdefault(place, {})
            said = as_text(event.get("delta"))
            parts.setdefault(_number(event, "content_index"), []).append(said)
            return [Delta("text", said)] if said else []
        elif kind in _THOUGHTS and as_text(event.get("delta")):
            return [Delta("thinking", event["delta"])]
        return []

    def body(self) -> Json:
        output = as_dicts(self._response.get("output"))
        if self.is_complete and output:
            return self._response
        # Some hosts leave the last event's output empty; and some streams have no last event.
        return {**self._response, "output": self._items()}

    def _items(self) -> list[Json]:
        found = []
        for place in sorted({*self._done, *self._words}):
            if place in self._done:
                found.append(self._done[place])
                continue
            parts = self._words[place]
            content = [{"type": "output_text", "text": "".join(parts[at])} for at in sorted(parts)]
            found.append({**self._open.get(place, {}), "type": "message", "content": content})
        return found


def _number(event: Json, name: str) -> int:
    value = event.get(name)
    return value if isinstance(value, int) else 0


def report_usage(counts: TokenCounts) -> Json:
    return {
        "input_tokens": counts.prompt,
        "input_tokens_details": {"cached_tokens": counts.read},
        "output_tokens": counts.output,
        "total_tokens": counts.prompt + counts.output,
    }


class ResponsesAgentApi(AgentApi):
    """A response with one message."""

    fields = frozenset(
        (
            *("model", "input", "stream", "stream_options", "metadata", "user", "include"),
            *("previous_response_id", "safety_identifier"),
        )
    )
    tuning_fields = frozenset(
        (
            *("max_output_tokens", "temperature", "top_p", "store", "reasoning", "service_tier"),
            *("prompt_cache_key", "prompt_cache_retention", "truncation", "client_metadata"),
        )
    )
    plain_values: Mapping[str, object] = {
        "tool_choice": "none",
        "parallel_tool_calls": True,
        "text": {"format": {"type": "text"}},
    }

    def write(self, reply: AgentReply) -> Json:
        return {
            **_response(reply),
            "status": _status(reply),
            "incomplete_details": _incomplete(reply),
            "output": [_item(reply)],
            "usage": _usage(reply),
        }

    def open_stream(self, reply: AgentReply, body: Json) -> ReplyStream:
        del body
        return _ResponseStream(self, reply)

    def write_model(self, model: ListedModel) -> Json:
        return write_openai_model(model)

    def list_models(self, models: Sequence[ListedModel]) -> Json:
        return list_openai_models(models)


class _ResponseStream:
    """Every event has its number."""

    def __init__(self, api: ResponsesAgentApi, reply: AgentReply) -> None:
        self._api = api
        self._reply = reply
        self._number = 0
        self._place = {"item_id": f"msg_{reply.id}", "output_index": 0, "content_index": 0}

    def begin(self) -> bytes:
        begun = {**_response(self._reply), "status": "in_progress", "output": []}
        item = {**_item(self._reply), "status": "in_progress", "content": []}
        return (
            self._write("response.created", {"response": begun})
            + self._write("response.in_progress", {"response": begun})
            + self._write("response.output_item.added", {"output_index": 0, "item": item})
            + self._write("response.content_part.added", {**self._place, "part": _part("")})
        )

    def say(self, text: str) -> bytes:
        return self._write(
            "response.output_text.delta", {**self._place, "delta": text, "logprobs": []}
        )

    def end(self, reply: AgentReply) -> bytes:
        said = {**self._place, "text": reply.text, "logprobs": []}
        part = {**self._place, "part": _part(reply.text)}
        whole = {"response": self._api.write(reply)}
        return (
            self._write("response.output_text.done", said)
            + self._write("response.content_part.done", part)
            + self._write("response.output_item.done", {"output_index": 0, "item": _item(reply)})
            + self._write(f"response.{_status(reply)}", whole)
        )

    def _write(self, kind: str, data: Json) -> bytes:
        event = {"type": kind, "sequence_number": self._number, **data}
        self._number += 1
        return write_event(event, kind)


def _response(reply: AgentReply) -> Json:
    return {
        "id": f"resp_{reply.id}",
        "object": "response",
        "created_at": reply.created,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": reply.model,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "temperature": None,
        "tool_choice": "none",
        "tools": [],
        "top_p": None,
        "usage": None,
    }


def _item(reply: AgentReply) -> Json:
    return {
        "type": "message",
        "id": f"msg_{reply.id}",
        "role": "assistant",
        "status": _status(reply),
        "content": [_part(reply.text)],
    }


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


def _incomplete(reply: AgentReply) -> Json | None:
    """The reason why a response is incomplete; this API has one word for window and output cap."""
    if reply.stop in ("length", "window"):
        return {"reason": "max_output_tokens"}
    return {"reason": "content_filter"} if reply.stop == "refusal" and not reply.text else None


def _status(reply: AgentReply) -> str:
    return "incomplete" if _incomplete(reply) else "completed"


def _usage(reply: AgentReply) -> Json:
    details = {"output_tokens_details": {"reasoning_tokens": 0}}
    return {**report_usage(reply.counts), **details}
