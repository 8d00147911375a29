"""The scopes of ADK's state: of a session, of a user, of an app; and how a log keeps them.

A session's state is in its events, change by change, and now and then whole, so that reading it
costs the same in a long session. The state of a user, and that of an app, has a log of its own.
"""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.log.records import Header, Unknown
from holdfast.errors import LogConflict
from holdfast.integrations.common.originals import original_of, reading_item, spell_item
from holdfast.integrations.google_adk.events import FORMAT_NAME, has_event
from holdfast.ports import ANY_HEAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.integrations.common.home import PeerHome
    from holdfast.integrations.common.names import PeerName

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
