"""Sessions in a database: what the port does not say, and what it costs."""

from __future__ import annotations

import functools
import os
import random
import threading
import time
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.processes import FORKED
from tests.support.runs import examples, is_whole

from holdfast.core.log import views
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Compaction, Label, Record, Rewind, User
from holdfast.core.log.views import MESSAGE_KEY
from holdfast.core.models.totals import SessionTotals
from holdfast.core.owners import ANY_OWNER, NamedOwner, owner_of
from holdfast.errors import HoldfastError, LogConflict, NoSuchRecord, TurnInProgress
from holdfast.ports import ANY_HEAD, SessionCatalogue, SessionInfo
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.stores.postgres.reading import _LIVE
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.conformance.samples import one_of_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.ports import SessionStore
    from holdfast.testing.servers import PostgresServer

KEY = SessionKey("main", "s")
ODD = ["\0", "a\0b", "\ud800", "\udfff\ud800", "é\u2028", "\\u0000", "\\x00", "x" * 5_000]
"""Texts that a server refuses, or that an index cannot hold."""


@pytest.fixture
def store(postgres_address: str) -> Iterator[PostgresStore]:
    with PostgresStore(postgres_address) as opened:
        yield opened


_numbers = count(1)


def _count_statements(store: PostgresStore, work: Callable[[], object]) -> int:
    """Return how often some work asks the server, in its own thread."""
    connections, mine = store._connections, threading.get_ident()
    run, asked = connections.run, 0

    def counted(*args: Any, **more: Any) -> Any:
        nonlocal asked
        asked += threading.get_ident() == mine
        return run(*args, **more)

    connections.run = counted  # type: ignore[method-assign]
    try:
        work()
    finally:
        del connections.run
    return asked


@pytest.mark.parametrize("text", ODD)
def test_every_text_is_kept(store: PostgresStore, text: str) -> None:
    """NUL and lone surrogates come back as they were, wherever a text can be."""
    twin = MemoryStore()
    for each in (store, twin):
        each.create(KEY, label=text, owner=owner_of(text), parent_session=text, reason=text)
        said = User(content=text, extra={MESSAGE_KEY: text, "note": text})
        each.append(KEY, [said, Label(label=text), Assistant(content="x", model=text)], expect=None)
    plain = [
        [msgspec.structs.replace(record, id="", ts=0.0) for record in each.read(KEY)][1:]
        for each in (store, twin)
    ]
    assert plain[0] == plain[1]
    kept = store.header(KEY).owner
    assert kept == twin.header(KEY).owner
    assert store.find_message(KEY, kept) == list(store.read(KEY))[1]
    assert [info.owner for info in store.sessions(owner=owner_of(kept))] == [owner_of(kept)]
    assert [info.label for info in store.sessions(label=kept, owner=ANY_OWNER)] == [kept]
    assert store.info(KEY) == SessionCatalogue.info(store, KEY)
    assert store.totals(KEY) == twin.totals(KEY) == SessionCatalogue.totals(store, KEY)


def test_an_append_is_one_statement(store: PostgresStore) -> None:
    """With a head, without one, with a lease; so is opening a session, two where it has a
    branch."""
    head = store.create(KEY)
    assert _count_statements(store, lambda: store.live(KEY)) == 1
    token = store.leases.acquire(KEY, "turn", 600)
    appends: list[Callable[[], object]] = [
        lambda: store.append(KEY, [User(content="a")], expect=head),
        lambda: store.append(KEY, [User(content="b")] * 20, expect=ANY_HEAD),
        lambda: store.append(KEY, one_of_each(), expect=ANY_HEAD, token=token),
        lambda: store.append(KEY, [User(content="c")], expect=ANY_HEAD, durability="buffered"),
    ]
    assert [_count_statements(store, append) for append in appends] == [1, 1, 1, 1]
    assert _count_statements(store, lambda: store.live(KEY)) == 2


def test_live_reads_one_range_however_old_the_session_is(store: PostgresStore) -> None:
    """The row of a session says where its newest boundary begins."""
    store.create(KEY)
    asked = []
    for _age in range(3):
        store.append_each(KEY, [User(content="x" * 2_000)] * 300)
        kept = store.append(KEY, [User(content="y" * 900)] * 400, expect=ANY_HEAD).ids[0]
        store.append(KEY, [Compaction(summary="so far", first_kept=kept)], expect=ANY_HEAD)
        assert len(store.live(KEY).records) == 401
        asked.append(_count_statements(store, lambda: store.live(KEY)))
    assert asked == [1, 1, 1]


def test_live_reads_a_range_of_the_index_whatever_the_planner_knows(store: PostgresStore) -> None:
    """With one session that holds nearly all rows, and statistics that say so, no table is
    scanned and nothing is joined to it."""
    for name in ("s", "small"):
        store.create(SessionKey("main", name))
    store.append_each(KEY, [User(content="x" * 100)] * 5_000)
    store.append_each(KEY, [Compaction(summary="so far"), *[User(content="y")] * 50])
    with store._connections.use() as connection:
        connection.execute(store._sql("ANALYZE {s}.records; ANALYZE {s}.logs"))
        query = store._sql(_LIVE).decode().replace("$1", "'main'").replace("$2", "'s'")
        explained = connection.execute(f"EXPLAIN {query.replace('$3', '4000000')}".encode())
        plan = "\n".join(row[0] for row in explained.fetchall())
    assert "Index Scan using records_pkey" in plan
    assert "Index Cond: ((log = l.id) AND" in plan
    assert "Hash" not in plan
    assert len(store.live(KEY).records) == 51


def test_a_session_that_is_not_plain_is_opened_line_by_line(store: PostgresStore) -> None:
    """A log with damage, copied from elsewhere, shows the same view as a file does."""
    store.create(KEY)
    store.append(KEY, [Compaction(summary="so far"), User(content="a")], expect=ANY_HEAD)
    size = store.info(KEY).bytes
    store.extend_log(KEY, b'garbage\n{"type":"user","id":"z","content":"b"}\n', at=size)
    found = store.live(KEY)
    assert [finding.kind for finding in found.findings] == ["garbage"]
    assert found.records[-1] == User(id="z", content="b")


def test_a_record_is_found_by_its_index(store: PostgresStore) -> None:
    """An id, a unique prefix and an unknown one cost the same few statements in any log."""
    store.create(KEY)
    costs = []
    for size in (10, 3_000):
        ids = store.append(KEY, [User(content="x" * 500)] * size, expect=ANY_HEAD).ids
        wanted = random.Random(size).choice(ids)
        assert store.find(KEY, wanted).id == wanted
        asked = _count_statements(store, functools.partial(store.find, KEY, wanted))
        with pytest.raises(NoSuchRecord):
            store.find(KEY, "nothing")
        costs.append(asked)
    assert costs[0] == costs[1] <= 3


def test_facts_and_totals_are_those_of_the_log(store: PostgresStore) -> None:
    """What the row of a session holds is what reading its lines gives, after every append."""
    store.create(KEY, label="first", owner=NamedOwner("ann"))
    records: list[list[Record]] = [[record] for record in one_of_each()]
    records += [one_of_each(), [User(content="late", ts=4e9)], [User(content="early", ts=1.0)]]
    for batch in records:
        store.append(KEY, batch, expect=ANY_HEAD)
        assert store.info(KEY) == SessionCatalogue.info(store, KEY)
        assert store.totals(KEY) == SessionCatalogue.totals(store, KEY)
    fork = SessionKey("main", "fork")
    store.fork(KEY, fork, at=None)
    assert store.info(fork) == SessionCatalogue.info(store, fork)
    assert store.totals(fork) == SessionCatalogue.totals(store, fork)
    with store.open_log(KEY) as log:
        assert views.head(log) == store.head(KEY)


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["one", "many", "rewind", "label", "expect", "stale", "named", "again"]),
        st.integers(0, 5),
    ),
    max_size=12,
)


@given(steps=_STEPS)
@examples(30)
def test_a_database_is_a_file(
    steps: list[tuple[str, int]], postgres_server: PostgresServer, tmp_path_factory: Any
) -> None:
    """Whatever is appended, rewound or refused: the same bytes, views and errors as in files."""
    number = next(_numbers)  # hypothesis repeats what `random` gives
    files = JsonlStore(tmp_path_factory.mktemp("files"), clock=_now, entropy=lambda _bits: 7)
    database = PostgresStore(
        f"{postgres_server.address}&schema=p{number}", clock=_now, entropy=lambda _bits: 7
    )
    with files, database:
        seen = [_play(store, steps) for store in (files, database)]
        assert seen[0] == seen[1]
        assert b"".join(files.export(KEY)) == b"".join(database.export(KEY))
        with files.open_log(KEY) as one, database.open_log(KEY) as other:
            assert list(one.lines()) == list(other.lines())
            assert list(one.lines_back()) == list(other.lines_back())


def _now() -> float:
    """The same at every call, however often a store asks: ids then follow from the heads."""
    return 1_700_000_000.0


def _play(store: SessionStore, steps: list[tuple[str, int]]) -> list[object]:
    """Return everything that a caller sees of a session while it is used."""
    store.create(KEY, label="l", owner=NamedOwner("o"))
    ids = [KEY.session]
    seen: list[object] = []
    for kind, number in steps:
        records: list[Record] = [User(content=f"{kind} {number}")]
        expect = ANY_HEAD
        if kind == "many":
            records = one_of_each()
        elif kind == "rewind":
            records = [Rewind(to=ids[number % len(ids)]), *records]
        elif kind == "label":
            records = [Label(label=f"label {number}")]
        elif kind == "expect":
            expect = store.head(KEY)
        elif kind == "stale":
            expect = ids[number % len(ids)]
        elif kind == "named":
            records = [User(content="named", id=f"id{number}")]
        elif kind == "again":
            records = [User(content="again", id=ids[number % len(ids)])]
        try:
            ids += store.append(KEY, records, expect=expect).ids
        except LogConflict as error:
            seen.append((error.expected, error.found))
        except HoldfastError as error:
            seen.append((type(error), str(error)))
        seen.append(store.head(KEY))
    info = msgspec.structs.asdict(store.info(KEY))
    return [
        *seen,
        ids,
        info,
        store.totals(KEY),
        list(store.read_all(KEY)),
        store.live(KEY),
        store.last(KEY, 3),
        list(store.back(KEY)),
        [branch.head for branch in store.branches(KEY)],
        [store.find(KEY, record_id) for record_id in ids],
    ]


def test_many_open_an_empty_database_at_once(postgres_address: str) -> None:
    """One of them makes the tables, and all can append."""
    failures: list[BaseException] = []
    ready = threading.Barrier(6)

    def open_and_append(number: int) -> None:
        try:
            ready.wait()
            with PostgresStore(postgres_address, connections_max=2) as opened:
                key = SessionKey("main", f"s{number}")
                opened.create(key)
                opened.append(key, [User(content="x")], expect=ANY_HEAD)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=open_and_append, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with PostgresStore(postgres_address) as opened:
        assert len(opened.sessions(owner=ANY_OWNER)) == 6


_WRITERS, _APPENDS = (8, 1_000) if is_whole() else (3, 40)


def _write(address: str, number: int) -> None:
    with PostgresStore(address, connections_max=1) as opened:
        for turn in range(_APPENDS):
            opened.append(KEY, [User(content=f"{number}.{turn}")], expect=ANY_HEAD)


@pytest.mark.usefixtures("forked_processes")
def test_appends_of_many_processes_are_in_order(
    store: PostgresStore, postgres_address: str
) -> None:
    """Every append of every process is there once, and each process's own are in their order."""
    store.create(KEY)
    workers = [
        FORKED.Process(target=_write, args=(postgres_address, number), daemon=True)
        for number in range(_WRITERS)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * _WRITERS
    records = list(store.read(KEY))[1:]
    assert len(records) == _WRITERS * _APPENDS
    assert [record.id for record in records] == sorted({record.id for record in records})
    texts = [record.content for record in records if isinstance(record, User)]
    for number in range(_WRITERS):
        mine = [text for text in texts if str(text).startswith(f"{number}.")]
        assert mine == [f"{number}.{turn}" for turn in range(_APPENDS)]
    assert store.verify(KEY).is_sound


@pytest.mark.parametrize("years", [-40, 40])
def test_leases_end_by_the_clock_of_the_server(
    postgres_address: str, monkeypatch: pytest.MonkeyPatch, years: int
) -> None:
    """A machine whose clock is wrong takes no lease too early, and keeps none for too long."""

    def wrong() -> float:
        return now + years * 365 * 86_400.0

    now = time.time()
    with PostgresStore(postgres_address) as store, PostgresStore(postgres_address) as other:
        store.create(KEY)
        store.leases.acquire(KEY, "here", 600)
        monkeypatch.setattr(time, "time", wrong)
        with pytest.raises(TurnInProgress):
            other.leases.acquire(KEY, "there", 600)
        ended = "UPDATE {s}.logs SET lease_until = clock_timestamp() - interval '1 ms' RETURNING 1"
        assert store._connections.rows("end the lease", ended) == [(1,)]
        assert other.leases.acquire(KEY, "there", 600) > 0
        with pytest.raises(TurnInProgress):
            store.leases.acquire(KEY, "here", 600)


def test_a_forked_child_has_connections_of_its_own(store: PostgresStore) -> None:
    """Neither side disturbs the other."""
    store.create(KEY)
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        status = 1
        try:
            store.append(KEY, [User(content="child")], expect=ANY_HEAD)
            store.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    store.append(KEY, [User(content="parent")], expect=ANY_HEAD)
    assert [getattr(record, "content", "") for record in store.read(KEY)][1:] == ["child", "parent"]


def test_a_log_of_more_than_a_page_is_read_from_both_ends(
    store: PostgresStore, tmp_path: Path
) -> None:
    """Lines longer than a page, and pages that end between lines."""
    files = JsonlStore(tmp_path, clock=_now, entropy=lambda _bits: 1)
    store._clock, store._entropy = _now, lambda _bits: 1
    sizes = random.Random(1)
    for each in (files, store):
        each.create(KEY)
        for size in (5, 70_000, 300_000, 5_000_000, 1, 65_536, 20):
            texts = [User(content="x" * size), User(content="y" * sizes.choice([3, 3]))]
            each.append(KEY, texts, expect=ANY_HEAD)
    with files, files.open_log(KEY) as one, store.open_log(KEY) as other:
        assert list(one.lines()) == list(other.lines())
        assert list(one.lines_back()) == list(other.lines_back())
        for position, _size, _item, _line in list(one.lines()):
            assert list(one.lines_back(position)) == list(other.lines_back(position))
    assert isinstance(store.totals(KEY), SessionTotals)
    assert isinstance(store.info(KEY), SessionInfo)
