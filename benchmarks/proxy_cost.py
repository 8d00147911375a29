"""The input that recorded sessions would cost through proxies, by a simulated prompt cache.

Each session is sent as its agent did: the whole history with every call, at the times of the
transcript. What a proxy sends on is charged by Anthropic's published rules; direct is 1.00.
"""

from __future__ import annotations

import hashlib
import json
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast import importers
from holdfast.context import ProjectionRequest
from holdfast.core.dialects.registry import render_body
from holdfast.core.log.records import Assistant
from holdfast.core.projection.project import project
from holdfast.core.window import Window
from holdfast.engine.proxy.exchange import ProxyKeeper
from holdfast.engine.proxy.request import ClientRequest
from holdfast.engine.simulation.prompt_cache import CacheRules, SimulatedPromptCache
from holdfast.models import target
from holdfast.records import Compaction
from holdfast.stores import MemoryStore
from holdfast.tokens import counter_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from benchmarks.proxy_processes import ProxyUnderTest, RecordingUpstream

MODEL = "claude-sonnet-4-5"
SYSTEM = "You are a careful engineer. Read before you write, and say what you found. " * 400
"""About 6,000 tokens of instructions, the same in every request."""
RULES = CacheRules()
CALLS_MIN = 40


@dataclass(slots=True)
class Recorded:
    """A session as its client holds it: messages, and the time of each reply."""

    name: str
    messages: list[dict[str, Any]]
    times: list[float]
    places: list[int]
    """The index of each reply among the messages."""


@dataclass(slots=True)
class Bill:
    """What one way of sending the sessions comes to."""

    name: str
    cost: float = 0.0
    """In plain input tokens."""
    requests: int = 0
    changed: int = 0
    """Requests whose messages are not the client's."""
    sent_tokens: int = 0
    largest: int = 0
    by_session: list[float] = field(default_factory=list)

    def __iadd__(self, other: Bill) -> Bill:
        self.cost += other.cost
        self.requests += other.requests
        self.changed += other.changed
        self.sent_tokens += other.sent_tokens
        self.largest = max(self.largest, other.largest)
        self.by_session.append(other.cost)
        return self

    @property
    def passed_share(self) -> float:
        return 1 - self.changed / max(1, self.requests)


def read_sessions(folders: list[Path], calls_min: int) -> Iterator[Recorded]:
    """Every session with enough calls; of growing snapshots of one, the longest."""
    found: dict[str, Recorded] = {}
    aimed = target("anthropic", provider="anthropic", model=MODEL)
    for path in sorted(path for folder in folders for path in folder.rglob("*.json*")):
        if "subagents" in path.parts:
            continue
        for session in importers.read_transcript(path.read_bytes(), path.name):
            records = [rec for rec in session.records if not isinstance(rec, Compaction)]
            if sum(isinstance(rec, Assistant) for rec in records) < calls_min:
                continue
            asked = ProjectionRequest(records, Window(10**9), aimed, pressure="hold")
            body = render_body(project(asked).prompt, aimed)
            one = _as_client(session.name, body["messages"], records)
            first = records[0].id or f"{path} {session.name}"
            if first not in found or len(found[first].places) < len(one.places):
                found[first] = one
    return iter(sorted(found.values(), key=lambda one: one.name))


def _as_client(name: str, messages: list[dict[str, Any]], records: list[Any]) -> Recorded:
    said: dict[str, float] = {}
    for record in records:
        if isinstance(record, Assistant):
            content = record.content if isinstance(record.content, list) else []
            ids = [block["id"] for block in content if block.get("type") == "tool_use"]
            said.update(dict.fromkeys(ids, record.ts))
    plain = [_unmark(message) for message in messages]
    places = [at for at, message in enumerate(plain) if at and message["role"] == "assistant"]
    times, now = [], 0.0
    for at in places:
        content = plain[at]["content"]
        ids = [block.get("id", "") for block in content if isinstance(block, dict)]
        now = max([now, *(said[name] for name in ids if name in said)])
        times.append(now)
    return Recorded(name, plain, times, places)


def _unmark(message: dict[str, Any]) -> dict[str, Any]:
    """A message without cache marks: the simulated cache sets its own."""
    if not isinstance(message["content"], list):
        return message
    content = [
        {name: value for name, value in block.items() if name != "cache_control"}
        for block in message["content"]
    ]
    return {**message, "content": content}


class Meter:
    """Charges the requests of one session."""

    def __init__(self, name: str, sizes: dict[bytes, int]) -> None:
        self.bill = Bill(name)
        self._cache = SimulatedPromptCache(RULES)
        self._sizes = sizes
        self._counter = counter_for("claude")
        self._sent: list[bytes] = []

    def charge(self, body: dict[str, Any], now: float, client: list[Any]) -> int:
        """Charge a request; returns its tokens."""
        keys, sums = [], [0, self._tokens(body.get("system"))]
        for message in body["messages"]:
            content = message["content"]
            for block in content if isinstance(content, list) else [content]:
                keys.append(_key(block, message["role"]))
                sums.append(sums[-1] + self._tokens(block))
        same = next(
            (at for at, (a, b) in enumerate(zip(keys, self._sent, strict=False)) if a != b),
            min(len(keys), len(self._sent)),
        )
        if same < len(self._sent):
            self._cache.change_after(same + 1)
        self._sent = keys
        charged = self._cache.request(sums, now)
        bill = self.bill
        bill.cost += charged.cost(RULES)
        bill.requests += 1
        bill.sent_tokens += sums[-1]
        bill.largest = max(bill.largest, sums[-1])
        bill.changed += [_unmark(message) for message in body["messages"]] != client
        return sums[-1]

    def _tokens(self, value: Any) -> int:
        data = msgspec.json.encode(value)
        key = hashlib.blake2b(data, digest_size=12).digest()
        if key not in self._sizes:
            self._sizes[key] = round(1.12 * self._counter.count(data.decode()))
        return self._sizes[key]


def _key(block: Any, role: str) -> bytes:
    plain = block
    if isinstance(block, dict):
        plain = {name: value for name, value in block.items() if name != "cache_control"}
    data = msgspec.json.encode([role, plain])
    return hashlib.blake2b(data, digest_size=12).digest()


def _body(session: Recorded, place: int) -> dict[str, Any]:
    return {
        "model": MODEL,
        "max_tokens": 8_000,
        "system": SYSTEM,
        "messages": session.messages[:place],
    }


def _reply(session: Recorded, place: int, tokens: int) -> bytes:
    usage = {"input_tokens": tokens, "output_tokens": 100}
    content = session.messages[place]["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    about = {"id": "m", "type": "message", "role": "assistant", "model": MODEL}
    return json.dumps({**about, "content": content, "usage": usage}).encode()


def play_direct(session: Recorded, sizes: dict[bytes, int]) -> Bill:
    """Every request as the client sends it, as if it were accepted."""
    meter = Meter("direct", sizes)
    for place, now in zip(session.places, session.times, strict=True):
        meter.charge(_body(session, place), now, session.messages[:place])
    return meter.bill


def play_holdfast(session: Recorded, sizes: dict[bytes, int], mode: str, window: int) -> Bill:
    """The proxy's own decisions and log, at the times of the transcript."""
    now = [session.times[0]]
    keeper = ProxyKeeper(MemoryStore(clock=lambda: now[0]), mode=mode, window=window)  # type: ignore[arg-type]
    meter = Meter(f"holdfast, {mode}", sizes)
    for place, at in zip(session.places, session.times, strict=True):
        now[0] = at
        data = json.dumps(_body(session, place)).encode()
        headers = {"x-session-id": "one"}
        request = ClientRequest(
            dialect="anthropic", upstream="anthropic", headers=headers, data=data
        )
        begun = keeper.begin(request)
        tokens = meter.charge(json.loads(begun.body), at, session.messages[:place])
        begun.open("application/json", "")
        begun.take(_reply(session, place, tokens))
        begun.finish()
    return meter.bill


def play_through(
    session: Recorded, sizes: dict[bytes, int], proxy: ProxyUnderTest, upstream: RecordingUpstream
) -> Bill:
    """Another program's proxy, over HTTP."""
    meter = Meter(proxy.name, sizes)
    for place, at in zip(session.places, session.times, strict=True):
        upstream.reply = _reply(session, place, 1_000)
        upstream.bodies.clear()
        data = json.dumps(_body(session, place)).encode()
        asked = urllib.request.Request(f"{proxy.url}/v1/messages", data, proxy.headers)
        with urllib.request.urlopen(asked, timeout=120) as reply:
            reply.read()
        meter.charge(json.loads(upstream.bodies[-1]), at, session.messages[:place])
    return meter.bill


def add_up(name: str, sessions: list[Recorded], play: Callable[[Recorded], Bill]) -> Bill:
    total = Bill(name)
    for session in sessions:
        total += play(session)
    return total
