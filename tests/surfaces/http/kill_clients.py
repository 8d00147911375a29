"""Clients of servers that are killed: they send again what got no answer, and follow the log."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.engine.proxy.conversations import DIALECTS, Client
from tests.surfaces.http.chat_clients import read_text, request_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.surfaces.http.real import ServeProcess

_TIMEOUT = 20.0
"""Seconds without a byte after which a client gives a connection up."""


class KillClient(threading.Thread):
    """A client of one session that goes on with any of the servers after an error."""

    def __init__(self, session: str, servers: Sequence[ServeProcess], seed: int) -> None:
        super().__init__(daemon=True)
        self.session = session
        self.path = f"/v1/sessions/main/{session}"
        self.mistakes: list[str] = []
        """Refusals that no client should get."""
        self.luck = random.Random(seed)
        self.is_done = threading.Event()
        self._servers = servers

    def stop(self) -> None:
        self.is_done.set()
        self.join(60)
        assert not self.is_alive(), f"a client of {self.session} is stuck"

    def connect(self) -> closing[http.client.HTTPConnection]:
        port = self.luck.choice(self._servers).port
        return closing(http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT))


class SendingClient(KillClient):
    """Sends messages to one session, and repeats each until it is acknowledged.

    It takes one of the `turns` for each, so that a slow machine sends as many as a fast one.
    """

    def __init__(
        self,
        session: str,
        servers: Sequence[ServeProcess],
        turns: threading.Semaphore,
        seed: int,
        allowed: Sequence[int] = (),
    ) -> None:
        """`allowed` are the refusals that may come while something is killed."""
        super().__init__(session, servers, seed)
        self.sent: list[str] = []
        """The keys that were acknowledged, in order."""
        self.repeats = 0
        """Requests that were sent again, because they got no answer or a refusal."""
        self.known = 0
        """Of these, the ones whose message was there already: its acknowledgement was lost."""
        self._allowed = allowed
        self._turns = turns

    def run(self) -> None:
        while not self.is_done.is_set():
            if not self._turns.acquire(timeout=0.1):
                continue
            key = f"{self.session}-{len(self.sent)}"
            self._send(key, {"content": f"mark(name='{key}')"})
            self.sent.append(key)
            time.sleep(self.luck.uniform(0, 0.2))

    def _send(self, key: str, body: Any) -> None:
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        while True:
            began = time.time()
            try:
                with self.connect() as connection:
                    connection.request("POST", f"{self.path}/messages", json.dumps(body), headers)
                    answer = connection.getresponse()
                    status, text = answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                status, text = 0, b""
            if 200 <= status < 300:
                self.known += json.loads(text)["created"] < began
                return
            if status and status not in self._allowed:
                self.mistakes.append(f"{status} {text[:300]!r}")
            self.repeats += 1
            time.sleep(0.05)


class FollowingClient(KillClient):
    """Follows the events of one session; after an error it goes on behind the last record."""

    def __init__(
        self, session: str, servers: Sequence[ServeProcess], seed: int, start: str
    ) -> None:
        super().__init__(session, servers, seed)
        self.records: Counter[str] = Counter()
        """The ids of records that came, each with the number of times."""
        self.start_id = self.last = start
        """The records behind this one are wanted."""
        self.connections = 0

    def run(self) -> None:
        while not self.is_done.is_set():
            try:
                self._follow()
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)

    def _follow(self) -> None:
        with self.connect() as connection:
            headers = {"Last-Event-ID": self.last}
            connection.request("GET", f"{self.path}/events", headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                if answer.status != 503:
                    self.mistakes.append(f"{answer.status} {answer.read()[:300]!r}")
                time.sleep(0.05)
                return
            self.connections += 1
            for event_id in _event_ids(answer, self.is_done.is_set):
                self.records[event_id] += 1
                self.last = event_id


def _event_ids(stream: Any, is_done: Callable[[], bool]) -> Iterator[str]:
    """Yield the ids of events that came whole. What has an id and no data only says where the
    stream begins."""
    event_id, has_data = "", False
    while line := stream.readline():
        if line.startswith(b"id: "):
            event_id = line[4:].strip().decode()
        elif line.startswith(b"data: "):
            has_data = True
        elif not line.strip():
            if event_id and has_data:
                yield event_id
            event_id, has_data = "", False
            if is_done():
                return


class ChattingClient(SendingClient):
    """Talks to an agent as a chat program does: it keeps the history, and sends all of it each
    time, in one API after the other; what got no whole answer is sent again as it was.

    Every other message has a key; the rest is known by what was said alone.
    """

    def run(self) -> None:
        history: list[tuple[str, str]] = []
        while not self.is_done.is_set():
            if not self._turns.acquire(timeout=0.1):
                continue
            key = f"{self.session}-{len(self.sent)}"
            words = f"mark(name='{key}')"
            client = Client(DIALECTS[len(history) % len(DIALECTS)])
            for question, answer in history:
                client.say(question)
                client.hear(answer)
            client.say(words)
            history.append((words, self._ask(client, key)))
            self.sent.append(key)
            time.sleep(self.luck.uniform(0, 0.2))

    def _ask(self, client: Client, key: str) -> str:
        is_streamed = self.luck.random() < 0.5
        path, body = request_of(client, is_streamed=is_streamed)
        headers = {"Content-Type": "application/json", "x-holdfast-session": self.session}
        if len(self.sent) % 2:
            headers["Idempotency-Key"] = key
        for number in count():
            given = {**headers, "x-stainless-retry-count": str(number)}
            try:
                with self.connect() as connection:
                    connection.request("POST", path, json.dumps(body), given)
                    answer = connection.getresponse()
                    status, data = answer.status, answer.read()
                if status == 200:
                    return read_text(client.dialect, data, is_streamed=is_streamed)
            except (OSError, http.client.HTTPException, AssertionError):
                status, data = 0, b""
            if status and status not in (*self._allowed, 503):
                self.mistakes.append(f"{status} {data[:300]!r}")
            self.repeats += 1
            time.sleep(0.05)
        raise AssertionError("numbers do not end")
