"""The catalog made from an installed `genai-prices`."""

from __future__ import annotations

import os
from typing import Any, Final

from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.providers.known_models.rows import (
    Catalog,
    DatedPrice,
    KnownModel,
    KnownProvider,
    NameTest,
)

PACKAGE: Final = "genai-prices"
_INFO: Final = lazy_pattern(r"genai_prices-(?P<version>[^-]+)\.dist-info")
"""The folder beside an installed package that names its version."""

_FIELDS: Final = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_hour": "cache_write_1h_mtok",
}


def package_version() -> str:
    """Return the version of the installed package; empty where there is none.

    The name of a folder tells it; `importlib.metadata` would load a parser of mail for that.
    """
    from importlib.util import find_spec

    spec = find_spec("genai_prices")
    if spec is None or spec.origin is None:
        return ""
    names = os.listdir(os.path.dirname(os.path.dirname(spec.origin)))
    found = (_INFO.fullmatch(name) for name in names)
    return max((match["version"] for match in found if match is not None), default="")


def is_newer(version: str, other: str) -> bool:
    """Return whether one version comes after another."""
    return _numbers(version) > _numbers(other)


def _numbers(version: str) -> list[int]:
    parts = version.split(".")
    return [int(part) if part.isdecimal() else 0 for part in parts]


def read_package(as_of: str) -> Catalog:
    """Read all models that are priced by the token. Importing the package takes a second."""
    from genai_prices.data import providers

    return Catalog(
        source=PACKAGE,
        version=package_version(),
        as_of=as_of,
        providers=tuple(map(_provider, providers)),
        rows=tuple(
            KnownModel(
                provider=provider.id,
                id=model.id,
                match=_test(model.match),
                window=model.context_window or 0,
                deprecated=bool(model.deprecated),
                prices=prices,
            )
            for provider in providers
            for model in provider.models
            if (prices := _prices(model.prices)) or model.context_window
        ),
    )


def _provider(found: Any) -> KnownProvider:
    return KnownProvider(
        id=found.id,
        name=found.name,
        api=found.api_pattern or "",
        url=(found.pricing_urls or [""])[0],
        match=_test(found.provider_match) if found.provider_match else None,
        models=_test(found.model_match) if found.model_match else None,
        others=tuple(found.fallback_model_providers or ()),
    )


def _test(clause: Any) -> NameTest:
    """Names are compared in small letters; a regular expression is left as it is."""
    for field in ("equals", "starts_with", "ends_with", "contains"):
        if hasattr(clause, field):
            return NameTest(**{field: getattr(clause, field).lower()})
    if hasattr(clause, "regex"):
        return NameTest(regex=clause.regex)
    if hasattr(clause, "or_"):
        return NameTest(any=tuple(map(_test, clause.or_)))
    return NameTest(all=tuple(map(_test, clause.and_)))


def _prices(found: Any) -> tuple[DatedPrice, ...]:
    entries = found if isinstance(found, list) else [found]
    made = (_price(getattr(entry, "prices", entry), entry) for entry in entries)
    return tuple(price for price in made if price is not None)


def _price(prices: Any, entry: Any) -> DatedPrice | None:
    given = {name: getattr(prices, field, None) for name, field in _FIELDS.items()}
    is_by_token = given["input"] is not None and given["output"] is not None
    if not is_by_token or getattr(prices, "requests_kcount", None):
        return None  # priced by the picture, the second, the page or the request
    limit: Any = getattr(entry, "constraint", None)
    rates = {name: _base(value) for name, value in given.items() if value is not None}
    sizes = sorted({tier.start for value in given.values() for tier in getattr(value, "tiers", ())})
    hours = None
    if hasattr(limit, "start_time"):
        hours = (_time(limit.start_time), _time(limit.end_time))
    return DatedPrice(
        **rates,
        tiers=tuple(
            {"above": size, **{name: _at(value, size) for name, value in given.items() if value}}
            for size in sizes
        ),
        since=limit.start_date.isoformat() if hasattr(limit, "start_date") else "",
        hours=hours,
    )


def _base(value: Any) -> float:
    return float(getattr(value, "base", value))


def _at(value: Any, size: int) -> float:
    """Return the rate of a prompt that is just larger than `size`."""
    reached = [tier.price for tier in getattr(value, "tiers", ()) if tier.start <= size]
    return float(reached[-1]) if reached else _base(value)


def _time(value: Any) -> str:
    from datetime import UTC, date, datetime

    if value.tzinfo is not None:
        value = datetime.combine(date(1970, 1, 1), value).astimezone(UTC).time()
    return str(value.isoformat("seconds"))
