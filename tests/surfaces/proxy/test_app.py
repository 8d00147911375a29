"""What need not be changed is not changed: requests and answers through a real proxy."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

import anthropic
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples
from tests.surfaces.proxy.proxies import running_proxy
from tests.surfaces.proxy.upstreams import RawUpstream, chunked, exchange, post
from tests.testing import sdks

from holdfast import Assistant, SessionKey, User
from holdfast.core.owners import ANY_OWNER
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing import Answer, Call, Fault, Loopback

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.databases import Contents
    from tests.surfaces.proxy.proxies import RunningProxy

BODY = (
    b'{"messages" :[ {"content":"\\u00e9 x","role":"user", "unknown":[1.0, 1e3]}],\n'
    b'"zeta":null, "max_tokens":5,"model":"claude-opus-4-8","stream":true}'
)
"""With spaces, an order of its own, escapes and numbers that a second encoding would change."""
EVENTS = [
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","role":"assistant",'
    b'"content":[],"usage":{"input_tokens":3}}}\n\n',
    b": a comment\n\n",
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":""}}\n\n',
    'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
    '"text":"é – 漢字"}}\n\n'.encode(),
    b'data: {"type":"content_block_stop","index":0}\r\n\r\n',
    b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},'
    b'"usage":{"output_tokens":2}}\n\n',
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
]
STREAM = b"".join(EVENTS)
UNREACHED = r"Holdfast proxy: the upstream `\w+` cannot be reached"
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-upstream: a\r\nx-upstream: b\r\n"
    b"connection: close\r\n\r\n"
)


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with Loopback() as found:
        yield found


@pytest.fixture(scope="module")
def proxy(loopback: Loopback) -> Iterator[RunningProxy]:
    with running_proxy(loopback) as found:
        yield found


@pytest.fixture(scope="module")
def raw() -> Iterator[tuple[RawUpstream, RunningProxy]]:
    with RawUpstream([]) as upstream, running_proxy(upstream.url) as found:
        yield upstream, found


def test_a_request_that_fits_reaches_the_upstream_byte_for_byte() -> None:
    with RawUpstream([HEAD, STREAM]) as upstream, running_proxy(upstream.url) as proxy:
        given = ("x-api-key: sk-secret", "anthropic-beta: one,two", "X-Own: 1", "X-Own: 2")
        exchange(proxy.port, post("/v1/messages?beta=true&x=%2F", BODY, *given))
        (seen,) = upstream.requests
    assert seen.line == b"POST /v1/messages?beta=true&x=%2F HTTP/1.1"
    assert seen.body == BODY
    sent = [line.split(": ", 1) for line in given]
    passed = [pair for pair in seen.headers if pair[0].startswith((b"x-", b"anthropic"))]
    assert passed == [(name.lower().encode(), value.encode()) for name, value in sent]
    names = {name for name, _value in seen.headers} - {name for name, _value in passed}
    assert names == {b"host", b"content-type", b"content-length"}


@given(cuts=st.lists(st.integers(1, len(STREAM) - 1), max_size=12))
@examples(100)
def test_a_stream_comes_back_byte_for_byte_however_it_is_split(
    raw: tuple[RawUpstream, RunningProxy], cuts: list[int]
) -> None:
    """Also amid a character, and with comments and other line ends: the same bytes, one reply."""
    places = [0, *sorted(set(cuts)), len(STREAM)]
    packets = [STREAM[start:end] for start, end in pairwise(places)]
    upstream, proxy = raw
    upstream.packets = [HEAD, *packets]
    name = f"split-{len(upstream.requests)}"
    got = exchange(proxy.port, post(f"/holdfast/session/{name}/v1/messages", BODY))
    head, _, body = got.partition(b"\r\n\r\n")
    assert chunked(body) == STREAM
    assert head.lower().count(b"x-upstream: ") == 2
    records = [entry.record for entry in proxy.store.read_all(SessionKey("main", name))]
    (reply,) = [record for record in records if isinstance(record, Assistant)]
    assert reply.content == [{"type": "text", "text": "é – 漢字"}]
    assert reply.usage == {"input_tokens": 3, "output_tokens": 2}
    assert "cause" not in reply.extra


def test_each_event_passes_before_the_next_one_comes() -> None:
    """A client reads the first text while the upstream still waits with the rest."""
    head = HEAD.replace(b"connection: close\r\n", b"transfer-encoding: chunked\r\n")
    first = b"".join(EVENTS[:4])
    packet = f"{len(first):x}\r\n".encode() + first + b"\r\n"
    with (
        RawUpstream([head + packet], pause=5.0) as upstream,
        running_proxy(upstream.url) as proxy,
    ):
        got = exchange(proxy.port, post("/v1/messages", BODY), stop_after=len(first))
    assert b"text_delta" in got


@pytest.mark.parametrize("way", sdks.WAYS, ids=str)
def test_the_real_sdks_work_through_it(
    way: sdks.Way, loopback: Loopback, proxy: RunningProxy
) -> None:
    direct, passed = sdks.ask(loopback, way, "Hello"), sdks.ask(proxy, way, "Hello")
    assert (passed.text, passed.stop, passed.usage) == (direct.text, direct.stop, direct.usage)
    assert loopback.requests[-1].body == loopback.requests[-2].body


def test_unknown_endpoints_pass_unread() -> None:
    head = b"HTTP/1.1 418 Odd\r\ncontent-length: 3\r\nx-kept: yes\r\nconnection: close\r\n\r\n"
    answer = head + b"\x00\xff!"
    with RawUpstream([answer]) as upstream, running_proxy(upstream.url) as proxy:
        body = b"\x00\x01 no JSON"
        for path in ("/v1/files", "/v1/messages/batches", "/v1/audio/x", "/other/v9/any?q=1"):
            got = exchange(proxy.port, post(path, body))
            assert got.startswith(b"HTTP/1.1 418")
            assert got.endswith(b"\x00\xff!")
            assert b"x-kept: yes" in got
        seen = [(request.line.split()[1], request.body) for request in upstream.requests]
        stored = proxy.store.sessions(owner=ANY_OWNER)
    assert seen == [
        (b"/v1/files", body),
        (b"/v1/messages/batches", body),
        (b"/v1/audio/x", body),
        (b"/v9/any?q=1", body),
    ]
    assert stored == []


def test_counting_passes_and_is_no_session(loopback: Loopback, proxy: RunningProxy) -> None:
    client = anthropic.Anthropic(api_key="any", base_url=proxy.url, max_retries=0)
    before = len(proxy.store.sessions(owner=ANY_OWNER))
    count = client.messages.count_tokens(
        model="claude-opus-4-8", messages=[{"role": "user", "content": "Hi"}]
    )
    assert count.input_tokens > 0
    assert len(proxy.store.sessions(owner=ANY_OWNER)) == before


def test_a_web_socket_is_answered_with_426(proxy: RunningProxy) -> None:
    asked = (
        f"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1:{proxy.port}\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n"
    )
    got = exchange(proxy.port, asked.encode(), stop_after=12)
    assert got.startswith(b"HTTP/1.1 426")


def test_keys_are_passed_and_stored_nowhere(tmp_path: Path, contents: Contents) -> None:
    key = "sk-ant-very-secret-key-0123456789"
    with (
        Loopback(api_key=key) as guarded,
        JsonlStore(str(tmp_path)) as store,
        running_proxy(guarded, store) as proxy,
    ):
        client = anthropic.Anthropic(api_key=key, base_url=proxy.url, max_retries=0)
        client.messages.create(
            model="claude-opus-4-8", max_tokens=50, messages=[{"role": "user", "content": "Hi"}]
        )
        assert store.sessions(owner=ANY_OWNER)
    stored = dict(contents(tmp_path))
    assert b"Hi" in b"".join(stored.values())
    assert not [place for place, data in stored.items() if key.encode() in data]


# Errors in the dialect of the client


def test_sdks_show_our_sentence_when_the_upstream_is_down() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with running_proxy(f"http://127.0.0.1:{port}") as proxy:
        claude = anthropic.Anthropic(api_key="any", base_url=proxy.url, max_retries=0)
        with pytest.raises(anthropic.InternalServerError, match=UNREACHED):
            claude.messages.create(
                model="claude-opus-4-8", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
            )
        gpt = openai.OpenAI(api_key="any", base_url=proxy.openai_url, max_retries=0)
        with pytest.raises(openai.InternalServerError, match=UNREACHED):
            gpt.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
        with pytest.raises(openai.InternalServerError, match=UNREACHED):
            gpt.responses.create(model="m", input="Hi")
        failures = [
            entry.record
            for info in proxy.store.sessions(owner=ANY_OWNER)
            for entry in proxy.store.read_all(info.key)
            if entry.record.kind == "failure"
        ]
    assert len(failures) == 3


def _error(got: bytes) -> tuple[int, str]:
    head, _, body = got.partition(b"\r\n\r\n")
    error = json.loads(body)["error"]
    return int(head.split()[1]), error["message"]


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "words"),
    [
        ("/v1/messages", b"{", (), 400, "not JSON"),
        ("/v1/messages", b"[1]", (), 400, "not a JSON object"),
        ("/v1/messages", b"\xff\xfe", (), 400, "not JSON"),
        ("/v1/messages", b"[" * 5_000, (), 400, "not JSON"),
        ("/v1/messages", b'{"input": "Hi"}', (), 400, "has no list `messages`"),
        ("/v1/responses", b'{"messages": []}', (), 400, "no message"),
        ("/v1/chat/completions", b'{"messages": []}', (), 400, "no message"),
        ("/holdfast/nothing", b"{}", (), 404, "the proxy has no address"),
        ("/v1/messages", b"{}", ("Origin: https://evil.example",), 403, "refused"),
        ("/v1/messages", b"{}", ("Sec-Fetch-Site: cross-site",), 403, "refused"),
    ],
)
def test_bad_input_is_a_clear_error(
    path: str, body: bytes, headers: tuple[str, ...], status: int, words: str, proxy: RunningProxy
) -> None:
    found = _error(exchange(proxy.port, post(path, body, *headers)))
    assert found[0] == status
    assert words in found[1]
    assert found[1].startswith("Holdfast proxy: ")


def test_a_foreign_host_name_is_refused(proxy: RunningProxy) -> None:
    asked = post("/v1/messages", BODY).replace(b"Host: 127.0.0.1:1", b"Host: evil.example")
    assert _error(exchange(proxy.port, asked))[0] == 421


def test_a_body_over_the_limit_is_refused(loopback: Loopback) -> None:
    with running_proxy(loopback, body_bytes_max=100) as proxy:
        assert _error(exchange(proxy.port, post("/v1/messages", BODY)))[0] == 413


def test_a_proxy_that_leads_to_itself_says_so(loopback: Loopback) -> None:
    with running_proxy(loopback) as proxy:
        proxy.lead_to(proxy.url)
        status, message = _error(exchange(proxy.port, post("/v1/messages", BODY)))
    assert (status, "this proxy itself" in message) == (508, True)


def test_a_silent_upstream_is_named() -> None:
    with (
        RawUpstream([b""], pause=5.0) as upstream,
        running_proxy(upstream.url, silent_seconds=0.3) as proxy,
    ):
        status, message = _error(exchange(proxy.port, post("/v1/messages", BODY)))
    assert (status, "silent" in message) == (504, True)


def test_tls_trouble_is_named() -> None:
    with RawUpstream([b"HTTP/1.1 200 OK\r\n\r\n"], is_eager=True) as upstream:
        plain = f"https://127.0.0.1:{upstream.port}"
        with running_proxy(plain, silent_seconds=5.0) as proxy:
            status, message = _error(exchange(proxy.port, post("/v1/messages", BODY)))
    assert status == 502
    assert "TLS" in message


def test_the_providers_own_error_comes_back_as_it_was(
    loopback: Loopback, proxy: RunningProxy
) -> None:
    client = anthropic.Anthropic(api_key="any", base_url=proxy.url, max_retries=0)
    loopback.fail_next(Fault.rate_limited(retry_after=7))
    with pytest.raises(anthropic.RateLimitError) as caught:
        client.messages.create(
            model="claude-opus-4-8", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
        )
    assert caught.value.response.headers["retry-after"] == "7"


def test_tools_and_thinking_pass(loopback: Loopback) -> None:
    answer = Answer("Look.", (Call("read", {"path": "a"}),), thinking="Hm.")
    with Loopback([answer]) as thinking, running_proxy(thinking) as proxy:
        client = anthropic.Anthropic(api_key="any", base_url=proxy.url, max_retries=0)
        reply = client.messages.create(
            model="claude-opus-4-8",
            max_tokens=4_000,
            thinking={"type": "adaptive", "display": "summarized"},
            tools=[{"name": "read", "input_schema": {"type": "object", "properties": {}}}],
            messages=[{"role": "user", "content": "Hi"}],
        )
        (info,) = proxy.store.sessions(owner=ANY_OWNER)
        stored = list(proxy.store.read(info.key))[-1]
    kinds = [block.type for block in reply.content]
    assert kinds == ["thinking", "text", "tool_use"]
    assert isinstance(stored, Assistant)
    assert isinstance(stored.content, list)
    assert [block["type"] for block in stored.content] == kinds


# What clients really send


def _answer(
    proxy: RunningProxy, body: bytes, *headers: str, path: str = "/v1/messages"
) -> tuple[int, bytes]:
    got = exchange(proxy.port, post(path, body, *headers, port=proxy.port))
    head, _, data = got.partition(b"\r\n\r\n")
    return int(head.split()[1]), data


def test_odd_bodies_are_judged_by_the_provider(loopback: Loopback, proxy: RunningProxy) -> None:
    """Half a character as JavaScript writes it, a mark of the byte order, a number of thirty
    digits: none of them is a reason for the proxy to refuse or to fail."""
    plain = {"model": "claude-opus-4-8", "messages": [{"role": "user", "content": "Hi"}]}
    half = json.dumps({**plain, "max_tokens": 9}).replace("Hi", "a\\ud83d b").encode()
    status, data = _answer(proxy, half)
    assert status == 400
    assert b"no low surrogate" in data
    assert b"Holdfast" not in data
    marked = b"\xef\xbb\xbf" + json.dumps({**plain, "max_tokens": 9}).encode()
    assert _answer(proxy, marked)[0] == 200
    endless = json.dumps({**plain, "max_tokens": 10**30}).encode()
    assert b"Holdfast" not in _answer(proxy, endless)[1]
    whole = f"http://127.0.0.1:{proxy.port}/v1/messages"
    assert _answer(proxy, json.dumps({**plain, "max_tokens": 9}).encode(), path=whole)[0] == 200


def test_an_error_of_our_own_is_told_in_the_clients_dialect(
    proxy: RunningProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("no reason")

    monkeypatch.setattr(proxy.keeper, "begin", fail)
    status, data = _answer(proxy, b'{"messages": []}')
    assert status == 500
    assert json.loads(data)["error"]["message"].startswith("Holdfast proxy: an error")
    assert b"no reason" not in data


def test_a_status_that_http_does_not_have_is_told() -> None:
    """The server could not pass it on, and closed the connection without a word."""
    with (
        RawUpstream([b"HTTP/1.1 999 Odd\r\ncontent-length: 1\r\n\r\nx"]) as upstream,
        running_proxy(upstream.url) as proxy,
    ):
        for path in ("/v1/messages", "/v1/files"):
            status, data = _answer(proxy, BODY, path=path)
            assert status == 502
            assert b"answered with the status 999" in data


def test_two_clients_with_one_session_at_once_do_not_mix(
    loopback: Loopback, tmp_path: Path
) -> None:
    """Each of their messages is in the log once, and each reply follows its own question."""
    with JsonlStore(tmp_path) as store, running_proxy(loopback, store) as proxy:

        def talk(name: str) -> None:
            said: list[dict[str, str]] = []
            for turn in range(6):
                said.append({"role": "user", "content": f"{name} {turn}"})
                body = {"model": "claude-opus-4-8", "max_tokens": 50, "messages": said}
                status, data = _answer(
                    proxy, json.dumps(body).encode(), path="/holdfast/session/one/v1/messages"
                )
                assert status == 200, data
                said.append({"role": "assistant", "content": json.loads(data)["content"]})

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(talk, ("anna", "bert", "cleo", "dora")))
        key = SessionKey("main", "one")
        records = [entry.record for entry in store.read_all(key)]
        paths = [
            [str(one.content) for one in store.read_branch(key, record.id) if isinstance(one, User)]
            for record in records
            if isinstance(record, Assistant)
        ]
    users = [record for record in records if isinstance(record, User)]
    replies = [record for record in records if isinstance(record, Assistant)]
    names = [str(record.content) for record in users]
    assert sorted(names) == sorted(
        f"{n} {t}" for n in ("anna", "bert", "cleo", "dora") for t in range(6)
    )
    assert len(replies) == len(users)
    for path in paths:
        *before, last = path
        name, turn = last.split()
        assert before == [f"{name} {number}" for number in range(int(turn))]
