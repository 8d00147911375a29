"""Replies of generateContent: read whole or as a stream, and written for an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.reading import (
    ReplyFailed,
    call_block,
    settle_stop,
)
from holdfast.core.dialects.common.rounds import write_event
from holdfast.core.dialects.common.speaking import AgentApi
from holdfast.core.dialects.common.values import as_dict, as_dicts, as_text
from holdfast.core.dialects.gemini.client import either
from holdfast.core.models.replies import Delta, Reply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.dialects.common.reading import TokenCounts
    from holdfast.core.dialects.common.speaking import AgentReply, ListedModel, ReplyStream
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.replies import Stop


_STOPS: Final[Mapping[str, Stop]] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"), "refusal"
    ),
    "MODEL_ARMOR": "refusal",
    **dict.fromkeys(("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"), "refusal"),
}


def is_reply(body: Json) -> bool:
    return any(
        name in body for name in ("candidates", "promptFeedback", "prompt_feedback", "error")
    )


def read(body: Json, target: Target) -> Reply:
    """A reply from the JSON of a response; of several candidates, the first."""
    candidates = as_dicts(body.get("candidates"))
    if not candidates and body.get("error"):
        raise ReplyFailed("the provider answered with an error", body=body)
    candidate = candidates[0] if candidates else {}
    parts = as_dicts(as_dict(candidate.get("content")).get("parts"))
    content = [block for part in parts for block in _block(part)]
    reason = as_text(either(candidate, "finishReason", "finish_reason"))
    stop: Stop = _STOPS.get(reason, "other" if reason else "end")
    blocked = as_dict(either(body, "promptFeedback", "prompt_feedback"))
    why = as_text(either(blocked, "blockReason", "block_reason"))
    if why and not candidates:
        stop, reason = "refusal", why
    return Reply(
        content=content,
        stop=settle_stop(stop, content),
        stop_reason=reason,
        raw_usage=as_dict(either(body, "usageMetadata", "usage_metadata")) or None,
        provider=target.provider,
        model=target.model or as_text(either(body, "modelVersion", "model_version")),
    )


def _block(part: Json) -> list[Json]:
    signature = as_text(either(part, "thoughtSignature", "thought_signature"))
    call = either(part, "functionCall", "function_call")
    data = as_dict(either(part, "inlineData", "inline_data"))
    signed = {"thought_signature": signature} if signature else {}
    if isinstance(call, dict):
        return [{**call_block(call.get("id"), call.get("name"), call.get("args")), **signed}]
    if isinstance(part.get("text"), str):
        if part.get("thought"):
            sealed = {"signature": signature} if signature else {}
            return [{"type": "thinking", "thinking": part["text"], **sealed}]
        # An empty text can still hold a signature.
        is_empty = not part["text"] and not signed
        return [] if is_empty else [{"type": "text", "text": part["text"], **signed}]
    if data:
        media = as_text(either(data, "mimeType", "mime_type"))
        source = {"type": "base64", "media_type": media, "data": as_text(data.get("data"))}
        return [{"type": "image", "source": source}]
    kept = {name: value for name, value in part.items() if value is not None}
    kind = next((name for name in kept if isinstance(kept[name], dict)), "part")
    return [{"type": kind, **kept}] if kept else []


class GeminiStream:
    """Puts streamed responses together: each is whole in itself, with a piece of the text."""

    def __init__(self) -> None:
        self.is_complete = False
        self._about: Json = {}
        self._candidate: Json = {}
        self._parts: list[Json] = []

    def take(self, event: Json) -> list[Delta]:
        if event.get("error"):
            raise ReplyFailed("the provider broke the stream off with an error", body=event)
        self._about.update(
            {name: value for name, value in event.items() if name != "candidates" and value}
        )
        candidates = as_dicts(event.get("candidates"))
        self.is_complete = self.is_complete or bool(
            either(event, "promptFeedback", "prompt_feedback")
        )
        if not candidates:
            return []
        candidate = candidates[0]
        self._candidate.update({name: value for name, value in candidate.items() if value})
        self.is_complete |= bool(either(candidate, "finishReason", "finish_reason"))
        heard: list[Delta] = []
        for part in as_dicts(as_dict(candidate.get("content")).get("parts")):
            heard += _read_part(part)
            self._add(part)
        return heard

    def _add(self, part: Json) -> None:
        last = self._parts[-1] if self._parts else {}
        if _continues(last, part):
            self._parts[-1] = {**last, **part, "text": last["text"] + part["text"]}
        else:
            self._parts.append(part)

    def body(self) -> Json:
        if not self._candidate:
            return self._about
        content = {"role": "model", "parts": self._parts}
        return {**self._about, "candidates": [{**self._candidate, "content": content}]}


def _continues(last: Json, part: Json) -> bool:
    """Return whether a part is more of the text before it: of one kind, and that one not sealed
    yet."""
    is_text = isinstance(last.get("text"), str) and isinstance(part.get("text"), str)
    is_sealed = bool(either(last, "thoughtSignature", "thought_signature"))
    return is_text and not is_sealed and bool(last.get("thought")) == bool(part.get("thought"))


def _read_part(part: Json) -> list[Delta]:
    call = either(part, "functionCall", "function_call")
    if isinstance(call, dict):
        return [Delta("call", as_text(call.get("name")))]
    said = as_text(part.get("text"))
    return [Delta("thinking" if part.get("thought") else "text", said)] if said else []


def report_usage(counts: TokenCounts) -> Json:
    return {
        "promptTokenCount": counts.prompt,
        "cachedContentTokenCount": counts.read,
        "candidatesTokenCount": counts.output,
        "totalTokenCount": counts.prompt + counts.output,
    }


_STOP_REASONS: Final[Mapping[str, str]] = {
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
            **_candidate(reply, reply.text, _STOP_REASONS.get(reply.stop, "STOP")),
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
        stop = _STOP_REASONS.get(reply.stop, "STOP")
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
