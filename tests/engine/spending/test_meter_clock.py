"""Budgets under a clock that is set forward and back: each call stays where it was counted."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.models.replies import Reply
from holdfast.core.owners import NamedOwner
from holdfast.core.spending.amounts import Amount
from holdfast.core.spending.budgets import (
    SPANS,
    Account,
    Budgets,
    SpendingLimits,
    end_of,
    period_at,
)
from holdfast.engine.spending.meter import CallMeter, MeteredCall, Spender
from holdfast.errors import BudgetSpent
from holdfast.providers.models import async_model
from holdfast.stores.spending import SqliteSpending, month_of

pytestmark = pytest.mark.files_only("its ledger is in memory")
NOON = 1_795_003_200.0
"""In November 2026."""
HOUR, DAY = 3_600.0, 86_400.0
ANN = Spender(NamedOwner("ann"), "main", "main/s")
MODEL: Any = async_model("anthropic:claude-opus-4-8@http://127.0.0.1:9")
REQUEST: Any = {"model": "claude-opus-4-8", "max_tokens": 50, "messages": []}
MOVES = st.sampled_from(
    [
        sign * by
        for by in (1.0, HOUR, 5 * HOUR, DAY, 3 * DAY, 40 * DAY, 400 * DAY)
        for sign in (1, -1)
    ]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), MOVES),
        st.tuples(st.just("wait"), st.sampled_from([HOUR, DAY, 30 * DAY, 200 * DAY])),
        st.tuples(
            st.sampled_from(["ask", "ask", "answer", "repeat", "break", "tend"]), st.just(0.0)
        ),
    ),
    max_size=40,
)


def reply(tokens: int) -> Reply:
    return Reply(content=[], raw_usage={"input_tokens": tokens, "output_tokens": 0})


def accounts_of(now: float, zone: str) -> list[Account]:
    return [Account("owner", "ann", period_at(span, now, zone)) for span in SPANS]


@examples(150)
@given(STEPS, st.integers(1, 4), st.sampled_from(["UTC", "Europe/Berlin", "Pacific/Apia"]))
def test_a_clock_that_is_set_counts_nothing_twice(
    steps: list[tuple[str, float]], limit: int, zone: str
) -> None:
    """A day and a month hold the calls that began in them, each once, however the clock is set in
    between; no sum is below zero; a period that came back is as full as it was."""
    now, passed = NOON, 0.0
    budgets = Budgets(zone=zone, owners={"*": SpendingLimits(day_requests=limit)})
    wanted: dict[Account, list[int]] = {}  # requests, and tokens that are settled
    running: list[tuple[MeteredCall, list[Account]]] = []
    ended: list[tuple[MeteredCall, int]] = []
    with closing(SqliteSpending(None)) as ledger:
        meter = CallMeter(ledger, budgets, clock=lambda: now, steady=lambda: passed)
        for number, (step, by) in enumerate(steps):
            if step in ("set", "wait"):
                now += by
                passed += by if step == "wait" else 0
            elif step == "ask":
                day, month = accounts_of(now, zone)
                is_full = wanted.get(day, [0])[0] >= limit
                try:
                    call = meter.open(ANN, MODEL.target, REQUEST)
                except BudgetSpent as error:
                    assert is_full
                    assert error.resets == end_of("day", now, zone) > now  # noqa: PT017
                else:
                    assert not is_full
                    running.append((call, [day, month]))
                    for account in (day, month):
                        wanted.setdefault(account, [0, 0])[0] += 1
            elif step in ("answer", "break") and running:
                call, accounts = running.pop(number % len(running))
                tokens = number if step == "answer" else call.prompt + call.output
                call.settle(reply(tokens)) if step == "answer" else call.break_off()
                ended.append((call, tokens))
                for account in accounts:
                    wanted[account][1] += tokens
            elif step == "repeat" and ended:  # its settlement is stored again
                call, tokens = ended[number % len(ended)]
                assert call.held is not None
                assert ledger.settle(call.held, Amount(tokens)) is None
            elif step == "tend":
                meter.tend()
                forget(min(now, NOON + passed), wanted, running, ended)
            check_sums(ledger, wanted, running)
        for call, accounts in running:
            call.settle(reply(7))
            for account in accounts:
                wanted[account][1] += 7
        check_sums(ledger, wanted, [])


def forget(
    now: float,
    wanted: dict[Account, list[int]],
    running: list[tuple[MeteredCall, list[Account]]],
    ended: list[tuple[MeteredCall, int]],
) -> None:
    """Leave out what is over for 100 days by both clocks, and repeats after two days."""
    old = [pair for pair in running if began_at(pair[0]) < now - 100 * DAY]
    late = {account for _call, accounts in old for account in accounts}
    month = month_of(now - 100 * DAY)
    for account in [each for each in wanted if each in late or each.period[:7] < month]:
        del wanted[account]
    running[:] = [pair for pair in running if pair not in old]
    ended[:] = [pair for pair in ended if began_at(pair[0]) >= now - 2 * DAY]


def began_at(call: MeteredCall) -> float:
    assert call.held is not None
    return call.held.at


def check_sums(
    ledger: SqliteSpending,
    wanted: dict[Account, list[int]],
    running: list[tuple[MeteredCall, list[Account]]],
) -> None:
    """What is settled is exact; what runs is held, or counts at its most until it ends."""
    for account, sums in ledger.sums(list(wanted)).items():
        open_calls = [call for call, accounts in running if account in accounts]
        most = sum(call.prompt + call.output for call in open_calls)
        assert min(sums) >= 0
        assert sums.requests == wanted[account][0]
        assert sums.tokens + sums.held_tokens == wanted[account][1] + most
