"""LiteLLM's log: a line for each call, with the messages that were sent and the response.

A call that goes on where another one ended repeats its messages. Such calls are one conversation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.importers.apis import chat
from holdfast.importers.common import blocks
from holdfast.importers.common.base import (
    Draft,
    Imported,
    Importer,
    Source,
    describe_fields,
    finish,
    mapping,
    mappings,
    names_for,
    text_at,
)
from holdfast.importers.common.parsing import parse, seconds

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

_OWN: Final = frozenset(
    ("call_type", "custom_llm_provider", "litellm_call_id", "litellm_params", "response_cost")
)
"""Fields of a line that no other format has."""
_SAME: Final = ("role", "content", "tool_calls", "tool_call_id")
"""Fields that make two messages the same."""


def detect(source: Source) -> bool:
    lines = source.value if isinstance(source.value, list) else source.head
    return any(
        _OWN & line.keys() and "messages" in line and "response" in line
        for line in mappings(lines)[:8]
    )


class _Conversation:
    """Calls that go on from each other."""

    def __init__(self) -> None:
        self.draft = Draft()
        self.said: list[bytes] = []
        """The messages so far, as far as they can be compared."""

    def goes_on_with(self, sent: list[bytes]) -> bool:
        return len(sent) >= len(self.said) and sent[: len(self.said)] == self.said


def read(source: Source) -> list[Imported]:
    value = source.value
    lines = mappings(value) if isinstance(value, list) else [line.value for line in source.lines]
    found: list[_Conversation] = []
    lost = Draft()
    if isinstance(value, list):
        lost.skip("item that is not a call", "not an object", len(value) - len(lines))
    for line in lines:
        messages = line.get("messages")
        line["messages"] = parse(messages) if isinstance(messages, str) else messages
        if not isinstance(line["messages"], list):
            lost.skip("line without messages", "no call of a model")
            continue
        _carry(found, line, lost)
    if not found:
        return [lost.finish(source, "litellm")]
    names = names_for(source.stem, len(found))
    first = found[0].draft
    for skipped in lost.finish(source, "litellm", tells_flaws=False).skipped:
        first.skip(skipped.what, skipped.why, skipped.count)
    sessions = [(name, each.draft) for name, each in zip(names, found, strict=True)]
    return finish(source, "litellm", sessions)


def _carry(found: list[_Conversation], line: Json, lost: Draft) -> None:
    messages = mappings(line["messages"])
    lost.skip("item that is not a message", "not an object", len(line["messages"]) - len(messages))
    sent = [_sign(message) for message in messages]
    newest = reversed(found)
    talk = next((each for each in newest if each.said and each.goes_on_with(sent)), None)
    if talk is None:
        talk = _Conversation()
        found.append(talk)
    draft = talk.draft
    about: dict[str, Any] = {
        "provider": text_at(line, "custom_llm_provider") or None,
        "model": text_at(line, "model") or None,
    }
    begun = seconds(line.get("startTime"))
    for message in messages[len(talk.said) :]:
        chat.carry_message(draft, {"timestamp": begun, **message}, **about)
    draft.tools = chat.tools_of(_parameters(line).get("tools")) or draft.tools
    talk.said = sent
    response = line.get("response")
    response = mapping(parse(response) if isinstance(response, str) else response)
    reply = _reply(response, line)
    if reply is None:
        why = "it failed, or its response was not logged"
        if response and not isinstance(response.get("choices"), list):
            why = f"its response is not read: {describe_fields(response)}"
        draft.skip("call without a reply", why)
        return
    others = len(mappings(response.get("choices"))) - 1
    draft.skip("choice of a reply", "a conversation goes on with the first one", others)
    ended = seconds(line.get("endTime")) or begun
    chat.carry_message(draft, {"timestamp": ended, **reply}, **about)
    talk.said.append(_sign(reply))


def _parameters(line: Json) -> Json:
    given = line.get("model_parameters") or line.get("optional_params")
    return mapping(given) or line


def _reply(response: Json, line: Json) -> Json | None:
    """The message of the response, with its usage."""
    choice = next(iter(mappings(response.get("choices"))), None)
    if choice is None:  # Anthropic's response is the message
        is_message = response.get("role") == "assistant" and bool(response.get("content"))
        return response if is_message else None
    usage = mapping(response.get("usage"))
    if not usage and isinstance(line.get("prompt_tokens"), int):
        usage = {name: line.get(name) for name in ("prompt_tokens", "completion_tokens")}
    return {
        **mapping(choice.get("message")),
        "role": "assistant",
        "usage": usage,
        "finish_reason": choice.get("finish_reason"),
    }


def _sign(message: Json) -> bytes:
    """Return the parts by which two messages are one; an empty field is an absent one."""
    kept = {name: message[name] for name in _SAME if message.get(name)}
    if isinstance(kept.get("content"), list):
        kept["content"] = blocks.content_of(kept["content"])
    return msgspec.json.encode(kept, order="deterministic")


IMPORTER: Final = Importer("litellm", "LiteLLM log lines, one call each", detect, read)
