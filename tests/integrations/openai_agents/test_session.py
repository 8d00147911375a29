"""`HoldfastSession`, beside the SDK's own tests of a session (`test_outside_suites`)."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import peers

from holdfast.core.log.records import Assistant, ToolResult, User
from holdfast.errors import AccessDenied
from holdfast.integrations.openai_agents import HoldfastSession
from holdfast.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.ports import SessionStore

ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "What is 6 times 7?"},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "call_id": "c1", "name": "times", "arguments": '{"a": 6, "b": 7}'},
    {"type": "function_call_output", "call_id": "c1", "output": "42"},
    {"id": "m1", "role": "assistant", "type": "message", "content": "42."},
]


@pytest.fixture(autouse=True)
def sdk() -> None:
    peers.needs("openai-agents")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "store") as opened:
        yield opened


def test_agent_run_is_a_session_like_any_other(store: SessionStore) -> None:
    """Two runs with a tool: the SDK sends the history, and our records have it."""
    from agents import Agent, Runner, function_tool
    from agents.testing import ScriptedModel, assistant_message, function_call

    def times(a: int, b: int) -> int:
        return a * b

    model = ScriptedModel(
        [
            [function_call("times", '{"a": 6, "b": 7}', call_id="c1")],
            [assistant_message("42.")],
            [assistant_message("I said 42.")],
        ]
    )
    agent = Agent(name="helper", model=model, tools=[function_tool(times)])
    session = HoldfastSession("thread-1", store=store)

    async def main() -> None:
        await Runner.run(agent, "What is 6 times 7?", session=session)
        await Runner.run(agent, "What did you say?", session=session)

    asyncio.run(main())
    sent = model.calls[-1].input
    assert [item.get("type") or item["role"] for item in sent] == [
        *("user", "function_call", "function_call_output", "message", "user")
    ]
    records = [record for record in store.read(session.key) if record.kind != "session"]
    assert [type(record) for record in records] == [
        *(User, Assistant, ToolResult, Assistant, User, Assistant)
    ]
    assert store.info(session.key).title == "What is 6 times 7?"


def test_pops_look_past_earlier_pops_and_nothing_is_deleted(store: SessionStore) -> None:
    async def main() -> None:
        session = HoldfastSession("thread-1", store=store)
        await session.add_items(ITEMS)
        assert [await session.pop_item() for _ in ITEMS] == ITEMS[::-1]
        assert await session.pop_item() is None
        await session.add_items(ITEMS[:2])
        assert await session.pop_item() == ITEMS[1]
        assert await session.get_items() == ITEMS[:1]
        await session.clear_session()
        await session.clear_session()
        assert await session.get_items() == []
        kept = [entry.record for entry in store.read_all(session.key)]
        assert sum(isinstance(record, User) for record in kept) == 2

    asyncio.run(main())


def test_session_of_another_program_is_read_and_popped_item_by_item(store: SessionStore) -> None:
    """A reply with a text and two calls is three items here."""

    async def main() -> None:
        session = HoldfastSession("elsewhere", store=store)
        store.create(session.key)
        calls: list[dict[str, Any]] = [
            {"type": "tool_use", "id": name, "name": "f", "input": {}} for name in ("a", "b")
        ]
        said = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Two calls."}]
        reply = Assistant(content=[*said, *calls], provider="anthropic")
        store.append(session.key, [User(content="go"), reply], expect=None)
        items = await session.get_items()
        assert [item.get("call_id") or item["content"] for item in items] == [
            *("go", "Two calls.", "a", "b")
        ]
        assert [await session.pop_item() for _ in range(2)] == items[:1:-1]
        assert await session.get_items() == items[:2]

    asyncio.run(main())


def test_compaction_of_the_sdk_replaces_items_and_keeps_them(store: SessionStore) -> None:
    """`OpenAIResponsesCompactionSession` over ours: the old items stay in the log."""
    from agents.memory import OpenAIResponsesCompactionSession

    class Responses:
        async def compact(self, **_asked: Any) -> Any:
            output = [{"type": "compaction", "id": "cmp", "encrypted_content": "xyz"}]
            return type("Compacted", (), {"output": output, "usage": None})()

    async def main() -> None:
        session = HoldfastSession("thread-1", store=store)
        client: Any = type("Client", (), {"responses": Responses()})()
        compacting = OpenAIResponsesCompactionSession(
            "thread-1", session, client=client, compaction_mode="input"
        )
        await compacting.add_items(ITEMS)
        await compacting.run_compaction({"force": True})
        items = await session.get_items()
        assert items[-1]["type"] == "compaction"
        assert len(items) < len(ITEMS)
        kept = [entry.record for entry in store.read_all(session.key)]
        assert any(isinstance(record, ToolResult) for record in kept)

    asyncio.run(main())


def test_suffix_is_replaced_only_while_it_is_the_newest(store: SessionStore) -> None:
    async def main() -> None:
        session = HoldfastSession("thread-1", store=store)
        await session.add_items(ITEMS)
        snapshot = await session._get_compaction_snapshot(3)
        assert (snapshot.items, snapshot.complete) == (ITEMS[2:], False)
        await session.add_items(ITEMS[:1])
        assert not await snapshot.replace_suffix(1, [])
        newer = await session._get_compaction_snapshot(99)
        assert newer.complete
        assert await newer.replace_suffix(4, ITEMS[1:2])
        assert await session.get_items() == [*ITEMS[:4], ITEMS[1]]

    asyncio.run(main())


def test_failed_add_stores_nothing_and_is_a_type_error(store: SessionStore) -> None:
    async def main() -> None:
        session = HoldfastSession("thread-1", store=store)
        with pytest.raises(TypeError):
            await session.add_items([ITEMS[0], {"role": "user", "content": object()}])
        assert await session.get_items() == []
        await session.add_items(ITEMS)
        assert await session.get_items() == ITEMS

    asyncio.run(main())


def test_closed_session_and_another_owners_session_are_refused(store: SessionStore) -> None:
    async def main() -> None:
        session = HoldfastSession("thread-1", store=store, owner="ann")
        await session.add_items(ITEMS)
        other = HoldfastSession("thread-1", store=store, owner="bob")
        for use in (other.get_items, other.pop_item, other.clear_session):
            with pytest.raises(AccessDenied):
                await use()
        session.close()
        uses: list[Any] = [session.get_items, session.pop_item, session.clear_session]
        for closed_use in (*uses, lambda: session.add_items([])):
            with pytest.raises(RuntimeError, match="HoldfastSession is closed"):
                await closed_use()

    asyncio.run(main())


def test_store_is_never_called_on_the_event_loop(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    class Watched:
        def __getattribute__(self, name: str) -> Any:
            called.append((name, threading.get_ident()))
            return getattr(store, name)

    async def main() -> None:
        session = HoldfastSession("thread-1", store=store)
        monkeypatch.setattr(session._home, "_store", Watched())
        await session.add_items(ITEMS)
        await session.get_items()
        await session.get_items(2)
        await session.pop_item()
        await session.clear_session()

    asyncio.run(main())
    here = threading.get_ident()
    assert called
    assert [name for name, thread in called if thread == here] == []


@pytest.mark.files_only("it starts processes, which open the folder")
def test_four_processes_lose_nothing(tmp_path: Path) -> None:
    root = str(tmp_path / "shared")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=add_many, args=(root, number)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    session = HoldfastSession("thread-1", root=root)
    items = asyncio.run(session.get_items())
    said = [item["content"] for item in items]
    assert sorted(said) == sorted(f"{writer}-{n}" for writer in range(4) for n in range(25))
    for writer in range(4):
        own = [text for text in said if text.startswith(f"{writer}-")]
        assert own == [f"{writer}-{n}" for n in range(25)]
    session.close()


def add_many(root: str, writer: int) -> None:
    async def main() -> None:
        session = HoldfastSession("thread-1", root=root)
        for number in range(25):
            await session.add_items([{"role": "user", "content": f"{writer}-{number}"}])
        session.close()

    asyncio.run(main())
