"""The lifetimes of cached prefixes that providers sell, and what writing costs with each."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

CacheRequest = Literal["mark", "options", "retention", "automatic", "none"]
"""The request field for a lifetime: `cache_control.ttl`, `prompt_cache_options.ttl`,
`prompt_cache_retention`; no field where caching is automatic; none at all for no cache."""


class CacheLifetime(msgspec.Struct, frozen=True):
    """A lifetime of cached prefixes that a provider sells."""

    name: str
    """The value in a request: `5m`, `1h`, `30m`, `24h`."""
    seconds: float
    """Seconds that a prefix lives after its last use, at least."""
    write: float
    """The price of writing a token, as a multiple of plain input."""
    request: CacheRequest
    is_documented: bool = True
    """False if no page states the request value: such a lifetime is simulated and never sent."""


FIVE_MINUTES: Final = CacheLifetime("5m", 300.0, 1.25, "mark")
ONE_HOUR: Final = CacheLifetime("1h", 3_600.0, 2.0, "mark")
HALF_HOUR: Final = CacheLifetime("30m", 1_800.0, 1.25, "options")
HALF_DAY: Final = CacheLifetime("12h", 43_200.0, 2.5, "options", is_documented=False)
IN_MEMORY: Final = CacheLifetime("in_memory", 300.0, 1.0, "retention")
ONE_DAY: Final = CacheLifetime("24h", 86_400.0, 1.0, "retention")
AUTOMATIC: Final = CacheLifetime("automatic", 300.0, 1.0, "automatic")
"""A cache that needs no request and whose lifetime nobody states; five minutes are safe to count
on."""
LIFETIMES: Final = {
    each.name: each for each in (FIVE_MINUTES, ONE_HOUR, HALF_HOUR, IN_MEMORY, ONE_DAY)
}
"""The lifetimes that a request can name."""
NOT_CACHED: Final = CacheLifetime("none", 0.0, 1.0, "none")
"""No cache, where writing to it costs more than plain input."""
