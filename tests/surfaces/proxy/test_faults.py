"""Faults of either side, the network and the disk, at every event of a stream.

Two conversations run through one proxy at a time: one meets the fault, the other does not. After
each fault: what the client was told is in the log, what it got is a prefix of one stream and
nothing else, and no session holds a word of another.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.engine.proxy.conversations import DIALECTS, Client, path_for
from tests.support.cases import check_all
from tests.support.runs import sample
from tests.surfaces.proxy.proxies import running_proxy
from tests.surfaces.proxy.upstreams import RawUpstream, chunked, exchange, post, read_request

from holdfast import Assistant, JsonlStore, SessionKey
from holdfast.core.log.records import CallFailure, User, encode
from holdfast.errors import NoSuchSession
from holdfast.testing import Answer, Loopback
from holdfast.testing.disk import FaultyDisk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.surfaces.proxy.proxies import RunningProxy

    from holdfast.core.log.records import Record

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
MARK = "mark0000"
WORDS = f"{MARK} é – 漢字 🜁 and so on, {MARK}"
_MARKS = re.compile(r"mark\d{4}")
SECONDS = 60.0
"""For what must happen, on the slowest machine."""


def marks_in(text: str) -> set[str]:
    return set(_MARKS.findall(text))


def mark_of(body: bytes) -> str:
    """The mark of the newest message of a request."""
    return str(_MARKS.findall(body.decode())[-1])


class StreamFault(NamedTuple):
    """A fault, and the number of events (or of bytes, for packets) that come before it."""

    dialect: str
    kind: str
    after: int

    def __str__(self) -> str:
        return f"{self.dialect} {self.kind} {self.after}"


class MarkedUpstream(RawUpstream):
    """Answers each request in the words of its own mark; a fault meets one of them."""

    def __init__(self, streams: dict[bytes, list[bytes]], disk: FaultyDisk) -> None:
        super().__init__([])
        self._streams = streams
        self._disk = disk
        self.fault: StreamFault | None = None
        self.faulty = b""
        """The mark of the conversation that meets the fault."""
        self.client_left = threading.Event()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            request = read_request(connection)
            if request is None:
                return
            self.requests.append(request)
            path = request.line.split()[1].decode()
            mark = mark_of(request.body).encode()
            events = [event.replace(MARK.encode(), mark) for event in self._streams[path.encode()]]
            fault = self.fault if mark == self.faulty else None
            try:
                self._send(connection, events, fault)
            except OSError:
                self.hung_up.set()

    def _send(
        self, connection: socket.socket, events: list[bytes], fault: StreamFault | None
    ) -> None:
        whole = b"".join(events)
        if fault is None:
            connection.sendall(HEAD + whole)
            return
        begun = HEAD + b"".join(events[: fault.after])
        match fault.kind:
            case "close":
                connection.sendall(begun)
            case "reset":
                connection.sendall(begun)
                linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            case "hang-up":
                connection.sendall(begun)
                self.client_left.wait(SECONDS)
                connection.settimeout(SECONDS)
                connection.recv(1)  # until the proxy lets go
            case "packets":
                connection.sendall(HEAD)
                for start in range(0, len(whole), fault.after):
                    connection.sendall(whole[start : start + fault.after])
            case "full disk":
                self._disk.fill(room=fault.after)
                connection.sendall(HEAD + whole)
            case _:
                connection.sendall(HEAD + whole)


class Bench:
    """A proxy over files between two clients and an upstream."""

    def __init__(self, proxy: RunningProxy, upstream: MarkedUpstream, disk: FaultyDisk) -> None:
        self.proxy = proxy
        self.upstream = upstream
        self.disk = disk
        self.count = 0

    def ask(self, dialect: str, mark: str, *, stop_after: int | None = None) -> bytes:
        client = Client(dialect)
        client.say(f"Say {mark}.")
        path = f"/holdfast/session/{mark}{path_for(dialect, is_streamed=True)}"
        data = post(path, client.request(stream=True).data)
        return exchange(self.proxy.port, data, stop_after=stop_after)

    def read_slowly(self, dialect: str, mark: str, size: int) -> bytes:
        """Read an answer in small pieces, with the smallest buffer."""
        client = Client(dialect)
        client.say(f"Say {mark}.")
        path = f"/holdfast/session/{mark}{path_for(dialect, is_streamed=True)}"
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            connection.settimeout(SECONDS)
            connection.connect(("127.0.0.1", self.proxy.port))
            connection.sendall(post(path, client.request(stream=True).data))
            got = bytearray()
            while piece := connection.recv(size):
                got += piece
        return bytes(got)

    def records(self, mark: str) -> list[Record]:
        key = SessionKey("main", mark)
        try:
            return [entry.record for entry in self.proxy.store.read_all(key)]
        except NoSuchSession:  # the disk had no room for its first line
            return []

    def reply(self, mark: str) -> Record:
        """The record of the reply, once it is there: a hang-up is stored after it happened."""
        for _ in range(int(SECONDS / 0.02)):
            found = [rec for rec in self.records(mark) if isinstance(rec, Assistant | CallFailure)]
            if found:
                return found[-1]
            threading.Event().wait(0.02)
        raise AssertionError(f"nothing was stored of {mark}")


def streams_of() -> dict[bytes, list[bytes]]:
    """The events of one reply in each dialect, as the loopback sends them."""
    found: dict[bytes, list[bytes]] = {}
    with Loopback(lambda _asked: Answer(WORDS)) as loopback:
        for dialect in DIALECTS:
            client = Client(dialect)
            client.say("Speak.")
            extra = {"stream_options": {"include_usage": True}} if dialect == "openai-chat" else {}
            data = post(
                path_for(dialect, is_streamed=True), client.request(stream=True, **extra).data
            )
            port = int(loopback.url.rpartition(":")[2])
            head, _, body = exchange(port, data).partition(b"\r\n\r\n")
            assert b"200" in head.split(b"\r\n")[0], body
            text = chunked(body) if b"chunked" in head.lower() else body
            events = [event + b"\n\n" for event in text.split(b"\n\n") if event.strip()]
            found[path_for(dialect, is_streamed=True).encode()] = events
    return found


@pytest.fixture(scope="module")
def streams() -> dict[bytes, list[bytes]]:
    return streams_of()


@pytest.fixture(scope="module")
def bench(
    streams: dict[bytes, list[bytes]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    disk = FaultyDisk()
    store = JsonlStore(tmp_path_factory.mktemp("faults"), disk=disk)
    with (
        MarkedUpstream(streams, disk) as upstream,
        store,
        running_proxy(upstream.url, store) as proxy,
    ):
        yield Bench(proxy, upstream, disk)


def every_fault(streams: dict[bytes, list[bytes]]) -> list[StreamFault]:
    found: list[StreamFault] = []
    for dialect in DIALECTS:
        events = streams[path_for(dialect, is_streamed=True).encode()]
        places = range(len(events))
        found += [StreamFault(dialect, kind, at) for kind in ("close", "reset") for at in places]
        found += [StreamFault(dialect, "hang-up", at) for at in range(1, len(events))]
        found += [StreamFault(dialect, "packets", size) for size in range(1, 81)]
        found += [StreamFault(dialect, "slow reader", size) for size in range(1, 200, 20)]
        found += [StreamFault(dialect, "full disk", room) for room in range(0, 280, 7)]
        found += [StreamFault(dialect, "no room", room) for room in range(0, 400, 20)]
    return found


def check(bench: Bench, streams: dict[bytes, list[bytes]], fault: StreamFault) -> None:
    dialect = fault.dialect
    marks = [f"mark{number:04}" for number in (bench.count + 1, bench.count + 2)]
    bench.count += 2
    faulty, other = marks
    events = streams[path_for(dialect, is_streamed=True).encode()]
    upstream = bench.upstream
    upstream.fault, upstream.faulty = fault, faulty.encode()
    upstream.client_left.clear()
    upstream.hung_up.clear()
    seen_before = len(upstream.requests)
    beside: list[bytes] = []
    shares_disk = fault.kind in ("full disk", "no room")
    thread = threading.Thread(target=lambda: beside.append(bench.ask(dialect, other)))
    if not shares_disk:
        thread.start()
    whole = b"".join(event.replace(MARK.encode(), faulty.encode()) for event in events)
    try:
        got = meet(bench, fault, faulty, len(b"".join(events[: fault.after])))
    finally:
        bench.disk.heal()
    if shares_disk:
        thread.start()
    thread.join(SECONDS)
    head, _, body = got.partition(b"\r\n\r\n")
    is_begun = head.startswith(b"HTTP/1.1 200")
    passed = chunked(body) if is_begun else b""
    check_bytes(passed, whole, is_begun=is_begun, body=body, fault=fault)
    check_log(bench, faulty, passed, whole, is_begun=is_begun, fault=fault)
    if fault.kind == "no room" and not is_begun:
        assert not any(faulty.encode() in seen.body for seen in upstream.requests[seen_before:])
    # The other conversation has met nothing.
    expected = b"".join(event.replace(MARK.encode(), other.encode()) for event in events)
    assert chunked(beside[0].partition(b"\r\n\r\n")[2]) == expected
    stored = bench.reply(other)
    assert isinstance(stored, Assistant)
    assert "cause" not in stored.extra
    for mark in marks:
        found = marks_in(b"".join(map(encode, bench.records(mark))).decode())
        assert found <= {mark}, f"{mark} holds words of {found}"
    # The same request again is a retry, and is answered whole.
    upstream.fault = None
    again = bench.ask(dialect, faulty)
    assert chunked(again.partition(b"\r\n\r\n")[2]) == whole
    said = [rec for rec in bench.records(faulty) if isinstance(rec, User)]
    assert len(said) == 1, "a retry is stored once"


def meet(bench: Bench, fault: StreamFault, mark: str, begun: int) -> bytes:
    """The bytes that the client gets while it meets the fault."""
    if fault.kind == "slow reader":
        return bench.read_slowly(fault.dialect, mark, fault.after)
    if fault.kind == "no room":
        bench.disk.fill(room=fault.after)
    if fault.kind != "hang-up":
        return bench.ask(fault.dialect, mark)
    try:
        return bench.ask(fault.dialect, mark, stop_after=begun // 2)
    finally:
        bench.upstream.client_left.set()


def check_bytes(
    passed: bytes, whole: bytes, *, is_begun: bool, body: bytes, fault: StreamFault
) -> None:
    """A client gets a prefix of its stream, and at most one error event behind whole events."""
    if not is_begun:
        assert json.loads(body)["error"], "an error in the client's dialect"
        return
    pairs = zip(passed, whole, strict=False)
    place = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    rest = passed[place:]
    if fault.kind in ("packets", "slow reader"):
        assert passed == whole
    if rest:
        start = passed.rfind(b"\n\n", 0, place) + 2 if b"\n\n" in passed[:place] else 0
        tail = passed[start:]
        assert b"Holdfast proxy: " in tail, tail
        assert tail.count(b"data: ") == 1, tail


def check_log(
    bench: Bench, mark: str, passed: bytes, whole: bytes, *, is_begun: bool, fault: StreamFault
) -> None:
    """A reply that the client got whole is in the log, whole; a part of one has its cause."""
    if fault.kind == "no room" and not is_begun:
        return  # nothing was acknowledged
    if fault.kind == "full disk":
        assert not passed.startswith(whole), "a reply that is not stored is not given out whole"
        return
    stored = bench.reply(mark)
    if passed.startswith(whole):
        assert isinstance(stored, Assistant)
        assert "cause" not in stored.extra
        assert stored.content[0]["text"] == WORDS.replace(MARK, mark)  # type: ignore[index]
    elif isinstance(stored, Assistant):
        text = "".join(block.get("text", "") for block in stored.content or ())  # type: ignore[union-attr]
        assert WORDS.replace(MARK, mark).startswith(text)
        # The end of a Chat stream says no more than its last choice has said.
        assert stored.extra.get("cause") or text == WORDS.replace(MARK, mark)


@pytest.mark.files_only("it fills a disk")
def test_no_fault_loses_splices_or_mixes(bench: Bench, streams: dict[bytes, list[bytes]]) -> None:
    """Every fault at every event, at night; some of each kind otherwise."""
    faults = every_fault(streams)
    assert len(faults) >= 500
    chosen = sample(faults, share=1 / 60, kind=lambda fault: (fault.dialect, fault.kind))
    check_all(chosen, lambda fault: check(bench, streams, fault), name=str)
