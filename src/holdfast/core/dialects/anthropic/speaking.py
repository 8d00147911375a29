"""Replies of an agent as the Messages API writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.anthropic.reply import report_usage
from holdfast.core.dialects.common.rounds import write_event
from holdfast.core.dialects.common.speaking import AgentApi

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.dialects.common.speaking import AgentReply, ListedModel, ReplyStream
    from holdfast.core.log.records import Json

_STOPS: Final[Mapping[str, str]] = {
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
            **_message(reply),
            "content": [{"type": "text", "text": reply.text}],
            "stop_reason": _stop(reply),
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
            **_message(self._reply),
            "content": [],
            "stop_reason": None,
            "usage": report_usage(self._reply.counts),
        }
        block = {"type": "text", "text": ""}
        return _write({"type": "message_start", "message": message}) + _write(
            {"type": "content_block_start", "index": 0, "content_block": block}
        )

    def say(self, text: str) -> bytes:
        delta = {"type": "text_delta", "text": text}
        return _write({"type": "content_block_delta", "index": 0, "delta": delta})

    def end(self, reply: AgentReply) -> bytes:
        delta = {"stop_reason": _stop(reply), "stop_sequence": None}
        usage = report_usage(reply.counts)
        return (
            _write({"type": "content_block_stop", "index": 0})
            + _write({"type": "message_delta", "delta": delta, "usage": usage})
            + _write({"type": "message_stop"})
        )


def _message(reply: AgentReply) -> Json:
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "stop_sequence": None,
    }


def _stop(reply: AgentReply) -> str:
    return _STOPS.get(reply.stop, "end_turn")


def _write(event: Json) -> bytes:
    return write_event(event, event["type"])
