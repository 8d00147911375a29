"""A session is reset after a pause, or with the first message of a day."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.queues import reset_reason

HOUR = 3_600
DAY = 24 * HOUR
times = st.integers(0, 40 * DAY)


@examples(200)
@given(times, times, st.sampled_from([0, 60, HOUR, 3 * DAY]), st.none() | st.integers(0, 23))
@example(3 * HOUR, 5 * HOUR, 0, 4)
@example(4 * HOUR, 5 * HOUR, 0, 4)
@example(5 * HOUR, DAY + 3 * HOUR, 0, 4)
@example(5 * HOUR, DAY + 4 * HOUR, 0, 4)
@example(10, 10, 60, None)
@example(10, 70, 60, 4)
@example(11, 10, 60, 0)
def test_a_reset_has_its_reason(last: int, now: int, idle: int, hour: int | None) -> None:
    """The pause is long enough, or the hour of a day lies between the two messages."""
    is_idle = bool(idle) and last <= now - idle
    starts = range(hour * HOUR, 41 * DAY, DAY) if hour is not None else ()
    is_daily = any(last < start <= now for start in starts)
    wanted = "idle" if is_idle else "daily" if is_daily else ""
    assert reset_reason(last, now, idle_seconds=idle, daily_hour=hour) == wanted
