"""Times that a question names, resolved against a given `now`: "in May", "two weeks ago"; and
against what was said about an event: "before the trip".

Days are those of UTC, and each span is a day wider on either side, because neither the zone of the
asker nor the exact day is known. What is vague ("recently", "how many days ago") names no time.

Dates in numbers are read in any language; names of months, and the rest, in English. Without it, 1
point of recall@5 by session and 0.3 by message are lost on the tuning half of LongMemEval. A time
is a preference in the order of hits, and judges nothing that was said; a whole date, or a range of
two, comes first: `find_days`.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Span = tuple[float, float]
"""Seconds since 1970: the first moment, and the first one after."""

_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_WEEKDAYS: Final = (
    *("monday", "tuesday", "wednesday", "thursday"),
    *("friday", "saturday", "sunday"),
)
_NUMBERS: Final = (
    *("one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_COUNTS: Final = {
    "a": 1,
    "an": 1,
    "couple of": 2,
    "a couple of": 2,
    **{name: number for number, name in enumerate(_NUMBERS, 1)},
}
_UNIT_DAYS: Final = {"day": 1, "week": 7, "month": 30, "year": 365}
_SPREAD_DAYS: Final = {"day": 0, "week": 2, "month": 10, "year": 60}
"""Days by which "three weeks ago" may be wrong on either side."""
_MARGIN: Final = timedelta(days=1)
_ANY_ZONE: Final = timedelta(hours=14), timedelta(hours=12)
"""By which a day begins earlier, and ends later, somewhere on earth than in UTC."""
_ASKED_CHARS: Final = 300
"""A longer text tells of dates rather than asks for them."""
_BETWEEN_CHARS: Final = 12
"""Two dates that so little stands between are the ends of a range: "3.6.2026 bis 5.6.2026"."""
_SPANS_MAX: Final = 8
"""Times taken from one question; a text with more is not a question about a time."""

_MONTH: Final = (
    rf"(?P<month>(?i:{'|'.join(_MONTHS)})|(?i:jan|feb|apr|jun|jul|aug|sept?|oct|nov|dec))"
)
_DAY: Final = r"(?P<day>[0-3]?[0-9])(?:st|nd|rd|th)?"
_YEAR: Final = r"(?P<year>(?:19|20)[0-9]{2})"
_YEAR_FIRST: Final = lazy_pattern(
    rf"(?<![0-9]){_YEAR}(?:[-/.]|[年년] ?)(?P<month>[01]?[0-9])(?:[-/.]|[月월] ?)"
    r"(?P<day>[0-3]?[0-9])(?![0-9])"
)
_YEAR_LAST: Final = lazy_pattern(
    r"(?<![0-9.])(?P<day>[0-3]?[0-9])(?P<mark>\. ?|/)(?P<month>[0-3]?[0-9])(?P=mark)"
    rf"{_YEAR}(?!\.?[0-9])"
)
"""With points the day is first. With strokes only where one number can be no month."""
_NO_VERB: Final = r"(?!may\b|march\b)"
"""In small letters, and without a word before them, these are verbs: "it may 3 times fail"."""
_MONTH_DAY: Final = lazy_pattern(rf"\b{_NO_VERB}{_MONTH}\.? {_DAY}\b(?:,? {_YEAR}\b)?")
_DAY_MONTH: Final = lazy_pattern(rf"\b{_DAY} (?:of )?{_NO_VERB}{_MONTH}\b(?:,? {_YEAR}\b)?")
_WHOLE_MONTH: Final = lazy_pattern(
    rf"\b(?i:in|of|since|during|until|last|this|early|mid|late|from|to)[ -]{_MONTH}\b"
    rf"(?! [0-3]?[0-9](?:st|nd|rd|th)?\b)(?:,? {_YEAR}\b)?"
)
"""A month without a day needs a word before it."""
_WHOLE_YEAR: Final = lazy_pattern(rf"\b(?i:in|during|since|of) {_YEAR}\b")
_AGO: Final = lazy_pattern(
    rf"\b(?P<count>[0-9]{{1,3}}|{'|'.join(sorted(_COUNTS, key=len, reverse=True))}) "
    r"(?P<unit>day|week|month|year)s? ago\b",
    re.IGNORECASE,
)
_LAST_UNIT: Final = lazy_pattern(
    r"\b(?P<which>last|past|previous|this) (?P<unit>week|month|year)\b", re.IGNORECASE
)
_WEEKDAY: Final = lazy_pattern(
    rf"\b(?:last|on|this past|past) (?P<weekday>{'|'.join(_WEEKDAYS)})\b", re.IGNORECASE
)
_YESTERDAY: Final = lazy_pattern(
    r"\b(?P<days>the day before yesterday|yesterday|last night)\b", re.IGNORECASE
)

_EVENT: Final = lazy_pattern(
    r"\b(?P<relation>before|until|after|since|during) "
    r"(?P<event>(?:(?!(?:when|and|but|or|did|do|does|was|were|is|are|how|what|who|where)\b)"
    r"[\w'’-]+ ?){1,8})",
    re.IGNORECASE,
)
_EVENT_MARGIN_SECONDS: Final = 3 * 86_400.0
"""People speak of an event on the days around it."""


class NamedEvent(NamedTuple):
    """An event that a question counts time from."""

    relation: str
    """before, until, after, since or during."""
    words: str


def find_event(question: str, now: float) -> NamedEvent | None:
    """The first event that a question counts time from, unless a calendar tells its time."""
    for found in _EVENT.finditer(question):
        if not find_times(f"{found[0]} in {found['event']}", now):
            return NamedEvent(found["relation"].lower(), found["event"].strip())
    return None


def span_of(event: NamedEvent, mentions: Sequence[float]) -> Span:
    """The time that lies before, after or around an event that was spoken of at these times."""
    first = min(mentions) - _EVENT_MARGIN_SECONDS
    last = max(mentions) + _EVENT_MARGIN_SECONDS
    if event.relation in ("before", "until"):
        return -math.inf, last
    return (first, last) if event.relation == "during" else (first, math.inf)


def find_times(question: str, now: float) -> list[Span]:
    """The spans of time that a question names, none of them after `now`."""
    try:
        today = datetime.fromtimestamp(now, UTC).date()
        found = [_as_span(first, last) for first, last in _days(question, today)]
    except (ValueError, OverflowError, OSError):
        return []  # a time at the edge of the calendar
    spans = list(dict.fromkeys(span for span in found if span[0] <= now))
    return spans if len(spans) <= _SPANS_MAX else []


def find_days(question: str, now: float) -> list[Span]:
    """The whole dates, and ranges of two, that a short question asks for, in any zone."""
    if len(question) > _ASKED_CHARS:
        return []
    try:
        today = datetime.fromtimestamp(now, UTC).date()
        found = {
            match.start(): (match.end(), days[0])
            for pattern, resolve in _DATE_READERS
            for match in pattern.finditer(question)
            if (days := resolve(match.groupdict(), today)) is not None
        }
        ranges: list[tuple[date, date]] = []
        past = len(question)
        for start, (end, day) in sorted(found.items()):
            if ranges and 0 <= start - past <= _BETWEEN_CHARS and ranges[-1][0] < day:
                ranges[-1] = ranges[-1][0], day
            else:
                ranges.append((day, day))
            past = end
        spans = [_days_in_any_zone(first, last) for first, last in ranges]
    except (ValueError, OverflowError, OSError):
        return []  # a time at the edge of the calendar
    return spans if len(spans) <= _SPANS_MAX else []


def _days_in_any_zone(first: date, last: date) -> Span:
    earlier, later = _ANY_ZONE
    start = datetime(first.year, first.month, first.day, tzinfo=UTC) - earlier
    end = datetime(last.year, last.month, last.day, tzinfo=UTC) + timedelta(days=1) + later
    return start.timestamp(), end.timestamp()


def is_within(ts: float | None, spans: Sequence[Span]) -> bool:
    """Return whether a time lies in one of the spans."""
    return ts is not None and any(start <= ts < end for start, end in spans)


def _as_span(first: date, last: date) -> Span:
    start = datetime(first.year, first.month, first.day, tzinfo=UTC) - _MARGIN
    end = datetime(last.year, last.month, last.day, tzinfo=UTC) + 2 * _MARGIN
    return start.timestamp(), end.timestamp()


def _days(question: str, today: date) -> Iterator[tuple[date, date]]:
    """The first and the last day of each time."""
    for pattern, resolve in _READERS:
        for match in pattern.finditer(question):
            days = resolve(match.groupdict(), today)
            if days is not None:
                yield days


def _exact_day(named: dict[str, str], today: date) -> tuple[date, date] | None:
    month = _month_number(named["month"])
    year = int(named["year"]) if named.get("year") else today.year
    day = _date_or_none(year, month, int(named["day"]))
    if day is not None and day > today and not named.get("year"):
        day = _date_or_none(year - 1, month, int(named["day"]))
    return None if day is None else (day, day)


def _day_or_month_first(named: dict[str, str], today: date) -> tuple[date, date] | None:
    """With strokes, nothing where both numbers could be the month, and differ."""
    if named["mark"] == "/" and named["day"] != named["month"]:
        first, second = int(named["day"]), int(named["month"])
        if first <= 12 and second <= 12:
            return None
        if second > 12:
            named = {**named, "day": named["month"], "month": named["day"]}
    return _exact_day(named, today)


def _whole_month(named: dict[str, str], today: date) -> tuple[date, date] | None:
    month = _month_number(named["month"])
    year = int(named["year"]) if named.get("year") else today.year - (month > today.month)
    return _month_of(date(year, month, 1))


def _whole_year(named: dict[str, str], _today: date) -> tuple[date, date]:
    return date(int(named["year"]), 1, 1), date(int(named["year"]), 12, 31)


def _ago(named: dict[str, str], today: date) -> tuple[date, date]:
    said, unit = named["count"].lower(), named["unit"].lower()
    count = _COUNTS[said] if said in _COUNTS else int(said)
    day = today - timedelta(days=count * _UNIT_DAYS[unit])
    spread = timedelta(days=_SPREAD_DAYS[unit])
    return day - spread, day + spread


def _unit_before(named: dict[str, str], today: date) -> tuple[date, date]:
    """ "Last week" and "last month" are also what was in the days before today."""
    unit, is_this = named["unit"].lower(), named["which"].lower() == "this"
    if is_this:
        begins = {
            "week": today - timedelta(days=today.weekday()),
            "month": today.replace(day=1),
            "year": today.replace(month=1, day=1),
        }
        return begins[unit], today
    if unit == "week":
        return today - timedelta(days=today.weekday() + 7), today
    if unit == "month":
        return _month_of(today.replace(day=1) - timedelta(days=1))[0], today
    return date(today.year - 1, 1, 1), date(today.year - 1, 12, 31)


def _weekday(named: dict[str, str], today: date) -> tuple[date, date]:
    back = (today.weekday() - _WEEKDAYS.index(named["weekday"].lower()) - 1) % 7 + 1
    day = today - timedelta(days=back)
    return day, day


def _yesterday(named: dict[str, str], today: date) -> tuple[date, date]:
    back = 2 if named["days"].lower().startswith("the") else 1
    return today - timedelta(days=back), today - timedelta(days=back)


def _month_of(first: date) -> tuple[date, date]:
    following = (first.replace(day=1) + timedelta(days=32)).replace(day=1)
    return first.replace(day=1), following - timedelta(days=1)


def _month_number(name: str) -> int:
    if name.isdigit():
        return int(name)
    return next(n for n, month in enumerate(_MONTHS, 1) if month.startswith(name.lower()[:3]))


def _date_or_none(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


_Reader = tuple["re.Pattern[str]", "Callable[..., tuple[date, date] | None]"]
_DATE_READERS: Final[tuple[_Reader, ...]] = (
    (_YEAR_FIRST, _exact_day),
    (_YEAR_LAST, _day_or_month_first),
    (_MONTH_DAY, _exact_day),
    (_DAY_MONTH, _exact_day),
)
_READERS: Final[tuple[_Reader, ...]] = (
    *_DATE_READERS,
    (_WHOLE_MONTH, _whole_month),
    (_WHOLE_YEAR, _whole_year),
    (_AGO, _ago),
    (_LAST_UNIT, _unit_before),
    (_WEEKDAY, _weekday),
    (_YESTERDAY, _yesterday),
)
