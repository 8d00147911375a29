"""`HoldfastMemoryService`: a memory service of ADK over the search of Holdfast."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, ClassVar, Final

from holdfast.core.history.access import Caller
from holdfast.core.log.ids import SessionKey
from holdfast.core.text.timestamps import iso_utc
from holdfast.engine.memory.search import Memory
from holdfast.engine.redactor import redactor
from holdfast.errors import BadItem, NoSuchRecord, NoSuchSession
from holdfast.integrations.common.home import read_in_thread, write_in_thread
from holdfast.integrations.common.originals import original_of
from holdfast.integrations.google_adk.events import FORMAT_NAME, records_from_event
from holdfast.integrations.google_adk.session_service import (
    SessionLogs,
    SessionName,
    event_facts,
    spell_event,
)
from holdfast.ports import ANY_HEAD
from holdfast.providers.embedders import as_embedder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.memory.hits import Hit
    from holdfast.core.owners import Owner
    from holdfast.integrations.common.home import PeerHome, PeerName
    from holdfast.ports import SessionStore
    from holdfast.providers.embedders import EmbedTexts
    from holdfast.providers.embeddings import Embedder

_RESULTS_MAX: Final = 10
"""Memories of one search, as many as ADK's own services return."""
_MEMORIES_MAX: Final = 64
"""Users whose search is kept open."""


class MemoryServiceMethods:
    """Searches what a user and an app's agents said. A `BaseMemoryService` of ADK.

    Sessions of a `HoldfastSessionService` over the same store are found without being added, as
    long as they are not deleted. `add_session_to_memory` stores those of another service.
    """

    framework_base: ClassVar = "google.adk.memory.base_memory_service:BaseMemoryService"

    def __init__(
        self,
        *,
        root: str | None = None,
        store: SessionStore | None = None,
        embedder: Embedder | EmbedTexts | str | None = None,
    ) -> None:
        self._logs = SessionLogs("HoldfastMemoryService", root=root, store=store, delete="trash")
        self._embedder = as_embedder(embedder)
        self._memories: dict[tuple[str, Owner], Memory] = {}
        self._mutex = threading.Lock()

    async def add_session_to_memory(self, session: Any) -> None:
        """Store the events of a session that are not in the store yet."""
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Any],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store events that are not in the store yet."""
        del custom_metadata
        name = SessionName(app_name, user_id, session_id or "")
        spelled = [spell_event(event) for event in events if event.content]
        await write_in_thread(lambda: self._add(name, spelled))

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[Any],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Note texts about a user. Raises `BadItem` where one cannot be noted."""
        del custom_metadata
        texts = ["\n".join(_texts(memory.content)) for memory in memories]
        await write_in_thread(lambda: self._note(app_name, user_id, texts))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> Any:
        """Return the passages that answer, best first, at most ten."""
        from google.adk.memory.base_memory_service import SearchMemoryResponse

        found = await read_in_thread(lambda: self._search(app_name, user_id, query))
        return SearchMemoryResponse(memories=found)

    def close(self) -> None:
        """Release the store. Using the service afterwards is a `RuntimeError`."""
        self._logs.close()

    def _add(self, name: SessionName, spelled: list[str]) -> None:
        home = self._logs.home_of(name.app, name.user)
        memory: PeerName = (FORMAT_NAME, "memory", name.user, name.session)
        known = _event_ids(home, name.peer_name) | _event_ids(home, memory)
        for text in spelled:
            event = json.loads(text)
            if event["id"] not in known:
                known.add(event["id"])
                label = f"memory of {name.user} / {name.session}"
                key = home.ensure(memory, label=label)
                home.store.append(key, records_from_event(event, text), expect=ANY_HEAD)

    def _note(self, app: str, user: str, texts: list[str]) -> None:
        home = self._logs.home_of(app, user)
        saved = home.store.notes(home.agent, home.owner, redactor=redactor()).append(texts)
        if saved.refused:
            reasons = "; ".join(refused.why for refused in saved.refused)
            raise BadItem(f"cannot note a memory: {reasons}", hint="the other ones were noted")

    def _search(self, app: str, user: str, query: str) -> list[Any]:
        home = self._logs.home_of(app, user)
        if not query.strip():
            return []
        with self._mutex:  # a memory serves one search at a time
            found = self._memory(home).search(query, scope="all", limit=_RESULTS_MAX)
        return [_entry(hit, home.store) for hit in found]

    def _memory(self, home: PeerHome) -> Memory:
        whose = (home.agent, home.owner)
        if whose not in self._memories:
            if len(self._memories) >= _MEMORIES_MAX:
                self._memories.clear()
            masks = redactor()
            self._memories[whose] = Memory(
                home.store,
                home.store.notes(*whose, redactor=masks),
                embedder=self._embedder,
                redactor=masks,
                caller=Caller(home.agent, None, owner=home.owner, visibility="agent"),
            )
        return self._memories[whose]


def _event_ids(home: PeerHome, name: PeerName) -> set[str]:
    key = home.key_for(name)
    if not home.exists(key):
        return set()
    return {event_facts(record)[0] for record in home.store.back(key)}


def _texts(content: Any) -> list[str]:
    return [part.text for part in content.parts or () if part.text]


def _entry(hit: Hit, store: SessionStore) -> Any:
    """Return a hit as a memory of ADK: the passage, and the event that it is from."""
    from google.adk.memory.memory_entry import MemoryEntry
    from google.genai import types

    event_id, author = _event_of(hit, store)
    role = "model" if hit.role == "assistant" else "user"
    return MemoryEntry(
        id=event_id or hit.citation,
        author=author or hit.role,
        content=types.Content(role=role, parts=[types.Part(text=hit.text)]),
        timestamp=None if hit.ts is None else iso_utc(hit.ts),
        custom_metadata={"citation": hit.citation},
    )


def _event_of(hit: Hit, store: SessionStore) -> tuple[str, str]:
    """Return the id and the author of the event that a hit is from; empty for a note."""
    agent, _, session = (hit.session or "").partition("/")
    if hit.path is not None or not session or not hit.record:
        return "", ""
    try:
        kept = original_of(store.find(SessionKey(agent, session), hit.record), FORMAT_NAME)
    except (NoSuchSession, NoSuchRecord):
        return "", ""  # deleted meanwhile
    return (str(kept[0].get("id", "")), str(kept[0].get("author", ""))) if kept else ("", "")
