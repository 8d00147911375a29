"""The real packages behind the proxy, at a provider that enforces its rules, with cuts.

They think, call tools and send everything back as it came. Every request is accepted, and what a
cut keeps of the client's messages is the client's.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import types
from tests.surfaces.proxy.proxies import running_proxy

from holdfast.core.log.records import Compaction
from holdfast.core.owners import ANY_OWNER
from holdfast.testing import Answer, Call, Loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.log.records import Json
    from holdfast.testing.loopback import Asked

WINDOW = 16_000
TURNS = 10
ROUNDS = 2
THOUGHT = "I should look at the next part."
PARAMETERS = {"type": "object", "properties": {"number": {"type": "integer"}}}
REPLY_TOKENS = 1_000


def brain(asked: Asked) -> Answer:
    """Two rounds of calls for each of the user's messages, with thinking before all replies."""
    number = asked.number
    if number % (ROUNDS + 1):
        return Answer("", (Call("read", {"number": number}),), thinking=THOUGHT)
    return Answer(f"Answer {number}: it is done.", thinking=THOUGHT)


def read(number: int) -> str:
    return "\n".join(f"part {number}, line {line}: {line * 7}" for line in range(200))


class Part(NamedTuple):
    """A part of a message that must come through: its text, or the id of a call or result."""

    role: str
    kind: str
    what: str


class Package(ABC):
    """A client of a provider's package, as its documents show one."""

    model: ClassVar[str]
    variants: ClassVar[dict[str, str]] = {}

    def __init__(self, url: str, note: Callable[[httpx2.Request], None], streams: bool) -> None:
        self.streams = streams
        self.items: list[Any] = []
        self.http = httpx2.Client(event_hooks={"request": [note]})
        self.connect(url)

    @abstractmethod
    def connect(self, url: str) -> None:
        """Make the client."""

    @abstractmethod
    def say(self, text: str) -> None:
        """Add a message of the user."""

    @abstractmethod
    def ask(self) -> list[tuple[str, str, int]]:
        """Ask the model and keep its reply as it came; return its calls: id, name, number."""

    @abstractmethod
    def answer(self, calls: list[tuple[str, str, int]]) -> None:
        """Add the results of calls."""

    @staticmethod
    @abstractmethod
    def parts(body: Json) -> Iterator[Part]:
        """Yield the parts of a request, reasoning aside."""


class Anthropic(Package):
    model = "claude-fable-5-2"

    def connect(self, url: str) -> None:
        self.client = anthropic.Anthropic(
            api_key="any", base_url=url, max_retries=0, http_client=self.http
        )

    def say(self, text: str) -> None:
        self.items.append({"role": "user", "content": text})

    def ask(self) -> list[tuple[str, str, int]]:
        asked: dict[str, Any] = {
            "model": self.model,
            "max_tokens": REPLY_TOKENS,
            "system": "You are an agent.",
            "tools": [{"name": "read", "description": "Reads.", "input_schema": PARAMETERS}],
            "thinking": {"type": "adaptive", "display": "summarized"},
            "messages": self.items,
        }
        if self.streams:
            with self.client.messages.stream(**asked) as stream:
                message: Any = stream.get_final_message()
        else:
            message = self.client.messages.create(**asked)
        self.items.append({"role": "assistant", "content": message.content})
        made = [block for block in message.content if block.type == "tool_use"]
        return [(block.id, block.name, block.input["number"]) for block in made]

    def answer(self, calls: list[tuple[str, str, int]]) -> None:
        results = [
            {"type": "tool_result", "tool_use_id": call, "content": read(number)}
            for call, _name, number in calls
        ]
        self.items.append({"role": "user", "content": results})

    @staticmethod
    def parts(body: Json) -> Iterator[Part]:
        for message in body["messages"]:
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for block in blocks:
                what = block.get("text") or block.get("id") or block.get("tool_use_id")
                if "thinking" not in block["type"]:
                    yield Part(message["role"], block["type"], str(what))


class Chat(Package):
    """The `openai` package at a host whose models demand their reasoning back."""

    model = "deepseek-v4-pro"
    variants: ClassVar = {"openai-chat": "deepseek"}

    def connect(self, url: str) -> None:
        self.client = openai.OpenAI(
            api_key="any", base_url=f"{url}/v1", max_retries=0, http_client=self.http
        )

    def say(self, text: str) -> None:
        self.items.append({"role": "user", "content": text})

    def ask(self) -> list[tuple[str, str, int]]:
        function = {"name": "read", "description": "Reads.", "parameters": PARAMETERS}
        asked: dict[str, Any] = {
            "model": self.model,
            "max_tokens": REPLY_TOKENS,
            "tools": [{"type": "function", "function": function}],
            "messages": [{"role": "system", "content": "You are an agent."}, *self.items],
        }
        if self.streams:
            self.items.append(self._streamed(asked))
            made = self.items[-1].get("tool_calls", ())
            found = [(one["id"], one["function"]) for one in made]
        else:
            message: Any = self.client.chat.completions.create(**asked).choices[0].message
            self.items.append(message)
            found = [(one.id, one.function.model_dump()) for one in message.tool_calls or ()]
        return [(call, one["name"], json.loads(one["arguments"])["number"]) for call, one in found]

    def _streamed(self, asked: Json) -> Json:
        """Put a streamed message together by its deltas: the package keeps no unknown field."""
        message: Json = {"role": "assistant", "content": "", "reasoning_content": ""}
        calls: list[Json] = []
        for chunk in self.client.chat.completions.create(**asked, stream=True):
            for choice in chunk.choices:
                delta: Any = choice.delta
                message["content"] += delta.content or ""
                message["reasoning_content"] += getattr(delta, "reasoning_content", None) or ""
                for piece in delta.tool_calls or ():
                    if piece.id:
                        function = {"name": piece.function.name, "arguments": ""}
                        calls.append({"id": piece.id, "type": "function", "function": function})
                    calls[-1]["function"]["arguments"] += piece.function.arguments or ""
        return {**message, "tool_calls": calls} if calls else message

    def answer(self, calls: list[tuple[str, str, int]]) -> None:
        self.items += [
            {"role": "tool", "tool_call_id": call, "content": read(number)}
            for call, _name, number in calls
        ]

    @staticmethod
    def parts(body: Json) -> Iterator[Part]:
        for message in body["messages"]:
            role, content = message["role"], message.get("content") or ""
            if role == "tool":
                yield Part(role, "result", message["tool_call_id"])
                continue
            blocks = [{"text": content}] if isinstance(content, str) else content
            yield from (Part(role, "text", block["text"]) for block in blocks if block["text"])
            for call in message.get("tool_calls") or ():
                yield Part(role, "call", call["id"])


class Responses(Package):
    model = "gpt-6.2-sol"

    def connect(self, url: str) -> None:
        self.client = openai.OpenAI(
            api_key="any", base_url=f"{url}/v1", max_retries=0, http_client=self.http
        )

    def say(self, text: str) -> None:
        self.items.append({"role": "user", "content": text})

    def ask(self) -> list[tuple[str, str, int]]:
        asked: dict[str, Any] = {
            "model": self.model,
            "instructions": "You are an agent.",
            "max_output_tokens": REPLY_TOKENS,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "low"},
            "tools": [
                {"type": "function", "name": "read", "parameters": PARAMETERS, "strict": False}
            ],
            "input": self.items,
        }
        if self.streams:
            with self.client.responses.stream(**asked) as stream:
                response: Any = stream.get_final_response()
        else:
            response = self.client.responses.create(**asked)
        self.items += [item.model_dump(exclude_none=True) for item in response.output]
        made = [item for item in response.output if item.type == "function_call"]
        return [(one.call_id, one.name, json.loads(one.arguments)["number"]) for one in made]

    def answer(self, calls: list[tuple[str, str, int]]) -> None:
        self.items += [
            {"type": "function_call_output", "call_id": call, "output": read(number)}
            for call, _name, number in calls
        ]

    @staticmethod
    def parts(body: Json) -> Iterator[Part]:
        for item in body["input"]:
            match item.get("type", "message"):
                case "message":
                    content = item["content"]
                    blocks = [{"text": content}] if isinstance(content, str) else content
                    yield from (Part(item["role"], "text", block["text"]) for block in blocks)
                case "reasoning":
                    pass
                case kind:
                    yield Part("", kind, item["call_id"])


class Gemini(Package):
    model = "gemini-3.1-pro-preview"

    def connect(self, url: str) -> None:
        options: Any = {"base_url": url, "httpx_client": self.http}
        self.client = genai.Client(api_key="any", http_options=options)

    def say(self, text: str) -> None:
        self.items.append(types.UserContent(text))

    def ask(self) -> list[tuple[str, str, int]]:
        declared = types.FunctionDeclaration(name="read", parameters_json_schema=PARAMETERS)
        asked: dict[str, Any] = {
            "model": self.model,
            "contents": self.items,
            "config": types.GenerateContentConfig(
                system_instruction="You are an agent.",
                max_output_tokens=REPLY_TOKENS,
                tools=[types.Tool(function_declarations=[declared])],
                thinking_config=types.ThinkingConfig(include_thoughts=True),
            ),
        }
        if self.streams:
            answers = list(self.client.models.generate_content_stream(**asked))
        else:
            answers = [self.client.models.generate_content(**asked)]
        contents = [one.candidates[0].content for one in answers if one.candidates]
        parts = [part for one in contents if one for part in one.parts or () if part.text != ""]
        self.items.append(types.Content(role="model", parts=parts))
        made: Any = [part.function_call for part in parts if part.function_call]
        return [(one.id, one.name, int(one.args["number"])) for one in made]

    def answer(self, calls: list[tuple[str, str, int]]) -> None:
        parts = []
        for call, name, number in calls:
            part = types.Part.from_function_response(name=name, response={"output": read(number)})
            assert part.function_response is not None
            part.function_response.id = call
            parts.append(part)
        self.items.append(types.Content(role="user", parts=parts))

    @staticmethod
    def parts(body: Json) -> Iterator[Part]:
        for content in body["contents"]:
            for part in content["parts"]:
                if part.get("thought"):
                    continue
                for kind in ("functionCall", "functionResponse"):
                    if kind in part:
                        yield Part(content["role"], kind, part[kind]["id"])
                if part.get("text"):
                    yield Part(content["role"], "text", part["text"])


PACKAGES = [Anthropic, Chat, Responses, Gemini]


def live(kind: type[Package], streams: bool) -> tuple[Loopback, list[Json], list[Compaction]]:
    """A life of a client; the provider, what the client sent, and the cuts that were made."""
    sent: list[Json] = []

    def note(request: httpx2.Request) -> None:
        sent.append(json.loads(request.read()))

    loopback = Loopback(brain, limit=WINDOW, variants=kind.variants)
    with loopback, running_proxy(loopback, window=WINDOW) as proxy:
        client = kind(proxy.url, note, streams)
        for turn in range(TURNS):
            client.say(f"question {turn}")
            while calls := client.ask():
                client.answer(calls)
        client.http.close()
        (info,) = proxy.store.sessions(owner=ANY_OWNER)
        cuts = [one for one in proxy.store.read(info.key) if isinstance(one, Compaction)]
    return loopback, sent, cuts


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("kind", PACKAGES, ids=lambda kind: kind.__name__)
def test_a_real_package_is_served_after_each_cut(kind: type[Package], streams: bool) -> None:
    loopback, sent, cuts = live(kind, streams)
    got = loopback.requests
    assert len(cuts) >= 2
    assert len(sent) == len(got) == TURNS * (ROUNDS + 1)
    assert [(one.status, one.violations, one.reasoning.refused) for one in got] == [
        (200, (), "")
    ] * len(got)
    counts = loopback.reasoning
    assert (counts.refused, counts.dropped, counts.allowed) == (0, {}, 0)
    assert any(one.reasoning.valid for one in got[-ROUNDS:]), "no reasoning behind the cuts"
    shortened = 0
    for body, received in zip(sent, got, strict=True):
        said, shown = list(kind.parts(body)), list(kind.parts(received.body))
        ours = next(place for place, part in enumerate(shown) if part in said[-len(shown) :])
        assert ours <= 2, "more than a carry-over stands before the client's own messages"
        left = iter(said)
        assert all(part in left for part in shown[ours:]), "not the client's, or in another order"
        assert shown[-1] == said[-1]
        shortened += len(shown) < len(said)
    assert shortened > len(got) / 3
