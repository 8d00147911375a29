"""Events are the same, wherever the bytes are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.proxy.event_stream import EventReader

STREAM = (
    'event: a\ndata: {"x": "é"}\n\n: comment\n\ndata: one\ndata: two\r\n\r\nid: 7\n\n'
    "data:[DONE]\n\n"
).encode()
EVENTS = ['{"x": "é"}'.encode(), b"one\ntwo", b"[DONE]"]


@pytest.mark.parametrize("line_end", [None, b"\n", b"\r", b"\r\n"])
@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=20))
@example(cuts=list(range(len(STREAM))))
def test_any_packets_give_the_same_events(line_end: bytes | None, cuts: list[int]) -> None:
    """Lines end in three ways, and packets anywhere, also amid an end."""
    reader = EventReader()
    stream = STREAM
    if line_end is not None:
        stream = STREAM.replace(b"\r\n", b"\n").replace(b"\n", line_end)
    places = [0, *sorted(cuts), len(stream)]
    pieces = [stream[at:end] for at, end in itertools.pairwise(places)]
    assert [event for piece in pieces for event in reader.feed(piece)] == EVENTS
    assert reader.is_between_events
    assert reader.end() == []


def test_an_event_without_its_end_is_known() -> None:
    reader = EventReader()
    assert reader.feed(b"data: half") == []
    assert not reader.is_between_events
    assert reader.end() == [b"half"]
