"""`HoldfastConversationStore`: a conversation store of Pydantic AI.

A conversation is a session. Its entries are records, each of one or more, and so is what is known
of all: the framework's record of a conversation is appended with its entries, by comparing first.
A branch moves the head of the log. A fork is a session of its own with a copy of what it shares, so
that deleting one never takes from another. Every call of the store runs in a thread.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack

import msgspec

from holdfast.core.log.records import Rewind, Unknown
from holdfast.core.text.typed import decode_typed
from holdfast.errors import BadItem, NoSuchSession
from holdfast.integrations.common.home import (
    DeletingOptions,
    PeerHome,
    RecentValues,
    StoreAdapter,
    read_in_thread,
    try_append,
    write_in_thread,
)
from holdfast.integrations.common.originals import (
    SPOKEN,
    items_of,
    keep_originals,
    original_of,
    read_items,
    reading_item,
)
from holdfast.integrations.pydantic_ai.messages import messages_from_record, records_from_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.integrations.common.originals import StoredItem
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


_STATE_TYPE: Final = "peer_state"
"""The type of a record that holds the framework's record of the conversation so far."""
_PLACES_MAX: Final = 10_000
"""Entries whose session is remembered; that of another one is looked for."""
_STATES_MAX: Final = 256
"""Conversations whose record is remembered; that of another one is read from its log."""


class _State(msgspec.Struct):
    """A conversation as it is in its log now."""

    record: Any
    log_head: str


class _NewestState(msgspec.Struct, frozen=True):
    """The newest state that was written to a log, and its record, which was the head then."""

    stored: Record
    log_head: str

    def read(self) -> _State:
        return _State(_read_state(self.stored), self.log_head)


class Conversations:
    """Reads and writes the conversations of one owner, blocking."""

    def __init__(self, home: PeerHome) -> None:
        self._home = home
        self._places: dict[str, SessionKey] = {}
        self._newest: RecentValues[SessionKey, _NewestState] = RecentValues(_STATES_MAX)

    def record(self, conversation_id: str) -> Any:
        """Return the record of a conversation; None where there is none."""
        state = self._state(conversation_id)
        return None if state is None else state.record

    def records(self, scope: str | None) -> list[Any]:
        """Return the records of all conversations, or of those of a scope, newest first."""
        found = []
        for name, _key in self._home.names():
            state = self._state(name[0]) if len(name) == 1 else None
            if state is not None and (scope is None or state.record.scope == scope):
                found.append(state.record)
        return sorted(found, key=lambda record: record.updated_at, reverse=True)

    def _state(self, conversation_id: str) -> _State | None:
        """Return a conversation as it is now; None where there is no such session, or it is
        empty."""
        key = self._home.key_for((conversation_id,))
        known = self._newest.get(key)
        if known is not None and self._home.is_head(key, known.log_head):
            return known.read()
        if not self._home.exists(key):
            return None
        newest: list[Record] = []
        record, log_head = None, ""
        try:
            for found in self._home.store.back(key):
                log_head = log_head or found.id
                if found.kind == _STATE_TYPE:
                    record = _read_state(found)
                    break
                newest.append(found)
        except NoSuchSession:
            return None  # removed meanwhile
        later = parse_entries(items_of(reversed(newest), FORMAT_NAME), key)
        if record is None and not later:
            return None
        if record is None or later:  # another program wrote to the session
            record = _continue(record, conversation_id, later[-1], log_head)
        self._remember(key, [record.head_id, *record.branches])
        return _State(record, log_head)

    def history(self, head_id: str, limit: int | None) -> list[Any]:
        """Return the entries up to one, or the last `limit` of them. Raises `KeyError`."""
        _key, history = self._find_history(head_id, limit)
        return [entry.read() for entry in history]

    def _find_history(
        self, head_id: str, limit: int | None
    ) -> tuple[SessionKey, list[StoredEntry]]:
        """Return the session of an entry, and the entries up to it. Raises `KeyError`."""
        for key in self._candidates(head_id):
            try:
                history = self._history_in(key, head_id, limit)
            except NoSuchSession:
                continue  # removed meanwhile
            if history:
                self._remember(key, [head_id])
                return key, history
        self._places.pop(head_id, None)
        raise KeyError(head_id)

    def _candidates(self, entry_id: str) -> Iterator[SessionKey]:
        """Yield the sessions that may have an entry, the likeliest first."""
        known = self._places.get(entry_id)
        if known is not None and self._home.exists(known):
            yield known
        for _name, key in self._home.names():
            if key != known:
                yield key

    def _history_in(self, key: SessionKey, head_id: str, limit: int | None) -> list[StoredEntry]:
        """Return the entries of a session up to one, at least the last `limit`; none where it has
        no such entry."""
        store = self._home.store
        history = newest_entries(store, key, limit)
        if history and history[-1].id == head_id:
            return history if limit is None else history[-limit:]
        last = ""
        for entry in parse_entries(read_items(store, key, FORMAT_NAME, is_everything=True), key):
            if entry.id == head_id:
                last = entry.last
        if not last:
            return []
        history = parse_entries(items_of(store.read_branch(key, last), FORMAT_NAME), key)
        return history if limit is None else history[-limit:]

    def _remember(self, key: SessionKey, entry_ids: Iterable[str | None]) -> None:
        if len(self._places) > _PLACES_MAX:
            self._places.clear()
        self._places.update({entry_id: key for entry_id in entry_ids if entry_id})

    # Writing

    def write(self, record: Any, new_entries: list[Any], expected: str | None) -> None:
        """Store a record and its new entries together. Raises `ConversationConflict`."""
        conversation_id: str = record.conversation_id
        written = [made for entry in new_entries for made in records_from_entry(entry)]
        written.append(_write_state(record))
        base = new_entries[0].parent_id if new_entries else record.head_id
        if self._append_next(record, written, base, expected):
            return
        while True:
            state = self._check_revision(conversation_id, expected)
            before = self._records_before(conversation_id, base, state)
            key = self._home.ensure((conversation_id,))
            log_head = self._home.store.head(key) if state is None else state.log_head
            if self._append(key, [*before, *written], log_head):
                self._remember(key, [record.head_id, *record.branches])
                return

    def _append_next(
        self, record: Any, written: list[Record], base: str | None, expected: str | None
    ) -> bool:
        """Append after what was written here before; False where that is not the newest."""
        key = self._home.key_for((record.conversation_id,))
        known = self._newest.get(key)
        if known is None:
            return False
        before = known.read().record
        if before.revision != expected or before.head_id != base:
            return False
        is_done = self._append(key, written, known.log_head)
        if is_done:
            self._remember(key, [record.head_id, *record.branches])
        return is_done

    def _check_revision(self, conversation_id: str, expected: str | None) -> _State | None:
        from pydantic_ai.conversation_store import ConversationConflict

        state = self._state(conversation_id)
        if (None if state is None else state.record.revision) != expected:
            raise ConversationConflict(conversation_id)
        return state

    def _records_before(
        self, conversation_id: str, base: str | None, state: _State | None
    ) -> list[Record]:
        """Return the records after which the path of the log ends with an entry."""
        from pydantic_ai.conversation_store import ConversationConflict

        if base == (None if state is None else state.record.head_id):
            return []
        key = self._home.key_for((conversation_id,))
        if base is None:
            return [Rewind(to=self._home.store.header(key).id)]
        try:
            place, history = self._find_history(base, None)
        except KeyError:
            raise ConversationConflict(conversation_id) from None
        if place == key:
            return [Rewind(to=history[-1].last)]
        copied = [made for entry in history for made in records_from_entry(entry)]
        if state is None:
            return copied
        return [Rewind(to=self._home.store.header(key).id), *copied]

    def _append(self, key: SessionKey, records: Sequence[Record], head: str) -> bool:
        """Append records, the last of which is a state; False where another writer was faster."""
        stored = try_append(self._home.store, key, records, head)
        if stored is not None:
            self._newest.put(key, _NewestState(records[-1], stored[-1].id))
        return stored is not None

    def delete(self, conversation_id: str, expected: str) -> None:
        """Delete a conversation that still is what was read. Raises `ConversationConflict`."""
        from dataclasses import replace

        key = self._home.key_for((conversation_id,))
        while True:
            state = self._check_revision(conversation_id, expected)
            assert state is not None
            # From here on, a save of what was loaded before is told that it changed.
            marked = replace(state.record, revision=f"{state.record.revision}-deleted")
            if self._append(key, [_write_state(marked)], state.log_head):
                break
        self._home.remove(key)


def _continue(record: Any, conversation_id: str, last: StoredEntry, log_head: str) -> Any:
    """Return the record of a conversation that another program began or continued."""
    from dataclasses import replace
    from datetime import UTC, datetime

    from pydantic_ai.conversation_store import ConversationRecord

    if record is None:
        began = datetime.fromtimestamp(0, UTC)
        record = ConversationRecord(
            conversation_id=conversation_id, head_id=None, revision="log", updated_at=began
        )
    at = getattr(last.message, "timestamp", None) or record.updated_at
    return replace(
        record,
        head_id=last.id,
        revision=f"{record.revision}:{log_head}",
        updated_at=max(record.updated_at, at),
    )


@cache
def _record_adapter() -> Any:
    from pydantic import TypeAdapter
    from pydantic_ai.conversation_store import ConversationRecord

    return TypeAdapter(ConversationRecord)


def _write_state(record: Any) -> Record:
    """Return the record of the log that holds a record of the framework. Raises `UserError`."""
    from pydantic_ai.exceptions import UserError
    from pydantic_core import PydanticSerializationError

    try:
        spelled: str = _record_adapter().dump_json(record).decode()
    except (PydanticSerializationError, ValueError) as error:
        raise UserError(f"cannot store a conversation: {error}; nothing was stored") from error
    return Unknown(type=_STATE_TYPE, extra={"format": FORMAT_NAME, "json": spelled})


def _read_state(record: Record) -> Any:
    """Return the framework's record that a record holds. Raises `UserError` for a newer format."""
    from pydantic import ValidationError
    from pydantic_ai.exceptions import UserError

    try:
        return _record_adapter().validate_json(record.extra["json"])
    except (KeyError, TypeError, ValidationError) as error:
        raise UserError(
            f"cannot read the state of a conversation in record {record.id}: {error}; "
            "was it written by a newer release of Pydantic AI?"
        ) from error


class ConversationStoreMethods(StoreAdapter):
    """Keeps conversations in any store. A `ConversationStore` of Pydantic AI.

    `root` is the address of a store, `store` an open one. A deleted conversation is in the trash;
    with `delete="erase"` it is gone, with everything made from it.
    """

    framework_base: ClassVar = "pydantic_ai.conversation_store:ConversationStore"

    def __init__(self, **where: Unpack[DeletingOptions]) -> None:
        super().__init__(**where)
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
