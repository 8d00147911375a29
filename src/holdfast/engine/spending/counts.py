"""Counts of model calls in this process, by model and agent, for its metrics."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.spending.amounts import NANODOLLARS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.models.usage import Usage
    from holdfast.core.spending.amounts import Amount

FIRST_TOKEN_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds."""
_LABELS_MAX: Final = 2_000
"""Combinations of labels that are kept apart; what comes later is counted as `other`."""
_OTHER: Final = "other"


class CallLabels(NamedTuple):
    """The labels that a call is counted by."""

    model: str
    provider: str
    agent: str
    owner: str


class Latency:
    """The time to the first part of replies, in the buckets of a histogram."""

    def __init__(self) -> None:
        self.buckets = [0] * len(FIRST_TOKEN_BUCKETS)
        self.sum = 0.0
        self.count = 0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.sum += seconds
        self.count += 1
        for place, bound in enumerate(FIRST_TOKEN_BUCKETS):
            self.buckets[place] += seconds <= bound

    def join(self, other: Latency) -> None:
        """Add the counts of another."""
        self.sum += other.sum
        self.count += other.count
        self.buckets = [one + more for one, more in zip(self.buckets, other.buckets, strict=True)]


class CallCounts:
    """The calls of one process. Safe for threads."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[CallLabels, str]] = Counter()
        """By their end: `answered`, `failed` or `broken_off`."""
        self.tokens: Counter[tuple[CallLabels, str]] = Counter()
        """By kind: `input`, `cache_read`, `cache_write` and `output`."""
        self.dollars: Counter[CallLabels] = Counter()
        """In nanodollars."""
        self.unpriced: Counter[CallLabels] = Counter()
        """Tokens that no price is known for."""
        self.seconds: dict[CallLabels, float] = {}
        self.first: dict[CallLabels, Latency] = {}
        self.refused: Counter[tuple[str, str]] = Counter()
        """Calls that were not made, by reason and agent."""
        self._known: set[CallLabels] = set()
        self._lock = threading.Lock()

    def add(
        self,
        labels: CallLabels,
        state: str,
        usages: Sequence[Usage],
        taken: Amount,
        seconds: float,
        first: float | None,
    ) -> None:
        """Count a call that has ended."""
        with self._lock:
            labels = self._place(labels)
            self.calls[(labels, state)] += 1
            self.seconds[labels] = self.seconds.get(labels, 0.0) + seconds
            for usage in usages:
                self.tokens[(labels, "input")] += usage.plain_input
                self.tokens[(labels, "cache_read")] += usage.cached_read
                self.tokens[(labels, "cache_write")] += usage.cached_write
                self.tokens[(labels, "output")] += usage.output or 0
            self.dollars[labels] += taken.nanodollars
            if taken.tokens and not taken.nanodollars:
                self.unpriced[labels] += taken.tokens
            if first is not None:
                self.first.setdefault(labels, Latency()).add(first)

    def refuse(self, reason: str, agent: str) -> None:
        """Count a call that was not made."""
        with self._lock:
            self.refused[(reason, agent)] += 1

    def snapshot(self) -> CallCounts:
        """Return a copy as it is now."""
        found = CallCounts()
        with self._lock:
            found.calls, found.tokens = self.calls.copy(), self.tokens.copy()
            found.dollars, found.unpriced = self.dollars.copy(), self.unpriced.copy()
            found.seconds, found.refused = dict(self.seconds), self.refused.copy()
            for labels, latency in self.first.items():
                found.first[labels] = Latency()
                found.first[labels].join(latency)
        return found

    def _place(self, labels: CallLabels) -> CallLabels:
        if labels in self._known:
            return labels
        if len(self._known) >= _LABELS_MAX:
            return CallLabels(_OTHER, _OTHER, _OTHER, _OTHER)
        self._known.add(labels)
        return labels

    def cost(self, labels: CallLabels) -> float:
        """Return the dollars of some calls."""
        return self.dollars[labels] / NANODOLLARS
