"""`HoldfastSessionService`: a session service of ADK. Every call of the store runs in a thread.

An app is an agent, a user an owner. A session's state is in its events, change by change, and now
and then whole, so that reading it costs the same in a long session. The state of a user, and that
of an app, has a log of its own. An event is appended by comparing first, so that two processes lose
nothing. Where the caller has not seen what another one wrote, both are kept, unless that would
change what either meant.
"""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from holdfast.core.log.records import Header, Unknown
from holdfast.errors import BadItem, LogConflict, NoSuchSession, SessionExists
from holdfast.integrations.common.home import (
    PeerHome,
    RecentValues,
    read_in_thread,
    read_name,
    session_id_for,
    try_append,
    write_in_thread,
)
from holdfast.integrations.common.originals import items_of, original_of, reading_item, spell_item
from holdfast.integrations.google_adk.events import (
    FORMAT_NAME,
    events_as_json,
    has_event,
    records_from_event,
)
from holdfast.ports import ANY_HEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json, Record
    from holdfast.integrations.common.home import Delete, PeerName
    from holdfast.integrations.common.originals import StoredItem
    from holdfast.ports import SessionStore


APP_PREFIX: Final = "app:"
USER_PREFIX: Final = "user:"
_TEMP_PREFIX: Final = "temp:"
STATE_TYPE: Final = "peer_state"
"""The type of a record that holds a state: a change of it, or all of it from then on."""
STATE_FIELD: Final = "google_adk_state"
"""The field of a header with the state that a session began with."""
RECENT_RECORDS: Final = 64
"""Records that are read at least: an event that is delivered again is looked for among them."""
_WHOLE_EVERY: Final = 64
"""Records after which a small state is written whole again."""
_BYTES_PER_RECORD: Final = 256
"""Of a state, for each record more before it is written whole again: the copies of a large one
take no more room than the events do."""


class StateAtHead(msgspec.Struct, frozen=True):
    """A session as it is at a record of its log."""

    head: str
    state: Json
    """Of the session's own scope."""
    updated: float
    """The time of the newest event."""
    ids: tuple[str, ...] = ()
    """The newest events."""
    since: int = 0
    """Records since the state was written whole."""

    def advance(self, records: Iterable[Record]) -> StateAtHead:
        """Return the session as it is after more records."""
        state, updated, since = dict(self.state), self.updated, self.since
        ids, head = list(self.ids), self.head
        for record in records:
            head, since = record.id, since + 1
            whole = whole_state(record)
            if whole is not None:
                state, updated = dict(whole["state"]), whole["updated"]
                since = 0
            elif has_event(record):
                event_id, delta, updated = event_facts(record)
                ids.append(event_id)
                state |= delta
        return StateAtHead(head, state, updated, tuple(ids[-RECENT_RECORDS:]), since)

    def snapshot(self, new: int) -> list[Record]:
        """Return the state as a record, if it is due after so many new records; else nothing."""
        due = _WHOLE_EVERY
        if self.since + new >= due:
            spelled = spell_item({"state": self.state, "updated": self.updated})
            due += len(spelled) // _BYTES_PER_RECORD
            if self.since + new >= due:
                return [_state_record("session", spelled)]
        return []


NO_STATE: Final = StateAtHead("", {}, 0.0)


def whole_state(record: Record) -> Json | None:
    """Return the session's state and time that a record holds; None for any other record."""
    if isinstance(record, Header):
        with reading_item(record):
            began = dict(json.loads(record.extra.get(STATE_FIELD) or "{}"))
            return {"state": began, "updated": record.ts}
    if record.kind == STATE_TYPE and record.extra.get("of") == "session":
        with reading_item(record):
            found = json.loads(record.extra["json"])
            return {"state": dict(found["state"]), "updated": float(found["updated"])}
    return None


def event_facts(record: Record) -> tuple[str, Json, float]:
    """Return the id, the change of the session's state and the time of a record's event."""
    kept = original_of(record, FORMAT_NAME)
    if not kept:
        return record.id, {}, record.ts
    with reading_item(record):
        actions = kept[0].get("actions") or {}
        delta = split_scopes(actions.get("state_delta") or {})["session"]
        return str(kept[0].get("id", "")), delta, float(kept[0].get("timestamp") or record.ts)


def split_scopes(state: Mapping[str, Any]) -> dict[str, Json]:
    """Return the parts of a state: of the app, the user and the session; temporary ones are
    dropped."""
    scopes: dict[str, Json] = {"app": {}, "user": {}, "session": {}}
    for key, value in state.items():
        if key.startswith(APP_PREFIX):
            scopes["app"][key.removeprefix(APP_PREFIX)] = value
        elif key.startswith(USER_PREFIX):
            scopes["user"][key.removeprefix(USER_PREFIX)] = value
        elif not key.startswith(_TEMP_PREFIX):
            scopes["session"][key] = value
    return scopes


def merge_scopes(session: Json, app: Json, user: Json) -> Json:
    """Return one state of all three scopes, for a caller who may change it."""
    merged = copy.deepcopy(session)
    merged |= {APP_PREFIX + key: value for key, value in app.items()}
    merged |= {USER_PREFIX + key: value for key, value in user.items()}
    return merged


class SharedState:
    """The state of a user, or of an app, in a log of its own."""

    def __init__(self, home: PeerHome, name: PeerName, label: str) -> None:
        self._home = home
        self._name = name
        self._label = label

    def read(self) -> Json:
        """Return the state; an empty one where there is none."""
        state, _changes, _head = self._read()
        return state

    def update(self, delta: Json) -> None:
        """Change some values. Of two writers, the later one wins, value by value."""
        if not delta:
            return
        key = self._home.ensure(self._name, label=self._label)
        changed = _state_record("change", spell_item(delta))
        self._home.store.append(key, [changed], expect=ANY_HEAD)
        state, changes, head = self._read()
        spelled = spell_item(state)
        if changes >= _WHOLE_EVERY + len(spelled) // _BYTES_PER_RECORD:
            with suppress(LogConflict):  # the next one writes it
                self._home.store.append(key, [_state_record("whole", spelled)], expect=head)

    def _read(self) -> tuple[Json, int, str]:
        """Return the state, the number of changes since it was whole, and the head."""
        key = self._home.key_for(self._name)
        changes: list[Json] = []
        state: Json = {}
        head = ""
        if self._home.exists(key):
            for record in self._home.store.back(key):
                head = head or record.id
                if record.kind != STATE_TYPE:
                    continue
                with reading_item(record):
                    found = dict(json.loads(record.extra["json"]))
                if record.extra.get("of") == "whole":
                    state = found
                    break
                changes.append(found)
        for change in reversed(changes):
            state |= change
        return state, len(changes), head


def _state_record(of: str, spelled: str) -> Record:
    return Unknown(type=STATE_TYPE, extra={"format": FORMAT_NAME, "of": of, "json": spelled})


def fold(newest_first: Sequence[Record]) -> StateAtHead:
    """Return a session as it is after records, among which is one with its whole state."""
    needed = len(newest_first)
    has_state = False
    for count, record in enumerate(newest_first, 1):
        has_state = has_state or whole_state(record) is not None
        if has_state and count >= RECENT_RECORDS:
            needed = count
            break
    return NO_STATE.advance(reversed(newest_first[:needed]))


_STATES_MAX: Final = 1_000
"""Sessions whose state is remembered; that of another one is read again."""


class SessionName(msgspec.Struct, frozen=True):
    """The three names of a session in ADK."""

    app: str
    user: str
    session: str

    @property
    def peer_name(self) -> PeerName:
        """The name of the session among those of its app."""
        return FORMAT_NAME, self.user, self.session


class FoundSession(msgspec.Struct, frozen=True):
    """A session, or the newest part of it, as it is read."""

    name: SessionName
    state: Json
    """Of all three scopes."""
    updated: float
    head: str
    events: tuple[str, ...] = ()
    """As JSON, which ADK's own types read."""


class SeenRevision(msgspec.Struct, frozen=True):
    """The revision of a session that a caller holds."""

    head: str = ""
    """The newest record that it knows of; empty: its events say what it has seen."""
    changed: tuple[str, ...] = ()
    """Values of the state that others changed before that, unseen by the caller."""
    is_behind: bool = False
    """True where others added events before that, unseen by the caller."""

    @classmethod
    def read(cls, marker: str | None) -> SeenRevision:
        """Return the revision that a marker holds; an empty one where there is none."""
        try:
            found = json.loads(marker or "")
            changed = tuple(str(key) for key in found["changed"])
            return cls(str(found["head"]), changed, bool(found["is_behind"]))
        except (KeyError, TypeError, ValueError):
            return cls()

    @property
    def marker(self) -> str:
        """The revision as a text."""
        return spell_item(msgspec.structs.asdict(self))


class StaleRevision(Exception):
    """Raised where an event would change what another writer meant."""


class SessionLogReader:
    """Reads the sessions of every app and user in a store."""

    def __init__(
        self, who: str, *, root: str | None, store: SessionStore | None, delete: Delete
    ) -> None:
        self._home = PeerHome(who, root=root, store=store, agent=None, delete=delete)
        self._states: RecentValues[SessionKey, StateAtHead] = RecentValues(_STATES_MAX)

    def close(self) -> None:
        """Release the store."""
        self._home.close()

    def home_of(self, app: str, user: str = "") -> PeerHome:
        """Return the home of a user's sessions in an app. Raises `AdapterClosed`."""
        return self._home.at(session_id_for((app,)), user)

    def key_for(self, name: SessionName) -> SessionKey:
        """Return the key of a session in the store."""
        return self.home_of(name.app, name.user).key_for(name.peer_name)

    def find(
        self, name: SessionName, newest: int | None = None, after: float | None = None
    ) -> FoundSession | None:
        """Return a session with its events, or the newest of them; None where there is none.

        With `after`, the events that follow the last one before that time.
        """
        home = self.home_of(name.app, name.user)
        key = home.key_for(name.peer_name)
        if not home.exists(key, is_read_whole=newest is None and after is None):
            return None
        try:
            state, items = self._read(home, key, newest, after)
        except NoSuchSession:
            return None  # removed meanwhile
        found = list(events_as_json(items, name.app))
        if newest is not None:
            found = found[-newest:] if newest else []
        if after is not None:
            times = [_event_time(item) for _event, item in found]
            late = [place for place, time in enumerate(times) if time < after]
            found = found[late[-1] + 1 :] if late else found
        return msgspec.structs.replace(
            self._describe(name, state), events=tuple(event for event, _item in found)
        )

    def _read(
        self, home: PeerHome, key: SessionKey, newest: int | None, after: float | None
    ) -> tuple[StateAtHead, list[StoredItem]]:
        """Return a session as it is now, and at least the records of the events that are wanted,
        oldest first. Raises `NoSuchSession`."""
        if newest is None and after is None:
            state = self._state(home, key)
            items = list(home.items(key, FORMAT_NAME))
            if items and items[-1].id == state.head:
                return state, items
        events = 0  # of one view of the log: another writer came in between, or some are wanted

        def is_enough(record: Record) -> bool:
            nonlocal events
            if has_event(record):
                events += 1
                if after is not None and event_facts(record)[2] < after:
                    return True
            return newest is not None and events >= newest

        records = self._newest(home, key, is_enough)
        state = fold(records)
        self._states.put(key, state)
        return state, list(items_of(reversed(records), FORMAT_NAME))

    def list_sessions(self, app: str, user: str | None) -> list[FoundSession]:
        """Return the sessions of an app, or of one of its users, without their events."""
        names = [
            SessionName(app, name[1], name[2])
            for name, _key in self._names(app)
            if user is None or name[1] == user
        ]
        found = []
        for name in names:
            try:
                home = self.home_of(app, name.user)
                found.append(self._describe(name, self._state(home, home.key_for(name.peer_name))))
            except NoSuchSession:
                continue  # removed meanwhile
        return sorted(found, key=lambda each: (each.updated, each.name.user, each.name.session))

    def user_state(self, app: str, user: str) -> Json:
        """Return the state of a user in an app."""
        return self._user_state(app, user).read()

    def _names(self, app: str) -> Iterator[tuple[PeerName, SessionKey]]:
        home = self.home_of(app)
        for key in list(home.store.keys(home.agent)):
            try:
                name = read_name(home.store.header(key))
            except NoSuchSession:
                continue  # removed meanwhile
            is_session = name is not None and len(name) == 3 and name[0] == FORMAT_NAME
            if name is not None and is_session and home.key_for(name) == key:
                yield name, key

    def _describe(self, name: SessionName, state: StateAtHead) -> FoundSession:
        merged = merge_scopes(
            state.state, self._app_state(name.app).read(), self.user_state(name.app, name.user)
        )
        return FoundSession(name, merged, state.updated, state.head)

    def _newest(
        self, home: PeerHome, key: SessionKey, is_enough: Callable[[Record], bool]
    ) -> list[Record]:
        """Return the newest records, newest first: enough, and enough to know the state."""
        records = []
        has_state = is_done = False
        for record in home.store.back(key):
            records.append(record)
            has_state = has_state or whole_state(record) is not None
            is_done = is_done or is_enough(record)
            if has_state and is_done and len(records) >= RECENT_RECORDS:
                break
        return records

    def _state(self, home: PeerHome, key: SessionKey) -> StateAtHead:
        """Return a session as it is now. Raises `NoSuchSession`."""
        known = self._states.get(key)
        newer: list[Record] = []
        has_state = False
        for record in home.store.back(key):
            if known is not None and record.id == known.head:
                state = known.advance(reversed(newer))
                break
            newer.append(record)
            has_state = has_state or whole_state(record) is not None
            if has_state and len(newer) >= RECENT_RECORDS:
                state = fold(newer)
                break
        else:
            state = fold(newer)
        self._states.put(key, state)
        return state

    def _app_state(self, app: str) -> SharedState:
        return SharedState(
            self.home_of(app), (FORMAT_NAME, "app state", "", ""), "state of the app"
        )

    def _user_state(self, app: str, user: str) -> SharedState:
        name = (FORMAT_NAME, "user state", user, "")
        return SharedState(self.home_of(app, user), name, f"state of {user}")


class SessionLogs(SessionLogReader):
    """Reads and writes the sessions of every app and user in a store."""

    def create(self, name: SessionName, state: Json) -> FoundSession | None:
        """Make a session with a state of all scopes; None where there is one of that name."""
        home = self.home_of(name.app, name.user)
        if home.exists(home.key_for(name.peer_name)):
            return None
        scopes = split_scopes(state)
        self._update_shared(name, scopes)
        extra = {STATE_FIELD: spell_item(scopes["session"])}
        label = f"{name.user} / {name.session}"
        try:
            header = home.create(name.peer_name, label=label, extra=extra)
        except SessionExists:
            return None
        return self._describe(name, fold([header]))

    def append(
        self, name: SessionName, event: Json, spelled: str, seen: SeenRevision, ids: Collection[str]
    ) -> SeenRevision | None:
        """Store an event durably; None where it is stored already.

        `spelled` is its JSON, `seen` the revision that the caller holds, and `ids` are its events.
        Raises `NoSuchSession` and `StaleRevision`.
        """
        home = self.home_of(name.app, name.user)
        key = home.key_for(name.peer_name)
        records = records_from_event(event, spelled)
        scopes = split_scopes((event.get("actions") or {}).get("state_delta") or {})
        is_shared = False
        before = self._states.get(key)
        if before is not None and before.head != seen.head:
            before = None
        while True:
            # What the caller saw last is usually the head: the append itself tells if it is not.
            is_looked_at = before is None
            if before is None:
                if not home.exists(key):
                    raise NoSuchSession(key.session)
                before = self._state(home, key)
            is_known = event["id"] in before.ids or event["id"] in ids
            if is_known and self._is_stored(home, key, event):
                return None
            known = self._catch_up(home, key, seen, ids) if is_looked_at else seen
            _refuse_stale(known, event, scopes["session"])
            if not is_shared:  # before the event: a crash between them leaves no event without it
                self._update_shared(name, scopes)
                is_shared = True
            after = msgspec.structs.replace(
                before, state={**before.state, **scopes["session"]}, updated=event["timestamp"]
            )
            written = [*records, *after.snapshot(len(records))]
            stored = try_append(home.store, key, written, before.head)
            if stored is not None:
                self._states.put(key, before.advance(stored))
                return msgspec.structs.replace(known, head=stored[-1].id)
            self._states.forget(key)
            before = None

    def delete(self, name: SessionName) -> None:
        """Move a session to the trash, or erase it. Does nothing where there is none."""
        home = self.home_of(name.app, name.user)
        key = home.key_for(name.peer_name)
        self._states.forget(key)
        home.remove(key)

    def _catch_up(
        self, home: PeerHome, key: SessionKey, seen: SeenRevision, ids: Collection[str]
    ) -> SeenRevision:
        """Return what the caller has not seen of the session as it is now."""
        changed, is_behind = set(seen.changed), seen.is_behind
        for record in home.store.back(key):
            if record.id == seen.head:
                break
            if has_event(record):
                event_id, delta, _time = event_facts(record)
                if not seen.head and event_id in ids:
                    break
                is_behind = True
                changed |= delta.keys()
        return SeenRevision(seen.head, tuple(sorted(changed)), is_behind)

    def _is_stored(self, home: PeerHome, key: SessionKey, event: Json) -> bool:
        for record in home.store.back(key):
            kept = original_of(record, FORMAT_NAME)
            if kept and kept[0] == event:
                return True
        return False

    def _update_shared(self, name: SessionName, scopes: dict[str, Json]) -> None:
        self._app_state(name.app).update(scopes["app"])
        self._user_state(name.app, name.user).update(scopes["user"])


def _event_time(item: StoredItem) -> float:
    """Return the time of the event that begins with a record."""
    record = item.record
    return 0.0 if record is None else event_facts(record)[2]


def _refuse_stale(known: SeenRevision, event: Json, delta: Json) -> None:
    """Raise `StaleRevision` where an event would change what another writer meant."""
    clash = sorted(set(known.changed) & delta.keys())
    if clash:
        raise StaleRevision(f"another writer has changed {', '.join(clash)}")
    actions = event.get("actions") or {}
    if known.is_behind and (
        actions.get("compaction") or actions.get("rewind_before_invocation_id")
    ):
        raise StaleRevision("another writer has added events, which this one would cover,")


class SessionServiceMethods:
    """Keeps sessions, their events and every scope of state. A `BaseSessionService` of ADK.

    `root` is the address of a store, `store` an open one. A deleted session is in the trash; with
    `delete="erase"` it is gone, with everything made from it.
    """

    framework_base: ClassVar = "google.adk.sessions.base_session_service:BaseSessionService"

    _apply_temp_state: Callable[[Any, Any], None]
    _trim_temp_delta_state: Callable[[Any], Any]
    _commit_event_to_session: Callable[[Any, Any], Any]

    def __init__(
        self,
        *,
        root: str | None = None,
        store: SessionStore | None = None,
        delete: Delete = "trash",
    ) -> None:
        self._logs = SessionLogs("HoldfastSessionService", root=root, store=store, delete=delete)

    def key_for(self, *, app_name: str, user_id: str, session_id: str) -> SessionKey:
        """Return the key of a session in its store."""
        return self._logs.key_for(_name(app_name, user_id, session_id))

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Any:
        """Make a session. Raises `AlreadyExistsError` where there is one of that name."""
        from google.adk.errors.already_exists_error import AlreadyExistsError
        from google.adk.platform.uuid import new_uuid

        name = _name(app_name, user_id, (session_id or "").strip() or new_uuid())
        given = _storable_state(state or {})
        made = await write_in_thread(lambda: self._logs.create(name, given))
        if made is None:
            raise AlreadyExistsError(f"Session with id {name.session} already exists.")
        return _session(made)

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: Any = None
    ) -> Any:
        """Return a session with its events, or the newest of them; None where there is none."""
        name = _name(app_name, user_id, session_id)
        newest = None if config is None else config.num_recent_events
        after = None if config is None else config.after_timestamp
        return await read_in_thread(lambda: _read(self._logs, name, newest, after))

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> Any:
        """Return the sessions of an app, or of one of its users, without their events."""
        from google.adk.sessions.base_session_service import ListSessionsResponse

        found = await read_in_thread(lambda: self._logs.list_sessions(app_name, user_id))
        return ListSessionsResponse(sessions=[_session(each) for each in found])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session. The states of its user and its app stay."""
        name = _name(app_name, user_id, session_id)
        await write_in_thread(lambda: self._logs.delete(name))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user, by keys without their prefix."""
        return await read_in_thread(lambda: self._logs.user_state(app_name, user_id))

    async def append_event(self, session: Any, event: Any) -> Any:
        """Store an event durably, and add it to the session; one that is partial is only returned.

        Raises `SessionNotFoundError`, and `StaleSessionError` where another writer has changed
        what the event changes, or has added events that a compaction or a rewind would cover.
        """
        from google.adk.errors import StaleSessionError
        from google.adk.errors.session_not_found_error import SessionNotFoundError

        if event.partial:
            return event
        name = _name(session.app_name, session.user_id, session.id)
        spelled = spell_event(self._trim_temp_delta_state(_copy_event(event)))
        seen = SeenRevision.read(session._storage_update_marker)
        ids = {each.id for each in session.events}

        try:
            kept = await write_in_thread(
                lambda: self._logs.append(name, json.loads(spelled), spelled, seen, ids)
            )
        except NoSuchSession as error:
            raise SessionNotFoundError(f"Session {session.id} not found.") from error
        except StaleRevision as error:
            raise StaleSessionError(
                f"session {session.id} cannot take the event: {error} since this copy of it was "
                "read; get the session again, and do the step again; nothing was stored"
            ) from error
        if kept is None:
            return event  # delivered again
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        session._storage_update_marker = kept.marker
        session.last_update_time = event.timestamp
        return self._commit_event_to_session(session, event)

    def close(self) -> None:
        """Release the store. Using the service afterwards is a `RuntimeError`."""
        self._logs.close()


def _name(app: str, user: str, session: str) -> SessionName:
    """Return the name of a session; like ADK's own services, without spaces around its id."""
    return SessionName(app, user, session.strip())


def _copy_event(event: Any) -> Any:
    """Return an event whose changes of state can be left out: a refused one stays as it is."""
    return event.model_copy(update={"actions": event.actions.model_copy()})


def spell_event(event: Any) -> str:
    """Return the JSON of an event. Raises `BadItem`."""
    from pydantic_core import PydanticSerializationError

    try:
        spelled: str = event.model_dump_json(exclude_defaults=True)
    except (PydanticSerializationError, ValueError) as error:
        raise BadItem(
            f"cannot store event {event.id}: {error}",
            hint="events hold what JSON can hold; nothing was stored",
        ) from error
    return spelled


def _storable_state(state: dict[str, Any]) -> Json:
    """Return a state as an event would store it. Raises `BadItem`."""
    from google.adk.events.event_actions import EventActions

    stored: Json = EventActions(state_delta=state).model_dump(mode="json")["state_delta"]
    spell_item(stored)
    return stored


def _read(logs: SessionLogs, name: SessionName, newest: int | None, after: float | None) -> Any:
    found = logs.find(name, newest, after)
    return None if found is None else _session(found)


def _session(found: FoundSession) -> Any:
    """Return a session of ADK. Raises `BadItem` for an event of a newer release."""
    from google.adk.events.event import Event
    from google.adk.sessions.session import Session
    from pydantic import ValidationError

    try:
        events = [Event.model_validate_json(spelled) for spelled in found.events]
    except ValidationError as error:
        raise BadItem(
            f"cannot read session {found.name.session}: {error}",
            hint="was an event written by a newer release of ADK? Install that one",
        ) from error
    session = Session(
        id=found.name.session,
        app_name=found.name.app,
        user_id=found.name.user,
        state=found.state,
        events=events,
        last_update_time=found.updated,
    )
    session._storage_update_marker = SeenRevision(found.head).marker
    return session
