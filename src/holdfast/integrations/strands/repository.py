"""`HoldfastSessionRepository`: a session repository of Strands.

A session has one log of its own, and each of its agents one beside it: the messages of an agent
are records, and so are its state and every change of either, in the order they were made.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Unpack

import msgspec

from holdfast.core.log.records import Unknown
from holdfast.core.owners import owner_of
from holdfast.core.text.timestamps import iso_utc
from holdfast.errors import AdapterClosed, HoldfastError, LogConflict, NoSuchSession
from holdfast.integrations.common.home import (
    DeletingOptions,
    PeerHome,
    RecentValues,
    StoreAdapter,
    move_head,
)
from holdfast.integrations.common.originals import (
    SPOKEN,
    keep_originals,
    original_of,
    read_items,
    read_original,
    reading_item,
    spell_item,
)
from holdfast.integrations.strands.messages import messages_from_record, records_from_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.integrations.common.home import PeerName
    from holdfast.integrations.common.originals import StoredItem


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


_DEFAULT_AGENT: Final = "default"
"""The agent of a program that names none. Its messages are in the log of the session itself, so
that every other surface finds them by the name of the session."""


class SessionMethods(StoreAdapter):
    """The sessions of a repository, and the groups of agents in them."""

    def __init__(self, **where: Unpack[DeletingOptions]) -> None:
        super().__init__(**where)
        self._logs = AgentLogs(self._home)
        self._agents: dict[tuple[str, str], str] = {}
        """The agents that were seen here, with the time each was made: a message is appended
        without a look at what is before it."""

    def create_session(self, session: Any, **_options: Any) -> Any:
        """Make a session. Raises `SessionException` where there is one of that name."""
        if self.read_session(session.session_id) is not None:
            raise problem(f"Session {session.session_id} already exists")
        self._logs.create_session((session.session_id,), session.to_dict())
        return session

    def read_session(self, session_id: str, **_options: Any) -> Any:
        """Return a session; None where there is none."""
        return self._logs.read_session((session_id,))

    def delete_session(self, session_id: str, **_options: Any) -> None:
        """Delete a session with all its agents. Raises `SessionException` where there is none."""
        self._check_session(session_id)
        self._agents.clear()
        with explaining():
            for name, key in list(self._home.names()):
                if name[0] == session_id and len(name) <= 2:
                    self._home.remove(key)

    def create_multi_agent(self, session_id: str, multi_agent: Any, **_options: Any) -> None:
        """Store the state of a group of agents."""
        self._check_session(session_id)
        state = state_record(f"multi_agent {multi_agent.id}", multi_agent.serialize_state())
        self._logs.append((session_id,), [state])

    def read_multi_agent(
        self, session_id: str, multi_agent_id: str, **_options: Any
    ) -> dict[str, Any] | None:
        """Return the state of a group of agents; None where there is none."""
        state: dict[str, Any] | None = self._logs.read_state(
            (session_id,), f"multi_agent {multi_agent_id}", dict
        )
        return state

    def update_multi_agent(self, session_id: str, multi_agent: Any, **_options: Any) -> None:
        """Store the state of a group of agents again. Raises `SessionException` for a new one."""
        if self.read_multi_agent(session_id, multi_agent.id) is None:
            raise problem(
                f"MultiAgent state {multi_agent.id} in session {session_id} does not exist"
            )
        self.create_multi_agent(session_id, multi_agent)

    def _check_session(self, session_id: str) -> None:
        if self.read_session(session_id) is None:
            raise problem(f"Session {session_id} does not exist")


class RepositoryMethods(SessionMethods):
    """Keeps sessions, agents and their messages in any store. A `SessionRepository` of Strands.

    `root` is the address of a store, `store` an open one. A deleted session is in the trash; with
    `delete="erase"` it is gone, with everything made from it.
    """

    framework_base: ClassVar = "strands.session.session_repository:SessionRepository"

    def create_agent(self, session_id: str, session_agent: Any, **_options: Any) -> None:
        """Make an agent of a session. Raises `SessionException` where there is one already."""
        self._check_session(session_id)
        if self._agent(session_id, session_agent.agent_id) is not None:
            raise problem(f"Agent {session_agent.agent_id} already exists in session {session_id}")
        self._put_agent(session_id, session_agent)

    def read_agent(self, session_id: str, agent_id: str, **_options: Any) -> Any:
        """Return an agent of a session; None where there is none."""
        return self._agent(session_id, agent_id)

    def update_agent(self, session_id: str, session_agent: Any, **_options: Any) -> None:
        """Store the state of an agent. Raises `SessionException` where there is no such agent."""
        session_agent.created_at = self._check_agent(session_id, session_agent.agent_id)
        self._put_agent(session_id, session_agent)

    def create_message(
        self, session_id: str, agent_id: str, session_message: Any, **_options: Any
    ) -> None:
        """Store a message durably. One whose number another writer took gets the next number."""
        name = _name_of(session_id, agent_id)
        if not self._logs.append_next(name, session_message):
            self._check_agent(session_id, agent_id)
            self._logs.append_message(name, session_message)

    def read_message(self, session_id: str, agent_id: str, message_id: int, **_options: Any) -> Any:
        """Return a message by its number; None where there is none."""
        return self._logs.find_message(_name_of(session_id, agent_id), message_id)

    def update_message(
        self, session_id: str, agent_id: str, session_message: Any, **_options: Any
    ) -> None:
        """Put a message in the place of that with its number; the log keeps the old one, on a
        branch."""
        name = _name_of(session_id, agent_id)
        before = self._logs.find_message(name, session_message.message_id)
        if before is None:
            raise problem(f"Message {session_message.message_id} does not exist")
        session_message.created_at = before.created_at
        with explaining():
            while not self._logs.replace(name, session_message):
                pass  # another writer was faster

    def list_messages(
        self,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **_options: Any,
    ) -> list[Any]:
        """Return the messages of an agent in their order, from `offset` on, at most `limit`."""
        found = self._logs.read_messages(_name_of(session_id, agent_id))
        return found[offset:] if limit is None else found[offset : offset + limit]

    def _check_agent(self, session_id: str, agent_id: str) -> str:
        """Return the time at which an agent was made. Raises `SessionException`."""
        made = self._agents.get((session_id, agent_id))
        with explaining():
            if made is not None and self._home.exists(
                self._home.key_for(_name_of(session_id, agent_id))
            ):
                return made
        found = self._agent(session_id, agent_id)
        if found is None:
            raise problem(f"Agent {agent_id} in session {session_id} does not exist")
        return str(found.created_at)

    def _agent(self, session_id: str, agent_id: str) -> Any:
        from strands.types.session import SessionAgent

        name = _name_of(session_id, agent_id)
        found = self._logs.read_state(name, "agent", SessionAgent.from_dict)
        if found is not None:
            self._agents[session_id, agent_id] = found.created_at
        return found

    def _put_agent(self, session_id: str, session_agent: Any) -> None:
        state = state_record("agent", session_agent.to_dict())
        self._logs.append(_name_of(session_id, session_agent.agent_id), [state])


def _name_of(session_id: str, agent_id: str) -> PeerName:
    return (session_id,) if agent_id == _DEFAULT_AGENT else (session_id, agent_id)
