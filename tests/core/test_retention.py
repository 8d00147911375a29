"""The sessions that a rule lets go: no others, and of each owner the newest stay."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.retention import DAY_SECONDS, Retention, RetentionRule, due_sessions
from holdfast.core.text.typed import convert_typed

NOW = 1_800_000_000.0


class Log(NamedTuple):
    """A session of an owner."""

    owner: str
    last_active: float
    bytes: int


LOGS = st.lists(
    st.builds(
        Log,
        st.sampled_from("ab"),
        st.integers(0, 40).map(lambda days: NOW - days * DAY_SECONDS),
        st.integers(0, 100),
    ),
    max_size=12,
)


@examples(200)
@given(
    logs=LOGS,
    days=st.none() | st.integers(1, 40).map(float),
    room=st.none() | st.integers(0, 300),
)
def test_what_stays_fits_the_rule_and_what_goes_does_not(
    logs: list[Log], days: float | None, room: int | None
) -> None:
    """What stays is young and has room with all newer ones of its owner; what goes says why."""
    logs.sort(key=lambda log: -log.last_active)
    due = list(due_sessions(logs, RetentionRule(days=days, bytes=room), NOW))
    gone = [id(each.session) for each in due]
    newer = {"a": 0, "b": 0}
    for log in logs:
        newer[log.owner] += log.bytes
        is_old = days is not None and NOW - log.last_active > days * DAY_SECONDS
        is_over = room is not None and newer[log.owner] > room
        assert (id(log) in gone) == (is_old or is_over)
        whys = [each.why for each in due if each.session is log]
        assert whys == (["age"] if is_old else ["size"] if is_over else [])


@pytest.mark.parametrize(
    "table", [{"days": 0}, {"days": -1.0}, {"bytes": -1}, {"trash_days": 0}, {"day": 1}]
)
def test_a_rule_that_means_nothing_is_refused(table: dict[str, float]) -> None:
    with pytest.raises(msgspec.ValidationError):
        convert_typed(table, Retention)
    with pytest.raises(msgspec.ValidationError):
        convert_typed({"owners": {"ann": table}}, Retention)
