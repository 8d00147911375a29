"""When to begin an epoch, and how much to shorten: a decision on numbers alone.

Within an epoch a request is the one before it with something appended. Beginning another one costs
a rewrite of the prompt cache and ends the reasoning that a provider binds to its prefix, so it
happens seldom: when the view is nearly full, or, for results that are no longer of use, at a moment
at which the cache is cold anyway.

The caller records what was decided, and a decision stays: the view it leads to is what the next
call to `choose` sees. The numbers behind the defaults are in docs/defaults.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

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
    step_tokens: int | None = None
    """Tokens of a request from which on the whole of it costs more; None where there is no such
    step."""

    def __post_init__(self) -> None:
        if not 0 <= self.read <= 1 or self.write < self.read:
            raise BadSetting(
                f"a cache that reads at {self.read:g} and writes at {self.write:g} is not possible",
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
    """When the view is shortened, and how far. The first four are shares of the budget."""

    compact: float = 0.85
    """The view is full here: old results are shortened, or the oldest part is cut. Amid a tool
    loop it may be a little fuller."""
    keep: float = 0.55
    """A cut that the window demands leaves this much, carry-over included."""
    cold_prune: float = 0.1
    """From here on a cold cache is used to shorten results that were superseded, and above `keep`
    also what was not used for long; 1 for never."""
    cold_cut: float = 1.0
    """From here on a cold cache is used to cut; 1 for never."""
    quiet_steps: int = 4
    """Steps since a result arrived, or was last used, after which it may be shortened."""
    protected_steps: int = 3
    """The newest steps; they are neither pruned nor cut while there is another way."""
    allow: tuple[str, ...] = ()
    """Tools whose results may be pruned, as patterns with `*` and `?`; empty for all."""
    deny: tuple[str, ...] = ()
    """Tools whose results are never pruned, and cut only where that is forced. It wins over
    `allow`."""

    def __post_init__(self) -> None:
        for name in ("quiet_steps", "protected_steps"):
            if getattr(self, name) < 0:
                raise BadSetting(
                    f"`{name}` cannot be negative: {getattr(self, name)}",
                    hint="0 protects nothing",
                )
        for name in ("compact", "keep", "cold_prune", "cold_cut"):
            if not 0 < getattr(self, name) <= 1:
                raise BadSetting(
                    f"`{name}` must be above 0 and at most 1, not {getattr(self, name):g}",
                    hint="it is a share of the budget",
                )
        if not self.keep < min(self.compact, self.cold_cut):
            raise BadSetting(
                f"a cut would leave {self.keep:g} of the budget and start at "
                f"{min(self.compact, self.cold_cut):g}",
                hint="make `keep` smaller than `compact` and `cold_cut`",
            )

    def full_at(self, budget: int, *, in_loop: bool = False) -> int:
        """Return the tokens of a view that is full. A turn that is under way is let run on, as far
        as that leaves room for a step: an epoch that begins amid a tool loop ends the reasoning
        that the loop is built on."""
        share = self.compact + _LOOP_SHARE * (1 - self.compact) if in_loop else self.compact
        return int(share * budget)

    def warn_at(self, budget: int, largest_turn: int) -> int:
        """Return the tokens of messages from which on a person is warned of the next cut.

        That is one turn of the largest size in view before the cut, and at the latest a tenth
        before it.
        """
        due = self.full_at(budget)
        return max(0, min(due - largest_turn, int(_WARN_SHARE * due)))

    def flush_at(self, budget: int) -> int:
        """Return the tokens of a view from which on notes are saved, always fewer than trigger a
        cut."""
        return int((self.compact - _FLUSH_SHARE) * budget)

    def draft_at(self, budget: int) -> int:
        """Return the tokens of a view from which on the summary for its next cut is written ahead:
        so late that the cut keeps all that comes after it."""
        return int((self.compact - _DRAFT_SHARE * self.keep) * budget)

    def keeps(self, budget: int) -> int:
        """Return the tokens that a cut leaves, carry-over included."""
        return int(self.keep * budget)

    def carry_cap(self, budget: int) -> int:
        """Return the tokens that a carry-over may take."""
        return int(_CARRY_SHARE * self.keep * budget)

    def instruction_cap(self, budget: int) -> int:
        """Return the tokens that the user's instructions may take in a carry-over."""
        return int(_INSTRUCTIONS_SHARE * budget)


PolicyName: TypeAlias = Literal["thrifty", "balanced", "faithful"]
POLICIES: Final[dict[str, Policy]] = {
    "thrifty": Policy(compact=0.6, keep=0.13, cold_prune=0.1, cold_cut=0.15),
    "balanced": Policy(),
    "faithful": Policy(compact=0.9, keep=0.6, cold_prune=1.0),
}
"""`balanced` shortens at a cold moment what is no longer of use. `faithful` begins no epoch before
the window demands it. `thrifty` cuts deep whenever the cache is cold."""


def policy_of(value: object) -> Policy:
    """Return a policy by its name, or the policy itself. Raises `BadSetting`."""
    if isinstance(value, Policy):
        return value
    found = POLICIES.get(value) if isinstance(value, str) else None
    if found is None:
        names = ", ".join(f'"{name}"' for name in POLICIES)
        raise BadSetting(f"no policy {value!r:.80}", hint=f"pass {names}, or a `holdfast.Policy`")
    return found


_LOOP_SHARE: Final = 0.5
"""Of what is left above `compact`, for a tool loop to end in."""
_FLUSH_SHARE: Final = 0.08
"""Of the budget, before a cut: about the size of a turn."""
_CARRY_SHARE: Final = 0.4
"""Of the view after a cut. The rest is the newest part of the conversation, whole."""
_INSTRUCTIONS_SHARE: Final = 0.06
_DRAFT_SHARE: Final = 0.3
"""Of what a cut keeps. The rest is for the step that triggers the cut."""
_WARN_SHARE: Final = 0.9
"""Of the size at which a view is cut."""
_MIN_YIELD: Final = 0.02
"""A batch at a cold moment that frees less of the budget is not worth an epoch."""
_ENOUGH: Final = 0.4
"""A full view is pruned, and not cut, where that frees this share of the budget."""
_STEP_MARGIN: Final = 0.97
"""Of the tokens of a step in the price: near enough for the next turn to pass it."""


class StepSize(msgspec.Struct, frozen=True, gc=False):
    """The size of a unit in the current view; a unit is kept or cut as a whole."""

    tokens: int
    trim_frees: int = 0
    """Tokens that trimming its results would free; 0 if they may not be trimmed."""
    clear_frees: int = 0
    """The same for clearing them."""
    quiet: int = 0
    """Steps since it came, or since a later step last used something it holds."""
    is_superseded: bool = False
    """True if a later step replaced what it shows."""


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
    static: int = 0,
    protected: int | None = None,
    in_loop: bool = False,
) -> Decision | None:
    """Decide what to trim, clear and cut before the next call; None leaves the view alone.

    `budget` is what the messages may take; `opening` is what stands before the first step, the
    carry-over of an earlier cut; `static` is what a request has beside its messages. The newest
    step is never cut. `protected` is the first of the newest steps that stay, unless they alone
    would fill the view again. `in_loop` is true between a tool's result and the end of its turn.
    """
    total = opening + sum(step.tokens for step in steps)
    if not steps or budget <= 0:
        return None
    if total > policy.full_at(budget, in_loop=in_loop):
        reason = f"{total / budget:.0%} of the budget, the limit is {policy.compact:.0%}"
        over = total - policy.flush_at(budget)
        return _for_room(steps, policy, budget, protected, reason, over)
    if in_loop:
        return None
    if cache.is_cold and total > policy.cold_cut * budget:
        return _cut(steps, policy, budget, protected, _cold_reason(cache, total / budget))
    least = int(_MIN_YIELD * budget)
    if cache.is_cold and total > policy.cold_prune * budget:
        # Below what a cut would leave there is room for what may still be of use.
        has_room = total <= policy.keeps(budget)
        pruned = _prune(steps, policy, math.inf if has_room else policy.quiet_steps)
        return _decide(steps, pruned, 0, _cold_reason(cache, total / budget), least)
    over = _over_step(cache, static + total) if policy.cold_prune < 1 else 0
    if over:
        pruned = _prune(steps, policy, policy.quiet_steps, over)
        reason = f"a request of {cache.step_tokens:,} tokens or more costs more for each of them"
        return _decide(steps, pruned, 0, reason, over)
    return None


def least_pruned(
    total: int, *, budget: int, cache: PromptCache, policy: Policy, in_loop: bool
) -> float:
    """Return the tokens that pruning has to free: where it cannot, `choose` does not ask what it
    would free."""
    if total > policy.full_at(budget, in_loop=in_loop):
        return _enough(budget, total - policy.flush_at(budget))
    return math.inf if cache.is_cold and total > policy.cold_cut * budget else 0


def _enough(budget: int, over: int) -> int:
    return max(int(_ENOUGH * budget), over)


def _over_step(cache: PromptCache, total: int) -> int:
    """Return the tokens by which a request is too near to a step in the price."""
    step = cache.step_tokens
    if step is None or not _STEP_MARGIN * step < total < 2 * step:
        return 0  # far below it, or so far above that the step was taken on purpose
    return total - int(_STEP_MARGIN * step) + int(_ENOUGH / 2 * step)


def _for_room(
    steps: Sequence[StepSize],
    policy: Policy,
    budget: int,
    protected: int | None,
    reason: str,
    over: int,
) -> Decision | None:
    """Shorten old results where that is enough to go on with, and takes away what is `over`; else
    cut.

    The prefix is written again in any case, so all that was not used for long is shortened: the
    next epoch begins later. Where that is too little, what was trimmed is cleared.
    """
    enough = _enough(budget, over)
    for most in (None, enough):
        pruned = _prune(steps, policy, policy.quiet_steps, most)
        if pruned.frees >= enough:
            return _decide(steps, pruned, 0, reason, 1)
    return _cut(steps, policy, budget, protected, reason)


def _cut(
    steps: Sequence[StepSize],
    policy: Policy,
    budget: int,
    protected: int | None,
    reason: str,
) -> Decision | None:
    """Keep the newest steps that fit beside the carry-over, with their results as they are."""
    pruned = _Pruned(frozenset(), frozenset(), [step.tokens for step in steps], 0)
    room = policy.keeps(budget) - policy.carry_cap(budget)
    start = _tail(steps, pruned, room)
    if protected is not None and protected < start:
        newest = sum(pruned.sizes[max(0, protected) :])
        if newest <= policy.flush_at(budget) - policy.carry_cap(budget):
            start = max(0, protected)
    return _decide(steps, pruned, start, reason, 1)


class _Pruned(msgspec.Struct, frozen=True):
    """The size of each step after pruning, and the action."""

    trim: frozenset[int]
    clear: frozenset[int]
    sizes: list[int]
    frees: int


def _prune(
    steps: Sequence[StepSize], policy: Policy, quiet: float, enough: int | None = None
) -> _Pruned:
    """Shorten results that were superseded, or quiet for longer than `quiet`: first the ones that
    were quiet for longest, until `enough` tokens are free.

    A result is trimmed before it is cleared, unless a later step has it again.
    """
    trim: set[int] = set()
    clear: set[int] = set()
    sizes = [step.tokens for step in steps]
    candidates = [
        index
        for index in range(max(0, len(steps) - policy.protected_steps))
        if steps[index].is_superseded or steps[index].quiet > quiet
    ]
    candidates.sort(key=lambda index: (not steps[index].is_superseded, -steps[index].quiet))
    frees = 0
    for is_last in (False, True):
        for index in candidates:
            if enough is not None and frees >= enough:
                break
            step = steps[index]
            is_old = step.is_superseded or step.quiet > 2 * quiet or is_last
            if is_old and step.clear_frees > 0:
                clear.add(index)
                trim.discard(index)
                freed = step.clear_frees
            elif not is_last and step.trim_frees > 0:
                trim.add(index)
                freed = step.trim_frees
            else:
                continue
            frees += freed - (step.tokens - sizes[index])
            sizes[index] = step.tokens - freed
        if enough is None:
            break
    return _Pruned(frozenset(trim), frozenset(clear), sizes, frees)


def _tail(steps: Sequence[StepSize], pruned: _Pruned, room: int) -> int:
    """The first step that stays: as many of the newest as there is room for, and at least one."""
    start = len(steps) - 1
    room -= pruned.sizes[start]
    while start > 0 and pruned.sizes[start - 1] <= room:
        start -= 1
        room -= pruned.sizes[start]
    return start


def _decide(
    steps: Sequence[StepSize], pruned: _Pruned, start: int, reason: str, least: int
) -> Decision | None:
    frees = sum(step.tokens for step in steps) - sum(pruned.sizes[start:])
    if frees < max(1, least):
        return None
    return Decision(
        reason=reason,
        trim=tuple(sorted(index for index in pruned.trim if index >= start)),
        clear=tuple(sorted(index for index in pruned.clear if index >= start)),
        cut_before=start or None,
        frees=frees,
    )


def _span(seconds: float | None) -> str:
    """A time in its largest unit of which there are two."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if (seconds or 0.0) >= 2 * length:
            return f"{(seconds or 0.0) / length:,.0f} {unit}"
    return f"{seconds or 0.0:,.0f} s"


def _cold_reason(cache: PromptCache, fill: float) -> str:
    if cache.is_broken:
        why = "the next request begins differently anyway"
    elif cache.read >= 1:
        why = "nothing is cached"
    else:
        why = f"the cache went cold: the last call was {_span(cache.idle_seconds)} before"
    return f"{why}, and the view was at {fill:.0%} of the budget"
