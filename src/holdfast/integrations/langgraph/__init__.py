"""Checkpoints and long-term memory of LangGraph, kept by Holdfast.

    from langgraph.checkpoint.memory import InMemorySaver  # becomes:
    from holdfast.integrations.langgraph import HoldfastSaver, HoldfastStore

    graph = builder.compile(
        checkpointer=HoldfastSaver(root=".sessions"), store=HoldfastStore(root=".sessions")
    )

A thread is a session. Its messages are records, and each is stored once, however many checkpoints
hold it. An item of the store is a note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.engine.adapters import classes_on_use

if TYPE_CHECKING:
    from holdfast.integrations.langgraph.saver import AsyncSaverMethods as HoldfastSaver
    from holdfast.integrations.langgraph.store import BaseStoreMethods as HoldfastStore

__all__ = ["HoldfastSaver", "HoldfastStore"]


__getattr__ = classes_on_use(
    __name__,
    "langgraph",
    {
        "HoldfastSaver": "langgraph.saver:AsyncSaverMethods",
        "HoldfastStore": "langgraph.store:BaseStoreMethods",
    },
)
