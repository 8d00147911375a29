"""Payloads in the database, for those without a bucket: compressed, in pieces, verified.

Their grace is counted by the server's clock. Storing a payload again takes the lock of its row, so
that a collector waits for it, or has deleted it before.
"""

from __future__ import annotations

import hashlib
from itertools import chain
from typing import TYPE_CHECKING, Final

from holdfast.core.limits import BLOB_GRACE_SECONDS
from holdfast.errors import BlobDamaged
from holdfast.stores.payloads import as_file, check_hash, compress, is_hash, missing, read_verified

if TYPE_CHECKING:
    import io
    from collections.abc import Iterable, Iterator

    from holdfast.stores.postgres.connections import Connection, Connections

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
