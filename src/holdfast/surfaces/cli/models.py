"""`models`: what is believed about a model, and why: its API, window, output limit and price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from holdfast.core.models.catalog import family_of
from holdfast.core.models.generation import ModelTraits, traits_of
from holdfast.core.models.pace import CacheOffer, offer_of
from holdfast.core.models.window import output_reserve
from holdfast.providers.known_models.lookup import (
    ModelFacts,
    catalog,
    find_model,
    search_models,
    window_of,
)
from holdfast.providers.known_models.rows import output_limit
from holdfast.providers.models import model
from holdfast.providers.registry import PREFIXES
from holdfast.surfaces.cli.command import ResultCommand, option, pick, place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.models.dialects import Target
    from holdfast.core.models.prices import Price
    from holdfast.core.window import Window
    from holdfast.surfaces.answers import Row
    from holdfast.surfaces.cli.app import App

_ROWS_MAX: Final = 40
"""Rows of a search that a screen holds; `--all` shows every one."""


class _Believed(msgspec.Struct, frozen=True):
    """Everything that a session with a model would use, and where it is from."""

    asked: str
    target: Target | None
    """None for a name without a prefix: no session can be opened with it."""
    model: str
    provider: str
    traits: ModelTraits
    window: Window
    found: ModelFacts | None

    @property
    def price(self) -> Price | None:
        return self.found.price() if self.found is not None else None

    @property
    def api(self) -> str:
        """The dialect that requests are written in, or the API that the maker has."""
        if self.target is not None:
            return self.target.dialect.full_name
        family = family_of(self.model)
        if self.traits.name.maker == "openai" or family is None:
            return self.traits.endpoint.replace("_", " ") if self.traits.name.maker else ""
        return family.dialect

    @property
    def output_max(self) -> int:
        family = family_of(self.model)
        if self.target is not None and self.target.output_max:
            return self.target.output_max
        capped = family.output_max if family is not None else 0
        return capped or output_limit(self.model)


class ModelsCommand(ResultCommand, frozen=True, kw_only=True):
    """Shows what is known of models."""

    example = """examples:
  holdfast models anthropic:claude-sonnet-5-5
  holdfast models gpt-6 --all
  holdfast models claude-sonnet-5-5 --provider aws"""
    name: Annotated[str, place("a model, as a session or a provider calls it", "NAME")] = ""
    provider: Annotated[str, option("the host that is asked", "NAME")] = ""
    is_all: Annotated[bool, option("show every row that matches")] = False

    def run(self, app: App) -> tuple[_Believed | None, list[ModelFacts]]:  # noqa: ARG002
        believed = _believe(self.name, self.provider) if self.name else None
        rows = search_models(believed.model if believed is not None else "")
        of_host = (facts for facts in rows if self.provider in ("", facts.provider.id))
        return believed, list(of_host)

    def plain(self, found: tuple[_Believed | None, list[ModelFacts]]) -> Any:
        believed, rows = found
        about = pick(catalog(), "source", "version", "as_of")
        return {
            "catalog": {**about, "models": len(catalog().rows)},
            "believed": _describe(believed) if believed is not None else None,
            "models": [
                pick(facts.model, "id", "deprecated")
                | {"provider": facts.provider.id, "window": facts.model.window or None}
                | {"price": facts.price()}
                for facts in (rows if self.is_all or self.name else ())
            ],
        }

    def show(self, found: tuple[_Believed | None, list[ModelFacts]], app: App) -> None:
        believed, rows = found
        if believed is not None:
            _show_describe(believed, app)
        shown = rows if self.is_all else rows[:_ROWS_MAX] if self.name else []
        heads = ("model", "provider", ">window", ">in", ">out", ">cached", ">to cache", "")
        app.out.table(heads, map(_row, shown))
        source = f"{catalog().source} {catalog().version}, {catalog().as_of}"
        if len(shown) < len(rows):
            app.out.note(f"{len(rows):,} rows of {source}; name a model, or pass --all")
        else:
            app.out.note(f"{len(rows):,} of {len(catalog().rows):,} rows of {source}")


def _believe(name: str, provider: str) -> _Believed:
    """Read a name as a session reads it: with a prefix, or as a provider or a log has it."""
    made = model(name, provider=provider) if name.partition(":")[0] in PREFIXES else None
    target = made.target if made is not None else None
    named = target.model if target is not None else name
    host = provider or (target.provider if target is not None else "")
    return _Believed(
        asked=name,
        target=target,
        model=named,
        provider=host,
        traits=traits_of(host, named),
        window=made.window if made is not None else window_of(named, host),
        found=find_model(named, host),
    )


def _describe(believed: _Believed) -> dict[str, Any]:
    found, window, traits = believed.found, believed.window, believed.traits
    return {
        "name": believed.model,
        "provider": believed.provider or None,
        "api": believed.api or None,
        **dict.fromkeys(("endpoint", "reasoning", "thinks_unasked")),
        **(pick(traits, "endpoint", "reasoning", "thinks_unasked") if traits.name.is_known else {}),
        **pick(traits, "basis", "thinking_modes", "efforts"),
        **pick(window, window="tokens", window_source="source", window_confidence="confidence"),
        "output_max": believed.output_max or None,
        "output_reserve": output_reserve(window),
        "cache_lifetimes": _offer(believed).lifetimes,
        "price": believed.price,
        "price_source": found.catalog if found is not None else None,
        "price_page": found.provider.url if found is not None else None,
        "deprecated": found.model.deprecated if found is not None else None,
    }


def _offer(believed: _Believed) -> CacheOffer:
    return offer_of(believed.traits, believed.price)


def _show_describe(believed: _Believed, app: App) -> None:
    out, found, window = app.out, believed.found, believed.window
    is_old = found is not None and found.model.deprecated
    out.line(believed.asked + " (deprecated)" * is_old)
    out.line(f"  window   {window.tokens:,} tokens, {window.confidence}: {window.source}")
    limit = f"at most {believed.output_max:,} tokens" if believed.output_max else "no limit known"
    out.line(f"  output   {limit}; a session reserves {output_reserve(window):,}")
    for label, text in _lines(believed):
        out.line(f"  {label:<8} {text}")
    price = believed.price
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


_REASONING: Final = {
    "bound": "goes back only behind the prefix that produced it",
    "must_return": "must go back",
    "unbound": "may go back",
    "none": "none",
}
_BASIS: Final = {
    "documented": "as the maker describes this version",
    "extrapolated": "not described yet: the newest rules of its line are assumed",
    "unknown": "the name does not say",
}


def _lines(believed: _Believed) -> Iterator[tuple[str, str]]:
    """Yield the shape of the API: what the generation of the model decides."""
    traits = believed.traits
    if not believed.api:
        yield "API", "unknown: say `openai:NAME@http://host/v1` or another prefix"
        return
    yield "API", f"{believed.api}; {_BASIS[traits.basis]}"
    if traits.name.is_known:
        modes = ", ".join(traits.thinking_modes or traits.efforts) or "nothing to choose"
        when = "always on or on unless asked" if traits.thinks_unasked else "only if asked"
        yield "thinking", f"{when} ({modes})" if traits.reasons else "none"
        yield "", f"reasoning: {_REASONING[traits.reasoning]}"
    offer = _offer(believed)
    sold = [each for each in offer.lifetimes if each.request != "none"]
    shown = ", ".join(f"{each.name} {each.write:g}×" for each in sold) or "no lifetime is known"
    yield "cache", f"{shown}; reads {offer.read:g}×" if sold else shown


def _rates(price: Any) -> str:
    hour = f", {price.cache_write_hour:g} for an hour" if price.cache_write_hour else ""
    return (
        f"${price.input:g} in, {price.output:g} out, {price.cache_read:g} cached, "
        f"{price.cache_write:g} to cache{hour}"
    )


def _row(facts: ModelFacts) -> Row:
    price: Price | None = facts.price()
    names = ("input", "output", "cache_read", "cache_write")
    rates = ("" if price is None else f"{getattr(price, name):g}" for name in names)
    return (
        facts.model.id,
        facts.provider.id,
        f"{facts.model.window:,}" if facts.model.window else "",
        *rates,
        "deprecated" if facts.model.deprecated else "more above" if price and price.tiers else "",
    )
