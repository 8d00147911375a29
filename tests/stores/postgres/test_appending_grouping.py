"""Appends of many threads share transactions; what happens to one happens to no other."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples, is_whole

from holdfast.core.log.batch import Batch
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.errors import HoldfastError, LogConflict, StoreUnavailable
from holdfast.ports import ANY_HEAD
from holdfast.stores.postgres.appending import (
    GROUP_MAX,
    LEADERS_MAX,
    LEFT_ALONE,
    AppendCall,
    GroupCommit,
    PackedAppend,
)
from holdfast.stores.postgres.rows import additions
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.conformance.samples import one_of_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.testing.servers import PostgresServer

THREADS = 16
APPENDS = 100 if is_whole() else 6
_numbers = count(1)
KEYS = [SessionKey("main", f"s{number}") for number in range(THREADS)]


@pytest.fixture
def store(postgres_address: str) -> Iterator[PostgresStore]:
    with PostgresStore(postgres_address) as opened:
        for key in KEYS:
            opened.create(key)
        yield opened


def _run(work: Callable[[int], None], threads: int = THREADS) -> None:
    ready = threading.Barrier(threads)

    def run(number: int) -> None:
        ready.wait()
        work(number)

    workers = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _texts(store: PostgresStore, key: SessionKey) -> list[object]:
    return [getattr(record, "content", "") for record in store.read(key)][1:]


def _slow_groups(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let transactions take a moment, so that others wait; returns the sizes of groups."""
    group = store._appender._group
    send = group._send
    sizes: list[int] = []

    def slowly(calls: Sequence[Any]) -> Any:
        sizes.append(len(calls))
        time.sleep(0.02)
        return send(calls)

    monkeypatch.setattr(group, "_send", slowly)
    return sizes


def test_appends_that_wait_are_sent_together(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is there once, in the order of its thread, and most of them shared a transaction."""
    sizes = _slow_groups(store, monkeypatch)

    def write(number: int) -> None:
        for turn in range(APPENDS):
            store.append(KEYS[number], [User(content=f"{turn}")] * 2, expect=ANY_HEAD)

    _run(write)
    for key in KEYS:
        assert _texts(store, key) == [f"{turn}" for turn in range(APPENDS) for _ in range(2)]
        assert store.verify(key).is_sound
    assert sum(sizes) >= THREADS * APPENDS
    assert len(sizes) < THREADS * APPENDS / 2


def test_one_session_may_be_in_a_group_more_than_once(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of appends that expect the same head, one succeeds; those that expect any all do."""
    _slow_groups(store, monkeypatch)
    head = store.head(KEYS[0])
    lost: list[str] = []

    def write(number: int) -> None:
        try:
            store.append(KEYS[0], [User(content="first")], expect=head)
        except LogConflict as error:
            lost.append(error.expected)
        store.append(KEYS[0], [User(content="any")], expect=ANY_HEAD)

    _run(write)
    assert lost == [head] * (THREADS - 1)
    assert sorted(map(str, _texts(store, KEYS[0]))) == ["any"] * THREADS + ["first"]
    ids = [record.id for record in store.read(KEYS[0])][1:]
    assert ids == sorted(set(ids))


def test_an_append_that_fails_takes_no_other_with_it(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one that the server refuses, nor one that expects another head, has no session, or
    has a stale lease."""
    _slow_groups(store, monkeypatch)
    schema = store._connections.address.schema
    trigger = f"""CREATE FUNCTION "{schema}".fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      IF convert_from(NEW.line, 'UTF8') LIKE '%poison%' THEN
      RAISE 'no' USING ERRCODE = '53100'; END IF; RETURN NEW; END $$;
      CREATE TRIGGER fail BEFORE INSERT ON "{schema}".records
      FOR EACH ROW EXECUTE FUNCTION "{schema}".fail()"""
    store._connections.run("test", lambda connection: connection.execute(trigger.encode()))
    failed: list[tuple[int, str]] = []

    def write(number: int) -> None:
        for turn in range(4):
            poison = number == 3 and turn % 2
            text = "poison" if poison else f"{turn}"
            key = SessionKey("main", "absent") if number == 4 else KEYS[number]
            expect = "stale" if number == 5 else ANY_HEAD
            token = 12_345 if number == 6 else None
            try:
                store.append(key, [User(content=text)], expect=expect, token=token)
            except HoldfastError as error:
                failed.append((number, type(error).__name__))

    _run(write)
    assert sorted(failed) == [
        *[(3, "StoreUnavailable")] * 2,
        *[(4, "NoSuchSession")] * 4,
        *[(5, "LogConflict")] * 4,
        *[(6, "LeaseLost")] * 4,
    ]
    for number, key in enumerate(KEYS):
        if number not in (3, 4, 5, 6):
            assert _texts(store, key) == ["0", "1", "2", "3"]
    assert _texts(store, KEYS[3]) == ["0", "2"]


_CALLS = st.lists(
    st.tuples(
        st.sampled_from(KEYS[:6]),
        st.sampled_from(["any", "head", "stale", "token", "old token", "behind"]),
        st.lists(st.sampled_from(range(len(one_of_each()))), min_size=1, max_size=4),
    ),
    min_size=2,
    max_size=8,
    unique_by=lambda call: call[0],
)


@given(rounds=st.lists(_CALLS, min_size=1, max_size=4))
@examples(20)
def test_a_group_does_what_its_appends_do_alone(
    rounds: list[list[tuple[SessionKey, str, list[int]]]], postgres_server: PostgresServer
) -> None:
    """The same bytes, facts, totals and refusals, whatever is appended, and to whichever head."""
    number = next(_numbers)
    address = postgres_server.address
    with ExitStack() as stack:
        grouped, alone = (
            stack.enter_context(
                PostgresStore(
                    f"{address}&schema=g{number}{name}",
                    clock=lambda: 1_700_000_000.0,
                    entropy=lambda _bits: 7,
                )
            )
            for name in "ab"
        )
        for store in (grouped, alone):
            for key in KEYS[:5]:  # the last one is absent
                store.create(key)
        for calls in rounds:
            assert _append_all(grouped, calls, together=True) == _append_all(alone, calls)
            for key in KEYS[:5]:
                assert b"".join(grouped.export(key)) == b"".join(alone.export(key))
                assert grouped.info(key) == alone.info(key)
                assert grouped.totals(key) == alone.totals(key)
                assert grouped.live(key) == alone.live(key)


def _append_all(
    store: PostgresStore, calls: list[tuple[SessionKey, str, list[int]]], *, together: bool = False
) -> list[Any]:
    """Return the answer to each append. Those that a group left alone are sent by themselves."""
    packed = [_pack(store, *call) for call in sorted(calls)]
    send = store._appender._send_group
    group = [append for append in packed if append.can_be_grouped] if together else []
    names = [append.session for append in group]
    told = dict(zip(names, send(group), strict=True)) if len(group) > 1 else {}
    answers = [told.get(append.session, LEFT_ALONE) for append in packed]
    return [
        send([append])[0] if answer == LEFT_ALONE else answer
        for append, answer in zip(packed, answers, strict=True)
    ]


def _pack(store: PostgresStore, key: SessionKey, how: str, chosen: list[int]) -> PackedAppend:
    records = [msgspec.structs.replace(one_of_each()[place], id="") for place in chosen]
    batch = Batch(records, (), len(records) > 1)
    head = "none" if key == KEYS[5] else store.head(key)
    lines, now = store._encode(batch, head)
    if how == "behind":  # the ids of another writer are later
        lines = lines._replace(ids=tuple(f"{n:018x}" for n in range(len(records))))
    expect = {"head": head, "stale": "stale"}.get(how)
    token = {"token": 0, "old token": 5}.get(how)
    added = additions(records, lines.ids, now)
    call = AppendCall(key, batch, lines, added, expect, False, token)
    return call.pack(is_repeated=False, is_ordered=True)


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_connection_that_is_lost_with_a_group_loses_nothing(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    """Whether or not the transaction was committed: every append is there once."""
    group = store._appender._group
    send = group._send
    cuts: list[int] = []

    def cut_off(calls: Sequence[Any]) -> Any:
        time.sleep(0.02)
        if len(calls) > 1 and len(cuts) < 3:
            cuts.append(len(calls))
            if cut == "after":
                send(calls)
            raise StoreUnavailable("lost") from psycopg.OperationalError("lost")
        return send(calls)

    monkeypatch.setattr(group, "_send", cut_off)

    def write(number: int) -> None:
        for turn in range(4):
            store.append(KEYS[number], [User(content=f"{turn}")], expect=ANY_HEAD)

    _run(write)
    assert cuts
    for key in KEYS:
        assert _texts(store, key) == ["0", "1", "2", "3"]


def test_an_interrupted_thread_leaves_nobody_waiting() -> None:
    """A leader that is interrupted while it sends, and one that is interrupted while it waits."""
    release = threading.Event()
    sent: list[list[Any]] = []

    def send(calls: Sequence[Any]) -> list[Any]:
        sent.append(list(calls))
        if any(call == ("interrupt",) for call in calls):
            release.wait(60)
            raise KeyboardInterrupt
        return [("done", *call) for call in calls]

    group = GroupCommit(send)
    ended: list[object] = []

    def run(name: str) -> None:
        try:
            ended.append(group.run(name, (name,)))
        except KeyboardInterrupt:
            ended.append("interrupted")

    leaders = [threading.Thread(target=run, args=("interrupt",)) for _ in range(LEADERS_MAX)]
    for leader in leaders:
        leader.start()
    while len(sent) < LEADERS_MAX:
        time.sleep(0.001)
    waiting = [threading.Thread(target=run, args=(f"w{number}",)) for number in range(5)]
    for thread in waiting:
        thread.start()
    while len(group._queue) < 5:
        time.sleep(0.001)
    release.set()
    for thread in [*leaders, *waiting]:
        thread.join(60)
        assert not thread.is_alive()
    assert ended.count("interrupted") == LEADERS_MAX
    assert sorted(str(answer) for answer in ended if answer != "interrupted") == [
        f"('done', 'w{number}')" for number in range(5)
    ]
    assert group.run("last", ("last",)) == ("done", "last")
    assert max(map(len, sent)) <= GROUP_MAX
