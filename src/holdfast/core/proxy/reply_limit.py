"""A request that allows a shorter reply, and is still valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

_THINKING_TOKENS_MIN: Final = 1_024
"""Anthropic's least budget for thinking; it has to be below the limit of the reply."""
_THINKING_SHARE: Final = 0.75
"""Of a reply, for a budget of thinking that has to shrink: the rest is for the answer."""


def limit_reply(body: Json, field: str, tokens: int) -> Json:
    """A body whose reply may take this many tokens. A budget for thinking is part of them: it
    shrinks too, and where it would be less than the least, there is no thinking."""
    limited = {**body, field: tokens}
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
