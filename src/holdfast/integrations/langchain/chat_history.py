"""`HoldfastChatMessageHistory`: a chat message history of LangChain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack

from holdfast.integrations.common.home import (
    StoreAdapter,
    StoreOptions,
    clear_path,
    read_in_thread,
    write_in_thread,
)
from holdfast.integrations.common.langchain_messages import (
    messages_from_record,
    record_from_message,
)
from holdfast.integrations.common.originals import (
    ITEM_TYPE,
    keep_original,
    original_of,
    reading_item,
    spell_item,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json, Record

FORMAT_NAME: Final = "langchain"


class ChatHistoryMethods(StoreAdapter):
    """Keeps the messages of a conversation in any store. A `BaseChatMessageHistory`.

    `root` is the address of a store, `store` an open one.
    """

    framework_base: ClassVar = "langchain_core.chat_history:BaseChatMessageHistory"

    def __init__(self, session_id: str, **where: Unpack[StoreOptions]) -> None:
        super().__init__(**where)
        self.session_id = session_id

    @property
    def key(self) -> SessionKey:
        """The key of the session in its store."""
        return self._home.key_for((self.session_id,))

    @property
    def messages(self) -> list[Any]:
        """All messages, the oldest first."""
        from langchain_core.messages import messages_from_dict

        if not self._home.exists(self.key):
            return []
        found: list[Any] = []
        for record in self._home.store.read(self.key):
            with reading_item(record):
                found += messages_from_dict(_items(record))
        return found

    def add_messages(self, messages: Sequence[Any]) -> None:
        """Store messages durably, all or none. Raises `BadItem` for one that JSON cannot hold."""
        self._home.store  # noqa: B018 - refuses a closed history, also for an empty list
        records = [_record(message) for message in messages]
        if records:
            self._home.append((self.session_id,), records)

    def clear(self) -> None:
        """Begin again without messages. The log keeps the old ones, on a branch."""
        if self._home.exists(self.key):
            clear_path(self._home.store, self.key, ITEM_TYPE)

    async def aget_messages(self) -> list[Any]:
        """Return all messages, the oldest first."""
        return await read_in_thread(lambda: self.messages)

    async def aadd_messages(self, messages: Sequence[Any]) -> None:
        """Store messages, as `add_messages` does."""
        await write_in_thread(lambda: self.add_messages(messages))

    async def aclear(self) -> None:
        """Begin again, as `clear` does."""
        await write_in_thread(self.clear)


def _record(message: Any) -> Record:
    from langchain_core.messages import message_to_dict

    spelled = spell_item(message_to_dict(message))
    return keep_original(record_from_message(message), spelled, FORMAT_NAME, _rebuild)


def _items(record: Record) -> list[Any]:
    """Return the messages of a record: exactly those stored, else those it amounts to."""
    original = original_of(record, FORMAT_NAME)
    return messages_from_record(record) if original is None else original


def _rebuild(record: Record) -> list[Json]:
    """Return the messages of a record as LangChain would write them again."""
    from langchain_core.messages import message_to_dict, messages_from_dict

    return [
        message_to_dict(message) for message in messages_from_dict(messages_from_record(record))
    ]
