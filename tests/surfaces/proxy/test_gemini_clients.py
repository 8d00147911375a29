"""Google's own package through the proxy, with only the address changed."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from google import genai
from google.genai import errors, types
from tests.surfaces.proxy.proxies import running_proxy

from holdfast import Assistant
from holdfast.core.log.records import ModelChange, ToolResult, User
from holdfast.core.models.usage import read_usage
from holdfast.core.owners import ANY_OWNER
from holdfast.core.window import Window
from holdfast.testing import Answer, Call, Fault, Loopback

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.surfaces.proxy.proxies import RunningProxy

    from holdfast.core.log.records import Record
    from holdfast.testing.loopback import Asked

MODEL = "gemini-2.5-pro"
LONG = "This is a long answer that comes in pieces, and here it ends. Truly."
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8//8/AwAF/gL+p6NepAAAAABJRU5"
    "ErkJggg=="
)


def think(asked: Asked) -> Answer:
    """Reads a file where it may, then answers at length."""
    if asked.tools and "Look at the file." in str(asked.messages[-1]):
        return Answer("", (Call("read_file", {"path": "a.txt"}),), thinking="Hm.")
    return Answer(LONG, thinking="Hm." if asked.thinks else "")


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with Loopback(think) as found:
        yield found


@pytest.fixture
def proxy(loopback: Loopback) -> Iterator[RunningProxy]:
    loopback.heal()
    with running_proxy(loopback) as found:
        yield found


def connect(proxy: RunningProxy) -> genai.Client:
    options = types.HttpOptions(base_url=proxy.url)
    return genai.Client(api_key="any", http_options=options)


def stored(proxy: RunningProxy) -> list[Record]:
    """The records of the one session that there is, on one branch."""
    (info,) = proxy.store.sessions(owner=ANY_OWNER)
    assert len(proxy.store.branches(info.key)) == 1
    return list(proxy.store.read(info.key))


def keep(history: list[Any], answer: types.GenerateContentResponse) -> None:
    """Take an answer, or a piece of one, into a history, as chats of the package do."""
    content = answer.candidates[0].content if answer.candidates else None
    if content is not None and any(part.text != "" for part in content.parts or ()):
        history.append(content)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("is_awaited", [False, True])
def test_a_chat_is_one_session(proxy: RunningProxy, is_streamed: bool, is_awaited: bool) -> None:
    """A streamed reply is kept as many contents by the client; the log has it as one."""
    client = connect(proxy)
    config = types.GenerateContentConfig(system_instruction="Be brief.")
    history: list[Any] = []
    asked: dict[str, Any] = {"model": MODEL, "contents": history, "config": config}

    async def talk() -> None:
        for number in range(3):
            history.append(types.UserContent(f"question {number}"))
            if is_streamed:
                async for piece in await client.aio.models.generate_content_stream(**asked):
                    keep(history, piece)
            else:
                keep(history, await client.aio.models.generate_content(**asked))
        await client.aio.aclose()

    if is_awaited:
        asyncio.run(talk())
    else:
        for number in range(3):
            history.append(types.UserContent(f"question {number}"))
            if is_streamed:
                for piece in client.models.generate_content_stream(**asked):
                    keep(history, piece)
            else:
                keep(history, client.models.generate_content(**asked))
    assert len(history) > 6 if is_streamed else len(history) == 6
    records = stored(proxy)
    assert [rec.kind for rec in records if rec.kind in ("user", "assistant")] == [
        *("user", "assistant") * 3
    ]
    replies = [rec for rec in records if isinstance(rec, Assistant)]
    assert {str(reply.content[0]["text"]) for reply in replies} == {LONG}  # type: ignore[index]
    assert {(reply.provider, reply.model) for reply in replies} == {("google", MODEL)}
    usage = read_usage(replies[-1].usage, "google")
    assert usage is not None
    assert usage.prompt > 0
    (terms,) = [rec for rec in records if isinstance(rec, ModelChange)]
    assert terms.extra["request"]["system"] == "Be brief."


def test_tools_thinking_and_pictures(proxy: RunningProxy, loopback: Loopback) -> None:
    """Automatic calls of Python functions, a picture, and thoughts: what upstream and client see
    is what they would see without a proxy."""

    def read_file(path: str) -> str:
        """Reads a file."""
        return f"content of {path}"

    config = types.GenerateContentConfig(
        tools=[read_file], thinking_config=types.ThinkingConfig(include_thoughts=True)
    )
    client = connect(proxy)
    chat = client.chats.create(model=MODEL, config=config)
    picture = types.Part.from_bytes(data=base64.b64decode(PIXEL), mime_type="image/png")
    before = len(loopback.requests)
    answer = chat.send_message([picture, "Look at the file."])
    assert answer.text == LONG
    assert chat.send_message("And?").text == LONG
    records = stored(proxy)
    (result,) = [rec for rec in records if isinstance(rec, ToolResult)]
    assert "content of a.txt" in str(result.content)
    first = next(rec for rec in records if isinstance(rec, User))
    assert [block["type"] for block in first.content] == ["image", "text"]  # type: ignore[union-attr, index]
    seen = [request.body for request in loopback.requests[before:]]
    assert len(seen) == 3
    assert "inlineData" in json.dumps(seen[-1])


def test_a_chat_that_outgrows_its_window_goes_on() -> None:
    def grow(asked: Asked) -> Answer:
        return Answer(f"{len(asked.messages)} and a line of an answer " * 150)

    with Loopback(grow, limit=20_000) as upstream, running_proxy(upstream) as proxy:
        client, history = connect(proxy), list[Any]()
        for number in range(30):
            history.append(types.UserContent(f"question {number}"))
            text = client.models.generate_content(model=MODEL, contents=history).text or ""
            history += [types.ModelContent(text[:50]), types.ModelContent(text[50:])]
        refused = [request for request in upstream.requests if request.status != 200]
        records = stored(proxy)
    assert 1 <= len(refused) <= 3
    assert sum(isinstance(rec, Assistant) for rec in records) == 30
    assert any(rec.kind == "compaction" for rec in records)
    shown = json.dumps(upstream.requests[-1].body)
    assert "question 29" in shown
    assert len(upstream.requests[-1].body["contents"]) < len(history) / 2


def test_errors_are_the_providers_own_or_ours(proxy: RunningProxy, loopback: Loopback) -> None:
    client = connect(proxy)
    loopback.fail_next(Fault.rate_limited(1))
    with pytest.raises(errors.ClientError) as told:
        client.models.generate_content(model=MODEL, contents="Hello")
    assert told.value.code == 429
    proxy.lead_to("http://127.0.0.1:1")
    with pytest.raises(errors.ServerError, match="Holdfast proxy: the upstream `gemini` cannot"):
        client.models.generate_content(model=MODEL, contents="Hello")


def test_what_the_provider_holds_is_not_cut() -> None:
    """A request with cached content has only the rest of its history."""
    body: dict[str, Any] = {
        "cachedContent": "cachedContents/abc",
        "contents": [{"role": "user", "parts": [{"text": "a word " * 60_000}]}],
    }
    from holdfast.engine.proxy.exchange import ProxyKeeper
    from holdfast.engine.proxy.request import ClientRequest
    from holdfast.stores.in_memory import MemoryStore

    request = ClientRequest(
        dialect="gemini",
        upstream="gemini",
        headers={},
        data=json.dumps(body).encode(),
        path_model=MODEL,
    )
    begun = ProxyKeeper(MemoryStore(), mode="save", window=Window(10_000)).begin(request)
    assert begun.body == request.data
    assert begun.is_logged
