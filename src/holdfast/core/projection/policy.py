"""When to cut, and how much: a decision on numbers alone.

A cut rewrites what comes after it, and the provider charges for that as long as its cache is warm.
So there are two moments to decide. When the cache has gone cold the rewrite is due anyway: old
results are shortened, and a fuller view is cut deep. While it is warm nothing moves until the view
is nearly full; then one batch brings it down to the low-water mark, far enough that the next is a
long way off.

The caller records what was decided, and a decision stays: the view it leads to is what the next
call to `choose` sees. The numbers behind the defaults are in docs/defaults.md.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Sequence


class PromptCache(msgspec.Struct, frozen=True):
    """The state of the provider's prompt cache. The defaults are Anthropic's five minutes."""

    idle_seconds: float | None = None
    """Seconds since the last call; None if unknown, which counts as warm."""
    ttl_seconds: float | None = 300.0
    """Seconds that a cached prefix lives after its last use; None for ever."""
    read: float = 0.1
    """Cost of a cached token, as a share of a plain one. 1 if nothing is cached."""
    write: float = 1.25
    """Cost of writing a token to the cache."""
    is_broken: bool = False
    """True if the next request begins differently anyway: another model, system prompt or tools."""

    def __post_init__(self) -> None:
        if not 0 <= self.read <= 1 or self.write < self.read:
            raise BadSetting(
                f"a cache that reads at {self.read:g} and writes at {self.write:g} makes no sense",
                hint="both are shares of the price of a plain token: 0 ≤ read ≤ 1, read ≤ write",
            )

    @property
    def is_cold(self) -> bool:
        """Return whether the next request pays for its whole prefix, whatever is in it."""
        if self.is_broken or self.read >= 1:
            return True
        if self.idle_seconds is None or self.ttl_seconds is None:
            return False
        return self.idle_seconds > self.ttl_seconds


class Policy(msgspec.Struct, frozen=True):
    """Every threshold. Those up to `low_water` are shares of the working budget."""

    trim: float = 0.1
    """From here on, a cold cache is used to trim old results."""
    clear: float = 0.15
    """From here on, it is used to clear the older ones of them."""
    cold_cut: float = 0.4
    """From here on, it is used to cut down to the low-water mark."""
    cold_cut_tokens: int = 20_000
    """The same in tokens, where that is less, and down to half of the share; the cut then keeps at
    most four fifths of it."""
    flush: float = 0.8
    """From here on, notes are saved although no cut is due yet; once between two cuts."""
    compact: float = 0.9
    """Here the view is cut, warm or cold."""
    flush_tokens: int = 4_000
    """Tokens before `compact` at which that happens at the latest: a large step must not skip
    it."""
    low_water: float = 0.18
    """The share of the history that a cut keeps, without the carry-over."""
    keep_tokens: int = 4_000
    """Tokens that a cut keeps at least, where a small budget allows it: a step or two to go on
    with."""
    trim_after: int = 8
    """Steps since a result arrived, or was last used, after which it may be trimmed."""
    clear_after: int = 8
    """The same for clearing it."""
    cut_clears_after: int = 3
    """The same in a cut of a budget that is so large that `cold_cut_tokens` counts: the room goes
    to more steps, whose calls say more in fewer tokens than old results."""
    protected_steps: int = 3
    """The newest steps; they are neither pruned nor cut while there is another way."""
    comfort_tokens: int = 100_000
    """A budget up to this many tokens is worked in as a whole."""
    comfort_share: float = 0.62
    """A larger budget than `comfort_tokens` is worked in only up to this share, if that is more:
    beyond it history costs more than it is used."""
    carry_tokens: int = 8_000
    """The most tokens that a carry-over may take."""
    carry_share: float = 0.15
    """The same, as a share of the budget."""
    instructions_share: float = 0.06
    """The share of the budget that the user's instructions may take in a carry-over, all that was
    ever said together; beyond 40 % of the carry-over they take it in addition."""
    allow: tuple[str, ...] = ()
    """Tools whose results may be pruned, as patterns with `*` and `?`; empty for all."""
    deny: tuple[str, ...] = ()
    """Tools whose results are never pruned, and cut only where that is forced. It wins over
    `allow`."""

    def __post_init__(self) -> None:
        _check_order(self)
        for name in _COUNTS:
            if getattr(self, name) < 0:
                raise BadSetting(
                    f"`{name}` cannot be negative: {getattr(self, name)}",
                    hint="0 switches it off or allows nothing",
                )
        for name in ("carry_share", "comfort_share", "instructions_share"):
            if not 0 < getattr(self, name) <= 1:
                raise BadSetting(
                    f"`{name}` must be above 0 and at most 1, not {getattr(self, name):g}",
                    hint="it is a part of the budget",
                )
        if self.clear_after < self.trim_after:
            raise BadSetting(
                f"results would be cleared after {self.clear_after} steps, before they are "
                f"trimmed after {self.trim_after}",
                hint="make `clear_after` at least `trim_after`",
            )

    def working_budget(self, budget: int) -> int:
        """The part of a budget that the shares are shares of."""
        return min(budget, max(self.comfort_tokens, int(self.comfort_share * budget)))

    def compact_at(self, budget: int) -> int:
        """Return the tokens of messages beyond which a view is cut, warm or cold."""
        return int(self.compact * self.working_budget(budget))

    def warn_at(self, budget: int, largest_turn: int) -> int:
        """Return the tokens of messages from which on a person is warned of the next cut.

        That is one turn of the largest size in view before the cut, and at the latest a tenth
        before it.
        """
        due = self.compact_at(budget)
        return max(0, min(due - largest_turn, int(_WARN_SHARE * due)))

    def flush_at(self, working: int) -> int:
        """Return the tokens of a view from which on notes are saved, always fewer than trigger a
        cut."""
        due = self.compact * working
        return int(min(self.flush * working, max(due - self.flush_tokens, due / 2)))

    def cut_keeps(self, working: int) -> int:
        """Return the tokens of history that a cut keeps, always fewer than trigger a cold cut."""
        keeps, below = int(self.low_water * working), int(0.8 * self.cold_cut_at(working))
        if self.is_large(working):
            keeps = min(keeps, below)
        return max(keeps, min(self.keep_tokens, below))

    def cold_cut_at(self, working: int) -> float:
        """Return the tokens of a view from which on a cold cache is used to cut."""
        share = self.cold_cut * working
        return min(share, max(self.cold_cut_tokens, share / 2, self.clear * working))

    def is_large(self, working: int) -> bool:
        """Return whether a budget is so large that a cold cut comes below its share."""
        return self.cold_cut_at(working) < self.cold_cut * working

    def looks_after(self, working: int) -> int:
        """Return the quiet steps after which the economy may want to clear a result."""
        if not self.is_large(working):
            return self.clear_after
        return min(self.clear_after, self.cut_clears_after)

    def draft_at(self, working: int) -> int:
        """Return the tokens of a view from which on the summary for its next cut is written ahead:
        so late that the cut keeps all that comes after it."""
        return int(self.compact * working - _DRAFT_SHARE * self.cut_keeps(working))

    def carry_cap(self, budget: int) -> int:
        """Return the tokens that a carry-over may take."""
        return min(self.carry_tokens, int(self.carry_share * budget))

    def instruction_cap(self, budget: int) -> int:
        """Return the tokens that the user's instructions may take in a carry-over."""
        return int(self.instructions_share * budget)


_ORDER: Final = ("trim", "clear", "cold_cut", "flush", "compact")
_COUNTS: Final = (
    *("trim_after", "clear_after", "cut_clears_after", "protected_steps"),
    *("keep_tokens", "cold_cut_tokens", "comfort_tokens", "carry_tokens", "flush_tokens"),
)
_DRAFT_SHARE: Final = 0.6
"""Of what a cut keeps. The rest is for the step that triggers the cut."""
_WARN_SHARE: Final = 0.9
"""Of the size at which a view is cut."""
_MIN_YIELD: Final = 0.02
"""A batch that frees less of the working budget is not worth a record."""


def _check_order(policy: Policy) -> None:
    values = [getattr(policy, name) for name in _ORDER]
    said = " < ".join(f"{name} {value:g}" for name, value in zip(_ORDER, values, strict=True))
    if any(lower >= higher for lower, higher in pairwise((0.0, *values, 1.0))):
        raise BadSetting(
            f"the thresholds are not in order: 0 < {said} < 1",
            hint=f"each is a share of the budget: 0 < {' < '.join(_ORDER)} < 1",
        )
    if not 0 < policy.low_water < policy.cold_cut:
        raise BadSetting(
            f"a cut would end at {policy.low_water:g} of the budget and start at "
            f"{policy.cold_cut:g}",
            hint="make `low_water` larger than 0 and smaller than `cold_cut`",
        )


class StepSize(msgspec.Struct, frozen=True, gc=False):
    """The size of a unit in the current view; a unit is kept or cut as a whole."""

    tokens: int
    trim_frees: int = 0
    """Tokens that trimming its results would free; 0 if they may not be trimmed."""
    clear_frees: int = 0
    """The same for clearing them."""
    quiet: int = 0
    """Steps since it came, or since a later step last used something it holds."""


class Decision(msgspec.Struct, frozen=True):
    """The decision, by the index of the step."""

    reason: str
    trim: tuple[int, ...] = ()
    clear: tuple[int, ...] = ()
    cut_before: int | None = None
    """Everything before this step goes; none of the above is among that."""
    frees: int = 0
    """Tokens, without what the cut leaves behind."""


def choose(
    steps: Sequence[StepSize],
    *,
    budget: int,
    cache: PromptCache,
    policy: Policy,
    opening: int = 0,
    protected: int | None = None,
) -> Decision | None:
    """Decide what to trim, clear and cut before the next call; None leaves the view alone.

    `budget` is what the messages may take; `opening` is what stands before the first step, the
    carry or summary of an earlier cut. The newest step is never cut. `protected` is the first of
    the newest steps that stay, unless they alone would fill the view again.
    """
    working = policy.working_budget(budget)
    total = opening + sum(step.tokens for step in steps)
    if not steps or working <= 0:
        return None
    fill = total / working
    is_forced = fill > policy.compact
    if not is_forced and not (cache.is_cold and fill > policy.trim):
        return None
    after = policy.clear_after if is_forced or fill > policy.clear else None
    prune = _prune(steps, policy, after)
    left = total - prune.frees
    start = 0
    if is_forced or left > policy.cold_cut_at(working):
        prune, start = _prune_for_cut(steps, policy, prune, working)
        if protected is not None and protected < start:
            newest = sum(prune.sizes[max(0, protected) :])
            if not is_forced or newest <= (policy.flush - policy.carry_share) * working:
                start = max(0, protected)
    decision = _decide(steps, prune, start, _reason(cache, fill, policy, is_forced=is_forced))
    is_worth_it = decision.frees >= _MIN_YIELD * working
    return decision if is_worth_it or (is_forced and decision.frees > 0) else None


class _Pruned(msgspec.Struct, frozen=True):
    """The size of each step after pruning, and the action."""

    trim: frozenset[int]
    clear: frozenset[int]
    sizes: list[int]
    frees: int


def _prune(
    steps: Sequence[StepSize],
    policy: Policy,
    clear_after: int | None,
    stays: frozenset[int] = frozenset(),
) -> _Pruned:
    """Shorten the results that were quiet for long, but do not clear those of `stays`."""
    trim, clear, sizes = set(), set(), [step.tokens for step in steps]
    total = sum(sizes)
    for index, step in enumerate(steps[: max(0, len(steps) - policy.protected_steps)]):
        if not step.quiet:
            continue  # most steps of a long log, which can only be cut
        is_old = clear_after is not None and step.quiet > clear_after and index not in stays
        if is_old and step.clear_frees > 0:
            clear.add(index)
            sizes[index] -= step.clear_frees
        elif step.trim_frees > 0 and step.quiet > policy.trim_after:
            trim.add(index)
            sizes[index] -= step.trim_frees
    return _Pruned(frozenset(trim), frozenset(clear), sizes, total - sum(sizes))


def _prune_for_cut(
    steps: Sequence[StepSize], policy: Policy, prune: _Pruned, working: int
) -> tuple[_Pruned, int]:
    """The prune of a cut, and the first step that stays.

    In a large budget results are cleared early, for the sake of older steps; the newest of them
    stay after all where these leave room.
    """
    room = policy.cut_keeps(working)
    if policy.looks_after(working) == policy.clear_after:
        return prune, _tail(steps, prune, room)
    early = _prune(steps, policy, policy.cut_clears_after)
    start = _tail(steps, early, room)
    room -= sum(early.sizes[start:])
    stays = set()
    for index in range(len(steps) - 1, start - 1, -1):
        frees = steps[index].clear_frees
        if index in early.clear and index not in prune.clear and frees <= room:
            stays.add(index)
            room -= frees
    return _prune(steps, policy, policy.cut_clears_after, frozenset(stays)), start


def _tail(steps: Sequence[StepSize], pruned: _Pruned, room: int) -> int:
    """The first step that stays: as many of the newest as there is room for, and at least one."""
    start = len(steps) - 1
    room -= pruned.sizes[start]
    while start > 0 and pruned.sizes[start - 1] <= room:
        start -= 1
        room -= pruned.sizes[start]
    return start


def _decide(steps: Sequence[StepSize], pruned: _Pruned, start: int, reason: str) -> Decision:
    after = sum(pruned.sizes[start:])
    return Decision(
        reason=reason,
        trim=tuple(sorted(index for index in pruned.trim if index >= start)),
        clear=tuple(sorted(index for index in pruned.clear if index >= start)),
        cut_before=start or None,
        frees=sum(step.tokens for step in steps) - after,
    )


def _span(seconds: float | None) -> str:
    """A time in its largest unit of which there are two."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if (seconds or 0.0) >= 2 * length:
            return f"{(seconds or 0.0) / length:,.0f} {unit}"
    return f"{seconds or 0.0:,.0f} s"


def _reason(cache: PromptCache, fill: float, policy: Policy, *, is_forced: bool) -> str:
    if is_forced:
        return f"{fill:.0%} of the budget, the limit is {policy.compact:.0%}"
    if cache.is_broken:
        why = "the next request begins differently anyway"
    elif cache.read >= 1:
        why = "nothing is cached"
    else:
        why = f"the cache went cold: the last call was {_span(cache.idle_seconds)} before"
    return f"{why}, and the view was at {fill:.0%} of the budget"
