"""Conversations of Microsoft Agent Framework, kept by Holdfast.

    from agent_framework import Agent
    from holdfast.integrations.agent_framework import HoldfastHistoryProvider

    history = HoldfastHistoryProvider(root=".sessions")
    agent = Agent(client=client, context_providers=[history])
    await agent.run("Hello", session=agent.create_session(session_id="thread-1"))

`records_from_message` and `messages_from_record` are the codec between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.engine.adapters import classes_on_use
from holdfast.integrations.agent_framework.messages import (
    messages_from_record,
    records_from_message,
)

if TYPE_CHECKING:
    from holdfast.integrations.agent_framework.history_provider import (
        HistoryProviderMethods as HoldfastHistoryProvider,
    )

__all__ = ["HoldfastHistoryProvider", "messages_from_record", "records_from_message"]


__getattr__ = classes_on_use(
    __name__,
    "agent_framework",
    {"HoldfastHistoryProvider": "agent_framework.history_provider:HistoryProviderMethods"},
)
