"""The loopback answers Google's own client as Gemini does."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from google import genai
from google.genai import errors

from holdfast.core.dialects.registry import render_body as render
from holdfast.core.dialects.registry import target
from holdfast.core.models.messages import (
    Image,
    Message,
    Prompt,
    Text,
    Tool,
    ToolAnswer,
    ToolCall,
)
from holdfast.core.models.usage import read_usage
from holdfast.core.tokens.counting import count_prompt
from holdfast.providers.failures import name_failure
from holdfast.providers.gemini import PROVIDER
from holdfast.providers.tokenizers import counter_for
from holdfast.testing import Answer, Call, Fault, Loopback
from holdfast.testing.loopback import OVERFLOWS, Asked

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

MODEL = "gemini-3-pro"
TARGET = target("gemini", provider="google", model=MODEL)
READ = Tool("read_file", "Reads a file", {"type": "object", "properties": {"path": {}}})
LONG = "This is the beginning of a long answer, and here comes its end. Truly the end."
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8//8/AwAF/gL+p6NepAAAAABJRU5"
    "ErkJggg=="
)


class Way(NamedTuple):
    is_streamed: bool = False
    is_awaited: bool = False

    def __str__(self) -> str:
        return f"{'stream' if self.is_streamed else 'whole'}-{'async' * self.is_awaited or 'sync'}"


WAYS = [Way(streamed, awaited) for streamed in (False, True) for awaited in (False, True)]
every_way = pytest.mark.parametrize("way", WAYS, ids=str)


def said(text: str, *, output: int = 500, tools: tuple[Tool, ...] = (READ,)) -> Prompt:
    return Prompt((Message("user", (Text(text),)),), "Be brief.", tools, output)


def connect(loopback: Loopback, key: str = "any") -> genai.Client:
    return genai.Client(api_key=key, http_options={"base_url": loopback.url, "timeout": 20_000})


def ask(loopback: Loopback, way: Way, prompt: Prompt | str = "Hello", thinks: bool = False) -> Json:
    """The parts and the last words of a reply, as the SDK's objects have them."""
    prompt = said(prompt) if isinstance(prompt, str) else prompt
    whom = target("gemini", provider="google", model=MODEL, thinking=thinks)
    return send(loopback, way, render(prompt, whom))


def send(loopback: Loopback, way: Way, body: Json) -> Json:
    given = PROVIDER.sdk.arguments(body, TARGET, way.is_streamed)
    with connect(loopback) as client:
        if way.is_awaited:
            return _gather(asyncio.run(_awaited(client, way, given)))
        models = client.models
        if way.is_streamed:
            return _gather(list(models.generate_content_stream(**given)))
        return _gather([models.generate_content(**given)])


async def _awaited(client: genai.Client, way: Way, given: Any) -> list[Any]:
    async with client.aio as awaited:
        if way.is_streamed:
            stream = await awaited.models.generate_content_stream(**given)
            return [chunk async for chunk in stream]
        return [await awaited.models.generate_content(**given)]


def _gather(chunks: list[Any]) -> Json:
    parts = [
        part
        for chunk in chunks
        for candidate in chunk.candidates or ()
        for part in (candidate.content and candidate.content.parts) or ()
    ]
    last = chunks[-1]
    return {
        "text": "".join(part.text or "" for part in parts if not part.thought),
        "thinking": "".join(part.text or "" for part in parts if part.thought),
        "calls": [part.function_call for part in parts if part.function_call],
        "signatures": [part.thought_signature for part in parts if part.function_call],
        "stop": last.candidates[0].finish_reason,
        "usage": last.usage_metadata.model_dump() if last.usage_metadata else None,
    }


@every_way
def test_text_thinking_calls_and_usage_arrive(way: Way) -> None:
    """What the brain says is what the SDK gives, and the usage is what our counters say."""
    calls = (Call("read_file", {"path": "ä.txt", "lines": [1, 2]}), Call("read_file", {}, "mine"))
    with Loopback([Answer(LONG, calls, thinking="I should look.")]) as loopback:
        got = ask(loopback, way, thinks=True)
        [received] = loopback.requests

    assert (got["text"], got["thinking"], got["stop"]) == (LONG, "I should look.", "STOP")
    assert [call.args for call in got["calls"]] == [calls[0].arguments, {}]
    assert got["calls"][1].id == "mine"
    assert [bool(signature) for signature in got["signatures"]] == [True, False]
    usage = read_usage(got["usage"], "google")
    assert usage is not None
    assert usage.prompt == received.tokens == count_prompt(said("Hello"), counter_for(MODEL))
    assert (received.model, received.is_streamed) == (MODEL, way.is_streamed)
    assert received.violations == ()


@every_way
def test_thinking_is_shown_where_it_is_asked_for(way: Way) -> None:
    with Loopback([Answer("Two.", thinking="One and one.")]) as loopback:
        assert ask(loopback, way)["thinking"] == ""


def test_a_conversation_with_tools_and_pictures_goes_on() -> None:
    """A call comes back with its result and its signature; a changed call is refused."""

    def brain(asked: Asked) -> Answer:
        if not asked.results:
            return Answer("", (Call("read_file", {"path": "a.txt"}),))
        [result] = asked.results
        assert result.is_error
        assert result.name == "read_file"
        return Answer(f"It says {result.content[0].text}.")  # type: ignore[union-attr]

    first = Message("user", (Text("Look."), Image(PIXEL, "image/png")))
    with Loopback(brain) as loopback:
        got = ask(loopback, Way(), Prompt((first,), "", (READ,), 500))
        [call], [signature] = got["calls"], got["signatures"]

        def again(arguments: Json) -> Json:
            called = ToolCall(call.id, call.name, arguments, _base64(signature), "google", MODEL)
            answer = ToolAnswer(call.id, (Text("no"),), is_error=True)
            messages = (first, Message("assistant", (called,)), Message("user", (answer,)))
            return ask(loopback, Way(), Prompt(messages, "", (READ,), 500))

        assert again(call.args)["text"] == "It says no."
        with pytest.raises(errors.ClientError, match="Corrupted thought signature"):
            again({"path": "b.txt"})


def _base64(signature: bytes) -> str:
    import base64

    return base64.b64encode(signature).decode()


@pytest.mark.parametrize(
    ("fault", "stop", "text"),
    [
        (Fault.length(), "MAX_TOKENS", LONG[: len(LONG) // 2]),
        (Fault.length(text=False), "MAX_TOKENS", ""),
        (Fault.window_exceeded(), "MAX_TOKENS", LONG[: len(LONG) // 2]),
        (Fault.refusal("No."), "SAFETY", "No."),
        (Fault.refusal(""), "SAFETY", ""),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_odd_endings(fault: Fault, stop: str, text: str) -> None:
    for way in (Way(), Way(is_streamed=True)):
        with Loopback([LONG]) as loopback:
            loopback.fail_next(fault)
            got = ask(loopback, way)
        assert (got["stop"], got["text"]) == (stop, text)


@pytest.mark.sampled(1 / 2, "way")
@every_way
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault.rate_limited(7), "rate_limit"),
        (Fault.unauthorized(), "auth"),
        (Fault.http(503, "The model is overloaded. Please try again later."), "rate_limit"),
        (Fault.http(500, "An internal error has occurred."), "transport"),
        (Fault.overflow(), "context_overflow"),
        (Fault.output_cap(64), "output_limit"),
        (Fault.html(), "transport"),
        (Fault.overflow_in_stream("text"), "context_overflow"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_failures_are_classified(way: Way, fault: Fault, kind: str) -> None:
    """The SDK's exception is named by what it carries."""
    with Loopback(lambda _asked: Answer(LONG)) as loopback:
        loopback.fail_next(fault)
        with pytest.raises(errors.APIError) as caught:
            ask(loopback, way)
        assert ask(loopback, way)["text"] == LONG
    assert name_failure(caught.value).kind == kind


@every_way
def test_a_quota_says_how_long_to_wait(way: Way) -> None:
    """Google names the quota and the wait in the body, not in a header."""
    kind = "type.googleapis.com/google.rpc"
    quota = "GenerateContentInputTokensPerModelPerMinute-FreeTier"
    told = {
        "code": 429,
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {"@type": f"{kind}.QuotaFailure", "violations": [{"quotaId": quota}]},
            {"@type": f"{kind}.RetryInfo", "retryDelay": "34s"},
        ],
    }
    with Loopback(["Yes."]) as loopback:
        loopback.fail_next(Fault.raw(429, json.dumps({"error": told}).encode()))
        with pytest.raises(errors.ClientError) as caught:
            ask(loopback, way)
    failure = name_failure(caught.value)
    assert (failure.kind, failure.status, failure.retry_after) == ("tpm_limit", 429, 34.0)


@pytest.mark.parametrize("way", [Way(), Way(is_streamed=True)], ids=str)
def test_the_window_is_one_of_input(way: Way) -> None:
    """What the reply may take is not counted in advance; one token of input more is refused."""
    prompt = said("word " * 300, output=5_000)
    tokens = count_prompt(prompt, counter_for(MODEL))
    with Loopback([LONG], limit=tokens + 2) as loopback:
        assert ask(loopback, way, prompt)["stop"] == "MAX_TOKENS"
        loopback.rules.limit = tokens - 1
        with pytest.raises(errors.ClientError) as caught:
            ask(loopback, way, prompt)
        [over] = loopback.over_limit
    failure = name_failure(caught.value)
    assert (failure.kind, failure.limit) == ("context_overflow", tokens - 1)
    assert OVERFLOWS["gemini"].message.partition("(")[0] in over.said


def test_rules_are_enforced() -> None:
    """A body that Gemini would refuse is refused in its words."""
    body = render(said("Hello"), TARGET)
    body["contents"].append({"role": "model", "parts": [{"text": "Hi"}]})
    with Loopback() as loopback:
        with pytest.raises(errors.ClientError, match="ends with a user turn"):
            send(loopback, Way(), body)
        assert [one.rule for one in loopback.invalid[0].violations] == ["ends-with-user"]
        body["contents"] = [{"role": "user", "parts": [{"text": "x" * 3_000}]}]
        loopback.rules.body_bytes = 2_000
        with pytest.raises(errors.ClientError, match="payload size exceeds"):
            send(loopback, Way(), body)


def test_tokens_can_be_counted_and_keys_are_checked() -> None:
    with Loopback(api_key="mine") as loopback:
        with connect(loopback) as client, pytest.raises(errors.ClientError) as caught:
            client.models.count_tokens(model=MODEL, contents="Hello")
        assert caught.value.code == 401
        with connect(loopback, "mine") as client:
            counted = client.models.count_tokens(model=MODEL, contents="How long is this?")
        wanted = Prompt((Message("user", (Text("How long is this?"),)),))
        assert counted.total_tokens == count_prompt(wanted, counter_for(MODEL))
        assert loopback.requests[-1].only_counts


def test_prompts_that_repeat_are_cached() -> None:
    """Caching needs no marks: a long beginning that comes again is read from the cache."""
    with Loopback() as loopback:
        reads = [ask(loopback, Way(), "word " * 3_000)["usage"] for _ in range(2)]
    cached = [read["cached_content_token_count"] for read in reads]
    assert cached[0] == 0
    assert cached[1] > 2_000
