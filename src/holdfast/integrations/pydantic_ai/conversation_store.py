"""`HoldfastConversationStore`: a conversation store of Pydantic AI.

A conversation is a session. Every call of the store runs in a thread.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from holdfast.engine.adapters import require
from holdfast.integrations.common.blocking import read_in_thread, write_in_thread
from holdfast.integrations.common.home import PeerHome
from holdfast.integrations.pydantic_ai.conversations import Conversations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.integrations.common.home import Delete
    from holdfast.ports import SessionStore


class ConversationStoreMethods:
    """Keeps conversations in any store. A `ConversationStore` of Pydantic AI.

    `root` is the address of a store, `store` an open one. A deleted conversation is in the trash;
    with `delete="erase"` it is gone, with everything made from it.
    """

    def __init__(
        self,
        *,
        root: str | None = None,
        store: SessionStore | None = None,
        agent: str | None = None,
        owner: str = "",
        delete: Delete = "trash",
    ) -> None:
        self._home = PeerHome(
            "HoldfastConversationStore",
            root=root,
            store=store,
            agent=agent,
            owner=owner,
            delete=delete,
        )
        self._kept = Conversations(self._home)

    def key_for(self, conversation_id: str) -> SessionKey:
        """Return the key of a conversation's session in its store."""
        return self._home.key_for((conversation_id,))

    async def read_record(self, conversation_id: str) -> Any:
        """Return the record of a conversation; None where there is none."""
        return await read_in_thread(lambda: self._kept.record(conversation_id))

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[Any]:
        """Return the records of all conversations, or of those of a scope, newest first."""
        return await read_in_thread(lambda: self._kept.records(scope)[:limit])

    async def write_record(
        self, record: Any, *, new_entries: Sequence[Any] = (), expected_revision: str | None
    ) -> None:
        """Store a record and its new entries together. Raises `ConversationConflict`."""
        await write_in_thread(
            lambda: self._kept.write(record, list(new_entries), expected_revision)
        )

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a conversation, with its entries. Raises `ConversationConflict`."""
        await write_in_thread(lambda: self._kept.delete(conversation_id, expected_revision))

    async def read_entry(self, entry_id: str) -> Any:
        """Return an entry. Raises `KeyError`."""
        history = await read_in_thread(lambda: self._kept.history(entry_id, 1))
        return history[0]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[Any]:
        """Return the entries up to one, oldest first, or the last `limit` of them."""
        if head_id is None or limit == 0:
            return []
        return await read_in_thread(lambda: self._kept.history(head_id, limit))

    def close(self) -> None:
        """Release the store. Using it afterwards is a `RuntimeError`."""
        self._home.close()


@cache
def store_class() -> type:
    """Return `HoldfastConversationStore`, made on first use."""
    require("pydantic_ai")
    from pydantic_ai.conversation_store import ConversationStore

    return type(
        "HoldfastConversationStore",
        (ConversationStoreMethods, ConversationStore),
        {
            "__doc__": ConversationStoreMethods.__doc__,
            "__module__": "holdfast.integrations.pydantic_ai",
        },
    )
