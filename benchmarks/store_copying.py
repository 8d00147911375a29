"""A session that is copied into PostgreSQL, beside other ways to write the same records.

Part of `benchmarks/store.py --only postgres`. A copy writes the lines by `COPY`, with the facts of
the session, and compares every line with the source again afterwards.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import psycopg
from benchmarks.store_cases import KEY, Bench, Pair, Row, load, log_of, seconds

from holdfast import JsonlStore
from holdfast.stores import ANY_HEAD, copy_store
from holdfast.stores.postgres.store import PostgresStore

if TYPE_CHECKING:
    from holdfast.stores import SessionStore
    from holdfast.testing import PostgresServer

_numbers = count(1)


def compare_copying(bench: Bench, server: PostgresServer) -> list[Row]:
    records = bench.plan.small_records * 2
    root = bench.place()
    with JsonlStore(root) as source:
        load(bench, source, records)
        lines = log_of(root).read_bytes().splitlines()
        files, appended, inserted, back = Pair(), Pair(), Pair(), Pair()
        for number in range(bench.plan.rounds + 1):
            schema = f"copied{next(_numbers)}"
            with (
                PostgresStore(f"{server.address}&schema={schema}") as target,
                JsonlStore(bench.place()) as folder,
                JsonlStore(bench.place()) as second,
            ):
                ours = seconds(lambda: _copy(source, target))
                to_folder = seconds(lambda: _copy(source, folder))
                appends = seconds(lambda: _append(bench, second, len(lines)))
                inserts = seconds(lambda: _insert(server, lines))
                with JsonlStore(bench.place()) as third:
                    returned = seconds(lambda: _copy(target, third))
            if number:  # the first round warms up
                files.add(ours, to_folder)
                appended.add(ours, appends)
                inserted.add(ours, inserts)
                back.add(returned, to_folder)
    what = f"PostgreSQL: copy a session of {len(lines):,} records into it"
    return [
        files.row(what, "copy it into a folder", per=len(lines)),
        appended.row(what, "append turns as large to JSONL, buffered", per=len(lines)),
        inserted.row(what, "INSERT the lines, a row at a time, one transaction", per=len(lines)),
        back.row(what.replace("into it", "back"), "copy it from a folder", per=len(lines)),
    ]


def _copy(source: SessionStore, target: SessionStore) -> None:
    assert copy_store(source, target).is_complete


def _append(bench: Bench, store: JsonlStore, records: int) -> None:
    store.create(KEY)
    done = 0
    while done < records:
        for turn in bench.turns:
            store.append(KEY, turn.records, expect=ANY_HEAD, durability="buffered")
            done += len(turn.records)
            if done >= records:
                break


def _insert(server: PostgresServer, lines: list[bytes]) -> None:
    connection: psycopg.Connection[tuple[Any, ...]]
    with psycopg.connect(server.address) as connection:
        connection.execute("DROP TABLE IF EXISTS loop")
        connection.execute(
            "CREATE TABLE loop (log int8, position int8, line bytea, PRIMARY KEY (log, position))"
        )
        for position, line in enumerate(lines):
            connection.execute("INSERT INTO loop VALUES (1, %s, %s)", (position, line))
