"""The providers' prompt caches, kept as they keep them: by prefixes of what was sent.

Anthropic stores a prefix where the request has a mark, looks for earlier ones some blocks back
from each mark, and charges by Position: read up to the longest prefix it knows, written from there
to the last mark. OpenAI stores and finds prefixes by itself, in steps of 128 tokens from 1,024 on.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.engine.simulation.prompt_cache import CacheRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.ports import Clock
    from holdfast.testing.loopback.reading import Heard

SECONDS: Final = {"5m": 300.0, "1h": 3_600.0, "24h": 86_400.0}
AUTOMATIC_SECONDS: Final = 600.0
"""Seconds that OpenAI keeps an unused prefix: five to ten minutes, by its own account."""
AUTOMATIC_STEP: Final = 128
AUTOMATIC_MIN: Final = 1_024
"""OpenAI caches prefixes of 1,024 tokens and more, in steps of 128."""


class Cached(msgspec.Struct, frozen=True):
    """Of a request's input: what the cache gave, and what went into it."""

    read: int = 0
    written: int = 0
    written_1h: int = 0
    """Of what was written: to live for an hour."""


class _Kept(msgspec.Struct):
    seconds: float
    used: float


class Caches:
    """All prefixes that were sent and are still kept. Safe to use from several threads."""

    def __init__(self, clock: Clock, rules: CacheRules | None = None) -> None:
        self.rules = rules or CacheRules()
        self._clock = clock
        self._kept: dict[bytes, _Kept] = {}
        self._lock = Lock()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()

    def request(self, heard: Heard, sums: Sequence[int], chain: Sequence[bytes]) -> Cached:
        """Look up a request that is being answered, and keep what it leaves behind.

        `sums` and `chain` are its tokens and its digests up to the end of each piece.
        """
        now = self._clock()
        with self._lock:
            self._kept = {key: one for key, one in self._kept.items() if _lives(one, now)}
            if heard.has_marks:
                return self._read_marked(heard, chain, sums, now)
            return self._automatic(heard, chain, sums, now)

    def _read_marked(
        self, heard: Heard, chain: Sequence[bytes], sums: Sequence[int], now: float
    ) -> Cached:
        marks = [
            (at, piece.mark)
            for at, piece in enumerate(heard.pieces)
            if piece.mark and sums[at] >= self.rules.minimum_tokens
        ][: self.rules.marks]
        if not marks:
            return Cached()
        hit = max(self._longest_prefix(at, chain) for at, _mark in marks)
        if hit >= 0:
            self._kept[chain[hit]].used = now
        for at, mark in marks:
            kept = self._kept.get(chain[at])
            seconds = SECONDS[mark]
            self._kept[chain[at]] = _Kept(max(seconds, kept.seconds if kept else 0.0), now)
        read = sums[hit] if hit >= 0 else 0
        last = sums[marks[-1][0]]
        hour = max((sums[at] for at, mark in marks if mark == "1h"), default=0)
        return Cached(read, max(0, last - read), max(0, hour - read))

    def _longest_prefix(self, mark: int, chain: Sequence[bytes]) -> int:
        """The last piece of the longest known prefix in sight of a mark, or -1."""
        for at in range(mark, max(-1, mark - self.rules.look_back), -1):
            if chain[at] in self._kept:
                return at
        return -1

    def _automatic(
        self, heard: Heard, chain: Sequence[bytes], sums: Sequence[int], now: float
    ) -> Cached:
        known = 0
        for digest in chain:
            if digest not in self._kept:
                break
            known += 1
        tokens = sums[known - 1] if known else 0
        asked = heard.body.get("prompt_cache_retention")
        seconds = SECONDS["24h"] if asked == "24h" else AUTOMATIC_SECONDS
        for digest in chain:
            self._kept[digest] = _Kept(seconds, now)
        return Cached(tokens // AUTOMATIC_STEP * AUTOMATIC_STEP if tokens >= AUTOMATIC_MIN else 0)


def _lives(kept: _Kept, now: float) -> bool:
    return now - kept.used <= kept.seconds
