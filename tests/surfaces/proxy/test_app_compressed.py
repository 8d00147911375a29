"""Compressed requests and replies: unchanged on their way, readable in the log."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import random
import warnings
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.engine.proxy.conversations import DIALECTS, Client, path_for
from tests.support.runs import examples
from tests.surfaces.proxy.in_process import InProcessProxy, MemoryUpstream

from holdfast.core.log.records import Assistant
from holdfast.core.owners import ANY_OWNER
from holdfast.core.window import Window
from holdfast.engine.proxy.exchange import ProxyKeeper
from holdfast.errors import HoldfastWarning
from holdfast.records import Header
from holdfast.stores import MemoryStore
from holdfast.stores.payloads import load_zstd

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.surfaces.proxy.in_process import ClientAnswer

    from holdfast.engine.proxy.keeper import ProxyMode

zstd = load_zstd()

ENCODE: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    "identity": lambda data: data,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstd.compress,
    "gzip, zstd": lambda data: zstd.compress(gzip.compress(data)),
}
MODES: tuple[ProxyMode, ...] = ("observe", "guard", "save")
WINDOW = 8_000


def talk(dialect: str, turns: int, size: int) -> Client:
    client = Client(dialect)
    for turn in range(turns):
        client.say(f"é {turn} " + "one two three four " * (size // 20))
        client.hear(f"Said {turn}")
    client.say("And now?")
    return client


def send(
    monkeypatch: pytest.MonkeyPatch,
    client: Client,
    mode: ProxyMode,
    encoding: str,
    reply_encoding: str = "",
    body: bytes | None = None,
) -> tuple[ClientAnswer, MemoryUpstream, list[Any]]:
    """Send a conversation through a proxy; its answer, what the upstream saw, and the log."""
    # The same ids in each log: their tokens count, and how much fits depends on them.
    entropy, ticks = random.Random(7).getrandbits, itertools.count(1_700_000_000)
    store = MemoryStore(entropy=entropy, clock=lambda: float(next(ticks)))
    upstream = MemoryUpstream()
    upstream.content_type = "application/json"
    upstream.content_encoding = reply_encoding
    upstream.packets = [ENCODE[reply_encoding](client.hear("Whole reply"))]
    client.items.pop()
    data = client.request().data if body is None else body
    headers = [(b"content-encoding", encoding.encode())] if encoding else []

    async def play() -> ClientAnswer:
        keeper = ProxyKeeper(store, mode=mode, window=Window(WINDOW))
        async with InProcessProxy(keeper, upstream, monkeypatch) as proxy:
            path = path_for(client.dialect)
            return await proxy.post(path, data, [(b"x-session-id", b"one"), *headers])

    answer = asyncio.run(play())
    records = [
        entry.record
        for info in store.sessions(owner=ANY_OWNER)
        for entry in store.read_all(info.key)
        if not isinstance(entry.record, Header)
    ]
    return answer, upstream, records


def said(records: list[Any]) -> list[Any]:
    return [record.content for record in records if hasattr(record, "content")]


@examples(60)
@example("anthropic", "guard", "zstd", "gzip", 2)
@example("openai-responses", "save", "gzip, zstd", "zstd", 2)
@example("openai-chat", "observe", "deflate", "deflate", 40)
@example("gemini", "guard", "gzip", "gzip, zstd", 1)
@example("anthropic", "guard", "gzip", "zstd", 40)
@example("openai-responses", "guard", "zstd", "", 40)
@example("openai-chat", "save", "deflate", "gzip", 40)
@given(
    st.sampled_from(DIALECTS),
    st.sampled_from(MODES),
    st.sampled_from(sorted(ENCODE)),
    st.sampled_from(sorted(ENCODE)),
    st.sampled_from([1, 2, 40]),
)
def test_a_compressed_request_passes_unchanged_and_is_logged_readable(
    dialect: str, mode: ProxyMode, encoding: str, reply_encoding: str, turns: int
) -> None:
    """What need not be changed goes on byte for byte, with its header; what is cut goes on plain.
    The log is that of the same request without compression, and so is the reply."""
    with pytest.MonkeyPatch.context() as patch:
        plain = talk(dialect, turns, 2_000).request().data
        body = ENCODE[encoding](plain)
        client = talk(dialect, turns, 2_000)
        answer, upstream, records = send(patch, client, mode, encoding, reply_encoding, body)
        usual = send(patch, talk(dialect, turns, 2_000), mode, "")
    assert answer.status == 200
    assert answer.data == upstream.packets[0]
    assert answer.headers.get("content-encoding", "") == reply_encoding
    sent = dict(upstream.headers[-1])
    if answer.headers["x-holdfast-action"] == "passed":
        assert upstream.bodies[-1] == body
        assert sent.get(b"content-encoding", b"").decode() == encoding
    else:
        assert turns == 40
        assert mode != "observe"
        assert b"content-encoding" not in sent
        assert upstream.bodies[-1] == usual[1].bodies[-1]
        assert len(json.loads(upstream.bodies[-1])) == len(json.loads(plain))
    assert said(records) == said(usual[2])
    (*_, reply) = [record for record in records if isinstance(record, Assistant)]
    assert "Whole reply" in json.dumps(reply.content)


def test_a_long_compressed_conversation_is_cut() -> None:
    """The rule above is about something: at this size, requests are projected."""
    with pytest.MonkeyPatch.context() as patch:
        answer, *_ = send(patch, talk("anthropic", 40, 2_000), "guard", "", "")
    assert answer.headers["x-holdfast-action"] == "projected"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("encoding", ["br", "gzip, br", "x-own"])
def test_an_encoding_that_cannot_be_read_passes_in_observe_alone(
    dialect: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a log is promised, the client reads why; else the bytes pass, with a warning."""
    for mode in MODES:
        client, body = talk(dialect, 1, 50), b"\x00 whatever this is"
        if mode == "observe":
            with pytest.warns(HoldfastWarning, match="passed on without a log"):
                answer, upstream, records = send(monkeypatch, client, mode, encoding, body=body)
            assert answer.status == 200
            assert upstream.bodies == [body]
            assert dict(upstream.headers[0])[b"content-encoding"] == encoding.encode()
        else:
            answer, upstream, records = send(monkeypatch, client, mode, encoding, body=body)
            assert answer.status == 415
            assert "gzip, deflate, zstd or none" in json.loads(answer.data)["error"]["message"]
            assert upstream.bodies == []
        assert records == []


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("mode", MODES)
def test_a_bomb_and_a_damaged_body_are_refused_in_the_clients_dialect(
    dialect: str, mode: ProxyMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = zstd.compress(b" " * 70_000_000)
    for body, status in ((bomb, 413), (gzip.compress(b"{}"), 400)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            client = talk(dialect, 1, 50)
            answer, upstream, records = send(monkeypatch, client, mode, "zstd", body=body)
        assert answer.status == status
        assert json.loads(answer.data)["error"]["message"].startswith("Holdfast proxy: the body")
        assert upstream.bodies == []
        assert records == []
