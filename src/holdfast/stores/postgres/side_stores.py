"""Accesses, payloads, notes and running summaries in the database.

An access is a row, and so is a file of notes, whose rules are in `stores/notes`. Payloads are for
those without a bucket: compressed, in pieces, verified. A summary is a cache: whatever is wrong
with it, the log has the answer.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.history.access import Access, bound
from holdfast.core.limits import BLOB_GRACE_SECONDS, SIDECAR_BYTES_MAX
from holdfast.core.memory.note_files import NoteFile
from holdfast.core.memory.running_summary import Sidecar, read_sidecar
from holdfast.core.owners import owner_text
from holdfast.core.text.typed import decoder_of
from holdfast.errors import BlobDamaged, StoreError
from holdfast.ports import AuditPage
from holdfast.stores.payloads import as_file, check_hash, compress, is_hash, missing, read_verified
from holdfast.stores.postgres.rows import to_bytes, to_text

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.owners import Owner
    from holdfast.ports import Clock
    from holdfast.stores.postgres.connections import Connection, Connections


_PAGE: Final = 1_000
"""Rows read and written at a time."""
_BACK: Final = "SELECT id, entry FROM {s}.audit WHERE id < %s ORDER BY id DESC LIMIT %s"
_FORTH: Final = "SELECT id, entry FROM {s}.audit WHERE id > %s ORDER BY id LIMIT %s"
_NOTE_ALL: Final = """INSERT INTO {s}.audit (entry) SELECT u.entry
  FROM unnest(%s::bytea[]) WITH ORDINALITY AS u(entry, n) ORDER BY u.n RETURNING id"""
_CHANGE: Final = "UPDATE {s}.audit SET entry = %s WHERE id = %s RETURNING id"
_DELETE_ACCESSES: Final = "DELETE FROM {s}.audit WHERE id = %s RETURNING id"
_END: Final = 2**63 - 1
"""After every id."""

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = decoder_of(Access)


class PostgresAudit:
    """An `Audit` in a database. After a lost connection an access may be noted twice."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def note(self, access: Access) -> None:
        query = "INSERT INTO {s}.audit (entry) VALUES (%s) RETURNING id"
        self._rows("record an access", query, _encoder.encode(bound(access)))

    def note_all(self, accesses: Iterable[Access]) -> None:
        entries = (_encoder.encode(bound(access)) for access in accesses)
        while some := list(islice(entries, _PAGE)):
            self._rows("record accesses", _NOTE_ALL, some)

    def entries(self, last: int | None = None) -> AuditPage:
        found: list[Access] = []
        damaged = 0
        for _number, _entry, access in self._back():
            if last is not None and len(found) >= last:
                break
            if access is None:
                damaged += 1
            else:
                found.append(access)
        return AuditPage(tuple(reversed(found)), damaged)

    def pages(self) -> Iterator[AuditPage]:
        after = 0
        while rows := self._rows("read the audit log", _FORTH, after, _PAGE):
            after = rows[-1][0]
            accesses = [_decode(entry) for _number, entry in rows]
            found = tuple(access for access in accesses if access is not None)
            yield AuditPage(found, len(rows) - len(found))

    def reduce(self, change: Callable[[Access], Access], mentions: Iterable[str]) -> int:
        words = [mention.encode() for mention in mentions]
        changed = 0
        for number, entry, access in self._back():
            if access is None:
                if any(word in entry for word in words):
                    self._rows("change an access", _DELETE_ACCESSES, number)
                    changed += 1
            elif (after := change(access)) != access:
                self._rows("change an access", _CHANGE, _encoder.encode(after), number)
                changed += 1
        return changed

    def _back(self) -> Iterator[tuple[int, bytes, Access | None]]:
        """Yield every access, the newest first; None for one that cannot be read."""
        before = _END
        while rows := self._rows("read the audit log", _BACK, before, _PAGE):
            for before, entry in rows:
                yield before, entry, _decode(entry)

    def _rows(self, doing: str, query: str, *values: object) -> list[Any]:
        return self._connections.rows(doing, query, values)


def _decode(entry: bytes) -> Access | None:
    try:
        return _decoder.decode(entry)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


_PIECE_BYTES: Final = 1024 * 1024
"""Small enough to be held several times, large enough for few rows."""
_PUT: Final = """INSERT INTO {s}.blobs (sha256, size) VALUES (%s, %s) ON CONFLICT (sha256)
  DO UPDATE SET stored = clock_timestamp() RETURNING xmax = 0"""
_PIECE: Final = "INSERT INTO {s}.blob_pieces (sha256, number, data) VALUES (%s, %s, %s)"
_COLLECT: Final = """DELETE FROM {s}.blobs WHERE sha256 = ANY (%s)
  AND stored <= clock_timestamp() - make_interval(secs => %s) RETURNING sha256"""
_DISCARD: Final = "DELETE FROM {s}.blobs WHERE sha256 = ANY (%s) RETURNING sha256"
_DELETE_MAX: Final = 500
"""Payloads that one statement deletes: others wait for it if they store one of them."""


class PostgresBlobs:
    """A `BlobStore` in a database."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def put(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        pieces = _pieces(data)

        def work(connection: Connection) -> None:
            key = bytes.fromhex(sha256)
            with connection.transaction():
                row = connection.execute(self._sql(_PUT), (key, len(data))).fetchone()
                is_new = row is not None and row[0]
                if not is_new and self._is_intact(sha256, connection):
                    return
                delete = self._sql("DELETE FROM {s}.blob_pieces WHERE sha256 = %s")
                connection.execute(delete, [key])
                for number, piece in enumerate(pieces):
                    connection.execute(self._sql(_PIECE), (key, number, piece))

        self._connections.run(f"store blob {sha256[:12]}", work)
        return sha256

    def get(self, sha256: str) -> bytes:
        return b"".join(read_verified(self._open(sha256), sha256))

    def chunks(self, sha256: str, *, size: int | None = None) -> Iterator[bytes]:
        for _chunk in read_verified(self._open(sha256), sha256, size):
            pass
        # Verified again while it is delivered: it could have been changed in between.
        yield from read_verified(self._open(sha256), sha256, size)

    def size(self, sha256: str) -> int:
        return sum(map(len, read_verified(self._open(sha256), sha256)))

    def __contains__(self, sha256: str) -> bool:
        check_hash(sha256)
        query = "SELECT 1 FROM {s}.blobs WHERE sha256 = %s"
        return bool(self._connections.rows("look for a blob", query, [bytes.fromhex(sha256)]))

    def __iter__(self) -> Iterator[str]:
        after = b""
        query = """SELECT sha256 FROM {s}.blobs WHERE sha256 > %s ORDER BY sha256 LIMIT 10000"""
        while rows := self._connections.rows("list blobs", query, [after]):
            after = rows[-1][0]
            yield from (row[0].hex() for row in rows)

    def collect(
        self, referenced: Iterable[str], *, grace_seconds: float = BLOB_GRACE_SECONDS
    ) -> list[str]:
        # First the payloads, then the references: what is stored meanwhile stays.
        unneeded = set(self)
        unneeded.difference_update(referenced)
        return self._delete(unneeded, grace_seconds)

    def discard(self, hashes: Iterable[str]) -> list[str]:
        return self._delete(filter(is_hash, hashes))

    def sweep(self) -> list[str]:
        return []  # what was not stored whole was rolled back

    def _delete(self, hashes: Iterable[str], *grace_seconds: float) -> list[str]:
        """Delete payloads; with a grace, those that were not stored within it."""
        keys = sorted(bytes.fromhex(sha256) for sha256 in hashes)
        gone: list[str] = []
        for start in range(0, len(keys), _DELETE_MAX):
            some = keys[start : start + _DELETE_MAX]
            query = _COLLECT if grace_seconds else _DISCARD
            rows = self._connections.rows("delete blobs", query, (some, *grace_seconds))
            gone += [row[0].hex() for row in rows]
        return sorted(gone)

    def _open(self, sha256: str) -> io.BufferedReader:
        """Return the stored bytes as a file."""
        if sha256 not in self:
            address = self._connections.address
            raise missing(sha256, f"in schema `{address.schema}` of {address.shown}")
        return as_file(self._read_pieces(sha256))

    def _read_pieces(self, sha256: str, connection: Connection | None = None) -> Iterator[bytes]:
        query = "SELECT data FROM {s}.blob_pieces WHERE sha256 = %s AND number = %s"
        key, number = bytes.fromhex(sha256), 0
        while True:
            if connection is None:
                rows = self._connections.rows(f"read blob {sha256[:12]}", query, (key, number))
            else:
                rows = connection.execute(self._sql(query), (key, number), binary=True).fetchall()
            if not rows:
                return
            yield rows[0][0]
            number += 1

    def _is_intact(self, sha256: str, connection: Connection) -> bool:
        raw = as_file(self._read_pieces(sha256, connection))
        try:
            for _chunk in read_verified(raw, sha256):
                pass
        except BlobDamaged:
            return False  # stored again
        return True

    def _sql(self, query: str) -> bytes:
        return self._connections.format(query).encode()


def _pieces(data: bytes) -> list[bytes]:
    """Return a payload as it is stored: compressed, in pieces of equal size."""
    stored = b"".join(compress(data))
    starts = chain([0], range(_PIECE_BYTES, len(stored), _PIECE_BYTES))
    return [stored[start : start + _PIECE_BYTES] for start in starts]


_FILES: Final = """SELECT path, (changed * 1e9)::bigint, length(data), version
  FROM {s}.notes WHERE scope = %s"""
_LOAD: Final = "SELECT data FROM {s}.notes WHERE scope = %s AND place = %s"
_SAVE: Final = """INSERT INTO {s}.notes (agent, owner, scope, place, path, data, changed)
  VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (scope, place)
  DO UPDATE SET data = excluded.data, changed = excluded.changed, version = DEFAULT"""
_DELETE: Final = "DELETE FROM {s}.notes WHERE scope = %s AND place = %s"
_LOCK: Final = "SELECT pg_advisory_xact_lock(('x' || encode(%s, 'hex'))::bit(64)::bigint)"
"""Writers of one scope follow each other; the lock ends with its transaction."""


class PostgresNoteTable:
    """The `NoteTable` of one agent, or of one of its owners, in a database."""

    def __init__(self, connections: Connections, agent: str, owner: Owner, *, clock: Clock) -> None:
        self._connections = connections
        self._agent, self._owner = agent, to_bytes(owner_text(owner))
        self._scope = hashlib.sha256(agent.encode() + b"/" + self._owner).digest()
        self._clock = clock

    @property
    def location(self) -> str:
        return self._connections.address.shown

    @contextmanager
    def changing(self) -> Iterator[_Rows]:
        with self._connections.transaction("change notes") as connection:
            connection.execute(_LOCK, [self._scope[:8]])
            yield self._rows(connection)

    @contextmanager
    def reading(self) -> Iterator[_Rows]:
        with self._connections.transaction("read notes") as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield self._rows(connection)

    def _rows(self, connection: Connection) -> _Rows:
        where = (self._agent, self._owner, self._scope)
        return _Rows(self._connections, connection, where, self._clock)


class _Rows:
    """The `NoteRows` of a scope, within a transaction."""

    def __init__(
        self,
        connections: Connections,
        connection: Connection,
        where: tuple[str, bytes, bytes],
        clock: Clock,
    ) -> None:
        self._connections = connections
        self._connection = connection
        self._where = where
        self._scope = where[2]
        self._clock = clock

    def files(self) -> list[NoteFile]:
        rows = self._execute(_FILES, self._scope).fetchall()
        return [NoteFile(to_text(path), *marks) for path, *marks in rows]

    def load(self, path: str) -> bytes | None:
        row = self._execute(_LOAD, self._scope, _place(path)).fetchone()
        return None if row is None else bytes(row[0])

    def save(self, path: str, data: bytes | None) -> None:
        if data is None:
            self._execute(_DELETE, self._scope, _place(path))
        else:
            now = self._clock()
            self._execute(_SAVE, *self._where, _place(path), to_bytes(path), data, now)

    def _execute(self, query: str, *values: object) -> Any:
        statement = self._connections.format(query).encode()
        return self._connection.execute(statement, values, binary=True)


def _place(path: str) -> bytes:
    """Return a path in the fixed length that an index takes."""
    return hashlib.sha256(to_bytes(path)).digest()


_LOAD_SUMMARY: Final = "SELECT data FROM {s}.summaries WHERE agent = %s AND session = %s"
_SAVE_SUMMARY: Final = """INSERT INTO {s}.summaries (agent, session, data) VALUES (%s, %s, %s)
  ON CONFLICT (agent, session) DO UPDATE SET data = excluded.data RETURNING 1"""
_FORGET: Final = "DELETE FROM {s}.summaries WHERE agent = %s AND session = %s RETURNING 1"


class PostgresSummaries:
    """The `RunningSummaries` of sessions in a database."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def load(self, key: SessionKey) -> Sidecar | None:
        try:
            rows = self._connections.rows("read a summary", _LOAD_SUMMARY, (key.agent, key.session))
        except StoreError:
            return None
        data = rows[0][0] if rows else b""
        return read_sidecar(data) if 0 < len(data) <= SIDECAR_BYTES_MAX else None

    def save(self, key: SessionKey, sidecar: Sidecar) -> bool:
        try:
            data = msgspec.json.encode(sidecar)
            self._connections.rows("keep a summary", _SAVE_SUMMARY, (key.agent, key.session, data))
        except StoreError:
            return False
        return True

    def forget(self, key: SessionKey) -> None:
        with suppress(StoreError):
            self._connections.rows("forget a summary", _FORGET, (key.agent, key.session))
