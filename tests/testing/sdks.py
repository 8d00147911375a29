"""The real SDKs against a loopback: every dialect, blocking and awaited, streamed and not."""

from __future__ import annotations

import asyncio
import functools
import json
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from holdfast.core.dialects.registry import render_body, target
from holdfast.core.models.messages import Message, Prompt, Text

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Tool

TARGETS: dict[str, Target] = {
    "anthropic": target("anthropic", provider="anthropic", model="claude-opus-4-5"),
    "openai-chat": target("openai-chat", provider="openai", model="gpt-4o"),
    "openai-responses": target("openai-responses", provider="openai", model="gpt-4o"),
}


class Way(NamedTuple):
    """How a request is made."""

    dialect: str
    is_streamed: bool = False
    is_awaited: bool = False

    def __str__(self) -> str:
        streamed = "stream" if self.is_streamed else "whole"
        return f"{self.dialect}-{streamed}-{'async' if self.is_awaited else 'sync'}"


DIALECTS: tuple[str, ...] = ("anthropic", "openai-chat", "openai-responses")
WAYS = [
    Way(dialect, streamed, awaited)
    for dialect in DIALECTS
    for streamed in (False, True)
    for awaited in (False, True)
]
BLOCKING = [way for way in WAYS if not way.is_awaited]
STREAMS = [way for way in BLOCKING if way.is_streamed]
WHOLES = [way for way in BLOCKING if not way.is_streamed]


class Addressed(Protocol):
    """A loopback, or a proxy in front of it."""

    @property
    def url(self) -> str: ...
    @property
    def openai_url(self) -> str: ...


class Got(NamedTuple):
    """A reply as the SDK gave it, in one shape."""

    text: str
    calls: list[tuple[str, str, Json]]
    """Id, name, arguments."""
    thinking: str
    stop: str
    usage: Json | None
    raw: Any


def said(text: str, *, tools: tuple[Tool, ...] = (), system: str = "", output: int = 500) -> Prompt:
    """A prompt of one user message."""
    return Prompt((Message("user", (Text(text),)),), system, tools, output)


def body_of(way: Way | str, prompt: Prompt, **changes: Any) -> Json:
    dialect = way.dialect if isinstance(way, Way) else way
    return {**render_body(prompt, TARGETS[dialect]), **changes}


def ask(loopback: Addressed, way: Way, prompt: Prompt | str = "Hello", **changes: Any) -> Got:
    """Send a prompt through the SDK. No retries, so that each fault is seen."""
    prompt = said(prompt) if isinstance(prompt, str) else prompt
    return send(loopback, way, body_of(way, prompt, **changes))


def send(loopback: Addressed, way: Way, body: Json, *, timeout: float = 20.0) -> Got:
    if way.dialect == "openai-chat" and way.is_streamed:
        body = {**body, "stream_options": {"include_usage": True}}
    if way.is_awaited:
        return asyncio.run(_send_awaited(loopback, way, body))
    client = _client(way.dialect).with_options(base_url=_address(loopback, way), timeout=timeout)
    match way:
        case ("anthropic", False, _):
            return _read_anthropic(client.messages.create(**body))
        case ("anthropic", True, _):
            with client.messages.stream(**body) as stream:
                return _read_anthropic(stream.get_final_message())
        case ("openai-chat", False, _):
            return _read_chat(client.chat.completions.create(**body))
        case ("openai-chat", True, _):
            with client.chat.completions.create(**body, stream=True) as stream:
                return _read_chunks(list(stream))
        case (_, False, _):
            return _read_response(client.responses.create(**body))
        case _:
            with client.responses.create(**body, stream=True) as stream:
                return _read_response_events(list(stream))


async def _send_awaited(loopback: Addressed, way: Way, body: Json) -> Got:
    address = _address(loopback, way)
    async with _async_class(way.dialect)(
        api_key="any", base_url=address, max_retries=0, timeout=20.0
    ) as client:
        match way:
            case ("anthropic", False, _):
                return _read_anthropic(await client.messages.create(**body))
            case ("anthropic", True, _):
                async with client.messages.stream(**body) as stream:
                    return _read_anthropic(await stream.get_final_message())
            case ("openai-chat", False, _):
                return _read_chat(await client.chat.completions.create(**body))
            case ("openai-chat", True, _):
                async with await client.chat.completions.create(**body, stream=True) as stream:
                    return _read_chunks([chunk async for chunk in stream])
            case (_, False, _):
                return _read_response(await client.responses.create(**body))
            case _:
                async with await client.responses.create(**body, stream=True) as stream:
                    return _read_response_events([event async for event in stream])


def errors() -> dict[str, Any]:
    """By dialect, the module that has its SDK's exceptions."""
    import anthropic
    import openai

    return {"anthropic": anthropic, "openai-chat": openai, "openai-responses": openai}


def message_of(error: Any, dialect: str) -> str:
    """The provider's words, out of the SDK's exception."""
    if dialect == "anthropic":
        assert error.body["type"] == "error"
        assert error.body["request_id"].startswith("req_")
        return str(error.body["error"]["message"])
    return str(error.body["message"])


def _address(loopback: Addressed, way: Way) -> str:
    return loopback.url if way.dialect == "anthropic" else loopback.openai_url


@functools.cache
def _client(dialect: str) -> Any:
    """One client for all tests: the SDKs take seconds to import and a while to set up."""
    if dialect == "anthropic":
        import anthropic

        return anthropic.Anthropic(api_key="any", max_retries=0)
    if dialect == "openai-responses":
        return _client("openai-chat")
    import openai

    return openai.OpenAI(api_key="any", max_retries=0)


def _async_class(dialect: str) -> Any:
    if dialect == "anthropic":
        import anthropic

        return anthropic.AsyncAnthropic
    import openai

    return openai.AsyncOpenAI


def _read_anthropic(message: Any) -> Got:
    blocks = message.content
    return Got(
        text="".join(block.text for block in blocks if block.type == "text"),
        calls=[(one.id, one.name, dict(one.input)) for one in blocks if one.type == "tool_use"],
        thinking="".join(block.thinking for block in blocks if block.type == "thinking"),
        stop=message.stop_reason,
        usage=_plain(getattr(message, "usage", None)),
        raw=message,
    )


def _read_chat(completion: Any) -> Got:
    message = completion.choices[0].message
    return Got(
        text=message.content or message.refusal or "",
        calls=[
            (one.id, one.function.name, json.loads(one.function.arguments))
            for one in message.tool_calls or ()
        ],
        thinking=getattr(message, "reasoning_content", None) or "",
        stop=completion.choices[0].finish_reason,
        usage=_plain(completion.usage),
        raw=completion,
    )


def _read_chunks(chunks: list[Any]) -> Got:
    text, thinking, stop, usage = "", "", "", None
    calls: dict[int, list[str]] = {}
    for chunk in chunks:
        usage = _plain(chunk.usage) or usage
        for choice in chunk.choices:
            delta = choice.delta
            text += delta.content or getattr(delta, "refusal", None) or ""
            thinking += getattr(delta, "reasoning_content", None) or ""
            stop = choice.finish_reason or stop
            for call in delta.tool_calls or ():
                known = calls.setdefault(call.index, ["", "", ""])
                known[0] += call.id or ""
                known[1] += call.function.name or ""
                known[2] += call.function.arguments or ""
    called = [(one[0], one[1], json.loads(one[2])) for one in calls.values()]
    return Got(text, called, thinking, stop, usage, chunks)


def _read_response(response: Any) -> Got:
    items = response.output
    why = response.incomplete_details
    parts = [part for one in items if one.type == "message" for part in one.content]
    return Got(
        text="".join(getattr(part, "text", None) or part.refusal for part in parts),
        calls=[
            (one.call_id, one.name, json.loads(one.arguments))
            for one in items
            if one.type == "function_call"
        ],
        thinking="".join(
            part.text for one in items if one.type == "reasoning" for part in one.summary
        ),
        stop=why.reason if why else response.status,
        usage=_plain(response.usage),
        raw=response,
    )


class BrokenStream(Exception):
    """A stream of Responses that did not end with its response; this SDK does not raise."""

    def __init__(self, events: list[Any]) -> None:
        super().__init__(events[-1].type if events else "no event")
        self.events = events

    @property
    def text(self) -> str:
        return "".join(one.delta for one in self.events if one.type.endswith("text.delta"))


def _read_response_events(events: list[Any]) -> Got:
    """The last event has the whole response; what came in pieces must be the same."""
    if not events or events[-1].type not in ("response.completed", "response.incomplete"):
        raise BrokenStream(events)
    got = _read_response(events[-1].response)
    kinds = ("response.output_text.delta", "response.refusal.delta")
    told = "".join(event.delta for event in events if event.type in kinds)
    assert told == got.text
    assert [event.sequence_number for event in events] == list(range(len(events)))
    return got


def _plain(usage: Any) -> Json | None:
    found: Json | None = usage.model_dump() if usage is not None else None
    return found
