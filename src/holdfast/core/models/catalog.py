"""What is publicly known about models: whose they are and how large their windows are.

A table of families, not of releases: the longest pattern that fits a name decides. It is a start
for people who name a model and no window; what the caller states always wins.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from holdfast.core.models.window import Window

ASSUMED_WINDOW_TOKENS: Final = 128_000
"""For a model nobody knows: small enough to be safe with most of them."""


class Family(msgspec.Struct, frozen=True):
    """Models that share a window and an API."""

    pattern: str
    window: int
    provider: str
    dialect: str
    output_max: int = 0
    """The most a reply may take, where that is less than what we would ask for; 0 where not."""


FAMILIES: Final = (
    Family(r"claude", 200_000, "anthropic", "anthropic"),
    Family(r"claude-3-(opus|sonnet|haiku)", 200_000, "anthropic", "anthropic", 4_096),
    Family(r"claude-3-5-(sonnet|haiku)", 200_000, "anthropic", "anthropic", 8_192),
    Family(r"claude.*\[1m\]", 1_000_000, "anthropic", "anthropic"),
    Family(r"gpt-3\.5", 16_385, "openai", "openai-chat"),
    Family(r"gpt-4$|gpt-4-(0|32k)", 8_192, "openai", "openai-chat"),
    Family(r"gpt-4-turbo", 128_000, "openai", "openai-chat", 4_096),
    Family(r"gpt-4o|chatgpt-4o", 128_000, "openai", "openai-chat", 16_384),
    Family(r"gpt-4\.1", 1_047_576, "openai", "openai-chat"),
    Family(r"gpt-5|codex", 400_000, "openai", "openai-responses"),
    Family(r"\bo[134](-|$)", 200_000, "openai", "openai-responses"),
    Family(r"gemini", 1_048_576, "google", "gemini"),
    Family(r"gemini-(1\.5|2\.0)", 1_048_576, "google", "gemini", 8_192),
    Family(r"deepseek", 128_000, "deepseek", "openai-chat:deepseek"),
    Family(r"deepseek-chat", 128_000, "deepseek", "openai-chat:deepseek", 8_192),
    Family(r"mistral|codestral|devstral|magistral", 128_000, "mistral", "openai-chat:mistral"),
    Family(r"kimi|moonshot", 262_144, "moonshot", "openai-chat:kimi"),
    Family(r"qwen", 131_072, "qwen", "openai-chat:local"),
    Family(r"llama-?[34]", 131_072, "meta", "openai-chat:local"),
    Family(r"glm-?[45]", 131_072, "zhipu", "openai-chat:local"),
    Family(r"grok", 131_072, "xai", "openai-chat"),
    Family(r"^offline$", 32_000, "holdfast", "anthropic"),
)
"""Public figures as of November 2026; hosts may give less."""

_TABLE: Final = tuple((re.compile(family.pattern), family) for family in FAMILIES)


def family_of(model: str) -> Family | None:
    """The family whose pattern covers most of a model's name."""
    name = model.lower()
    found = [(match.end() - match.start(), index) for index, match in _matches(name)]
    return _TABLE[max(found)[1]][1] if found else None


def window_of(model: str) -> Window:
    """The window of a model: known where its family is, else assumed."""
    family = family_of(model)
    if family is None:
        source = f"no window is known for `{model}`" if model else "no model was named"
        return Window(ASSUMED_WINDOW_TOKENS, source, "assumed")
    return Window(family.window, f"known for `{model}`", "known")


def _matches(name: str) -> list[tuple[int, re.Match[str]]]:
    found = ((index, pattern.search(name)) for index, (pattern, _family) in enumerate(_TABLE))
    return [(index, match) for index, match in found if match is not None]
