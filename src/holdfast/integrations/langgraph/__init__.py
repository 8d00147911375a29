"""Checkpoints of LangGraph, kept by Holdfast.

    from langgraph.checkpoint.memory import InMemorySaver  # becomes:
    from holdfast.integrations.langgraph import HoldfastSaver

    graph = builder.compile(checkpointer=HoldfastSaver(root=".sessions"))

A thread is a session. Its messages are records, and each is stored once, however many checkpoints
hold it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.engine.adapters import classes_on_use

if TYPE_CHECKING:
    from holdfast.integrations.langgraph.saver import AsyncSaverMethods as HoldfastSaver

__all__ = ["HoldfastSaver"]


__getattr__ = classes_on_use(
    __name__, "langgraph", {"HoldfastSaver": "langgraph.saver:AsyncSaverMethods"}
)
