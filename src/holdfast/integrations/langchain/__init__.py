"""LangChain: chat histories kept by Holdfast, and agents whose requests fit.

from holdfast.integrations.langchain import HoldfastChatMessageHistory, HoldfastMiddleware

history = HoldfastChatMessageHistory("thread-1", root=".sessions")
agent = create_agent(model, tools, middleware=[HoldfastMiddleware(window=128_000)])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.integrations.langchain.chat_history import (
        ChatHistoryMethods as HoldfastChatMessageHistory,
    )
    from holdfast.integrations.langchain.middleware import MiddlewareMethods as HoldfastMiddleware

__all__ = ["HoldfastChatMessageHistory", "HoldfastMiddleware"]


def __getattr__(name: str) -> Any:
    """Make a class on first use: its base is a class of LangChain."""
    if name == "HoldfastChatMessageHistory":
        from holdfast.integrations.langchain.chat_history import history_class

        return history_class()
    if name == "HoldfastMiddleware":
        from holdfast.integrations.langchain.middleware import middleware_class

        return middleware_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
