"""Reasoning as providers bind it: to the prefix, the model and the account that it was made in."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from holdfast.core.models.catalog import DialectName

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


def find_binding(dialect: DialectName) -> Binding:
    """Return the rules about reasoning of an API."""
    match dialect:
        case "anthropic":
            return AnthropicBinding()
        case "openai-chat":
            return ChatBinding()
        case "openai-responses":
            return ResponsesBinding()
        case "gemini":
            return GeminiBinding()
