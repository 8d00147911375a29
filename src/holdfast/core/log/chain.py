"""An append of several records: which of its lines count.

Its lines count down (`more`), and it counts once all of them are there. A damaged line takes the
place of one record and does not undo the others. A lost page does: it leaves one run of NUL bytes
where several lines were, so that nobody can tell what is missing. So a line with NUL bytes, a line
longer than any that is written, or damage that leaves a gap in the count-down makes all of the
append absent, up to the line that ends it. A seal, a torn line or a record that does not continue
the count abandons it.

Rows that a database has lost are another matter. Its appends are whole or absent, so every line
that is left was acknowledged, and counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from holdfast.core.log.damage import Flaw

if TYPE_CHECKING:
    from collections.abc import Sequence

LOSSES: Final = frozenset(("nul", "oversize"))
"""Flaws that may stand for any number of lines."""

_UNKNOWN: Final = -1
"""No count: lines are lacking, and nobody can tell how many."""


class Stands(Protocol):
    """The facts of a record that the tree needs."""

    @property
    def kind(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def ts(self) -> float: ...
    @property
    def parent(self) -> str | None: ...
    @property
    def more(self) -> int | None: ...
    @property
    def extra(self) -> dict[str, Any]: ...


ChainLine = tuple[int, int, "Stands"]
"""The position and the size of a record of an append of several, and itself. No class, because
most lines of a log have one."""


class Settled(NamedTuple):
    """The lines of appends that have ended, oldest first: those that are absent, and the others."""

    absent: Sequence[ChainLine] = ()
    counted: Sequence[ChainLine] = ()


NOTHING: Final = Settled()


class Chain(msgspec.Struct):
    """The append of several records that the lines so far end in, if they do."""

    _lines: list[ChainLine] = msgspec.field(default_factory=list)
    _left: int = 0
    """Lines that it still lacks."""
    _is_lost: bool = False
    _is_flawed: bool = False
    """A damaged line came after the newest record."""

    @property
    def is_open(self) -> bool:
        """True while what comes next may belong to it."""
        return self._left != 0

    def add(self, position: int, size: int, item: Stands | Flaw | None) -> Settled:
        """Take the next line and return what it settles. A record without `more` is none of it."""
        if item is None:
            return self.abandon()
        if isinstance(item, Flaw):
            return self._add_flaw(item)
        if item.more is None:
            return self.abandon()
        return self._add_record((position, size, item), item.more)

    def abandon(self) -> Settled:
        """End it; what is not complete is absent."""
        if self._left == 0:
            return NOTHING
        self._is_lost = True
        return self._end()

    def _add_record(self, line: ChainLine, more: int) -> Settled:
        absent: Sequence[ChainLine] = ()
        if self._left > 0 and more != self._left - 1:
            if self._is_flawed:
                self._is_lost = True
            else:
                absent = self.abandon().absent
        self._lines.append(line)
        self._left, self._is_flawed = more, False
        if more > 0:
            return Settled(absent) if absent else NOTHING
        ended = self._end()
        return Settled((*absent, *ended.absent), ended.counted) if absent else ended

    def _add_flaw(self, flaw: Flaw) -> Settled:
        if flaw.kind == "torn":
            return self.abandon()
        if flaw.kind == "missing":
            return self._end()
        if flaw.kind in LOSSES:
            self._left, self._is_lost = _UNKNOWN, True
        elif self._left > 0:
            self._left, self._is_flawed = self._left - 1, True
            if self._left == 0:
                return self._end()
        return NOTHING

    def _end(self) -> Settled:
        lines, is_lost = self._lines, self._is_lost
        self._lines, self._left, self._is_lost, self._is_flawed = [], 0, False, False
        return Settled(absent=lines) if is_lost else Settled(counted=lines)


def ends_chain(item: Stands | Flaw | None) -> bool:
    """Return whether a line leaves no append open, whatever came before it."""
    if item is None:
        return True
    return item.kind in ("torn", "missing") if isinstance(item, Flaw) else not item.more
