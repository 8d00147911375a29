"""Models that the catalog does not have yet, from the providers' own pages.

A row here is used only where the catalog has none, and goes once the catalog has it.
"""

from __future__ import annotations

from typing import Final

from holdfast.providers.known_models.rows import DatedPrice, KnownModel, NameTest

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
