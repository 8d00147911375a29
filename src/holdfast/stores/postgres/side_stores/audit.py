"""The audit log in the database: one row for each access."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.history.access import Access, bound
from holdfast.core.text.typed import decoder_of
from holdfast.ports import AuditPage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.stores.postgres.connections import Connections

_PAGE: Final = 1_000
"""Rows read and written at a time."""
_BACK: Final = "SELECT id, entry FROM {s}.audit WHERE id < %s ORDER BY id DESC LIMIT %s"
_FORTH: Final = "SELECT id, entry FROM {s}.audit WHERE id > %s ORDER BY id LIMIT %s"
_NOTE_ALL: Final = """INSERT INTO {s}.audit (entry) SELECT u.entry
  FROM unnest(%s::bytea[]) WITH ORDINALITY AS u(entry, n) ORDER BY u.n RETURNING id"""
_CHANGE: Final = "UPDATE {s}.audit SET entry = %s WHERE id = %s RETURNING id"
_DELETE: Final = "DELETE FROM {s}.audit WHERE id = %s RETURNING id"
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
                    self._rows("change an access", _DELETE, number)
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
