"""Writers and servers that are killed under load: everything acknowledged is there, and once."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.processes import FORKED
from tests.support.runs import is_whole

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.errors import HoldfastError, LeaseLost, TurnInProgress
from holdfast.ports import ANY_HEAD
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.servers import PostgresServer, ServerUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

KEY = SessionKey("main", "s")
KILLS = 200 if is_whole() else 2


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of its own that syncs what it commits."""
    try:
        made = PostgresServer()
    except ServerUnavailable as error:
        pytest.skip(f"NOT TESTED on PostgreSQL: {error} ({error.hint})")
    with made:
        yield made


def _append_forever(pipe: Connection, address: str, name: str) -> None:
    """Append batches of 1 to 3 and say which are acknowledged, until this process is killed."""
    chance = random.Random(name)
    with PostgresStore(address, connections_max=2) as store:
        for turn in range(1_000_000):
            texts = [f"{name}.{turn}.{part}" for part in range(chance.randint(1, 3))]
            try:
                store.append(KEY, [User(content=text) for text in texts], expect=ANY_HEAD)
            except HoldfastError:
                continue  # nothing was acknowledged
            pipe.send(texts)


def _received(pipe: Connection) -> Iterator[list[str]]:
    """Yield what a process that is gone said before."""
    try:
        while pipe.poll():
            yield pipe.recv()
    except EOFError:
        return


def _start(work: Any, *args: Any) -> tuple[Any, Connection]:
    ours, theirs = FORKED.Pipe(duplex=False)
    worker = FORKED.Process(target=work, args=(theirs, *args), daemon=True)
    worker.start()
    theirs.close()
    return worker, ours


@pytest.mark.usefixtures("forked_processes")
def test_killed_writers_and_servers_lose_nothing(server: PostgresServer) -> None:
    """Kill -9 of a writer, of the server, of both: no acknowledged record is missing, none is
    there twice, no batch is there in part, and each writer's are in their order."""
    chance = random.Random(1)
    acknowledged: list[str] = []
    with PostgresStore(server.address) as store:
        store.create(KEY)
        for kill in range(KILLS):
            workers = [_start(_append_forever, server.address, f"{kill}-{n}") for n in range(2)]
            for _worker, pipe in workers:
                acknowledged += pipe.recv()  # it is at work
            time.sleep(chance.random() * 0.1)
            if kill % 2:
                server.stop(signal.SIGKILL)
                server.start()
                time.sleep(chance.random() * 0.1)
            for worker, pipe in workers:
                os.kill(worker.pid, signal.SIGKILL)
                worker.join()
                acknowledged += (text for texts in _received(pipe) for text in texts)
        stored = [str(getattr(record, "content", "")) for record in store.read(KEY)][1:]
        assert store.verify(KEY).is_sound
    assert len(stored) == len(set(stored)), "a record is there twice"
    assert set(acknowledged) <= set(stored), "an acknowledged record is missing"
    assert len(acknowledged) >= 2 * KILLS
    by_writer: dict[str, list[list[int]]] = {}
    for text in stored:
        name, turn, part = text.split(".")
        by_writer.setdefault(name, []).append([int(turn), int(part)])
    assert all(places == sorted(places) for places in by_writer.values())
    _assert_batches_are_whole(by_writer)


def _assert_batches_are_whole(by_writer: dict[str, list[list[int]]]) -> None:
    for name, places in by_writer.items():
        chance = random.Random(name)
        sizes = [chance.randint(1, 3) for _ in range(places[-1][0] + 1)]
        for turn in {place[0] for place in places}:
            assert sum(place[0] == turn for place in places) == sizes[turn]


SESSIONS, MESSAGES = (200, 10) if is_whole() else (4, 3)
LEASE_SECONDS, SHORT_SECONDS = 5.0, 0.1
"""Of a turn that ends in time on any machine, and of one that is to outlive its lease."""
SLOW = 1
"""The number of the process that is slow; number 0 is killed."""


def _answer(pipe: Connection, address: str, number: int, is_fenced: bool) -> None:
    """Answer open messages of all sessions; the slow process outlives every other lease.

    The slow one begins, and no two are slow at the same time: each would wait for the other.
    """
    chance, turns = random.Random(number), 0
    with PostgresStore(address, connections_max=2) as store:
        keys = [SessionKey("main", f"s{n}") for n in range(SESSIONS)]
        while number != SLOW and not any(list(store.read(key))[1:] for key in keys):
            time.sleep(0.01)
        while keys:
            key, is_slow = chance.choice(keys), number == SLOW and turns % 2 == 0
            seconds = SHORT_SECONDS if is_slow else LEASE_SECONDS
            try:
                token = store.leases.acquire(key, f"{number}.{chance.random()}", seconds)
            except TurnInProgress:
                time.sleep(0.005)
                continue
            turns += 1
            fence = token if is_fenced else None
            try:
                texts = [str(getattr(record, "content", "")) for record in store.read(key)]
                done = sum(text.startswith("end") for text in texts)
                if done >= MESSAGES:
                    keys.remove(key)
                    continue
                turn = f"{done}.{token}"
                store.append(key, [User(content=f"begin {turn}")], expect=ANY_HEAD, token=fence)
                if is_slow:
                    _outlive(store, key)
                store.append(key, [User(content=f"end {turn}")], expect=ANY_HEAD, token=fence)
            except LeaseLost:
                continue
            finally:
                store.leases.release(key, token)
    pipe.send("done")


def _outlive(store: PostgresStore, key: SessionKey) -> None:
    """Go on until another holder has written, or nobody else has anything to answer."""
    head, until = store.head(key), time.monotonic() + 20
    while store.head(key) == head and time.monotonic() < until:
        time.sleep(0.01)


def _late_records(store: PostgresStore) -> tuple[int, int]:
    """Return the records of old holders after those of new ones, and turns finished twice."""
    late = double = 0
    for number in range(SESSIONS):
        records = store.read(SessionKey("main", f"s{number}"))
        texts = [str(getattr(record, "content", "")) for record in records][1:]
        newest = 0
        ends = [text.split()[1].split(".")[0] for text in texts if text.startswith("end")]
        double += len(ends) - len(set(ends))
        for text in texts:
            token = int(text.split(".")[1])
            late += token < newest
            newest = max(newest, token)
    return late, double


@pytest.mark.usefixtures("forked_processes")
@pytest.mark.parametrize("is_fenced", [True, False], ids=["fenced", "unfenced"])
def test_turns_of_many_processes_are_answered_once(server: PostgresServer, is_fenced: bool) -> None:
    """Calls that outlive their lease, and a process that is killed: every message is answered
    once, in order, and late writers are refused. Without the comparison of tokens they are not."""
    with PostgresStore(server.address) as store:
        for number in range(SESSIONS):
            store.create(SessionKey("main", f"s{number}"))
        count = 4 if is_whole() else 3
        workers = [_start(_answer, server.address, n, is_fenced) for n in range(count)]
        time.sleep(1.5)
        with suppress(ProcessLookupError):  # all may be answered by then
            os.kill(workers[0][0].pid, signal.SIGKILL)
        for worker, _pipe in workers:
            worker.join()
        assert [pipe.recv() for _worker, pipe in workers[1:]] == ["done"] * (count - 1)
        late, double = _late_records(store)
    if is_fenced:
        assert (late, double) == (0, 0)
    else:
        assert late + double > 0, "this test cannot tell whether tokens are compared"
