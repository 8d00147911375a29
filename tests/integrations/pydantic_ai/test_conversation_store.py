"""`HoldfastConversationStore` does what the framework's own store does, and keeps records."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import peers
from tests.support.runs import examples

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, ToolResult, User
from holdfast.errors import AccessDenied
from holdfast.integrations import pydantic_ai as adapter
from holdfast.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.log.records import Record
    from holdfast.ports import SessionStore


@pytest.fixture(autouse=True)
def framework() -> None:
    peers.needs("pydantic-ai-slim")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "store") as opened:
        yield opened


def conversation_store(store: SessionStore, **about: Any) -> Any:
    return adapter.HoldfastConversationStore(store=store, **about)


def turn(text: str) -> list[Any]:
    from pydantic_ai import messages as theirs

    return [
        theirs.ModelRequest(
            [theirs.SystemPromptPart("Be brief."), theirs.UserPromptPart(text)],
            instructions="Help.",
        ),
        theirs.ModelResponse(
            [
                theirs.ThinkingPart("Hm.", signature="s"),
                theirs.TextPart("I look."),
                theirs.ToolCallPart("look", {"where": text}, f"c-{text}"),
            ],
            model_name="m",
        ),
        theirs.ModelRequest([theirs.ToolReturnPart("look", {"seen": [text]}, f"c-{text}")]),
        theirs.ModelResponse([theirs.TextPart(f"I saw {text}.")]),
    ]


def test_messages_come_back_equal_and_are_records(store: SessionStore) -> None:
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.messages import BinaryContent, FilePart, ModelResponse

    odd = ModelResponse([FilePart(BinaryContent(b"\x00\xff", media_type="audio/wav"))])
    said = [*turn("one"), *turn("two"), odd]

    async def main() -> None:
        kept = conversation_store(store)
        entries = await kept.save(Conversation(messages=said, conversation_id="thread-1"))
        assert len(entries) == 9
        loaded = await conversation_store(store).load("thread-1")
        assert loaded.messages == said
        assert (await kept.load("thread-1", limit=3)).messages == said[-3:]
        assert await kept.read_entry(entries[2].id) == entries[2]
        with pytest.raises(KeyError):
            await kept.read_entry("unknown")

    asyncio.run(main())
    records = list(store.read(SessionKey("main", "thread-1")))
    kinds = ["user", "user", "assistant", "tool_result", "assistant"]
    assert [r.kind for r in records] == ["session", *kinds, *kinds, "peer_item", "peer_state"]


def test_other_programs_continue_a_conversation_and_it_theirs(store: SessionStore) -> None:
    """Records without the framework's copies are messages too, and a save goes on after them."""
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.conversation_store import ConversationConflict

    key = SessionKey("main", "thread-1")
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {"where": "here"}}
    records: list[Record] = [
        User(content="Hello."),
        Assistant(content=[{"type": "text", "text": "Hi."}, call]),
        ToolResult(tool_use_id="c1", content="seen", name="look", is_error=True),
    ]

    async def main() -> None:
        kept = conversation_store(store)
        store.create(key)
        assert await kept.load("thread-1") is None
        store.append(key, records[:2], expect=store.head(key))
        first = await kept.load("thread-1")
        assert [m.kind for m in first.messages] == ["request", "response"]
        assert first.messages[1].parts[1].tool_call_id == "c1"
        store.append(key, records[2:], expect=store.head(key))
        first.messages.extend(turn("x"))
        with pytest.raises(ConversationConflict):
            await kept.save(first)
        again = await kept.load("thread-1")
        assert again.messages[2].parts[0].outcome == "failed"
        again.messages.extend(turn("x"))
        await kept.save(again)
        store.append(key, [User(content="And?")], expect=store.head(key))
        whole = await conversation_store(store).load("thread-1")
        assert whole.messages[3:7] == again.messages[3:7]
        assert whole.messages[7].parts[0].content == "And?"
        with pytest.raises(ConversationConflict):
            await kept.save(Conversation(conversation_id="thread-1"))

    asyncio.run(main())


@pytest.mark.parametrize("delete", ["trash", "erase"])
def test_deleted_conversations_are_in_the_trash_or_gone(store: SessionStore, delete: Any) -> None:
    from pydantic_ai.conversation import Conversation

    async def main() -> None:
        kept = conversation_store(store, delete=delete)
        await kept.save(Conversation(messages=turn("one"), conversation_id="thread-1"))
        await kept.fork("thread-1", new_conversation_id="thread-2")
        await kept.delete("thread-1")
        assert await kept.load("thread-1") is None
        assert len((await kept.load("thread-2")).messages) == 4

    asyncio.run(main())
    assert [found.key.session for found in store.trash()] == (
        ["thread-1"] if delete == "trash" else []
    )


def test_names_owners_bad_messages_and_the_event_loop(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.messages import ModelRequest, ToolReturnPart

    anns = conversation_store(store, owner="ann")
    threads: set[threading.Thread] = set()
    for name in ("back", "append", "read_all", "keys"):
        method = getattr(store, name)

        def watch(*args: Any, _method: Any = method, **about: Any) -> Any:
            threads.add(threading.current_thread())
            return _method(*args, **about)

        monkeypatch.setattr(store, name, watch)

    async def main() -> None:
        for name in ("Größe / 漢字", "größe / 漢字", "x" * 5_000):
            await anns.save(Conversation(messages=turn(name[:9]), conversation_id=name), scope="s")
        names = {r.conversation_id for r in await anns.list_conversations(scope="s")}
        assert names == {"Größe / 漢字", "größe / 漢字", "x" * 5_000}
        with pytest.raises(AccessDenied):
            await conversation_store(store, owner="bob").load("x" * 5_000)
        with pytest.raises(UserError, match="nothing was stored"):
            await anns.save(Conversation(messages=turn("x"), conversation_id="\ud800"))
        odd = ModelRequest([ToolReturnPart("t", object(), "c")])
        with pytest.raises(UserError, match="nothing was stored"):
            await anns.save(Conversation(messages=[odd], conversation_id="odd"))
        assert await anns.load("odd") is None
        anns.close()
        with pytest.raises(RuntimeError, match="HoldfastConversationStore is closed"):
            await anns.load("odd")

    asyncio.run(main())
    assert threads
    assert threading.main_thread() not in threads


NAMES = st.sampled_from(["a", "b", "c"])
STEP = st.one_of(
    st.tuples(st.just("say"), NAMES, st.integers(0, 3), st.sampled_from([None, "s"])),
    st.tuples(st.just("rewrite"), NAMES, st.integers(0, 6)),
    st.tuples(st.just("stale"), NAMES),
    st.tuples(st.just("branch"), NAMES, st.integers(-1, 9)),
    st.tuples(st.just("back"), NAMES, st.integers(0, 3)),
    st.tuples(st.just("fork"), NAMES, NAMES, st.integers(0, 5)),
    st.tuples(st.just("delete"), NAMES, st.sampled_from([None, "s"])),
    st.tuples(st.just("list"), st.sampled_from([None, "s"]), st.sampled_from([None, 1])),
    st.tuples(st.just("window"), NAMES, st.integers(-1, 4)),
)


@given(st.lists(STEP, min_size=4, max_size=25))
@examples(60)
def test_every_answer_is_that_of_the_store_in_memory(steps: list[Any]) -> None:
    """The same calls to the framework's own store and to ours, answer by answer."""
    from pydantic_ai.conversation_store import InMemoryConversationStore

    with open_store("memory:") as opened:
        answers = [
            asyncio.run(Program(kept).run(steps))
            for kept in (InMemoryConversationStore(), conversation_store(opened))
        ]
    assert answers[0] == answers[1]


class Program:
    """Does steps to a store, and writes every answer down, without ids and times."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._old: dict[str, Any] = {}

    async def run(self, steps: list[Any]) -> list[Any]:
        said: list[Any] = []
        for number, (kind, *given_) in enumerate(steps):
            try:
                said.append(await getattr(self, f"_{kind}")(number, *given_))
            except Exception as error:
                said.append(type(error).__name__)
            for name in ("a", "b", "c"):
                found = await self._store.load(name)
                said.append(None if found is None else texts(found.messages))
        return said

    async def _say(self, number: int, name: str, count: int, scope: str | None) -> Any:
        from pydantic_ai.conversation import Conversation

        found = await self._store.load(name) or Conversation(conversation_id=name)
        self._old.setdefault(name, await self._store.load(name))
        for place in range(count):
            found.messages.extend(turn(f"{number}-{place}")[:2])
        found.usage.requests += 1
        return len(await self._store.save(found, scope=scope))

    async def _rewrite(self, number: int, name: str, kept: int) -> Any:
        from pydantic_ai.conversation import Conversation

        found = await self._store.load(name)
        again = Conversation(
            conversation_id=name,
            messages=[*found.messages[:kept], *turn(f"again {number}")],
            revision=found.revision,
        )
        return len(await self._store.save(again))

    async def _stale(self, _number: int, name: str) -> Any:
        return len(await self._store.save(self._old[name]))

    async def _branch(self, _number: int, name: str, at: int) -> Any:
        found = await self._store.load(name)
        branched = await self._store.branch(name, at=at, expected_revision=found.revision)
        return texts(branched.messages)

    async def _back(self, _number: int, name: str, which: int) -> Any:
        record = await self._store.read_record(name)
        tip = record.branches[which]
        branched = await self._store.branch(name, from_entry=tip, expected_revision=record.revision)
        return texts(branched.messages), branched.usage.requests

    async def _fork(self, _number: int, name: str, to: str, at: int) -> Any:
        forked = await self._store.fork(name, at=at, new_conversation_id=to)
        return texts(forked.messages), forked.usage.requests

    async def _delete(self, _number: int, name: str, scope: str | None) -> None:
        await self._store.delete(name, scope=scope)

    async def _list(self, _number: int, scope: str | None, limit: int | None) -> Any:
        found = await self._store.list_conversations(scope=scope, limit=limit)
        return [
            (r.conversation_id, r.scope, r.forked_from, len(r.branches), r.usage.requests)
            for r in found
        ]

    async def _window(self, _number: int, name: str, limit: int) -> Any:
        found = await self._store.load(name, limit=limit)
        return None if found is None else texts(found.messages)


def texts(messages: list[Any]) -> list[Any]:
    return [[str(getattr(part, "content", part.part_kind)) for part in m.parts] for m in messages]
