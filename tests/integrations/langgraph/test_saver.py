"""`HoldfastSaver` in graphs, beside LangGraph's own tests (`test_outside_suites`)."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypedDict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support import peers
from tests.support.runs import examples

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Rewind, ToolResult, User, text_of
from holdfast.errors import AccessDenied, TurnInProgress, UsageError
from holdfast.integrations import langgraph as adapter
from holdfast.stores import lines, open_store
from holdfast.surfaces.cli.verbs.records import gist

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.ports import SessionStore

CONFIG: dict[str, Any] = {"configurable": {"thread_id": "thread-1"}}


@pytest.fixture(autouse=True)
def framework() -> None:
    peers.needs("langgraph")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "store") as opened:
        yield opened


def chat(saver: Any) -> Any:
    """A graph that answers each message with its number."""
    from langchain_core.messages import AIMessage
    from langgraph.graph import MessagesState, StateGraph

    def answer(state: Any) -> Any:
        return {"messages": [AIMessage(f"answer {len(state['messages'])}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.set_entry_point("answer")
    builder.set_finish_point("answer")
    return builder.compile(checkpointer=saver)


def say(graph: Any, *messages: Any, config: Any = CONFIG) -> list[str]:
    state = graph.invoke({"messages": list(messages)}, config)
    return [message.content for message in state["messages"]]


def told(store: SessionStore, saver: Any) -> list[str]:
    """The texts on the path of the session."""
    key = saver._home.key_for(("thread-1",))
    return [
        text_of(record.content)
        for record in store.read(key)
        if isinstance(record, User | Assistant | ToolResult)
    ]


def test_all_contracts_are_kept_and_every_capability_is_there(tmp_path: Path) -> None:
    from langgraph.checkpoint.conformance import checkpointer_test, validate

    async def make() -> Any:
        saver = adapter.HoldfastSaver(root=str(tmp_path / "store"))
        yield saver
        saver.close()

    made = checkpointer_test(name="HoldfastSaver")(make)
    report = asyncio.run(validate(made))
    failed = {name: result.failures for name, result in report.results.items()}
    assert not any(failed.values()), failed
    assert all(result.detected for result in report.results.values())
    base = ("put", "put_writes", "get_tuple", "list", "delete_thread")
    assert sum(report.results[name].tests_passed for name in base) == 58
    assert sum(result.tests_passed for result in report.results.values()) == 81


def test_conversation_is_a_session_and_goes_on_in_another_process(store: SessionStore) -> None:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    saver: Any = adapter.HoldfastSaver(store=store)
    call = {"id": "c1", "name": "look", "args": {"where": "here"}, "type": "tool_call"}
    say(
        chat(saver),
        HumanMessage("Look."),
        AIMessage("", tool_calls=[call]),
        ToolMessage("seen", tool_call_id="c1"),
    )
    again: Any = adapter.HoldfastSaver(store=store)
    assert say(chat(again), HumanMessage("And?"))[-2:] == ["And?", "answer 5"]
    records = [
        record
        for record in store.read(saver._home.key_for(("thread-1",)))
        if isinstance(record, User | Assistant | ToolResult)
    ]
    assert [record.kind for record in records] == [
        *("user", "assistant", "tool_result", "assistant", "user", "assistant")
    ]
    assert isinstance(records[1].content, list)
    assert records[1].content[-1]["input"] == {"where": "here"}
    state = chat(again).get_state(CONFIG).values["messages"]
    assert [message.type for message in state] == ["human", "ai", "tool", "ai", "human", "ai"]
    assert state[1].tool_calls == [call]


def test_message_is_stored_once_however_many_checkpoints_hold_it(store: SessionStore) -> None:
    from langchain_core.messages import HumanMessage

    saver: Any = adapter.HoldfastSaver(store=store)
    graph = chat(saver)
    sizes = []
    key = saver._home.key_for(("thread-1",))
    for _part in range(3):
        for _turn in range(8):
            say(graph, HumanMessage("word " * 400))
        sizes.append(store.info(key).bytes)
    first, second = sizes[1] - sizes[0], sizes[2] - sizes[1]
    assert second < 1.1 * first  # a turn costs the same, whatever is before it
    assert len(told(store, saver)) == 48


def test_resume_loads_one_checkpoint_however_many_are_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the values of older checkpoints nor the records of the log are decoded."""
    from langgraph.graph import StateGraph

    class State(TypedDict):
        number: int
        recent: list[int]

    def count(state: Any) -> Any:
        return {"number": state["number"] + 1, "recent": [*state["recent"], state["number"]][-4:]}

    builder: Any = StateGraph(State)
    builder.add_node("count", count)
    builder.set_entry_point("count")
    costs = []
    for turns in (10, 100):
        root = str(tmp_path / f"{turns}")
        saver: Any = adapter.HoldfastSaver(root=root)
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"number": 0, "recent": []}, CONFIG)
        for _turn in range(turns):
            graph.invoke({}, CONFIG)
        saver.close()
        again: Any = adapter.HoldfastSaver(root=root)
        calls: Counter[str] = Counter()
        with monkeypatch.context() as patched:
            for place, name in ((again.serde, "loads_typed"), (lines, "decode")):
                patched.setattr(place, name, counted(calls, name, getattr(place, name)))
            found = again.get_tuple(CONFIG)
        assert found.checkpoint["channel_values"]["number"] == turns + 1
        assert calls["loads_typed"] > 2
        costs.append(calls)
        again.close()
    assert costs[0] == costs[1]


VALUES = st.lists(st.sampled_from("abcd"), max_size=4) | st.sampled_from(["", "x"])
PUTS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), VALUES), max_size=8)


@given(PUTS)
@example([(1, 1, ["a", "b"]), (1, 1, ["a", "b"])])
@example([(1, 1, ["a"]), (2, 2, ["a", "b"]), (1, 1, ["a"]), (3, 3, ["a", "b", "c"])])
@example([(1, 1, ["a", "b"]), (2, 2, ["a", "b", "c"]), (3, 1, ["d"])])
@example([(1, 1, ["a"]), (2, 2, ["a", "b"]), (3, 1, "x"), (3, 2, ["a", "b"])])
@examples(200)
def test_version_that_is_stored_again_has_its_newest_value(
    puts: list[tuple[int, int, Any]],
) -> None:
    """A checkpoint may be put twice, and a thread copied twice: as with LangGraph's own saver."""
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.memory import InMemorySaver

    ours: Any = adapter.HoldfastSaver(root="memory:")
    savers = [InMemorySaver(), ours]
    for number, version, value in puts:
        checkpoint = {
            **empty_checkpoint(),
            "id": f"checkpoint-{number}",
            "channel_values": {"letters": value},
            "channel_versions": {"letters": version},
        }
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        for saver in savers:
            saver.put(config, dict(checkpoint), {}, {"letters": version})
        told = [
            {
                found.checkpoint["id"]: found.checkpoint["channel_values"]
                for found in saver.list({"configurable": {"thread_id": "t"}})
            }
            for saver in savers
        ]
        assert told[0] == told[1]
    again: Any = adapter.HoldfastSaver(store=ours._home.store)
    config = {"configurable": {"thread_id": "t"}}
    assert [found.checkpoint for found in again.list(config)] == [
        found.checkpoint for found in ours.list(config)
    ]
    ours.close()


def counted(calls: Counter[str], name: str, call: Any) -> Any:
    def count(*args: Any) -> Any:
        calls[name] += 1
        return call(*args)

    return count


def test_time_travel_leaves_a_branch_and_the_path_has_the_new_one(store: SessionStore) -> None:
    from langchain_core.messages import HumanMessage

    saver: Any = adapter.HoldfastSaver(store=store)
    graph = chat(saver)
    say(graph, HumanMessage("one"))
    say(graph, HumanMessage("two"))
    after_one = next(
        state for state in graph.get_state_history(CONFIG) if len(state.values["messages"]) == 2
    )
    assert say(graph, HumanMessage("other"), config=after_one.config) == [
        *("one", "answer 1", "other", "answer 3")
    ]
    assert told(store, saver) == ["one", "answer 1", "other", "answer 3"]
    key = saver._home.key_for(("thread-1",))
    kept = [entry.record for entry in store.read_all(key)]
    assert "two" in [text_of(record.content) for record in kept if isinstance(record, User)]
    assert sum(isinstance(record, Rewind) for record in kept) == 1
    again: Any = adapter.HoldfastSaver(store=store)
    histories = [
        [len(state.values["messages"]) for state in chat(one).get_state_history(CONFIG)]
        for one in (saver, again)
    ]
    assert histories[0] == histories[1]


def test_removed_message_is_off_the_path(store: SessionStore) -> None:
    from langchain_core.messages import HumanMessage, RemoveMessage

    saver: Any = adapter.HoldfastSaver(store=store)
    graph = chat(saver)
    say(graph, HumanMessage("one", id="m1"))
    say(graph, HumanMessage("two", id="m2"))
    graph.update_state(CONFIG, {"messages": [RemoveMessage("m2")]})
    left = [m.content for m in graph.get_state(CONFIG).values["messages"]]
    assert left == ["one", "answer 1", "answer 3"]
    assert told(store, saver) == left
    assert say(graph, HumanMessage("three"))[-1] == "answer 4"
    assert told(store, saver) == [*left, "three", "answer 4"]


def test_two_savers_at_once_lose_no_checkpoint(store: SessionStore) -> None:
    from langgraph.checkpoint.base import empty_checkpoint

    async def main() -> None:
        savers: list[Any] = [adapter.HoldfastSaver(store=store) for _ in range(2)]
        config = {"configurable": {"thread_id": "thread-1", "checkpoint_ns": ""}}
        checkpoints = [empty_checkpoint() for _ in range(20)]
        await asyncio.gather(
            *(
                savers[number % 2].aput(config, checkpoint, {"step": number}, {})
                for number, checkpoint in enumerate(checkpoints)
            )
        )
        for saver in savers:
            found = [tup.checkpoint["id"] async for tup in saver.alist(config)]
            assert found == sorted((one["id"] for one in checkpoints), reverse=True)

    asyncio.run(main())


def test_encrypted_state_is_nowhere_in_plain_text(store: SessionStore) -> None:
    from langchain_core.messages import HumanMessage
    from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

    class Cipher:
        def encrypt(self, plain: bytes) -> tuple[str, bytes]:
            return "xor", bytes(byte ^ 0x5A for byte in plain)

        def decrypt(self, _name: str, data: bytes) -> bytes:
            return bytes(byte ^ 0x5A for byte in data)

    serde = EncryptedSerializer(Cipher())
    saver: Any = adapter.HoldfastSaver(store=store, serde=serde)
    assert say(chat(saver), HumanMessage("a secret"))[0] == "a secret"
    again: Any = adapter.HoldfastSaver(store=store, serde=serde)
    assert chat(again).get_state(CONFIG).values["messages"][0].content == "a secret"
    log = b"".join(store.export(saver._home.key_for(("thread-1",))))
    assert b"secret" not in log


def test_pruned_checkpoints_still_serve_delta_channels(store: SessionStore) -> None:
    from langchain_core.messages import HumanMessage

    saver: Any = adapter.HoldfastSaver(store=store)
    graph = chat(saver)
    for number in range(3):
        say(graph, HumanMessage(f"question {number}"))
    newest = saver.get_tuple(CONFIG)
    before = saver.get_delta_channel_history(config=newest.config, channels=["messages"])
    saver.prune(["thread-1", "no such thread"])
    assert [tup.config for tup in saver.list(CONFIG)] == [newest.config]
    after = saver.get_delta_channel_history(config=newest.config, channels=["messages"])
    assert after == before
    assert len(say(graph, HumanMessage("and now?"))) == 8
    with pytest.raises(UsageError):
        saver.prune(["thread-1"], strategy="burn")


@pytest.mark.parametrize("delete", ["trash", "erase"])
def test_deleted_thread_is_in_the_trash_or_gone(store: SessionStore, delete: Any) -> None:
    from langchain_core.messages import HumanMessage

    saver: Any = adapter.HoldfastSaver(store=store, delete=delete)
    say(chat(saver), HumanMessage("one"))
    saver.delete_thread("thread-1")
    assert saver.get_tuple(CONFIG) is None
    assert len(store.trash()) == (delete == "trash")
    if delete == "erase":
        return
    store.restore("thread-1")
    assert chat(saver).get_state(CONFIG).values["messages"][0].content == "one"


def test_bad_config_another_owner_and_a_closed_saver_are_refused(store: SessionStore) -> None:
    from langchain_core.messages import HumanMessage

    saver: Any = adapter.HoldfastSaver(store=store, owner="ann")
    bad: list[Any] = [{}, {"configurable": {}}, None]
    for config in bad:
        with pytest.raises(UsageError):
            saver.get_tuple(config)
    with pytest.raises(UsageError):
        saver.put_writes(CONFIG, [("messages", "x")], "task")
    say(chat(saver), HumanMessage("one"))
    with pytest.raises(AccessDenied):
        adapter.HoldfastSaver(store=store, owner="bob").get_tuple(CONFIG)
    saver.close()
    with pytest.raises(RuntimeError, match="HoldfastSaver is closed"):
        saver.get_tuple(CONFIG)


@pytest.mark.parametrize("is_async", [False, True])
def test_turns_of_a_thread_run_one_after_the_other(store: SessionStore, is_async: bool) -> None:
    """Of runs at the same time, each goes on from what the one before it left."""
    start = threading.Barrier(4)
    saver = adapter.HoldfastSaver(store=store)
    graph = chat(saver)

    def run(number: int) -> None:
        start.wait()
        for turn in range(3):
            said = {"messages": [("user", f"turn {number}-{turn}")]}
            with saver.turn("thread-1"):
                graph.invoke(said, CONFIG)

    async def run_async(number: int) -> None:
        await asyncio.to_thread(start.wait)
        for turn in range(3):
            said = {"messages": [("user", f"turn {number}-{turn}")]}
            async with saver.aturn("thread-1"):
                await graph.ainvoke(said, CONFIG)

    with ThreadPoolExecutor(4) as pool:
        if is_async:
            list(pool.map(lambda number: asyncio.run(run_async(number)), range(4)))
        else:
            list(pool.map(run, range(4)))
    texts = {message.content for message in graph.get_state(CONFIG).values["messages"]}
    assert texts >= {f"turn {number}-{turn}" for number in range(4) for turn in range(3)}


def test_turn_that_is_held_is_waited_for_and_given_up(store: SessionStore) -> None:
    """A caller whose time is up, or that is cancelled, leaves the turn to the others."""
    saver = adapter.HoldfastSaver(store=store)

    async def use() -> None:
        async with saver.aturn("thread-1"):
            with pytest.raises(TurnInProgress):
                async with saver.aturn("thread-1", wait_seconds=0):
                    pass
            waiting = asyncio.ensure_future(saver.aturn("thread-1").__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        async with saver.aturn("thread-1", wait_seconds=0):
            pass

    asyncio.run(use())
    with saver.turn("thread-1"), pytest.raises(UsageError, match="itself"), saver.turn("thread-1"):
        pass


def test_the_log_of_a_thread_can_be_read(tmp_path: Path) -> None:
    """Each record has words: what was said, or the step and what it wrote. None shows its bytes."""
    from langchain_core.messages import AIMessage
    from langgraph.graph import MessagesState, StateGraph

    def reply(state: Any) -> Any:
        return {"messages": [AIMessage(f"You said {state['messages'][-1].content}")]}

    builder = StateGraph(MessagesState).add_node("n", reply).set_entry_point("n")
    saver: Any = adapter.HoldfastSaver(root=str(tmp_path))
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"messages": [("user", "hello")]}, {"configurable": {"thread_id": "thread-1"}})
    saver.close()
    with open_store(tmp_path) as store:
        records = list(store.read(SessionKey("main", "thread-1")))
    lines = [f"{record.kind} {gist(record, str)}" for record in records[1:]]
    assert [line for line in lines if not line.startswith("graph")] == [
        "user hello",
        "assistant You said hello",
    ]
    assert lines[0] == "graph_checkpoint step -1, input: __start__"
    assert lines[-1] == "graph_checkpoint step 1, loop: branch:to:n, messages"
    assert [line for line in lines if "{" in line] == []
