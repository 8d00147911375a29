"""A session and its source, compared."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.adoption import compare, mark, with_free_ids
from holdfast.core.log.records import (
    Assistant,
    Checkpoint,
    Compaction,
    Label,
    Record,
    ToolResult,
    User,
)

TALK: list[Record] = [
    User(content="a", ts=1.0),
    Assistant(content=[{"type": "text", "text": "b"}], ts=2.0),
    ToolResult(tool_use_id="t", content="c", ts=3.0),
    User(content="d", ts=4.0),
]


def stored(records: list[Record]) -> list[Record]:
    """Return records as a store has them, with ids of its own."""
    return [
        msgspec.structs.replace(record, id=f"own-{place}")
        for place, record in enumerate(mark(records, {"file": "x"}))
    ]


@given(st.integers(0, 4), st.lists(st.integers(0, 4), max_size=3))
@examples(100)
def test_the_rest_of_a_source_is_what_the_session_lacks(shared: int, places: list[int]) -> None:
    """Also with records of the session's own anywhere in between."""
    here = stored(TALK[:shared]) if shared else []
    for place in places:
        own = Label(label="l", id=f"label-{place}") if place % 2 else Checkpoint(state={}, id="c")
        here.insert(min(place, len(here)), own)

    found = compare(here, TALK)

    assert found.state == ("same" if shared == len(TALK) else "grown")
    assert list(found.fresh) == TALK[shared:]
    assert found.shared == shared


def test_what_differs_is_told_apart() -> None:
    """Other words, another time, another kind, or a continuation here: both versions stay."""
    for other in (
        User(content="other", ts=1.0),
        User(content="a", ts=9.0),
        User(content="a", ts=1.0, name="n"),
        Assistant(content="a", ts=1.0),
    ):
        found = compare(stored([other, *TALK[1:]]), TALK)
        assert (found.state, found.shared, found.at) == ("diverged", 0, "")
    went_on = [*stored(TALK[:2]), User(content="mine", id="m", ts=5.0)]
    found = compare(went_on, TALK)
    assert (found.state, found.at, list(found.fresh)) == ("diverged", "own-1", TALK[2:])
    assert compare([*stored(TALK), User(content="mine", id="m")], TALK).state == "same"


def test_a_reply_that_was_still_written_is_completed() -> None:
    """More blocks, or a usage: the step is replaced; a shorter one is another version."""
    whole = Assistant(
        content=[{"type": "text", "text": "b"}, {"type": "tool_use", "id": "t"}],
        usage={"output_tokens": 1},
        ts=2.0,
    )
    source = [TALK[0], whole, *TALK[2:]]
    assert compare(stored(TALK[:2]), source).state == "revised"
    assert compare(stored(TALK[:3]), source).state == "revised"
    assert compare(stored(source[:2]), TALK).state == "diverged"


def test_references_mean_the_records_of_the_session() -> None:
    """A compaction of the source keeps records that have other ids here."""
    source: list[Record] = [
        msgspec.structs.replace(record, id=f"theirs-{place}") for place, record in enumerate(TALK)
    ]
    turn = [{"type": "user", "id": "theirs-0", "content": "a"}]
    cut = Compaction(summary="s", first_kept="theirs-3", covers=("theirs-0", "theirs-2"), turn=turn)
    (found,) = compare(stored(TALK), [*source, cut]).fresh
    assert isinstance(found, Compaction)
    assert (found.first_kept, found.covers) == ("own-3", ("own-0", "own-2"))
    assert found.turn == [{**turn[0], "id": "own-0"}]


def test_ids_that_are_taken_are_renamed_with_their_references() -> None:
    """A second version of a step stands beside the first in one log."""
    records: list[Record] = [
        User(content="a", id="x"),
        Compaction(summary="s", id="y", first_kept="x"),
    ]
    first, second = with_free_ids(records, {"x", "x.2"})
    assert first.id == "x.3"
    assert isinstance(second, Compaction)
    assert (second.id, second.first_kept) == ("y", "x.3")
