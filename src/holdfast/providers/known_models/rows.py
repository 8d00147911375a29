"""The rows of the catalog, and the tests by which a name is found in it.

A row is a line of `table.jsonl`. The first line tells which release of `genai-prices` the table was
made from; `python scripts/model_table.py` makes it again.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.models.generation import read_model_name
from holdfast.core.text.typed import decoder_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.models.prices import Price


RATES: Final = ("input", "output", "cache_read", "cache_write", "cache_write_hour")
"""The kinds of tokens that have a price of their own."""


class NameTest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A test of a name in small letters. One of the fields is set."""

    equals: str | None = None
    starts_with: str | None = None
    ends_with: str | None = None
    contains: str | None = None
    regex: str | None = None
    any: tuple[NameTest, ...] | None = None
    all: tuple[NameTest, ...] | None = None

    def matches(self, name: str) -> bool:
        """Return whether the name passes."""
        if self.any is not None:
            return any(test.matches(name) for test in self.any)
        if self.starts_with is not None:
            return name.startswith(self.starts_with)
        if self.equals is not None:
            return name == self.equals
        if self.contains is not None:
            return self.contains in name
        if self.ends_with is not None:
            return name.endswith(self.ends_with)
        if self.regex is not None:
            return re.search(self.regex, name) is not None
        return self.all is not None and all(test.matches(name) for test in self.all)

    def names(self, name: str) -> bool:
        """Return whether the test states this very name, or a pattern of it."""
        if self.any is not None:
            return any(test.names(name) for test in self.any)
        return self.equals == name or (self.regex is not None and self.matches(name))


class DatedPrice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A price, and when it holds."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_hour: float | None = None
    tiers: tuple[dict[str, float], ...] = ()
    """For each size of the prompt: `above`, and the prices that differ."""
    since: str = ""
    """The first day, year-month-day."""
    hours: tuple[str, str] | None = None
    """A part of the day, in UTC."""

    def holds(self, at: float) -> bool:
        """Return whether it holds at a moment, in seconds since 1970."""
        moment = datetime.fromtimestamp(at, UTC)
        if moment.date().isoformat() < self.since:
            return False
        if self.hours is None:
            return True
        (start, end), now = self.hours, moment.time().isoformat("seconds")
        return start <= now < end if start <= end else now >= start or now < end

    def price(self, source: str, as_of: str) -> Price | None:
        """Return the price; None where it costs nothing by the token."""
        from holdfast.core.models.prices import Price, PriceTier

        if self.input <= 0:
            return None
        base = {name: rate for name in RATES if (rate := getattr(self, name)) is not None}
        return Price(
            **_complete(base),
            as_of=as_of,
            source=source,
            tiers=tuple(
                PriceTier(int(tier["above"]), **_complete({**base, **_rates(tier)}))
                for tier in self.tiers
            ),
        )


def _rates(tier: dict[str, float]) -> dict[str, float]:
    return {name: tier[name] for name in RATES if name in tier}


def _complete(rates: dict[str, float]) -> dict[str, float]:
    """Fill in the cache: what has no price of its own costs as much as plain input."""
    return {"cache_read": rates["input"], "cache_write": rates["input"], **rates}


class KnownModel(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A model at one provider."""

    provider: str
    id: str
    match: NameTest
    window: int = 0
    """Tokens of its context window; 0 where the catalog does not say."""
    deprecated: bool = False
    prices: tuple[DatedPrice, ...] = ()
    """The last that holds is the price."""

    def price_at(self, at: float) -> DatedPrice | None:
        """Return the price at a moment; the oldest known before the first that is dated."""
        holding = (price for price in reversed(self.prices) if price.holds(at))
        return next(holding, self.prices[0] if self.prices else None)


class KnownProvider(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A provider: the maker of models, or a host."""

    id: str
    name: str
    api: str = ""
    """A pattern of its addresses."""
    url: str = ""
    """The page with its prices."""
    match: NameTest | None = None
    """Recognises other names of the provider."""
    models: NameTest | None = None
    """Recognises models that are its own, where no one names the provider."""
    others: tuple[str, ...] = ()
    """Providers whose models it offers as well, at their prices."""


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """All rows, and where they are from."""

    source: str
    version: str
    as_of: str
    providers: tuple[KnownProvider, ...] = ()
    rows: tuple[KnownModel, ...] = ()

    def encode(self) -> bytes:
        """Return it as lines of JSON, one for each provider and model."""
        head = {"source": self.source, "version": self.version, "as_of": self.as_of}
        return b"".join(
            msgspec.json.encode(line) + b"\n"
            for line in (
                head,
                *({"provider": row} for row in self.providers),
                *({"model": row} for row in self.rows),
            )
        )


class _Line(msgspec.Struct):
    """A line of the table."""

    source: str = ""
    version: str = ""
    as_of: str = ""
    provider: KnownProvider | None = None
    model: KnownModel | None = None


def decode(data: bytes) -> Catalog:
    """Read a table."""
    lines = decoder_of(_Line).decode_lines(data)
    return Catalog(
        source=lines[0].source,
        version=lines[0].version,
        as_of=lines[0].as_of,
        providers=tuple(line.provider for line in lines if line.provider is not None),
        rows=tuple(line.model for line in lines if line.model is not None),
    )


AS_OF: Final = "2026-11-18"
SOURCE: Final = "Holdfast's own list of what the catalog lacks"


def _row(
    provider: str, model: str, window: int, price: DatedPrice, suffix: str = r"-\d{8}"
) -> KnownModel:
    name = model.replace(".", r"\.")
    return KnownModel(
        provider=provider,
        id=model,
        match=NameTest(regex=rf"^{name}(?:{suffix})?$"),
        window=window,
        prices=(price,),
    )


_NEWEST: Final = DatedPrice(8.0, 40.0, 0.2, 10.0, 16.0)
_DATE: Final = r"-\d{4}-\d{2}-\d{2}"


def _gpt(plain: float, output: float, read: float) -> DatedPrice:
    """GPT since 5.4: above 272,000 tokens all input costs twice as much, output half as much
    again."""
    step = {
        "above": 272_000,
        "input": 2 * plain,
        "output": 1.5 * output,
        "cache_read": 2 * read,
        "cache_write": 2.5 * plain,
    }
    return DatedPrice(plain, output, read, 1.25 * plain, tiers=(step,))


GAPS: Final = (
    _row("anthropic", "claude-fable-5-2", 1_000_000, _NEWEST),
    _row("anthropic", "claude-mythos-5-2", 1_000_000, _NEWEST),
    _row("anthropic", "claude-mythos-5-1", 1_000_000, DatedPrice(10.0, 50.0, 0.25, 12.5, 20.0)),
    _row("anthropic", "claude-mythos-5", 1_000_000, DatedPrice(10.0, 50.0, 1.0, 12.5, 20.0)),
    _row("openai", "gpt-6.2-astra", 1_050_000, _gpt(8.0, 40.0, 0.4), _DATE),
    # The page has no price for reading its cache; a tenth of the input is the usual one.
    _row("openai", "gpt-6.2-sol", 1_050_000, _gpt(2.0, 10.0, 0.2), _DATE),
)

_OUTPUTS: Final[Mapping[tuple[str, str], Mapping[tuple[int, int], int]]] = {
    ("anthropic", "fable"): dict.fromkeys(((5, 0), (5, 1), (5, 2)), 128_000),
    ("anthropic", "mythos"): dict.fromkeys(((5, 0), (5, 1), (5, 2)), 128_000),
    ("anthropic", "opus"): dict.fromkeys(((4, 5), (4, 6), (4, 7), (4, 8), (5, 0), (5, 5)), 128_000),
    ("anthropic", "sonnet"): dict.fromkeys(((5, 0), (5, 5)), 128_000),
    ("anthropic", "haiku"): {(4, 5): 64_000, (5, 5): 128_000},
    ("openai", "astra"): {(6, 0): 128_000},
    ("openai", "sol"): {(6, 0): 128_000},
    ("openai", "luna"): {(6, 0): 128_000},
    ("openai", "terra"): {(6, 1): 128_000},
    ("google", "argon"): {(4, 0): 65_536},
    ("google", "pro"): {(3, 1): 65_536},
    ("google", "flash"): dict.fromkeys(((3, 6), (3, 7), (3, 8)), 65_536),
}
"""The releases of each line whose pages state how long a reply may be, and the tokens. A release
that is not here is unknown: its page may state another number."""


def output_limit(model: str) -> int:
    """Return the most tokens that a reply of a model may have, by its maker; 0 where not known."""
    name = read_model_name(model)
    return _OUTPUTS.get((name.maker, name.line), {}).get(name.version or (0, 0), 0)
