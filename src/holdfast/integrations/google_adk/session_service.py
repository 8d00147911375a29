"""`HoldfastSessionService`: a session service of ADK. Every call of the store runs in a thread."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from holdfast.engine.adapters import require
from holdfast.errors import BadItem, NoSuchSession
from holdfast.integrations.common.blocking import read_in_thread, write_in_thread
from holdfast.integrations.common.originals import spell_item
from holdfast.integrations.google_adk.session_logs import (
    SeenRevision,
    SessionLogs,
    SessionName,
    StaleRevision,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.integrations.common.home import Delete
    from holdfast.integrations.google_adk.session_logs import FoundSession
    from holdfast.ports import SessionStore


class SessionServiceMethods:
    """Keeps sessions, their events and every scope of state. A `BaseSessionService` of ADK.

    `root` is the address of a store, `store` an open one. A deleted session is in the trash; with
    `delete="erase"` it is gone, with everything made from it.
    """

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


@cache
def service_class() -> type:
    """Return `HoldfastSessionService`, made on first use."""
    require("google_adk")
    from google.adk.sessions.base_session_service import BaseSessionService

    return type(
        "HoldfastSessionService",
        (SessionServiceMethods, BaseSessionService),
        {
            "__doc__": SessionServiceMethods.__doc__,
            "__module__": "holdfast.integrations.google_adk",
        },
    )


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
