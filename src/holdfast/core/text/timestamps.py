"""A moment as people and other programs write it, without asking a clock what time it is."""

from __future__ import annotations

from typing import Final

_DAY_SECONDS: Final = 86_400
_ERA_DAYS: Final = 146_097
"""The calendar repeats itself after four hundred years."""
_DAYS_TO_1970: Final = 719_468
"""From the first of March of the year 0, where leap days come last in a year."""
_LAST_SECOND: Final = 253_402_300_799
"""Of the year 9999: later moments are not written in four digits."""


def iso_utc(seconds: float) -> str:
    """`2026-11-16T02:20:00Z` for seconds since 1970; the nearest one for what is out of range."""
    whole = int(min(max(seconds, 0.0), _LAST_SECOND)) if seconds == seconds else 0
    days, second = divmod(whole, _DAY_SECONDS)
    year, month, day = _date(days)
    hour, minute = second // 3_600, second // 60 % 60
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second % 60:02}Z"


def _date(days: int) -> tuple[int, int, int]:
    """The date of a day, counted from the first of January 1970."""
    era, day_of_era = divmod(days + _DAYS_TO_1970, _ERA_DAYS)
    leap_days = day_of_era // 1_460 - day_of_era // 36_524 + day_of_era // 146_096
    year_of_era = (day_of_era - leap_days) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153  # March is 0
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day
