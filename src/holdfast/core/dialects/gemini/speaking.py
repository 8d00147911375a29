"""Replies of an agent as the Gemini API writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.rounds import write_event
from holdfast.core.dialects.common.speaking import AgentApi
from holdfast.core.dialects.gemini.reply import report_usage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.dialects.common.speaking import AgentReply, ListedModel, ReplyStream
    from holdfast.core.log.records import Json

_STOPS: Final[Mapping[str, str]] = {
    "length": "MAX_TOKENS",
    "window": "MAX_TOKENS",
    "refusal": "SAFETY",
}


class GeminiAgentApi(AgentApi):
    """A candidate; the address names the model and says whether it streams."""

    fields = frozenset(("contents", "labels"))
    tuning_fields = frozenset(
        ("generationConfig", "generation_config", "safetySettings", "safety_settings")
    )
    plain_values: Mapping[str, object] = {}

    def wants_stream(self, body: Json, address: str) -> bool:
        del body
        return ":streamGenerateContent" in address

    def write(self, reply: AgentReply) -> Json:
        return {
            **_candidate(reply, reply.text, _STOPS.get(reply.stop, "STOP")),
            "usageMetadata": report_usage(reply.counts),
        }

    def open_stream(self, reply: AgentReply, body: Json) -> ReplyStream:
        del body
        return _CandidateStream(reply)

    def write_model(self, model: ListedModel) -> Json:
        return {
            "name": f"models/{model.id}",
            "displayName": model.id,
            "supportedGenerationMethods": ["generateContent"],
        }

    def list_models(self, models: Sequence[ListedModel]) -> Json:
        return {"models": [self.write_model(model) for model in models]}


class _CandidateStream:
    def __init__(self, reply: AgentReply) -> None:
        self._reply = reply

    def begin(self) -> bytes:
        return b""

    def say(self, text: str) -> bytes:
        return write_event(_candidate(self._reply, text))

    def end(self, reply: AgentReply) -> bytes:
        stop = _STOPS.get(reply.stop, "STOP")
        usage = report_usage(reply.counts)
        return write_event({**_candidate(reply, "", stop), "usageMetadata": usage})


def _candidate(reply: AgentReply, text: str, stop: str = "") -> Json:
    content = {"role": "model", "parts": [{"text": text}]}
    ended = {"finishReason": stop} if stop else {}
    return {
        "candidates": [{"index": 0, "content": content, **ended}],
        "modelVersion": reply.model,
        "responseId": reply.id,
    }
