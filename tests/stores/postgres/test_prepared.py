"""Statements that a connection keeps: what is sent is what is meant, whoever prepared them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.core.owners import ANY_OWNER, NO_OWNER, NamedOwner, owner_of
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.postgres import prepared
from holdfast.stores.postgres.prepared import PreparedStatement
from holdfast.stores.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.owners import OwnerFilter
    from holdfast.ports import SessionStore
    from holdfast.testing.servers import PostgresServer

KEY = SessionKey("main", "s")
_INT = st.integers(-(2**63), 2**63 - 1)
_BYTES = st.binary(max_size=40)
_TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"))


def _pack_texts(texts: list[str | None]) -> bytes:
    return prepared.pack_array("text", [None if text is None else text.encode() for text in texts])


def _pack_floats(numbers: list[float]) -> bytes:
    packed = [prepared.pack_float(number) for number in numbers]
    assert prepared.pack_fixed_array("float8", packed) == prepared.pack_array("float8", packed)
    return prepared.pack_fixed_array("float8", packed)


_PACKED: dict[str, tuple[Callable[[Any], bytes | None], st.SearchStrategy[Any]]] = {
    "bool": (prepared.pack_bool, st.booleans()),
    "int8": (prepared.pack_int, _INT),
    "float8": (prepared.pack_float, st.floats(allow_nan=False)),
    "bytea[]": (
        prepared.pack_bytes_array,
        st.lists(_BYTES | st.none(), min_size=1, max_size=6),
    ),
    "text[]": (_pack_texts, st.lists(_TEXT | st.none(), min_size=1, max_size=6)),
    "float8[]": (_pack_floats, st.lists(st.floats(allow_nan=False), min_size=1, max_size=6)),
    "int8[]": (prepared.pack_int_array, st.lists(_INT, min_size=1, max_size=6)),
    "bytea": (bytes, _BYTES),
    "text": (str.encode, _TEXT),
}
"""For each type: how a value is packed, and the values."""


@pytest.fixture
def store(postgres_address: str) -> Iterator[PostgresStore]:
    with PostgresStore(postgres_address, connections_max=1) as opened:
        opened.create(KEY)
        yield opened


@pytest.fixture
def connection(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_server.address, autocommit=True) as opened:
        yield opened


def test_every_type_has_its_packer() -> None:
    """A type without one would be sent in a form that nobody tested."""
    assert {*_PACKED, "jsonb", "jsonb[]"} == set(prepared.TYPES)


@given(data=st.data())
@examples(60)
def test_the_server_reads_what_was_packed(data: st.DataObject, postgres_server: Any) -> None:
    """Each value, in its binary form, is equal to the same value as the driver sends it."""
    with psycopg.connect(postgres_server.address, autocommit=True) as connection:
        for name, (pack, values) in _PACKED.items():
            value = data.draw(values, label=name)
            statement = PreparedStatement(f"SELECT $1::{name}", [name])
            (row,) = statement.run(connection, [[pack(value)]])
            sent = connection.execute(f"SELECT %s::{name}".encode(), [value], binary=True).pgresult
            assert sent is not None
            assert row[0] == sent.get_value(0, 0)
        packed = prepared.pack_jsonb('{"a": "é"}')
        for query, kind, value in (
            ("SELECT $1::jsonb ->> 'a'", "jsonb", packed),
            (
                "SELECT ($1::jsonb[])[2] ->> 'a'",
                "jsonb[]",
                prepared.pack_array("jsonb", [None, packed]),
            ),
        ):
            (row,) = PreparedStatement(query, [kind]).run(connection, [[value]])
            assert row == ("é".encode(),)
        numbers = data.draw(st.lists(_INT, max_size=5), label="numbers")
        (row,) = PreparedStatement("SELECT $1::int8[]", ["int8[]"]).run(
            connection, [[prepared.pack_int_array([*numbers, 7])]]
        )
        assert prepared.unpack_int_array(row[0] or b"") == [*numbers, 7]


def test_calls_of_one_run_are_one_transaction(connection: psycopg.Connection[Any]) -> None:
    """All of them are done or none, and a connection can be used after either."""
    connection.execute("CREATE TEMP TABLE kept (number int8 PRIMARY KEY)")
    statement = PreparedStatement("INSERT INTO kept VALUES ($1) RETURNING number", ["int8"])
    calls = [[prepared.pack_int(number)] for number in (1, 2, 3)]
    assert statement.run(connection, calls) == [(call[0],) for call in calls]
    with pytest.raises(psycopg.errors.UniqueViolation):
        statement.run(connection, [[prepared.pack_int(4)], *calls])
    with pytest.raises(psycopg.errors.UniqueViolation):
        statement.run(connection, calls[:1])
    assert connection.execute("SELECT count(*) FROM kept").fetchone() == (3,)
    with connection.transaction(force_rollback=True):
        statement.run(connection, [[prepared.pack_int(number)] for number in (5, 6)])
    assert connection.execute("SELECT count(*) FROM kept").fetchone() == (3,)


def test_a_large_pipeline_does_not_block(connection: psycopg.Connection[Any]) -> None:
    """The server answers while we still send; both sides would wait for ever otherwise."""
    statement = PreparedStatement("SELECT $1::bytea", ["bytea"])
    calls = [[bytes([number]) * 300_000] for number in range(64)]
    assert statement.run(connection, calls) == [tuple(call) for call in calls]


def test_a_statement_that_a_pooler_took_away_is_made_again(store: PostgresStore) -> None:
    """A pooler may hand out a connection that lacks it, or one where others prepared it."""
    statement = store._appender._statements._one
    for number in range(6):
        with store._connections.use() as connection:
            if number % 2:
                connection.execute("DEALLOCATE ALL")  # known, and not there
            else:
                statement._known.clear()  # there, and not known
        store.append(KEY, [User(content=f"{number}")], expect=ANY_HEAD)
    texts = [getattr(record, "content", "") for record in store.read(KEY)][1:]
    assert texts == [f"{number}" for number in range(6)]


def test_a_name_means_one_statement(connection: psycopg.Connection[Any]) -> None:
    """Two objects of the same text share it; another text has another name."""
    first, same = (PreparedStatement("SELECT $1::int8", ["int8"]) for _ in range(2))
    other = PreparedStatement("SELECT $1::int8 + 1", ["int8"])
    for statement, found in ((first, 7), (same, 7), (other, 8), (first, 7)):
        assert statement.run(connection, [[prepared.pack_int(7)]]) == [(prepared.pack_int(found),)]
    rows = connection.execute("SELECT name FROM pg_prepared_statements").fetchall()
    assert len(rows) == 2


def test_an_append_leaves_the_indexes_of_sessions_alone(store: PostgresStore) -> None:
    """Updates of a session's row stay within its page, but for one in a while: an index entry for
    each append would cost more than the append."""
    store._clock = lambda: 1_700_000_000.0
    schema = store._connections.address.schema
    query = f"""SELECT pg_stat_get_tuples_updated(c), pg_stat_get_tuples_hot_updated(c)
      FROM (SELECT '"{schema}".logs'::regclass::oid AS c) AS t"""

    def count() -> tuple[int, int]:
        with store._connections.use() as connection:
            connection.execute("SELECT pg_stat_force_next_flush()")
            row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0], row[1]

    before = count()
    for number in range(100):
        store.append(KEY, [User(content=f"{number}")], expect=ANY_HEAD)
    after = count()
    assert after[0] - before[0] == 100
    assert after[1] - before[1] >= 95


def test_pages_are_in_order_whatever_the_index_knows(store: PostgresStore) -> None:
    """The index orders sessions by the time of their last use only roughly."""
    chance = random.Random(5)
    times = [chance.choice([1e9, 1e9 + 1, 1e9 + 8, 1e9 + chance.random() * 40]) for _ in range(60)]
    twin = MemoryStore()
    for each in (store, twin):
        for number, time in enumerate(times):
            each._clock = lambda time=time: time  # type: ignore[misc]
            key = SessionKey(f"a{number % 3}", f"s{number}")
            each.create(key, owner=owner_of("ann" if number % 2 else ""))
            each.append(key, [User(content="x")], expect=ANY_HEAD)
    for owner in (ANY_OWNER, NamedOwner("ann"), NO_OWNER):
        for limit in (1, 7, 100):
            assert _pages(store, owner, limit) == _pages(twin, owner, limit)


def _pages(store: SessionStore, owner: OwnerFilter, limit: int) -> list[SessionKey]:
    found: list[SessionKey] = []
    last = None
    while page := store.sessions(owner=owner, after=last, limit=limit):
        found += [info.key for info in page if info.key != KEY]
        last = page[-1]
    return found
