"""Conversations of Pydantic AI in a store: entries are records, and so is what is known of all.

An entry is one or more records. The framework's record of a conversation is appended with its
entries, by comparing first. A branch moves the head of the log. A fork is a session of its own with
a copy of what it shares, so that deleting one never takes from another.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.limits import BATCH_RECORDS_MAX
from holdfast.core.log.records import Rewind, Unknown
from holdfast.errors import LogConflict, NoSuchSession
from holdfast.integrations.common.recent import RecentValues
from holdfast.integrations.common.stored_items import items_of, read_items
from holdfast.integrations.pydantic_ai.entries import (
    FORMAT_NAME,
    newest_entries,
    parse_entries,
    records_from_entry,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.integrations.common.home import PeerHome
    from holdfast.integrations.pydantic_ai.entries import StoredEntry

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
        try:
            is_done = self._append(key, written, known.log_head)
        except NoSuchSession:
            return False
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
        try:
            for start in range(0, len(records), BATCH_RECORDS_MAX):
                batch = records[start : start + BATCH_RECORDS_MAX]
                head = self._home.store.append(key, batch, expect=head).head
        except LogConflict:
            return False
        self._newest.put(key, _NewestState(records[-1], head))
        return True

    def delete(self, conversation_id: str, expected: str) -> None:
        """Delete a conversation that still is what was read. Raises `ConversationConflict`."""
        from dataclasses import replace

        key = self._home.key_for((conversation_id,))
        while True:
            state = self._check_revision(conversation_id, expected)
            assert state is not None
            # From here on, whoever saves what was loaded before is told that it changed.
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
