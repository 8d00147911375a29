"""Recorded sessions through the proxy, request by request: upstream and client see the same bytes
as without it. The ordinary run takes a sample by name; the nightly run takes every request of every
session, in every dialect."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from tests.engine.proxy.conversations import DIALECTS, path_for
from tests.engine.proxy.real_requests import recorded_sessions
from tests.support.runs import is_whole
from tests.surfaces.proxy.in_process import InProcessProxy, MemoryUpstream

from holdfast.core.owners import ANY_OWNER
from holdfast.core.window import Window
from holdfast.engine.proxy.exchange import ProxyKeeper
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing.loopback.anthropic_wire import AnthropicWire
from holdfast.testing.loopback.asking import Call
from holdfast.testing.loopback.chat_wire import ChatWire
from holdfast.testing.loopback.gemini_wire import GeminiWire
from holdfast.testing.loopback.responses_wire import ResponsesWire
from holdfast.testing.loopback.speaking import Spoken

if TYPE_CHECKING:
    from tests.engine.proxy.real_requests import RecordedRequest, RecordedSession

    from holdfast.core.log.records import Assistant, Json
    from holdfast.testing.loopback.speaking import Wire

pytestmark = pytest.mark.files_only("it makes its own stores, and asks none for more than a log")
WIRES: dict[str, Wire] = {
    "anthropic": AnthropicWire(),
    "openai-chat": ChatWire(),
    "openai-responses": ResponsesWire(),
    "gemini": GeminiWire(),
}
PACKETS = (3, 50, 700, 10_000)
"""Bytes of a packet: events are split within a character, a name, an event, or not at all."""
PACKETS_MAX = 2_000
"""Of one reply, so that the long ones come in larger packets."""
WINDOW = 10_000_000
"""Tokens: every recorded request fits."""


def stream_of(reply: Assistant, body: Json, dialect: str) -> bytes:
    """A recorded reply as the stream of a provider."""
    said = reply.content
    blocks: list[Json] = said if isinstance(said, list) else [{"text": said or ""}]
    calls = tuple(
        Call(str(block.get("name")), block.get("input") or {}, str(block.get("id")))
        for block in blocks
        if block.get("type") == "tool_use"
    )
    spoken = Spoken(
        id="m",
        model=body.get("model", "m"),
        created=1,
        stop="tools" if calls else "end",
        text="".join(block.get("text") or "" for block in blocks),
        calls=calls,
        body=body,
    )
    return b"".join(event.data for event in WIRES[dialect].events(spoken))


async def play(session: RecordedSession, dialect: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Send the requests of a session; returns their number."""
    upstream, store = MemoryUpstream(), MemoryStore()
    count = 0
    named = [(b"x-session-id", b"one")]
    async with InProcessProxy(
        ProxyKeeper(store, window=Window(WINDOW)), upstream, monkeypatch
    ) as proxy:
        for number, place in enumerate(session.places(0.05)):
            request = session.request(place, dialect)
            if request is None or not request.items:
                continue
            await _exchange(proxy, upstream, request, number, named)
            count += 1
    if count:
        (info,) = store.sessions(owner=ANY_OWNER)
        assert info.messages > 0, session.name
    return count


async def _exchange(
    proxy: InProcessProxy,
    upstream: MemoryUpstream,
    request: RecordedRequest,
    number: int,
    headers: list[tuple[bytes, bytes]],
) -> None:
    body = {**request.body, "stream": True}
    # As JavaScript writes it, or as Python does: neither is how the proxy would.
    sent = json.dumps(body, ensure_ascii=number % 2 == 0, indent=number % 3 or None).encode(
        errors="surrogatepass"
    )
    stream = stream_of(request.reply, body, request.dialect)
    size = max(PACKETS[number % len(PACKETS)], len(stream) // PACKETS_MAX)
    upstream.packets = [stream[at : at + size] for at in range(0, len(stream), size)]
    answer = await proxy.post(path_for(request.dialect, is_streamed=True), sent, headers)
    assert answer.status == 200, f"{request.name}: {answer.data[:500]!r}"
    assert answer.headers["x-holdfast-action"] == "passed", request.name
    assert upstream.bodies[-1] == sent, request.name
    assert answer.chunks == list(upstream.packets), request.name


def test_requests_that_fit_and_their_replies_pass_byte_for_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 0
    for number, session in enumerate(recorded_sessions(0.02)):
        for step in range(len(DIALECTS) if is_whole() else 1):
            dialect = DIALECTS[(number + step) % len(DIALECTS)]
            count += asyncio.run(play(session, dialect, monkeypatch))
    print(f"{count:,} requests passed")
    assert count >= 20
