"""The price of a call: dollars for a million tokens, by kind of token and size of the prompt.

Cached prefixes have lifetimes, and writing one costs by its lifetime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from holdfast.core.models.usage import Usage


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
"""A cache that needs no request and whose lifetime no one states; five minutes are safe to count
on."""
LIFETIMES: Final = {
    each.name: each for each in (FIVE_MINUTES, ONE_HOUR, HALF_HOUR, IN_MEMORY, ONE_DAY)
}
"""The lifetimes that a request can name."""
NOT_CACHED: Final = CacheLifetime("none", 0.0, 1.0, "none")
"""No cache, where writing to it costs more than plain input."""


class PriceTier(msgspec.Struct, frozen=True):
    """The prices of a call whose whole prompt has more tokens than `above`."""

    above: int
    """Prompts larger than this many tokens have these prices."""
    input: float
    """Dollars for a million tokens of input."""
    output: float
    """The same for output."""
    cache_read: float
    """The same for input that is read from the cache."""
    cache_write: float
    """The same for input that is written to the cache."""
    cache_write_hour: float | None = None
    """The same for an hour."""


class Price(msgspec.Struct, frozen=True):
    """United States dollars for a million tokens."""

    input: float
    """Dollars for a million tokens of input."""
    output: float
    """The same for output."""
    cache_read: float
    """The same for input that is read from the cache."""
    cache_write: float
    """To keep a prefix for minutes; the price of plain input where caching is automatic."""
    cache_write_hour: float | None = None
    """To keep it for an hour, where that can be bought."""
    as_of: str = ""
    """The date of the list that it is from."""
    source: str = "given"
    """The origin of the figures."""
    tiers: tuple[PriceTier, ...] = ()
    """The prices of larger prompts, the smallest first. A tier holds for all tokens of the call."""

    def __post_init__(self) -> None:
        if self.input <= 0 or min(self.output, self.cache_read, self.cache_write) < 0:
            raise BadSetting(
                "a price must be positive: "
                f"input {self.input:g}, output {self.output:g}, cache read {self.cache_read:g}, "
                f"cache write {self.cache_write:g}",
                hint="give dollars for a million tokens, for example input 3 and output 15",
            )

    @property
    def note(self) -> str:
        """Return the remark to show beside a sum made with this price."""
        if not self.as_of:
            return "prices as given"
        return f"{self.source}, list price as of {self.as_of}; verify before you rely on it"

    def rates(self, prompt: int) -> Price | PriceTier:
        """Return the prices of a call with a prompt of this size."""
        above = (tier for tier in reversed(self.tiers) if prompt > tier.above)
        return next(above, self)


def cost_of(usage: Usage | None, price: Price | None, prompt: int | None = None) -> float | None:
    """The cost of a call in dollars, by list price; None where its size or its price is unknown.

    For the sum of several calls, `prompt` is the size of the prompt of each.
    """
    if usage is None or price is None:
        return None
    return _dollars(usage, price.rates(usage.prompt if prompt is None else prompt))


def cost_without_cache(usage: Usage, price: Price, prompt: int | None = None) -> float:
    """The cost of the same call if the provider had no prompt cache; `prompt` as above."""
    rates = price.rates(usage.prompt if prompt is None else prompt)
    return (usage.prompt * rates.input + (usage.output or 0) * rates.output) / 1_000_000


def _dollars(usage: Usage, rates: Price | PriceTier) -> float:
    hourly = rates.cache_write_hour if rates.cache_write_hour is not None else rates.cache_write
    tokens = (
        usage.plain_input * rates.input
        + usage.cached_read * rates.cache_read
        + (usage.cached_write - usage.cached_write_1h) * rates.cache_write
        + usage.cached_write_1h * hourly
        + (usage.output or 0) * rates.output
    )
    return tokens / 1_000_000
