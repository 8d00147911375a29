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

from typing import TYPE_CHECKING

from holdfast.engine.adapters import classes_on_use
from holdfast.integrations.strands.storage import HoldfastStorage

if TYPE_CHECKING:
    from holdfast.integrations.strands.conversation_manager import (
        ManagerMethods as HoldfastConversationManager,
    )
    from holdfast.integrations.strands.repository import (
        RepositoryMethods as HoldfastSessionRepository,
    )

__all__ = ["HoldfastConversationManager", "HoldfastSessionRepository", "HoldfastStorage"]


__getattr__ = classes_on_use(
    __name__,
    "strands",
    {
        "HoldfastConversationManager": "strands.conversation_manager:ManagerMethods",
        "HoldfastSessionRepository": "strands.repository:RepositoryMethods",
    },
)
