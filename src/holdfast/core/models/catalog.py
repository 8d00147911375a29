"""Public facts about models: their windows, their APIs, and the spelling of reported usage.

docs/dialects.md names the source of each number. The limits of an API are in its package under
`core/dialects/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    import re

# Models

ASSUMED_WINDOW_TOKENS: Final = 128_000
"""For an unknown model: small enough to be safe with most of them."""


class Family(msgspec.Struct, frozen=True):
    """Models that share a window and an API."""

    pattern: str
    window: int
    provider: str
    dialect: str
    output_max: int = 0
    """The most a reply may take, where that is less than what we would ask for; 0 where not."""
    is_exact: bool = False
    """The window is part of the name, and no catalog knows better."""


FAMILIES: Final = (
    Family(r"claude", 200_000, "anthropic", "anthropic"),
    Family(r"claude-3-(opus|sonnet|haiku)", 200_000, "anthropic", "anthropic", 4_096),
    Family(r"claude-3-5-(sonnet|haiku)", 200_000, "anthropic", "anthropic", 8_192),
    Family(r"claude.{0,100}\[1m\]", 1_000_000, "anthropic", "anthropic", is_exact=True),
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
    Family(r"^offline$", 32_000, "holdfast", "anthropic", is_exact=True),
)
"""APIs and output limits of models by name, and windows for models that the catalog in
`providers/known_models` does not have. Public figures as of November 2026; hosts may give less."""

_TABLE: Final = tuple((lazy_pattern(family.pattern), family) for family in FAMILIES)


def family_of(model: str) -> Family | None:
    """The family whose pattern covers most of a model's name."""
    name = model.lower()
    found = [(match.end() - match.start(), index) for index, match in _matches(name)]
    return _TABLE[max(found)[1]][1] if found else None


def _matches(name: str) -> list[tuple[int, re.Match[str]]]:
    found = ((index, pattern.search(name)) for index, (pattern, _family) in enumerate(_TABLE))
    return [(index, match) for index, match in found if match is not None]


# Usage


class UsageShape(msgspec.Struct, frozen=True):
    """The field names of one family's usage report."""

    source: str
    prompt: str
    output: tuple[str, ...] = ()
    """Names of parts of the output; those that are there are added up."""
    read: tuple[str, ...] = ()
    """Fields for the cached part; a dot leads into an inner object."""
    write: tuple[str, ...] = ()
    is_split: bool = False
    """True if the prompt excludes what was read from and written to the cache."""
    needs: tuple[str, ...] = ()
    """At least one of these must be there for the shape to be recognised, unless it is empty."""


ANTHROPIC_USAGE: Final = UsageShape(
    source="anthropic",
    prompt="input_tokens",
    output=("output_tokens",),
    read=("cache_read_input_tokens",),
    write=("cache_creation_input_tokens",),
    is_split=True,
    needs=("cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation"),
)

USAGE_SHAPES: Final = (
    UsageShape(
        source="openai-chat",
        prompt="prompt_tokens",
        output=("completion_tokens",),
        read=(
            "prompt_tokens_details.cached_tokens",
            "cache_read_input_tokens",
            "prompt_cache_hit_tokens",
            "cached_tokens",
        ),
        write=("prompt_tokens_details.cache_write_tokens", "cache_creation_input_tokens"),
    ),
    UsageShape(
        source="openai-responses",
        prompt="input_tokens",
        output=("output_tokens",),
        read=("input_tokens_details.cached_tokens",),
        write=("input_tokens_details.cache_write_tokens",),
        needs=("input_tokens_details",),
    ),
    UsageShape(
        source="langchain",
        prompt="input_tokens",
        output=("output_tokens",),
        read=("input_token_details.cache_read",),
        write=("input_token_details.cache_creation",),
        needs=("input_token_details",),
    ),
    UsageShape(
        source="codex",
        prompt="input_tokens",
        output=("output_tokens",),
        read=("cached_input_tokens",),
        needs=("cached_input_tokens",),
    ),
    ANTHROPIC_USAGE,
    UsageShape(source="plain", prompt="input_tokens", output=("output_tokens",)),
    UsageShape(
        source="gemini",
        prompt="promptTokenCount",
        output=("candidatesTokenCount", "thoughtsTokenCount"),
        read=("cachedContentTokenCount",),
    ),
    UsageShape(
        source="gemini",
        prompt="prompt_token_count",
        output=("candidates_token_count", "thoughts_token_count"),
        read=("cached_content_token_count",),
    ),
    UsageShape(
        source="kimi-cli",
        prompt="inputOther",
        output=("output",),
        read=("inputCacheRead",),
        write=("inputCacheCreation",),
        is_split=True,
    ),
    UsageShape(
        source="gemini-cli",
        prompt="input",
        output=("output", "thoughts"),
        read=("cached",),
        needs=("cached", "thoughts", "tool"),
    ),
    UsageShape(
        source="pi",
        prompt="input",
        output=("output", "reasoning"),
        read=("cacheRead", "cache.read"),
        write=("cacheWrite", "cache.write"),
        is_split=True,
    ),
    UsageShape(
        source="bedrock",
        prompt="inputTokens",
        output=("outputTokens",),
        read=("cacheReadInputTokens",),
        write=("cacheWriteInputTokens",),
        is_split=True,
        needs=("cacheReadInputTokens", "cacheWriteInputTokens"),
    ),
    UsageShape(
        source="ai-sdk",
        prompt="inputTokens",
        output=("outputTokens",),
        read=("cachedInputTokens", "cacheReadTokens"),
        write=("cacheWriteTokens",),
    ),
    UsageShape(source="ollama", prompt="prompt_eval_count", output=("eval_count",)),
)
"""In this order: the first whose names are there is the shape."""
