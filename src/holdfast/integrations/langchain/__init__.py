"""LangChain: chat histories kept by Holdfast, and agents whose requests fit.

from holdfast.integrations.langchain import HoldfastChatMessageHistory, HoldfastMiddleware

history = HoldfastChatMessageHistory("thread-1", root=".sessions")
agent = create_agent(model, tools, middleware=[HoldfastMiddleware(window=128_000)])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.engine.adapters import classes_on_use

if TYPE_CHECKING:
    from holdfast.integrations.langchain.chat_history import (
        ChatHistoryMethods as HoldfastChatMessageHistory,
    )
    from holdfast.integrations.langchain.middleware import MiddlewareMethods as HoldfastMiddleware

__all__ = ["HoldfastChatMessageHistory", "HoldfastMiddleware"]


__getattr__ = classes_on_use(
    __name__,
    "langchain",
    {
        "HoldfastChatMessageHistory": "langchain.chat_history:ChatHistoryMethods",
        "HoldfastMiddleware": "langchain.middleware:MiddlewareMethods",
    },
)
