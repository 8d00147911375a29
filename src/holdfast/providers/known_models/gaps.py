"""Models that the catalog does not have yet, from the providers' own pages.

A row here is used only where the catalog has none, and goes once the catalog has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.models.generation import read_model_name
from holdfast.providers.known_models.rows import DatedPrice, KnownModel, NameTest

if TYPE_CHECKING:
    from collections.abc import Mapping

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
