"""Mistakes of a caller: each gets a clear error at once, and nothing false is stored."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncSession, Session
from holdfast.core.log.records import ToolResult
from holdfast.engine.session.base import _MOVED
from holdfast.errors import BadSetting, ModelError, UsageError
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.ports import SessionStore

CALLS = [
    {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
    {"type": "tool_use", "id": "c2", "name": "find", "input": {}},
]


@pytest.fixture
def store() -> Iterator[SessionStore]:
    with MemoryStore() as opened:
        yield opened


def reply(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "stop_reason": "end_turn"}


def asking(store: SessionStore) -> Session:
    """Return a session whose model waits for the results of two calls."""
    session = Session.open("a", store=store, model="offline")
    session.own_loop.add_user("look")
    session.own_loop.call(lambda _request: reply(CALLS))
    return session


def results(session: Session) -> list[str]:
    records = session.store.last(session.key, 100)
    return [record.tool_use_id for record in records if isinstance(record, ToolResult)]


def test_a_result_answers_an_open_call(store: SessionStore) -> None:
    """A result of an unknown call, and the second of one call, are refused with the open calls."""
    session = asking(store)
    with pytest.raises(UsageError, match="no result of a call `wrong-id`") as wrong:
        session.own_loop.add_result("wrong-id", "x")
    assert "`c1` (look), `c2` (find)" in str(wrong.value.hint)
    session.own_loop.add_result("c1", "one")
    with pytest.raises(UsageError, match="`c1` has a result already") as again:
        session.own_loop.add_result("c1", "two")
    assert "open calls: `c2` (find)" in str(again.value.hint)
    session.own_loop.add_result("c2", "two")
    with pytest.raises(UsageError, match="`c2`") as late:
        session.own_loop.add_result("c2", "three")
    assert "open calls: none" in str(late.value.hint)
    assert results(session) == ["c1", "c2"]
    assert (
        session.own_loop.call(lambda _request: reply([{"type": "text", "text": "ok"}])).text == "ok"
    )


def test_a_closed_session_takes_nothing(store: SessionStore) -> None:
    """Whatever writes is refused after `close`, which may be called again."""
    session = Session.open("a", store=store, model="offline")
    session.say("hello")
    before = store.head(session.key)
    session.close()
    session.close()
    for use in (
        lambda: session.say("more"),
        lambda: session.own_loop.add_user("more"),
        lambda: session.compact(),
        lambda: session.own_loop.call(lambda _request: "no"),
        lambda: list(session.stream("more")),
        lambda: session.own_loop.inject_context("x", source="y"),
    ):
        with pytest.raises(UsageError, match="was closed"):
            use()
    assert store.head(session.key) == before
    with Session.open("a", store=store, model="offline") as again:
        assert again.say("more").text


def test_a_closed_asynchronous_session_takes_nothing(store: SessionStore) -> None:
    """The same, awaited."""

    async def scenario() -> None:
        session = await AsyncSession.open("a", store=store, model="offline")
        await session.say("hello")
        await session.close()
        await session.close()
        with pytest.raises(UsageError, match="was closed"):
            await session.say("more")
        with pytest.raises(UsageError, match="was closed"):
            await session.own_loop.add_user("more")

    asyncio.run(scenario())


class _Yielding:
    """An object whose code is a generator."""

    __name__ = "yielding"

    def __call__(self) -> Any:
        yield "a"


def test_a_generator_is_no_tool(store: SessionStore) -> None:
    """It is refused when the session is opened, whatever kind of generator it is."""

    def lines() -> Any:
        yield "a"

    async def lines_async() -> Any:
        yield "a"

    for tool in (lines, lines_async, _Yielding()):
        with pytest.raises(BadSetting, match="is a generator"):
            Session.open("a", store=store, model="offline", tools=[tool])


@pytest.mark.parametrize(
    "mistake",
    [TypeError("t"), NameError("n"), AttributeError("a"), KeyError("k"), ZeroDivisionError()],
)
def test_a_mistake_in_the_callers_function_is_his(store: SessionStore, mistake: Exception) -> None:
    """It is raised as it is, and after it is corrected the turn goes on; a failure of a client is
    a `ModelError`."""

    def fail(_request: Any) -> Any:
        raise mistake

    async def fail_later(_request: Any) -> Any:
        raise mistake

    session = Session.open("a", store=store, model="offline")
    session.own_loop.add_user("hi")
    with pytest.raises(type(mistake)) as raised:
        session.own_loop.call(fail)
    assert raised.value is mistake
    assert (
        session.own_loop.call(lambda _request: reply([{"type": "text", "text": "ok"}])).text == "ok"
    )

    async def scenario() -> None:
        other = await AsyncSession.open("b", store=store, model="offline")
        await other.own_loop.add_user("hi")
        with pytest.raises(type(mistake)) as raised:
            await other.own_loop.call(fail_later)
        assert raised.value is mistake

    asyncio.run(scenario())

    def refuse(_request: Any) -> Any:
        raise RuntimeError("invalid x-api-key")

    session.own_loop.add_user("again")
    with pytest.raises(ModelError):
        session.own_loop.call(refuse)


def test_notes_by_patterns_are_refused_with_what_to_use_instead(store: SessionStore) -> None:
    """Sessions of version 0.1 picked sentences by English patterns."""
    with pytest.raises(BadSetting, match="`notes` cannot be 'extract'") as refused:
        Session.open("a", store=store, model="offline", notes="extract")  # type: ignore[arg-type]
    hint = str(refused.value.hint)
    assert "`memory`" in hint
    assert 'notes="model"' in hint
    with pytest.raises(BadSetting) as other:
        Session.open("a", store=store, model="offline", notes="all")  # type: ignore[arg-type]
    assert "memory" not in str(other.value.hint)
    assert not list(store.keys())


PUBLIC_MEMBERS_MAX = 24


def test_a_session_has_few_public_members(store: SessionStore) -> None:
    """What one cannot find is not there; a name that was moved is an error that says where to."""
    with Session.open("a", store=store, model="offline") as session:
        members = {name for name in dir(session) if not name.startswith("_")}
        assert members == {name for name in dir(AsyncSession) if name[0] != "_"} | {"store"}
        assert len(members) <= PUBLIC_MEMBERS_MAX
        for name, place in _MOVED.items():
            with pytest.raises(AttributeError, match=re.escape(f"use `session.{place}`")):
                getattr(session, name)
            found: Any = session
            for step in re.findall(r"\w+", place.split("(")[0]):
                found = getattr(found, step)
        with pytest.raises(AttributeError, match="no `sya`"):
            session.sya("hello")  # type: ignore[attr-defined]
