"""The memory index in the database: plain tables of terms, passages and vectors."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.limits import RECALL_POSTINGS_MAX
from holdfast.ports.side_stores import (
    PLACE_BITS,
    FoundPassage,
    IndexSource,
    VectorRun,
    places_of,
    source_of,
)
from holdfast.stores import search
from holdfast.stores.postgres.rows import to_bytes, to_text
from holdfast.stores.search import AROUND_PLACES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from holdfast.ports.side_stores import IndexPassage, Matches, NewSource
    from holdfast.stores.postgres.connections import Connection, Connections, Row


_SOURCES: Final = """SELECT id, kind, name, stamp, head, passages, terms, oldest, newest
  FROM {s}.sources"""
_LOCK: Final = "SELECT pg_advisory_xact_lock(('x' || encode(%s, 'hex'))::bit(64)::bigint)"
_NEW: Final = """INSERT INTO {s}.sources (kind, place, name, stamp, head)
  VALUES (%s, %s, %s, %s, %s) RETURNING id"""
_EXTEND: Final = """UPDATE {s}.sources SET stamp = %s, head = %s
  WHERE id = %s AND head = %s AND passages = %s RETURNING id"""
_COUNT_IN: Final = """UPDATE {s}.sources SET passages = passages + %s, terms = terms + %s,
  oldest = LEAST(oldest, %s), newest = GREATEST(newest, %s) WHERE id = %s"""
_COPY_PASSAGES: Final = """COPY {s}.passages
  (id, role, record, first_line, last_line, ts, text, terms) FROM STDIN (FORMAT BINARY)"""
_PASSAGE_TYPES: Final = ("int8", "text", "bytea", "int4", "int4", "float8", "bytea", "bytea")
_COPY_POSTINGS: Final = "COPY {s}.postings (term, passage, times) FROM STDIN (FORMAT BINARY)"
_POSTING_TYPES: Final = ("bytea", "int8", "int4")
_SELECT: Final = """SELECT id, text, terms, role, record, first_line, last_line, ts
  FROM {s}.passages"""
_OF_SCOPE: Final = """SELECT id FROM {s}.sources
  WHERE kind = 'note' AND substr(name, 1, %s) = %s"""
_NOTES_OF_SESSION: Final = """SELECT id FROM {s}.passages
  WHERE role = 'note' AND (record = %s OR substr(record, 1, %s) = %s)"""
_EXACT: Final = """SELECT p.id FROM {s}.passages p WHERE p.id = ANY (ARRAY(
    SELECT passage FROM {s}.postings WHERE term = %s ORDER BY passage DESC LIMIT %s))
  AND position(%s::bytea IN ' '::bytea || p.terms || ' '::bytea) > 0
  ORDER BY p.id DESC LIMIT %s"""

_EVERYTHING: Final = (0, 2**63 - 1)
_MISSING: Final = """SELECT m.id, m.text
  FROM unnest(%s::bigint[], %s::bigint[]) AS s(first, past), LATERAL (
    SELECT p.id, p.text FROM {s}.passages p WHERE p.id >= s.first AND p.id < s.past
      AND NOT EXISTS (SELECT FROM {s}.vectors v WHERE v.id = p.id)
      ORDER BY p.id DESC LIMIT %s) AS m
  ORDER BY m.id DESC LIMIT %s"""
"""The inner limit is for the planner too: without it, every passage can be compared with every
span."""
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
_ADD: Final = """WITH held AS (SELECT FROM {s}.vector_model WHERE name = %s FOR SHARE), stored AS (
    INSERT INTO {s}.vectors SELECT u.id, u.vector
    FROM unnest(%s::bigint[], %s::bytea[]) AS u(id, vector)
    JOIN {s}.passages p ON p.id = u.id WHERE EXISTS (SELECT FROM held)
    ON CONFLICT (id) DO UPDATE SET vector = excluded.vector RETURNING id)
  SELECT EXISTS (SELECT FROM held), (SELECT count(*) FROM stored)"""
"""The lock on the model keeps it in use until the vectors are stored."""


class PostgresSearchIndex:
    """The `SearchIndex` of a database. Safe for threads, processes and hosts."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._places = _PostgresPlaces(connections)
        self.vectors = PostgresVectors(connections)

    def close(self) -> None:
        """Do nothing: the connections are those of the store."""

    # Keeping up

    def sources(
        self, sessions: Collection[str] | None = None, notes: str | None = None
    ) -> list[IndexSource]:
        def read(where: str = "", *values: object) -> list[Row]:
            return self._connections.rows("read the memory index", _SOURCES + where, values)

        if sessions is None and notes is None:
            rows = read()
        else:
            places = [hashlib.sha256(to_bytes(name)).digest() for name in sessions or ()]
            rows = read(" WHERE kind = 'session' AND place = ANY (%s::bytea[])", places)
            if notes is not None:
                start = to_bytes(notes)
                where = " WHERE kind = 'note' AND substr(name, 1, %s) = %s"
                rows += read(where, len(start), start)
        return [
            IndexSource(id_, kind, to_text(name), to_text(stamp), to_text(head), *sums)
            for id_, kind, name, stamp, head, *sums in rows
        ]

    def replace(self, sources: Sequence[NewSource]) -> None:
        query = self._sql("SELECT id FROM {s}.sources WHERE kind = %s AND place = %s")
        placed = [(hashlib.sha256(to_bytes(new.name)).digest(), new) for new in sources]
        placed.sort(key=lambda pair: pair[0])  # two that replace the same never lock each other
        with self._connections.transaction("write the memory index") as connection:
            for place, new in placed:
                connection.execute(_LOCK, [place[:8]])  # of two, the later one counts
                known = connection.execute(query, (new.kind, place)).fetchall()
                self._forget(connection, [row[0] for row in known])
                texts = (to_bytes(new.name), to_bytes(new.stamp), to_bytes(new.head))
                made = connection.execute(self._sql(_NEW), (new.kind, place, *texts)).fetchone()
                assert made is not None
                self._add(connection, made[0], 0, new.passages)

    def extend(
        self, known: IndexSource, *, stamp: str, head: str, passages: Sequence[IndexPassage]
    ) -> None:
        values = (to_bytes(stamp), to_bytes(head), known.id, to_bytes(known.head), known.passages)
        with self._connections.transaction("write the memory index") as connection:
            if connection.execute(self._sql(_EXTEND), values).fetchone() is not None:
                self._add(connection, known.id, known.passages, passages)

    def forget(self, sources: Iterable[int]) -> None:
        with self._connections.transaction("write the memory index") as connection:
            self._forget(connection, list(sources))

    def erase(self, sessions: Sequence[str], scopes: Sequence[str] = ()) -> None:
        with self._connections.transaction("erase from the memory index") as connection:

            def find(query: str, *values: object) -> list[Row]:
                return connection.execute(self._sql(query), values).fetchall()

            gone: set[int] = set()
            for scope in scopes:
                start = to_bytes(f"{scope}//")
                gone |= {row[0] for row in find(_OF_SCOPE, len(start), start)}
            for session in sessions:
                name = to_bytes(session)
                whole = "SELECT id FROM {s}.sources WHERE kind = 'session' AND name = %s"
                gone |= {row[0] for row in find(whole, name)}
                notes = find(_NOTES_OF_SESSION, name, len(name) + 1, name + b" ")
                gone |= {source_of(row[0]) for row in notes}
            self._forget(connection, sorted(gone))

    # Looking up

    def matches(
        self,
        query: Mapping[str, float],
        phrase: Sequence[str],
        allowed: Mapping[int, IndexSource],
    ) -> Matches:
        return search.match(self._places, query, phrase, allowed)

    def passages(self, ids: Sequence[int]) -> list[FoundPassage]:
        query = f"{_SELECT} WHERE id = ANY (%s::bigint[])"
        return list(map(_found, self._connections.rows("read passages", query, (list(ids),))))

    def around(self, passage: int) -> list[FoundPassage]:
        first = source_of(passage) << PLACE_BITS
        last = first + (1 << PLACE_BITS) - 1
        ends = (max(first, passage - AROUND_PLACES), min(last, passage + AROUND_PLACES))
        query = f"{_SELECT} WHERE id BETWEEN %s AND %s ORDER BY id"
        return list(map(_found, self._connections.rows("read passages", query, ends)))

    def holding(self, wanted: Iterable[str], most: int) -> dict[str, int]:
        return {term: self._places.count(term, most) for term in wanted}

    def count_by_source(
        self, holding: Mapping[str, int], allowed: Mapping[int, IndexSource]
    ) -> dict[str, dict[int, int]]:
        return search.count_by_source(self._places, holding, allowed)

    def _add(
        self, connection: Connection, source: int, start: int, passages: Sequence[IndexPassage]
    ) -> None:
        numbered = list(enumerate(passages, (source << PLACE_BITS) + start))
        with connection.cursor() as cursor:
            with cursor.copy(self._sql(_COPY_PASSAGES)) as copy:
                copy.set_types(_PASSAGE_TYPES)
                for id_, passage in numbered:
                    lines = (passage.first_line, passage.last_line)
                    text, terms = to_bytes(passage.text), to_bytes(" ".join(passage.terms))
                    record = to_bytes(passage.record)
                    copy.write_row((id_, passage.role, record, *lines, passage.ts, text, terms))
            with cursor.copy(self._sql(_COPY_POSTINGS)) as copy:
                copy.set_types(_POSTING_TYPES)
                for id_, passage in numbered:
                    for term, times in Counter(passage.terms).items():
                        copy.write_row((to_bytes(term), id_, times))
        times_of = [passage.ts for passage in passages if passage.ts is not None]
        count = sum(len(passage.terms) for passage in passages)
        oldest, newest = min(times_of, default=None), max(times_of, default=None)
        values = (len(passages), count, oldest, newest, source)
        connection.execute(self._sql(_COUNT_IN), values)

    def _forget(self, connection: Connection, sources: Sequence[int]) -> None:
        for source in sources:
            first = source << PLACE_BITS
            ends = (first, first + (1 << PLACE_BITS) - 1)
            for column, table in (("id", "passages"), ("id", "vectors"), ("passage", "postings")):
                query = f"DELETE FROM {{s}}.{table} WHERE {column} BETWEEN %s AND %s"
                connection.execute(self._sql(query), ends)
            connection.execute(self._sql("DELETE FROM {s}.sources WHERE id = %s"), [source])

    def _sql(self, query: str) -> bytes:
        return self._connections.format(query).encode()


class _PostgresPlaces:
    """The `Places` of a database."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def count(self, term: str, most: int | None = None) -> int:
        query = "SELECT count(*) FROM (SELECT FROM {s}.postings WHERE term = %s LIMIT %s) AS held"
        return int(self._rows(query, to_bytes(term), most)[0][0])

    def total(self) -> int:
        return int(self._rows("SELECT sum(passages)::bigint FROM {s}.sources")[0][0] or 0)

    def instances(self, term: str) -> list[int]:
        query = "SELECT passage, times FROM {s}.postings WHERE term = %s ORDER BY passage"
        return [id_ for id_, times in self._rows(query, to_bytes(term)) for _ in range(times)]

    def oldest(self, term: str, limit: int) -> list[int]:
        query = "SELECT passage FROM {s}.postings WHERE term = %s ORDER BY passage LIMIT %s"
        return [row[0] for row in self._rows(query, to_bytes(term), limit)]

    def newest(self, term: str, limit: int) -> list[int]:
        query = "SELECT passage FROM {s}.postings WHERE term = %s ORDER BY passage DESC LIMIT %s"
        return [row[0] for row in self._rows(query, to_bytes(term), limit)]

    def exact(self, phrase: Sequence[str], limit: int) -> list[int]:
        rarest = min(phrase, key=self.count)
        words = to_bytes(f" {' '.join(phrase)} ")
        rows = self._rows(_EXACT, to_bytes(rarest), RECALL_POSTINGS_MAX, words, limit)
        return [row[0] for row in rows]

    def _rows(self, query: str, *values: object) -> list[Row]:
        return self._connections.rows("search the memory index", query, values)


class PostgresVectors:
    """The `PassageVectors` of a database."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def use_model(self, name: str) -> None:
        query = "SELECT name FROM {s}.vector_model"
        if [row[0] for row in self._rows(query)] == [to_bytes(name)]:
            return
        with self._connections.transaction("write the memory index") as connection:
            connection.execute(_LOCK, [b"vectors."])
            # The model first: it waits for those that are adding vectors of the old one.
            for statement in ("DELETE FROM {s}.vector_model", "DELETE FROM {s}.vectors"):
                connection.execute(self._connections.format(statement).encode())
            insert = self._connections.format("INSERT INTO {s}.vector_model VALUES (%s)")
            connection.execute(insert.encode(), [to_bytes(name)])

    def missing(self, limit: int, sources: Collection[int] | None = None) -> list[tuple[int, str]]:
        spans = [_EVERYTHING] if sources is None else list(map(places_of, sources))
        rows = self._rows(_MISSING, *_columns(spans), limit, limit)
        return [(id_, to_text(text)) for id_, text in rows]

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


def _found(row: Row) -> FoundPassage:
    id_, text, terms, role, record, *rest = row
    return FoundPassage(id_, to_text(text), to_text(terms).split(), role, to_text(record), *rest)
