"""The totals of a session over all its branches: turns, calls and tokens; and its bill."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, assert_never

import msgspec

from holdfast.core.log.records import (
    Assistant,
    CallFailure,
    CallState,
    Checkpoint,
    Compaction,
    Epoch,
    Flush,
    Header,
    InjectedContext,
    Label,
    Mode,
    ModelChange,
    Prune,
    Rewind,
    ToolResult,
    ToolsAdded,
    ToolUse,
    Undo,
    Unknown,
    User,
)
from holdfast.core.models.prices import Price, cost_of, cost_without_cache
from holdfast.core.models.usage import Usage, read_billed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.records import Record


PROMPT_SIZES: Final = (512_000, 272_000, 256_000, 200_000, 128_000, 100_000)
"""Sizes of prompts above which models have other prices, the largest first. Calls above one are
added up apart, so that they can be priced later."""
_WEEK: Final = 7 * 86_400
"""In seconds."""
_FIRST_MONDAY: Final = 4 * 86_400
"""The first Monday after the beginning of 1970, in seconds."""
_NOON: Final = 12 * 3_600
"""Of a day, in seconds."""
_MARK: Final = "\x1f"


class CallGroup(NamedTuple):
    """The calls that are added up together, because one price holds for all of them."""

    model: str
    """Empty where the records name none."""
    provider: str = ""
    prompt: int = 0
    """A size of prompts by which they are priced; 0 for the smallest."""
    at: float = 0.0
    """The moment whose list prices they have; 0 where the time of the calls is unknown."""


def price_moment(ts: float) -> float:
    """Return the moment whose list price a call has: Monday noon, UTC, of its week.

    Totals are kept by week, so that they stay small however old a session is. A single call is
    priced at the same moment, so that calls add up to the totals.
    """
    if ts <= 0:
        return 0.0
    return (ts - _FIRST_MONDAY) // _WEEK * _WEEK + _FIRST_MONDAY + _NOON


def totals_key(model: str, provider: str = "", prompt: int = 0, ts: float = 0.0) -> str:
    """Return the key of the calls to a model with prompts of about this size in one week."""
    above = next((size for size in PROMPT_SIZES if prompt > size), 0)
    week = int((ts - _FIRST_MONDAY) // _WEEK) if ts > 0 else ""
    named = (model.replace(_MARK, " "), provider.replace(_MARK, " "))
    return _MARK.join((*named, str(above), str(week)))


def read_totals_key(key: str) -> CallGroup:
    """Return the calls that a key stands for. Keys of older versions have no provider and week."""
    parts = key.split(_MARK)
    model, provider, above, week = parts[0], "", "0", ""
    if len(parts) == 4:
        _model, provider, above, week = parts
    elif len(parts) == 2:
        above = parts[1]
    prompt = int(above) + 1 if above.isdecimal() and above != "0" else 0
    is_dated = week.removeprefix("-").isdecimal()
    at = float(int(week) * _WEEK + _FIRST_MONDAY + _NOON) if is_dated else 0.0
    return CallGroup(model, provider, prompt, at)


def is_call(record: Assistant) -> bool:
    """Return whether a model was called for a reply. Some agents write messages for the model."""
    return not (record.model or "").startswith("<") and record.extra.get("synthetic") is not True


class ModelTotals(msgspec.Struct):
    """The calls of one group."""

    calls: int = 0
    prompt: int = 0
    cached_read: int = 0
    cached_write: int = 0
    cached_write_1h: int = 0
    output: int = 0

    def add(self, usage: Usage) -> None:
        self.prompt += usage.prompt
        self.cached_read += usage.cached_read
        self.cached_write += usage.cached_write
        self.cached_write_1h += usage.cached_write_1h
        self.output += usage.output or 0

    @property
    def usage(self) -> Usage:
        """The tokens of all calls, as if one call had used them."""
        return Usage(
            prompt=self.prompt,
            cached_read=self.cached_read,
            cached_write=self.cached_write,
            cached_write_1h=self.cached_write_1h,
            output=self.output,
        )


class SessionTotals(msgspec.Struct):
    """Sums over the records of a session. Grows by one record at a time."""

    turns: int = 0
    calls: int = 0
    """Calls for replies. The bill (`Spent`) has those for summaries and notes as well."""
    tools: int = 0
    compactions: int = 0
    prunes: int = 0
    flushes: int = 0
    prompt: int = 0
    cached_read: int = 0
    cached_write: int = 0
    output: int = 0
    unknown: int = 0
    """Calls of which no usage is known."""
    stated_cost: float = 0.0
    """Dollars that records state themselves."""
    replies: dict[str, ModelTotals] = msgspec.field(default_factory=dict)
    """Calls for replies, by `totals_key`."""
    helpers: dict[str, ModelTotals] = msgspec.field(default_factory=dict)
    """Calls for summaries and notes, by `totals_key`."""
    stated: dict[str, ModelTotals] = msgspec.field(default_factory=dict)
    """Those of them whose cost is in `stated_cost`."""

    def add(self, record: Record) -> None:
        """Count the next record."""
        # By exact type: to ask a struct's class for its instances takes several times as long.
        if type(record) is ToolResult:
            self.tools += 1
            return
        match record:
            case User(extra=extra):
                self.turns += not extra.get("meta")
            case ToolResult():
                self.tools += 1
            case Assistant():
                if is_call(record):
                    self.calls += 1
                    self._charge(self.replies, record, record.model, record.provider)
            case Compaction():
                self.compactions += 1
                if record.usage:
                    groups = self.helpers if record.cost is None else self.stated
                    self._charge(groups, record, record.model, cost=record.cost)
            case Flush():
                self.flushes += 1
                if record.usage:
                    self._charge(self.helpers, record)
            case Prune():
                self.prunes += 1
            case Header() | ToolUse() | Rewind() | Undo() | Checkpoint() | Label():
                pass  # costs nothing
            case ModelChange() | CallFailure() | Mode() | InjectedContext() | Epoch() | Unknown():
                pass  # costs nothing
            case ToolsAdded() | CallState():
                pass  # costs nothing
            case _:
                assert_never(record)

    def _charge(
        self,
        groups: dict[str, ModelTotals],
        record: Assistant | Compaction | Flush,
        model: str | None = None,
        provider: str | None = None,
        cost: float | None = None,
    ) -> None:
        billed = read_billed(record.usage, provider or "") if record.usage else []
        if not billed:
            self.unknown += 1
            return
        self.stated_cost += cost or 0.0
        for place, usage in enumerate(billed):
            self.prompt += usage.prompt
            self.cached_read += usage.cached_read
            self.cached_write += usage.cached_write
            self.output += usage.output or 0
            key = totals_key(model or "", provider or "", usage.prompt, record.ts)
            group = groups.setdefault(key, ModelTotals())
            group.calls += place == 0  # several round trips of one reply are one call
            group.add(usage)


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
