"""The joiner of each dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from holdfast.core.proxy.joining.anthropic import AnthropicJoiner
from holdfast.core.proxy.joining.chat import ChatJoiner
from holdfast.core.proxy.joining.gemini import GeminiJoiner
from holdfast.core.proxy.joining.responses import ResponsesJoiner

if TYPE_CHECKING:
    from holdfast.core.models.catalog import DialectName
    from holdfast.core.proxy.joining.rounds import ReplyJoiner


def make_joiner(dialect: DialectName, names: frozenset[str]) -> ReplyJoiner:
    """A joiner for one reply. `names` are the tools that the proxy answers."""
    match dialect:
        case "anthropic":
            return AnthropicJoiner(names)
        case "openai-chat":
            return ChatJoiner(names)
        case "openai-responses":
            return ResponsesJoiner(names)
        case "gemini":
            return GeminiJoiner(names)
        case _:
            assert_never(dialect)
