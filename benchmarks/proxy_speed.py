"""Times of streams through a proxy: first token, whole stream, gaps, many at once."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from benchmarks.proxy_processes import HEADERS, MODEL, REPLY, TOKENS

if TYPE_CHECKING:
    from benchmarks.proxy_processes import ProxyUnderTest

_TOKEN = b"text_delta"


@dataclass(slots=True)
class Times:
    """What the client saw of some streams, in seconds."""

    first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    """The widest gap between two tokens of each stream."""

    def add(self, arrivals: list[float], start: float, end: float) -> None:
        self.first.append(arrivals[0] - start)
        self.whole.append(end - start)
        self.gaps.append(max(later - sooner for sooner, later in pairwise(arrivals)))


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def body_of(size: int, seed: str, turns: int = 0) -> bytes:
    """A conversation of about so many bytes, and of so many turns that were answered here."""
    messages: list[dict[str, object]] = []
    text = "line of output of a tool that was run before. " * 40
    while size > 0:
        for role in ("user", "assistant"):
            said = f"{seed} {len(messages)} {text}"
            messages.append({"role": role, "content": said})
            size -= len(said) + 40
    for turn in range(turns):
        messages.append({"role": "user", "content": f"{seed} and {turn}?"})
        messages.append({"role": "assistant", "content": REPLY})
    messages.append({"role": "user", "content": f"{seed} and {turns}?"})
    asked = {"model": MODEL, "max_tokens": 1_000, "stream": True, "messages": messages}
    return json.dumps(asked).encode()


async def _ask(proxy: ProxyUnderTest, body: bytes, times: Times) -> None:
    """One request on a connection of its own, with raw sockets: a client costs time, too."""
    address = urlsplit(proxy.url)
    start = time.perf_counter()
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    lines = [f"{name}: {value}" for name, value in {**HEADERS, **proxy.headers}.items()]
    head = [
        "POST /v1/messages HTTP/1.1",
        f"host: {address.netloc}",
        *lines,
        f"content-length: {len(body)}",
        "connection: close",
    ]
    writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    arrivals: list[float] = []
    data = b""
    while piece := await reader.read(65_536):
        now = time.perf_counter()
        data += piece
        arrivals += [now] * (data.count(_TOKEN) - len(arrivals))
    writer.close()
    if len(arrivals) != TOKENS or b"message_stop" not in data:
        raise RuntimeError(f"{proxy.name} answered: {data[:500]!r}")
    times.add(arrivals, start, time.perf_counter())


async def _ask_at_once(proxy: ProxyUnderTest, bodies: list[bytes], times: Times) -> None:
    await asyncio.gather(*(_ask(proxy, body, times) for body in bodies))


def take_turns(
    proxies: list[ProxyUnderTest], size: int, rounds: int, at_once: int = 1
) -> dict[str, Times]:
    """Ask all of them in turns, so that a busy neighbour meets each, and each time in another
    order: some work on after they have answered. A conversation goes on from round to round, as a
    client's does; the first round, in which all of it is new, does not count.
    """
    found = {proxy.name: Times() for proxy in proxies}
    luck = random.Random(rounds)
    for number in range(rounds + 1):
        for proxy in luck.sample(proxies, len(proxies)):
            names = (f"{proxy.name} {size} {place}" for place in range(at_once))
            bodies = [body_of(size, name, number) for name in names]
            times = found[proxy.name] if number else Times()
            asyncio.run(_ask_at_once(proxy, bodies, times))
    return found


def ratio(times: Times, direct: Times, name: str, share: float) -> float:
    ours: list[float] = getattr(times, name)
    theirs: list[float] = getattr(direct, name)
    if share == 0.5:
        return statistics.median(ours) / statistics.median(theirs)
    return percentile(ours, share) / percentile(theirs, share)


async def _ask_many(proxy: ProxyUnderTest, count: int, first: int) -> None:
    waiting = asyncio.Semaphore(20)

    async def ask(number: int) -> None:
        async with waiting:
            await _ask(proxy, body_of(2_000, f"memory {number}"), Times())

    await asyncio.gather(*(ask(number) for number in range(first, first + count)))


def memory_after(proxy: ProxyUnderTest, few: int, many: int) -> tuple[float, float]:
    """Megabytes after `few` requests and after `many`, each of another conversation."""
    asyncio.run(_ask_many(proxy, few, 0))
    before = proxy.memory_mb
    asyncio.run(_ask_many(proxy, many - few, few))
    return before, proxy.memory_mb
