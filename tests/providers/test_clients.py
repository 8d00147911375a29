"""Models over the real SDKs, against a provider on this machine."""

from __future__ import annotations

import asyncio
import functools
from contextlib import asynccontextmanager, contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest

from holdfast.core.dialects.common.reading import ReplyFailed
from holdfast.core.dialects.registry import render_body
from holdfast.core.log.records import Assistant, Record, ToolResult, User
from holdfast.core.models.messages import Message, Prompt, Text, Tool
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.window import Window
from holdfast.engine.session.prepare import prepare_request
from holdfast.errors import BadSetting
from holdfast.providers.callables import from_callable
from holdfast.providers.failures import symptoms_of
from holdfast.providers.models import async_model, model
from holdfast.providers.replies import partial_of
from holdfast.testing import Answer, Call, Fault, Loopback

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping

    from holdfast.core.models.replies import Delta, Reply
    from holdfast.ports import AsyncModel, Model, OnDelta

Json = dict[str, Any]

NAMES = {
    "anthropic": "anthropic:claude-opus-4-5",
    "chat": "openai-chat:gpt-4o",
    "responses": "openai-responses:gpt-5",
    "gemini": "gemini:gemini-3-pro",
    "deepseek": "openai-chat:deepseek-reasoner",
}
READ = Tool("read_file", "Reads a file", {"type": "object", "properties": {"path": {}}})
LOOKS = Answer("I shall look.", (Call("read_file", {"path": "ä.py"}, "call_1"),))


class Way(NamedTuple):
    """How a model is used."""

    name: str
    is_async: bool
    is_heard: bool

    def __str__(self) -> str:
        kind = "async" if self.is_async else "sync"
        return f"{self.name}-{kind}-{'streamed' if self.is_heard else 'whole'}"


WAYS = [
    Way(name, is_async, is_heard)
    for name in ("anthropic", "chat", "responses", "gemini")
    for is_async in (False, True)
    for is_heard in (False, True)
]
HEARD = [way for way in WAYS if way.is_heard]


def address(loopback: Loopback, name: str) -> str:
    return loopback.url if name in ("anthropic", "gemini") else loopback.openai_url


@contextmanager
def made(loopback: Loopback, name: str, **settings: Any) -> Iterator[Model]:
    """A model over the real SDK. One client serves most tests: to set one up takes a while."""
    url = address(loopback, name)
    if "api_key" in settings or name == "gemini":
        settings = {"api_key": "any", **settings}
        own: Any = model(NAMES[name], base_url=url, timeout=20.0, **settings)
        try:
            yield own
        finally:
            own.close()  # the SDKs warn of connections that are left open
    else:
        client = shared("anthropic" if name == "anthropic" else "openai")
        yield model(NAMES[name], client=client.with_options(base_url=url), **settings)


@functools.cache
def shared(sdk: str) -> Any:
    made = model(f"{sdk}:any", base_url="http://127.0.0.1:1", api_key="any", timeout=20.0)
    return made.client  # type: ignore[attr-defined]


@asynccontextmanager
async def made_async(loopback: Loopback, name: str) -> AsyncIterator[AsyncModel]:
    found: Any = async_model(
        NAMES[name], base_url=address(loopback, name), api_key="any", timeout=20.0
    )
    try:
        yield found
    finally:
        await found.close()


def asked(text: str, *, output: int = 500, tools: tuple[Tool, ...] = ()) -> Prompt:
    return Prompt((Message("user", (Text(text),)),), "Be brief.", tools, output)


def send(loopback: Loopback, way: Way, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
    """A prompt through the real SDK, in one way or the other."""
    if not way.is_async:
        with made(loopback, way.name) as blocking:
            return blocking.send(render_body(prompt, blocking.target), on_delta)

    async def sent() -> Reply:
        async with made_async(loopback, way.name) as awaited:
            return await awaited.send(render_body(prompt, awaited.target), on_delta)

    return asyncio.run(sent())


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_reply_comes_whole(way: Way) -> None:
    """Words, calls, ending and usage arrive, streamed or not, awaited or not; once is asked."""
    heard: list[Delta] = []
    with Loopback([LOOKS]) as loopback:
        reply = send(
            loopback, way, asked("Look.", tools=(READ,)), heard.append if way.is_heard else None
        )
        received = loopback.requests

    assert reply.text == "I shall look."
    assert [(call.id, call.name, call.arguments) for call in reply.calls] == [
        ("call_1", "read_file", {"path": "ä.py"})
    ]
    assert reply.stop == "tools"
    assert reply.usage is not None
    assert reply.usage.prompt == received[0].tokens
    assert len(received) == 1
    assert not received[0].violations
    assert (
        "".join(one.text for one in heard if one.kind == "text") == "I shall look." * way.is_heard
    )
    assert [one.text for one in heard if one.kind == "call"] == ["read_file"] * way.is_heard


@pytest.mark.parametrize("name", ["anthropic", "chat", "responses", "deepseek", "gemini"])
def test_thinking_goes_back_to_who_thought(name: str) -> None:
    """A turn with thinking and a call: the next request has it as the provider wants it back."""
    thinks = Answer("Looking.", LOOKS.calls, thinking="I should look first.")
    variants: Mapping[str, str] = {"openai-chat": "deepseek"} if name == "deepseek" else {}
    with (
        Loopback([thinks, "Done."], variants=variants, checks_foreign_signatures=True) as loopback,
        made(loopback, name, thinking=name != "chat") as thinker,
    ):
        records: list[Record] = [User(content="Look.")]
        for _ in range(2):
            prepared = prepare_request(
                ProjectionRequest(
                    records, Window(64_000), thinker.target, tools=(READ,), output_tokens=4_000
                )
            )
            reply = thinker.send(prepared.request)
            stored = Assistant(content=reply.content, provider=reply.provider, model=reply.model)
            records.append(stored)
            records += [ToolResult(tool_use_id=call.id, content="ok") for call in reply.calls]
        assert not loopback.invalid
        bodies = [one.body for one in loopback.requests]

    assert reply.text == "Done."
    if name != "chat":
        # What the Responses API was not asked to show comes back encrypted.
        wanted = "encrypted_content" if name == "responses" else "I should look first."
        assert wanted in str(bodies[1]["input"] if name == "responses" else bodies[1])


def test_long_replies_are_streamed_unasked() -> None:
    """Anthropic's SDK refuses to wait for a long reply: it is streamed, though nobody listens."""
    with Loopback(["Yes."]) as loopback, made(loopback, "anthropic") as long:
        reply = long.send(render_body(asked("Well?", output=32_000), long.target))

        assert reply.text == "Yes."
        assert loopback.requests[0].body["stream"] is True


@pytest.mark.parametrize("way", HEARD, ids=str)
def test_what_a_listener_raises_ends_the_call(way: Way) -> None:
    """An exception of the listener is raised on, with what had come, and the provider is left."""

    class Enough(Exception):
        pass

    def on_delta(delta: Delta) -> None:
        if delta.kind == "text":
            raise Enough

    said = Answer("A long story, told slowly. " * 40, pause=0.005)
    with Loopback([said]) as loopback, pytest.raises(Enough) as caught:
        send(loopback, way, asked("Tell."), on_delta)

    partial = partial_of(caught.value)
    assert partial is not None
    assert said.text.startswith(partial.text)
    assert 0 < len(partial.text) < len(said.text)


def test_a_cancelled_task_leaves_the_stream() -> None:
    """Cancelling an awaited call closes the stream, and what came is on the exception."""

    async def cancelled(loopback: Loopback) -> Reply | None:
        async with made_async(loopback, "anthropic") as awaited:
            begun = asyncio.Event()
            request = render_body(asked("Tell."), awaited.target)
            sending = awaited.send(request, lambda _delta: begun.set())
            task = asyncio.create_task(_run(sending))
            await begun.wait()
            task.cancel()
            try:
                await task
            except asyncio.CancelledError as error:
                return partial_of(error)
            return None

    with Loopback([Answer("A long story. " * 60, pause=0.01)]) as loopback:
        partial = asyncio.run(cancelled(loopback))

    assert partial is not None
    assert partial.text.startswith("A long")


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_failures_of_the_sdk_pass_untouched(way: Way) -> None:
    """What the SDK raises is what the caller gets, after one request: retries are not ours."""
    import anthropic
    import openai
    from google.genai import errors

    kinds: dict[str, Any] = {"anthropic": anthropic.RateLimitError, "gemini": errors.ClientError}
    kind = kinds.get(way.name, openai.RateLimitError)
    with Loopback(["never"]) as loopback:
        loopback.fail_next(Fault.rate_limited(3))
        with pytest.raises(kind) as caught:
            send(loopback, way, asked("Well?"), (lambda _delta: None) if way.is_heard else None)
        assert len(loopback.requests) == 1

    assert symptoms_of(caught.value).status == 429


@pytest.mark.sampled(1 / 3, "fault")
@pytest.mark.parametrize("way", HEARD, ids=str)
@pytest.mark.parametrize("after", ["text", "call"])
@pytest.mark.parametrize("fault", [Fault.stream_error, Fault.stream_ends, Fault.reset_within])
def test_a_stream_that_breaks_leaves_its_words(way: Way, after: Any, fault: Any) -> None:
    """However a stream breaks: an exception, the words that came, and never half a call."""
    heard: list[Delta] = []
    with Loopback([LOOKS]) as loopback:
        loopback.fail_next(fault(after))
        with pytest.raises(Exception) as caught:  # noqa: PT011  (the SDKs have many)
            send(loopback, way, asked("Look.", tools=(READ,)), heard.append)

    partial = partial_of(caught.value)
    assert partial is not None
    is_whole = way.name == "gemini" and after == "call"  # its calls come in one piece
    assert [call.id for call in partial.calls] == ["call_1"] * is_whole
    assert partial.text == "".join(one.text for one in heard if one.kind == "text")
    assert partial.text
    assert partial.stop == "other"


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_gateways_page_is_no_answer(way: Way) -> None:
    """An HTML page, an empty body or an error with status 200 is never taken for words."""
    for fault in (Fault.html(200), Fault.empty(), Fault.error_with_200("Busy")):
        with Loopback(["never"]) as loopback:
            loopback.fail_next(fault)
            with pytest.raises(Exception) as caught:  # noqa: PT011  (ours or the SDK's)
                send(loopback, way, asked("Well?"), (lambda _delta: None) if way.is_heard else None)
            assert not isinstance(caught.value, BadSetting | AttributeError | TypeError)


def test_fields_an_sdk_does_not_know_are_sent() -> None:
    """What a host wants beside OpenAI's fields reaches it, although the SDK has no name for it."""
    with (
        Loopback(["Yes."], variants={"openai-chat": "deepseek"}) as loopback,
        made(loopback, "deepseek", thinking=True) as thinker,
    ):
        request = render_body(asked("Well?"), thinker.target)
        thinker.send(request)

        assert request["thinking"] == {"type": "enabled"}
        assert loopback.requests[0].body["thinking"] == {"type": "enabled"}


KEY = "0123456789abcdef"


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("name", "provider", "field", "header"),
    [
        ("openai-chat:grok-4.7", "xai", None, KEY),
        ("openai-responses:grok-4.7", "xai", KEY, None),
        ("openai-chat:grok-4.7", "gateway.example", None, None),
        ("openai-chat:gpt-4o", "openai", KEY, None),
        ("openai-responses:gpt-6-sol", "openai", KEY, None),
    ],
)
def test_the_cache_key_arrives_where_the_host_reads_it(
    name: str, provider: str, field: str | None, header: str | None, is_async: bool
) -> None:
    """xAI reads a header in Chat Completions, and the field in the Responses API."""
    with Loopback(["Yes."]) as loopback:
        given: Any = {"base_url": loopback.openai_url, "api_key": "any", "provider": provider}
        own: Any = (async_model if is_async else model)(name, **given)
        request = render_body(asked("Well?"), msgspec.structs.replace(own.target, cache_key=KEY))
        before = dict(request)
        if is_async:
            asyncio.run(sent_and_closed(own, request))
        else:
            own.send(request)
            own.close()

        received = loopback.requests[0]
        assert received.body.get("prompt_cache_key") == field
        assert received.headers.get("x-grok-conv-id") == header
        assert request == before


async def sent_and_closed(own: AsyncModel, request: Json) -> None:
    await own.send(request)
    await own.close()  # type: ignore[attr-defined]


def test_a_cache_key_of_the_callers_is_kept() -> None:
    """A client's own header wins, in whatever letters, and so does a request's."""
    import openai

    with (
        Loopback(["Yes.", "Yes."]) as loopback,
        openai.OpenAI(
            api_key="mine",
            base_url=loopback.openai_url,
            default_headers={"X-Grok-Conv-Id": "mine"},
        ) as client,
    ):
        mine = model("openai-chat:grok-4.7", client=client, provider="xai")
        request = render_body(asked("Well?"), msgspec.structs.replace(mine.target, cache_key=KEY))
        mine.send(request)
        mine.send({**request, "extra_headers": {"x-grok-conv-id": "this"}})

        found = [received.headers["x-grok-conv-id"] for received in loopback.requests]
        assert found == ["mine", "this"]
        assert all("prompt_cache_key" not in each.body for each in loopback.requests)


def test_own_clients_are_used() -> None:
    """A client of the caller's is used as it is, with its own address and its own retries."""
    import openai

    with (
        Loopback(["Yes."]) as loopback,
        openai.OpenAI(api_key="mine", base_url=loopback.openai_url, max_retries=2) as client,
    ):
        loopback.fail_next(Fault.http(500, headers={"retry-after-ms": "1"}))
        mine = model("openai-chat:gpt-4o", client=client)

        assert mine.send(render_body(asked("Well?"), mine.target)).text == "Yes."
        assert len(loopback.requests) == 2


def test_the_wrong_kind_of_client_is_named() -> None:
    """An asynchronous client for a blocking model, and the reverse, is an error that says so."""
    import openai

    settings: Any = {"api_key": "any", "base_url": "http://127.0.0.1:1/v1", "max_retries": 0}

    async def mixed() -> None:
        async with openai.AsyncOpenAI(**settings) as asynchronous:
            mistaken = model("openai-chat:gpt-4o", client=asynchronous)
            with pytest.raises(BadSetting, match="asynchronous"):
                mistaken.send(render_body(asked("Well?"), mistaken.target))

    asyncio.run(mixed())
    with Loopback(["Yes."]) as loopback:
        settings["base_url"] = loopback.openai_url
        with openai.OpenAI(**settings) as client:
            awaited = async_model("openai-chat:gpt-4o", client=client)
            with pytest.raises(BadSetting, match="blocking"):
                asyncio.run(_run(awaited.send(render_body(asked("Well?"), awaited.target))))


async def _run(sending: Awaitable[Reply]) -> Reply:
    return await sending


def _sent_to(stream: Any, request: Json) -> Any:
    return stream(**request)


def test_the_sdks_own_streaming_helpers_can_be_returned() -> None:
    """A function may return the helper that its SDK has for streams; its extra events are none."""

    def helper(client: Any, name: str) -> Any:
        places = {"anthropic": "messages", "chat": "chat.completions", "responses": "responses"}
        return attrgetter(places[name])(client).stream

    for name in ("anthropic", "chat", "responses"):
        with Loopback([LOOKS]) as loopback:
            client = shared("anthropic" if name == "anthropic" else "openai")
            client = client.with_options(base_url=address(loopback, name))
            stream = helper(client, name)
            heard: list[Delta] = []
            whom = model(NAMES[name], client=client).target
            mine = from_callable(functools.partial(_sent_to, stream), whom)

            reply = mine.send(render_body(asked("Look.", tools=(READ,)), whom), heard.append)

        assert (reply.text, len(reply.calls), reply.stop) == ("I shall look.", 1, "tools")
        assert "".join(one.text for one in heard if one.kind == "text") == "I shall look."
        assert [one.text for one in heard if one.kind == "call"] == ["read_file"]


def test_a_client_of_another_sdk_is_named() -> None:
    """A client without the dialect's call is refused before anything is sent."""
    with pytest.raises(BadSetting, match=r"has no `messages\.create`"):
        model("anthropic:claude-opus-4-5", client=object())


def test_no_key_leaves_for_another_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key in the environment is the provider's: a server given by address does not get it."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    for name in ("anthropic", "chat", "gemini"):
        with (
            Loopback(["Yes."], api_key="none") as loopback,
            made(loopback, name, api_key=None) as other,
        ):
            assert other.send(render_body(asked("Well?"), other.target)).text == "Yes."


@pytest.mark.parametrize(
    "name", ["anthropic:claude-opus-4-5", "openai:gpt-4o", "gemini:gemini-3-pro"]
)
def test_a_missing_key_is_said_before_anything_is_sent(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Without a key there is a clear error with the variable's name, not a failed request."""
    for variable in (
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"),
        *("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    for make in (model, async_model):
        made: Any = make(name)
        with pytest.raises(BadSetting, match="no key") as caught:
            made.ready()
        assert "_API_KEY" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [("openai:gpt-4o", "openai", "openai"), ("gemini:gemini-3-pro", "google.genai", "gemini")],
)
def test_a_missing_sdk_is_said_with_the_command(
    name: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the extra, the error has the line that installs it."""
    monkeypatch.setitem(__import__("sys").modules, package, None)

    made: Any = model(name, api_key="any")
    with pytest.raises(BadSetting, match="not installed") as caught:
        made.ready()
    assert f"pip install 'holdfast[{extra}]'" in str(caught.value.hint)


def test_close_closes_the_client() -> None:
    """A model lets go of its connections."""
    blocking: Any = model(NAMES["chat"], api_key="any")
    blocking.ready()
    blocking.close()
    assert blocking.client.is_closed()

    async def closed() -> bool:
        awaited: Any = async_model(NAMES["chat"], api_key="any")
        awaited.ready()
        await awaited.close()
        return bool(awaited.client.is_closed())

    assert asyncio.run(closed())


def test_an_error_in_a_reply_says_what_the_server_said() -> None:
    """An error object with status 200 is raised with its words."""
    with Loopback(["never"]) as loopback, made(loopback, "chat") as chat:
        loopback.fail_next(Fault.error_with_200("prompt is too long"))
        with pytest.raises(ReplyFailed, match="prompt is too long"):
            chat.send(render_body(asked("Well?"), chat.target))
