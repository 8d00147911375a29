"""Strands Agents: sessions kept by Holdfast.

from strands import Agent
from strands.session.repository_session_manager import RepositorySessionManager
from holdfast.integrations.strands import HoldfastSessionRepository

repository = HoldfastSessionRepository(root=".sessions")
agent = Agent(session_manager=RepositorySessionManager("thread-1", repository))

`HoldfastStorage` is for the newer `SnapshotSessionManager`, and everything else that takes a
`Storage`. `HoldfastConversationManager` keeps every request of an agent within the model's window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.integrations.strands.conversation_manager import (
        ManagerMethods as HoldfastConversationManager,
    )
    from holdfast.integrations.strands.repository import (
        RepositoryMethods as HoldfastSessionRepository,
    )
    from holdfast.integrations.strands.storage import HoldfastStorage

__all__ = ["HoldfastConversationManager", "HoldfastSessionRepository", "HoldfastStorage"]


def __getattr__(name: str) -> Any:
    """Make a class on first use: its base is a class of Strands."""
    if name == "HoldfastConversationManager":
        from holdfast.integrations.strands.conversation_manager import manager_class

        return manager_class()
    if name == "HoldfastSessionRepository":
        from holdfast.integrations.strands.repository import repository_class

        return repository_class()
    if name == "HoldfastStorage":
        from holdfast.integrations.strands.storage import HoldfastStorage

        return HoldfastStorage
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
