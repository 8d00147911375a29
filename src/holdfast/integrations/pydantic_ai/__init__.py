"""Pydantic AI: conversations kept by Holdfast, and requests that fit.

    from pydantic_ai import Agent
    from pydantic_ai.capabilities import ProcessHistory
    from holdfast.integrations.pydantic_ai import BoundedHistory, HoldfastConversationStore

    store = HoldfastConversationStore(root=".sessions")
    agent = Agent(model, capabilities=[ProcessHistory(BoundedHistory(window=128_000))])

`records_from_message` and `messages_from_record` are the codec between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.engine.adapters import classes_on_use
from holdfast.integrations.pydantic_ai.bounded_history import BoundedHistory
from holdfast.integrations.pydantic_ai.messages import messages_from_record, records_from_message

if TYPE_CHECKING:
    from holdfast.integrations.pydantic_ai.bounded_history import RequestBounds as BoundedRequests
    from holdfast.integrations.pydantic_ai.conversation_store import (
        ConversationStoreMethods as HoldfastConversationStore,
    )

__all__ = [
    "BoundedHistory",
    "BoundedRequests",
    "HoldfastConversationStore",
    "messages_from_record",
    "records_from_message",
]


__getattr__ = classes_on_use(
    __name__,
    "pydantic_ai",
    {
        "HoldfastConversationStore": "pydantic_ai.conversation_store:ConversationStoreMethods",
        "BoundedRequests": "pydantic_ai.bounded_history:RequestBounds",
    },
)
