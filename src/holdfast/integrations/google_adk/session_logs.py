"""The sessions of ADK in a store, blocking: an app is an agent, a user an owner.

An event is appended by comparing first, so that two processes lose nothing. Where the caller has
not seen what another one wrote, both are kept, unless that would change what either meant.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.errors import LogConflict, NoSuchSession, SessionExists
from holdfast.integrations.common.home import PeerHome
from holdfast.integrations.common.names import read_name, session_id_for
from holdfast.integrations.common.originals import original_of, spell_item
from holdfast.integrations.common.recent import RecentValues
from holdfast.integrations.common.stored_items import items_of
from holdfast.integrations.google_adk.events import (
    FORMAT_NAME,
    events_as_json,
    has_event,
    records_from_event,
)
from holdfast.integrations.google_adk.states import (
    RECENT_RECORDS,
    STATE_FIELD,
    SharedState,
    StateAtHead,
    event_facts,
    fold,
    merge_scopes,
    split_scopes,
    whole_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json, Record
    from holdfast.integrations.common.home import Delete
    from holdfast.integrations.common.names import PeerName
    from holdfast.integrations.common.stored_items import StoredItem
    from holdfast.ports import SessionStore

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
            added = self._try_append(home, key, [*records, *after.snapshot(len(records))], before)
            if added is not None:
                return msgspec.structs.replace(known, head=added)
            before = None

    def delete(self, name: SessionName) -> None:
        """Move a session to the trash, or erase it. Does nothing where there is none."""
        home = self.home_of(name.app, name.user)
        key = home.key_for(name.peer_name)
        self._states.forget(key)
        home.remove(key)

    def _try_append(
        self, home: PeerHome, key: SessionKey, records: list[Record], before: StateAtHead
    ) -> str | None:
        """Append records to a session as it was, and return its head; None where it is another by
        now."""
        try:
            added = home.store.append(key, records, expect=before.head)
        except (LogConflict, NoSuchSession):
            self._states.forget(key)
            return None
        stored = [
            msgspec.structs.replace(record, id=record_id)
            for record, record_id in zip(records, added.ids, strict=True)
        ]
        self._states.put(key, before.advance(stored))
        return added.head

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
