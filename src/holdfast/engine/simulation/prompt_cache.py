"""A provider's prompt cache, played through: what a request would read, write and pay.

Anthropic's published rules: a request has a few marks; what lies before a mark is kept for a time
that starts again at every use; from each mark the provider looks back a limited number of blocks
for a prefix it knows; a prefix below a minimum size is not kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.projection.policy import PromptCache
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Sequence


class CacheRules(msgspec.Struct, frozen=True):
    """The behaviour of a cache. Costs are shares of the price of a plain input token."""

    ttl_seconds: float | None = 300.0
    """Seconds that a prefix lives after its last use; None for ever."""
    read: float = 0.1
    write: float = 1.25
    marks: int = 4
    """Cache marks allowed in a request. 0 means no cache."""
    look_back: int = 20
    """Blocks before a mark that are tried."""
    minimum_tokens: int = 1_024
    step_tokens: int | None = None
    """Tokens of a request above which the whole of it costs more; None where there is no step."""

    def __post_init__(self) -> None:
        if self.marks < 0 or self.look_back < 1:
            raise BadSetting(
                f"{self.marks} marks with a look-back of {self.look_back} blocks make no sense",
                hint="give 0 to 4 marks, and a look-back of at least 1 (20 for Anthropic)",
            )

    def state(self, idle: float | None) -> PromptCache:
        """Return what a policy may know of the cache, so long after the last request."""
        return PromptCache(
            idle, self.ttl_seconds, self.read, self.write, step_tokens=self.step_tokens
        )


class Charge(msgspec.Struct, frozen=True, gc=False):
    """The tokens of one request, by how they are paid for."""

    read: int
    written: int
    plain: int

    def cost(self, rules: CacheRules) -> float:
        """In plain input tokens."""
        return self.read * rules.read + self.written * rules.write + self.plain


class SimulatedPromptCache:
    """The cache of one session. Positions are numbers of blocks, the static part being the first.

    Between two changes a conversation only grows, so a prefix is known by its length; anyone who
    changes something in the middle says from where on.
    """

    def __init__(self, rules: CacheRules) -> None:
        self.rules = rules
        self._kept: dict[int, tuple[float, float | None]] = {}
        """Length of a prefix in blocks → when it was last used, and how long it lives then."""
        self._ended = 0
        """The end of the previous request, as far as it is unchanged."""

    def is_warm(self, beyond: int, now: float) -> bool:
        """Return whether a prefix longer than `beyond` blocks could still be read."""
        return any(length > beyond and self._lives(length, now) for length in self._kept)

    def change_after(self, length: int) -> None:
        """Mark everything after the first `length` blocks as changed."""
        self._kept = {kept: used for kept, used in self._kept.items() if kept <= length}
        self._ended = min(self._ended, length)

    def request(
        self, sums: Sequence[int], now: float, *, opening: int = 1, rules: CacheRules | None = None
    ) -> Charge:
        """Send a request. `sums[n]` are the tokens of its first n blocks, `opening` is how many
        blocks stand before the history; `rules` has the lifetime that this request asks for.

        A prefix that is read keeps the lifetime that it was written with.
        """
        self.rules = rules or self.rules
        end = len(sums) - 1
        marks = self._marks(end, opening, sums)
        hit = max((self._found(mark, now) for mark in marks), default=0)
        last = max(marks, default=0)
        for mark in (*marks, hit):
            if mark:
                is_read = mark <= hit and mark in self._kept
                lives = self._kept[mark][1] if is_read else self.rules.ttl_seconds
                self._kept[mark] = (now, lives)
        self._ended = end
        written = max(0, sums[last] - sums[hit])
        return Charge(sums[hit], written, sums[end] - sums[hit] - written)

    def _marks(self, end: int, opening: int, sums: Sequence[int]) -> list[int]:
        """The end, the static part, where the last request ended, and the end of the opening."""
        wanted = dict.fromkeys(mark for mark in (end, 1, self._ended, opening) if mark)
        chosen = list(wanted)[: self.rules.marks]
        return [mark for mark in chosen if sums[mark] >= self.rules.minimum_tokens]

    def _found(self, mark: int, now: float) -> int:
        for length in range(mark, max(0, mark - self.rules.look_back), -1):
            if self._lives(length, now):
                return length
        return 0

    def _lives(self, length: int, now: float) -> bool:
        kept = self._kept.get(length)
        if kept is None:
            return False
        used, seconds = kept
        return seconds is None or now - used <= seconds
