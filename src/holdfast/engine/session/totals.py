"""What a session has cost so far, whatever became of its branches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.log.records import Assistant, Compaction, Flush, Prune, ToolResult, User
from holdfast.core.models.usage import read_usage
from holdfast.core.turn.run import cost_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.prices import Price
    from holdfast.core.turn.run import Terms


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
    """Calls whose price or size is not known."""

    @property
    def cache_share(self) -> float | None:
        """How much of the input came from the provider's cache."""
        return self.cached_read / self.prompt if self.prompt else None

    def add(self, records: Iterable[Record], terms: Terms) -> None:
        helper = (terms.summary_target or terms.target).model
        for record in records:
            match record:
                case User(extra=extra):
                    self.turns += not extra.get("meta")
                case ToolResult():
                    self.tools += 1
                case Assistant():
                    self.calls += 1
                    price = terms.price_for(record.model or terms.target.model)
                    self._charge(record.usage, record.provider, price)
                case Compaction(covers=covers):
                    self.compactions += covers is not None  # or it is what the session began with
                    if record.usage:
                        price = terms.price_for(record.model or helper)
                        self._charge(record.usage, None, price, record.cost)
                case Flush():
                    self.flushes += 1
                    if record.usage:
                        self._charge(record.usage, None, terms.price_for(helper))
                case Prune():
                    self.prunes += 1

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
