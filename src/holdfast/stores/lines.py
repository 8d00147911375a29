"""Lines of a file of any size, forwards and backwards, in bounded memory.

A line longer than `LINE_BYTES_MAX` is skipped: its place, length and first bytes are reported as
`Oversize`, never its content.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.core.limits import DAMAGE_PREVIEW_BYTES, LINE_BYTES_MAX, READ_BLOCK_BYTES
from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import SEAL, decode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Record

SEAL_LINE: Final = bytes([SEAL])
_BOM: Final = b"\xef\xbb\xbf"
_PREVIEW: Final = DAMAGE_PREVIEW_BYTES + 1
"""One byte more than is shown, so that a preview can say that it was cut."""


class Oversize(NamedTuple):
    """A line that is too long to be held in memory."""

    size: int
    start: bytes


Line = tuple[int, "bytes | Oversize"]
"""The position of a line, and its bytes without the newline."""


def item_of(position: int, line: bytes) -> Record | Flaw | None:
    """Return the record in a whole line, or why it is none; None for a seal.

    A log may begin with a byte-order mark. Every store reads its lines through here.
    """
    item = decode(line)
    if not isinstance(item, Flaw):
        return item
    if line == SEAL_LINE:
        return None
    if position == 0 and line.startswith(_BOM):
        return decode(line[len(_BOM) :])
    return item


class Forward(msgspec.Struct):
    """The complete lines in `[start, end)`; the text after the last newline is left in `tail`."""

    fd: int
    start: int
    end: int
    first_bytes: int = 0
    """Of the first block, if it is to be smaller than usual."""
    tail_position: int = 0
    tail: bytes | Oversize = b""

    def __iter__(self) -> Iterator[Line]:
        position, carry = self.start, b""
        skipped: Oversize | None = None
        offset = self.start
        # Grows: many readers want the first line only.
        length = self.first_bytes or max(1, READ_BLOCK_BYTES // 16)
        while offset < self.end:
            block = os.pread(self.fd, min(length, self.end - offset), offset)
            if not block:
                break
            offset += len(block)
            length = min(length * 4, READ_BLOCK_BYTES * 4)
            first, *rest = block.split(b"\n")
            if skipped is not None:
                skipped = Oversize(skipped.size + len(first), skipped.start)
            elif len(carry) + len(first) > LINE_BYTES_MAX:
                skipped = Oversize(len(carry) + len(first), (carry + first)[:_PREVIEW])
                carry = b""
            else:
                carry += first
            if not rest:
                continue
            line = carry if skipped is None else skipped
            yield position, line
            position += (len(line) if isinstance(line, bytes) else line.size) + 1
            skipped, carry = None, rest.pop()
            for complete in rest:
                yield position, complete
                position += len(complete) + 1
        self.tail_position = position
        self.tail = carry if skipped is None else skipped


def backward(fd: int, end: int) -> Iterator[Line]:
    """Yield the lines before `end`, the last one first.

    The text between the last newline and `end` comes first, also when it is empty.
    """
    pieces: list[bytes] = []  # of the line being joined, last piece first
    held = dropped = 0
    offset = end
    size = max(1, READ_BLOCK_BYTES // 64)  # grows: most readers stop after a line or a few
    while offset > 0:
        length = min(size, offset)
        size = min(size * 4, max(1, READ_BLOCK_BYTES // 4))
        offset -= length
        block = os.pread(fd, length, offset)
        first, *rest = block.split(b"\n")
        if rest:
            pieces.append(rest[-1])
            after = offset + len(block) - len(rest[-1])
            yield after, _join(pieces, dropped)
            for line in reversed(rest[:-1]):
                after -= len(line) + 1
                yield after, line
            pieces, held, dropped = [], 0, 0
        pieces.append(first)
        held += len(first)
        if held + dropped > LINE_BYTES_MAX:
            # Keep only the first bytes so far: with the bytes before them they make the preview.
            pieces = [_start_of(pieces)]
            dropped += held - len(pieces[0])
            held = len(pieces[0])
    yield 0, _join(pieces, dropped)


def _join(pieces: list[bytes], dropped: int) -> bytes | Oversize:
    size = sum(map(len, pieces)) + dropped
    if size > LINE_BYTES_MAX:
        return Oversize(size, _start_of(pieces))
    return b"".join(reversed(pieces))


def _start_of(pieces: list[bytes]) -> bytes:
    """Return the first bytes of a line in pieces, without joining it."""
    start = b""
    for piece in reversed(pieces):
        start += piece[: _PREVIEW - len(start)]
        if len(start) == _PREVIEW:
            break
    return start
