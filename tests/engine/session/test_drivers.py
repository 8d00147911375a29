"""The drivers themselves: cancelling, hearing, deadlines, and logs that others write to."""

from __future__ import annotations

import asyncio
import gc
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.sessions import Bench, boundaries, check_requests, path_of, said, texts
from tests.support.processes import FORKED

from holdfast.core.flow.effects import Cancelled, Emit, Now
from holdfast.core.flow.events import TurnStarted
from holdfast.core.log.records import Assistant, Compaction, Rewind, ToolResult, User
from holdfast.core.owners import ANY_OWNER
from holdfast.core.turn.compact import was_cut
from holdfast.core.turn.options import Limits, Summary
from holdfast.core.window import Window
from holdfast.engine.session.drivers.awaiting import AwaitingDriver, run_in_thread
from holdfast.engine.session.drivers.blocking import BlockingDriver
from holdfast.engine.session.drivers.world import Listeners, World
from holdfast.engine.session.session import Session
from holdfast.engine.session.session_log import SessionLog
from holdfast.engine.tools import Toolbox
from holdfast.errors import LogConflict
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.ids import SessionKey


def opened(store: Any = None) -> tuple[Any, SessionKey]:
    store = store or MemoryStore()
    session = Session.open("s", model=ScriptedModel([]), store=store)
    return store, session.key


def world_of(store: Any, key: SessionKey) -> World:
    return World(log=SessionLog(store, key), listeners=Listeners(), toolbox=Toolbox())


def test_an_error_of_an_effect_is_raised_into_the_flow() -> None:
    """The flow may leave things tidy; what it raises then is what the caller gets."""
    store, key = opened()
    world = world_of(store, key)
    tidied: list[str] = []

    def handler(_event: Any) -> None:
        raise KeyboardInterrupt

    world.listeners.add(handler, (TurnStarted,))

    def flow() -> Flow[str]:
        try:
            yield Emit(TurnStarted("r"))
        except Cancelled:
            tidied.append("tidied")
            yield Now()
            raise
        return "never"

    with pytest.raises(Cancelled) as raised:
        BlockingDriver(world, None).run(flow())
    assert isinstance(raised.value.__cause__, KeyboardInterrupt)
    with pytest.raises(Cancelled):
        asyncio.run(AwaitingDriver(world, None).run(flow()))
    assert tidied == ["tidied", "tidied"]


@pytest.mark.parametrize("cancels", [1, 2])
@pytest.mark.parametrize("error", [None, OSError("full")])
def test_an_append_that_has_begun_is_finished_whoever_is_cancelled(
    cancels: int, error: OSError | None
) -> None:
    """The task is cancelled while a thread writes: the write is whole when the task ends, and an
    error that it had is not reported as one that nobody asked for."""
    reported: list[object] = []
    begun, go_on = threading.Event(), threading.Event()
    written: list[str] = []

    def write() -> None:
        begun.set()
        go_on.wait(60)
        written.append("whole")
        if error is not None:
            raise error

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, about: reported.append(about))
        task = asyncio.create_task(run_in_thread(write))
        await asyncio.to_thread(begun.wait, 60)
        for _ in range(cancels):
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert written == ["whole"]
        del task

    asyncio.run(scenario())
    gc.collect()
    assert reported == []


# A log that others write to


def test_what_others_appended_comes_before_ours() -> None:
    store, key = opened()
    log = SessionLog(store, key)
    log.read(Window(32_000))
    store.append(key, [User(content="theirs")], expect=None)
    log.append([User(content="ours")])
    assert [text for _kind, text in said(list(store.read(key)))] == ["theirs", "ours"]
    assert [text for _kind, text in said(log.read(Window(32_000)))] == ["theirs", "ours"]


def test_a_cut_of_others_stops_a_cut_of_ours() -> None:
    store, key = opened()
    log = SessionLog(store, key)
    store.append(key, [User(content="one")], expect=None)
    seen = log.read(Window(32_000))[-1].id
    ours = Compaction(summary="ours")
    store.append(key, [Compaction(summary="theirs")], expect=None)
    assert log.append([ours], unless=partial(was_cut, seen)) is None
    log.read(Window(32_000))
    assert log.append([ours], unless=partial(was_cut, seen)) is None
    assert [one.summary for one in boundaries(list(store.read(key)))] == ["theirs"]


def test_a_message_of_others_does_not_stop_a_cut_of_ours() -> None:
    store, key = opened()
    log = SessionLog(store, key)
    store.append(key, [User(content="one")], expect=None)
    seen = log.read(Window(32_000))[-1].id
    store.append(key, [User(content="two")], expect=None)
    assert log.append([Compaction(summary="ours")], unless=partial(was_cut, seen)) is not None


def test_a_head_that_was_moved_elsewhere_is_a_conflict_once() -> None:
    """What was decided on one branch is not written to another; the next append is asked anew."""
    store, key = opened()
    store.append(key, [User(content="one"), User(content="two")], expect=None)
    log = SessionLog(store, key)
    records = log.read(Window(32_000))
    store.append(key, [Rewind(to=records[-2].id)], expect=None)
    with pytest.raises(LogConflict):
        log.append([Assistant(content="an answer to two")])
    assert log.append([User(content="three")]) is not None
    assert [text for _kind, text in said(list(store.read(key)))] == ["one", "three"]


def test_a_rewind_of_others_is_seen_by_the_next_turn() -> None:
    bench = Bench("blocking")
    model = ScriptedModel(otherwise="ok")
    session = bench.open(model)
    session.say("first")
    session.say("second")
    other = Session.open("s", model=ScriptedModel([]), store=bench.store)
    other.rewind()
    session.say("third")
    assert "second" not in texts(model.requests[-1])
    assert [text for kind, text in said(bench.records()) if kind == "user"] == ["first", "third"]


def _speak(root: str, who: str) -> None:
    store = JsonlStore(root)
    session = Session.open("s", model=ScriptedModel(otherwise=f"to {who}"), store=store)
    for number in range(6):
        session.say(f"{who} {number}")
    store.close()


@pytest.mark.usefixtures("forked_processes")
@pytest.mark.files_only("another process opens the folder")
def test_two_processes_on_one_log_lose_nothing(tmp_path: Path) -> None:
    """Each word of each is there, in the order it was said; requests stay valid."""
    root = str(tmp_path)
    store = JsonlStore(root)
    Session.open("s", model=ScriptedModel([]), store=store)
    workers = [FORKED.Process(target=_speak, args=(root, who)) for who in ("anna", "bert")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    words = [text for kind, text in said(path_of(store)) if kind == "user"]
    for who in ("anna", "bert"):
        assert [one for one in words if one.startswith(who)] == [f"{who} {n}" for n in range(6)]
    key = store.sessions(owner=ANY_OWNER)[0].key
    assert store.verify(key).is_sound
    store.close()


def test_a_word_of_another_holder_does_not_interrupt_a_call_that_runs() -> None:
    """Its process sees that our turn runs, and leaves the open call to us."""
    bench = Bench("blocking")

    def work() -> str:
        other = Session.open("s", model=ScriptedModel([]), store=bench.store)
        other.own_loop.add_user("are you still at it?")
        return "the real result"

    model = ScriptedModel([calls(("c1", "work", {})), "done"])
    session = bench.open(model, tools=[work])
    session.say("work")
    results = [one.content for one in bench.records() if isinstance(one, ToolResult)]
    assert results == ["the real result"]
    assert "the real result" in texts(model.requests[1])
    check_requests(model)


# Called off from another thread while something hangs


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_cancelled_while_tools_hang(kind: Any) -> None:
    """Whoever cancels does not have to wait for tools that never end."""
    bench = Bench(kind)
    release, running = threading.Event(), threading.Semaphore(0)

    def hang(number: int) -> str:
        running.release()
        release.wait(30)
        return "late"

    async def hang_async(number: int) -> str:
        running.release()
        await asyncio.sleep(30)
        return "late"

    tool = hang_async if bench.is_async else hang
    tool.__name__ = "hang"
    wanted = [("c1", "hang", {"number": 1}), ("c2", "hang", {"number": 2})]
    model = ScriptedModel([calls(*wanted), "next"])
    session = bench.open(model, tools=[tool])

    def cancel() -> None:
        if all(running.acquire(timeout=20) for _ in wanted):
            session.cancel()

    threading.Thread(target=cancel).start()
    with pytest.raises(Cancelled):
        bench.say(session, "go")
    assert not release.is_set()
    release.set()
    results = [one for one in bench.records() if isinstance(one, ToolResult)]
    assert {one.tool_use_id for one in results} == {"c1", "c2"}
    assert bench.say(session, "go on").text == "next"
    check_requests(model)
    bench.close()


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_cancelled_while_the_summariser_hangs(kind: Any) -> None:
    """Long before its deadline; nothing was written for it."""
    bench = Bench(kind)
    release = threading.Event()

    class Hanging:
        target = ScriptedModel().target
        window = ScriptedModel().window

        def send(self, request: Any, on_delta: Any = None) -> Any:
            if not bench.is_async:
                threading.Timer(0.1, session.cancel).start()
                release.wait(30)
                raise RuntimeError("released")

            async def hang() -> Any:
                threading.Timer(0.1, session.cancel).start()
                await asyncio.sleep(30)

            return hang()

    session = bench.open(
        ["ok"],
        summary=Summary(model=Hanging()),
        limits=Limits(summary_seconds=600.0),
        notes="off",
        checkpoints="off",
    )
    for number in range(8):
        words = f"question {number} " + "word " * 300
        bench.store.append(
            session.key, [User(content=words), Assistant(content=words)], expect=None
        )
    before = bench.records()
    with pytest.raises(Cancelled):
        bench.do(session.compact())
    release.set()
    assert bench.records() == before
    assert bench.say(session, "hello").text == "ok"
    bench.close()
