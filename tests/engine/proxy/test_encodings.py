"""Compressed bodies are read as they come, within a bound; what is none of them is told."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.proxy.endpoints import READABLE_ENCODINGS, ProxyProblem, readable_encodings
from holdfast.engine.proxy.encodings import (
    BadEncoding,
    Inflater,
    TooLarge,
    decode_body,
    find_unreadable,
    read_encodings,
)
from holdfast.stores.payloads import load_zstd

if TYPE_CHECKING:
    from collections.abc import Callable

zstd = load_zstd()


def bare_deflate(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=-15)
    return made.compress(data) + made.flush()


WAYS: dict[str, list[Callable[[bytes], bytes]]] = {
    "gzip": [gzip.compress, lambda data: gzip.compress(data, 1)],
    "deflate": [zlib.compress, bare_deflate],
    "zstd": [zstd.compress, lambda data: zstd.compress(data, 19)],
}


def test_every_encoding_is_tried_here() -> None:
    assert set(WAYS) == set(READABLE_ENCODINGS)


@examples(100)
@example("gzip", 0, [b"one", b"", b"two"], [1])
@example("zstd", 0, [b"\x00" * 3_000_000, b"x"], [7, 1])
@example("gzip", 1, [b"\x00" * 3_000_000, b"x"], [7, 1])
@example("deflate", 1, [b"\x00" * 3_000_000], [1])
@given(
    st.sampled_from(READABLE_ENCODINGS),
    st.integers(0, 1),
    st.lists(st.binary(max_size=3_000), min_size=1, max_size=3),
    st.lists(st.integers(1, 500), min_size=1, max_size=5),
)
def test_a_body_is_read_whatever_its_frames_and_packets(
    encoding: str, way: int, parts: list[bytes], cuts: list[int]
) -> None:
    """One frame after another, cut anywhere, gives what was compressed."""
    if encoding == "deflate":
        parts = [b"".join(parts)]  # it has no frames
    data = b"".join(WAYS[encoding][way](part) for part in parts)
    inflater, got, at, number = Inflater(encoding, 10_000_000), b"", 0, 0
    while at < len(data):
        size = cuts[number % len(cuts)]
        got += inflater.feed(data[at : at + size])
        at, number = at + size, number + 1
    assert got == b"".join(parts)
    assert inflater.is_whole
    assert decode_body(data, [encoding], 10_000_000) == got


@pytest.mark.parametrize("encoding", READABLE_ENCODINGS)
@pytest.mark.parametrize("way", [0, 1])
def test_a_bomb_ends_at_the_bound(encoding: str, way: int) -> None:
    """A small body that grows without end is given up at its bound, and never held."""
    bomb = WAYS[encoding][way](b"\x00" * 50_000_000)
    assert len(bomb) < 500_000
    with pytest.raises(TooLarge):
        Inflater(encoding, 2_000_000).feed(bomb)
    with pytest.raises(ProxyProblem, match="larger than 2,000,000 bytes") as refused:
        decode_body(bomb, [encoding], 2_000_000)
    assert refused.value.status == 413


def test_a_frame_that_asks_for_a_large_window_is_refused() -> None:
    """The memory of a decoder is bounded, too, before a byte comes out of it."""
    options = {int(zstd.CompressionParameter.window_log): 27}
    made = zstd.ZstdCompressor(options=options)
    frame = made.compress(b"x" * 1_000) + made.flush()
    with pytest.raises(BadEncoding):
        Inflater("zstd", 10_000).feed(frame)


@pytest.mark.parametrize("encoding", READABLE_ENCODINGS)
@pytest.mark.parametrize("way", [0, 1])
@examples(60)
@given(data=st.data())
def test_a_damaged_body_is_a_clear_error(encoding: str, way: int, data: st.DataObject) -> None:
    """A body that was cut, is something else or has more behind it is refused, never guessed."""
    body = WAYS[encoding][way](b'{"messages": []}' * 20)
    kind = data.draw(st.sampled_from(["cut", "other", "more"]))
    if kind == "cut":
        body = body[: data.draw(st.integers(1, len(body) - 1))]
    elif kind == "other":
        body = b"{" + data.draw(st.binary(min_size=20, max_size=200))
    else:
        body += b"\xff\xff\xff\xff garbage"
    with pytest.raises(ProxyProblem, match=f"not in the encoding `{encoding}`") as refused:
        decode_body(body, [encoding], 10_000)
    assert refused.value.status == 400


def test_encodings_over_each_other_are_undone_in_turn() -> None:
    body = zstd.compress(gzip.compress(b"plain"))
    names = read_encodings("GZIP , identity, zstd")
    assert names == ("gzip", "zstd")
    assert decode_body(body, names, 1_000) == b"plain"
    assert find_unreadable(names) == ""
    assert find_unreadable(read_encodings("gzip, br, x-own")) == "br, x-own"
    assert find_unreadable(("gzip",) * 5)
    assert read_encodings("x-gzip") == ("gzip",)


def test_of_the_encodings_of_a_reply_those_are_offered_that_can_be_read() -> None:
    assert readable_encodings(b"gzip, deflate, br, zstd;q=0.5") == b"gzip, deflate, zstd;q=0.5"
    assert readable_encodings(b"br") == b"identity"
