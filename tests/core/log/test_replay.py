"""From stored records to what a reader sees: calls once, boundaries where they bind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.strategies import records
from tests.support.runs import examples

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    ToolResult,
    ToolUse,
    Undo,
    User,
    decode,
    encode,
)
from holdfast.core.log.replay import (
    Boundaries,
    SeenCalls,
    decode_lines,
    live_at_end,
    without_doubles,
)
from holdfast.core.log.views import live
from holdfast.core.window import ANY_WINDOW, Window
from holdfast.stores.in_memory import MemoryLog

if TYPE_CHECKING:
    from holdfast.core.log.records import Record
    from holdfast.core.window import WindowFilter


def call(tool_use_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": tool_use_id, "name": "read", "input": {}}


def seed_turn(*tool_use_ids: str) -> list[Record]:
    """A turn as the seed stores it: calls in the message, and each again before its result."""
    turn: list[Record] = [User(content="read"), Assistant(content=[call(t) for t in tool_use_ids])]
    for one in tool_use_ids:
        turn += [ToolUse(tool_use_id=one, name="read"), ToolResult(tool_use_id=one, content="ok")]
    return [*turn, Assistant(content="done")]


def kinds(stored: list[Record]) -> list[str]:
    return [record.kind for record in without_doubles(stored)]


def test_without_doubles_drops_the_second_copy_of_a_call() -> None:
    """The seed's `tool_use` record, which repeats a call of the message before, is left out."""
    assert kinds(seed_turn("t1")) == ["user", "assistant", "tool_result", "assistant"]


def test_without_doubles_drops_each_copy_when_a_turn_has_two_calls() -> None:
    """With two calls in one message, both copies go and both results stay in order."""
    shown = list(without_doubles(seed_turn("t1", "t2")))
    assert [one.kind for one in shown] == [
        *("user", "assistant", "tool_result", "tool_result", "assistant"),
    ]
    assert [one.tool_use_id for one in shown if isinstance(one, ToolResult)] == ["t1", "t2"]


def test_without_doubles_keeps_a_call_that_no_message_holds() -> None:
    """A `tool_use` record without a call to repeat is the only trace of it, once."""
    stored: list[Record] = [
        User(content="read"),
        Assistant(content="I will"),
        ToolUse(tool_use_id="t1"),
        ToolUse(tool_use_id="t1"),
        ToolUse(tool_use_id="t2"),
    ]
    assert list(without_doubles(stored)) == [*stored[:3], stored[4]]


def test_without_doubles_keeps_the_same_id_in_a_later_turn() -> None:
    """Some models count their calls anew in each turn; a used id is free when the user speaks."""
    lone: list[Record] = [User(content="again"), ToolUse(tool_use_id="t1")]
    assert kinds([*seed_turn("t1"), *lone])[-2:] == ["user", "tool_use"]
    assert kinds([*seed_turn("t1"), *seed_turn("t1")]) == kinds(seed_turn("t1")) * 2


def test_without_doubles_keeps_a_copy_that_comes_after_another_step() -> None:
    """Only the step it follows can say that a call was stored twice, from wherever one reads."""
    stored: list[Record] = [
        Assistant(content=[call("t1")]),
        ToolResult(tool_use_id="t1"),
        Assistant(content=[call("t2")]),
        ToolUse(tool_use_id="t1"),
    ]
    assert list(without_doubles(stored)) == stored


@pytest.mark.parametrize("block", [{"type": "tool_use"}, {"type": "tool_use", "id": 7}, {}])
def test_without_doubles_passes_over_calls_without_an_id(block: dict[str, Any]) -> None:
    """A call whose id is missing or no text repeats nothing and is repeated by nothing."""
    stored: list[Record] = [Assistant(content=[block]), ToolUse(tool_use_id="7")]
    assert list(without_doubles(stored)) == stored


@given(st.lists(records(), max_size=8))
def test_without_doubles_leaves_out_nothing_but_calls(stored: list[Record]) -> None:
    """Every record but a `tool_use` is passed on, in order; doing it twice changes nothing."""
    shown = list(without_doubles(stored))
    assert [one for one in shown if not isinstance(one, ToolUse)] == [
        one for one in stored if not isinstance(one, ToolUse)
    ]
    assert list(without_doubles(shown)) == shown


def test_seen_calls_answers_for_each_record() -> None:
    """Only a repeated call is a double, however the records arrive."""
    seen = SeenCalls()
    assert [seen.doubles(record) for record in seed_turn("t1", "t2")] == [
        *(False, False, True, False, True, False, False),
    ]


def filter_of(tokens: int | None) -> WindowFilter:
    """The window of that size; every window for None."""
    return ANY_WINDOW if tokens is None else Window(tokens)


@pytest.mark.parametrize(
    ("made_for", "window", "expected"),
    [
        (100, None, True),
        (None, 100, True),
        (None, None, True),
        (100, 99, True),
        (100, 100, True),
        (100, 101, False),
    ],
)
def test_binds_for_the_same_window_and_smaller_ones(
    made_for: int | None, window: int | None, expected: bool
) -> None:
    """A compaction holds up to the window it was made for; without one, for every window."""
    assert (
        Boundaries(filter_of(window)).is_one(Compaction(summary="s", window=made_for)) is expected
    )


# The newest lines at once

_ODD_LINES = [
    b'{"type":"user","content":"x","$extra":{"key":"k"}}',
    b'{"type":"user","content":"x","\\u0024extra":{"key":"k"}}',
    b'{"type":"tool_result","tool_use_id":"t","output_ref":{"sha256":"a","bytes":1,"$extra":{"b":1}}}',
    b'{"type":"prune","decisions":[{"record":"a","action":"trim","$extra":{"b":1}}]}',
    b'{"type":"user","content":"x","key":"k"}',
    b'{"type":"user","content":"x","original":{"a":[1]}}',
    b'{"type":"of another version","a":1}',
    b'{"type":"user","content":"\\ud800"}',
]
"""Lines that are records, and that no struct describes as they are."""


@given(st.lists(st.one_of(records().map(encode), st.sampled_from(_ODD_LINES)), min_size=1))
@examples(200)
@example(_ODD_LINES)
@example([encode(User(content="x")), *_ODD_LINES[:1]])
@example([encode(User(content="x")), *_ODD_LINES[2:3]])
@example([encode(User(content="x")), *_ODD_LINES[3:4]])
def test_lines_decoded_at_once_are_those_decoded_one_by_one(lines: list[bytes]) -> None:
    """Whatever a record holds, a reader of many lines gets what a reader of one gets."""
    assert decode_lines(b"\n".join(lines), len(lines)) == [decode(line) for line in lines]


@pytest.mark.parametrize(
    "lines",
    [
        [b'{"type":"user"', b'"content":"x"}'],
        [b'{"type":"user","content":"x"} {"type":"user","content":"y"}'],
        [b'{"type":"user","content":"x"}', b""],
        [b'{"type":"user","content":"x"}', b"\x18"],
        [b'{"type":"user","content":"x"}', b"garbage"],
    ],
)
def test_lines_that_are_no_records_are_not_decoded_at_once(lines: list[bytes]) -> None:
    """A caller that was wrong about its lines has to look at each of them."""
    assert decode_lines(b"\n".join(lines), len(lines)) is None


def _log_of(stored: list[Record]) -> MemoryLog:
    log = MemoryLog(SessionKey("main", "s"))
    log.add(b"".join(encode(record) + b"\n" for record in stored), ())
    return log


_PARTS = st.one_of(
    st.builds(User, content=st.sampled_from(["a", "b"])),
    st.builds(Assistant, content=st.sampled_from(["a", [call("t1")], [call("t2")]])),
    st.builds(ToolUse, tool_use_id=st.sampled_from(["t1", "t2"])),
    st.builds(ToolResult, tool_use_id=st.just("t1"), content=st.just("ok")),
    st.builds(
        Compaction,
        summary=st.just("so far"),
        first_kept=st.sampled_from([None, "r0", "r1", "r3", "r7", "nothing"]),
        window=st.sampled_from([None, 100]),
    ),
    st.builds(Undo, target=st.sampled_from(["r1", "r4", "r6"])),
)


def _path(*parts: Record) -> list[Record]:
    return [
        msgspec.structs.replace(part, id=f"r{number}", ts=1.0) for number, part in enumerate(parts)
    ]


@given(
    st.lists(_PARTS, min_size=1, max_size=12),
    st.integers(0, 12),
    st.sampled_from([None, 50, 200]),
    st.sampled_from([{}, {}, {"parent": "r0"}, {"id": "r1"}, {"id": ""}]),
)
@examples(1_000)
@example([User(content="a"), Compaction(summary="s"), User(content="b")], 1, None, {})
@example(
    [User(content="a"), Compaction(summary="s", first_kept="r0"), User(content="b")], 1, None, {}
)
@example([Compaction(summary="s"), User(content="a")], 0, None, {"parent": "r0"})
@example([Compaction(summary="s"), Undo(target="r0"), User(content="a")], 0, None, {})
@example([User(content="a"), Assistant(content=[call("t1")]), ToolUse(tool_use_id="t1")], 0, 50, {})
@example([Compaction(summary="s", first_kept="r1"), User(content="a")], 0, None, {})
def test_the_view_from_the_newest_lines_is_the_view_of_the_log(
    parts: list[Record], first: int, window: int | None, last: dict[str, Any]
) -> None:
    """Where the newest lines tell what the next turn needs, they tell what the whole log does."""
    stored = _path(*parts)
    stored[-1] = msgspec.structs.replace(stored[-1], **last)
    log = _log_of(stored)
    lines = [encode(record) for record in stored][first:]
    found = live_at_end(b"\n".join(lines), len(lines), filter_of(window), is_whole=first == 0)
    whole = live(log, filter_of(window))
    assert found in (None, whole)
    ids = [record.id for record in stored]
    boundary = whole.boundary
    kept = ids[0] if boundary is None else boundary.first_kept or boundary.id
    newest = ids[-1] if boundary is None else boundary.id
    if not last and kept in ids[first : ids.index(newest) + 1]:
        assert found == whole
