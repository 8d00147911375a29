"""Find a model in the catalog: its price at a moment, and its window.

The table in this folder is read when something is first looked up. Where `genai-prices` is
installed and newer than the table, the package is read instead.
"""

from __future__ import annotations

import os
import re
import time
from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.models.catalog import ASSUMED_WINDOW_TOKENS, family_of
from holdfast.core.models.generation import read_model_name
from holdfast.core.window import Window
from holdfast.providers.known_models import package
from holdfast.providers.known_models.rows import AS_OF, GAPS, SOURCE, decode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.models.prices import Price
    from holdfast.providers.known_models.rows import Catalog, KnownModel, KnownProvider

DEFAULT_MODEL: Final = "claude-opus-4-5"
"""The model whose price stands in where no other is known."""

_ALIASES: Final = {
    "kimi": "moonshotai",
    "moonshot": "moonshotai",
    "moonshot-ai": "moonshotai",
    "xai": "x-ai",
    "google ai studio": "google",
    "google-vertex": "google",
    "gemini": "google",
    "bedrock": "aws",
    "zhipu": "zhipuai",
}
"""Names that logs have for a provider, and the catalog's."""


class ModelFacts(msgspec.Struct, frozen=True):
    """A model that the catalog has, and who sells it."""

    model: KnownModel
    provider: KnownProvider
    catalog: str
    """The origin of the row, with its date."""

    def price(self, at: float | None = None) -> Price | None:
        """Return the price at a moment, now without one; None where a token costs nothing."""
        dated = self.model.price_at(time.time() if at is None or at <= 0 else at)
        as_of = AS_OF if self.model in GAPS else catalog().as_of
        return dated.price(self.provider.name, as_of) if dated is not None else None


@cache
def catalog() -> Catalog:
    """Return the catalog in use: the table, or the installed package where that is newer, and what
    both lack."""
    with open(os.path.join(os.path.dirname(__file__), "table.jsonl"), "rb") as file:
        table = decode(file.read())
    version = package.package_version()
    if package.is_newer(version, table.version):
        table = package.read_package(as_of=f"version {version}")
    known = {(row.provider, row.id) for row in table.rows}
    missing = (row for row in GAPS if (row.provider, row.id) not in known)
    return msgspec.structs.replace(table, rows=(*table.rows, *missing))


def price_of(
    model: str | None, provider: str | None = None, at: float | None = None
) -> Price | None:
    """The list price of a model, or None where the catalog has none.

    `provider` tells who was asked, because hosts have prices of their own; where the catalog has
    none of that host, the maker's price is returned. `at` is the time of the call
    in seconds since 1970, because prices change.
    """
    found = find_model(model or "", provider or "")
    return found.price(at) if found is not None else None


def default_price() -> Price:
    """A price to compare with where the model's own is not known."""
    price = price_of(DEFAULT_MODEL)
    assert price is not None, "the catalog has the default model"
    return price


def window_of(model: str, provider: str = "") -> Window:
    """The window of a model: known where the catalog or its family has it, else assumed."""
    family = family_of(model)
    if family is not None and family.is_exact:
        return Window(family.window, f"known for `{model}`", "known")
    found = find_model(model, provider)
    if found is not None and found.model.window:
        return Window(found.model.window, f"known for `{model}`, {found.catalog}", "known")
    if family is not None and found is not None:
        return Window(family.window, f"known for the family of `{model}`", "known")
    if family is not None:
        source = f"no window is known for `{model}`; earlier ones of its family have as much"
        return Window(family.window, source, "assumed")
    source = f"no window is known for `{model}`" if model else "no model was named"
    return Window(ASSUMED_WINDOW_TOKENS, source, "assumed")


@cache
def find_model(model: str, provider: str = "") -> ModelFacts | None:
    """Find a model by a name that a log, a request or a person has for it."""
    for seller in _sellers(model.lower(), provider.lower().strip()):
        for name in _spellings(model):
            row = _row(seller, name)
            if row is not None:
                return ModelFacts(row, seller, _origin(row))
    return None


def search_models(text: str) -> list[ModelFacts]:
    """Return every model whose id contains a text, at every provider."""
    sellers = {seller.id: seller for seller in catalog().providers}
    return [
        ModelFacts(row, sellers[row.provider], _origin(row))
        for row in catalog().rows
        if text.lower() in row.id.lower()
    ]


def _origin(row: KnownModel) -> str:
    if row in GAPS:
        return f"{SOURCE}, {AS_OF}"
    return f"{catalog().source} {catalog().version}, {catalog().as_of}"


def _spellings(model: str) -> Iterator[str]:
    """Yield a name as the catalog may have it: as it is, without its maker, with a dashed date."""
    name = re.sub(r"\[\w{1,8}\]$", "", model.lower().strip())
    for text in dict.fromkeys((name, name.rpartition("/")[2])):
        yield text
        dashed = re.sub(r"-(20\d\d)(\d\d)(\d\d)$", r"-\1-\2-\3", text)
        if dashed != text:
            yield dashed


def _sellers(model: str, provider: str) -> Iterator[KnownProvider]:
    """Yield the providers to look at: the one that is named, then the maker."""
    named = _provider(provider) or _provider(model.partition("/")[0] if "/" in model else "")
    if named is not None:
        yield named
        sellers = {seller.id: seller for seller in catalog().providers}
        yield from (sellers[other] for other in named.others if other in sellers)
    for seller in catalog().providers:
        if seller.models is not None and any(map(seller.models.matches, _spellings(model))):
            yield seller


def _provider(name: str) -> KnownProvider | None:
    """Find a provider by its id, another name of it, or the host of its API."""
    if not name:
        return None
    name = _ALIASES.get(name, name)
    providers = catalog().providers
    tests = (
        lambda seller: seller.id == name,
        lambda seller: seller.match is not None and seller.match.matches(name),
        lambda seller: bool(seller.api) and re.match(seller.api, f"https://{name}") is not None,
    )
    return next((seller for test in tests for seller in providers if test(seller)), None)


@cache
def _rows_by_provider() -> dict[str, list[KnownModel]]:
    rows: dict[str, list[KnownModel]] = {}
    for row in catalog().rows:
        rows.setdefault(row.provider, []).append(row)
    return rows


def _row(seller: KnownProvider, name: str) -> KnownModel | None:
    rows = _rows_by_provider().get(seller.id, [])
    return next((row for row in rows if row.match.matches(name) and _is_release(row, name)), None)


def _is_release(row: KnownModel, name: str) -> bool:
    """Return whether a name is of the release that a row is about. Tests by prefix match later
    point releases, too, whose prices differ."""
    here, asked = read_model_name(row.id).version, read_model_name(name).version
    return here is None or asked is None or here == asked or row.match.names(name)
