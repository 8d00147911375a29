"""A prompt as a provider's request, and what the provider would say to a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.providers import (
    anthropic,
    anthropic_rules,
    gemini,
    gemini_rules,
    openai_chat,
    openai_chat_rules,
    openai_responses,
    openai_responses_rules,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.dialects import Target
    from holdfast.core.messages import Prompt
    from holdfast.core.records import Json
    from holdfast.providers.rules import Rule, Violation

_RENDER: Final[Mapping[str, Callable[[Prompt, Target], Json]]] = {
    "anthropic": anthropic.render,
    "openai-chat": openai_chat.render,
    "openai-responses": openai_responses.render,
    "gemini": gemini.render,
}
_VALIDATE: Final[Mapping[str, Callable[[object, Target], list[Violation]]]] = {
    "anthropic": anthropic_rules.validate,
    "openai-chat": openai_chat_rules.validate,
    "openai-responses": openai_responses_rules.validate,
    "gemini": gemini_rules.validate,
}
RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "anthropic": anthropic_rules.RULES,
    "openai-chat": openai_chat_rules.RULES,
    "openai-responses": openai_responses_rules.RULES,
    "gemini": gemini_rules.RULES,
}
"""By dialect, everything its validator looks at."""


def render(prompt: Prompt, target: Target) -> Json:
    """The body of a request. The same prompt and target give the same bytes."""
    return _RENDER[target.dialect.name](prompt, target)


def validate(request: object, target: Target) -> list[Violation]:
    """What the provider would refuse in a request, whoever made it. Never raises."""
    return _VALIDATE[target.dialect.name](request, target)
