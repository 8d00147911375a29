"""Conversations through a real proxy: overflow, refusals, streams that break, hang-ups."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.proxy.conversations import DIALECTS, Client, path_for
from tests.support.runs import sample
from tests.surfaces.proxy.proxies import running_proxy
from tests.surfaces.proxy.test_app import BODY, EVENTS, HEAD, STREAM
from tests.surfaces.proxy.upstreams import RawUpstream, chunked, exchange, post

from holdfast import Assistant, SessionKey
from holdfast.core.owners import ANY_OWNER
from holdfast.testing import Answer, Call, Fault, Loopback
from holdfast.testing.loopback.faults import OVERFLOWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.surfaces.proxy.proxies import RunningProxy

    from holdfast.core.log.records import Json, Record

LIMIT = 25_000
OUTPUT = "a line of output " * 330


class Sent:
    """An answer that a client got."""

    def __init__(self, status: int, headers: Any, data: bytes) -> None:
        self.status = status
        self.headers = headers
        self.data = data


def send(proxy: RunningProxy, client: Client, **changes: Any) -> Sent:
    """Send a client's conversation over HTTP."""
    request = client.request(**changes)
    asked = urllib.request.Request(
        proxy.url + path_for(client.dialect, is_streamed=changes.get("stream", False)),
        request.data,
        {"content-type": "application/json", **client.headers},
    )
    try:
        with urllib.request.urlopen(asked, timeout=60) as reply:
            return Sent(reply.status, reply.headers, reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return Sent(error.code, error.headers, error.read())


def step(client: Client, answer: Json, number: int) -> None:
    """Take a reply into the conversation, and answer its calls."""
    if client.dialect == "anthropic":
        client.items.append({"role": "assistant", "content": answer["content"]})
        client.items.append(
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": block["id"], "content": OUTPUT}
                    for block in answer["content"]
                    if block["type"] == "tool_use"
                ],
            }
        )
    elif client.dialect == "openai-chat":
        message = answer["choices"][0]["message"]
        client.items.append(message)
        client.items += [
            {"role": "tool", "tool_call_id": call["id"], "content": f"{number} {OUTPUT}"}
            for call in message["tool_calls"]
        ]
    elif client.dialect == "gemini":
        said = answer["candidates"][0]["content"]
        client.items.append(said)
        calls = [part["functionCall"] for part in said["parts"] if "functionCall" in part]
        client.items.append(
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": call["name"], "response": {"output": OUTPUT}}}
                    for call in calls
                ],
            }
        )
    else:
        output = [item for item in answer["output"] if item["type"] != "reasoning"]
        client.items += [{n: v for n, v in item.items() if n != "id"} for item in output]
        client.items += [
            {"type": "function_call_output", "call_id": item["call_id"], "output": OUTPUT}
            for item in output
            if item["type"] == "function_call"
        ]


def look(asked: Any) -> Answer:
    number = len(asked.messages)
    return Answer(f"step {number}", (Call("read", {"path": f"f{number}.txt"}),))


def items_of(body: Json) -> list[Any]:
    found = body.get("messages", body.get("input", body.get("contents")))
    assert isinstance(found, list)
    return found


_numbers = count(1)


def long_client(dialect: str, steps: int = 12) -> Client:
    """A client amid a conversation that no other client has."""
    client = Client(dialect)
    client.say(f"Fix the tests of project {next(_numbers)}.")
    for number in range(steps):
        client.hear(f"look {number}", f"{number}.txt")
        client.answer(OUTPUT)
    return client


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with Loopback() as found:
        yield found


@pytest.fixture(scope="module")
def proxy(loopback: Loopback) -> Iterator[RunningProxy]:
    with running_proxy(loopback) as found:
        yield found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_conversation_that_outgrows_its_window_goes_on(dialect: str) -> None:
    """The client sends its whole history each time. Every request is answered, what fits is the
    client's own, the newest message is whole, and cut requests are prefixes of each other."""
    client = Client(dialect)
    client.say("Fix the tests.")
    with Loopback(look, limit=LIMIT) as upstream, running_proxy(upstream) as proxy:
        cut: list[list[Any]] = []
        for number in range(27):
            before = len(upstream.requests)
            sent = send(proxy, client)
            assert sent.status == 200
            calls = upstream.requests[before:]
            assert len(calls) <= 4
            body = json.loads(client.request().data)
            if sent.headers["x-holdfast-action"] == "passed":
                assert calls[-1].body == body
            else:
                cut.append(items_of(calls[-1].body))
                lists = dict.fromkeys(("messages", "input", "contents"), 0)
                assert calls[-1].body | lists == body | lists
                assert items_of(calls[-1].body)[-1] == client.items[-1]
            step(client, json.loads(sent.data), number)
        refused = [request for request in upstream.requests if request.status != 200]
        (info,) = proxy.store.sessions(owner=ANY_OWNER)
        branches = proxy.store.branches(info.key)
    assert len(cut) >= 5
    assert len(refused) <= 2
    prefixes = [later[: len(sooner)] == sooner for sooner, later in pairwise(cut)]
    assert prefixes.count(False) <= 1
    assert len(branches) == 1
    assert info.messages == 27 * 2


@pytest.mark.parametrize("host", sample(OVERFLOWS, share=0.5))
def test_every_known_refusal_for_size_is_answered(
    host: str, loopback: Loopback, proxy: RunningProxy
) -> None:
    client = long_client("anthropic" if "anthropic" in host or "bedrock" in host else "openai-chat")
    loopback.heal()
    loopback.fail_next(Fault.overflow(host))
    before = len(loopback.requests)
    sent = send(proxy, client)
    calls = loopback.requests[before:]
    assert sent.status == 200
    assert 2 <= len(calls) <= 4
    assert len({json.dumps(call.body) for call in calls}) == len(calls)
    assert sent.headers["x-holdfast-calls"] == str(len(calls))
    if host != "anthropic-output":  # a shorter reply is enough there
        assert items_of(calls[-1].body)[-1] == client.items[-1]
        assert calls[-1].tokens < calls[0].tokens


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_provider_that_refuses_every_size_has_the_last_word(
    dialect: str, loopback: Loopback, proxy: RunningProxy
) -> None:
    loopback.heal()
    loopback.fail_when(lambda _asked: True, Fault.overflow())
    before = len(loopback.requests)
    sent = send(proxy, long_client(dialect, 20))
    loopback.heal()
    assert sent.status == 400
    assert b"Holdfast" not in sent.data
    assert len(loopback.requests) - before <= 4


@pytest.mark.parametrize(
    "fault",
    [Fault.rate_limited(1), Fault.overloaded(), Fault.unauthorized(), Fault.no_credit()],
    ids=lambda fault: fault.name,
)
def test_other_refusals_are_the_clients_and_are_not_repeated(
    fault: Fault, loopback: Loopback, proxy: RunningProxy
) -> None:
    loopback.heal()
    loopback.fail_next(fault)
    before = len(loopback.requests)
    sent = send(proxy, long_client("anthropic"))
    assert sent.status >= 400
    assert len(loopback.requests) == before + 1


@pytest.mark.parametrize("dialect", ["anthropic", "openai-responses"])
def test_a_refusal_in_the_stream_is_answered_before_anything_was_said(
    dialect: str, loopback: Loopback, proxy: RunningProxy
) -> None:
    """A Codex thread that meets `context_length_exceeded` as an event is dead without it."""
    client = long_client(dialect)
    loopback.heal()
    loopback.fail_next(Fault.overflow_in_stream("start"))
    before = len(loopback.requests)
    sent = send(proxy, client, stream=True)
    assert len(loopback.requests) - before == 2
    assert (sent.status, sent.headers["x-holdfast-calls"]) == (200, "2")
    assert b"context" not in sent.data.replace(b"context_management", b"")
    loopback.fail_next(Fault.overflow_in_stream("text"))
    client.say("more")
    late = send(proxy, client, stream=True)
    assert b'"error"' in late.data
    assert late.headers["x-holdfast-calls"] == "1"


def test_observing_changes_nothing() -> None:
    with Loopback(limit=LIMIT) as upstream, running_proxy(upstream, mode="observe") as proxy:
        client = long_client("anthropic", 30)
        sent = send(proxy, client)
        assert sent.status == 400
        assert [request.body for request in upstream.requests] == [
            json.loads(client.request().data)
        ]


def test_saving_cuts_when_it_pays() -> None:
    """A conversation that is resumed with a cold cache is cut although it fits."""
    client = long_client("anthropic", 30)
    client.say("And now?")
    with (
        Loopback(limit=LIMIT * 4) as upstream,
        running_proxy(upstream, mode="save", window=45_000) as proxy,
    ):
        sent = send(proxy, client)
        assert sent.status == 200
        assert sent.headers["x-holdfast-action"] == "projected"
        assert upstream.requests[-1].tokens < LIMIT


def test_a_second_proxy_goes_on_where_the_first_one_was(tmp_path: Any) -> None:
    """Killed between two requests, with a cut: the next one has the same prefix."""
    from holdfast.stores.jsonl.store import JsonlStore

    client = Client("anthropic")
    client.say("Fix the tests.")
    cut = []
    with Loopback(look, limit=LIMIT) as upstream:
        for number in range(25):
            if number < 20:
                step(client, json.loads(client.hear(f"s{number}", f"{number}")), number)
                del client.items[-3]  # `hear` has stored it already
                continue
            with JsonlStore(str(tmp_path)) as store, running_proxy(upstream, store) as proxy:
                sent = send(proxy, client)
            assert sent.status == 200
            if sent.headers["x-holdfast-action"] == "projected":
                cut.append(items_of(upstream.requests[-1].body))
            step(client, json.loads(sent.data), number)
    assert len(cut) >= 3
    assert cut[-1][: len(cut[-2])] == cut[-2]


# Streams that break


def _records(proxy: RunningProxy, name: str) -> list[Record]:
    return [entry.record for entry in proxy.store.read_all(SessionKey("main", name))]


@pytest.fixture(scope="module")
def raw() -> Iterator[tuple[RawUpstream, RunningProxy]]:
    with RawUpstream([]) as upstream, running_proxy(upstream.url) as found:
        yield upstream, found


def _post(name: str) -> bytes:
    return post(f"/holdfast/session/{name}/v1/messages", BODY)


@pytest.mark.parametrize("kept", range(len(EVENTS)))
@pytest.mark.parametrize("resets", [False, True])
def test_an_upstream_that_breaks_off_after_any_event(
    kept: int, resets: bool, raw: tuple[RawUpstream, RunningProxy]
) -> None:
    """The client gets what came and an error, never a whole reply; the log has both."""
    upstream, proxy = raw
    upstream.packets, upstream.resets = [HEAD + b"".join(EVENTS[:kept])], resets
    name = f"break-{kept}-{resets}"
    got = exchange(proxy.port, _post(name))
    body = got.partition(b"\r\n\r\n")[2]
    assert b"message_stop" not in got
    assert b"Holdfast proxy: " in got
    if got.startswith(b"HTTP/1.1 200"):
        passed = chunked(body)
        begun = b"".join(EVENTS[:kept])
        assert passed.startswith(begun) or begun.startswith(passed.partition(b"event: error")[0])
    records = _records(proxy, name)
    assert records[-1].kind == ("assistant" if kept >= 4 else "failure")
    if isinstance(records[-1], Assistant):
        assert records[-1].extra["cause"]


@pytest.mark.parametrize("kept", range(4, len(EVENTS)))
def test_a_client_that_hangs_up_after_any_event(
    kept: int, raw: tuple[RawUpstream, RunningProxy]
) -> None:
    """The upstream is let go, and what had come is stored with the cause."""
    upstream, proxy = raw
    begun = b"".join(EVENTS[:kept])
    upstream.packets = [HEAD + begun, *([b": wait\n\n"] * 200)]
    upstream.resets, upstream.pause = False, 0.05
    upstream.hung_up.clear()
    name = f"gone-{kept}"
    exchange(proxy.port, _post(name), stop_after=len(begun))
    assert upstream.hung_up.wait(30)
    upstream.pause = 0.0
    record = _wait_for(proxy, name)
    assert isinstance(record, Assistant)
    assert record.extra["cause"] == "the client hung up"


def _wait_for(proxy: RunningProxy, name: str) -> Record:
    """The newest record, once it is one of the reply."""
    import time

    for _ in range(600):
        record = _records(proxy, name)[-1]
        if record.kind in ("assistant", "failure"):
            return record
        time.sleep(0.05)
    raise AssertionError("nothing was stored")


def test_the_reply_is_stored_before_its_last_event_goes_out(
    raw: tuple[RawUpstream, RunningProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream, proxy = raw
    upstream.packets, upstream.resets = [HEAD + STREAM], False
    seen: list[bool] = []
    from holdfast.surfaces.proxy import turns as proxy_turns

    passed = proxy_turns.send_chunk

    async def spy(send: Any, chunk: bytes) -> None:
        if b"message_stop" in chunk:
            kinds = [record.kind for record in _records(proxy, "last")]
            seen.append("assistant" in kinds)
        await passed(send, chunk)

    monkeypatch.setattr("holdfast.surfaces.proxy.turns.send_chunk", spy)
    exchange(proxy.port, _post("last"))
    assert seen == [True]


def test_the_new_part_is_stored_before_it_goes_upstream(
    raw: tuple[RawUpstream, RunningProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream, proxy = raw
    upstream.packets, upstream.resets = [HEAD + STREAM], False
    from holdfast.surfaces.proxy.upstream import UpstreamClient

    passed = UpstreamClient.send
    seen: list[list[str]] = []

    async def spy(self: UpstreamClient, *args: Any) -> Any:
        seen.append([record.kind for record in _records(proxy, "first")])
        return await passed(self, *args)

    monkeypatch.setattr(UpstreamClient, "send", spy)
    exchange(proxy.port, _post("first"))
    assert seen == [["session", "model", "user"]]
