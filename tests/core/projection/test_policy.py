"""When to begin an epoch: seldom, at a full view or for results of no more use, and never deep."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import holdfast
from holdfast.core.projection.policy import (
    POLICIES,
    Decision,
    Policy,
    PromptCache,
    StepSize,
    choose,
    policy_of,
)
from holdfast.errors import BadSetting

WARM = PromptCache(idle_seconds=20.0)
COLD = PromptCache(idle_seconds=301.0)
UNCACHED = PromptCache(read=1.0, write=1.0)
POLICY = Policy()
BUDGET = 40_000
ENOUGH = int(0.4 * BUDGET)
CACHES = (WARM, COLD, PromptCache(), UNCACHED)
EVERY_POLICY = tuple(POLICIES.values())


def steps_of(count: int, tokens: int = 1_000, frees: int = 500) -> list[StepSize]:
    """A run of like steps; the older, the quieter."""
    return [
        StepSize(tokens, trim_frees=frees // 2, clear_frees=frees, quiet=count - 1 - index)
        for index in range(count)
    ]


def sizes() -> st.SearchStrategy[StepSize]:
    return st.integers(0, 9_000).flatmap(
        lambda tokens: st.builds(
            StepSize,
            st.just(tokens),
            trim_frees=st.integers(0, tokens // 2),
            clear_frees=st.integers(tokens // 2, tokens),
            quiet=st.integers(0, 90),
            is_superseded=st.booleans(),
        )
    )


def after(steps: list[StepSize], decision: Decision) -> list[StepSize]:
    """The view that a decision leads to; what was trimmed can still be cleared."""
    start = decision.cut_before or 0
    left = []
    for index, step in enumerate(steps[start:], start):
        if index in decision.clear:
            step = StepSize(step.tokens - step.clear_frees, quiet=step.quiet)
        elif index in decision.trim:
            rest = max(0, step.clear_frees - step.trim_frees)
            step = StepSize(step.tokens - step.trim_frees, 0, rest, step.quiet, step.is_superseded)
        left.append(step)
    return left


def total(steps: list[StepSize]) -> int:
    return sum(step.tokens for step in steps)


@given(
    st.lists(sizes(), max_size=60),
    st.integers(0, 60_000),
    st.integers(0, 4_000),
    st.sampled_from((WARM, PromptCache(), PromptCache(idle_seconds=1e9, ttl_seconds=None))),
    st.sampled_from(EVERY_POLICY),
)
@example(steps_of(34), BUDGET, 0, WARM, POLICY)
def test_a_warm_view_that_is_not_full_is_left_alone(
    steps: list[StepSize], budget: int, opening: int, cache: PromptCache, policy: Policy
) -> None:
    """A warm prefix, and the reasoning behind it, are worth more than what could be freed."""
    if opening + total(steps) <= policy.full_at(budget):
        kept = choose(steps, budget=budget, cache=cache, policy=policy, opening=opening)
        assert kept is None


@given(st.lists(sizes(), max_size=60), st.sampled_from(CACHES), st.integers(1, 120_000))
@example(steps_of(34), COLD, BUDGET)
def test_a_faithful_view_is_left_alone_until_it_is_full(
    steps: list[StepSize], cache: PromptCache, step_tokens: int
) -> None:
    """Neither a cold cache nor a step in the price begins an epoch."""
    priced = PromptCache(idle_seconds=cache.idle_seconds, step_tokens=step_tokens)
    policy = POLICIES["faithful"]
    for given_cache in (cache, priced):
        found = choose(steps, budget=BUDGET, cache=given_cache, policy=policy)
        assert found is None or total(steps) > policy.full_at(BUDGET)


@pytest.mark.parametrize("policy", EVERY_POLICY, ids=tuple(POLICIES))
def test_one_token_over_the_limit_is_full(policy: Policy) -> None:
    """The limit is where it says it is."""
    full = policy.full_at(BUDGET)
    below, above = ([StepSize(n // 2), StepSize(n - n // 2)] for n in (full, full + 1))
    assert choose(below, budget=BUDGET, cache=WARM, policy=policy) is None
    decision = choose(above, budget=BUDGET, cache=WARM, policy=policy)
    assert decision is not None
    assert decision.cut_before == 1
    assert f"the limit is {policy.compact:.0%}" in decision.reason


@given(st.lists(sizes(), min_size=1, max_size=60), st.sampled_from(CACHES))
def test_a_full_view_is_pruned_where_that_frees_enough(
    steps: list[StepSize], cache: PromptCache
) -> None:
    """Every word that was said stays as long as results can make the room."""
    most = sum(
        step.clear_frees
        for step in steps[: max(0, len(steps) - POLICY.protected_steps)]
        if step.is_superseded or step.quiet > POLICY.quiet_steps
    )
    decision = choose(steps, budget=BUDGET, cache=cache, policy=POLICY)
    size = total(steps)
    if size <= POLICY.full_at(BUDGET):
        return
    enough = max(ENOUGH, size - POLICY.flush_at(BUDGET))
    assert decision is not None or most < enough
    if most >= enough:
        assert decision is not None
        assert decision.cut_before is None
        assert decision.frees >= enough
        left = total(after(steps, decision))
        assert left <= POLICY.flush_at(BUDGET)
    elif decision is not None:
        assert decision.cut_before is not None
        assert decision.trim == decision.clear == ()


def test_a_full_view_is_pruned_of_all_that_is_quiet() -> None:
    """The prefix is written again in any case; the next epoch then begins later."""
    steps = steps_of(36, frees=900)
    decision = choose(steps, budget=BUDGET, cache=WARM, policy=POLICY)
    assert decision is not None
    quiet = [index for index, step in enumerate(steps) if step.quiet > POLICY.quiet_steps]
    assert sorted((*decision.trim, *decision.clear)) == quiet
    assert decision.frees > ENOUGH + 900


def test_what_was_trimmed_is_cleared_where_the_room_demands_it() -> None:
    """Rather than to cut: every word stays. No more is cleared than makes the room."""
    steps = [StepSize(1_000, 100, 950, quiet=POLICY.quiet_steps + 1) for _ in range(36)]
    decision = choose(steps, budget=BUDGET, cache=WARM, policy=POLICY)
    assert decision is not None
    assert decision.cut_before is None
    assert ENOUGH <= decision.frees < ENOUGH + 950
    assert decision.trim
    assert decision.clear


def test_what_is_superseded_goes_whole() -> None:
    """A later step has it again: it needs no preview, however lately it came."""
    steps = steps_of(28, frees=900)
    places = (10, 12, 14, 21)
    for place in places:
        tokens = 5_000
        steps[place] = StepSize(tokens, 1_000, 4_100, quiet=2, is_superseded=True)
    decision = choose(steps, budget=BUDGET, cache=WARM, policy=POLICY)
    assert decision is not None
    assert set(places) <= set(decision.clear)
    assert not set(places) & set(decision.trim)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_the_newest_steps_are_protected_from_pruning(at: int) -> None:
    """Even where nobody used them, or a later step has them again."""
    steps = [StepSize(3_000, 1_000, 1_800, quiet=90, is_superseded=True) for _ in range(12)]
    decision = choose(steps, budget=BUDGET, cache=COLD, policy=POLICY)
    assert decision is not None
    assert len(steps) - 1 - at not in (*decision.clear, *decision.trim)
    assert set(decision.clear) == set(range(9))


def test_a_cut_keeps_the_newest_with_their_results_as_they_are() -> None:
    """What is cut makes the room; what stays is not shortened too."""
    steps = steps_of(36, frees=100)
    decision = choose(steps, budget=BUDGET, cache=WARM, policy=POLICY)
    assert decision is not None
    assert decision.trim == decision.clear == ()
    room = POLICY.keeps(BUDGET) - POLICY.carry_cap(BUDGET)
    assert room - 1_000 < total(after(steps, decision)) <= room


@given(
    st.lists(sizes(), min_size=1, max_size=60),
    st.integers(-3, 60),
    st.sampled_from(CACHES),
    st.sampled_from(EVERY_POLICY),
)
def test_a_cut_spares_the_protected_steps_unless_they_fill_the_view(
    steps: list[StepSize], protected: int, cache: PromptCache, policy: Policy
) -> None:
    """They stay while the view that is left is not nearly full again."""
    decision = choose(steps, budget=BUDGET, cache=cache, policy=policy, protected=protected)
    if decision is None or decision.cut_before is None or protected >= decision.cut_before:
        return
    newest = total(steps[max(0, protected) :])
    assert newest > policy.flush_at(BUDGET) - policy.carry_cap(BUDGET)


def test_a_cold_cache_is_used_for_results_of_no_more_use() -> None:
    """Above `keep`, what was superseded or is quiet: trimmed, then cleared."""
    steps = steps_of(60, tokens=600, frees=400)
    steps[50] = StepSize(600, 200, 400, quiet=9, is_superseded=True)
    budget = int(1.5 * BUDGET)
    decision = choose(steps, budget=budget, cache=COLD, policy=POLICY)
    assert decision is not None
    assert decision.cut_before is None
    old = POLICY.quiet_steps
    newest = len(steps) - POLICY.protected_steps
    quiet = {at: step.quiet for at, step in enumerate(steps[:newest]) if at != 50}
    assert decision.trim == tuple(at for at, since in quiet.items() if old < since <= 2 * old)
    assert decision.clear == (*(at for at, since in quiet.items() if since > 2 * old), 50)
    assert choose(steps, budget=budget, cache=WARM, policy=POLICY) is None


def test_with_room_a_cold_cache_is_used_for_what_was_superseded() -> None:
    """Up to `keep`: what is only quiet may be of use again, and nothing needs its place."""
    steps = steps_of(22)
    assert total(steps) == POLICY.keeps(BUDGET)
    assert choose(steps, budget=BUDGET, cache=COLD, policy=POLICY) is None
    for place in (2, 5):
        steps[place] = StepSize(1_000, 250, 500, quiet=0, is_superseded=True)
    decision = choose(steps, budget=BUDGET, cache=COLD, policy=POLICY)
    assert decision is not None
    assert (decision.trim, decision.clear) == ((), (2, 5))
    fuller = choose([*steps, StepSize(1)], budget=BUDGET, cache=COLD, policy=POLICY)
    assert fuller is not None
    assert {2, 5} < set(fuller.clear)


@given(st.lists(sizes(), max_size=60), st.sampled_from((COLD, UNCACHED)))
def test_a_cold_cache_takes_no_word_by_default(steps: list[StepSize], cache: PromptCache) -> None:
    """Below the limit only results are shortened, in a batch that is worth an epoch."""
    decision = choose(steps, budget=BUDGET, cache=cache, policy=POLICY)
    if decision is None or total(steps) > POLICY.full_at(BUDGET):
        return
    assert total(steps) > POLICY.cold_prune * BUDGET
    assert decision.cut_before is None
    assert decision.frees >= 0.02 * BUDGET
    has_room = total(steps) <= POLICY.keeps(BUDGET)
    for index in (*decision.trim, *decision.clear):
        is_quiet = not has_room and steps[index].quiet > POLICY.quiet_steps
        assert steps[index].is_superseded or is_quiet


def test_thrifty_cuts_deep_whenever_the_cache_is_cold() -> None:
    """At 15 % of the budget, down to 13 with the carry-over; while it is warm, not before 60."""
    policy = POLICIES["thrifty"]
    steps = steps_of(7)
    decision = choose(steps, budget=BUDGET, cache=COLD, policy=policy)
    assert decision is not None
    assert decision.cut_before is not None
    left = total(after(steps, decision))
    assert left + policy.carry_cap(BUDGET) <= policy.keeps(BUDGET) == int(0.13 * BUDGET)
    assert choose(steps, budget=BUDGET, cache=WARM, policy=policy) is None
    assert choose(steps_of(6), budget=BUDGET, cache=COLD, policy=policy) is None
    assert choose(steps_of(25), budget=BUDGET, cache=WARM, policy=policy) is not None


@pytest.mark.parametrize("policy", EVERY_POLICY, ids=tuple(POLICIES))
def test_a_tool_loop_may_fill_half_of_what_is_left(policy: Policy) -> None:
    """An epoch amid a loop ends the reasoning it is built on; no cold moment counts there."""
    limit = policy.full_at(BUDGET, in_loop=True)
    assert policy.full_at(BUDGET) < limit < BUDGET
    steps = [StepSize(1_000, 500, 900, quiet=90) for _ in range(limit // 1_000 + 1)]
    for cache in (WARM, COLD):
        kept = choose(steps[:-1], budget=BUDGET, cache=cache, policy=policy, in_loop=True)
        assert kept is None
        assert choose(steps, budget=BUDGET, cache=cache, policy=policy, in_loop=True) is not None


STEP = 200_000
PRICED = PromptCache(idle_seconds=20.0, step_tokens=STEP)


@pytest.mark.parametrize(
    ("tokens", "static", "acts"),
    [
        (150_000, 0, False),
        (193_000, 0, False),
        (195_000, 0, True),
        (150_000, 45_000, True),
        (399_000, 0, True),
        (401_000, 0, False),
    ],
)
def test_a_step_in_the_price_is_not_crossed_for_old_results(
    tokens: int, static: int, acts: bool
) -> None:
    """Near it, quiet results are shortened to well below; far above, it was taken on purpose."""
    steps = [
        StepSize(tokens // 100, tokens // 300, tokens // 150, quiet=99 - index)
        for index in range(100)
    ]
    decision = choose(steps, budget=900_000, cache=PRICED, policy=POLICY, static=static)
    assert (decision is not None) == acts
    if decision is not None:
        assert decision.cut_before is None
        assert f"{STEP:,} tokens or more" in decision.reason
        assert static + tokens - decision.frees <= STEP - STEP // 8 * 0.97


def test_a_step_in_the_price_that_pruning_cannot_avoid_is_taken() -> None:
    """An epoch that does not bring the request below it would be paid for nothing."""
    steps = [StepSize(1_950, 50, 100, quiet=99 - index) for index in range(100)]
    assert choose(steps, budget=900_000, cache=PRICED, policy=POLICY) is None


@pytest.mark.parametrize(
    ("idle", "said"),
    [
        (400, "7 minutes before"),
        (119 * 60, "119 minutes"),
        (9_000, "2 hours"),
        (26_104_549, "302 days"),
    ],
)
def test_a_cold_cache_is_told_in_words(idle: float, said: str) -> None:
    cache = PromptCache(idle_seconds=idle)
    decision = choose(steps_of(33), budget=BUDGET, cache=cache, policy=POLICIES["thrifty"])
    assert decision is None or "the limit is" in decision.reason, "33 steps are full for thrifty"
    decision = choose(steps_of(20), budget=BUDGET, cache=cache, policy=POLICIES["thrifty"])
    assert decision is not None
    assert f"the last call was {said}" in decision.reason


def test_no_cache_at_all_counts_as_cold() -> None:
    """Where every token is paid in full every time, a smaller view is always cheaper."""
    assert UNCACHED.is_cold
    assert PromptCache(idle_seconds=1.0, is_broken=True).is_cold
    assert not PromptCache(idle_seconds=1e9, ttl_seconds=None).is_cold
    assert not PromptCache().is_cold, "what nobody knows counts as warm"


@given(
    st.lists(sizes(), max_size=60),
    st.integers(0, 60_000),
    st.integers(0, 4_000),
    st.sampled_from((*CACHES, PromptCache(step_tokens=BUDGET))),
    st.sampled_from(EVERY_POLICY),
    st.booleans(),
)
def test_decision_is_sound(
    steps: list[StepSize],
    budget: int,
    opening: int,
    cache: PromptCache,
    policy: Policy,
    in_loop: bool,
) -> None:
    """It frees what it says, keeps the newest step, and touches each step in one way at most."""
    decision = choose(
        steps, budget=budget, cache=cache, policy=policy, opening=opening, in_loop=in_loop
    )
    if decision is None:
        return
    start = decision.cut_before or 0
    assert 0 <= start < len(steps)
    assert decision.cut_before != 0
    touched = (*decision.trim, *decision.clear)
    assert len(set(touched)) == len(touched)
    assert all(start <= index < len(steps) for index in touched)
    assert decision.frees == total(steps) - total(after(steps, decision)) > 0


@given(
    st.lists(sizes(), min_size=1, max_size=60),
    st.sampled_from(CACHES),
    st.sampled_from(EVERY_POLICY),
)
@example([*(StepSize(1_000, 500, 900, quiet=50) for _ in range(34)), StepSize(9_000)], WARM, POLICY)
def test_a_decision_settles(steps: list[StepSize], cache: PromptCache, policy: Policy) -> None:
    """What it leads to is left alone while the cache is warm, unless the newest step alone is over
    the limit: an epoch that is followed by another one was not worth it."""
    decision = choose(steps, budget=BUDGET, cache=cache, policy=policy)
    if decision is None:
        return
    left = after(steps, decision)
    assert choose(left, budget=BUDGET, cache=WARM, policy=policy) is None


@given(st.lists(sizes(), max_size=40), st.sampled_from(CACHES))
def test_decision_is_a_function_of_its_arguments(steps: list[StepSize], cache: PromptCache) -> None:
    """Asked twice, it says the same."""
    first = choose(steps, budget=BUDGET, cache=cache, policy=POLICY)
    assert first == choose(list(steps), budget=BUDGET, cache=cache, policy=POLICY)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"compact": 0.0}, "compact"),
        ({"compact": 1.1}, "compact"),
        ({"compact": float("nan")}, "compact"),
        ({"keep": 0.0}, "keep"),
        ({"keep": 0.85}, "keep"),
        ({"keep": 0.5, "cold_cut": 0.5}, "keep"),
        ({"compact": 0.5}, "keep"),
        ({"cold_prune": 0.0}, "cold_prune"),
        ({"cold_prune": 1.01}, "cold_prune"),
        ({"cold_cut": 0.0}, "cold_cut"),
        ({"cold_cut": 0.3}, "cold_cut"),
        ({"quiet_steps": -1}, "quiet_steps"),
        ({"protected_steps": -1}, "protected_steps"),
    ],
)
def test_policy_refuses_what_makes_no_sense(settings: dict[str, float], said: str) -> None:
    """The thresholds are checked when they are set, with the wrong one named."""
    with pytest.raises(BadSetting) as caught:
        Policy(**settings)  # type: ignore[arg-type]
    assert said in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(("read", "write"), [(-0.1, 1.0), (1.1, 1.2), (0.5, 0.4)])
def test_cache_refuses_prices_that_make_no_sense(read: float, write: float) -> None:
    """A read never costs more than plain input, nor more than a write."""
    with pytest.raises(BadSetting, match="is not possible"):
        PromptCache(read=read, write=write)


@given(
    st.integers(100, 2_000_000),
    st.builds(
        lambda compact, share: Policy(compact=compact, keep=share * compact),
        st.floats(0.1, 1.0),
        st.floats(0.05, 0.95),
    ),
)
def test_marks_of_a_budget_are_in_order(budget: int, policy: Policy) -> None:
    """In budgets of every size: carry-over, cut, notes and draft, full, full amid a loop."""
    marks = (
        policy.carry_cap(budget),
        policy.keeps(budget),
        policy.full_at(budget),
        policy.full_at(budget, in_loop=True),
        budget,
    )
    assert all(first <= second for first, second in pairwise(marks))
    assert policy.carry_cap(budget) < max(1, policy.keeps(budget))
    assert 0 <= policy.flush_at(budget) <= policy.full_at(budget)
    assert 0 <= policy.draft_at(budget) <= policy.full_at(budget)


def test_policies_have_names() -> None:
    """A name or the policy itself; anything else is refused with the names."""
    assert policy_of("balanced") == Policy() == policy_of(Policy())
    assert policy_of("thrifty") is POLICIES["thrifty"]
    for wrong in ("Thrifty", "", None, 3, {"compact": 0.8}):
        with pytest.raises(BadSetting) as caught:
            policy_of(wrong)
        assert all(f'"{name}"' in (caught.value.hint or "") for name in POLICIES)


def test_every_setting_is_read_by_the_program() -> None:
    """A field of the policy that nothing reads would promise something."""
    folder = Path(holdfast.__file__).parent
    sources = "".join(path.read_text() for path in folder.rglob("*.py"))
    own = (folder / "core/projection/policy.py").read_text()
    read = set(re.findall(r"policy\.(\w+)", sources)) | set(re.findall(r"self\.(\w+)", own))
    assert set(Policy.__struct_fields__) <= read
