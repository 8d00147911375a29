"""Requests and replies of odd shapes: the provider judges the one, the client gets the other."""

from __future__ import annotations

import asyncio
import copy
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.engine.proxy.conversations import DIALECTS, Client, path_for
from tests.support.runs import examples
from tests.surfaces.proxy.in_process import InProcessProxy, MemoryUpstream
from tests.surfaces.proxy.test_app_real_sessions import stream_of

from holdfast.core.log.records import Assistant
from holdfast.core.window import window_argument
from holdfast.engine.proxy.exchange import ProxyKeeper
from holdfast.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.engine.proxy.keeper import ProxyMode

MODES: tuple[ProxyMode, ...] = ("observe", "guard", "save")
ODD: list[Any] = [
    *(None, True, 0, -1, 1.5, 10**30, "", "x", "\ud800", "\x00\u2028", [], {}, [None], [[]]),
    *({"type": None}, {"type": "text"}, {"type": "tool_use"}, {"type": "tool_result"}),
    *({"type": ["x"]}, {"": ""}, [1, "a", {}], {"role": "assistant"}, [{"role": "user"}]),
    *([{"type": "text", "text": None}], {"parts": None}, {"parts": [None]}),
    *({"functionCall": None}, {"functionCall": {"name": None, "args": []}}),
    *({"functionResponse": 5}, {"type": "function_call_output", "output": [{}]}),
    *({"type": "reasoning", "summary": None}, {"tool_calls": None}, {"tool_calls": [None]}),
    *({"tool_calls": [{"function": None}]}, {"tool_calls": 1}),
]
NAMES = (
    *("role", "type", "content", "id", "name", "text", "input", "tool_use_id", "call_id"),
    *("output", "parts", "tools", "system", "metadata", "model", "previous_response_id"),
    *("cache_control", "thinking", "generationConfig"),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value but the whole."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def change(value: Any, luck: random.Random) -> Any:
    """A copy with something odd in one place, or without it."""
    found = list(places(value))
    if not found:
        return value
    changed = copy.deepcopy(value)
    *path, last = luck.choice(found)
    inner = changed
    for key in path:
        inner = inner[key]
    odd = copy.deepcopy(luck.choice(ODD))
    how = luck.random()
    if how < 0.7:
        inner[last] = odd
    elif how < 0.85:
        del inner[last]
    elif isinstance(inner, list):
        inner.insert(last, odd)
    else:
        inner[luck.choice(NAMES)] = odd
    return changed


def odd_request(luck: random.Random) -> tuple[Client, bytes]:
    client = Client(luck.choice(DIALECTS))
    for turn in range(luck.choice([1, 3, 20])):
        client.say(f"q{turn} " + "words and words " * luck.choice([1, 100]))
        client.hear(f"a{turn}", luck.choice(["", "read"]))
        client.answer("out " * luck.choice([1, 300]))
    client.say("last")
    body = json.loads(client.request().data)
    for _ in range(luck.choice([0, 1, 1, 2, 4])):
        body = change(body, luck)
    return client, json.dumps(body).encode()


def odd_stream(client: Client, luck: random.Random) -> bytes:
    call = {"type": "tool_use", "id": "c9", "name": "read", "input": {"a": 1}}
    said = Assistant(content=[{"type": "text", "text": "hello é"}, call])
    events = stream_of(said, {"model": "m", "stream": True}, client.dialect).split(b"\n\n")
    for _ in range(luck.choice([0, 1, 2])):
        at = luck.randrange(len(events))
        lines = events[at].split(b"\n")
        for place, line in enumerate(lines):
            if line.startswith(b"data: {"):
                lines[place] = b"data: " + json.dumps(change(json.loads(line[6:]), luck)).encode()
        events[at] = b"\n".join(lines)
    if luck.random() < 0.2:
        luck.shuffle(events)
    return b"\n\n".join(events[: luck.randrange(1, 2 * len(events))])


def odd_reply(client: Client, luck: random.Random) -> bytes:
    reply = json.loads(client.hear("reply", luck.choice(["", "read"])))
    for _ in range(luck.choice([0, 1, 2])):
        reply = change(reply, luck)
    return json.dumps(reply).encode()


@examples(400)
@example(1)
@example(2)
@example(3)
@given(st.integers(0, 2**32))
def test_an_odd_shape_is_never_an_error_of_our_own(seed: int) -> None:
    """Whatever stands where something else should: a request passes as it came, or is refused as
    what it is; and the bytes of a reply reach the client."""
    luck = random.Random(seed)
    client, body = odd_request(luck)
    is_streamed = luck.random() < 0.5
    upstream, data = MemoryUpstream(), b""
    if is_streamed:
        data = odd_stream(client, luck)
        size = luck.choice([50, 500, 10**6])
        upstream.packets = [data[at : at + size] for at in range(0, len(data), size)]
    else:
        data = odd_reply(client, luck)
        upstream.packets, upstream.content_type = [data], "application/json"
    keeper = ProxyKeeper(
        MemoryStore(),
        mode=luck.choice(MODES),
        window=window_argument(luck.choice([3_000, 8_000, None])),
    )
    named = [(b"x-session-id", b"one")] if luck.random() < 0.5 else []

    async def play() -> None:
        with pytest.MonkeyPatch.context() as patch:
            async with InProcessProxy(keeper, upstream, patch) as proxy:
                for _ in range(2):  # the second one is compared with what was logged of the first
                    path = path_for(client.dialect, is_streamed=is_streamed)
                    answer = await proxy.post(path, body, named)
                    assert answer.status in (200, 400), answer.data
                    if answer.status == 200:
                        assert answer.data.startswith(data)
                    else:
                        assert json.loads(answer.data)["error"]["message"].startswith("Holdfast")
                    if answer.headers.get("x-holdfast-action") == "passed":
                        assert upstream.bodies[-1] == body

    asyncio.run(play())
