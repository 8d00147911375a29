"""`HoldfastMemoryService` finds what a user and an app's agents said, and nobody else's words."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import peers

from holdfast.integrations import google_adk as adapter
from holdfast.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def framework() -> None:
    peers.needs("google-adk")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "store") as opened:
        yield opened


def event(text: str, author: str = "user") -> Any:
    from google.adk.events import Event
    from google.genai import types

    role = "user" if author == "user" else "model"
    return Event(author=author, content=types.Content(role=role, parts=[types.Part(text=text)]))


async def search(memory: Any, query: str, app: str = "helper", user: str = "ann") -> list[str]:
    found = await memory.search_memory(app_name=app, user_id=user, query=query)
    return [each.content.parts[0].text for each in found.memories]


def test_sessions_of_the_same_store_are_found(store: Any) -> None:
    async def main() -> None:
        sessions = adapter.HoldfastSessionService(store=store)
        memory = adapter.HoldfastMemoryService(store=store)
        for app, user in (("helper", "ann"), ("helper", "bob"), ("other", "ann"), ("helper", "*")):
            who: dict[str, Any] = {"app_name": app, "user_id": user, "session_id": "s1"}
            session = await sessions.create_session(**who)
            await sessions.append_event(session, event(f"The harbour of {app} {user} is blue."))
            await sessions.append_event(session, event(f"Noted for {user}.", "helper"))
        for app, user in (("helper", "ann"), ("helper", "bob"), ("other", "ann"), ("helper", "*")):
            found = await search(memory, "harbour", app, user)
            assert found == [f"The harbour of {app} {user} is blue."]
        assert await search(memory, "harbour", user="carol") == []
        assert await search(memory, " ") == []
        found = await memory.search_memory(app_name="helper", user_id="ann", query="noted")
        assert found.memories[0].author == "helper"
        who = {"app_name": "helper", "user_id": "ann", "session_id": "s1"}
        kept = await sessions.get_session(**who)
        await memory.add_session_to_memory(kept)
        assert found.memories[0].id == kept.events[1].id
        assert len(await search(memory, "harbour")) == 1
        await sessions.delete_session(**who)
        assert await search(memory, "harbour") == []

    asyncio.run(main())


def test_sessions_of_another_service_are_added_once(store: Any) -> None:
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import InMemorySessionService
    from google.genai import types

    async def main() -> None:
        theirs = InMemorySessionService()
        session = await theirs.create_session(app_name="helper", user_id="ann", session_id="s1")
        await theirs.append_event(session, event("The harbour is blue."))
        memory = adapter.HoldfastMemoryService(store=store)
        for _time in range(2):
            await memory.add_session_to_memory(session)
        await memory.add_events_to_memory(
            app_name="helper",
            user_id="ann",
            events=[event("The bridge is red."), session.events[0]],
        )
        text = types.Content(parts=[types.Part(text="Ann likes tea with lemon.")])
        await memory.add_memory(
            app_name="helper", user_id="ann", memories=[MemoryEntry(content=text)]
        )
        assert await search(memory, "harbour blue") == ["The harbour is blue."]
        assert await search(memory, "bridge") == ["The bridge is red."]
        assert "lemon" in (await search(memory, "tea"))[0]
        sessions = adapter.HoldfastSessionService(store=store)
        assert (await sessions.list_sessions(app_name="helper")).sessions == []
        memory.close()
        with pytest.raises(RuntimeError, match="HoldfastMemoryService is closed"):
            await search(memory, "harbour")

    asyncio.run(main())


def test_a_search_in_a_long_history_is_small(store: Any) -> None:
    """Passages, not sessions: what a model is given stays small."""

    async def main() -> None:
        sessions = adapter.HoldfastSessionService(store=store)
        who: dict[str, Any] = {"app_name": "helper", "user_id": "ann", "session_id": "s1"}
        session = await sessions.create_session(**who)
        for number in range(60):
            long = f"The harbour {number} is blue. " + f"Sentence {number} about nothing. " * 300
            await sessions.append_event(session, event(long))
        memory = adapter.HoldfastMemoryService(store=store)
        found = await search(memory, "harbour")
        assert 1 <= len(found) <= 10
        assert sum(map(len, found)) < 30_000

    asyncio.run(main())
