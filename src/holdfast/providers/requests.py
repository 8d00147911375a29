"""A prompt as a provider's request, and what the provider would say to a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.providers.anthropic import render as anthropic
from holdfast.providers.anthropic import rules as anthropic_rules
from holdfast.providers.gemini import render as gemini
from holdfast.providers.gemini import rules as gemini_rules
from holdfast.providers.openai_chat import render as openai_chat
from holdfast.providers.openai_chat import rules as openai_chat_rules
from holdfast.providers.openai_responses import render as openai_responses
from holdfast.providers.openai_responses import rules as openai_responses_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Prompt
    from holdfast.providers.wire.rule import Rule, Violation

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
