"""Entries of Pydantic AI's conversations as records, and back."""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.text.typed import decode_typed
from holdfast.errors import BadItem
from holdfast.integrations.common.originals import keep_originals, original_of, reading_item
from holdfast.integrations.common.stored_items import SPOKEN, items_of, read_items
from holdfast.integrations.pydantic_ai.messages import messages_from_record, records_from_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.integrations.common.stored_items import StoredItem
    from holdfast.ports import SessionStore

FORMAT_NAME: Final = "pydantic-ai"


class StoredEntry(msgspec.Struct):
    """An entry of a conversation's history, and the last of its records."""

    id: str
    parent_id: str | None
    message: Any
    last: str

    def read(self) -> Any:
        from pydantic_ai.conversation_store import ConversationEntry

        return ConversationEntry(id=self.id, parent_id=self.parent_id, message=self.message)


class _EntryLine(msgspec.Struct):
    """An entry as a record keeps it; its message is left to the framework."""

    id: str
    parent_id: str | None
    message: msgspec.Raw


def newest_entries(store: SessionStore, key: SessionKey, limit: int | None) -> list[StoredEntry]:
    """Return the entries on the path, oldest first: all of them, or at least `limit`."""
    if limit is None:
        return parse_entries(read_items(store, key, FORMAT_NAME), key)
    newest: list[Record] = []
    entries = 0
    for record in store.back(key):
        newest.append(record)
        entries += _begins_entry(record)
        if entries > limit:
            break
    return parse_entries(items_of(reversed(newest), FORMAT_NAME), key)


def parse_entries(items: Iterable[StoredItem], key: SessionKey) -> list[StoredEntry]:
    """Return the entries of records in their order: those stored, and those of others' messages."""
    entries: list[StoredEntry] = []
    stored: list[tuple[StoredEntry, StoredItem]] = []
    for item in items:
        if item.spelled == "" and entries:
            entries[-1].last = item.id
        elif item.spelled:
            with _explaining(item):
                found = decode_typed(item.spelled, _EntryLine)
            entries.append(StoredEntry(found.id, found.parent_id, bytes(found.message), item.id))
            stored.append((entries[-1], item))
        elif item.spelled is None and item.kind in SPOKEN and (record := item.record) is not None:
            before = entries[-1].id if entries else None
            entries += [
                StoredEntry(f"{key}/{item.id}", before, message, item.id)
                for message in messages_from_record(record)[:1]
            ]
    _load_messages(stored)
    return entries


def _load_messages(stored: Sequence[tuple[StoredEntry, StoredItem]]) -> None:
    """Put the framework's messages in the place of their JSON. Raises its `UserError`."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    if len(stored) > 1:
        spelled = b"[%b]" % b",".join(entry.message for entry, _item in stored)
        with suppress(ValueError):  # one of them is none: each by itself tells which
            messages = ModelMessagesTypeAdapter.validate_json(spelled)
            for (entry, _item), message in zip(stored, messages, strict=True):
                entry.message = message
            return
    for entry, item in stored:
        with _explaining(item):
            (entry.message,) = ModelMessagesTypeAdapter.validate_json(b"[%b]" % entry.message)


@contextmanager
def _explaining(item: StoredItem) -> Iterator[None]:
    """Raise the framework's `UserError` for an item that cannot be read."""
    from pydantic_ai.exceptions import UserError

    try:
        with reading_item(item):
            yield
    except BadItem as error:
        raise UserError(f"{error} ({error.hint})") from error


def _begins_entry(record: Record) -> bool:
    kept = original_of(record, FORMAT_NAME)
    return bool(messages_from_record(record) if kept is None else kept)


def records_from_entry(entry: Any) -> list[Record]:
    """Return the records of an entry. Raises the framework's `UserError`."""
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.messages import ModelMessagesTypeAdapter
    from pydantic_core import PydanticSerializationError

    try:
        (message,) = json.loads(ModelMessagesTypeAdapter.dump_json([entry.message]))
    except (PydanticSerializationError, ValueError) as error:
        raise UserError(f"cannot store a message: {error}; nothing was stored") from error
    item = {"id": entry.id, "parent_id": entry.parent_id, "message": message}
    spelled = json.dumps(item, separators=(",", ":"))
    return keep_originals(records_from_message(entry.message), spelled, FORMAT_NAME)
