"""The totals of a session over all its branches: turns, calls and tokens.

They hold no prices, so that they can be kept beside a log whatever a token costs today.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, assert_never

import msgspec

from holdfast.core.log.records import (
    Assistant,
    CallFailure,
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
    ToolUse,
    Undo,
    Unknown,
    User,
)
from holdfast.core.models.usage import Usage, read_billed

if TYPE_CHECKING:
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
