"""The totals of a session over all its branches: turns, calls and tokens.

They hold no prices, so that they can be kept beside a log whatever a token costs today.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

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
from holdfast.core.models.usage import Usage, read_usage

if TYPE_CHECKING:
    from holdfast.core.log.records import Json, Record


PROMPT_SIZES: Final = (512_000, 272_000, 256_000, 200_000, 128_000, 100_000)
"""Sizes of prompts above which models have other prices, the largest first. Calls above one are
added up apart, so that they can be priced later."""

_SIZE_MARK: Final = "\x1f"


def totals_key(model: str, prompt: int) -> str:
    """Return the key of the calls to a model with prompts of about this size."""
    above = next((size for size in PROMPT_SIZES if prompt > size), 0)
    return f"{model}{_SIZE_MARK}{above}" if above else model


def read_totals_key(key: str) -> tuple[str, int]:
    """Return the model of a key, and a size of prompts by which its calls are priced."""
    model, mark, above = key.rpartition(_SIZE_MARK)
    return (model, int(above) + 1) if mark and above.isdecimal() else (key, 0)


class ModelTotals(msgspec.Struct):
    """The calls to one model, without those whose cost a record states."""

    calls: int = 0
    prompt: int = 0
    cached_read: int = 0
    cached_write: int = 0
    cached_write_1h: int = 0
    output: int = 0

    def add(self, usage: Usage) -> None:
        self.calls += 1
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
    tools: int = 0
    compactions: int = 0
    prunes: int = 0
    flushes: int = 0
    prompt: int = 0
    cached_read: int = 0
    output: int = 0
    unknown: int = 0
    """Calls of which no usage is known."""
    stated_cost: float = 0.0
    """Dollars that records state themselves."""
    replies: dict[str, ModelTotals] = msgspec.field(default_factory=dict)
    """Calls for replies, by `totals_key`; under an empty name where the record has none."""
    helpers: dict[str, ModelTotals] = msgspec.field(default_factory=dict)
    """Calls for summaries and notes, by `totals_key`."""

    @property
    def cache_share(self) -> float | None:
        """The share of the input that came from the provider's prompt cache."""
        return self.cached_read / self.prompt if self.prompt else None

    def add(self, record: Record) -> None:
        """Count the next record."""
        # By exact type: to ask a struct's class for its instances takes several times as long.
        if type(record) is ToolResult:
            self.tools += 1
            return
        if type(record) is Assistant and not record.usage:
            self.calls += 1
            self.unknown += 1
            return
        match record:
            case User(extra=extra):
                self.turns += not extra.get("meta")
            case ToolResult():
                self.tools += 1
            case Assistant():
                self.calls += 1
                self._charge(self.replies, record.model, record.usage, record.provider)
            case Compaction(covers=covers):
                self.compactions += covers is not None  # without it, the session began with it
                if record.usage:
                    self._charge(self.helpers, record.model, record.usage, cost=record.cost)
            case Flush():
                self.flushes += 1
                if record.usage:
                    self._charge(self.helpers, None, record.usage)
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
        models: dict[str, ModelTotals],
        model: str | None,
        raw: Json | None,
        provider: str | None = None,
        cost: float | None = None,
    ) -> None:
        usage = read_usage(raw, provider or "")
        if usage is None:
            self.unknown += 1
            return
        self.prompt += usage.prompt
        self.cached_read += usage.cached_read
        self.output += usage.output or 0
        if cost is not None:
            self.stated_cost += cost
        else:
            models.setdefault(totals_key(model or "", usage.prompt), ModelTotals()).add(usage)
