"""`HoldfastChatMessageHistory`: messages come back equal, and are records of ours."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.support import peers

from holdfast.core.log.records import ORIGINAL_FIELD, Assistant, ToolResult, User
from holdfast.errors import AccessDenied
from holdfast.integrations import langchain as adapter
from holdfast.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.ports import SessionStore


@pytest.fixture(autouse=True)
def framework() -> None:
    peers.needs("langchain")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "store") as opened:
        yield opened


def messages() -> list[Any]:
    from langchain_core.messages import (
        AIMessage,
        ChatMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
    )

    call = {"id": "c1", "name": "look", "args": {"where": "here"}, "type": "tool_call"}
    usage = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    return [
        SystemMessage("Be brief."),
        HumanMessage("Look.", id="h1", name="ann"),
        HumanMessage([{"type": "text", "text": "And \ud800 here."}]),
        AIMessage("", tool_calls=[call], usage_metadata=usage, response_metadata={"model": "m"}),
        ToolMessage("seen", tool_call_id="c1", artifact={"rows": [1, 2]}, status="error"),
        AIMessage([{"type": "reasoning", "id": "r"}, {"type": "text", "text": "I saw it."}]),
        ChatMessage("A stage whisper.", role="narrator"),
    ]


def history(store: SessionStore, **about: Any) -> Any:
    return adapter.HoldfastChatMessageHistory("thread-1", store=store, **about)


def test_messages_come_back_equal_and_are_records(store: SessionStore) -> None:
    said = messages()
    first = history(store)
    first.add_messages(said[:3])
    first.add_messages(said[3:])
    assert history(store).messages == said
    kinds = [record.kind for record in store.read(first.key)]
    assert kinds == [
        *("session", "user", "user", "user", "assistant", "tool_result", "assistant"),
        "peer_item",
    ]


def test_view_without_the_stored_copies_has_the_same_messages(tmp_path: Path) -> None:
    said = messages()[:6]
    with open_store(tmp_path / "one") as one, open_store(tmp_path / "two") as two:
        history(one).add_messages(said)
        bare = history(two)
        records = [
            msgspec.structs.replace(
                record,
                id="",
                parent=None,
                more=None,
                extra={k: v for k, v in record.extra.items() if k != ORIGINAL_FIELD},
            )
            for record in one.read(bare.key)
            if isinstance(record, User | Assistant | ToolResult)
        ]
        two.create(bare.key)
        two.append(bare.key, records, expect=None)
        found = bare.messages
    assert [message.type for message in found] == [message.type for message in said]
    assert found[3].tool_calls == said[3].tool_calls
    assert found[4].tool_call_id == "c1"
    assert found[4].status == "error"
    assert found[5].text == "I saw it."


def test_clear_begins_again_and_deletes_nothing(store: SessionStore) -> None:
    said = messages()
    kept = history(store)
    kept.clear()
    assert kept.messages == []
    kept.add_messages(said)
    kept.clear()
    kept.clear()
    assert kept.messages == []
    kept.add_messages(said[:1])
    assert kept.messages == said[:1]
    assert len([e for e in store.read_all(kept.key) if isinstance(e.record, User)]) == 4


@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")
def test_runnable_with_history_and_asynchronous_calls(store: SessionStore) -> None:
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import RunnableLambda
    from langchain_core.runnables.history import RunnableWithMessageHistory

    def answer(given: Any) -> Any:
        return AIMessage(f"answer to {len(given)}")

    def of(session_id: str) -> Any:
        return adapter.HoldfastChatMessageHistory(session_id, store=store)

    chain = RunnableWithMessageHistory(RunnableLambda(answer), of)
    config: Any = {"configurable": {"session_id": "thread-1"}}

    async def main() -> None:
        assert chain.invoke("one", config).content == "answer to 1"
        assert (await chain.ainvoke("two", config)).content == "answer to 3"
        kept = history(store)
        assert [m.content for m in await kept.aget_messages()] == [
            *("one", "answer to 1", "two", "answer to 3")
        ]
        await kept.aclear()
        await kept.aadd_messages(messages())
        assert await kept.aget_messages() == messages()

    asyncio.run(main())


def test_bad_messages_owners_and_closed_histories_are_refused(store: SessionStore) -> None:
    from langchain_core.messages import HumanMessage

    kept = history(store, owner="ann")
    odd = HumanMessage("x", additional_kwargs={"y": object()})
    with pytest.raises(TypeError):
        kept.add_messages([HumanMessage("fine"), odd])
    assert kept.messages == []
    kept.add_messages([HumanMessage("fine")])
    with pytest.raises(AccessDenied):
        history(store, owner="bob").clear()
    kept.close()
    with pytest.raises(RuntimeError, match="HoldfastChatMessageHistory is closed"):
        kept.add_messages([])
