"""The small facts a listing shows, gathered one record at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import records, texts

from holdfast.core.limits import TITLE_CHARS_MAX
from holdfast.core.log.listing import Facts, title_of
from holdfast.core.log.records import (
    MESSAGES,
    Assistant,
    Header,
    Label,
    ModelChange,
    ToolResult,
    Unknown,
    User,
)

if TYPE_CHECKING:
    from holdfast.core.log.records import Record


def facts_of(*stored: Record) -> Facts:
    facts = Facts()
    for number, record in enumerate(stored):
        facts.add(number * 10, record)
    return facts


@given(st.lists(records(), max_size=8))
def test_facts_count_records_and_messages(stored: list[Record]) -> None:
    """Every record counts; messages are those a model sees; the head is the last one."""
    facts = facts_of(*stored)
    assert facts.records == len(stored)
    assert facts.messages == sum(record.kind in MESSAGES for record in stored)
    assert facts.damaged == 0
    last = stored[-1].id or f"@{len(stored) * 10 - 10}" if stored else ""
    assert facts.head == last


def test_facts_take_label_and_parent_from_the_header() -> None:
    """The first record's label and parent session are the session's."""
    header = Header(id="s", label="plan", parent_session="main/old", reason="spawn")
    facts = facts_of(header, User(content="x"))
    assert (facts.label, facts.parent_session, facts.reason) == ("plan", "main/old", "spawn")


def test_facts_ignore_a_header_inside_the_log() -> None:
    """A header that is not the first record says nothing about this session."""
    late = Header(label="other", parent_session="main/other")
    facts = facts_of(Header(label="plan"), late)
    assert (facts.label, facts.parent_session) == ("plan", None)
    assert facts_of(User(content="x"), late).label == ""


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([Label(label="new")], "new"),
        ([Label(label="new"), Label(label="newer")], "newer"),
        ([Label(label="")], ""),
        ([Label(label="new"), Label(label="")], ""),
        ([Label(label="a record's", target="r")], "plan"),
        ([Label(label="new"), Label(label="", target="r")], "new"),
    ],
)
def test_facts_follow_labels_of_the_session_only(labels: list[Label], expected: str) -> None:
    """The last label counts, an empty one takes it away, one with a target names a record."""
    assert facts_of(Header(label="plan"), *labels).label == expected


def test_facts_take_the_title_from_the_first_words_of_a_user() -> None:
    """Who speaks first without words, or is no user, gives no title; later words change none."""
    facts = facts_of(
        Assistant(content="hello"),
        User(content=None),
        User(content=[{"type": "image"}]),
        User(content=" \n "),
        User(content=[{"type": "text", "text": "What\n\tchanged?"}]),
        User(content="more"),
    )
    assert facts.title == "What changed?"


@pytest.mark.parametrize(
    ("times", "created", "last_active"),
    [
        ([], 0.0, 0.0),
        ([5.0], 5.0, 5.0),
        ([5.0, 9.0], 5.0, 9.0),
        ([5.0, 3.0], 5.0, 5.0),
        ([5.0, 9.0, 7.0], 5.0, 9.0),
        ([0.0, 4.0], 4.0, 4.0),
        ([0.0, 0.0], 0.0, 0.0),
    ],
)
def test_facts_keep_first_and_latest_time(
    times: list[float], created: float, last_active: float
) -> None:
    """A clock that goes back moves neither; a record without a time is passed over."""
    facts = facts_of(*(User(content="x", ts=ts) for ts in times))
    assert (facts.created, facts.last_active) == (created, last_active)


def test_facts_go_on_where_they_stopped() -> None:
    """Counting a log in two parts gives the same facts as in one."""
    stored: list[Record] = [
        Header(id="s", ts=1.0),
        User(content="first", ts=2.0),
        ToolResult(tool_use_id="t", ts=3.0),
        Label(label="l", ts=4.0),
        Unknown(type="novel", ts=5.0),
        ModelChange(model="m", ts=6.0),
    ]
    facts = facts_of(*stored[:3])
    for number, record in enumerate(stored[3:], 3):
        facts.add(number * 10, record)
    assert facts == facts_of(*stored)


@given(texts(300))
def test_title_is_one_line_within_its_limit(text: str) -> None:
    """Whatever was said, the title is one printable line that begins as it did."""
    title = title_of(text)
    title.encode()
    assert len(title) <= TITLE_CHARS_MAX
    assert title.isprintable()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("  two\n\n words ", "two words"),
        (" " * 999 + "xyz", "x"),
        ("x" * TITLE_CHARS_MAX, "x" * TITLE_CHARS_MAX),
        ("x" * (TITLE_CHARS_MAX + 1), "x" * (TITLE_CHARS_MAX - 1) + "…"),
        ("漢" * 10_000, "漢" * (TITLE_CHARS_MAX - 1) + "…"),
        ("a\x1b[31m b\x00\u202e c", "a[31m b c"),
    ],
)
def test_title_is_cut_with_an_ellipsis(text: str, expected: str) -> None:
    """Words that fit are kept whole, but for what cannot be printed; more end in an ellipsis."""
    assert title_of(text) == expected
