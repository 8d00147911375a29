"""When to cut: still while the cache is warm, deep when it is cold or the view is full."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import holdfast
from holdfast.core.projection.policy import Decision, Policy, PromptCache, StepSize, choose
from holdfast.errors import BadSetting

WARM = PromptCache(idle_seconds=20.0)
COLD = PromptCache(idle_seconds=301.0)
POLICY = Policy()
BUDGET = 40_000


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
            quiet=st.integers(0, 60),
        )
    )


def after(steps: list[StepSize], decision: Decision) -> list[StepSize]:
    """The view that a decision leads to."""
    start = decision.cut_before or 0
    left = []
    for index, step in enumerate(steps[start:], start):
        freed = 0
        if index in decision.clear:
            freed = step.clear_frees
        elif index in decision.trim:
            freed = step.trim_frees
        left.append(StepSize(step.tokens - freed, quiet=step.quiet) if freed else step)
    return left


def test_warm_view_below_the_limit_is_left_alone() -> None:
    """A warm prefix is worth more than anything that could be freed from it."""
    assert choose(steps_of(33), budget=BUDGET, cache=WARM, policy=POLICY) is None


def test_warm_view_above_the_limit_is_cut_to_the_low_water_mark() -> None:
    """One batch makes room for a long time."""
    steps = steps_of(38)
    decision = choose(steps, budget=BUDGET, cache=WARM, policy=POLICY)
    assert decision is not None
    left = sum(step.tokens for step in after(steps, decision))
    assert left <= POLICY.low_water * BUDGET
    assert decision.cut_before is not None
    assert sum(step.tokens for step in steps) - left == decision.frees
    assert f"{POLICY.compact:.0%}" in decision.reason


@pytest.mark.parametrize(
    ("count", "does"),
    [(4, "nothing"), (12, "prunes"), (33, "cuts")],
)
def test_cold_cache_is_used_the_more_the_fuller_the_view(count: int, does: str) -> None:
    """When the prefix has to be paid for again anyway, it need not be paid for in full."""
    decision = choose(steps_of(count), budget=BUDGET, cache=COLD, policy=POLICY)
    found = "nothing"
    if decision is not None:
        found = "cuts" if decision.cut_before else "prunes"
    assert found == does


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
    decision = choose(steps_of(33), budget=BUDGET, cache=cache, policy=POLICY)
    assert decision is not None
    assert f"the last call was {said}" in decision.reason


def test_results_are_trimmed_then_cleared_as_they_go_quiet() -> None:
    """Lately used: whole. A while ago: trimmed. Longer ago: cleared."""
    steps = steps_of(15)
    policy = Policy(trim_after=4, clear_after=8)
    decision = choose(steps, budget=BUDGET, cache=COLD, policy=policy)
    assert decision is not None
    for index, step in enumerate(steps):
        is_old = step.quiet > 8
        assert (index in decision.clear) == is_old
        assert (index in decision.trim) == (not is_old and step.quiet > 4)


def test_results_are_only_trimmed_while_there_is_room() -> None:
    """Between the first two thresholds nothing is cleared, however old."""
    steps = steps_of(14, tokens=400, frees=396)
    decision = choose(steps, budget=BUDGET, cache=COLD, policy=POLICY)
    assert decision is not None
    assert decision.clear == ()
    assert decision.trim == (0, 1, 2, 3, 4)


def test_what_was_used_lately_stays_however_old() -> None:
    """Age counts from the last use, not from the arrival."""
    steps = [StepSize(1_000, 400, 800, quiet=0), *steps_of(14)]
    decision = choose(steps, budget=BUDGET, cache=COLD, policy=POLICY)
    assert decision is not None
    assert 0 not in (*decision.clear, *decision.trim)


def test_newest_steps_are_protected() -> None:
    """Even a step that nobody used is not pruned while it is among the newest."""
    steps = [StepSize(3_000, 1_000, 2_000, quiet=50) for _ in range(4)]
    decision = choose(steps, budget=BUDGET, cache=COLD, policy=POLICY)
    assert decision is not None
    assert set(decision.clear) == {0}


LARGE = 300_000
"""A budget in which `cold_cut_tokens` counts."""


@given(st.integers(10, 2_000_000), st.integers(0, 400_000), st.floats(0.01, 0.39))
@example(1_000_000, 20_000, 0.18)
@example(100_000, 20_000, 0.39)
@example(24_000, 0, 0.18)
@example(24_000, 20_000, 0.39)
def test_a_cut_ends_below_the_next_one(working: int, cold: int, low_water: float) -> None:
    """In any budget a cut keeps less than triggers the next cold one, which comes between half of
    its share and the whole."""
    policy = Policy(cold_cut_tokens=cold, low_water=low_water)
    keeps, trigger = policy.cut_keeps(working), policy.cold_cut_at(working)
    assert keeps <= max(int(low_water * working), policy.keep_tokens)
    assert keeps < trigger
    assert policy.cold_cut * working / 2 <= trigger <= policy.cold_cut * working
    assert trigger <= max(cold, policy.cold_cut * working / 2)


def test_a_large_cut_clears_results_early_to_keep_more_steps() -> None:
    """The room of old results goes to older calls; the newest results stay where room is left."""
    steps = steps_of(300, tokens=1_000, frees=900)
    late = choose(steps, budget=LARGE, cache=WARM, policy=Policy(cut_clears_after=8))
    early = choose(steps, budget=LARGE, cache=WARM, policy=POLICY)
    assert late is not None
    assert early is not None
    assert (early.cut_before or 0) < (late.cut_before or 0)
    left = sum(step.tokens for step in after(steps, early))
    room = POLICY.cut_keeps(POLICY.working_budget(LARGE))
    assert room - 900 < left <= room
    assert all(steps[index].quiet > POLICY.cut_clears_after for index in early.clear)


def test_a_cut_in_a_small_budget_clears_no_result_early() -> None:
    """Where a cut keeps its share, results are cleared after the usual time alone."""
    steps = steps_of(38, frees=900)
    decision = choose(steps, budget=BUDGET, cache=WARM, policy=POLICY)
    assert decision is not None
    assert decision == choose(
        steps, budget=BUDGET, cache=WARM, policy=Policy(cut_clears_after=POLICY.clear_after)
    )
    assert all(steps[index].quiet > POLICY.clear_after for index in decision.clear)


def test_no_cache_at_all_counts_as_cold() -> None:
    """Where every token is paid in full every time, a smaller view is always cheaper."""
    assert PromptCache(read=1.0, write=1.0).is_cold
    assert PromptCache(idle_seconds=1.0, is_broken=True).is_cold
    assert not PromptCache(idle_seconds=1e9, ttl_seconds=None).is_cold
    assert not PromptCache().is_cold, "what nobody knows counts as warm"


def test_large_budget_is_not_filled_for_its_own_sake() -> None:
    """Beyond what is comfortable, history costs more than it is used."""
    assert POLICY.working_budget(60_000) == 60_000
    assert POLICY.working_budget(110_000) == POLICY.comfort_tokens
    assert POLICY.working_budget(800_000) == int(800_000 * POLICY.comfort_share)
    assert Policy(comfort_share=1.0).working_budget(800_000) == 800_000


def test_carry_gets_a_share_of_a_small_budget() -> None:
    """What a cut leaves behind must not fill a small window again."""
    assert POLICY.carry_cap(1_000_000) == POLICY.carry_tokens
    assert POLICY.carry_cap(10_000) == int(10_000 * POLICY.carry_share)


@given(
    st.lists(sizes(), max_size=60),
    st.integers(0, 60_000),
    st.integers(0, 4_000),
    st.sampled_from((WARM, COLD, PromptCache(), PromptCache(read=1.0, write=1.0))),
)
def test_decision_is_sound(
    steps: list[StepSize], budget: int, opening: int, cache: PromptCache
) -> None:
    """It frees what it says, keeps the newest step, and touches each step in one way at most."""
    decision = choose(steps, budget=budget, cache=cache, policy=POLICY, opening=opening)
    if decision is None:
        return
    start = decision.cut_before or 0
    assert 0 <= start < len(steps)
    assert decision.cut_before != 0
    touched = (*decision.trim, *decision.clear)
    assert len(set(touched)) == len(touched)
    assert all(start <= index < len(steps) for index in touched)
    left = sum(step.tokens for step in after(steps, decision))
    assert decision.frees == sum(step.tokens for step in steps) - left > 0


@given(st.lists(sizes(), min_size=1, max_size=60), st.sampled_from((WARM, COLD)))
def test_decision_settles(steps: list[StepSize], cache: PromptCache) -> None:
    """What it leads to is left alone, unless the newest step alone is over the limit."""
    decision = choose(steps, budget=BUDGET, cache=cache, policy=POLICY)
    left = steps if decision is None else after(steps, decision)
    again = choose(left, budget=BUDGET, cache=cache, policy=POLICY)
    if again is not None:
        assert decision is not None
        assert again.frees < decision.frees
    settled = left if again is None else after(left, again)
    assert choose(settled, budget=BUDGET, cache=WARM, policy=POLICY) is None


@given(st.lists(sizes(), max_size=40), st.sampled_from((WARM, COLD)))
def test_decision_is_a_function_of_its_arguments(steps: list[StepSize], cache: PromptCache) -> None:
    """Asked twice, it says the same."""
    first = choose(steps, budget=BUDGET, cache=cache, policy=POLICY)
    assert first == choose(list(steps), budget=BUDGET, cache=cache, policy=POLICY)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"trim": 0.0}, "not in order"),
        ({"trim": 0.2, "clear": 0.2}, "not in order"),
        ({"clear": 0.5}, "not in order"),
        ({"cold_cut": 0.8}, "not in order"),
        ({"flush": 0.4}, "not in order"),
        ({"compact": 0.8}, "not in order"),
        ({"compact": 1.0}, "not in order"),
        ({"low_water": 0.0}, "low_water"),
        ({"low_water": 0.4}, "low_water"),
        ({"trim_after": 9}, "clear_after"),
        ({"protected_steps": -1}, "protected_steps"),
        ({"carry_tokens": -1}, "carry_tokens"),
        ({"flush_tokens": -1}, "flush_tokens"),
        ({"carry_share": 0.0}, "carry_share"),
        ({"comfort_share": 1.1}, "comfort_share"),
    ],
)
def test_policy_refuses_what_makes_no_sense(settings: dict[str, float], said: str) -> None:
    """The order of the thresholds is checked when they are set, with all of them named."""
    with pytest.raises(BadSetting) as caught:
        Policy(**settings)  # type: ignore[arg-type]
    assert said in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(("read", "write"), [(-0.1, 1.0), (1.1, 1.2), (0.5, 0.4)])
def test_cache_refuses_prices_that_make_no_sense(read: float, write: float) -> None:
    """A read never costs more than plain input, nor more than a write."""
    with pytest.raises(BadSetting, match="makes no sense"):
        PromptCache(read=read, write=write)


@given(st.integers(1, 2_000_000))
def test_notes_are_saved_before_a_cut_is_due(working: int) -> None:
    """In budgets of every size, with 4,000 tokens or half of the way between the two."""
    due = POLICY.compact * working
    threshold = POLICY.flush_at(working)
    assert threshold <= POLICY.flush * working
    assert due - threshold >= min(POLICY.flush_tokens, due / 2)
    assert threshold >= int(min(POLICY.flush * working, due / 2))


def test_every_setting_is_read_by_the_program() -> None:
    """A field of the policy that nothing reads would promise something."""
    folder = Path(holdfast.__file__).parent
    sources = "".join(path.read_text() for path in folder.rglob("*.py"))
    own = (folder / "core/projection/policy.py").read_text()
    read = set(re.findall(r"policy\.(\w+)", sources)) | set(re.findall(r"self\.(\w+)", own))
    assert set(Policy.__struct_fields__) <= read
