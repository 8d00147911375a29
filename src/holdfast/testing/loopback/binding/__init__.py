"""Reasoning as providers bind it: to the prefix, the model and the account that it was made in."""

from __future__ import annotations

from typing import Final

from holdfast.core.dialects.anthropic.variants import NAME as ANTHROPIC
from holdfast.core.dialects.gemini.variants import NAME as GEMINI
from holdfast.core.dialects.openai_chat.variants import NAME as CHAT
from holdfast.core.dialects.openai_responses.variants import NAME as RESPONSES
from holdfast.testing.loopback.binding.anthropic import AnthropicBinding
from holdfast.testing.loopback.binding.chat import ChatBinding
from holdfast.testing.loopback.binding.gemini import GeminiBinding
from holdfast.testing.loopback.binding.judging import (
    Binding,
    Dropped,
    Judged,
    Ledger,
    Reasoning,
    ReasoningCounts,
    Replying,
    Request,
    Thought,
    Withheld,
)
from holdfast.testing.loopback.binding.responses import ResponsesBinding

__all__ = [
    "Binding",
    "Dropped",
    "Judged",
    "Ledger",
    "Reasoning",
    "ReasoningCounts",
    "Replying",
    "Request",
    "Thought",
    "Withheld",
    "find_binding",
]


_BINDINGS: Final[dict[str, Binding]] = {
    ANTHROPIC: AnthropicBinding(),
    CHAT: ChatBinding(),
    RESPONSES: ResponsesBinding(),
    GEMINI: GeminiBinding(),
}


def find_binding(dialect: str) -> Binding:
    """Return the rules about reasoning of an API."""
    return _BINDINGS[dialect]
