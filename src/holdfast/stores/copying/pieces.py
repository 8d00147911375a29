"""The bytes of a log, cut where it could have ended.

A piece ends with a whole append: whatever number of them a target has, it is the log as it was at
some time. Lines stay as they are, damaged ones too. What comes after the last whole append belongs
to one that never completed, or that is just being written: it is no part of any piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.limits import LINE_BYTES_MAX
from holdfast.core.log.chain import Chain
from holdfast.core.log.damage import Flaw
from holdfast.errors import StoreError
from holdfast.stores.lines import item_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.log.ids import SessionKey

PIECE_BYTES: Final = 4 * 1024 * 1024
"""The size of a piece, unless one append is larger: held in memory, and written in one step."""
_HELD_MAX: Final = 2 * LINE_BYTES_MAX
"""Bytes that are held for the end of an append. Damage can hide it; then a piece ends anywhere."""


class LogPiece(NamedTuple):
    """Some whole lines of a log, and the position of the first."""

    position: int
    data: bytes


class LogPieces:
    """Cuts a log into pieces."""

    def __init__(
        self, key: SessionKey, blocks: Iterable[bytes], *, piece_bytes: int = PIECE_BYTES
    ) -> None:
        self.left_out = 0
        """Bytes after the last whole append, once all pieces were taken."""
        self._key = key
        self._blocks = blocks
        self._piece_bytes = piece_bytes
        self._chain = Chain()
        self._position = 0
        """The position of the first byte that is held."""
        self._held = bytearray()
        self._whole = 0
        """The number of held bytes that end with a whole append."""

    def __iter__(self) -> Iterator[LogPiece]:
        parts: list[bytes] = []  # of a line whose end is not there yet
        size = 0
        for block in self._blocks:
            first, *others = block.split(b"\n")
            parts.append(first)
            size += len(first)
            self._check_size(size)
            if others:
                last = others.pop()
                for line in (b"".join(parts), *others):
                    self._check_size(len(line))
                    self._add(line)
                    if self._whole >= self._piece_bytes or len(self._held) > _HELD_MAX:
                        yield self._cut()
                parts, size = [last], len(last)
        tail = b"".join(parts)
        if not self._add_tail(tail):
            self.left_out = len(tail)
        self.left_out += len(self._held) - self._whole
        if self._whole:
            yield self._cut()

    def _add(self, line: bytes) -> None:
        position = self._position + len(self._held)
        self._held += line
        self._held += b"\n"
        if self._chain.is_open or _may_open(line):
            if line and not line.isspace():
                self._chain.add(position, len(line), item_of(position, line))
            if self._chain.is_open:
                return
        self._whole = len(self._held)

    def _add_tail(self, tail: bytes) -> bool:
        """Take a record that lacks only its newline, which the next append would add."""
        position = self._position + len(self._held)
        if not tail or isinstance(item := item_of(position, tail), Flaw) or item is None:
            return False
        if item.more:
            return False
        self._add(tail)
        return True

    def _cut(self) -> LogPiece:
        whole = self._whole or len(self._held)
        piece = LogPiece(self._position, bytes(self._held[:whole]))
        del self._held[:whole]
        self._position += whole
        self._whole = 0
        return piece

    def _check_size(self, size: int) -> None:
        if size > LINE_BYTES_MAX:
            position = self._position + len(self._held)
            raise StoreError(
                f"cannot copy session `{self._key}`: the line at byte {position:,} of its log has "
                f"more than {LINE_BYTES_MAX:,} bytes",
                hint="no record is that long; copy what "
                f"`holdfast verify {self._key.session} --repair` makes of it",
            )


def _may_open(line: bytes) -> bool:
    """Return False for most lines: they are no part of an append of several, and hide none."""
    return b'more"' in line or b"\0" in line or b"\\u" in line
