"""Of several statements of one fact the latest holds; where that is in doubt, all stay as they
are."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.memory.superseded import DatedStatement, find_superseded

REPLACED = [
    ("Which bank am I with?", "My bank is Fidor.", "I moved: my bank is now Triodos."),
    (
        "How many pages of the blue book have I read?",
        "I'm on page 200 of the blue book I read.",
        "Of the blue book I read, I'm now on page 220.",
    ),
    (
        "How long have I kept my walking routine?",
        "I have kept my walking routine for 3 weeks.",
        "Nice. I have kept my walking routine for 4 weeks already.",
    ),
    ("¿Cuál es mi banco?", "Mi banco es Fidor.", "Por cierto, mi banco ahora es Triodos."),
    ("我的银行是哪家？", "我的银行是 Fidor。", "顺便说，我的银行现在是 Triodos。"),
    ("会议几点开始？", "会议在9点开始。", "会议改在11点开始。"),
    ("which colour has the door", 'The door has "teal".', 'Now the door has "plum".'),
]
BOTH_HOLD = [
    # An event leaves an earlier one as it was.
    (
        "How many bass did I catch at the lake?",
        "I caught 7 bass at the lake on 7/10.",
        "I've caught 9 bass at the lake on 7/22.",
    ),
    ("What did I pay for shoes?", "I paid $80 for shoes last week.", "I paid $95 for shoes today."),
    # Two things of a kind.
    (
        "How many courses have I completed?",
        "I've completed three courses on Coursera.",
        "Since I've completed two courses on edX, I know the format.",
    ),
    # Said in other words: only a reader knows that it is the same.
    ("where do I live", "I live in Lisbon, near the river.", "We did it! I've moved to Porto."),
    (
        "How many tomatoes and cucumbers did I plant?",
        "I've got 5 tomatoes in the garden to plant.",
        "I've got 3 cucumbers in the garden to plant.",
    ),
    # Another unit, a question, the same value, a remark.
    ("How long is my walk?", "My walk is 5 miles long.", "My walk is 90 minutes long now."),
    ("Where do I live?", "I live in Lisbon.", "Do I live in Porto?".replace("I live", "you live")),
    ("Which bank am I with?", "My bank is Fidor.", "My bank is Fidor, as I said."),
    ("What is my car?", "My car is a Volvo.", "My car is getting old."),
    # Not what was asked for.
    ("Which plants like shade?", "My bank is Fidor.", "My bank is now Triodos."),
    ("", "My bank is Fidor.", "My bank is now Triodos."),
]


def _find(query: str, *texts: str) -> dict[int, int]:
    said = [DatedStatement(place, text, float(place)) for place, text in enumerate(texts)]
    return find_superseded(said, query)


@pytest.mark.parametrize(("query", "older", "newer"), REPLACED)
def test_a_later_statement_of_the_same_fact_replaces_an_earlier_one(
    query: str, older: str, newer: str
) -> None:
    assert _find(query, older, newer) == {0: 1}
    assert _find(query, older, "The weather is fine.", newer) == {0: 2}


@pytest.mark.parametrize(("query", "older", "newer"), BOTH_HOLD)
def test_what_is_in_doubt_stays(query: str, older: str, newer: str) -> None:
    assert _find(query, older, newer) == {}


@pytest.mark.parametrize(("query", "older", "newer"), REPLACED)
def test_whoever_goes_back_to_what_was_said_first_means_it(
    query: str, older: str, newer: str
) -> None:
    """The latest statement decides, and not the second."""
    assert _find(query, older, newer, older) == {1: 2}


@pytest.mark.parametrize(("query", "older", "newer"), REPLACED)
def test_nobody_replaces_what_another_person_said(query: str, older: str, newer: str) -> None:
    ann = DatedStatement(0, older, 0.0, "ann")
    bob = DatedStatement(1, newer, 1.0, "bob")
    again = DatedStatement(2, newer, 2.0, "ann")

    assert find_superseded([ann, bob], query) == {}
    assert find_superseded([ann, bob, again], query) == {0: 2}
    assert find_superseded([ann, again, DatedStatement(3, older, 3.0, "bob")], query) == {0: 2}


TEXTS = st.sampled_from([text for row in (*REPLACED, *BOTH_HOLD) for text in row[1:]])


@given(
    st.lists(st.tuples(TEXTS | st.text(max_size=80), st.integers(0, 4)), max_size=8),
    st.sampled_from([row[0] for row in (*REPLACED, *BOTH_HOLD)]) | st.text(max_size=60),
    st.randoms(use_true_random=False),
)
@example([("My bank is Fidor.", 1), ("My bank is now Triodos.", 1)], "bank", __import__("random"))
def test_marks_point_to_later_statements_whatever_their_order(
    said: list[tuple[str, int]], query: str, random: object
) -> None:
    """For all texts, times and orders: the same marks, each from an earlier to a later time."""
    statements = [DatedStatement(id_, text, float(ts)) for id_, (text, ts) in enumerate(said)]
    found = find_superseded(statements, query)
    mixed = list(statements)
    random.shuffle(mixed)  # type: ignore[attr-defined]

    assert find_superseded(mixed, query) == found
    for older, newer in found.items():
        assert statements[older].ts < statements[newer].ts
        assert newer not in found or statements[found[newer]].ts > statements[newer].ts
