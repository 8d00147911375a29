"""The tokens that a request allows for its reply, read and lowered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.core.models.catalog import DialectName

OUTPUT_FIELDS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_GEMINI_CONFIGS: Final = ("generationConfig", "generation_config")
_GEMINI_FIELDS: Final = ("maxOutputTokens", "max_output_tokens")
_THINKING_TOKENS_MIN: Final = 1_024
"""Anthropic's least budget for thinking; it has to be below the limit of the reply."""
_THINKING_SHARE: Final = 0.75
"""Of a reply, for a budget of thinking that has to shrink: the rest is for the answer."""


def read_output_limit(body: Json, dialect: DialectName) -> int | None:
    """The tokens that a body allows for the reply; None where it does not say."""
    names: tuple[str, ...] = OUTPUT_FIELDS
    if dialect == "gemini":
        found = body.get(_first_name(body, _GEMINI_CONFIGS))
        body, names = found if isinstance(found, dict) else {}, _GEMINI_FIELDS
    for name in names:
        value = body.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def limit_reply(body: Json, dialect: DialectName, tokens: int) -> Json:
    """A body whose reply may take this many tokens. A budget for thinking is part of them: it
    shrinks too, and where it would be less than the least, there is no thinking."""
    if dialect == "gemini":
        name = _first_name(body, _GEMINI_CONFIGS)
        given = body.get(name)
        config: Json = given if isinstance(given, dict) else {}
        return {**body, name: {**config, _first_name(config, _GEMINI_FIELDS): tokens}}
    default = "max_output_tokens" if dialect == "openai-responses" else "max_tokens"
    limited = {**body, _first_name(body, OUTPUT_FIELDS, default): tokens}
    thinking = body.get("thinking")
    if not isinstance(thinking, dict):
        return limited
    budget = thinking.get("budget_tokens")
    if not isinstance(budget, int) or budget < tokens:
        return limited
    less = max(_THINKING_TOKENS_MIN, int(_THINKING_SHARE * tokens))
    if less < tokens:
        return {**limited, "thinking": {**thinking, "budget_tokens": less}}
    return {name: value for name, value in limited.items() if name != "thinking"}


def _first_name(body: Json, names: tuple[str, ...], default: str = "") -> str:
    """The first of some names that a body has."""
    return next((name for name in names if name in body), default or names[0])
