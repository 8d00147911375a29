"""The totals of a session so far, over all its branches: turns, calls, tokens and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import msgspec

from holdfast.core.log.records import (
    Assistant,
    Checkpoint,
    Compaction,
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
from holdfast.core.models.usage import read_usage
from holdfast.core.turn.run import cost_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.prices import Price
    from holdfast.core.turn.run import RunSettings


class Totals(msgspec.Struct):
    """Sums over records, in any order."""

    turns: int = 0
    calls: int = 0
    tools: int = 0
    compactions: int = 0
    prunes: int = 0
    flushes: int = 0
    prompt: int = 0
    cached_read: int = 0
    output: int = 0
    cost: float = 0.0
    unpriced: int = 0
    """Calls without a known price or size."""

    @property
    def cache_share(self) -> float | None:
        """The share of the input that came from the provider's prompt cache."""
        return self.cached_read / self.prompt if self.prompt else None

    def add(self, records: Iterable[Record], settings: RunSettings) -> None:
        helper = (settings.summary_target or settings.target).model
        for record in records:
            match record:
                case User(extra=extra):
                    self.turns += not extra.get("meta")
                case ToolResult():
                    self.tools += 1
                case Assistant():
                    self.calls += 1
                    price = settings.price_for(record.model or settings.target.model)
                    self._charge(record.usage, record.provider, price)
                case Compaction(covers=covers):
                    self.compactions += (
                        covers is not None
                    )  # without it, a session began with this summary
                    if record.usage:
                        price = settings.price_for(record.model or helper)
                        self._charge(record.usage, None, price, record.cost)
                case Flush():
                    self.flushes += 1
                    if record.usage:
                        self._charge(record.usage, None, settings.price_for(helper))
                case Prune():
                    self.prunes += 1
                case Header() | ToolUse() | Rewind() | Undo() | Checkpoint() | Label():
                    pass  # costs nothing
                case ModelChange() | Mode() | InjectedContext() | Unknown():
                    pass  # costs nothing
                case _:
                    assert_never(record)

    def _charge(
        self,
        raw: Json | None,
        provider: str | None,
        price: Price | None,
        stated: float | None = None,
    ) -> None:
        usage = read_usage(raw, provider or "")
        if usage is None:
            self.unpriced += 1
            return
        self.prompt += usage.prompt
        self.cached_read += usage.cached_read
        self.output += usage.output or 0
        cost = stated if stated is not None else cost_of(usage, price)
        if cost is None:
            self.unpriced += 1
        else:
            self.cost += cost
