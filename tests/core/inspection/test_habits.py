"""Habits and lost caches: each has the price that its tokens had in the calls they stood in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.inspection.habits import (
    HABITS_MAX,
    BilledCall,
    CarriedResult,
    Habit,
    add_habits,
    find_breaks,
    find_habits,
    sum_breaks,
)
from holdfast.core.models.prices import Price, cost_of
from holdfast.core.models.usage import Usage

PRICE = Price(input=10.0, output=50.0, cache_read=1.0, cache_write=12.5, cache_write_hour=20.0)
COLD = 301.0


def call(at: int, *, read: int = 0, write: int = 0, plain: int = 0, ts: float = 0.0) -> BilledCall:
    usage = Usage(read + write + plain, read, write, output=10)
    return BilledCall(f"a{at}", ts or at * 10.0, "one", usage, PRICE, "")


def result(
    at: int, place: int, asked: str = "", text: str = "", *, tokens: int = 1_000, **more: bool
) -> CarriedResult:
    return CarriedResult(
        *(f"r{at}", "a.py", "read", asked or f"read {at}", tokens),
        *(more.get("failed", False), text, place),
    )


def cached(number: int, size: int = 50_000) -> list[BilledCall]:
    """Calls that each read what the one before them wrote."""
    return [call(0, write=size), *(call(at, read=size, write=100) for at in range(1, number))]


def test_a_pause_that_outlived_the_prefix_is_told_from_a_prefix_that_changed() -> None:
    lost = call(2, write=60_000, ts=10.0 + COLD)
    again = call(3, write=60_000, ts=20.0 + COLD)

    breaks = find_breaks([*cached(2), lost, again], epochs=())

    assert [(each.record, each.is_cold, each.tokens) for each in breaks] == [
        ("a2", True, 50_100),
        ("a3", False, 60_000),
    ]
    assert breaks[0].cost == pytest.approx(50_100 * (12.5 - 1.0) / 1e6)
    count, cost = sum_breaks(breaks)
    assert count == 2
    assert cost == pytest.approx(110_100 * 11.5 / 1e6)


def test_a_cut_is_no_lost_cache() -> None:
    calls = [*cached(2), call(2, write=20_000)]
    assert len(find_breaks(calls, epochs=())) == 1
    assert find_breaks(calls, epochs=(2,)) == ()


def test_a_prefix_for_an_hour_is_not_cold_after_six_minutes() -> None:
    hour = BilledCall("a0", 1.0, "one", Usage(50_000, 0, 50_000, 50_000), PRICE, "")
    later = call(1, write=50_000, ts=361.0)
    assert [each.is_cold for each in find_breaks([hour, later], ())] == [False]


def test_a_block_that_is_lost_at_the_end_is_none() -> None:
    assert find_breaks([call(0, write=50_000), call(1, read=47_000, write=4_000)], ()) == ()


def test_an_older_answer_costs_from_the_newer_one_to_the_cut() -> None:
    calls = cached(10)
    old, new = result(0, 1, "read a.py"), result(1, 4, "read a.py")

    (habit,) = find_habits(calls, [old, new], (8,), (), 0)

    assert (habit.kind, habit.name, habit.times, habit.record) == ("repeated", "a.py", 1, "r0")
    assert habit.tokens == 1_000 * (8 - 4)
    rate = (50_000 * 1.0 + 100 * 12.5) / 1e6 / 50_100
    assert habit.cost == pytest.approx(4_000 * rate)


def test_the_same_text_of_another_call_is_the_same_again() -> None:
    text = "no name in it\n" * 20
    (habit,) = find_habits(cached(6), [result(0, 1, text=text), result(1, 3, text=text)], (), (), 0)
    assert (habit.kind, habit.record, habit.tokens) == ("repeated", "r0", 3_000)


def test_a_result_is_unused_where_none_of_its_new_names_comes_again() -> None:
    calls = cached(4)
    used = calls[2]._replace(said="The fault is in parse_header.")
    calls[2] = used
    results = [
        result(0, 1, text="def parse_header(): pass"),
        result(1, 1, text="def write_footer(): pass"),
        result(2, 1, text="it is as it was, and there is no name in it"),  # nobody can say
        result(3, 1, text="def other_name(): pass", tokens=100),  # too short to matter
        result(4, 3, text="def parse_header(): pass"),  # nothing new
    ]

    (habit,) = find_habits(calls, results, (), (), 0)

    assert (habit.kind, habit.name, habit.record) == ("unused", "read", "r1")
    assert habit.tokens == 3_000


def test_the_head_is_in_every_call() -> None:
    (habit,) = find_habits(cached(4), [], (), (), 5_000)
    assert (habit.kind, habit.times, habit.tokens) == ("head", 4, 20_000)


def test_without_a_price_habits_have_their_tokens_alone() -> None:
    calls = [each._replace(price=None) for each in cached(4)]
    habits = find_habits(calls, [result(0, 1, failed=True)], (), find_breaks(calls, ()), 10)
    assert {habit.kind: habit.cost for habit in habits} == {"failed": None, "head": None}


def test_the_dearest_of_many_conversations_are_added_up() -> None:
    many = [Habit("failed", f"t{n % 20}", 1, 10, float(n), f"r{n}") for n in range(100)]
    dearest = add_habits(many)
    assert len(dearest) == HABITS_MAX
    assert dearest[0] == Habit("failed", "t19", 5, 50, sum(range(19, 100, 20)), "r99")


@given(
    st.lists(st.tuples(st.integers(0, 200_000), st.integers(1, 50_000)), min_size=1, max_size=20),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5_000), st.booleans()), max_size=20),
    st.sets(st.integers(1, 20), max_size=3),
)
def test_no_result_costs_more_than_the_input_it_stood_in(
    sizes: list[tuple[int, int]], given_results: list[tuple[int, int, bool]], cuts: set[int]
) -> None:
    """However a conversation went: a price is not negative, and all results together, where they
    fit into the requests, cost no more than the input of the calls."""
    calls = [call(at, read=read, write=write) for at, (read, write) in enumerate(sizes)]
    room = min(each.usage.prompt for each in calls if each.usage)
    results, left = [], room
    for at, (place, tokens, failed) in enumerate(sorted(given_results)):
        if tokens <= left:
            results.append(result(at, place, tokens=tokens, failed=failed))
            left -= tokens

    habits = find_habits(calls, results, sorted(cuts), (), 0)

    costs = [cost_of(Usage(u.prompt, u.cached_read, u.cached_write), PRICE) for u in _usages(calls)]
    assert all((habit.cost or 0.0) >= 0 and habit.tokens >= 0 for habit in habits)
    assert sum(habit.cost or 0.0 for habit in habits) <= sum(filter(None, costs)) + 1e-9


def _usages(calls: list[BilledCall]) -> list[Usage]:
    return [each.usage for each in calls if each.usage is not None]
