"""Choose how long the provider keeps a session's prefix, by the pauses in its log.

A longer lifetime costs more for each token that is written and saves a whole rewrite after each
pause that it outlives. Which one is cheaper depends on how often such pauses come, so each lifetime
is charged for the calls that were made, and the cheapest is taken. Recent calls count more. Nothing
is foreseen: the pause before a call is over when the call is made.

A session that has no past is charged for one pause to come. Most sessions have one, and by then
everything that was written for a few minutes is lost. With each call that belief counts for less.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.core.log.records import Assistant
from holdfast.core.models.lifetimes import NOT_CACHED
from holdfast.core.models.usage import read_usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.generation import ModelTraits
    from holdfast.core.models.lifetimes import CacheLifetime
    from holdfast.core.models.prices import Price

READ_SHARE: Final = 0.1
"""The price of a cached token as a share of a plain one, where a model's own is not known."""
CALLS_MAX: Final = 192
"""Calls that are looked at; older ones would count for less than a seventh."""
_FADE: Final = 0.99
"""The weight of a call, relative to the one after it: a long tool loop must not make the pauses
before it forgotten, and a new habit must win within a day's work."""
_MARGIN: Final = 1.1
"""A lifetime is left once it was dearer than the cheapest by this factor."""
_GROWTH: Final = 1 / 16
"""The share of a request that is new, where no size was reported."""
_BELIEF_CALLS: Final = 2
"""Calls after which the pause that every session is charged for counts for half."""


class PastCall(NamedTuple):
    """A call to a model: when its request was sent, and how large it was; 0 if not known."""

    at: float
    tokens: int = 0


class CacheOffer(msgspec.Struct, frozen=True):
    """The lifetimes that a session may choose from, at its model's prices."""

    lifetimes: tuple[CacheLifetime, ...] = ()
    """The shortest first, each with the price of writing as a multiple of plain input."""
    read: float = READ_SHARE

    @property
    def start(self) -> CacheLifetime | None:
        """Return the lifetime before anything is known of the pace: the cheapest to write with one
        pause to come, and the longest of those."""
        paid = dict(zip(self.lifetimes, self.next_losses(), strict=True))
        return self._least({each: each.write + loss for each, loss in paid.items()})

    @property
    def cheapest(self) -> CacheLifetime | None:
        """Return the lifetime that is the cheapest to write, and the longest of those."""
        return self._least({each: each.write for each in self.lifetimes})

    def _least(self, costs: dict[CacheLifetime, float]) -> CacheLifetime | None:
        sold = [each for each in self.lifetimes if each.seconds > 0]
        return min(sold, key=lambda each: (costs[each], -each.seconds), default=None)

    def next_losses(self) -> list[float]:
        """Return what one more pause would cost with each lifetime, as a share of the request: the
        longer a lifetime is, the rarer are the pauses that outlive it."""
        shortest = min((each.seconds for each in self.lifetimes if each.seconds > 0), default=0.0)
        return [
            (each.write - self.read) * shortest / max(each.seconds, shortest, 1.0)
            for each in self.lifetimes
        ]


def offer_of(traits: ModelTraits, price: Price | None, *, is_simulated: bool = False) -> CacheOffer:
    """Return the lifetimes that a model's host sells, at the model's own prices.

    A lifetime whose request value is not documented is only for simulations.
    """
    sold = traits.cache_lifetimes if is_simulated else traits.lifetimes_to_send
    read = READ_SHARE if price is None else min(1.0, price.cache_read / price.input)
    if not sold:
        return CacheOffer(read=read)
    if price is not None:
        sold = tuple(_at_price(each, price) for each in sold)
    may_skip = traits.charges_writes
    return CacheOffer((NOT_CACHED, *sold) if may_skip else sold, read)


def _at_price(lifetime: CacheLifetime, price: Price) -> CacheLifetime:
    """The price list's own multiple, where it has one for this lifetime."""
    if lifetime.name == "1h" and price.cache_write_hour is not None:
        write = price.cache_write_hour / price.input
    elif lifetime.write > 1 and lifetime.name in ("5m", "30m"):
        write = max(1.0, price.cache_write / price.input)
    else:
        return lifetime
    return msgspec.structs.replace(lifetime, write=write)


def read_calls(records: Sequence[Record]) -> list[PastCall]:
    """Return the newest calls of a log, the oldest first.

    A cached prefix lives from the start of the request that used it: the time of the message
    before a reply, not of the reply.
    """
    return list(islice(_calls_backwards(records), CALLS_MAX))[::-1]


def _calls_backwards(records: Sequence[Record]) -> Iterator[PastCall]:
    for place in range(len(records) - 1, -1, -1):
        record = records[place]
        if not isinstance(record, Assistant) or record.ts <= 0:
            continue
        sent = records[place - 1].ts if place else 0.0
        usage = read_usage(record.usage, record.provider or "")
        at = sent if 0 < sent <= record.ts else record.ts
        yield PastCall(at, usage.prompt if usage is not None else 0)


def choose_lifetime(
    calls: Sequence[PastCall], now: float, offer: CacheOffer
) -> CacheLifetime | None:
    """Return the lifetime to ask for in a call that is made now; None where there is no choice.

    A longer one is taken up only where the prefix has to be written again anyway, because nothing
    extends the life of what was written before.
    """
    lifetimes = offer.lifetimes
    if len(lifetimes) == 1:
        return lifetimes[0]
    # Where older calls are left out, the oldest one at hand is not the first of its session.
    is_whole = len(calls) < CALLS_MAX
    start = offer.start if is_whole else offer.cheapest
    if start is None or not calls:
        return start
    terms = [(each.seconds, each.write) for each in lifetimes]
    losses = offer.next_losses()
    shortest = min(each.seconds for each in lifetimes if each.seconds > 0)
    costs = [0.0] * len(terms)
    chosen = lifetimes.index(start)
    # The first write is the same whatever comes, so no lifetime is charged for it.
    steps = pairwise((*calls, PastCall(now, calls[-1].tokens)))
    for count, (before, call) in enumerate(steps, 1):
        pause = call.at - before.at
        size = float(call.tokens or before.tokens or 1)
        old = float(before.tokens or size * (1 - _GROWTH))
        read = old * offer.read
        belief = _BELIEF_CALLS / (_BELIEF_CALLS + count) if is_whole else 0.0
        for place, (seconds, write) in enumerate(terms):
            # A prefix that has gone cold is written again, and so is one that was shortened. What
            # was shortened after a pause that this lifetime outlives was so because it was cold.
            is_lost = not seconds or pause > seconds or (size < old and pause <= shortest)
            paid = size * write if is_lost else read + max(0.0, size - old) * write
            costs[place] = _FADE * costs[place] + paid
        totals = [paid + belief * size * loss for paid, loss in zip(costs, losses, strict=True)]
        least = min(totals)
        if totals[chosen] > _MARGIN * least:
            best = len(totals) - 1 - totals[::-1].index(least)  # of equal ones the longest
            if best < chosen or pause > terms[chosen][0]:
                chosen = best
    return lifetimes[chosen]
