"""`HoldfastStorage`: bytes come back as they were, and a snapshot is a conversation of ours."""

from __future__ import annotations

import asyncio
import json
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support import peers
from tests.support.runs import examples

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, User, text_of
from holdfast.integrations import strands as adapter
from holdfast.integrations.strands import storage as storage_module
from holdfast.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from holdfast.ports import SessionStore

KEY = "session/thread-1/scopes/agent/default/snapshots/snapshot_latest.json"
MAIN = SessionKey("main", "thread-1")
keys = st.sampled_from([KEY, KEY.replace("default", "Größe"), "a/b", "A/B", "a", "漢" * 300]) | (
    st.text(min_size=1, max_size=20)
)


@pytest.fixture(autouse=True)
def framework() -> None:
    peers.needs("strands-agents")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "store") as opened:
        yield opened


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def say(role: str, text: str, **more: Any) -> Any:
    return {"role": role, "content": [{"text": text}], **more}


def snapshot(messages: list[Any], **state: Any) -> bytes:
    """The bytes of a snapshot, as the SDK writes them."""
    data = {"messages": messages, "state": state, "interrupt_state": {}}
    whole = {"scope": "agent", "schema_version": "1.0", "created_at": "", "data": data}
    return json.dumps({**whole, "app_data": {}}, ensure_ascii=False).encode()


values = st.binary(max_size=60) | st.builds(
    snapshot,
    st.lists(
        st.sampled_from(
            [
                say("user", "Hello."),
                say("assistant", "Grüß Gott 漢字."),
                say("assistant", "Hi.", metadata={"usage": 0.1}),
                {"role": "user", "content": [{"toolResult": {"toolUseId": "c", "content": []}}]},
                {"role": "user", "content": [{"text": "a"}, {"toolResult": {}}, {"text": "b"}]},
                {"role": "assistant", "content": []},
            ]
        ),
        max_size=5,
    ),
    n=st.integers(),
)


@examples(100)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), keys, values),
            st.tuples(st.just("delete"), keys),
            st.tuples(st.just("list"), st.text(max_size=2)),
        ),
        max_size=12,
    )
)
@example([("write", KEY, snapshot([say("user", "a")])), ("write", KEY, b"\xff" * 3)])
@example(
    [
        ("write", KEY, snapshot([say("user", "a"), say("assistant", "b")])),
        ("write", KEY, snapshot([say("user", "a"), say("assistant", "c"), say("user", "d")])),
        ("write", KEY, snapshot([])),
        ("list", "session/"),
    ]
)
@example([("write", "a\ud800", b"x"), ("write", "a\x00b", b""), ("list", "a")])
def test_it_answers_as_the_storage_of_the_sdk(steps: list[Any]) -> None:
    """The same steps, done to both, with the same answers; then every key is read."""
    from strands.storage import InMemoryStorage

    async def answers(storage: Any) -> list[Any]:
        said: list[Any] = []
        for kind, *about in steps:
            try:
                said.append(await getattr(storage, kind)(*about))
            except Exception as error:
                said.append(type(error).__name__)
        said += [(key, await storage.read(key)) for key in await storage.list("")]
        return said

    ours = adapter.HoldfastStorage(root="memory:")
    assert run(answers(ours)) == run(answers(InMemoryStorage()))
    ours.close()


def test_a_snapshot_is_a_conversation_and_each_message_is_stored_once(store: SessionStore) -> None:
    storage = adapter.HoldfastStorage(store=store)
    said = [say("user", "Hello."), say("assistant", "Hi.")]
    for turn in range(20):
        said = [*said, say("user", f"Question {turn}."), say("assistant", "x" * 1_000)]
        run(storage.write(KEY, snapshot(said, turn=turn)))
    kinds = [record.kind for record in store.read(MAIN)]
    assert kinds.count("user") == kinds.count("assistant") == 21
    assert run(adapter.HoldfastStorage(store=store).read(KEY)) == snapshot(said, turn=19)
    assert sum(map(len, store.export(MAIN))) < 3 * len(snapshot(said))


def test_a_snapshot_with_other_messages_leaves_the_old_ones_on_a_branch(
    store: SessionStore,
) -> None:
    storage = adapter.HoldfastStorage(store=store)
    first = [say("user", "Hello."), say("assistant", "A."), say("user", "More.")]
    run(storage.write(KEY, snapshot(first)))
    run(storage.write(KEY, snapshot([first[0], say("assistant", "B.")])))
    path = [text_of(r.content) for r in store.read(MAIN) if isinstance(r, User | Assistant)]
    assert path == ["Hello.", "B."]
    everything = b"".join(store.export(MAIN)).decode()
    assert '"A."' in everything
    assert everything.count("Hello.") == 1


def test_what_another_program_wrote_is_in_the_snapshot(store: SessionStore) -> None:
    storage = adapter.HoldfastStorage(store=store)
    run(storage.write(KEY, snapshot([say("user", "Hello.")], n=1)))
    store.append(MAIN, [User(content="And this?")], expect=store.head(MAIN))
    both = [say("user", "Hello."), say("user", "And this?")]
    assert run(storage.read(KEY)) == snapshot(both, n=1)
    run(storage.write(KEY, snapshot([*both, say("assistant", "Yes.")], n=2)))
    assert len([record for record in store.read(MAIN) if record.kind == "user"]) == 2


def test_a_session_of_another_program_is_left_alone(store: SessionStore) -> None:
    from strands.types.session import Session, SessionType

    repository: Any = adapter.HoldfastSessionRepository(store=store)
    repository.create_session(Session("thread-1", SessionType.AGENT))
    storage = adapter.HoldfastStorage(store=store)
    assert run(storage.list("")) == []
    run(storage.write(KEY, snapshot([say("user", "Hello.")])))
    assert [record.kind for record in store.read(MAIN)] == ["session"]
    assert run(storage.list("session/")) == [KEY]
    run(storage.delete(KEY))
    assert run(storage.read(KEY)) is None
    assert repository.read_session("thread-1") is not None


def test_two_storages_never_mix_their_snapshots(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rival that writes between a writer's look at the log and its append."""
    storage, rival = (adapter.HoldfastStorage(store=store) for _ in range(2))
    run(storage.write(KEY, snapshot([say("user", "Hello.")])))
    append = store.append

    def append_late(*args: Any, **about: Any) -> Any:
        monkeypatch.setattr(store, "append", append)
        run(rival.write(KEY, snapshot([say("user", "Hello."), say("user", "Rival.")])))
        return append(*args, **about)

    monkeypatch.setattr(store, "append", append_late)
    mine = snapshot([say("user", "Hello."), say("user", "Mine."), say("user", "Too.")])
    run(storage.write(KEY, mine))
    assert run(storage.read(KEY)) == run(rival.read(KEY)) == mine
    assert "Rival." in b"".join(store.export(MAIN)).decode()


@pytest.mark.parametrize("delete", ["trash", "erase"])
def test_a_deleted_value_is_in_the_trash_or_gone(store: SessionStore, delete: Any) -> None:
    storage = adapter.HoldfastStorage(store=store, delete=delete)
    for _time in range(2):
        run(storage.write(KEY, snapshot([say("user", "Hello.")])))
        run(storage.write("memory/note.md", b"Blue."))
        run(storage.delete(KEY))
        run(storage.delete("memory/note.md"))
        assert run(storage.read(KEY)) is None
    assert run(storage.list("")) == []
    assert len(list(store.trash())) == (4 if delete == "trash" else 0)


def test_large_values_come_back(store: SessionStore) -> None:
    storage = adapter.HoldfastStorage(store=store)
    for value in (b"\xff\x00" * 3_000_000, "漢字🙂".encode() * 200_000, b""):
        run(storage.write("stash/x", value))
        assert run(adapter.HoldfastStorage(store=store).read("stash/x")) == value


def test_refusals_are_errors_of_the_sdk(store: SessionStore) -> None:
    from strands.types.exceptions import StorageError

    ann = adapter.HoldfastStorage(store=store, owner="ann")
    run(ann.write(KEY, snapshot([say("user", "Hello.")])))
    bob = adapter.HoldfastStorage(store=store)
    bad: Any = 5
    for work in (bob.read(KEY), bob.write(KEY, b"x"), bob.delete(KEY), ann.write("k", bad)):
        with pytest.raises(StorageError):
            run(work)
    assert run(bob.list("")) == []
    ann.close()
    with pytest.raises(RuntimeError, match="HoldfastStorage is closed"):
        run(ann.read(KEY))


def test_an_agent_goes_on_from_its_snapshot(tmp_path: Path) -> None:
    """The SDK's own manager and agent, in two lives; every surface reads the conversation."""
    from strands import Agent
    from strands.session import SnapshotSessionManager
    from tests.integrations.strands.test_conversation_manager import model

    def live(question: str) -> Any:
        storage = adapter.HoldfastStorage(root=str(tmp_path))
        manager = SnapshotSessionManager("thread-1", storage=storage)
        agent = Agent(model=model(10_000), session_manager=manager, callback_handler=None)
        agent(question)
        storage.close()
        return agent.messages

    live("First?")
    messages = live("Second?")
    assert [m["content"][0]["text"] for m in messages if m["role"] == "user"] == [
        *("First?", "Second?")
    ]
    with open_store(tmp_path) as store:
        said = [text_of(r.content) for r in store.read(MAIN) if isinstance(r, User)]
    assert said == ["First?", "Second?"]


def test_a_longer_snapshot_is_read_from_where_it_goes_on(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was there before is compared as bytes: JSON is read of the rest alone."""
    sizes: list[int] = []
    take_apart = storage_module.take_apart

    def count(data: bytes) -> Any:
        sizes.append(len(data))
        return take_apart(data)

    monkeypatch.setattr(storage_module, "take_apart", count)
    storage = adapter.HoldfastStorage(store=store)
    messages: list[Any] = []
    for number in range(30):
        messages += [say("user", f"question {number}"), say("assistant", "x" * 200)]
        run(storage.write(KEY, snapshot(messages)))
    assert max(sizes[1:]) < 2 * len(snapshot(messages[:2]))
    assert run(storage.read(KEY)) == snapshot(messages)
    assert run(adapter.HoldfastStorage(store=store).read(KEY)) == snapshot(messages)


def test_messages_elsewhere_in_a_snapshot_are_not_taken_for_its_messages(
    store: SessionStore,
) -> None:
    """The same words in a state before them, or a snapshot that stops being one."""
    storage = adapter.HoldfastStorage(store=store)
    first = {"data": {"messages": [say("user", "a")], "state": {}}}
    inside = {"x": {"messages": [say("user", "a")]}, **first}
    more = {"messages": [say("user", "a"), say("user", "b")]}
    beside = {"x": more, "data": {"messages": [say("user", "b")], "state": {}}}
    longer = {"data": {"messages": [say("user", "a"), say("user", "b")], "state": {}}}
    whole = json.dumps(longer).encode()
    for data in (
        *(json.dumps(first).encode(), json.dumps(inside).encode()),
        *(json.dumps(first).encode(), json.dumps(beside).encode(), whole),
        *(whole.replace(b"}, {", b"}{"), whole, whole.replace(b"]", b", ]"), whole[:-1]),
    ):
        run(storage.write(KEY, data))
        assert run(storage.read(KEY)) == data
        assert run(adapter.HoldfastStorage(store=store).read(KEY)) == data


ODD_MESSAGES = (
    '{"role": "user", "content": [{"text": "a"}]}',
    '{"role":"user","content":[{"text":"a"}]}',
    '{"role": "user", "content": [{"text": "\\u00fc \\ud800"}]}',
    '{"role": "user", "content": [], "n": 1.0, "m": 1e5, "k": 12345678901234567890}',
    '{"role": "user", "role": "assistant", "content": []}',
    '{"role": "user", "content": [{"text": "\u00fc \U0001f600"}]}',
    '"text"',
    "null",
    "NaN",
    "{bad",
)


@given(
    messages=st.lists(st.sampled_from(ODD_MESSAGES), max_size=4),
    more=st.lists(st.sampled_from(ODD_MESSAGES), max_size=2),
    rest=st.sampled_from(["{}", "{ }", '{"a": 1, "a": 2}', '{"\\u00fc": "\u00fc"}']),
    gap=st.sampled_from([", ", ",", ",\n"]),
)
@example(messages=[ODD_MESSAGES[0]], more=[ODD_MESSAGES[3]], rest="{}", gap=", ")
@example(messages=[ODD_MESSAGES[0]], more=[ODD_MESSAGES[1]], rest="{}", gap=", ")
@example(messages=[ODD_MESSAGES[4]], more=[], rest="{}", gap=", ")
@example(messages=[ODD_MESSAGES[2]], more=[ODD_MESSAGES[5]], rest='{"\\u00fc": "\u00fc"}', gap=", ")
@example(messages=[ODD_MESSAGES[8]], more=[ODD_MESSAGES[9]], rest="{}", gap=", ")
@examples(100)
def test_a_snapshot_comes_back_byte_for_byte(
    messages: list[str], more: list[str], rest: str, gap: str
) -> None:
    """Also one that is no JSON, or JSON that the SDK would write in another way."""

    def spell(said: list[str]) -> bytes:
        inner = f'{{"messages": [{gap.join(said)}], "state": {rest}}}'
        return f'{{"scope": "agent", "data": {inner}, "app_data": {rest}}}'.encode()

    with tempfile.TemporaryDirectory() as root, open_store(root) as store:
        storage = adapter.HoldfastStorage(store=store)
        for data in (spell(messages), spell([*messages, *more]), spell(more)):
            run(storage.write(KEY, data))
            assert run(storage.read(KEY)) == data
            assert run(adapter.HoldfastStorage(store=store).read(KEY)) == data
