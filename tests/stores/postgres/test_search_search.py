"""Vectors in the database are found by the ids of their sources, whatever the planner knows."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from holdfast.core.memory.search_terms import terms
from holdfast.ports.side_stores import IndexPassage, NewSource, places_of
from holdfast.stores.postgres import search
from holdfast.stores.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES, PASSAGES = 100, 100


@pytest.fixture
def store(postgres_address: str) -> Iterator[PostgresStore]:
    with PostgresStore(postgres_address) as store:
        for number in range(SOURCES):
            passages = [IndexPassage("word " * 20, ["word"], "user")] * PASSAGES
            store.search_index.replace([NewSource("session", f"main/s{number}", "", "", passages)])
        yield store


def compared(store: PostgresStore, query: str, *values: object) -> int:
    """Return how many rows a query looked at, those it threw away included."""
    rows = store._connections.rows(
        "explain", f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", list(values)
    )
    return _rows_of(rows[0][0][0]["Plan"])


def _rows_of(plan: dict[str, Any]) -> int:
    own: float = plan["Actual Rows"]
    own += sum(value for name, value in plan.items() if name.startswith("Rows Removed by"))
    return int(own * plan["Actual Loops"]) + sum(map(_rows_of, plan.get("Plans", ())))


@pytest.mark.parametrize("is_known", [False, True], ids=["new tables", "with statistics"])
@pytest.mark.parametrize("has_vectors", [False, True], ids=["no vectors", "all vectors"])
def test_a_source_costs_what_it_has(
    store: PostgresStore, is_known: bool, has_vectors: bool
) -> None:
    """The rows that are looked at are those of the sources, a few times, and not a product."""
    vectors = store.search_index.vectors
    vectors.use_model("one")
    if has_vectors:
        waiting = vectors.missing(SOURCES * PASSAGES)
        vectors.add("one", [(id_, b"v" * 384) for id_, _text in waiting])
    if is_known:
        for table in ("sources", "vectors"):
            with store._connections.transaction("analyze") as connection:
                connection.execute(store._connections.format(f"ANALYZE {{s}}.{table}").encode())
    spans = [places_of(source.id) for source in store.search_index.sources()]
    columns = [first for first, _past in spans], [past for _first, past in spans]
    everything = SOURCES * PASSAGES
    assert compared(store, search._LOAD, *columns, b"one") <= 8 * everything
    assert compared(store, search._COUNT_EACH, *columns) <= 8 * everything
    few = [column[:2] for column in columns]
    assert compared(store, search._LOAD, *few, b"one") <= 8 * 2 * PASSAGES
    assert compared(store, search._COUNT, *few) <= 8 * 2 * PASSAGES
    assert compared(store, search._COUNT_EACH, *few) <= 8 * 2 * PASSAGES


def test_a_session_is_a_few_rows(postgres_address: str) -> None:
    """Of twenty messages with 9 KB: no row for each term, and not three times the text, neither in
    the tables nor in the server's log."""
    rng = random.Random(5)
    words = [f"word{number:x}" for number in range(2_000)]
    texts = [" ".join(rng.choices(words, k=60)) for _ in range(20)]
    passages = [IndexPassage(text, terms(text), "user", record=text[:18]) for text in texts]
    with PostgresStore(postgres_address) as store:
        (begun,) = store._connections.rows("measure", "SELECT pg_current_wal_insert_lsn()::text")[0]
        store.search_index.replace([NewSource("session", "main/one", "", "", passages, "ann")])
        logged = "SELECT (pg_current_wal_insert_lsn() - %s::pg_lsn)::bigint"
        assert store._connections.rows("measure", logged, (begun,))[0][0] <= 3 * sum(
            map(len, texts)
        )
        rows = size = 0
        for table in ("sources", "origins", "texts", "segments", "blocks"):
            query = f"SELECT count(*), coalesce(sum(pg_column_size(t.*)), 0) FROM {{s}}.{table} t"
            found = store._connections.rows("count", query)[0]
            rows, size = rows + found[0], size + int(found[1])
    assert rows <= 20
    assert size <= 3 * sum(map(len, texts)), size


def test_a_search_asks_as_often_however_many_there_are(postgres_address: str) -> None:
    """Ten times the sessions of an owner, and a hundred others: the same statements."""
    asked: list[str] = []
    counts = []
    execute = psycopg.Connection.execute

    def spy(connection: Any, query: Any, *values: Any, **more: Any) -> Any:
        asked.append(str(query))
        return execute(connection, query, *values, **more)

    with PostgresStore(postgres_address) as store:
        index = store.search_index
        for number in range(100):
            passages = [IndexPassage(f"the harbour {number}", ["harbour", str(number)], "user")]
            index.replace([NewSource("session", f"main/{number}", "", "", passages, "ann")])
            if number in (9, 99):
                allowed = {source.id: source for source in index.sources()}
                index._cache.keep_of(number)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(psycopg.Connection, "execute", spy)
                    asked.clear()
                    matches = index.matches({"harbour": 1.0}, ["harbour"], allowed)
                    counts.append(len(asked))
                assert matches.holding == {"harbour": number + 1}
    assert counts[0] == counts[1] <= 6
