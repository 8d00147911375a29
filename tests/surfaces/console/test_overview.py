"""The page of the bill: each owner's own, and the numbers of `inspect`."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.surfaces.http.servers import serving, token_for

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, ToolResult, User
from holdfast.core.owners import NamedOwner
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.console import overview

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Record

EVIL = "<script>alert(1)</script>"


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with MemoryStore() as made:
        yield made


def talk(calls: int) -> list[Record]:
    """A conversation that runs the same command again and again."""
    records: list[Record] = [User(content="go on")]
    usage = {"input_tokens": 0, "cache_read_input_tokens": 90_000, "output_tokens": 9}
    for number in range(calls):
        use = {"type": "tool_use", "id": f"c{number}", "name": EVIL, "input": {"cmd": "make"}}
        records += [
            Assistant(
                content=[use], model="claude-sonnet-4-5", provider="anthropic", usage=dict(usage)
            ),
            ToolResult(tool_use_id=f"c{number}", content="a line of what was made\n" * 90),
        ]
    return records


def add(store: MemoryStore, owner: str, calls: int) -> None:
    key = SessionKey("main", f"{owner}-{calls}")
    store.create(key, owner=NamedOwner(owner), label=f"of {owner}")
    store.append(key, talk(calls), expect=ANY_HEAD)


def get(store: MemoryStore, owner: str, path: str = "/") -> str:
    token, known = token_for(owner, "read")

    async def ask() -> Any:
        async with serving(store, known) as client:
            return await client.get(path, headers={"authorization": f"Bearer {token}"})

    answer = asyncio.run(asyncio.wait_for(ask(), 60))
    assert answer.status_code == 200, answer.text
    return str(answer.text)


def test_each_owner_sees_their_own_bill(store: MemoryStore) -> None:
    add(store, "ann", 4)
    add(store, "bob", 9)

    page = get(store, "ann")

    assert "of ann" in page
    assert "of bob" not in page
    assert re.search(r'id="calls">4<', page)
    cost = 4 * (90_000 * 0.3 + 9 * 15) / 1e6
    assert f'id="bill">${cost:,.2f}<' in page
    assert "the same again, and the old answers stayed" in page
    assert EVIL not in page


def test_nothing_to_pay_is_said(store: MemoryStore) -> None:
    assert "No session yet" in get(store, "ann")


def test_a_log_that_is_too_long_is_named_and_left_out(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(store, "ann", 4)
    add(store, "ann", 40)
    monkeypatch.setattr(overview, "_RECORDS_MAX", 20)

    page = get(store, "ann")

    assert re.search(r'id="calls">4<', page)
    assert "1 session of this page is not counted" in page
    assert page.count("not counted<") == 1
