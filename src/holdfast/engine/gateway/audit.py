"""Counts what providers report about prompts, so that a person can audit agents in production."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from holdfast.core.flow.events import EpochBegun, TroubleNoticed

if TYPE_CHECKING:
    from holdfast.core.flow.events import Event


class PromptAudit:
    """The turns of this process: epochs, reasoning that was not accepted, missed caches."""

    def __init__(self) -> None:
        self.epochs: Counter[str] = Counter()
        """Epochs that neither a compaction nor a prune began, by cause."""
        self.reasoning: Counter[tuple[str, str]] = Counter()
        """Blocks by state, `dropped` or `allowed`, and the provider's reason."""
        self.cache_misses: Counter[str] = Counter()
        """Misses by the provider's reason."""

    def take(self, event: Event) -> None:
        """Count an event, where it says something about a prompt."""
        match event:
            case EpochBegun(cause=cause):
                self.epochs[cause] += 1
            case TroubleNoticed(kind="reasoning-dropped", reasoning=blocks):
                self.reasoning.update(
                    ("dropped" if block.is_dropped else "allowed", block.reason) for block in blocks
                )
            case TroubleNoticed(kind="cache-missed", detail=reason):
                self.cache_misses[reason] += 1
            case _:  # every other event is about something else
                pass
