"""The cost of a conversation, call by call: each call at the price of its own model and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.log.records import Assistant, Compaction, Flush
from holdfast.core.models.prices import cost_of, cost_without_cache
from holdfast.core.models.usage import read_billed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.log.records import Record
    from holdfast.core.models.prices import Price
    from holdfast.core.models.usage import Usage

    PriceFor = Callable[[str, str, float], Price | None]
    """(model, provider, time of the call) → its price"""


class ModelSpending(msgspec.Struct, frozen=True):
    """The calls to one model, and their cost."""

    model: str
    calls: int = 0
    prompt: int = 0
    cached_read: int = 0
    cached_write: int = 0
    output: int = 0
    cost: float | None = None
    """Dollars; None where no price is known."""
    without_cache: float | None = None
    price: str = ""
    """The origin of the price."""


class Spent(msgspec.Struct, frozen=True):
    """The usage that was reported over all calls, and its cost."""

    calls: int = 0
    """Calls whose usage is known."""
    unknown: int = 0
    """Calls without a usage: gaps in every sum here."""
    unpriced: int = 0
    """Calls with a usage to models without a known price: gaps in the cost."""
    prompt: int = 0
    cached_read: int = 0
    cached_write: int = 0
    output: int = 0
    cost: float | None = None
    """Dollars for the calls that have a price; None where none has."""
    without_cache: float | None = None
    price: str = ""
    models: tuple[ModelSpending, ...] = ()
    """The same by model, the dearest first."""


class CallCost(msgspec.Struct, frozen=True):
    """One call: its model, when it was made, and its cost."""

    record: str
    ts: float
    model: str
    cost: float | None


class Spending:
    """Adds up the calls of a conversation."""

    def __init__(self, price_for: PriceFor | None) -> None:
        self._price_for = price_for
        self._models: dict[str, ModelSpending] = {}
        self._last = ("", "")
        self.unknown = 0
        self.calls: list[CallCost] = []

    def add(self, record: Record) -> None:
        """Count the calls that a record reports."""
        match record:
            case Assistant():
                self._charge(record, record.model or "", record.provider or "")
            case Compaction() | Flush() if record.usage:
                model = record.model if isinstance(record, Compaction) else None
                self._charge(record, model or "", "")
            case _:
                pass  # no other record stands for a call

    def _charge(self, record: Assistant | Compaction | Flush, model: str, provider: str) -> None:
        if model.startswith("<"):
            return  # a message that a tool put into the model's mouth: no call was made
        if model:
            self._last = (model, provider or self._last[1])
        model, provider = self._last if not model else (model, provider)
        billed = read_billed(record.usage, provider)
        if not billed:
            self.unknown += 1
            return
        price = self._price_for(model, provider, record.ts) if self._price_for else None
        stated = record.cost if isinstance(record, Compaction) else None
        dollars = [cost_of(usage, price) for usage in billed]
        cost = stated if stated is not None else sum(each or 0.0 for each in dollars)
        is_priced = price is not None or stated is not None
        self.calls.append(CallCost(record.id, record.ts, model, cost if is_priced else None))
        before = self._models.get(model, ModelSpending(model))
        self._models[model] = _add(before, billed, price, cost if is_priced else None)

    def total(self) -> Spent:
        """Return the sums so far."""
        models = sorted(self._models.values(), key=lambda each: (-(each.cost or 0.0), each.model))
        priced = [each for each in models if each.cost is not None]
        return Spent(
            calls=sum(each.calls for each in models),
            unknown=self.unknown,
            unpriced=sum(each.calls for each in models if each.cost is None),
            prompt=sum(each.prompt for each in models),
            cached_read=sum(each.cached_read for each in models),
            cached_write=sum(each.cached_write for each in models),
            output=sum(each.output for each in models),
            cost=sum(each.cost or 0.0 for each in priced) if priced else None,
            without_cache=sum(each.without_cache or 0.0 for each in priced) if priced else None,
            price="; ".join(dict.fromkeys(each.price for each in priced if each.price)),
            models=tuple(models),
        )


def _add(
    before: ModelSpending, billed: list[Usage], price: Price | None, cost: float | None
) -> ModelSpending:
    bare = sum(cost_without_cache(usage, price) for usage in billed) if price is not None else cost
    return ModelSpending(
        model=before.model,
        calls=before.calls + 1,
        prompt=before.prompt + sum(usage.prompt for usage in billed),
        cached_read=before.cached_read + sum(usage.cached_read for usage in billed),
        cached_write=before.cached_write + sum(usage.cached_write for usage in billed),
        output=before.output + sum(usage.output or 0 for usage in billed),
        cost=before.cost if cost is None else (before.cost or 0.0) + cost,
        without_cache=before.without_cache if bare is None else (before.without_cache or 0) + bare,
        price=price.note if price is not None else before.price,
    )


def sum_spending(records: Iterable[Record], price_for: PriceFor | None = None) -> Spending:
    """Add up the calls of a whole conversation."""
    spending = Spending(price_for)
    for record in records:
        spending.add(record)
    return spending


def calls_before_cuts(records: Iterable[Record]) -> tuple[int, ...]:
    """Return the number of calls that were made before each compaction."""
    calls, cuts = 0, []
    for record in records:
        calls += isinstance(record, Assistant)
        if isinstance(record, Compaction):
            cuts.append(calls)
    return tuple(cuts)
