"""The process of the proxy is killed at random events under load.

Conversations stream through one `holdfast proxy` at a time; SIGKILL meets it after a number of
events that all clients together have got. Then: what a client got is a prefix of its own stream;
every reply that a client got whole is in its log, whole; everything that the provider was asked is
in the log; no session holds a word of another; and the next proxy answers each client's retry,
which is stored once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from tests.engine.proxy.conversations import DIALECTS, Client, path_for
from tests.support.processes import COMMAND_ENVIRONMENT
from tests.support.runs import is_whole
from tests.surfaces.proxy.test_faults import HEAD, MARK, WORDS, mark_of, marks_in, streams_of
from tests.surfaces.proxy.upstreams import RawUpstream, chunked, post, read_request

from holdfast import Assistant, JsonlStore, SessionKey
from holdfast.core.log.records import User, encode, text_of
from holdfast.errors import NoSuchSession

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.log.records import Record

pytestmark = [
    pytest.mark.timeout(3_000),
    pytest.mark.files_only("it starts processes of its own"),
]
CLIENTS = 6
KILLS = 40 if is_whole() else 3
"""Each meets six conversations; `test_faults.py` has the faults that a process survives."""
PAUSE = 0.003
"""Seconds between two events, so that a kill finds streams begun."""
SECONDS = 60.0


class PacedUpstream(RawUpstream):
    """Streams the words of each request's own mark, event by event."""

    def __init__(self, streams: dict[bytes, list[bytes]]) -> None:
        super().__init__([])
        self._streams = streams
        self.asked: set[str] = set()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            request = read_request(connection)
            if request is None or not marks_in(request.body.decode()):
                return
            mark = mark_of(request.body)
            self.asked.add(mark)
            events = self._streams[request.line.split()[1]]
            try:
                connection.sendall(HEAD)
                for event in events:
                    connection.sendall(event.replace(MARK.encode(), mark.encode()))
                    threading.Event().wait(PAUSE)
            except OSError:
                self.hung_up.set()


class ProxyCommand:
    """`holdfast proxy` as a process of its own."""

    def __init__(self, root: Path, upstream: str) -> None:
        names = ("anthropic", "openai", "gemini")
        given = [f"--upstream={name}={upstream}" for name in names]
        command = [sys.executable, "-m", "holdfast", "proxy", "--port", "0", "--json"]
        known = [COMMAND_ENVIRONMENT.get("PYTHONPATH"), os.environ.get("PYTHONPATH")]
        paths = os.pathsep.join(filter(None, [*known, *sys.path]))
        self.process = subprocess.Popen(
            [*command, "--root", str(root), "--log", "off", *given],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        assert self.process.stdout is not None
        self.port = int(json.loads(self.process.stdout.readline())["listening"].rpartition(":")[2])

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


class Streaming:
    """One client's request, and what came of it."""

    def __init__(self, dialect: str, mark: str) -> None:
        self.dialect = dialect
        self.mark = mark
        self.got = b""

    def ask(self, port: int, seen: threading.Semaphore | None = None) -> None:
        """Read the answer until it ends or breaks; `seen` counts the pieces."""
        client = Client(self.dialect)
        client.say(f"Say {self.mark}.")
        path = f"/holdfast/session/{self.mark}{path_for(self.dialect, is_streamed=True)}"
        self.got = b""
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
                connection.sendall(post(path, client.request(stream=True).data))
                while piece := connection.recv(65_536):
                    self.got += piece
                    if seen is not None:
                        seen.release()
        except OSError:
            pass  # killed

    @property
    def passed(self) -> bytes:
        """The body of the answer so far."""
        head, _, body = self.got.partition(b"\r\n\r\n")
        return chunked(body) if head.startswith(b"HTTP/1.1 200") else b""


def records_of(store: JsonlStore, mark: str) -> list[Record]:
    try:
        return [entry.record for entry in store.read_all(SessionKey("main", mark))]
    except NoSuchSession:
        return []


def check(store: JsonlStore, one: Streaming, whole: bytes, asked: set[str]) -> bool:
    """Check what one conversation is after a kill; True where the kill cut it."""
    records = records_of(store, one.mark)
    replies = [rec for rec in records if isinstance(rec, Assistant)]
    said = WORDS.replace(MARK, one.mark)
    assert whole.startswith(one.passed), "what a client gets is a prefix of its stream"
    if one.mark in asked:
        assert any(isinstance(rec, User) for rec in records), "asked before it was logged"
    if one.passed == whole:
        assert text_of(replies[-1].content) == said, "a reply that was given out whole is lost"
        assert "cause" not in replies[-1].extra
    for reply in replies:
        assert said.startswith(text_of(reply.content) or "")
    found = marks_in(b"".join(map(encode, records)).decode())
    assert found <= {one.mark}, f"{one.mark} holds words of {found}"
    return one.passed != whole


@pytest.fixture(scope="module")
def streams() -> dict[bytes, list[bytes]]:
    return streams_of()


def test_a_killed_proxy_loses_splices_and_mixes_nothing(
    streams: dict[bytes, list[bytes]], tmp_path: Path
) -> None:
    seed = random.getrandbits(30) if is_whole() else 7
    print(f"seed {seed}")
    luck = random.Random(seed)
    number = cut = 0
    with PacedUpstream(streams) as upstream:
        proxy = ProxyCommand(tmp_path, upstream.url)
        try:
            for _kill in range(KILLS):
                seen = threading.Semaphore(0)
                clients = []
                for _client in range(CLIENTS):
                    number += 1
                    dialect = DIALECTS[number % len(DIALECTS)]
                    clients.append(Streaming(dialect, f"mark{number:04}"))
                threads = [
                    threading.Thread(target=one.ask, args=(proxy.port, seen)) for one in clients
                ]
                for thread in threads:
                    thread.start()
                for _piece in range(luck.randint(0, 5 * CLIENTS)):
                    seen.acquire(timeout=1.0)
                proxy.kill()
                for thread in threads:
                    thread.join(SECONDS)
                proxy = ProxyCommand(tmp_path, upstream.url)
                with JsonlStore(tmp_path) as store:
                    cut += sum(check_one(store, one, streams, upstream.asked) for one in clients)
                    again = [
                        threading.Thread(target=one.ask, args=(proxy.port,)) for one in clients
                    ]
                    for thread in again:
                        thread.start()
                    for one, thread in zip(clients, again, strict=True):
                        thread.join(SECONDS)
                        assert one.passed == whole_of(one, streams), "a retry is answered whole"
                        users = [r for r in records_of(store, one.mark) if isinstance(r, User)]
                        assert len(users) == 1, "a retry is stored once"
        finally:
            proxy.kill()
    print(f"{KILLS} kills cut {cut} of {number} streams")
    assert cut >= KILLS // 2


def whole_of(one: Streaming, streams: dict[bytes, list[bytes]]) -> bytes:
    events = streams[path_for(one.dialect, is_streamed=True).encode()]
    return b"".join(events).replace(MARK.encode(), one.mark.encode())


def check_one(
    store: JsonlStore, one: Streaming, streams: dict[bytes, list[bytes]], asked: set[str]
) -> bool:
    return check(store, one, whole_of(one, streams), asked)
