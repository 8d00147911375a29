"""What clients and hosts really send: pictures by the SDKs, streams that lack usage or an end."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.proxy.conversations import DIALECTS, MODELS, Client, path_for
from tests.surfaces.proxy.in_process import InProcessProxy, MemoryUpstream
from tests.surfaces.proxy.proxies import running_proxy
from tests.surfaces.proxy.test_gemini_clients import PIXEL
from tests.surfaces.proxy.test_turns_own_tools import WIRES

from holdfast.core.log.records import Assistant, User
from holdfast.core.owners import ANY_OWNER
from holdfast.engine.proxy.exchange import ProxyKeeper
from holdfast.stores import MemoryStore
from holdfast.testing import Loopback
from holdfast.testing.loopback.speaking import Spoken

if TYPE_CHECKING:
    from collections.abc import Callable


SAID = "What is in the picture?"
URI = f"data:image/png;base64,{PIXEL}"


def ask_anthropic(url: str) -> str:
    import anthropic

    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    content: Any = [{"type": "image", "source": source}, {"type": "text", "text": SAID}]
    client = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)
    with client.messages.stream(
        model="claude-opus-4-8", max_tokens=100, messages=[{"role": "user", "content": content}]
    ) as stream:
        return stream.get_final_text()


def ask_chat(url: str) -> str:
    import openai

    content: Any = [
        {"type": "image_url", "image_url": {"url": URI}},
        {"type": "text", "text": SAID},
    ]
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
    done = client.chat.completions.create(
        model="gpt-4o", messages=[{"role": "user", "content": content}]
    )
    return done.choices[0].message.content or ""


def ask_responses(url: str) -> str:
    import openai

    content: Any = [
        {"type": "input_image", "image_url": URI, "detail": "auto"},
        {"type": "input_text", "text": SAID},
    ]
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
    given: Any = [{"type": "message", "role": "user", "content": content}]
    with client.responses.stream(model="gpt-4o", input=given) as stream:
        return stream.get_final_response().output_text


@pytest.mark.parametrize("ask", [ask_anthropic, ask_chat, ask_responses])
def test_pictures_of_the_sdks_pass_and_are_logged(ask: Callable[[str], str]) -> None:
    """The provider gets the same request as without a proxy, and the log has the picture."""
    with Loopback() as loopback, running_proxy(loopback) as proxy:
        assert ask(proxy.url) == ask(loopback.url)
        through, direct = loopback.requests
        assert through.body == direct.body
        (info,) = proxy.store.sessions(owner=ANY_OWNER)
        (user,) = [record for record in proxy.store.read(info.key) if isinstance(record, User)]
    assert PIXEL in json.dumps(user.content)
    assert SAID in json.dumps(user.content)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_without_usage_is_whole(dialect: str) -> None:
    """A host that reports no usage, or leaves out `[DONE]`, and one that comments and pings: the
    bytes pass, and the reply is logged whole."""
    spoken = Spoken(
        id="i",
        model=MODELS[dialect],
        created=1,
        stop="end",
        text="Some words of a reply.",
        counts=None,
        body={},
    )
    events = [event.data for event in WIRES[dialect].events(spoken)]
    streams = [
        events,
        [event for event in events if b"[DONE]" not in event],
        [piece for event in events for piece in (b": ping\n\n", event)],
    ]
    for number, packets in enumerate(streams):
        store, upstream = MemoryStore(), MemoryUpstream()
        upstream.packets = packets
        client = Client(dialect)
        client.say(f"question {number}")

        async def ask(upstream: Any = upstream, store: Any = store, client: Any = client) -> bytes:
            with pytest.MonkeyPatch.context() as patch:
                async with InProcessProxy(ProxyKeeper(store), upstream, patch) as proxy:
                    path = path_for(dialect, is_streamed=True)
                    got = await proxy.post(path, client.request(stream=True).data)
                    return bytes(got.data)

        assert asyncio.run(ask()) == b"".join(packets)
        (info,) = store.sessions(owner=ANY_OWNER)
        (reply,) = [record for record in store.read(info.key) if isinstance(record, Assistant)]
        assert reply.content == [{"type": "text", "text": "Some words of a reply."}]
        assert "cause" not in reply.extra
        assert not reply.usage
