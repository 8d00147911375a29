"""Replies of an agent as the Responses API writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.dialects.common.rounds import write_event
from holdfast.core.dialects.common.speaking import AgentApi
from holdfast.core.dialects.openai_chat.speaking import list_openai_models, write_openai_model
from holdfast.core.dialects.openai_responses.reply import report_usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.dialects.common.speaking import AgentReply, ListedModel, ReplyStream
    from holdfast.core.log.records import Json


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
