"""Budgets: the sums add up, no limit is overrun by more than a call, days begin in their zone."""

from __future__ import annotations

import tomllib
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.models.prices import Price
from holdfast.core.models.replies import Reply
from holdfast.core.models.usage import Usage
from holdfast.core.spending.amounts import (
    Amount,
    amount_of,
    input_bound,
    largest_amount,
    usage_so_far,
    usages_of,
)
from holdfast.core.spending.budgets import (
    SPANS,
    Account,
    Budgets,
    Payer,
    SpendingLimits,
    Sums,
    accounts_at,
    admit,
    end_of,
    find_crossed,
    period_at,
    read_budgets,
    uses_of,
)
from holdfast.errors import BadSetting, BudgetSpent

ZONES = st.sampled_from(("UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Asia/Kabul"))
MOMENTS = st.floats(1.5e9, 2.2e9)
PRICE = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75, cache_write_hour=6.0)
NOW = 1_795_000_000.0
DAY = Account("owner", "ann", period_at("day", NOW, "UTC"))


@examples(200)
@given(MOMENTS, ZONES)
def test_a_period_ends_where_the_next_begins(now: float, zone: str) -> None:
    """In every zone, also on days on which clocks are changed."""
    for span in SPANS:
        end = end_of(span, now, zone)
        assert end > now
        assert period_at(span, end, zone) != period_at(span, now, zone)
        assert period_at(span, end - 0.001, zone) == period_at(span, now, zone)
        local = datetime.fromtimestamp(end, ZoneInfo(zone))
        assert (local.hour, local.minute, local.second) == (0, 0, 0)


COUNTS = st.integers(0, 100_000)


@examples(200)
@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_the_bound_of_a_call_is_never_less_than_what_it_took(
    plain: int, read: int, written: int, output: int
) -> None:
    """Whatever part of the input was cached, for however long, and as long as the reply can be."""
    prompt = plain + read + written
    usage = Usage(prompt, read, written, written // 2, output)
    taken, bound = amount_of([usage], PRICE), largest_amount(prompt, output, PRICE)
    assert taken.tokens == bound.tokens == prompt + output
    assert taken.nanodollars <= bound.nanodollars + 1


@examples(100)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.booleans()), max_size=40),
    st.integers(0, 300),
)
def test_a_limit_is_overrun_by_one_call_at_most(
    calls: list[tuple[int, int, bool]], limit: int
) -> None:
    """However many calls run at once: what is held counts until it is settled."""
    budgets = Budgets(owners={"*": SpendingLimits(day_tokens=limit)})
    sums, running, largest = Sums(), [], 0
    for taken, spare, ends in calls:
        try:
            admit(budgets, {DAY: sums}, NOW)
        except BudgetSpent as error:
            assert sums.tokens + sums.held_tokens >= limit
            assert error.is_held == (sums.tokens < limit)  # noqa: PT017
        else:
            held = taken + spare
            sums = sums._replace(requests=sums.requests + 1, held_tokens=sums.held_tokens + held)
            running.append((taken, held))
            largest = max(largest, held)
        while running and ends:
            taken, held = running.pop()
            sums = sums._replace(tokens=sums.tokens + taken, held_tokens=sums.held_tokens - held)
    assert sums.tokens + sums.held_tokens <= max(0, limit - 1) + largest


@examples(100)
@given(st.lists(st.integers(0, 40), max_size=20), st.integers(0, 200))
def test_a_warning_is_given_once(taken: list[int], limit: int) -> None:
    """By the addition that takes a budget to four fifths, and by no other."""
    budgets = Budgets(owners={"*": SpendingLimits(day_tokens=limit)})
    sums, told = Sums(), 0
    for tokens in taken:
        sums = sums._replace(tokens=sums.tokens + tokens)
        told += len(find_crossed(budgets, {DAY: sums}, Amount(tokens), 0, NOW))
    assert told == (limit > 0 and sums.tokens >= 0.8 * limit)


def test_every_payer_has_its_own_budget_or_that_of_all_others() -> None:
    budgets = Budgets(
        owners={"ann": SpendingLimits(day_requests=3), "*": SpendingLimits(day_requests=1)},
        tokens={"laptop": SpendingLimits(month_dollars=2.0)},
    )
    payers = [Payer("owner", "ann"), Payer("owner", "bob"), Payer("token", "laptop")]
    accounts = accounts_at([*payers, Payer("agent", "main")], NOW, "UTC")
    uses = list(uses_of(budgets, dict.fromkeys(accounts, Sums(1)), NOW))
    assert [(use.name, use.unit, use.limit, use.is_spent) for use in uses] == [
        ("ann", "requests", 3.0, False),
        ("bob", "requests", 1.0, True),
        ("laptop", "dollars", 2.0, False),
    ]


def test_a_refusal_says_what_is_spent_and_when_it_begins_again() -> None:
    budgets = Budgets(owners={"ann": SpendingLimits(day_dollars=0.5)})
    with pytest.raises(BudgetSpent) as caught:
        admit(budgets, {DAY: Sums(1, 0, 500_000_000)}, NOW)
    assert str(caught.value) == "the budget is spent: $0.5 of $0.5 per day of owner `ann`"
    assert caught.value.resets == end_of("day", NOW, "UTC")
    assert caught.value.retry_seconds == caught.value.resets - NOW
    assert not caught.value.is_held


def test_a_wrong_budget_is_refused_with_its_file_key_and_reason() -> None:
    for text, place, reason in (
        ("[budgets.owners.ann]\nday_dollars = -1", "budgets.owners.ann", "0 or more"),
        ("[budgets.owners.ann]\nday_dolars = 1", "budgets.owners.ann", "day_dolars"),
        ("[budgets.tokens.t]\nday_tokens = 1.5", "budgets.tokens.t", "int"),
        ("[budgets.agents.a]\nday_dollars = nan", "budgets.agents.a", "0 or more"),
        ("[budgets.agents.a]\nday_dollars = inf", "budgets.agents.a", "0 or more"),
        ("[budgets]\nowners = 3", "budgets.owners", "not a table"),
        ("[budgets]\nzone = 'Mars/Olympus'", "budgets.zone", "Mars/Olympus"),
        ("[budgets]\nunpriced = 'maybe'", "budgets", "maybe"),
        ("[budgets]\nusers = {}", "budgets", "users"),
        ("budgets = 3", "budgets", "not a table"),
    ):
        with pytest.raises(BadSetting) as caught:
            read_budgets(tomllib.loads(text)["budgets"], "`holdfast.toml`")
        assert f"`holdfast.toml`: {place}: " in str(caught.value), text
        assert reason in str(caught.value), text


def test_what_nobody_stated_is_estimated_or_bounded() -> None:
    """A whole reply without a usage is estimated; one that broke off counts at its longest."""
    reply = Reply(content=[{"type": "text", "text": "word " * 600}])
    (usage,) = usages_of(reply, 50)
    assert usage.prompt == 50
    assert 600 <= (usage.output or 0) <= 1_200
    stated = Reply(content=[], raw_usage={"input_tokens": 7, "output_tokens": 2})
    assert amount_of(usages_of(stated, 50), None).tokens == 9
    assert usage_so_far(None, 50, 100).prompt == 50
    assert usage_so_far(None, 50, 100).output == 100
    assert usage_so_far(stated, 50, 100) == Usage(
        7, output=100, source=usages_of(stated, 0)[0].source
    )


@examples(60)
@given(st.text(max_size=3_000))
def test_the_size_of_a_request_is_hardly_underestimated(text: str) -> None:
    """A third of its bytes, in whatever place of the body the words are."""
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]}
    assert input_bound(body) >= len(text.encode("utf-8", "replace")) // 3
    picture = {"messages": [{"source": {"data": "A" * 2_000_000}}]}
    assert 1_600 <= input_bound(picture) <= 100_000
