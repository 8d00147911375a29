"""The conversation answers at once, however long the session is that was never cut."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.surfaces.http.servers import serving

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Compaction, Undo, User
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.console.plans import try_request
from holdfast.surfaces.console.session_pages import conversation


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[SessionKey]:
    """The sessions whose next request was planned."""
    found: list[SessionKey] = []
    plan = try_request

    def count(store: Any, key: SessionKey, terms: Any) -> Any:
        found.append(key)
        return plan(store, key, terms)

    monkeypatch.setattr(conversation, "try_request", count)
    monkeypatch.setattr(conversation, "_VIEW_RECORDS", 60)
    return found


@pytest.mark.parametrize(
    ("texts", "ending", "plans"),
    [
        (40, [], 1),
        (200, [], 0),
        (200, [Compaction(id="cut", summary="so far", first_kept="u199")], 1),
        (200, [Compaction(id="cut", summary="so far", first_kept="u199"), Undo(target="cut")], 0),
    ],
)
def test_a_request_is_planned_once_and_only_for_a_short_view(
    planned: list[SessionKey], texts: int, ending: list[Any], plans: int
) -> None:
    """A long view without a cut is not planned; its newest messages are there all the same."""

    async def scenario() -> None:
        key = SessionKey("main", "long")
        with MemoryStore() as store:
            store.create(key)
            said = [User(id=f"u{number}", content=f"text {number}") for number in range(texts)]
            store.append(key, [*said, *ending], expect=ANY_HEAD)
            async with serving(store) as client:
                page = await client.get("/s/main/long")
        assert page.status_code == 200
        assert f"text {texts - 1}<" in page.text
        assert len(planned) == plans

    asyncio.run(scenario())
