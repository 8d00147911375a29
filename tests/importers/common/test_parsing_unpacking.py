"""Packed files unpack within stated limits, and a bomb costs no memory."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.errors import UsageError
from holdfast.importers import read_transcript
from holdfast.importers.common import parsing
from holdfast.importers.common.parsing import unpack

_MEGABYTE = 1024 * 1024


def _bomb(megabytes: int) -> bytes:
    """A gzip file of nothing but spaces, made without having them."""
    stream = zlib.compressobj(9, wbits=31)
    spaces = b" " * _MEGABYTE
    pieces = [stream.compress(spaces) for _number in range(megabytes)]
    return b"".join([*pieces, stream.flush()])


def test_a_bomb_is_refused_in_bounded_memory() -> None:
    """A file that unpacks to 400 times its size and more is refused before it has the memory."""
    bomb = _bomb(80)
    assert len(bomb) < _MEGABYTE / 8
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match="over 250 times as many") as raised:
            read_transcript(bomb, "bomb.gz")
        _now, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert f"{parsing.EXPANSION_FREE_BYTES:,}" in str(raised.value)
    assert "import the result" in (raised.value.hint or "")
    assert most < 4 * _MEGABYTE


def test_the_limit_of_plain_files_holds_for_packed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """However well it packs, a file that is too large unpacked is refused with that limit."""
    monkeypatch.setattr(parsing, "UNPACKED_BYTES_MAX", 10_000)
    with pytest.raises(UsageError, match="unpacks to more than 10,000 bytes"):
        unpack(gzip.compress(b" " * 20_000), "large.gz", Counter())
    assert unpack(gzip.compress(b" " * 10_000), "fits.gz", Counter()) == b" " * 10_000


@examples(60)
@given(st.lists(st.binary(max_size=300), max_size=4), st.integers(1, 2_000))
def test_what_was_packed_comes_back(members: list[bytes], repeat: int) -> None:
    """Files of one member or several, of any sizes, unpack to the same bytes."""
    plain = [member * repeat for member in members]
    packed = b"".join(map(gzip.compress, plain))
    flaws = Counter[tuple[str, str]]()
    assert unpack(packed, "packed.gz", flaws) == b"".join(plain)
    assert not flaws
