"""`holdfast serve` is killed at random moments, while clients send and repeat what got no answer.

Every message that was acknowledged is in its log once, in order and answered, no tool ran twice,
and no message is left running.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.support.runs import is_whole
from tests.surfaces.http.real import ServeProcess

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, User, text_of
from holdfast.stores.opening import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.ports import SessionStore

SETTINGS: Final = """
[server]
requests_burst = 1000000
requests_per_second = 100000.0
[gateway]
claim_seconds = 2.0
poll_seconds = 1.0
drain_seconds = 1.0
waiting_max = 100000
owner_waiting_max = 1000000
[agents.main]
notes = "off"
checkpoints = "off"
tools = ["tests.surfaces.http.kill_tools:mark"]
"""
MESSAGES: Final = 50 if is_whole() else 12
"""That the clients send from one kill to the next."""
PATIENCE: Final = 240.0
"""Seconds for all to be answered after the last kill; a lease of a killed process ends first."""


class SendingClient(threading.Thread):
    """Sends messages to one session, and repeats each until it is acknowledged.

    It takes one of the `turns` for each, so that a slow machine sends as many as a fast one.
    """

    def __init__(
        self,
        session: str,
        servers: list[ServeProcess],
        turns: threading.Semaphore,
        seed: int,
    ) -> None:
        super().__init__(daemon=True)
        self.session = session
        self.sent: list[str] = []
        """The keys that were acknowledged, in order."""
        self.mistakes: list[str] = []
        self.repeats = 0
        self._servers = servers
        self._turns = turns
        self._random = random.Random(seed)
        self._is_done = threading.Event()

    def stop(self) -> None:
        self._is_done.set()
        self.join(60)

    def run(self) -> None:
        path = f"/v1/sessions/main/{self.session}"
        self._request("PUT", path, {"label": self.session})
        while not self._is_done.is_set():
            if not self._turns.acquire(timeout=0.1):
                continue
            key = f"{self.session}-{len(self.sent)}"
            body = {"content": f"mark(name='{key}')"}
            self._request("POST", f"{path}/messages", body, {"Idempotency-Key": key})
            self.sent.append(key)
            time.sleep(self._random.uniform(0, 0.2))

    def _request(
        self, method: str, path: str, body: Any, headers: dict[str, str] | None = None
    ) -> None:
        while True:
            port = self._random.choice(self._servers).port
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                try:
                    given = {"Content-Type": "application/json", **(headers or {})}
                    connection.request(method, path, json.dumps(body), given)
                    answer = connection.getresponse()
                    status, text = answer.status, answer.read()
                finally:
                    connection.close()
            except (OSError, http.client.HTTPException):
                status, text = 0, b""
            if 200 <= status < 300:
                return
            if status:
                self.mistakes.append(f"{status} {text[:300]!r}")
            self.repeats += 1
            time.sleep(0.05)


def run_with_kills(
    root: str, folder: Path, *, processes: int, kills: int, seed: int, sessions: int = 6
) -> dict[str, Any]:
    """Kill one of the processes again and again under load; return what was found at the end."""
    marks, chance = folder / "marks", random.Random(seed)
    marks.touch()
    servers = [
        ServeProcess(root, SETTINGS, folder, environ={"MARKS": str(marks)})
        for _number in range(processes)
    ]
    for server in servers:
        server.start()
    turns = threading.Semaphore(sessions)
    clients = [
        SendingClient(f"s{number}", servers, turns, seed + number) for number in range(sessions)
    ]
    try:
        print(f"seed {seed}")
        for client in clients:
            client.start()
        for _kill in range(kills):
            wanted = _sent(clients) + chance.randint(1, MESSAGES // 2)
            turns.release(MESSAGES)
            while _sent(clients) < wanted:
                time.sleep(0.01)
            time.sleep(chance.uniform(0.0, 0.3))
            victim = chance.choice(servers)
            victim.kill()
            victim.start()
        for client in clients:
            client.stop()
        with open_store(root) as store:
            return report(store, clients, marks, servers)
    finally:
        for server in servers:
            server.__exit__()


def _sent(clients: list[SendingClient]) -> int:
    return sum(len(client.sent) for client in clients)


def report(
    store: SessionStore, clients: list[SendingClient], marks: Path, servers: list[ServeProcess]
) -> dict[str, Any]:
    began = time.monotonic()
    while time.monotonic() < began + PATIENCE:
        counts = store.queues.counts("inbox")
        if not (counts.get("waiting") or counts.get("running")):
            break
        time.sleep(0.1)
    wrong = {}
    for client in clients:
        found = answered_keys(store, SessionKey("main", client.session))
        if found != client.sent:
            wrong[client.session] = (found, client.sent)
    twice = [name for name, number in Counter(marks.read_text().split()).items() if number > 1]
    states = {
        message.state: message.reason for message in store.queues.messages("inbox", limit=100_000)
    }
    return {
        "wrong": wrong,
        "twice": twice,
        "states": states,
        "mistakes": [mistake for client in clients for mistake in client.mistakes],
        "tracebacks": [server.log() for server in servers if "Traceback" in server.log()],
        "seconds": round(time.monotonic() - began, 1),
        "messages": _sent(clients),
        "marks": len(marks.read_text().split()),
        "repeats": sum(client.repeats for client in clients),
    }


def answered_keys(store: SessionStore, key: SessionKey) -> list[str]:
    """Return the keys of the messages in a log, in order; `?` behind one that has no answer."""
    found: list[str] = []
    is_open = False
    for record in store.read(key):
        if isinstance(record, User):
            if is_open:
                found[-1] += "?"
            found.append(text_of(record.content).split("'")[1])
            is_open = True
        elif isinstance(record, Assistant) and record.stop_reason == "end_turn":
            is_open = False
    if is_open:
        found[-1] += "?"
    return found


def check(found: dict[str, Any]) -> None:
    assert found["wrong"] == {}
    assert found["twice"] == []
    assert set(found["states"]) == {"answered"}, found["states"]
    assert found["mistakes"] == []
    assert found["tracebacks"] == []
    assert found["messages"] > 0
    print({name: found[name] for name in ("messages", "marks", "repeats", "seconds")})


@pytest.mark.timeout(3_000)
@pytest.mark.files_only("it starts processes of its own on a folder")
def test_a_killed_gateway_answers_once(tmp_path: Path) -> None:
    """One process on a folder."""
    kills = 100 if is_whole() else 2
    check(run_with_kills(str(tmp_path / "store"), tmp_path, processes=1, kills=kills, seed=_seed()))


@pytest.mark.timeout(3_000)
@pytest.mark.files_only("it starts processes of its own on a database")
def test_one_of_three_killed_gateways_is_followed(tmp_path: Path, postgres_address: str) -> None:
    """Three processes on PostgreSQL; clients ask any of them."""
    kills = 100 if is_whole() else 1
    check(run_with_kills(postgres_address, tmp_path, processes=3, kills=kills, seed=_seed()))


def _seed() -> int:
    """Another one each night, which a failure shows; a change is judged by the same one."""
    return random.getrandbits(30) if is_whole() else 1
