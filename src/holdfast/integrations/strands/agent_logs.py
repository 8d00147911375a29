"""The logs of a session of Strands: messages and states, in the order they were made."""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.core.log.records import Unknown
from holdfast.core.owners import owner_of
from holdfast.core.text.timestamps import iso_utc
from holdfast.errors import AdapterClosed, HoldfastError, LogConflict, NoSuchSession
from holdfast.integrations.common.originals import (
    keep_originals,
    original_of,
    read_original,
    reading_item,
    spell_item,
)
from holdfast.integrations.common.recent import RecentValues
from holdfast.integrations.common.rewinding import move_head
from holdfast.integrations.common.stored_items import SPOKEN, read_items
from holdfast.integrations.strands.messages import messages_from_record, records_from_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.integrations.common.home import PeerHome
    from holdfast.integrations.common.names import PeerName
    from holdfast.integrations.common.stored_items import StoredItem

FORMAT_NAME: Final = "strands"
_STATE_TYPE: Final = "peer_state"
"""The type of a record that holds a session, an agent or a group of agents as it is from then."""
_SESSION_FIELD: Final = "strands_session"
"""The field of a header that holds the session, which never changes: it is found at once, however
long the log is."""
_NEWEST_MAX: Final = 256
"""Logs whose newest message is remembered; another one is looked at before an append."""


class _Newest(NamedTuple):
    """The end of a log: its head, and the number of its newest message."""

    head: str
    number: int


class AgentLogs:
    """Reads and writes the logs of one owner's sessions."""

    def __init__(self, home: PeerHome) -> None:
        self._home = home
        self._newest: RecentValues[SessionKey, _Newest] = RecentValues(_NEWEST_MAX)

    def append(self, name: PeerName, records: list[Record]) -> None:
        """Add records to a log, which is made where there is none."""
        with explaining():
            main = self._home.key_for(name[:1]) if len(name) > 1 else None
            self._home.append(name, records, spawned_by=main)

    def create_session(self, name: PeerName, value: Any) -> None:
        """Store a session, in the header of its log where the log is new."""
        with explaining():
            self._home.ensure(name, extra={_SESSION_FIELD: spell_item(value)})
        if self.read_session(name) is None:  # there was a log of that name
            self.append(name, [state_record("session", value)])

    def read_session(self, name: PeerName) -> Any:
        """Return a session; None where there is none."""
        from strands.types.session import Session

        with explaining(), suppress(NoSuchSession):
            header = self._home.store.header(self._home.key_for(name))
            if owner_of(header.owner) == self._home.owner and _SESSION_FIELD in header.extra:
                with reading_item(header):
                    return Session.from_dict(json.loads(header.extra[_SESSION_FIELD]))
        return self.read_state(name, "session", Session.from_dict)

    def append_next(self, name: PeerName, session_message: Any) -> bool:
        """Add a message after the one that was added here before it; False where that is not the
        newest any more, or the number is taken."""
        key = self._home.key_for(name)
        newest = self._newest.get(key)
        if newest is None or session_message.message_id <= newest.number:
            return False
        records = message_records(session_message)
        with explaining(), suppress(LogConflict, NoSuchSession):
            done = self._home.store.append(key, records, expect=newest.head)
            self._newest.put(key, _Newest(done.head, session_message.message_id))
            return True
        return False

    def append_message(self, name: PeerName, session_message: Any) -> None:
        """Add a message to a log that exists. One whose number is taken gets the next one.

        The log is compared first: of two writers with one number, both messages are kept. A
        message that is there already, with its number and time, is not stored twice.
        """
        while True:
            records = message_records(session_message)
            with explaining():
                key = self._home.key_for(name)
                head = self._home.store.head(key)
                found = self.find_message(name, session_message.message_id)
                if found is not None:
                    if found.to_dict() == session_message.to_dict():
                        return
                    session_message.message_id = self.read_messages(name)[-1].message_id + 1
                    continue
                with suppress(LogConflict):  # another writer was faster
                    done = self._home.store.append(key, records, expect=head)
                    self._newest.put(key, _Newest(done.head, session_message.message_id))
                    return

    def read_state(self, name: PeerName, what: str, read: Callable[[Any], Any]) -> Any:
        """Return what `read` makes of the newest state of something; None where there is none."""
        with explaining():
            key = self._home.key_for(name)
            if not self._home.exists(key):
                return None
            for record in self._home.store.back(key):
                if record.kind == _STATE_TYPE and record.extra.get("of") == what:
                    with reading_item(record):
                        return read(json.loads(record.extra["json"]))
        return None

    def read_messages(self, name: PeerName) -> list[Any]:
        """Return all messages of a log in their order."""
        with explaining():
            key = self._home.key_for(name)
            if not self._home.exists(key):
                return []
            return list(_parse(read_items(self._home.store, key, FORMAT_NAME)))

    def find_message(self, name: PeerName, number: int) -> Any:
        """Return a message by its number, from the newest back; None where there is none."""
        from strands.types.session import SessionMessage

        with explaining():
            key = self._home.key_for(name)
            if not self._home.exists(key):
                return None
            for record in self._home.store.back(key):
                kept = original_of(record, FORMAT_NAME)
                if kept is None and messages_from_record(record):
                    break  # another program's: what is before it has to be counted
                with reading_item(record):
                    if kept and kept[0]["message_id"] <= number:
                        found = SessionMessage.from_dict(kept[0])
                        return found if found.message_id == number else None
            messages = self.read_messages(name)
        return next((found for found in messages if found.message_id == number), None)

    def replace(self, name: PeerName, session_message: Any) -> bool:
        """Write the path again from a message on; False where another writer was faster."""
        store, key = self._home.store, self._home.key_for(name)
        before, head = "", store.head(key)
        again: list[Record] = []
        is_inside = False
        for record in store.read(key):
            kept = original_of(record, FORMAT_NAME)
            with reading_item(record):
                is_it = kept is not None and any(
                    item["message_id"] == session_message.message_id for item in kept
                )
            if is_it:
                again = message_records(session_message)
                is_inside = True
            elif again:
                is_inside = is_inside and kept == []
                if not is_inside and record.kind != "rewind":
                    again.append(msgspec.structs.replace(record, id="", parent=None, more=None))
            else:
                before = record.id
        return move_head(store, key, before, head, again)


def state_record(what: str, value: Any) -> Record:
    """Return the record that holds the state of something. Raises `SessionException`."""
    with explaining():
        spelled = spell_item(value)
    return Unknown(type=_STATE_TYPE, extra={"format": FORMAT_NAME, "of": what, "json": spelled})


def message_records(session_message: Any) -> list[Record]:
    """Return the records of a message. Raises `SessionException`."""
    with explaining():
        spelled = spell_item(session_message.to_dict())
    records = records_from_message(session_message.to_message())
    return keep_originals(records, spelled, FORMAT_NAME)


def _parse(items: Iterable[StoredItem]) -> Iterator[Any]:
    """Yield the messages of records: those stored, and those of others, numbered after them."""
    from strands.types.session import SessionMessage

    number = -1
    for item in items:
        made = read_original(item.spelled)
        if made is None:
            record = item.record if item.kind in SPOKEN else None
            made = _rebuild_messages(record, number + 1)
        for message in made:
            with reading_item(item):
                found = SessionMessage.from_dict(message)
                number = int(found.message_id)
            yield found


def _rebuild_messages(record: Record | None, number: int) -> list[Any]:
    """Return the messages of Strands for a record of another program."""
    if record is None:
        return []
    at = iso_utc(record.ts)
    return [
        {"message": message, "message_id": number, "created_at": at, "updated_at": at}
        for message in messages_from_record(record)
    ]


def problem(text: str) -> Exception:
    """Return an error of the framework."""
    from strands.types.exceptions import SessionException

    error: Exception = SessionException(text)
    return error


@contextmanager
def explaining() -> Iterator[None]:
    """Raise the framework's `SessionException` for an error of ours, with its hint."""
    try:
        yield
    except AdapterClosed:
        raise
    except HoldfastError as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise problem(f"{error}{hint}") from error
