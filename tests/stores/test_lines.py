"""Lines of a file, from either end, whatever the file holds and wherever its blocks fall."""

from __future__ import annotations

import os
import tempfile
import tracemalloc
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.limits import DAMAGE_PREVIEW_BYTES, LINE_BYTES_MAX
from holdfast.stores import lines
from holdfast.stores.lines import Forward, Oversize, backward

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.stores.lines import Line

# Few letters, so that newlines, blank lines and runs without a newline are all common.
FILES = st.lists(
    st.one_of(st.just(b"\n"), st.binary(max_size=40), st.sampled_from([b"a", b"\r", b"\x00"])),
    max_size=60,
).map(b"".join)
BLOCKS = st.integers(min_value=4, max_value=24)


@contextmanager
def opened(data: bytes) -> Iterator[int]:
    """A descriptor of a file with this content."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.fileno()


@contextmanager
def small_blocks(block_bytes: int, line_bytes_max: int) -> Iterator[None]:
    """Read in blocks of a few bytes, and call a line too long early."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "READ_BLOCK_BYTES", block_bytes)
        patch.setattr(lines, "LINE_BYTES_MAX", line_bytes_max)
        yield


def expected(data: bytes, start: int = 0) -> list[Line]:
    """What `bytes.split` says: the place and content of each line, the last one included."""
    found: list[Line] = []
    position = start
    for line in data[start:].split(b"\n"):
        found.append((position, line))
        position += len(line) + 1
    return found


def shortened(found: list[Line], line_bytes_max: int) -> list[Line]:
    """The same with the lines that are too long reported and not held."""
    preview = DAMAGE_PREVIEW_BYTES + 1
    return [
        (position, Oversize(len(line), line[:preview]))
        if isinstance(line, bytes) and len(line) > line_bytes_max
        else (position, line)
        for position, line in found
    ]


def forward(fd: int, start: int, end: int) -> list[Line]:
    """All lines from the start, what follows the last newline included."""
    reader = Forward(fd, start, end)
    return [*reader, (reader.tail_position, reader.tail)]


@given(data=FILES, block_bytes=BLOCKS)
@examples(300)
def test_lines_agree_with_split_from_both_ends(data: bytes, block_bytes: int) -> None:
    """Any file gives the lines of `bytes.split`, forwards and backwards, whatever the blocks."""
    with opened(data) as fd, small_blocks(block_bytes, 1 << 20):
        assert forward(fd, 0, len(data)) == expected(data)
        assert list(backward(fd, len(data))) == expected(data)[::-1]


@given(data=FILES, block_bytes=BLOCKS, cut=st.tuples(st.integers(0), st.integers(0)))
@examples(200)
def test_lines_stay_within_the_part_asked_for(
    data: bytes, block_bytes: int, cut: tuple[int, int]
) -> None:
    """Nothing before the start or at and after the end is looked at."""
    start, end = sorted(place % (len(data) + 1) for place in cut)
    with opened(data) as fd, small_blocks(block_bytes, 1 << 20):
        assert forward(fd, start, end) == expected(data[:end], start)
        assert list(backward(fd, end)) == expected(data[:end])[::-1]


@pytest.mark.parametrize("block_bytes", [4, 5, 8])
def test_lines_are_whole_at_every_block_boundary(block_bytes: int) -> None:
    """A newline may fall before, on and after every boundary of a block."""
    for length in range(6 * 4 * block_bytes):
        data = b"x" * length + b"\n" + b"y" * (length % 7) + b"\n" + b"z" * 3
        with opened(data) as fd, small_blocks(block_bytes, 1 << 20):
            assert forward(fd, 0, len(data)) == expected(data)
            assert list(backward(fd, len(data))) == expected(data)[::-1]


@given(
    sizes=st.lists(st.integers(min_value=0, max_value=700), min_size=1, max_size=6),
    block_bytes=st.integers(min_value=4, max_value=32),
)
@example(sizes=[0, 200, 0], block_bytes=8)
@example(sizes=[201, 129], block_bytes=32)
@examples(300)
def test_lines_that_are_too_long_are_reported_from_both_ends(
    sizes: list[int], block_bytes: int
) -> None:
    """An oversize line is reported with its exact place, size and first bytes, from either end."""
    line_bytes_max = 4 * block_bytes + 72
    data = b"\n".join(bytes(33 + (at * 7 + size) % 90 for at in range(size)) for size in sizes)
    found = shortened(expected(data), line_bytes_max)
    with opened(data) as fd, small_blocks(block_bytes, line_bytes_max):
        assert forward(fd, 0, len(data)) == found
        assert list(backward(fd, len(data))) == found[::-1]


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_lines_of_exactly_the_limit_are_still_lines(over: int) -> None:
    """The limit itself is allowed; one byte more is not."""
    data = b"first\n" + b"x" * (400 + over) + b"\nlast"
    found = shortened(expected(data), 400)
    assert isinstance(found[1][1], Oversize) == (over > 0)
    with opened(data) as fd, small_blocks(16, 400):
        assert forward(fd, 0, len(data)) == found
        assert list(backward(fd, len(data))) == found[::-1]


def test_lines_of_an_empty_file_are_one_empty_tail() -> None:
    """Nothing in the file: no complete line, and an empty one after the last newline."""
    with opened(b"") as fd:
        assert forward(fd, 0, 0) == [(0, b"")]
        assert list(backward(fd, 0)) == [(0, b"")]


def test_lines_end_where_the_file_does_when_it_was_truncated_meanwhile(tmp_path: Path) -> None:
    """A file that became shorter than expected is read to its new end without a fault."""
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\nthree\n")
    fd = os.open(path, os.O_RDONLY)
    try:
        os.truncate(path, 6)
        assert forward(fd, 0, 14) == [(0, b"one"), (4, b"tw")]
    finally:
        os.close(fd)


def test_lines_of_a_huge_line_are_read_in_bounded_memory(tmp_path: Path) -> None:
    """A line of 200 MB is passed over from both ends while only a few blocks are held."""
    path = tmp_path / "log"
    size = 200 * 1024 * 1024
    with path.open("wb") as file:
        file.write(b'{"a":1}\nhuge')
        file.truncate(8 + size)  # a sparse run of NUL bytes
        file.seek(0, os.SEEK_END)
        file.write(b'\n{"b":2}\n')
    end = path.stat().st_size
    huge = Oversize(size, b"huge" + bytes(DAMAGE_PREVIEW_BYTES + 1 - 4))
    found = [(0, b'{"a":1}'), (8, huge), (9 + size, b'{"b":2}'), (end, b"")]
    fd = os.open(path, os.O_RDONLY)
    try:
        tracemalloc.start()
        try:
            assert forward(fd, 0, end) == found
            _now, most_forward = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            assert list(backward(fd, end)) == found[::-1]
            _now, most_backward = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    finally:
        os.close(fd)
    assert most_forward < 2.2 * LINE_BYTES_MAX
    assert most_backward < 1.2 * LINE_BYTES_MAX
