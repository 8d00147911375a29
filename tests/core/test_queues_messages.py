"""Ids of messages: later in their lane, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.queues import ID_STEP_MAX, message_id

MOMENTS = st.floats(0, 4e9)


@given(MOMENTS, st.integers(0, 2**52), st.integers(1, ID_STEP_MAX))
@examples(200)
def test_an_id_is_the_time_and_grows_in_its_lane(now: float, last: int, step: int) -> None:
    """It is the time where the clock goes on, and later than the last one where it does not; a
    browser reads it exactly."""
    found = message_id(now, last, step)
    assert found > last
    assert found in (int(now * 1e6), last + step)
    assert found == int(now * 1e6) or int(now * 1e6) <= last
    assert found < 2**53
