"""A segment says what its passages are, and so do several that became one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.ports.side_stores import IndexPassage
from holdfast.stores.search.segments import (
    Segment,
    SegmentPlaces,
    build,
    facts_of,
    lists_of,
    merge,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.stores.search.segments import Built

WORDS = [f"word{number:03}" for number in range(200)]
PASSAGE = st.tuples(
    st.lists(st.sampled_from(WORDS), max_size=30),
    st.sampled_from(["note", "user", "assistant"]),
    st.none() | st.floats(0, 1e10),
).map(lambda made: IndexPassage("", made[0], made[1], ts=made[2]))  # type: ignore[arg-type]
PASSAGES = st.dictionaries(st.integers(0, 5_000), PASSAGE, min_size=1, max_size=60)


def opened(number: int, passages: Mapping[int, IndexPassage]) -> tuple[Segment, list[Any]]:
    """A segment of passages by their ids, and its blocks."""
    ids = sorted(passages)
    said = [passages[id_] for id_ in ids]
    return blocks_of(number, build(ids, lists_of(said), facts_of(said)))


def blocks_of(number: int, built: Built) -> tuple[Segment, list[Any]]:
    segment = Segment(number, built.head)
    return segment, [segment.open(place, data) for place, data in enumerate(built.blocks)]


def places_of(*parts: tuple[Segment, list[Any]]) -> SegmentPlaces:
    blocks = {(one.id, number): block for one, some in parts for number, block in enumerate(some)}
    return SegmentPlaces(
        [segment for segment, _blocks in parts],
        lambda wanted: {(one.id, number): blocks[one.id, number] for one, number in wanted},
        lambda _ids: {},
    )


def check(places: SegmentPlaces, passages: Mapping[int, IndexPassage]) -> None:
    held = {word: {id_ for id_, one in passages.items() if word in one.terms} for word in WORDS}
    assert places.counts([*WORDS, "nothing"]) == {
        **{word: len(ids) for word, ids in held.items()},
        "nothing": 0,
    }
    assert places.lists(WORDS) == {
        word: {id_: [*passages[id_].terms].count(word) for id_ in ids} for word, ids in held.items()
    }
    assert places.facts(range(5_001)) == {
        id_: (len(one.terms), one.role, one.ts) for id_, one in passages.items()
    }


@given(passages=PASSAGES)
def test_a_segment_says_what_its_passages_are(passages: dict[int, IndexPassage]) -> None:
    check(places_of(opened(1, passages)), passages)


@given(
    passages=PASSAGES,
    cuts=st.lists(st.integers(0, 3)),
    is_mixed=st.booleans(),
    gone=st.sets(st.integers(0, 5_000)),
)
def test_segments_say_the_same_when_they_are_one(
    passages: dict[int, IndexPassage], cuts: list[int], is_mixed: bool, gone: set[int]
) -> None:
    """Whether their passages follow each other or are mixed, and without what is not wanted."""
    parts: list[dict[int, IndexPassage]] = [{}, {}, {}, {}]
    for place, id_ in enumerate(sorted(passages)):
        mixed = cuts[place % len(cuts)] if cuts else 0
        parts[mixed if is_mixed else 4 * place // len(passages)][id_] = passages[id_]
    some = [opened(number, part) for number, part in enumerate(parts, 1) if part]
    check(places_of(*some), passages)
    left = {id_: one for id_, one in passages.items() if id_ not in gone}
    merged = merge(some, lambda id_: id_ not in gone)
    assert merged.ids == sorted(left)
    if left:
        check(places_of(blocks_of(9, build(*merged))), left)


def test_a_list_may_fill_several_pages() -> None:
    """Each passage holds one term, and each other one another."""
    passages = {
        3 * number: IndexPassage("", ["all", *["odd"] * (number % 2)], "user", ts=float(number))
        for number in range(5_000)
    }
    segment = opened(1, passages)
    found = places_of(segment).lists(["all", "odd"])
    assert list(found["all"]) == list(passages)
    assert list(found["odd"]) == list(passages)[1::2]
    opened_for = places_of(segment).newest("odd", 10)
    assert list(opened_for) == list(passages)[:-21:-2]
