"""The cache lifetime by the pauses of a log: never much dearer than the best fixed one."""

from __future__ import annotations

from itertools import pairwise, product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import check_all
from tests.support.runs import examples

from holdfast.core.log.records import Assistant, Json, Record, User
from holdfast.core.models.generation import traits_of
from holdfast.core.models.pace import (
    CacheOffer,
    Pace,
    PastCall,
    offer_of,
)
from holdfast.core.models.prices import (
    FIVE_MINUTES,
    LIFETIMES,
    NOT_CACHED,
    ONE_DAY,
    CacheLifetime,
    Price,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

OPUS = Price(4.0, 20.0, 0.2, 5.0, 8.0)
SOL = Price(2.0, 10.0, 0.2, 2.5)
CLAUDE = offer_of(traits_of("anthropic", "claude-opus-5-5"), OPUS)
GPT = offer_of(traits_of("openai", "gpt-6-sol"), SOL)
GPT_12H = offer_of(traits_of("openai", "gpt-6-sol"), SOL, is_simulated=True)
OLD_GPT = offer_of(traits_of("openai", "gpt-5"), None)


def choose_lifetime(
    calls: Iterable[PastCall], now: float, offer: CacheOffer
) -> CacheLifetime | None:
    """Return the lifetime of a call after others."""
    pace = Pace(offer)
    for call in calls:
        pace.add(call)
    return pace.choose(now)


def life(
    offer: CacheOffer, pauses: list[float], fixed: CacheLifetime | None = None
) -> tuple[float, list[str]]:
    """Play a session of four calls a turn; return what its input costs, and what it asked for."""
    pace = Pace(offer)
    kept: tuple[float, int, float] | None = None
    now, size, cost = 0.0, 16_000, 0.0
    asked: list[str] = []
    for pause, call in product(pauses, range(4)):
        now += pause if call == 0 else 20.0
        size += 1_500
        lifetime = fixed or pace.choose(now)
        assert lifetime is not None
        asked.append(lifetime.name)
        is_warm = kept is not None and now - kept[0] <= kept[2]
        old = kept[1] if kept is not None and is_warm else 0
        cost += old * offer.read + (size - old) * lifetime.write
        kept = (now, size, lifetime.seconds) if lifetime.seconds else None
        pace.add(PastCall(now, size))
    return cost, asked


PAUSES = (60, 120, 240, 290, 310, 600, 1_500, 1_900, 2_700, 3_500, 3_700, 5_400, 7_200)


@pytest.mark.parametrize("offer", [CLAUDE, GPT, GPT_12H, OLD_GPT])
def test_the_choice_is_near_the_best_fixed_lifetime(offer: CacheOffer) -> None:
    """At any steady pace: within five hundredths of what somebody who knew it would have paid."""

    def check(pause: float) -> None:
        pauses = [float(pause)] * 25
        cost, asked = life(offer, pauses)
        best = min(life(offer, pauses, fixed)[0] for fixed in offer.lifetimes)
        assert cost <= 1.05 * best, (cost / best, asked[::8])
        changes = sum(a != b for a, b in pairwise(asked))
        assert changes <= 1, asked

    check_all(PAUSES, check)


def test_the_pace_decides() -> None:
    """Five minutes for a person who is quick, an hour while he takes ten minutes, and back."""
    assert set(life(CLAUDE, [60.0] * 10)[1]) == {"5m"}
    assert life(CLAUDE, [600.0] * 3)[1][-1] == "1h"
    assert life(CLAUDE, [600.0] * 2 + [30.0] * 100)[1][-1] == "5m"
    assert set(life(OLD_GPT, [60.0] * 3)[1]) == {"24h"}


def test_the_first_call_asks_for_what_is_cheapest_to_write() -> None:
    """Of those that cost the same, the longest."""
    names = {"5m": CLAUDE, "30m": GPT, "24h": OLD_GPT}
    assert (GPT_12H.start, OLD_GPT.start) == (GPT.start, ONE_DAY)
    for name, offer in names.items():
        first = choose_lifetime((), 0.0, offer)
        assert first is not None
        assert first.name == name
    assert choose_lifetime((), 0.0, CacheOffer()) is None


def test_a_long_pause_now_and_then_is_weighed() -> None:
    """A lunch that would cost a rewrite of the whole view, between quick turns: the choice stays
    near the better one, and does not flip with each turn."""
    pauses = ([30.0] * 40 + [2_400.0]) * 3
    cost, asked = life(CLAUDE, pauses)
    assert cost <= 1.15 * min(life(CLAUDE, pauses, each)[0] for each in CLAUDE.lifetimes)
    assert sum(a != b for a, b in pairwise(asked)) <= 2 * 3


@pytest.mark.parametrize("offer", [CLAUDE, GPT])
def test_no_cache_loses_its_prefix_at_each_call(offer: CacheOffer) -> None:
    """Also where the times of a log are all the same: nothing is kept for no time at all."""
    calls = [PastCall(100.0, 20_000 + 1_000 * count) for count in range(30)]
    found = choose_lifetime(calls, 100.0, offer)
    assert found is not None
    assert found != NOT_CACHED


def test_the_first_long_pause_costs_one_rewrite_and_the_next_none() -> None:
    """Two loops of eight calls and a person who is away for ten minutes behind each: from the first
    pause on, what is written lives for an hour."""
    pauses = [20.0] * 2 + [600.0, 20.0] * 2
    cost, asked = life(CLAUDE, pauses)
    assert asked == ["5m"] * 8 + ["1h"] * 16
    hour = next(each for each in CLAUDE.lifetimes if each.name == "1h")
    rewrite = (16_000 + 8 * 1_500) * FIVE_MINUTES.write
    assert cost - life(CLAUDE, pauses, hour)[0] <= rewrite


def test_nothing_that_is_not_documented_is_asked_for() -> None:
    assert "12h" not in {each.name for each in GPT.lifetimes}
    assert "12h" in {each.name for each in GPT_12H.lifetimes}


def test_the_price_list_has_the_last_word() -> None:
    dear = offer_of(traits_of("anthropic", "claude-opus-5-5"), Price(1.0, 5.0, 0.5, 1.5, 3.0))
    assert [each.write for each in dear.lifetimes] == [1.0, 1.5, 3.0]
    assert dear.read == 0.5
    assert offer_of(traits_of("", "my-own"), None).lifetimes == ()


def test_a_request_lives_from_its_start() -> None:
    """The message before a reply was sent when the request was; the reply took a minute."""
    usage: Json = {"input_tokens": 900, "cache_read_input_tokens": 100}
    records: list[Record] = [
        User(content="Go.", id="1", ts=100.0),
        Assistant(content="Done.", id="2", ts=160.0, usage=usage, provider="anthropic"),
        Assistant(content="More.", id="3", ts=0.0),
    ]
    pace = Pace(CLAUDE)
    pace.read(records)
    assert pace.newest == PastCall(100.0, 1_000)


MADE = st.lists(st.tuples(st.floats(0, 4_000), st.integers(0, 100_000), st.booleans()), max_size=20)


@examples(60)
@given(MADE, st.data())
def test_a_log_that_grows_asks_for_what_it_would_if_read_anew(
    made: list[tuple[float, int, bool]], data: st.DataObject
) -> None:
    """Also after a rewind to any place, with other calls behind it, and with none."""
    path: list[Record] = []
    held = Pace(CLAUDE)
    for number, (wait, tokens, rewinds) in enumerate(made):
        ts = (path[-1].ts if path else 100.0) + wait
        if rewinds:
            path = path[: data.draw(st.integers(0, len(path)))]
        usage: Json = {"input_tokens": tokens}
        path = [
            *path,
            User(content="Go.", id=f"u{number}", ts=ts),
            Assistant(content="Done.", id=f"a{number}", ts=ts + 5, usage=usage),
        ]
        held.read(path)
        anew = Pace(CLAUDE)
        anew.read(path)
        assert (held.newest, held.asked) == (anew.newest, anew.asked)
        assert held.choose(ts + wait) == anew.choose(ts + wait)


SECONDS = st.floats(0, 10_000, allow_nan=False)


@examples(60)
@given(
    st.lists(st.tuples(SECONDS, st.integers(0, 200_000)), max_size=30),
    SECONDS,
    st.sampled_from([CLAUDE, GPT, GPT_12H, OLD_GPT]),
)
def test_any_log_gets_one_of_the_lifetimes_on_offer(
    steps: list[tuple[float, int]], pause: float, offer: CacheOffer
) -> None:
    """Also where clocks went back and no size is known; and the same log gets the same one."""
    now, calls = 0.0, []
    for wait, tokens in steps:
        now += wait
        calls.append(PastCall(now, tokens))
    found = choose_lifetime(calls, now + pause, offer)
    assert found in offer.lifetimes
    assert found == choose_lifetime(list(calls), now + pause, offer)
    assert choose_lifetime(calls[::-1], 0.0, offer) in offer.lifetimes


@examples(40)
@given(st.lists(st.floats(1, 7_200, allow_nan=False), min_size=30, max_size=40))
def test_a_disorderly_pace_is_cheaper_than_the_worst_choice(pauses: list[float]) -> None:
    cost = life(CLAUDE, pauses)[0]
    fixed = sorted(life(CLAUDE, pauses, each)[0] for each in CLAUDE.lifetimes)
    assert cost <= 1.35 * fixed[0]
    assert cost < fixed[-1]


def test_each_lifetime_has_its_name() -> None:
    assert all(name == each.name and each.is_documented for name, each in LIFETIMES.items())


@pytest.mark.parametrize("lifetime", [NOT_CACHED, FIVE_MINUTES, ONE_DAY])
def test_the_only_lifetime_on_offer_is_chosen(lifetime: CacheLifetime) -> None:
    """Also where that is none: a comparison with no cache would compare with another cache."""
    offer = CacheOffer((lifetime,))
    assert choose_lifetime([], 0.0, offer) is lifetime
    assert choose_lifetime([PastCall(0.0, 1_000)], 900.0, offer) is lifetime
    assert choose_lifetime([], 0.0, CacheOffer()) is None


@pytest.mark.parametrize("pause", [310.0, 600.0, 3_500.0])
def test_what_is_shortened_at_each_cold_moment_does_not_hold_the_short_lifetime(
    pause: float,
) -> None:
    """With five minutes the cache is cold after each pause, and old results are shortened then;
    with an hour nothing would have been. Charged for that, an hour never looked cheaper."""
    calls, now = [], 0.0
    for _turn in range(12):
        for tokens in (20_000, 22_000, 24_000, 26_000):
            calls.append(PastCall(now, tokens))
            now += 20
        now += pause
    found = choose_lifetime(calls, now, offer_of(traits_of("anthropic", "claude-sonnet-5-5"), None))
    assert found is not None
    assert found.name == "1h"
