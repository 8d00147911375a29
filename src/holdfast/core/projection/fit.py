"""Making a view small enough, by decisions that are written down.

First what the economy advises: old results are trimmed and cleared, whole units cut, and a carry
left in their place. Then, as far as the budget forces it, the newest turn is cut in and at last
shortened inside itself. The user's newest message stays whole where it fits beside the newest step
at its shortest, and that step is left out only where hundreds of calls are too much even then.
What cannot be made to fit is an error with its sums.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Final

from holdfast.core.models.messages import Image
from holdfast.core.projection.draft import (
    find_superseded,
    newest_steps,
    opaque_before,
    prunable,
    prunable_results,
    quiet_steps,
    release,
)
from holdfast.core.projection.policy import StepSize, choose, least_pruned
from holdfast.core.projection.prune import chars_of, clear
from holdfast.core.projection.sizes import water_level
from holdfast.core.projection.units import is_opaque
from holdfast.core.projection.view import Form
from holdfast.errors import CannotFit

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.models.window import Budget
    from holdfast.core.projection.draft import Superseded, ViewDraft
    from holdfast.core.projection.policy import Decision, Policy, PromptCache
    from holdfast.core.projection.request import Pressure
    from holdfast.core.projection.units import ContextUnit, MessagePart

_EMPTY_SHARE: Final = 12
"""If more than this part of the room stays empty after a cut, the unit before it is shortened to
fill it."""
_SLACK_SHARE: Final = 8
"""Of the tokens that a carry-over may take, the part that may stay empty."""
_MINIMAL_CHARS: Final = 240
"""Characters kept of each part of the newest step when there is room for nothing else."""
_PIN_TOKENS: Final = 120
"""With less room for each of them, the oldest messages of a turn are left out: a shorter one says
little more than which record has it."""
_PAST_SHARE: Final = 8
"""The part of the room that the carry-over keeps while a turn that is too large is shortened."""
_REST_SHARE: Final = 20
"""The part of the room that stays free then: others count in other units than we do."""
_STEP_SHARE: Final = 4
"""The part of the room that a step in flight gets beside a message that would fill all of it."""
_HALVINGS: Final = 10
"""A result is shortened to within a thousandth of what could stay."""
_PINS_SHARE: Final = 4
"""The part of the room that the older messages of a turn keep while a step can give way."""


def advise(
    draft: ViewDraft, budget: Budget, policy: Policy, cache: PromptCache, *, static: int = 0
) -> None:
    """Do what the policy advises, before anything has to be done. `static` are the tokens of a
    request beside its messages."""
    last = draft.units[-1] if draft.units else None
    # A reply without calls ends its turn.
    in_loop = last is not None and not last.is_user and last.parts[-1].role == "user"
    if not _may_act(draft, budget, policy, cache, static=static, in_loop=in_loop):
        return
    is_allowed = prunable_results(policy)
    first = draft.start  # the policy counts from the first unit that is still there
    superseded = find_superseded(draft.units, first)
    least = least_pruned(
        draft.total, budget=budget.tokens, cache=cache, policy=policy, in_loop=in_loop
    )
    decision = choose(
        _step_sizes(draft, policy, is_allowed, superseded)
        if _can_free(draft, policy, is_allowed, superseded, least)
        else list(map(StepSize, draft.sizes[first:])),
        budget=budget.tokens,
        cache=cache,
        policy=policy,
        opening=draft.total - sum(draft.sizes[first:]),
        static=static,
        protected=newest_steps(draft.units, policy) - first,
        in_loop=in_loop,
    )
    carry_tokens = policy.carry_cap(budget.tokens)
    if decision is None or not _is_worth_it(draft, decision, carry_tokens):
        return
    draft.reasons.append(decision.reason)
    for index in decision.trim:
        draft.prune(first + index, Form("trim"), is_allowed)
    for index in decision.clear:
        draft.prune(first + index, Form("clear"), is_allowed)
    if decision.cut_before is not None:
        _cut_and_fill(draft, first + decision.cut_before, policy, budget.tokens)
        _relieve(draft, policy, budget.tokens, carry_tokens)


def _may_act(
    draft: ViewDraft,
    budget: Budget,
    policy: Policy,
    cache: PromptCache,
    *,
    static: int,
    in_loop: bool,
) -> bool:
    """Return whether the policy could advise anything: most calls need no closer look."""
    if draft.total > policy.full_at(budget.tokens, in_loop=in_loop):
        return True
    if in_loop:
        return False
    is_near_step = cache.step_tokens is not None and static + draft.total > cache.step_tokens // 2
    least = min(policy.cold_prune, policy.cold_cut) * budget.tokens
    return is_near_step or (cache.is_cold and draft.total > least)


def _cut_and_fill(draft: ViewDraft, start: int, policy: Policy, budget: int) -> None:
    """Cut before `start`, or earlier where the carry-over leaves room for more: little room is not
    worth making it again.

    A unit that is too large for what is left is kept shortened, rather than left out beside an
    empty window.
    """
    carry_tokens, room = policy.carry_cap(budget), policy.keeps(budget)
    left = room - draft.size_after_cut(start, carry_tokens)
    is_slack = left <= carry_tokens // _SLACK_SHARE
    while not is_slack and start - 1 > draft.start and draft.sizes[start - 1] <= left:
        start -= 1
        left -= draft.sizes[start]
    is_empty = left > room // _EMPTY_SHARE and start > draft.start
    draft.cut(start - 1 if is_empty else start, carry_tokens)
    if is_empty and draft.total > room:
        _squeeze(draft, draft.units[draft.start], room)
        if draft.total > policy.flush_at(budget):  # it has too many parts to be shortened
            draft.cut(start, carry_tokens)


def _relieve(draft: ViewDraft, policy: Policy, budget: int, carry_tokens: int) -> None:
    """Cut further where protected steps leave the view too full to go on with: first what is not
    protected, then the oldest of them, as many that the next cut is a long way off."""
    start = min(newest_steps(draft.units, policy), len(draft.units) - 1)
    if draft.total > policy.flush_at(budget) and start > draft.start:
        draft.cut(start, carry_tokens)
    if draft.total > policy.flush_at(budget):
        release(draft, policy.keeps(budget))


_ASKED_SHARE: Final = 0.3
"""The share of a small view that stays when a user asks for a cut, and that of its carry-over
beside the user's words."""
_ASKED_YIELD: Final = 0.05
"""The share of the view that such a cut must free."""


CUT_REASONS: Final[dict[Pressure, str]] = {
    "cut": "asked for",
    "over": "the provider counted more tokens than the window has",
}
"""The words for a cut that is made however much room there is."""


def cut_now(draft: ViewDraft, budget: Budget, policy: Policy, reason: str) -> None:
    """Cut whatever room there is: to the low-water mark, or to a part of what is there.

    The user's words have the room that every cut gives them. Nothing is cut where that gains
    nothing.
    """
    total = sum(draft.sizes[draft.start :])
    kept = policy.keeps(budget.tokens) - policy.carry_cap(budget.tokens)
    room = min(kept, int(_ASKED_SHARE * total))
    start = len(draft.units) - 1
    room -= draft.sizes[start] if start >= 0 else 0
    while start > draft.start and draft.sizes[start - 1] <= room:
        start -= 1
        room -= draft.sizes[start]
    start = min(start, max(draft.start, newest_steps(draft.units, policy)))
    if start <= draft.start:
        return
    # What an earlier cut left keeps its room: it stands for more than the units do.
    carried = draft.total - total
    carry_tokens = policy.carry_cap(budget.tokens)
    most = int((1 - _ASKED_YIELD) * draft.total)
    for rest in (carried + int(_ASKED_SHARE * total), 0):
        if draft.size_after_cut(start, carry_tokens, rest) <= most:
            draft.reasons.append(reason)
            draft.cut(start, carry_tokens, rest)
            return


def _is_worth_it(draft: ViewDraft, decision: Decision, carry_tokens: int) -> bool:
    """A cut must take away more than it leaves behind; the question of the newest turn stays."""
    start = decision.cut_before
    return start is None or draft.frees(draft.start + start) > carry_tokens


def _can_free(
    draft: ViewDraft,
    policy: Policy,
    is_allowed: Callable[[MessagePart], bool],
    superseded: Superseded,
    least: float,
) -> bool:
    """Return whether pruning could free `least` tokens, if all that may be old enough is cleared.
    The results themselves are the first bound; each step that is looked at makes it closer."""
    prunes, age = prunable(draft, policy), 0
    bounds: dict[int, int] = {}
    for index in range(len(draft.units) - 1, draft.start - 1, -1):
        unit = draft.units[index]
        if index in prunes and (age > policy.quiet_steps or superseded.has(index)):
            results = [draft.tokens_of_part(part) for part in unit.parts if is_allowed(part)]
            bounds[index] = sum(results) + 1
        age += not unit.is_user
    most = sum(bounds.values())
    for index, bound in bounds.items():
        if most < least:
            break
        most -= bound - max(draft.frees_by_pruning(index, is_allowed))
    return most >= least


def _step_sizes(
    draft: ViewDraft,
    policy: Policy,
    is_allowed: Callable[[MessagePart], bool],
    superseded: Superseded,
) -> list[StepSize]:
    """The units that are left, as the policy sees them; what pruning frees where it can matter."""
    prunes = prunable(draft, policy)
    first = draft.start
    quiet = quiet_steps(draft, first)
    return [
        draft.step_size(
            index,
            is_allowed if index in prunes else None,
            quiet[index - first],
            policy.quiet_steps,
            is_superseded=index in superseded.again
            or (index in superseded.outdated and quiet[index - first] > policy.quiet_steps),
        )
        for index in range(first, len(draft.units))
    ]


def force(draft: ViewDraft, budget: Budget, policy: Policy, room: int | None = None) -> None:
    """Make a draft fit that is still too large: the newest turn is what is left to cut in.

    With a `room`, it comes down to that where it can: the next projection may have no more.
    """
    if draft.total <= budget.tokens:
        return
    draft.reasons.append(f"{draft.total:,} tokens, the budget is {budget.tokens:,}")
    room = budget.tokens if room is None else min(room, budget.tokens)
    press(draft, budget, policy, room)
    if draft.total > budget.tokens:
        raise _cannot_fit(draft, budget)


def press(draft: ViewDraft, budget: Budget, policy: Policy, room: int) -> None:
    """Bring a draft down to `room`, or as far as it goes."""
    draft.is_pressed = True
    if budget.at_most is None or not _cut_little(draft, room, policy):
        is_cut = _cut_oldest(draft, room, policy)
        if draft.total > room:
            _shorten(draft, policy, room, is_cut=is_cut)
    draft.leave_out_repeats(room)


def _cut_little(draft: ViewDraft, room: int, policy: Policy) -> bool:
    """Take away only what must go, after a refusal: results are shortened, oldest first, then
    cleared, then the oldest units cut; whether that is enough."""
    is_allowed = prunable_results(policy)
    for form in (Form("trim"), Form("clear")):
        for index in prunable(draft, policy):
            if _prune_little(draft, index, form, is_allowed, room):
                return True
    most = policy.carry_cap(room)
    starts = range(draft.start + 1, len(draft.units))
    place = bisect.bisect_left(
        starts,
        True,
        key=lambda start: draft.size_after_cut(start, _little_carry(draft, start, most)) <= room,
    )
    if place == len(starts):
        return False
    return _cut_and_shorten(draft, starts[place], most, room)


def _cut_and_shorten(draft: ViewDraft, start: int, most: int, room: int) -> bool:
    """Cut before `start`; the unit before it stays, shortened, where it is too large to be left out
    beside an empty window. Return whether that is enough."""
    before = start - 1
    carry_tokens = _little_carry(draft, start, most)
    left = room - draft.size_after_cut(start, carry_tokens)
    if left > room // _EMPTY_SHARE and draft.sizes[before] > left:
        if before > draft.start:
            draft.cut(before, _little_carry(draft, before, most))
        if _prune_little(draft, before, Form("trim"), lambda _part: True, room):
            return True
        if _squeeze(draft, draft.units[before], room):
            return True
    draft.cut(start, carry_tokens)
    return draft.total <= room


def _prune_little(
    draft: ViewDraft, index: int, form: Form, is_allowed: Callable[[MessagePart], bool], room: int
) -> bool:
    """Shorten the results of one step, by no more than it takes to fit; whether all of it fits."""
    before = dict(draft.forms)
    chars = {part.record: chars_of(draft.shape(part)) for part in draft.units[index].parts}
    draft.prune(index, form, is_allowed)
    least = draft.total
    if least > room:
        return False
    best = {rec: new for rec, new in draft.forms.items() if rec in chars and new != before.get(rec)}
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        share = (low + high) / 2
        longer = {record: Form("trim", int(share * chars[record])) for record in best}
        draft.show(longer)
        if draft.total > room:
            high = share
        else:
            low = share
            best = longer if draft.total > least else best
    draft.show(best)
    return True


def _little_carry(draft: ViewDraft, start: int, most: int) -> int:
    """The tokens of a carry-over that leave most of what a cut frees, beside those of the last."""
    carried = draft.total - sum(draft.sizes[draft.start :])
    return min(most, carried + draft.frees(start) // 3)


def _tokens_to_hold(draft: ViewDraft, start: int) -> int:
    """Return the tokens of the protected steps before `start` that a cut there would keep."""
    older = sum(draft.tokens_of(unit) for unit in draft.opening if draft.holds(unit))
    places = range(draft.start, start)
    opaque = opaque_before(draft, start)
    older += draft.tokens_of(opaque) if opaque is not None else 0
    return older + sum(draft.sizes[place] for place in places if draft.holds(draft.units[place]))


def _cut_oldest(draft: ViewDraft, room: int, policy: Policy) -> bool:
    """Keep the newest step, and of those before it as many as leave half of what is free; whether
    anything was cut."""
    carry_tokens = policy.carry_cap(room)
    user = draft.latest_user()
    start = max(draft.start, len(draft.units) - 1)
    kept = carry_tokens + (draft.tokens_of(user) if user is not None else 0)
    kept += sum(draft.sizes[start:]) + _tokens_to_hold(draft, start)
    most = (kept + room) // 2
    while start > draft.start and kept + draft.sizes[start - 1] <= most:
        start -= 1
        kept += draft.sizes[start]
    if start == draft.start and not draft.opening:
        return False  # nothing is before it: a cut would leave nothing out
    draft.cut(start, carry_tokens)
    release(draft, room)
    if draft.total > room:
        draft.fit_carry(room, carry_tokens, min(carry_tokens, policy.instruction_cap(room)))
    return True


def _shorten(draft: ViewDraft, policy: Policy, room: int, *, is_cut: bool) -> None:
    """The newest turn alone is too large: shorten it inside itself, the newest words last.

    What the user said before it keeps a little room, and gets what is left in the end.
    """
    release(draft, 0)
    if draft.summary is not None:
        draft.recarry(_past_tokens(policy, room))
    _shorten_turn(draft, policy, room, is_cut=is_cut)
    most = room - room // _REST_SHARE
    if draft.summary is not None and draft.total < most:
        draft.fit_carry(most, policy.carry_cap(room))


def _past_tokens(policy: Policy, room: int) -> int:
    return min(policy.carry_cap(room), room // _PAST_SHARE)


def _shorten_turn(draft: ViewDraft, policy: Policy, room: int, *, is_cut: bool) -> None:
    _shorten_pins(draft, room, room // _PINS_SHARE)
    if draft.total <= room:
        return
    newest = draft.units[-1] if draft.start < len(draft.units) else None
    user = draft.latest_user()
    if newest is not None and newest is not user:
        # A step is in flight. It gives way first, part by part, down to a few words each: what is
        # left of a dump is worth less than half of what everything before it is told in. A message
        # that would not fit alone leaves it a part of the room: an agent that does not see what it
        # did last does it again, for ever.
        if user is not None and (size := draft.tokens_of(user)) > room:
            _squeeze(draft, user, draft.total - size + room - room // _STEP_SHARE)
        if is_cut:
            draft.recarry(policy.carry_cap(room) // 2)
            if _squeeze(draft, newest, room):
                return
            draft.recarry(_past_tokens(policy, room))
        if _squeeze(draft, newest, room):
            return
        is_short = draft.tokens_of(newest) <= room // _STEP_SHARE
        if is_short and user is not None and _squeeze(draft, user, room):
            return
        draft.cut(len(draft.units), _past_tokens(policy, room))
    if draft.total <= room or (user is not None and _squeeze(draft, user, room)):
        return
    if draft.summary:
        draft.recarry(0)
    _shorten_pins(draft, room, 0)
    if draft.total > room and user is not None:
        _squeeze(draft, user, room, least=1)


def _shorten_pins(draft: ViewDraft, room: int, least: int) -> None:
    """Shorten what the user said in the newest turn before the last message, the longest first.

    Together they keep `least` tokens, however little room there is. Where there are too many of
    them, the oldest are left out.
    """
    stays = draft.latest_user()
    older = [unit for unit in draft.pinned if unit is not stays and not is_opaque(unit)]
    if draft.total <= room or not older:
        return
    sizes = [draft.tokens_of(unit) for unit in older]
    others = draft.total - sum(sizes)
    aim = max(least, room - others)
    count = min(len(older), max(0, aim // _PIN_TOKENS))
    while count < len(older) and sum(sizes[len(sizes) - count - 1 :]) <= aim:
        count += 1  # short ones
    if count < len(older):
        dropped = older[: len(older) - count]
        draft.keep_pins([unit for unit in draft.pinned if unit not in dropped])
        older, sizes = older[len(dropped) :], sizes[len(dropped) :]
    level = water_level(sizes, aim)
    while older and draft.total - others > aim and level >= 1:
        draft.show(
            {
                unit.first: Form("trim", int(level / size * sum(map(chars_of, unit.parts))))
                for unit, size in zip(older, sizes, strict=True)
                if size > level
            }
        )
        level *= 0.9


def _squeeze(draft: ViewDraft, unit: ContextUnit, room: int, least: int = _MINIMAL_CHARS) -> bool:
    """Shorten the parts of a unit, none below `least` characters; whether everything then fits.

    The pictures of a message go first: they never take room from the words.
    """
    pictured = {part.record for part in unit.parts if part.record and _has_pictures(part)}
    draft.show({record: Form("clear") for record in pictured})
    if pictured and draft.total <= room:
        return True
    chars = {
        part.record: chars_of(clear(part) if part.record in pictured else part)
        for part in unit.parts
        if part.record
    }
    size = draft.tokens_of(unit)
    share = max(0.0, (size - (draft.total - room)) / size) * 0.95
    while chars:
        keeps = {record: max(least, int(length * share)) for record, length in chars.items()}
        draft.show(
            {
                record: Form("clear" if record in pictured else "trim", keep)
                for record, keep in keeps.items()
                if keep < chars[record]
            }
        )
        if draft.total <= room:
            return True
        if all(length * share <= least for length in chars.values()):
            return False
        share *= 0.8
    return False


def _has_pictures(part: MessagePart) -> bool:
    """Return whether pictures stand beside the words of a message."""
    return part.source != "tool_result" and any(type(block) is Image for block in part.blocks)


def _cannot_fit(draft: ViewDraft, budget: Budget) -> CannotFit:
    """The refusal where less than the minimum is left for messages: a matter of the caller's own
    parts, never of the log."""
    user = draft.latest_user()
    opaque = sum(draft.tokens_of(unit) for unit in draft.opening if is_opaque(unit))
    with_it = f" with the provider's own compaction of {opaque:,}" if opaque else ""
    return CannotFit(
        f"the newest turn does not fit: it needs {draft.total:,} tokens at its shortest{with_it} "
        f"and has {budget.tokens:,} of a window of {budget.window.tokens:,} ({budget.sums})",
        parts={
            "window": budget.window.tokens,
            "newest_turn": draft.total,
            "newest_user_message": draft.tokens_of(user) if user is not None else 0,
            "budget": budget.tokens,
            **budget.parts(),
        },
        hint=budget.ways_out(),
    )
