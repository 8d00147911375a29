"""A draft is true of a cut that takes none but its records, on its branch."""

from __future__ import annotations

import pytest

from holdfast.core.log.records import Assistant, Compaction, Record, User
from holdfast.core.turn.run import DraftState, SummaryDraft, is_true_of, newest_cut

LOG: list[Record] = [
    User(content="a", id="r1"),
    Compaction(summary="s", first_kept="r1", id="c1"),
    User(content="b", id="r2"),
    Assistant(content="c", id="r3"),
    User(content="d", id="r4"),
]


@pytest.mark.parametrize(
    ("draft", "last", "is_true"),
    [
        (SummaryDraft("text", "r3"), "r2", True),
        (SummaryDraft("text", "r3"), "r3", True),
        (SummaryDraft("text", "r3"), "r4", False),
        (SummaryDraft("text", "r9"), "r2", False),
        (SummaryDraft("text", "r3"), "r9", False),
        (SummaryDraft("text", "r3"), "", False),
    ],
)
def test_what_a_draft_is_true_of(draft: SummaryDraft, last: str, is_true: bool) -> None:
    assert is_true_of(draft, LOG, last) is is_true


def test_the_newest_cut() -> None:
    assert newest_cut(LOG) == "c1"
    assert newest_cut(LOG[:1]) == ""


def test_tries_are_counted_for_each_boundary() -> None:
    state = DraftState()
    assert [state.begin("c1") for _ in range(3)] == [True, True, False]
    assert [state.begin("c2") for _ in range(3)] == [True, True, False]


def test_a_cut_takes_the_cost_of_all_drafts() -> None:
    state = DraftState()
    state.charge(1, {"input_tokens": 5}, 0.25)
    state.charge(2, None, None)
    assert (state.calls, state.usages, state.costs) == (3, [{"input_tokens": 5}], [0.25])
    setattr(state, "draft", SummaryDraft("text", "r1"))  # noqa: B010 - mypy would narrow it
    state.settle()
    assert state.draft is None
    assert (state.calls, state.usages, state.costs) == (0, [], [])
