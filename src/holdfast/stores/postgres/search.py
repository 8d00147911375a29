"""The memory index in the database: sources, texts, segments of terms, and vectors."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from holdfast.core.text.typed import convert_typed
from holdfast.ports.side_stores import IndexSource, VectorRun, places_of
from holdfast.stores.postgres.rows import to_bytes
from holdfast.stores.search.tables import (
    TEXT_BITS,
    PassageRows,
    SearchTables,
    SegmentRows,
    SourceFacts,
    SourceRows,
    TablesIndex,
    missing_vectors,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from holdfast.ports.side_stores import SourceKind
    from holdfast.stores.postgres.connections import Connection, Connections, Row
    from holdfast.stores.search.segments import Block, Built
    from holdfast.stores.search.tables import SourceSize

T = TypeVar("T")

_SOURCES: Final = """SELECT id, kind, facts, passages, terms, oldest, newest, owned
  FROM {s}.sources WHERE NOT is_ended"""
_SOURCES_OF: Final = f"""{_SOURCES} AND (id = ANY (%s::bigint[]) OR owned = ANY (%s::bytea[])
  OR (kind = 'session' AND place = ANY (%s::bytea[]))
  OR (kind = 'note' AND place = ANY (%s::bytea[])))"""
_ERASABLE: Final = """SELECT id, owned FROM {s}.sources
  WHERE owned = ANY (%s::bytea[]) OR (kind = 'session' AND place = ANY (%s::bytea[]))
  OR id = ANY (ARRAY(SELECT source FROM {s}.origins WHERE place = ANY (%s::bytea[])))"""
_LOCK: Final = """SELECT
  pg_advisory_xact_lock(('x' || encode(substr(one, 1, 8), 'hex'))::bit(64)::bigint)
  FROM unnest(%s::bytea[]) AS one"""
_ADD_SOURCE: Final = """INSERT INTO {s}.sources (kind, place, owned, facts)
  VALUES (%s, %s, %s, %s) RETURNING id"""
_CHANGE_SOURCE: Final = """UPDATE {s}.sources SET facts = %s, passages = %s, terms = %s,
  oldest = %s, newest = %s WHERE id = %s"""
_PUT_TEXTS: Final = """INSERT INTO {s}.texts
  SELECT * FROM unnest(%s::bigint[], %s::bytea[])
  ON CONFLICT (id) DO UPDATE SET data = excluded.data"""
_DELETE_SPANS: Final = """DELETE FROM {s}.{table} WHERE id = ANY (ARRAY(
  SELECT t.id FROM unnest(%s::bigint[], %s::bigint[]) AS s(first, past), LATERAL (
    SELECT t.id FROM {s}.{table} t WHERE t.id >= s.first AND t.id < s.past) AS t))"""
_BLOCKS: Final = """SELECT b.segment, b.number, b.data
  FROM unnest(%s::bigint[], %s::integer[]) AS w(segment, number)
  JOIN {s}.blocks b ON b.segment = w.segment AND b.number = w.number"""
_LOCK_FIRST: Final = "SELECT pg_advisory_xact_lock(('x' || encode(%s, 'hex'))::bit(64)::bigint)"

_LOAD: Final = """SELECT r.first, r.count, r.data
  FROM unnest(%s::bigint[], %s::bigint[]) WITH ORDINALITY AS s(first, past, n),
  LATERAL (
    SELECT min(v.id) AS first, count(*) AS count,
      string_agg(v.vector, ''::bytea ORDER BY v.id) AS data FROM (
      SELECT id, vector, id - row_number() OVER (ORDER BY id) AS start
      FROM {s}.vectors WHERE id >= s.first AND id < s.past
        AND EXISTS (SELECT FROM {s}.vector_model m WHERE m.name = %s)
    ) AS v GROUP BY v.start) AS r
  ORDER BY s.n, r.first"""
"""One row for each run: in it, ids rise as fast as the numbers of rows. As a join of single rows,
the planner compares each vector with each span; and a row costs the client more than the vector in
it."""
_COUNT: Final = """SELECT sum(r.count)::bigint
  FROM unnest(%s::bigint[], %s::bigint[]) AS s(first, past), LATERAL (
    SELECT count(*) AS count FROM {s}.vectors v WHERE v.id >= s.first AND v.id < s.past) AS r"""
_COUNT_EACH: Final = (
    _COUNT.replace("sum(r.count)::bigint", "s.n, r.count").replace(
        "AS s(first, past)", "WITH ORDINALITY AS s(first, past, n)"
    )
    + " ORDER BY s.n"
)
_ADD: Final = """WITH held AS (SELECT FROM {s}.vector_model WHERE name = %s FOR SHARE), stored AS (
    INSERT INTO {s}.vectors SELECT u.id, u.vector
    FROM unnest(%s::bigint[], %s::bytea[]) AS u(id, vector)
    JOIN {s}.sources o ON o.id = u.id >> 24 AND o.passages > u.id & 16777215 AND NOT o.is_ended
    WHERE EXISTS (SELECT FROM held)
    ON CONFLICT (id) DO UPDATE SET vector = excluded.vector RETURNING id)
  SELECT EXISTS (SELECT FROM held), (SELECT count(*) FROM stored)"""
"""The lock on the model keeps it in use until the vectors are stored."""


class _TableRows:
    """Rows of a database, on one connection."""

    def __init__(self, connections: Connections, connection: Connection) -> None:
        self._connections = connections
        self._connection = connection

    def _rows(self, query: str, *values: object) -> list[Row]:
        sql = self._connections.format(query).encode()
        return self._connection.execute(sql, values, binary=True).fetchall()

    def _run(self, query: str, *values: object) -> None:
        self._connection.execute(self._connections.format(query).encode(), values)


class _PostgresSources(_TableRows, SourceRows):
    def lock(self, groups: Collection[bytes], places: Collection[bytes]) -> None:
        self._run(_LOCK, sorted({*groups, *places}))  # two that change the same never wait in turn

    def state(self) -> object:
        return None

    def all(self) -> list[IndexSource]:
        return list(map(_source, self._rows(_SOURCES)))

    def find(
        self,
        *,
        ids: Collection[int] = (),
        groups: Collection[bytes] = (),
        sessions: Collection[bytes] = (),
        notes: Collection[bytes] = (),
    ) -> list[IndexSource]:
        rows = self._rows(_SOURCES_OF, list(ids), list(groups), list(sessions), list(notes))
        return list(map(_source, rows))

    def erasable(self, sessions: Collection[bytes], groups: Collection[bytes]) -> dict[int, bytes]:
        places = list(sessions)
        return {
            id_: bytes(group) for id_, group in self._rows(_ERASABLE, list(groups), places, places)
        }

    def find_ended(self, group: bytes) -> dict[int, int]:
        query = "SELECT id, passages FROM {s}.sources WHERE owned = %s AND is_ended"
        return dict(self._rows(query, group))

    def add(self, kind: SourceKind, place: bytes, group: bytes, facts: SourceFacts) -> int:
        values = (kind, place, group, msgspec.msgpack.encode(facts))
        return int(self._rows(_ADD_SOURCE, *values)[0][0])

    def change(self, id_: int, facts: SourceFacts, size: SourceSize) -> None:
        self._run(_CHANGE_SOURCE, msgspec.msgpack.encode(facts), *size, id_)

    def add_origins(self, source: int, sessions: Collection[bytes]) -> None:
        query = "INSERT INTO {s}.origins SELECT unnest(%s::bytea[]), %s ON CONFLICT DO NOTHING"
        self._run(query, sorted(sessions), source)

    def end(self, ids: Collection[int]) -> None:
        if not ids:
            return
        self._run("UPDATE {s}.sources SET is_ended = true WHERE id = ANY (%s)", list(ids))
        firsts, ends = _columns([places_of(id_) for id_ in ids])
        self._run(_DELETE_SPANS.replace("{table}", "vectors"), firsts, ends)
        texts = [id_ >> TEXT_BITS for id_ in firsts], [id_ >> TEXT_BITS for id_ in ends]
        self._run(_DELETE_SPANS.replace("{table}", "texts"), *texts)

    def drop(self, ids: Collection[int]) -> None:
        for column, table in (("source", "origins"), ("id", "sources")):
            self._run(f"DELETE FROM {{s}}.{table} WHERE {column} = ANY (%s)", list(ids))


class _PostgresPassages(_TableRows, PassageRows):
    def texts(self, blocks: Collection[int]) -> dict[int, bytes]:
        query = "SELECT id, data FROM {s}.texts WHERE id = ANY (%s::bigint[])"
        return dict(self._rows(query, list(blocks)))

    def put_texts(self, _source: int, /, blocks: Mapping[int, bytes]) -> None:
        self._run(_PUT_TEXTS, list(blocks), list(blocks.values()))

    def count_vectors(self, sources: Collection[int]) -> dict[int, int]:
        rows = self._rows(_COUNT_EACH, *_columns(list(map(places_of, sources))))
        return dict(zip(sources, (count for _n, count in rows), strict=True))

    def vectors_of(self, source: int) -> set[int]:
        query = "SELECT id FROM {s}.vectors WHERE id >= %s AND id < %s"
        return {row[0] for row in self._rows(query, *places_of(source))}


class _PostgresSegments(_TableRows, SegmentRows):
    def of(self, groups: Collection[bytes]) -> list[tuple[int, int]]:
        query = "SELECT id, passages FROM {s}.segments WHERE owned = ANY (%s::bytea[]) ORDER BY id"
        return [(id_, passages) for id_, passages in self._rows(query, list(groups))]

    def heads(self, ids: Collection[int]) -> dict[int, bytes]:
        query = "SELECT id, head FROM {s}.segments WHERE id = ANY (%s::bigint[])"
        return dict(self._rows(query, list(ids)))

    def blocks(self, blocks: Collection[Block]) -> dict[Block, bytes]:
        columns = [segment for segment, _ in blocks], [number for _, number in blocks]
        rows = self._rows(_BLOCKS, *columns)
        return {(segment, number): data for segment, number, data in rows}

    def add(self, group: bytes, built: Built) -> None:
        query = "INSERT INTO {s}.segments (owned, passages, head) VALUES (%s, %s, %s) RETURNING id"
        id_ = self._rows(query, group, built.passages, built.head)[0][0]
        query = """INSERT INTO {s}.blocks
          SELECT %s, n - 1, data FROM unnest(%s::bytea[]) WITH ORDINALITY AS u(data, n)"""
        self._run(query, id_, built.blocks)

    def drop(self, ids: Collection[int]) -> None:
        for column, table in (("segment", "blocks"), ("id", "segments")):
            self._run(f"DELETE FROM {{s}}.{table} WHERE {column} = ANY (%s)", list(ids))


def _tables(connections: Connections, connection: Connection) -> SearchTables:
    return SearchTables(
        _PostgresSources(connections, connection),
        _PostgresPassages(connections, connection),
        _PostgresSegments(connections, connection),
    )


class PostgresSearchIndex(TablesIndex):
    """The `SearchIndex` of a database. Safe for threads, processes and hosts."""

    def __init__(self, connections: Connections) -> None:
        super().__init__()
        self._connections = connections
        self.vectors = PostgresVectors(connections)

    def close(self) -> None:
        """Do nothing: the connections are those of the store."""

    def _read(self, work: Callable[[SearchTables], T]) -> T:
        return self._connections.run(
            "read the memory index",
            lambda connection: work(_tables(self._connections, connection)),
        )

    @contextmanager
    def _writing(self) -> Iterator[SearchTables]:
        with self._connections.transaction("write the memory index") as connection:
            yield _tables(self._connections, connection)

    def _erasing(self, delete: Callable[[SearchTables], None]) -> None:
        with self._connections.transaction("erase from the memory index") as connection:
            delete(_tables(self._connections, connection))


def _source(row: Row) -> IndexSource:
    id_, kind, stored, passages, count, oldest, newest, group = row
    facts = convert_typed(msgspec.msgpack.decode(stored), SourceFacts)
    names = (facts.name, facts.stamp, facts.head)
    return IndexSource(id_, kind, *names, passages, count, oldest, newest, bytes(group))


class PostgresVectors:
    """The `PassageVectors` of a database."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def use_model(self, name: str) -> None:
        query = "SELECT name FROM {s}.vector_model"
        if [row[0] for row in self._rows(query)] == [to_bytes(name)]:
            return
        with self._connections.transaction("write the memory index") as connection:
            connection.execute(_LOCK_FIRST, [b"vectors."])
            # The model first: it waits for those that are adding vectors of the old one.
            for statement in ("DELETE FROM {s}.vector_model", "DELETE FROM {s}.vectors"):
                connection.execute(self._connections.format(statement).encode())
            insert = self._connections.format("INSERT INTO {s}.vector_model VALUES (%s)")
            connection.execute(insert.encode(), [to_bytes(name)])

    def missing(self, limit: int, sources: Collection[int] | None = None) -> list[tuple[int, str]]:
        return self._connections.run(
            "read the memory index",
            lambda connection: missing_vectors(
                _tables(self._connections, connection), limit, sources
            ),
        )

    def count(self, sources: Collection[int]) -> int:
        return int(self._rows(_COUNT, *_columns(list(map(places_of, sources))))[0][0] or 0)

    def add(self, model: str, vectors: Iterable[tuple[int, bytes]]) -> bool:
        by_id = dict(vectors)
        rows = self._rows(_ADD, to_bytes(model), list(by_id), list(by_id.values()))
        return bool(rows[0][0])

    def load(self, model: str, spans: Sequence[tuple[int, int]]) -> list[VectorRun]:
        rows = self._rows(_LOAD, *_columns(spans), to_bytes(model)) if spans else []
        return [VectorRun(first, count, bytes(data)) for first, count, data in rows]

    def _rows(self, query: str, *values: object) -> list[Any]:
        return self._connections.rows("use the vectors of the memory index", query, values)


def _columns(spans: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [first for first, _end in spans], [end for _first, end in spans]
