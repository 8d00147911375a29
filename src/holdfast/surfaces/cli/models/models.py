"""`models`: what is believed about a model, and why: its API, window, output limit and price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.models.catalog import family_of
from holdfast.providers.known_models.lookup import (
    ModelFacts,
    catalog,
    find_model,
    search_models,
    window_of,
)
from holdfast.surfaces.cli.app import App, Verb

if TYPE_CHECKING:
    import argparse

    from holdfast.core.models.prices import Price
    from holdfast.surfaces.answers import Row

_ROWS_MAX: Final = 40
"""Rows of a search that a screen holds; `--all` shows every one."""
_EXAMPLE: Final = """examples:
  holdfast models claude-sonnet-5-5
  holdfast models gpt-6 --all
  holdfast models claude-sonnet-5-5 --provider aws"""


def _add_models(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", nargs="?", default="", help="a model, as a provider calls it"
    )
    parser.add_argument("--provider", metavar="NAME", default="", help="the host that is asked")
    parser.add_argument("--all", action="store_true", help="show every row that matches")


def _models(args: argparse.Namespace, app: App) -> int:
    found = find_model(args.name, args.provider) if args.name else None
    rows = search_models(args.name)
    if args.provider:
        rows = [facts for facts in rows if facts.provider.id == args.provider]
    if app.out.is_json:
        app.out.json(
            {
                "catalog": {
                    "source": catalog().source,
                    "version": catalog().version,
                    "as_of": catalog().as_of,
                    "models": len(catalog().rows),
                },
                "believed": _describe(args.name, args.provider, found) if args.name else None,
                "models": [_as_json(facts) for facts in rows] if args.all or args.name else [],
            }
        )
        return 0
    if args.name:
        _show_describe(args.name, args.provider, found, app)
    _show_rows(rows, app, shows_all=args.all, is_asked=bool(args.name))
    return 0


def _describe(name: str, provider: str, found: ModelFacts | None) -> dict[str, Any]:
    family, window = family_of(name), window_of(name, provider)
    price = found.price() if found is not None else None
    return {
        "name": name,
        "api": family.dialect if family is not None else None,
        "window": window.tokens,
        "window_source": window.source,
        "window_confidence": window.confidence,
        "output_max": (family.output_max or None) if family is not None else None,
        "price": msgspec.to_builtins(price) if price is not None else None,
        "price_page": found.provider.url if found is not None else None,
        "deprecated": found.model.deprecated if found is not None else None,
    }


def _as_json(facts: ModelFacts) -> dict[str, Any]:
    price = facts.price()
    return {
        "id": facts.model.id,
        "provider": facts.provider.id,
        "window": facts.model.window or None,
        "deprecated": facts.model.deprecated,
        "price": msgspec.to_builtins(price) if price is not None else None,
    }


def _show_describe(name: str, provider: str, found: ModelFacts | None, app: App) -> None:
    out, family, window = app.out, family_of(name), window_of(name, provider)
    out.line(f"{name}" + (" (deprecated)" if found is not None and found.model.deprecated else ""))
    out.line(f"  window   {window.tokens:,} tokens, {window.confidence}: {window.source}")
    if family is None:
        out.line("  API      unknown: say `openai:NAME@http://host/v1` or another prefix")
    else:
        limit = f", at most {family.output_max:,} tokens a reply" if family.output_max else ""
        out.line(f"  API      {family.dialect}{limit}")
    price = found.price() if found is not None else None
    if found is None:
        out.line("  price    unknown: the catalog has no such model")
    elif price is None:
        out.line(f"  price    {found.provider.name} charges nothing by the token, or does not say")
    else:
        out.line(f"  price    {_rates(price)} a million tokens")
        for tier in price.tiers:
            out.line(f"           {_rates(tier)} for all of a prompt above {tier.above:,}")
        out.line(f"           {found.provider.name}, {found.catalog}")
        if found.provider.url:
            out.line(f"           {found.provider.url}")
    out.line()


def _rates(price: Any) -> str:
    hour = f", {price.cache_write_hour:g} for an hour" if price.cache_write_hour else ""
    return (
        f"${price.input:g} in, {price.output:g} out, {price.cache_read:g} cached, "
        f"{price.cache_write:g} to cache{hour}"
    )


def _show_rows(rows: list[ModelFacts], app: App, *, shows_all: bool, is_asked: bool) -> None:
    shown = rows if shows_all else rows[:_ROWS_MAX] if is_asked else []
    if shown:
        app.out.table(
            ("model", "provider", ">window", ">in", ">out", ">cached", ">to cache", ""),
            [_row(facts) for facts in shown],
        )
    source = f"{catalog().source} {catalog().version}, {catalog().as_of}"
    if len(shown) < len(rows):
        app.out.note(f"{len(rows):,} rows of {source}; name a model, or pass --all")
    else:
        app.out.note(f"{len(rows):,} of {len(catalog().rows):,} rows of {source}")


def _row(facts: ModelFacts) -> Row:
    price: Price | None = facts.price()
    rates = (
        (price.input, price.output, price.cache_read, price.cache_write)
        if price is not None
        else (None,) * 4
    )
    return (
        facts.model.id,
        facts.provider.id,
        f"{facts.model.window:,}" if facts.model.window else "",
        *("" if rate is None else f"{rate:g}" for rate in rates),
        "deprecated" if facts.model.deprecated else "more above" if price and price.tiers else "",
    )


VERBS = {
    "models": Verb(_add_models, _models, _EXAMPLE),
}
