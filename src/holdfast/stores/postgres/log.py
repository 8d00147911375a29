"""One log in the database: its lines from either end, a page at a time.

A page is a range of positions, which are byte offsets: so it has at most so many bytes, whatever
the records are, and no cursor or transaction is held between two pages. Rows that are missing show
as a damaged line of their size; everything around them is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import LINE_BYTES_MAX, READ_BLOCK_BYTES
from holdfast.core.log.damage import GAP
from holdfast.errors import NoSuchSession
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
_ONE: Final = f"{_FORWARD} LIMIT 1"
_BACK: Final = """SELECT position, line FROM {s}.records
  WHERE log = %s AND position >= %s AND position < %s ORDER BY position DESC"""
_ONE_BACK: Final = f"{_BACK} LIMIT 1"
_NO_ROW: Final = (-1, b"")
"""A blank line that ends where the log begins, in place of a row before the first."""


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
    is_erasing: bool = False
    """The erasure of this log had begun when it was opened; rows may be gone already."""

    def lines(self, start: int = 0) -> Iterator[LogLine]:
        for position, line in self.rows_and_gaps(start):
            yield from _as_line(position, line)

    def lines_back(self, end: int | None = None) -> Iterator[LogLine]:
        before = self.size if end is None else end
        page = max(_PAGE_FIRST, min(self.first_page, _PAGE_MAX)) if end is None else _PAGE_FIRST
        while before > 0:
            rows = self._rows(_BACK, max(0, before - page), before)
            for position, line in rows or self._rows(_ONE_BACK, 0, before) or [_NO_ROW]:
                for gap in self._gap(position + len(line) + 1, before, is_back=True):
                    yield from _as_line(*gap)
                before = position
                yield from _as_line(position, line)
            page = min(page * 4, _PAGE_MAX)

    def data(self) -> Iterator[bytes]:
        """Yield the bytes that the log has as a file, in pieces: `size` bytes in all.

        Lines that are lost leave lines of `GAP`, so that every other line keeps its position.
        """
        held: list[bytes] = []
        start = end = 0
        for position, line in self.rows_and_gaps():
            _cut_last(held, end - position)
            held.append(line + b"\n")
            end = position + len(line) + 1
            if position - start > _PAGE_MAX:
                yield b"".join(held[:-1])
                held, start = held[-1:], position
        _cut_last(held, end - self.size)
        yield b"".join(held)

    def rows_and_gaps(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield every line from a position on, blank ones too, and lines for what is lost."""
        page, is_within = _PAGE_FIRST, start > 0  # the first position may be inside a line
        after = start
        while after < self.size:
            rows = self._rows(_FORWARD, after, min(start + page, self.size))
            for position, line in rows or self._rows(_ONE, after, self.size) or [(self.size, b"")]:
                if not is_within:
                    yield from self._gap(start, position)
                if position < self.size:
                    yield position, line
                start, after, is_within = position + len(line) + 1, position + 1, False
            page = min(page * 4, _PAGE_MAX)

    def _rows(self, query: str, start: int, end: int) -> list[tuple[int, bytes]]:
        doing = f"read session `{self.key.session}`"
        return self.connections.rows(doing, query, (self.number, start, end))

    def _gap(self, start: int, end: int, *, is_back: bool = False) -> Iterator[tuple[int, bytes]]:
        """Yield lines that stand for lost rows, from one position to another; usually none.

        Raises `NoSuchSession` where the session was erased while it was read.
        """
        if start >= end:
            return
        query = "SELECT 1 FROM {s}.logs WHERE id = %s AND (state < 2 OR %s)"
        parameters = (self.number, self.is_erasing)
        if not self.connections.rows("look for a session", query, parameters):
            raise NoSuchSession(str(self.key))
        starts = range(start, end, _PAGE_MAX)
        for position in reversed(starts) if is_back else starts:
            yield position, bytes([GAP]) * (min(position + _PAGE_MAX, end) - position - 1)


def _as_line(position: int, line: bytes) -> Iterator[LogLine]:
    """Yield a line as readers get it; none where it is blank."""
    if line and not line.isspace():
        yield position, len(line), item_of(position, line), line


def _cut_last(lines: list[bytes], excess: int) -> None:
    """Shorten the last line, whose row was made longer than its place in the log."""
    if excess > 0:
        lines[-1] = lines[-1][: len(lines[-1]) - excess - 1] + b"\n"


assert LINE_BYTES_MAX > _PAGE_MAX  # a page may hold one line only, and that is no error
