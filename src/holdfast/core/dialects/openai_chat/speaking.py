"""Replies of an agent as Chat Completions writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.rounds import write_event
from holdfast.core.dialects.common.speaking import AgentApi
from holdfast.core.dialects.common.values import as_dict
from holdfast.core.dialects.openai_chat.reply import report_usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.dialects.common.speaking import AgentReply, ListedModel, ReplyStream
    from holdfast.core.log.records import Json

_STOPS: Final[Mapping[str, str]] = {"length": "length", "window": "length"}
_DONE: Final = b"data: [DONE]\n\n"


class ChatAgentApi(AgentApi):
    """A completion with one choice."""

    fields = frozenset(
        ("model", "messages", "stream", "stream_options", "metadata", "user", "safety_identifier")
    )
    tuning_fields = frozenset(
        (
            *("max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "store"),
            *("frequency_penalty", "presence_penalty", "logit_bias", "reasoning_effort"),
            *("verbosity", "service_tier", "prompt_cache_key", "prompt_cache_retention"),
        )
    )
    plain_values: Mapping[str, object] = {
        "n": 1,
        "tool_choice": "none",
        "parallel_tool_calls": True,
        "response_format": {"type": "text"},
        "modalities": ["text"],
    }

    def write(self, reply: AgentReply) -> Json:
        message = {"role": "assistant", "content": reply.text, "refusal": None}
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": _stop(reply),
        }
        usage = report_usage(reply.counts)
        return {**_head(reply, "chat.completion"), "choices": [choice], "usage": usage}

    def open_stream(self, reply: AgentReply, body: Json) -> ReplyStream:
        asked = as_dict(body.get("stream_options")).get("include_usage") is True
        return _CompletionStream(reply, has_usage=asked)

    def write_model(self, model: ListedModel) -> Json:
        return write_openai_model(model)

    def list_models(self, models: Sequence[ListedModel]) -> Json:
        return list_openai_models(models)


class _CompletionStream:
    def __init__(self, reply: AgentReply, *, has_usage: bool) -> None:
        self._head = _head(reply, "chat.completion.chunk")
        self._has_usage = has_usage

    def begin(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def say(self, text: str) -> bytes:
        return self._chunk({"content": text})

    def end(self, reply: AgentReply) -> bytes:
        usage = b""
        if self._has_usage:
            usage = write_event({**self._head, "choices": [], "usage": report_usage(reply.counts)})
        return self._chunk({}, _stop(reply)) + usage + _DONE

    def _chunk(self, delta: Json, stop: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}
        return write_event({**self._head, "choices": [choice]})


def write_openai_model(model: ListedModel) -> Json:
    """Return a model as both APIs of OpenAI have it."""
    return {"id": model.id, "object": "model", "created": model.created, "owned_by": "holdfast"}


def list_openai_models(models: Sequence[ListedModel]) -> Json:
    """Return a list of models as both APIs of OpenAI have it."""
    return {"object": "list", "data": [write_openai_model(model) for model in models]}


def _head(reply: AgentReply, kind: str) -> Json:
    return {
        "id": f"chatcmpl-{reply.id}",
        "object": kind,
        "created": reply.created,
        "model": reply.model,
    }


def _stop(reply: AgentReply) -> str:
    if reply.stop == "refusal":  # a filter leaves no words
        return "stop" if reply.text else "content_filter"
    return _STOPS.get(reply.stop, "stop")
