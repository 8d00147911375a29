"""One log in the database: its lines from either end, a page at a time.

A page is a range of positions, which are byte offsets: so it has at most so many bytes, whatever
the records are, and no cursor or transaction is held between two pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import LINE_BYTES_MAX, READ_BLOCK_BYTES
from holdfast.errors import HoldfastError, NoSuchSession, StoreError
from holdfast.stores.lines import item_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.walk import LogLine
    from holdfast.stores.postgres.connections import Connections

_PAGE_FIRST: Final = READ_BLOCK_BYTES // 4
"""Bytes of the first page: many readers want a few lines only."""
_PAGE_MAX: Final = READ_BLOCK_BYTES * 16
"""Bytes of the largest page. Pages grow fourfold: a long log takes few round trips."""

_FORWARD: Final = """SELECT position, line FROM {s}.records
  WHERE log = %s AND position >= %s AND position < %s ORDER BY position"""
_BACK: Final = """SELECT position, line FROM {s}.records
  WHERE log = %s AND position >= %s AND position < %s ORDER BY position DESC"""
_ONE_BACK: Final = """SELECT position, line FROM {s}.records
  WHERE log = %s AND position >= %s AND position < %s ORDER BY position DESC LIMIT 1"""


class PostgresLog(msgspec.Struct, frozen=True):
    """The first `size` bytes of a log, as an `OpenLog`."""

    key: SessionKey
    connections: Connections
    number: int
    """The id of the log's row."""
    size: int
    is_plain: bool = False
    """Every line is a record that counts, under an id of its own: the index of ids is the truth."""
    first_page: int = _PAGE_FIRST
    """Bytes that a reader from the end is expected to want."""

    def lines(self, start: int = 0) -> Iterator[LogLine]:
        page, is_first = _PAGE_FIRST, True  # the first position may be inside a line
        while start < self.size:
            rows = self._rows(_FORWARD, start, min(start + page, self.size))
            for position, line in rows:
                if position != start and not is_first:
                    raise self._gap(start)
                start, is_first = position + len(line) + 1, False
                if line and not line.isspace():
                    yield position, len(line), item_of(position, line), line
            if not rows:
                if is_first and start + page < self.size:
                    start += page
                elif is_first:
                    return
                else:
                    raise self._gap(start)
            page = min(page * 4, _PAGE_MAX)

    def lines_back(self, end: int | None = None) -> Iterator[LogLine]:
        before, is_first = (self.size, False) if end is None else (end, True)
        page = max(_PAGE_FIRST, min(self.first_page, _PAGE_MAX)) if end is None else _PAGE_FIRST
        while before > 0:
            start = max(0, before - page)
            rows = self._rows(_BACK, start, before) or self._rows(_ONE_BACK, 0, before)
            for position, line in rows:
                if position + len(line) + 1 != before and not is_first:
                    raise self._gap(position)
                before, is_first = position, False
                if line and not line.isspace():
                    yield position, len(line), item_of(position, line), line
            if not rows:
                raise self._gap(before)
            page = min(page * 4, _PAGE_MAX)

    def data(self) -> Iterator[bytes]:
        """Yield the bytes that the log has as a file, in pieces."""
        start, page = 0, _PAGE_FIRST
        while start < self.size:
            rows = self._rows(_FORWARD, start, min(start + page, self.size))
            piece = b"".join(line + b"\n" for _position, line in rows)
            if not piece:
                raise self._gap(start)
            start += len(piece)
            page = _PAGE_MAX
            yield piece

    def _rows(self, query: str, start: int, end: int) -> list[tuple[int, bytes]]:
        doing = f"read session `{self.key.session}`"
        return self.connections.rows(doing, query, (self.number, start, end))

    def _gap(self, position: int) -> HoldfastError:
        """Return the error for lines that are not there: the session is gone, or damaged."""
        query = "SELECT 1 FROM {s}.logs WHERE id = %s"
        if not self.connections.rows("look for a session", query, (self.number,)):
            return NoSuchSession(str(self.key))  # erased while it was read
        return StoreError(
            f"session `{self.key}` is damaged: lines are missing at byte {position:,}",
            hint="nothing was changed; restore the table `records` from a backup",
        )


assert LINE_BYTES_MAX > _PAGE_MAX  # a page may hold one line only, and that is no error
