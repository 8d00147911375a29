"""Events are the same, wherever the bytes are cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.proxy.event_stream import EventReader, EventSplitter

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


RAW_EVENTS = (
    b"event: a\ndata: {}\n\n",
    b": a comment\n\n",
    b"data: one\ndata: two\n\n",
    b"data:tight\r\n\r\n",
    b"data: r\xc3\xbc\r\r",
    b"id: 7\ndata: [DONE]\n\n",
)


@examples(200)
@given(st.lists(st.sampled_from(RAW_EVENTS), max_size=8), st.lists(st.integers(0, 200), max_size=8))
@example([RAW_EVENTS[3], RAW_EVENTS[4], RAW_EVENTS[0]], [12, 13, 14, 15, 16])
def test_whole_events_come_as_they_were_wherever_they_are_split(
    events: list[bytes], cuts: list[int]
) -> None:
    """The raw events are the stream, and their data is what the other reader finds."""
    data = b"".join(events)
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    splitter, reader = EventSplitter(), EventReader()
    found: list[tuple[bytes, bytes]] = []
    known: list[bytes] = []
    for start, end in zip([0, *places], [*places, len(data)], strict=True):
        found += splitter.feed(data[start:end])
        known += reader.feed(data[start:end])
    found += splitter.end()
    known += reader.end()
    assert b"".join(raw for raw, _data in found) == data
    assert [text for _raw, text in found if text] == known
