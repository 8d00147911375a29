"""Times that questions name: resolved against a given now, never after it, from any text."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.memory.question_dates import (
    NamedEvent,
    find_days,
    find_event,
    find_times,
    is_within,
    span_of,
)

NOW = datetime(2026, 11, 17, 3, 0, tzinfo=UTC).timestamp()  # a Tuesday


def _noon(day: date) -> float:
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("question", "inside", "outside"),
    [
        ("What did I plan in May?", "2026-05-20", "2026-06-20"),
        ("What did I plan in December?", "2025-12-20", "2026-10-20"),
        ("Where was I on 3 June?", "2026-06-03", "2026-06-10"),
        ("Where was I on June 3rd?", "2026-06-03", "2026-05-30"),
        ("Where was I on 3 June 2024?", "2024-06-03", "2026-06-03"),
        ("And on 2026-02-28?", "2026-02-28", "2026-03-05"),
        ("Who called last week?", "2026-11-11", "2026-11-05"),
        ("What did we eat this week?", "2026-11-16", "2026-11-10"),
        ("Which shoes did I clean last month?", "2026-10-15", "2026-09-15"),
        ("Which book did I finish two weeks ago?", "2026-11-03", "2026-11-12"),
        ("Where did I go a couple of months ago?", "2026-09-18", "2026-07-01"),
        ("Who came with me last Saturday?", "2026-11-14", "2026-11-08"),
        ("What did you say yesterday?", "2026-11-16", "2026-11-12"),
        ("What did I buy in 2024?", "2024-07-01", "2025-07-01"),
    ],
)
def test_a_time_that_a_question_names(question: str, inside: str, outside: str) -> None:
    spans = find_times(question, NOW)

    assert is_within(_noon(date.fromisoformat(inside)), spans)
    assert not is_within(_noon(date.fromisoformat(outside)), spans)


@pytest.mark.parametrize(
    "question",
    [
        "How many days ago did I attend the class?",
        "May I ask what the march was about?",
        "It may 3 times fail",
        "on 31 February",
        "in March 2030",
        "",
    ],
)
def test_a_question_without_a_time_names_none(question: str) -> None:
    assert find_times(question, NOW) == []


WORDS = (
    *("in", "of", "on", "last", "this", "ago", "May", "Feb", "Monday", "yesterday", "week", "year"),
    *("two", "years", "31", "0", "999", "1900", "3rd", "2026-02-31", ","),
)


@given(
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=80),
    st.floats(allow_nan=True, allow_infinity=True) | st.floats(-1e11, 3e11),
)
def test_any_text_and_any_moment_are_answered(question: str, now: float) -> None:
    """No text and no clock makes a search fail; a span has a length and begins before now."""
    for start, end in find_times(question, now):
        assert start < end
        assert start <= now


@given(st.dates(date(1971, 1, 1), date(2099, 12, 31)), st.integers(1, 330))
def test_a_day_is_found_by_its_date_for_eleven_months(day: date, later: int) -> None:
    """Later the month may be that of this year."""
    now = _noon(day + timedelta(days=later))
    written = [day.isoformat(), f"on {day.day} {day:%B}", f"on {day:%B} {day.day}", f"in {day:%B}"]

    for question in written:
        assert is_within(_noon(day), find_times(question, now)), question


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What did I buy before the trip to Rome?", ("before", "the trip to Rome")),
        ("Who wrote to me since my wedding, and why?", ("since", "my wedding")),
        ("after I moved to Porto what did I sell", ("after", "I moved to Porto")),
        ("How was the food during the conference?", ("during", "the conference")),
        ("What did I plan before May 2026?", None),
        ("Did it rain the day before yesterday?", None),
        ("What did I ask you?", None),
        ("before", None),
        ("", None),
    ],
)
def test_an_event_that_a_question_counts_from(
    question: str, expected: tuple[str, str] | None
) -> None:
    assert find_event(question, NOW) == expected


@given(
    st.sampled_from(["before", "until", "after", "since", "during"]),
    st.lists(st.floats(-1e11, 1e11), min_size=1, max_size=5),
)
def test_the_time_of_an_event_holds_each_telling_of_it(
    relation: str, mentions: list[float]
) -> None:
    """For all relations and times: an event that was told of is never outside its own span."""
    span = span_of(NamedEvent(relation, "the trip"), mentions)

    assert all(is_within(ts, [span]) for ts in mentions)
    assert is_within(min(mentions) - 1e7, [span]) == (relation in ("before", "until"))
    assert is_within(max(mentions) + 1e7, [span]) == (relation in ("after", "since"))


@pytest.mark.parametrize(
    ("question", "inside", "outside"),
    [
        ("What did we discuss on 2026-06-03?", ["2026-06-03"], ["2026-06-01", "2026-06-05"]),
        ("Wo waren wir am 3.6.2026?", ["2026-06-03"], ["2026-06-05", "2026-03-06"]),
        ("2026年6月3日に何を話した", ["2026-06-03"], ["2026-06-05"]),
        ("2026년 6월 3일에 무엇을", ["2026-06-03"], ["2026-06-05"]),
        ("le 25/06/2026", ["2026-06-25"], ["2026-06-27"]),
        ("on 06/25/2026", ["2026-06-25"], ["2026-06-27"]),
        ("on June 3rd", ["2026-06-03"], ["2026-06-05"]),
        ("3.6.2026 bis 7.6.2026", ["2026-06-03", "2026-06-05", "2026-06-07"], ["2026-06-09"]),
        ("2026-06-03/2026-06-07", ["2026-06-05"], ["2026-06-01"]),
        (
            "What is new on 2026-06-07 beside what we said on 2026-06-03?",
            ["2026-06-03", "2026-06-07"],
            ["2026-06-05"],
        ),
    ],
)
def test_a_whole_date_that_a_question_names(
    question: str, inside: list[str], outside: list[str]
) -> None:
    """In numbers in any language. Two with little between them are the ends of a range."""
    spans = find_days(question, NOW)

    assert all(is_within(_noon(date.fromisoformat(day)), spans) for day in inside)
    assert not any(is_within(_noon(date.fromisoformat(day)), spans) for day in outside)


@pytest.mark.parametrize(
    "question",
    [
        "What did I plan in May?",
        "Who called last week?",
        "on 03/06/2026",  # of March, or of June
        "version 1.2.2026.4",
        "on 2026-13-01 or 2026-02-31",
        "The log says 2026-06-03. " + "And so on. " * 40,
    ],
)
def test_no_whole_date(question: str) -> None:
    assert find_days(question, NOW) == []
