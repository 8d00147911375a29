"""Public list prices for a million tokens, each with the date it was known.

Prices change and differ by contract, region and size of the request. These are for comparing
policies with each other, not for checking a bill: verify them, or give your own.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from holdfast.errors import BadSetting


class Price(msgspec.Struct, frozen=True):
    """United States dollars for a million tokens."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    """To keep a prefix for minutes; the price of plain input where caching is automatic."""
    cache_write_hour: float | None = None
    """To keep it for an hour, where that can be bought."""
    as_of: str = ""
    """When it was last looked up, year and month."""
    source: str = "given"

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


def _anthropic(plain: float, output: float, as_of: str) -> Price:
    return Price(
        input=plain,
        output=output,
        cache_read=round(plain * 0.1, 4),
        cache_write=round(plain * 1.25, 4),
        cache_write_hour=round(plain * 2, 4),
        as_of=as_of,
        source="Anthropic",
    )


def _automatic(source: str, plain: float, output: float, cached: float, as_of: str) -> Price:
    """Caching that nobody has to ask for: a write costs what plain input costs."""
    return Price(plain, output, cached, plain, as_of=as_of, source=source)


_TABLE: Final[tuple[tuple[str, Price], ...]] = (
    (r"claude-opus-4-[5-9]", _anthropic(5.0, 25.0, "2025-11")),
    (r"claude-(opus-4|3-opus)", _anthropic(15.0, 75.0, "2025-08")),
    (r"claude-haiku-4", _anthropic(1.0, 5.0, "2025-10")),
    (r"claude-3-5-haiku", _anthropic(0.8, 4.0, "2025-08")),
    (r"claude-(sonnet|3-[57]-sonnet|3-sonnet)", _anthropic(3.0, 15.0, "2025-09")),
    (r"gpt-5(\.\d)?-nano", _automatic("OpenAI", 0.05, 0.4, 0.005, "2025-08")),
    (r"gpt-5(\.\d)?-mini", _automatic("OpenAI", 0.25, 2.0, 0.025, "2025-08")),
    (r"gpt-5", _automatic("OpenAI", 1.25, 10.0, 0.125, "2025-08")),
    (r"gpt-4\.1-nano", _automatic("OpenAI", 0.1, 0.4, 0.025, "2025-04")),
    (r"gpt-4\.1-mini", _automatic("OpenAI", 0.4, 1.6, 0.1, "2025-04")),
    (r"gpt-4\.1", _automatic("OpenAI", 2.0, 8.0, 0.5, "2025-04")),
    (r"gpt-4o-mini", _automatic("OpenAI", 0.15, 0.6, 0.075, "2024-10")),
    (r"gpt-4o", _automatic("OpenAI", 2.5, 10.0, 1.25, "2024-10")),
    (r"gemini-2\.5-flash-lite", _automatic("Google", 0.1, 0.4, 0.025, "2025-07")),
    (r"gemini-2\.5-flash", _automatic("Google", 0.3, 2.5, 0.075, "2025-06")),
    (r"gemini-2\.5-pro", _automatic("Google", 1.25, 10.0, 0.31, "2025-06")),
)
"""The first pattern that is found in a model's name decides."""

DEFAULT_MODEL: Final = "claude-opus-4-5"
"""Whose price stands in where no other is known."""


def price_of(model: str | None) -> Price | None:
    """The list price of a model, or None where the table has none."""
    name = (model or "").lower()
    return next((price for pattern, price in _TABLE if re.search(pattern, name)), None)


def default_price() -> Price:
    """A price to compare with where the model's own is not known."""
    price = price_of(DEFAULT_MODEL)
    assert price is not None, "the table has the default model"
    return price
