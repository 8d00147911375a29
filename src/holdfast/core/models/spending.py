"""The bill of a session: its calls, their tokens and their cost, made from its totals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from holdfast.core.log.records import Assistant, Compaction
from holdfast.core.models.prices import Price, cost_of, cost_without_cache
from holdfast.core.models.totals import SessionTotals, is_call, price_moment, read_totals_key
from holdfast.core.models.usage import read_billed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.records import Record
    from holdfast.core.models.totals import ModelTotals

PriceFor: TypeAlias = Callable[[str, str, float], Price | None]
"""Returns the price of a model at a provider and a moment; None where none is known."""


class ModelSpending(msgspec.Struct, frozen=True):
    """The calls to one model, and their cost."""

    model: str
    calls: int = 0
    unpriced: int = 0
    """Those of them without a known price."""
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
    """All calls, for replies, summaries and notes: their reported usage, and its cost."""

    calls: int = 0
    """All calls, with and without a usage."""
    unknown: int = 0
    """Those without a usage: gaps in every sum here."""
    unpriced: int = 0
    """Those with a usage, to models without a known price: gaps in the cost."""
    prompt: int = 0
    cached_read: int = 0
    cached_write: int = 0
    output: int = 0
    cost: float | None = None
    """Dollars for the calls that have a price; None where none has."""
    without_cache: float | None = None
    price: str = ""
    models: tuple[ModelSpending, ...] = ()
    """The same by model, the most expensive first."""

    @property
    def gaps(self) -> int:
        """Calls whose cost is in no sum."""
        return self.unknown + self.unpriced

    @property
    def cache_share(self) -> float | None:
        """The share of the input that came from the provider's prompt cache; None if unknown."""
        return self.cached_read / self.prompt if self.prompt else None


def bill_for(
    totals: SessionTotals,
    price_for: PriceFor | None = None,
    *,
    model_default: str = "",
    helper_default: str = "",
) -> Spent:
    """Price the totals of a session. The defaults stand where a record names no model."""
    rows: dict[str, ModelSpending] = {}

    def add(key: str, calls: ModelTotals, default: str, stated: float | None = None) -> None:
        group = read_totals_key(key)
        model = group.model or default
        price = price_for(model, group.provider, group.at) if price_for else None
        cost = stated if stated is not None else cost_of(calls.usage, price, group.prompt)
        bare = cost
        if price is not None and stated is None:
            bare = cost_without_cache(calls.usage, price, group.prompt)
        rows[model] = _add(rows.get(model, ModelSpending(model)), calls, price, cost, bare)

    for key, calls in totals.replies.items():
        add(key, calls, model_default)
    for key, calls in totals.helpers.items():
        add(key, calls, helper_default)
    whole = sum(calls.prompt + calls.output for calls in totals.stated.values())
    for key, calls in totals.stated.items():  # by model they are known together only
        add(key, calls, helper_default, totals.stated_cost * (calls.prompt + calls.output) / whole)
    models = sorted(rows.values(), key=lambda each: (-(each.cost or 0.0), each.model))
    priced = [each for each in models if each.cost is not None]
    # Older versions of a database kept the sum alone.
    rest = totals.stated_cost if not totals.stated else 0.0
    return Spent(
        calls=sum((each.calls for each in models), totals.unknown),
        unknown=totals.unknown,
        unpriced=sum(each.unpriced for each in models),
        prompt=totals.prompt,
        cached_read=totals.cached_read,
        cached_write=totals.cached_write,
        output=totals.output,
        cost=sum((each.cost or 0.0 for each in priced), rest) if priced or rest else None,
        without_cache=sum(each.without_cache or 0.0 for each in priced) if priced else None,
        price="; ".join(dict.fromkeys(each.price for each in priced if each.price)),
        models=tuple(models),
    )


def _add(
    before: ModelSpending,
    calls: ModelTotals,
    price: Price | None,
    cost: float | None,
    bare: float | None,
) -> ModelSpending:
    return ModelSpending(
        model=before.model,
        calls=before.calls + calls.calls,
        unpriced=before.unpriced + (calls.calls if cost is None else 0),
        prompt=before.prompt + calls.prompt,
        cached_read=before.cached_read + calls.cached_read,
        cached_write=before.cached_write + calls.cached_write,
        output=before.output + calls.output,
        cost=before.cost if cost is None else (before.cost or 0.0) + cost,
        without_cache=before.without_cache if bare is None else (before.without_cache or 0) + bare,
        price=price.note if price is not None else before.price,
    )


def total_of(records: Iterable[Record]) -> SessionTotals:
    """Add up the records of a whole conversation."""
    totals = SessionTotals()
    for record in records:
        totals.add(record)
    return totals


def call_cost(
    record: Assistant, price_for: PriceFor | None, model_default: str = ""
) -> float | None:
    """Return the cost of one call, as the bill has it; None where its size or price is unknown."""
    if price_for is None or not is_call(record):
        return None
    provider = record.provider or ""
    billed = read_billed(record.usage, provider)
    price = price_for(record.model or model_default, provider, price_moment(record.ts))
    if not billed or price is None:
        return None
    return sum(cost_of(usage, price) or 0.0 for usage in billed)


def calls_before_cuts(records: Iterable[Record]) -> tuple[int, ...]:
    """Return the number of calls that were made before each compaction."""
    calls, cuts = 0, []
    for record in records:
        calls += isinstance(record, Assistant) and is_call(record)
        if isinstance(record, Compaction):
            cuts.append(calls)
    return tuple(cuts)
