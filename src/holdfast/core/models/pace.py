"""Choose how long the provider keeps a session's prefix, by the pauses in its log.

A longer lifetime costs more for each token that is written and saves a whole rewrite after each
pause that it outlives. Which one is cheaper depends on how often such pauses come, so each lifetime
is charged for the calls that were made, and the cheapest is taken. Recent calls count more. Nothing
is foreseen: the pause before a call is over when the call is made.

A session begins with the lifetime that is cheapest to write. Its first long pause costs a rewrite,
and a program that never pauses pays for no pause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.core.log.records import Assistant
from holdfast.core.models.prices import NOT_CACHED
from holdfast.core.models.usage import read_usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.generation import ModelTraits
    from holdfast.core.models.prices import CacheLifetime, Price

READ_SHARE: Final = 0.1
"""The price of a cached token as a share of a plain one, where a model's own is not known."""
_FADE: Final = 0.99
"""The weight of a call, relative to the one after it: a long tool loop must not make the pauses
before it forgotten, and a new habit must win within a day's work."""
_MARGIN: Final = 1.05
"""A lifetime is left once it was dearer than the cheapest by this factor."""
_GROWTH: Final = 1 / 16
"""The share of a request that is new, where no size was reported."""


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
        """Return the lifetime that is the cheapest to write, and the longest of those."""
        sold = [each for each in self.lifetimes if each.seconds > 0]
        return min(sold, key=lambda each: (each.write, -each.seconds), default=None)


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


class Pace:
    """The calls of a log, and the lifetimes that they ask for, each call looked at once.

    A log that does not go on from the newest call looked at is read again. What was before a cut
    counts as long as the session is held.
    """

    def __init__(self, offer: CacheOffer) -> None:
        self._offer = offer
        self._terms = [(each.seconds, each.write) for each in offer.lifetimes]
        self._shortest = min((each.seconds for each in offer.lifetimes if each.seconds), default=0)
        self._begin()

    def _begin(self) -> None:
        self._last = ""
        """The newest record that was looked at."""
        self.newest: PastCall | None = None
        """The newest call to a model."""
        self.asked = self._offer.start
        """The lifetime that it asked for, by the calls before it."""
        costs = (0.0,) * len(self._terms)
        start = 0 if self.asked is None else self._offer.lifetimes.index(self.asked)
        self._state = _Charged(costs, start)

    def read(self, records: Sequence[Record]) -> None:
        """Take in what was appended.

        A cached prefix lives from the start of the request that used it: the time of the message
        before a reply, not of the reply.
        """
        places = range(len(records) - 1, -1, -1)
        done = next((at + 1 for at in places if records[at].id == self._last), 0)
        if not self._last or not done:
            self._begin()
            done = 0
        for place in range(done, len(records)):
            record = records[place]
            if isinstance(record, Assistant) and record.ts > 0:
                sent = records[place - 1].ts if place else 0.0
                usage = read_usage(record.usage, record.provider or "")
                at = sent if 0 < sent <= record.ts else record.ts
                self.add(PastCall(at, usage.prompt if usage is not None else 0))
        self._last = records[-1].id if records else ""

    def add(self, call: PastCall) -> None:
        """Take in one call more."""
        self.asked = self.choose(call.at)
        if self.newest is not None and len(self._terms) > 1:
            self._state = self._charge(self.newest, call)
        self.newest = call

    def choose(self, now: float) -> CacheLifetime | None:
        """Return the lifetime to ask for in a call that is made now; None where there is no choice.

        A longer one is taken up only where the prefix has to be written again anyway, because
        nothing extends the life of what was written before.
        """
        if len(self._terms) == 1:
            return self._offer.lifetimes[0]
        if self._offer.start is None or self.newest is None:
            return self._offer.start
        charged = self._charge(self.newest, PastCall(now, self.newest.tokens))
        return self._offer.lifetimes[charged.chosen]

    def _charge(self, before: PastCall, call: PastCall) -> _Charged:
        """Charge each lifetime for a call, and choose the one to ask for in it. The first write
        is the same whatever comes, so no lifetime is charged for it."""
        state, terms = self._state, self._terms
        pause = call.at - before.at
        size = float(call.tokens or before.tokens or 1)
        old = float(before.tokens or size * (1 - _GROWTH))
        read = old * self._offer.read
        costs: list[float] = []
        for (seconds, write), cost in zip(terms, state.costs, strict=True):
            # A prefix that has gone cold is written again, and so is one that was shortened. What
            # was shortened after a pause that this lifetime outlives was so because it was cold.
            is_lost = not seconds or pause > seconds or (size < old and pause <= self._shortest)
            paid = size * write if is_lost else read + max(0.0, size - old) * write
            costs.append(_FADE * cost + paid)
        least, chosen = min(costs), state.chosen
        if costs[chosen] > _MARGIN * least:
            best = len(costs) - 1 - costs[::-1].index(least)  # of equal ones the longest
            if best < chosen or pause > terms[chosen][0]:
                chosen = best
        return _Charged(tuple(costs), chosen)


class _Charged(NamedTuple):
    """The cost of each lifetime over the calls so far, older ones counting less, and the one that
    is in use."""

    costs: tuple[float, ...]
    chosen: int
