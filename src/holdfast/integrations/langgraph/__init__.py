"""Checkpoints of LangGraph, kept by Holdfast.

    from langgraph.checkpoint.memory import InMemorySaver  # becomes:
    from holdfast.integrations.langgraph import HoldfastSaver

    graph = builder.compile(checkpointer=HoldfastSaver(root=".sessions"))

A thread is a session. Its messages are records, and each is stored once, however many checkpoints
hold it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.integrations.langgraph.saver import AsyncSaverMethods as HoldfastSaver

__all__ = ["HoldfastSaver"]


def __getattr__(name: str) -> Any:
    """Make the class on first use: its base is a class of LangGraph."""
    if name == "HoldfastSaver":
        from holdfast.integrations.langgraph.saver import saver_class

        return saver_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
