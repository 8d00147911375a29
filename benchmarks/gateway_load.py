"""The load of `benchmarks/gateway.py`: the same turns through `holdfast serve` and in-process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from holdfast import AsyncSession, SessionKey
from holdfast.core.log.records import Assistant, Record, User
from holdfast.records import text_of
from holdfast.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from holdfast.stores import SessionStore

AGENT = "main"
_REPOSITORY = Path(__file__).resolve().parents[1]
_START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a run."""

    sessions: int
    turns: int
    at_once: int
    compacted: int
    """Records of each of the ten sessions that compact."""
    idle_seconds: float
    """Seconds of the idle probe."""

    @property
    def total(self) -> int:
        return self.sessions * self.turns

    def names(self) -> list[str]:
        return [f"s{number:04}" for number in range(self.sessions)]

    def text(self, name: str, turn: int) -> str:
        return f"{name} message {turn}: the heron stands in the shallow water and waits"


FULL = Plan(sessions=1_000, turns=20, at_once=100, compacted=10_000, idle_seconds=20.0)
QUICK = Plan(sessions=100, turns=20, at_once=50, compacted=2_000, idle_seconds=5.0)


@dataclass(slots=True)
class Timing:
    """The times of all turns of a run, from the send to the answer."""

    seconds: list[float] = field(default_factory=list)
    wall: float = 0.0
    after_tenth: Callable[[], None] = lambda: None

    def add(self, began: float, plan: Plan) -> None:
        self.seconds.append(time.perf_counter() - began)
        if len(self.seconds) == plan.total // 10:
            self.after_tenth()

    @property
    def per_second(self) -> float:
        return len(self.seconds) / self.wall

    def percentile(self, share: float) -> float:
        return sorted(self.seconds)[min(int(len(self.seconds) * share), len(self.seconds) - 1)]


async def _run_all(plan: Plan, timing: Timing, talk: Callable[[str, int], Awaitable[None]]) -> None:
    """Let each session have its turns one after the other, so many sessions at a time."""
    names = iter(plan.names())

    async def work(number: int) -> None:
        for name in names:
            await talk(name, number)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(plan.at_once):
            group.create_task(work(number))
    timing.wall = time.perf_counter() - began


# In-process


def run_in_process(store: SessionStore, plan: Plan) -> Timing:
    """The turns by `AsyncSession.say`, all on one event loop."""
    timing = Timing()

    async def talk(name: str, _number: int) -> None:
        session = await AsyncSession.open(name, agent=AGENT, store=store, **OPTIONS)
        async with session:
            for turn in range(plan.turns):
                began = time.perf_counter()
                await session.say(plan.text(name, turn), key=f"{name}-{turn}")
                timing.add(began, plan)

    asyncio.run(_run_all(plan, timing, talk))
    return timing


OPTIONS: dict[str, Any] = {"model": "offline", "notes": "off", "checkpoints": "off"}
SETTINGS = """
[server]
requests_burst = 1000000
requests_per_second = 1000000.0
[gateway]
turns_max = {at_once}
[agents.main]
model = "offline"
system = ""
notes = "off"
checkpoints = "off"
"""


# Through the gateway


class Server:
    """A `holdfast serve` of its own."""

    def __init__(self, root: str, folder: Path, plan: Plan) -> None:
        config = folder / "serve.toml"
        config.write_text(SETTINGS.format(at_once=plan.at_once))
        command = [sys.executable, "-m", "holdfast", "--root", root, "serve", "--port", "0"]
        environ = {**os.environ, "PYTHONPATH": f"{_REPOSITORY / 'src'}"}
        with (folder / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--config", str(config), "--json"],
                stdout=subprocess.PIPE,
                stderr=log,
                env=environ,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (folder / "serve.log").read_text()
        self.port = int(json.loads(line)["listening"].rsplit(":", 1)[1])

    def memory(self) -> int:
        """The resident bytes of the process."""
        return _pages(self.process.pid) * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def cpu_seconds(self) -> float:
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(_START_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()


def _pages(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])


@contextmanager
def serving(root: str, folder: Path, plan: Plan, processes: int) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        servers = [Server(root, folder, plan) for _number in range(processes)]
        for server in servers:
            stack.callback(server.stop)
        yield servers


class Connection:
    """A connection that is kept alive: as little client as there can be."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        opened = await asyncio.open_connection("127.0.0.1", self._port)
        self._reader, self._writer = opened
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def request(
        self, method: str, path: str, body: Any = None, key: str = ""
    ) -> tuple[int, bytes]:
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n"
        head += "Content-Type: application/json\r\n" if data else ""
        head += f"Idempotency-Key: {key}\r\n" if key else ""
        self._writer.write(head.encode() + b"\r\n" + data)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").casefold()
        length = int(answer.partition("content-length:")[2].split("\r\n")[0])
        return int(answer.split(" ", 2)[1]), await self._reader.readexactly(length)


def run_through(servers: Sequence[Server], plan: Plan) -> tuple[Timing, int]:
    """The turns by `POST …/messages?wait`; returns the memory after a tenth, too."""
    after_tenth: list[int] = []
    timing = Timing()
    timing.after_tenth = lambda: after_tenth.append(sum(each.memory() for each in servers))

    async def talk(name: str, number: int) -> None:
        path = f"/v1/sessions/{AGENT}/{name}"
        async with Connection(servers[number % len(servers)].port) as connection:
            for turn in range(plan.turns):
                began = time.perf_counter()
                status, text = await connection.request(
                    "POST",
                    f"{path}/messages?wait=300",
                    {"content": plan.text(name, turn)},
                    f"{name}-{turn}",
                )
                assert status == 200, (status, text)
                timing.add(began, plan)

    asyncio.run(_run_all(plan, timing, talk))
    return timing, after_tenth[0]


def make_sessions(root: str, plan: Plan) -> None:
    with open_store(root) as store:
        for name in plan.names():
            store.create(SessionKey(AGENT, name))


def check_logs(root: str, plan: Plan) -> dict[str, int]:
    """Count the messages that are lost, doubled, out of order, or not answered once."""
    found = {"lost": 0, "doubled": 0, "reordered": 0, "unanswered": 0}
    with open_store(root) as store:
        for name in plan.names():
            wanted = [plan.text(name, turn) for turn in range(plan.turns)]
            said, answers = [], 0
            for record in store.read(SessionKey(AGENT, name)):
                if isinstance(record, User):
                    said.append(text_of(record.content))
                answers += isinstance(record, Assistant)
            found["lost"] += len(set(wanted) - set(said))
            found["doubled"] += len(said) - len(set(said))
            found["reordered"] += said != wanted and sorted(said) == sorted(wanted)
            found["unanswered"] += answers != len(wanted)
    return found


# The event loop


def make_long_sessions(root: str, plan: Plan, names: Sequence[str]) -> None:
    """Sessions of so many records, which a compaction has to read and to cut."""
    words = "the heron stands in the shallow water and waits for a fish to come by "
    with open_store(root) as store:
        for name in names:
            key = SessionKey(AGENT, name)
            head = store.create(key)
            for start in range(0, plan.compacted, 500):
                turns: list[Record] = []
                for number in range(start, start + 500, 2):
                    turns.append(User(content=f"question {number} of {name}: {words * 3}"))
                    turns.append(Assistant(content=f"answer {number}: {words * 5}"))
                head = store.append(key, turns, expect=head, durability="buffered").head


async def _probe(port: int, stop: Callable[[], bool]) -> list[float]:
    """Ask again and again whether the process runs, and return the times of the answers."""
    seconds: list[float] = []
    async with Connection(port) as connection:
        while not stop():
            began = time.perf_counter()
            status, text = await connection.request("GET", "/healthz")
            assert status == 200, text
            seconds.append(time.perf_counter() - began)
            await asyncio.sleep(0.002)
    return seconds


def probe_idle(server: Server, seconds: float) -> list[float]:
    until = time.monotonic() + seconds
    return asyncio.run(_probe(server.port, lambda: time.monotonic() > until))


def probe_compactions(server: Server, names: Sequence[str]) -> tuple[list[float], float]:
    """Let all sessions compact at once, and probe until they are done; returns that time, too."""

    async def compact(name: str) -> None:
        async with Connection(server.port) as connection:
            path = f"/v1/sessions/{AGENT}/{name}/compact"
            status, text = await connection.request("POST", path, {})
            assert status == 200, text

    async def work() -> tuple[list[float], float]:
        began = time.perf_counter()
        compacting = asyncio.gather(*map(compact, names))
        seconds = await _probe(server.port, compacting.done)
        await compacting
        return seconds, time.perf_counter() - began

    return asyncio.run(work())
