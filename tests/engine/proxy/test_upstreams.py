"""A limit of the reply that an upstream stated is kept: it refuses once, not each time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.proxy.conversations import DIALECTS, Client
from tests.surfaces.proxy.proxies import running_proxy
from tests.surfaces.proxy.test_turns import send

from holdfast.core.dialects.registry import find_dialect
from holdfast.core.window import Window
from holdfast.engine.proxy.upstreams import ReplyLimit, ReplyLimits
from holdfast.testing import Loopback

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.surfaces.proxy.proxies import RunningProxy

    from holdfast.core.log.records import Json

ASKED = 12_000
COUNTING = ("anthropic", "openai-chat")
"""Dialects whose refusals say how much of a window the request takes, and how much the reply."""
REPLIES: dict[str, Callable[[Json], list[Any]]] = {
    "anthropic": lambda body: [{"role": "assistant", "content": body["content"]}],
    "openai-chat": lambda body: [body["choices"][0]["message"]],
    "openai-responses": lambda body: body["output"],
    "gemini": lambda body: [body["candidates"][0]["content"]],
}
"""The items of a reply, as clients keep them."""


def asking(dialect: str, name: str, tokens: int = ASKED) -> Client:
    """A client that asks for long replies."""
    client = Client(dialect, system=f"You are {name}.")
    client.extra = find_dialect(dialect).body.limit_reply({}, tokens)
    return client


def talk(proxy: RunningProxy, client: Client, turns: int) -> list[tuple[int, str]]:
    """Say something turn after turn; returns the status and the requests that each took."""
    found = []
    for number in range(turns):
        client.say(f"{number}: " + "words of a question " * 250)
        sent = send(proxy, client)
        client.items += REPLIES[client.dialect](json.loads(sent.data))
        found.append((sent.status, sent.headers["x-holdfast-calls"]))
    return found


def reply_limits(loopback: Loopback, dialect: str) -> list[int | None]:
    body = find_dialect(dialect).body
    return [body.read_output_limit(request.body) for request in loopback.requests]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_longest_reply_is_learned_once_for_a_model(dialect: str) -> None:
    """In the next request of the conversation, and in the first of another one."""
    with Loopback(["Fine."] * 20, output_max=4_000) as upstream, running_proxy(upstream) as proxy:
        assert talk(proxy, asking(dialect, "one"), 3) == [(200, "2"), (200, "1"), (200, "1")]
        assert talk(proxy, asking(dialect, "two"), 1) == [(200, "1")]
        assert talk(proxy, asking(dialect, "three", 900), 1) == [(200, "1")]
        found = reply_limits(upstream, dialect)
    assert found == [ASKED, 4_000, 4_000, 4_000, 4_000, 900]


@pytest.mark.parametrize("dialect", COUNTING)
def test_a_window_that_holds_the_reply_is_learned_once(dialect: str) -> None:
    """The reply gets what the conversation leaves; what stands in it is not touched."""
    client = asking(dialect, "one")
    with Loopback(["Fine."] * 20, limit=20_000) as upstream, running_proxy(upstream) as proxy:
        calls = [count for _status, count in talk(proxy, client, 12)]
        limits = reply_limits(upstream, dialect)
        assert {request.status for request in upstream.requests[-3:]} == {200}
        last = upstream.requests[-1]
    assert calls.count("2") == 1
    assert set(calls) == {"1", "2"}
    assert limits[0] == ASKED
    asked = [limit or 0 for limit in limits[calls.index("2") + 2 :]]
    assert asked == sorted(asked, reverse=True)
    assert asked[-1] < asked[0] < ASKED
    assert conversation(last.body) == client.items[:-1]


def conversation(body: Json) -> list[Json]:
    found = json.loads(json.dumps(body.get("messages") or body.get("input")))
    return [item for item in found if item.get("role") != "system"]


def test_an_upstream_that_states_another_limit_is_believed() -> None:
    """The newest number counts, and each kind by itself."""
    limits = ReplyLimits()
    request = Client("anthropic").request()
    assert limits.find_most(request, lambda: 1_000) is None
    limits.learn(request, ReplyLimit(most=8_000))
    limits.learn(request, ReplyLimit(window=Window(20_000), scale=1.5))
    assert limits.find_most(request, lambda: 1_000) == 8_000
    assert limits.find_most(request, lambda: 10_000) == 20_000 - 15_300
    assert limits.find_most(request, lambda: 13_000) is None, "the conversation gives way"
    limits.learn(request, ReplyLimit(most=16_000))
    assert limits.find_most(request, lambda: 1_000) == 16_000
