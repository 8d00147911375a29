"""A draft: what a cut frees, what it stores, and how the view closes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.conversations import said
from tests.core.projection.test_project import appended, live_part, plan_for, steps, text_in

from holdfast.core.dialects.registry import target
from holdfast.core.log.records import Assistant, Compaction, Record, User
from holdfast.core.models.messages import text_of_blocks
from holdfast.core.projection.draft import ViewDraft
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.projection.sizes import Correction
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence


def draft_of(records: Sequence[Record], **options: Any) -> ViewDraft:
    request = ProjectionRequest(records, Window(200_000), target("anthropic"), **options)
    cache = ProjectionCache()
    view = cache.read(request.records, request.window, request.target)
    return ViewDraft(view, request, cache, Correction(1.0, 0.0), 50_000)


def turns(count: int) -> list[Record]:
    """Turns of two steps each, every one with words of its own."""
    return said(
        [
            record
            for number in range(count)
            for record in (
                User(content=f"Request {number}: look at file_{number}.py once more."),
                *steps(2 * number, 2, 400),
            )
        ]
    )


@pytest.mark.parametrize("places", [(4,), (3, 9), (3, 6, 11), (2, 3, 14)])
def test_every_cut_frees_what_it_says(places: tuple[int, ...]) -> None:
    """What the messages lose is what was freed, but for the carry-overs before and after."""
    draft = draft_of(turns(6))
    assert draft.frees(draft.start) == 0
    carried = 0
    for start in places:
        freed, before = draft.frees(start), draft.total
        assert freed > 0
        assert draft.size_after_cut(start, 2_000) < before
        expected = draft.size_after_cut(start, 2_000)
        draft.cut(start, 2_000)
        assert draft.total == expected
        assert draft.frees(start) == 0
        summary = draft.tokens_of(draft.opening[0])
        assert before - draft.total == freed + carried - summary
        carried = summary


def test_words_that_are_still_shown_are_not_carried_over() -> None:
    """A carry-over stands for what is gone; the rest of the turns is below it."""
    records = turns(8)
    plan = plan_for(records, 200_000, pressure="cut")
    (made,) = (one for one in plan.decisions if isinstance(one, Compaction))
    shown = {part.record for unit in plan.units_kept for part in unit.parts}
    words = {one.id: str(one.content) for one in records if isinstance(one, User)}
    assert 0 < len(shown & words.keys()) < len(words)
    for record, text in words.items():
        assert (text in made.summary) is (record not in shown)
        assert text_in(plan).count(text) == 1


def test_old_files_and_words_are_carried_over_however_many_steps_ago() -> None:
    """Names fade after a while; files that were touched and the user's words do not."""
    call = {"type": "tool_use", "id": "r", "name": "read", "input": {"path": "src/oldest.py"}}
    first: list[Record] = [
        User(content="Mind the oldest file."),
        Assistant(content=[call]),
        msgspec.structs.replace(steps(0, 1)[1], tool_use_id="r"),
    ]
    plan = plan_for(
        said([*first, *steps(1, 140, 300), User(content="Go on.")]), 200_000, pressure="cut"
    )
    (made,) = (one for one in plan.decisions if isinstance(one, Compaction))
    assert "User: Mind the oldest file." in made.summary
    assert "• read src/oldest.py" in made.summary


def test_carry_over_that_had_no_room_is_stored_whole() -> None:
    """One huge result leaves it little room; the next cut has all of it again."""
    said_before = [
        f"Remember rule {n}: keep module_{n}.py as it is, whatever happens." for n in range(40)
    ]
    log: list[Record] = []
    for words in said_before:
        log += [User(content=words), Assistant(content="ok")]
    log = said([*log, User(content="Go."), *steps(0, 1, 400_000)])
    crowded = plan_for(log, 8_000)
    (made,) = (one for one in crowded.decisions if isinstance(one, Compaction))
    assert made.carry is not None
    assert made.summary != made.carry
    held = [sum(words in text for words in said_before) for text in (made.summary, made.carry)]
    assert held[0] < held[1]
    more = [
        msgspec.structs.replace(one, id=f"m{n:02d}") for n, one in enumerate(said(steps(100, 12)))
    ]
    again = plan_for([*live_part(appended(log, crowded)), *more], 8_000)
    assert sum(words in text_in(again) for words in said_before) > held[0]


@pytest.mark.parametrize(
    ("records", "is_closed"),
    [
        ([User(content="hi")], False),
        ([User(content="hi"), Assistant(content="ho")], True),
        ([User(content="hi"), *steps(0, 1)], False),
        ([Compaction(summary="It was done.")], False),
        ([Compaction(summary="It was done."), Assistant(content="ho")], True),
        ([Compaction(summary="It was done."), Assistant(content="ho"), User(content="hi")], False),
    ],
    ids=["user", "reply", "result", "summary", "reply after one", "user after one"],
)
def test_view_closes_with_the_user(records: list[Record], is_closed: bool) -> None:
    """Providers answer the user; where the model spoke last, a note asks it to go on."""
    plan = plan_for(said(records))
    last = plan.prompt.messages[-1]
    assert last.role == "user"
    assert text_of_blocks(last.blocks).endswith("[Continue.]") is is_closed
    assert ("no-question" in {repair.flaw for repair in plan.repairs}) is is_closed


def test_cuts_that_were_asked_for_keep_a_part_of_the_view() -> None:
    """The newest third or less of a small view, and not much less."""
    records = said([User(content="Go."), *steps(0, 60, 400)])
    before = plan_for(records, 200_000)
    plan = plan_for(records, 200_000, pressure="cut")
    draft = draft_of(records)
    sizes = {unit.first: draft.tokens_of(unit) for unit in plan.units}
    kept = sum(sizes[unit.first] for unit in plan.units_kept)
    assert before.decisions == ()
    assert 0.2 <= kept / sum(sizes.values()) <= 0.3
    assert plan.tokens.messages < 0.6 * before.tokens.messages
