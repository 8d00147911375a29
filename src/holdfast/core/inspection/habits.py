"""Causes of cost beyond the work itself: caches that were lost, and habits by their price.

A token costs again with each call that it stands in. So a result is charged, for each call until
the next cut, with the share of the call's input that it took.
"""

from __future__ import annotations

import bisect
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from holdfast.core.extract.names import identifiers
from holdfast.core.models.prices import FIVE_MINUTES, ONE_HOUR, cost_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.models.prices import Price
    from holdfast.core.models.usage import Usage

HabitKind = Literal["head", "cold", "changed", "repeated", "unused", "failed"]
"""`head`: system prompt and tools, in every call. `cold`: a pause outlived the cached prefix.
`changed`: the prefix was another one. `repeated`: results of a call that was made again, or
whose text came again.
`unused`: results of which nothing comes up again. `failed`: results of calls that failed."""
HABITS_MAX: Final = 10
"""As many as a person reads."""
DUPLICATE_CHARS_MIN: Final = 200
"""Shorter results that are alike say nothing."""
_LOST_TOKENS_MIN: Final = 4_096
_LOST_SHARE_MIN: Final = 0.2
"""Of what the cache should have had. Hosts keep prefixes in blocks, and lose a few of them."""
_UNUSED_TOKENS_MIN: Final = 500
"""A shorter result is cheap, whether it is used or not."""
_SCANNED_CHARS: Final = 20_000
"""Of a longer result, the names of its beginning stand for all."""


class BilledCall(NamedTuple):
    """A call to the model."""

    record: str
    ts: float
    model: str
    usage: Usage | None
    price: Price | None
    said: str
    """The texts and arguments of its reply."""


class CarriedResult(NamedTuple):
    """The result of a call."""

    record: str
    name: str
    """Its file, or else its tool."""
    tool: str
    asked: str
    """The tool with its arguments; equal for the same call again."""
    tokens: int
    is_failed: bool
    text: str
    place: int
    """The number of the call that was the first to read it."""


class CacheBreak(msgspec.Struct, frozen=True):
    """A call that paid again for a prefix which the call before it had in the cache."""

    record: str
    """The reply of the call."""
    ts: float
    """When it was made, in seconds since 1970."""
    tokens: int
    """The tokens that were paid for again."""
    cost: float | None
    """Dollars beyond reading them from the cache; None where no price is known."""
    pause: float
    """Seconds since the call before."""
    is_cold: bool
    """The pause outlived the prefix; else the prefix was another one."""


class Habit(msgspec.Struct, frozen=True):
    """Something that was paid for and could have been spared."""

    kind: HabitKind
    """The kind of habit."""
    name: str
    """The file or the tool; empty where it is neither."""
    times: int
    """The number of times that it happened."""
    tokens: int
    """Tokens of input that were billed for it, in all calls."""
    cost: float | None
    """Dollars for them; None where no price is known."""
    record: str = ""
    """The newest record of it."""


def find_breaks(calls: Sequence[BilledCall], epochs: Sequence[int]) -> tuple[CacheBreak, ...]:
    """Return where a cached prefix was lost. `epochs` are the calls before each cut and the like,
    which mean to lose it."""
    found = (
        _find_break(before, call)
        for place, (before, call) in enumerate(pairwise(calls), start=1)
        if place not in epochs
    )
    return tuple(each for each in found if each is not None)


def _find_break(before: BilledCall, call: BilledCall) -> CacheBreak | None:
    had, usage = before.usage, call.usage
    if had is None or usage is None or not had.cached_read + had.cached_write:
        return None
    kept = min(had.cached_read + had.cached_write, usage.prompt)
    lost = kept - usage.cached_read
    if lost < max(_LOST_TOKENS_MIN, _LOST_SHARE_MIN * kept):
        return None
    pause = call.ts - before.ts if before.ts > 0 else 0.0
    lifetime = ONE_HOUR if had.cached_write_1h else FIVE_MINUTES
    cost = None
    if call.price is not None:
        rates = call.price.rates(usage.prompt)
        paid = rates.cache_write if usage.cached_write else rates.input
        cost = lost * max(0.0, paid - rates.cache_read) / 1_000_000
    return CacheBreak(call.record, call.ts, lost, cost, pause, pause >= lifetime.seconds)


def find_habits(
    calls: Sequence[BilledCall],
    results: Sequence[CarriedResult],
    cuts: Sequence[int],
    breaks: Sequence[CacheBreak],
    static: int,
) -> tuple[Habit, ...]:
    """Return the habits of a conversation, the most expensive first. `static` are the tokens of the
    system prompt and the tools."""
    carried = _Carried(calls, cuts)
    wasted = [each for each in _find_wasted(results, calls, carried) if each.tokens]
    found = [*_find_lost_caches(breaks), *wasted]
    if static:
        known = sum(call.usage is not None for call in calls)
        last = calls[-1].record if calls else ""
        found.append(Habit("head", "", known, static * known, carried.price_always(static), last))
    return add_habits(found)


def add_habits(habits: Iterable[Habit], most: int = HABITS_MAX) -> tuple[Habit, ...]:
    """Add up the same habits, of one conversation or of many: the most expensive first."""
    sums: dict[tuple[str, str], Habit] = {}
    for each in habits:
        key = (each.kind, each.name)
        so_far = sums.get(key)
        sums[key] = each if so_far is None else _add(so_far, each)
    dearest = sorted(sums.values(), key=lambda each: (-(each.cost or 0.0), -each.tokens))
    return tuple(dearest[:most])


def _add(one: Habit, other: Habit) -> Habit:
    costs = [each.cost for each in (one, other) if each.cost is not None]
    return Habit(
        one.kind,
        one.name,
        one.times + other.times,
        one.tokens + other.tokens,
        sum(costs) if costs else None,
        other.record,
    )


def _find_lost_caches(breaks: Iterable[CacheBreak]) -> Iterator[Habit]:
    for each in breaks:
        kind: HabitKind = "cold" if each.is_cold else "changed"
        yield Habit(kind, "", 1, each.tokens, each.cost, each.record)


def _find_wasted(
    results: Sequence[CarriedResult], calls: Sequence[BilledCall], carried: _Carried
) -> Iterator[Habit]:
    """Each result under the first that is true of it."""
    again = _find_made_again(results)
    used = _find_used(results, calls)
    for at, each in enumerate(results):
        if each.is_failed:
            yield carried.make_habit("failed", each.tool, each, each.place)
        elif at in again:
            yield carried.make_habit("repeated", each.name, each, again[at])
        elif each.tokens >= _UNUSED_TOKENS_MIN and at not in used:
            yield carried.make_habit("unused", each.tool, each, each.place)


def _find_made_again(results: Sequence[CarriedResult]) -> dict[int, int]:
    """Return the results whose call was made again, or whose text came again; and the first call
    to read the newer one."""
    newer: dict[str, int] = {}
    found = {}
    for at in range(len(results) - 1, -1, -1):
        each = results[at]
        keys = [f"asked {each.asked}"]
        if len(each.text) >= DUPLICATE_CHARS_MIN:
            keys.append(f"text {each.text}")
        places = [newer[key] for key in keys if key in newer]
        if places:
            found[at] = min(places)
        newer.update(dict.fromkeys(keys, each.place))
    return found


def _find_used(results: Sequence[CarriedResult], calls: Sequence[BilledCall]) -> set[int]:
    """Return the results of which a name comes up again, and those that brought no new name:
    no one can say of them."""
    last_said: dict[str, int] = {}
    for place, call in enumerate(calls):
        last_said.update(dict.fromkeys(identifiers(call.said), place))
    known: set[str] = set()
    used: set[int] = set()
    said_until = 0
    for at, each in enumerate(results):
        for call in calls[said_until : each.place]:
            known.update(identifiers(call.said))
        said_until = max(said_until, each.place)
        if each.tokens < _UNUSED_TOKENS_MIN:
            continue
        fresh = set(identifiers(each.text[:_SCANNED_CHARS])) - known
        if not fresh or any(last_said.get(name, -1) >= each.place for name in fresh):
            used.add(at)
        known |= fresh
    return used


class _Carried:
    """The cost of tokens that stay in the request from one call to another."""

    def __init__(self, calls: Sequence[BilledCall], cuts: Sequence[int]) -> None:
        rates = [_rate(call) for call in calls]
        self._is_priced = any(rate is not None for rate in rates)
        self._dollars = [0.0, *accumulate(rate or 0.0 for rate in rates)]
        """For a token in every call before this one."""
        self._billed = [0, *accumulate(int(call.usage is not None) for call in calls)]
        self._cuts = sorted(cuts)

    def price_always(self, tokens: int) -> float | None:
        """Return the cost of tokens that are in every call."""
        return tokens * self._dollars[-1] if self._is_priced else None

    def make_habit(self, kind: HabitKind, name: str, result: CarriedResult, first: int) -> Habit:
        """Return a result in every call from the `first` to the cut that takes it."""
        at = bisect.bisect_right(self._cuts, result.place)
        last = len(self._billed) - 1  # a cut may have come after calls that no one sees
        end = min(last, self._cuts[at]) if at < len(self._cuts) else last
        first = min(first, end)
        cost = result.tokens * (self._dollars[end] - self._dollars[first])
        billed = result.tokens * (self._billed[end] - self._billed[first])
        return Habit(kind, name, 1, billed, cost if self._is_priced else None, result.record)


def _rate(call: BilledCall) -> float | None:
    """The dollars for a token of a call's input, on the average."""
    if call.usage is None or not call.usage.prompt:
        return None
    cost = cost_of(msgspec.structs.replace(call.usage, output=0), call.price)
    return None if cost is None else cost / call.usage.prompt


def sum_breaks(breaks: Iterable[CacheBreak]) -> tuple[int, float | None]:
    """Return the number of lost caches, and what they cost."""
    found = list(breaks)
    costs = [each.cost for each in found if each.cost is not None]
    return len(found), sum(costs) if costs else None
