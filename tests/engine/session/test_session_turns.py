"""One turn at a time, across objects, threads and processes; who lost the turn writes nothing."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.sessions import EITHER_KIND, KINDS, Bench, said
from tests.support.processes import FORKED
from tests.support.runs import RUN

from holdfast.core.flow.effects import Cancelled
from holdfast.core.flow.events import ToolStarted, TurnFailed, TurnWaiting
from holdfast.core.limits import LEASE_SECONDS
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, ToolResult, User
from holdfast.engine.session.async_session import AsyncSession
from holdfast.engine.session.drivers import lease
from holdfast.engine.session.session import Session
from holdfast.errors import HoldfastError, LeaseLost, TurnInProgress, UsageError
from holdfast.ports import uptime
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Barrier
    from pathlib import Path

    from holdfast.ports import SessionStore

ARGUMENTS: dict[str, tuple[Any, ...]] = {"say": ("hello",), "stream": ("hello",), "rewind": (None,)}
"""What the methods that take a turn need; the others need nothing."""


SESSION = SessionKey("main", "s")
MESSAGES = {"quick": 3, "test": 12, "nightly": 500}
"""Messages of each process."""


def turn_methods(kind: type) -> list[str]:
    """Every method that takes the turn of its session, by its `wait`."""
    members = inspect.getmembers(kind, inspect.isfunction)
    return [
        name
        for name, member in members
        if "wait" in inspect.signature(member).parameters and not name.startswith("_")
    ]


pytestmark = EITHER_KIND


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(request.param)
    yield made
    made.close()


async def _await(value: Any) -> Any:
    """The result of a method of either kind of session, a stream read to its end."""
    if inspect.isasyncgen(value):
        return [piece async for piece in value]
    if inspect.isgenerator(value):
        return list(value)
    return await value if inspect.isawaitable(value) else value


def call(bench: Bench, session: Any, name: str, **more: Any) -> Any:
    value = getattr(session, name)(*ARGUMENTS.get(name, ()), **more)
    return bench.do(_await(value)) if bench.is_async else list(value) if name == "stream" else value


def hold(store: SessionStore, session: Any) -> int:
    """Let another holder run a turn."""
    return store.leases.acquire(session.key, "another holder", 600)


# A second turn


def test_methods_that_take_a_turn_are_the_same_in_both_kinds() -> None:
    """What waits in one kind of session waits in the other."""
    wanted = ["compact", "reset", "resume", "rewind", "say", "stream", "undo"]
    assert turn_methods(Session) == turn_methods(AsyncSession) == wanted


@pytest.mark.parametrize("name", turn_methods(Session))
def test_nothing_waits_with_wait_zero(bench: Bench, name: str) -> None:
    """While another holder runs a turn, it is named at once, and nothing is stored."""
    session = bench.open(["one", "two"])
    bench.say(session, "hello")
    before = list(bench.store.read(session.key))
    hold(bench.store, session)
    with pytest.raises(TurnInProgress, match="another holder, since ") as caught:
        call(bench, session, name, wait=0)
    assert caught.value.holder == "another holder"
    assert list(bench.store.read(session.key)) == before
    assert not bench.of(TurnWaiting)


def test_a_wait_is_bounded_and_announced(bench: Bench) -> None:
    """A listener learns who is waited for; when the time is up, so does the caller."""
    session = bench.open(["one"])
    token = hold(bench.store, session)
    with pytest.raises(TurnInProgress, match="waited"):
        bench.say(session, "hello", wait=0.01)
    (waiting,) = bench.of(TurnWaiting)
    assert (waiting.holder, waiting.seconds) == ("another holder", 0.01)
    assert said(bench.records()) == []
    bench.store.leases.release(session.key, token)
    assert bench.say(session, "hello").text == "one"


def test_a_turn_that_waits_begins_when_the_other_ends(bench: Bench) -> None:
    """Its message is stored then, after those of the other turn."""
    session = bench.open(["one"])
    token = hold(bench.store, session)

    def end(_event: TurnWaiting) -> None:
        bench.store.append(session.key, [User(content="theirs")], expect=None, token=token)
        bench.store.leases.release(session.key, token)

    session.on(end, TurnWaiting)
    assert bench.say(session, "ours").text == "one"
    assert [text for _kind, text in said(bench.records())] == ["theirs", "ours", "one"]


def test_a_wait_can_be_cancelled(bench: Bench) -> None:
    """Nothing is stored for a turn that never began."""
    session = bench.open(["one"])
    hold(bench.store, session)
    session.on(lambda _event: session.cancel(), TurnWaiting)
    with pytest.raises(Cancelled):
        bench.say(session, "hello")
    assert said(bench.records()) == []


def test_a_stream_that_is_left_while_it_waits_stores_nothing() -> None:
    """Leaving it ends its wait, and no other turn."""
    bench = Bench("blocking")
    session = bench.open(["one"])
    hold(bench.store, session)
    stream = session.stream("hello")
    assert isinstance(next(stream), TurnWaiting)
    stream.close()
    assert said(bench.records()) == []


def test_a_preview_and_a_message_need_no_turn(bench: Bench) -> None:
    """What only reads, and what is added beside a turn, does not wait for it."""
    session = bench.open(["one"])
    bench.say(session, "hello")
    hold(bench.store, session)
    bench.do(session.own_loop.add_user("by the way"))
    bench.do(session.compact(preview=True))
    bench.do(session.checkpoint())
    bench.do(session.rename("other"))
    bench.do(session.status())
    assert said(bench.records())[-1] == ("user", "by the way")


# Objects and threads


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_threads_with_objects_of_their_own_take_turns(kind: str, tmp_path: Path) -> None:
    """Each message has one answer, right behind it, and its tool runs once."""
    store: Any = MemoryStore() if kind == "memory" else JsonlStore(tmp_path)
    ran: list[str] = []

    def pay(name: str) -> str:
        ran.append(name)
        return f"paid {name}"

    def work(number: int) -> None:
        names = [f"{number}.{place}" for place in range(4)]
        script = [
            answer for name in names for answer in (calls((name, "pay", {"name": name})), name)
        ]
        session = Session.open("s", model=ScriptedModel(script), store=store, tools=[pay])
        for name in names:
            assert session.say(name).text == name

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ran) == len(set(ran)) == 16
    check_order(store)
    store.close()


def check_order(store: SessionStore) -> list[str]:
    """Every message is followed by its own turn; returns the messages."""
    key = next(iter(store.keys()))
    turns: list[list[Any]] = []
    for record in store.read(key):
        if isinstance(record, User):
            turns.append([record])
        elif isinstance(record, Assistant | ToolResult):
            turns[-1].append(record)
    for asked, *answers in turns:
        assert said([answers[-1]]) == [("assistant", asked.content)]
        assert [one.kind for one in answers] in (
            ["assistant"],
            ["assistant", "tool_result", "assistant"],
        )
    return [turn[0].content for turn in turns]


def test_tasks_with_objects_of_their_own_take_turns(tmp_path: Path) -> None:
    """A web handler that opens the session for each request answers each message once."""
    store = JsonlStore(tmp_path)

    async def handle(text: str) -> str:
        model = ScriptedModel([text]).as_async()
        async with await AsyncSession.open("s", model=model, store=store) as session:
            return str((await session.say(text)).text)

    async def serve() -> list[str]:
        return await asyncio.gather(*(handle(f"m{number}") for number in range(8)))

    store.create(SESSION)
    assert asyncio.run(serve()) == [f"m{number}" for number in range(8)]
    assert sorted(check_order(store)) == [f"m{number}" for number in range(8)]
    store.close()


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_turns_of_a_process_begin_in_the_order_of_their_calls(kind: str, tmp_path: Path) -> None:
    """A message that arrives while others wait is answered behind them, whichever of them happens
    to look first when the turn before them ends."""
    memory = MemoryStore()
    names = [f"m{number}" for number in range(6)]
    waiting: list[threading.Event] = [threading.Event() for _name in names]
    is_free = threading.Event()

    def hold() -> str:
        assert is_free.wait(60)
        return "done"

    def say(number: int) -> None:
        store: Any = memory if kind == "memory" else JsonlStore(tmp_path)
        script: list[Any] = [calls(("c", "hold", {}))] if number == 0 else []
        script.append(names[number])
        with Session.open("s", model=ScriptedModel(script), store=store, tools=[hold]) as session:
            session.on(lambda _event: waiting[number].set(), TurnWaiting, ToolStarted)
            session.say(names[number])
        if kind == "files":
            store.close()

    threads = []
    for number in range(len(names)):
        threads.append(threading.Thread(target=say, args=(number,)))
        threads[-1].start()
        assert waiting[number].wait(60)
    is_free.set()
    for thread in threads:
        thread.join()
    store: Any = memory if kind == "memory" else JsonlStore(tmp_path)
    assert check_order(store) == names
    store.close()


def test_a_turn_that_gave_up_waiting_holds_nobody_up(bench: Bench) -> None:
    """Neither one whose time is over nor one that nobody asks for any more."""
    session = bench.open(["one"])
    token = hold(bench.store, session)
    with pytest.raises(TurnInProgress):
        bench.say(session, "hello", wait=0.01)
    abandoned = lease.TurnScope()
    assert abandoned.acquire(bench.store, session.key) is not None
    bench.store.leases.release(session.key, token)
    assert bench.say(session, "hello", wait=60).text == "one"


def test_two_turns_of_a_process_never_wait_for_each_other(bench: Bench) -> None:
    """Also where the later call was the first to ask, and has a place in the store's queue."""
    session = bench.open([])
    token = hold(bench.store, session)
    first, second = lease.TurnScope(), lease.TurnScope()

    def ask(scope: lease.TurnScope) -> TurnInProgress | None:
        with scope.context():
            return scope.acquire(bench.store, session.key, is_queued=True)

    assert ask(second) is not None
    assert ask(first) is not None
    bench.store.leases.release(session.key, token)
    asked = [ask(first), ask(second), ask(first), ask(second)]
    assert [busy is None for busy in asked] == [False, False, True, False]
    first.release()
    assert ask(second) is None
    second.release()


# Turns inside turns


@pytest.mark.parametrize("is_other", [False, True])
@pytest.mark.parametrize("calls_made", [1, 3])
@pytest.mark.parametrize("name", turn_methods(Session))
def test_a_tool_cannot_start_a_turn_of_its_session(
    bench: Bench, name: str, calls_made: int, is_other: bool
) -> None:
    """It gets an error at once instead of waiting for itself: alone, side by side, in threads and
    tasks, through its own object and through another one."""
    errors: list[Any] = []

    def nested() -> str:
        inner = Session.open("s", model=ScriptedModel(["no"]), store=bench.store)
        target = inner if is_other or bench.is_async else session
        try:
            value = getattr(target, name)(*ARGUMENTS.get(name, ()))
            list(value if name == "stream" else [value])
        except HoldfastError as error:
            errors.append(error)
        return "done"

    async def nested_async() -> str:
        target = session
        if is_other:
            model = ScriptedModel(["no"]).as_async()
            target = await AsyncSession.open("s", model=model, store=bench.store)
        try:
            await _await(getattr(target, name)(*ARGUMENTS.get(name, ())))
        except HoldfastError as error:
            errors.append(error)
        return "done"

    tools: list[Callable[..., Any]] = [nested]
    if bench.is_async:
        tools.append(nested_async)
    asked: list[tuple[str, str, Any]] = [
        (f"{tool.__name__}{number}", tool.__name__, {})
        for tool in tools
        for number in range(calls_made)
    ]
    session = bench.open([calls(*asked), "done"], tools=tools)
    assert bench.say(session, "go").text == "done"
    assert [type(error) for error in errors] == [UsageError] * len(asked)
    assert [kind for kind, _text in said(bench.records())].count("user") == 1


def test_a_tool_may_talk_to_another_session(bench: Bench) -> None:
    """A sub-agent has a log and a turn of its own."""

    def ask() -> str:
        return Session.open("t", model=ScriptedModel(["sub"]), store=bench.store).say("hi").text

    session = bench.open([calls(("c", "ask", {})), "done"], tools=[ask])
    assert bench.say(session, "go").text == "done"
    assert ("tool_result", "sub") in said(bench.records())


# A lost lease


def take_over(store: SessionStore, session: Any) -> int:
    """Let the lease run out and another holder take it."""
    held = store.leases.current(session.key)
    assert held is not None
    store.leases.renew(session.key, held.token, 0)
    return hold(store, session)


def test_a_turn_that_was_taken_over_writes_nothing(bench: Bench) -> None:
    """The result of its tool is refused; the successor's records are the last."""

    def slow() -> str:
        token = take_over(bench.store, session)
        bench.store.append(session.key, [User(content="next")], expect=None, token=token)
        return "too late"

    session = bench.open([calls(("c", "slow", {})), "never"], tools=[slow])
    with pytest.raises(LeaseLost, match="another holder"):
        bench.say(session, "go")
    assert said(bench.records())[-1] == ("user", "next")
    assert bench.of(TurnFailed)


def test_a_cancelled_turn_that_was_taken_over_writes_nothing(bench: Bench) -> None:
    """What tidies up after a turn carries its token too."""

    def slow() -> str:
        take_over(bench.store, session)
        session.cancel()
        return "too late"

    session = bench.open([calls(("c", "slow", {})), "never"], tools=[slow])
    with pytest.raises(LeaseLost):
        bench.say(session, "go")
    assert [kind for kind, _text in said(bench.records())] == ["user", "assistant"]


def test_no_tool_starts_for_a_turn_that_was_taken_over(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was paused for longer than its lease looks before it acts."""
    ran: list[str] = []

    def pause(_event: ToolStarted) -> None:
        take_over(bench.store, session)
        monkeypatch.setattr(lease, "uptime", lambda: real() + 3600)

    def act() -> str:
        ran.append("act")
        return "done"

    real = uptime
    session = bench.open([calls(("c", "act", {})), "never"], tools=[act])
    session.on(pause, ToolStarted)
    with pytest.raises(LeaseLost):
        bench.say(session, "go")
    assert ran == []


def test_a_pause_that_nobody_used_costs_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease that ran out and that nobody took is renewed, and the turn goes on."""
    real, jumps = uptime, iter(range(1, 1000))
    monkeypatch.setattr(lease, "uptime", lambda: real() + 3600 * next(jumps))

    def act() -> str:
        return "done"

    session = bench.open([calls(("c", "act", {})), "fine"], tools=[act])
    assert bench.say(session, "go").text == "fine"


def test_a_lease_is_renewed_while_a_tool_runs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes; and once the turn is over, no more."""
    monkeypatch.setattr(lease, "_RENEW_SHARE", 0.01 / LEASE_SECONDS)
    renewals = lease._Renewals()
    monkeypatch.setattr(lease, "_renewals", renewals)
    renewed = threading.Semaphore(0)
    real = bench.store.leases.renew

    def renew(*args: Any) -> None:
        real(*args)
        renewed.release()

    monkeypatch.setattr(bench.store.leases, "renew", renew)

    def slow() -> str:
        return "done" if all(renewed.acquire(timeout=30) for _ in range(3)) else "not renewed"

    session = bench.open([calls(("c", "slow", {})), "fine"], tools=[slow])
    assert bench.say(session, "go").text == "fine"
    assert ("tool_result", "done") in said(bench.records())
    assert not renewals._scopes
    assert bench.store.leases.current(session.key) is None


@pytest.mark.parametrize("name", turn_methods(Session))
def test_everything_that_a_turn_writes_carries_its_token(
    bench: Bench, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages, results, checkpoints, notes, cuts, rewinds: no append of a turn goes without."""
    tokens: list[int | None] = []
    real = bench.store.append_batch

    def append(key: Any, batch: Any, *, token: int | None, **more: Any) -> Any:
        if key == session.key:
            tokens.append(token)
        return real(key, batch, token=token, **more)

    def look() -> str:
        return "seen " * 2_000

    script: list[Any] = [calls(("a", "look", {})), *["Remember: use tabs. " * 50] * 8]
    session = bench.open(
        ScriptedModel(script), tools=[look], checkpoints="turns", summary="extract"
    )
    for number in range(4):
        bench.say(session, f"Please always use tabs, and remember number {number}.")
    bench.do(session.own_loop.add_user("one more"))
    monkeypatch.setattr(bench.store, "append_batch", append)
    call(bench, session, name)
    assert tokens
    assert None not in tokens
    assert len(set(tokens)) == 1


# Processes


def _say_all(root: str, number: int, count: int, ready: Barrier) -> None:
    """Say messages, one after the other, from one process; after the first it waits for others."""
    with JsonlStore(root) as store:
        names = [f"{number}.{place}" for place in range(count)]
        script = [
            answer
            for name in names
            for answer in (
                (calls((name, "pay", {"name": name})), name) if name[-1] == "0" else (name,)
            )
        ]

        def pay(name: str) -> str:
            with open(os.path.join(root, "paid"), "a", encoding="utf-8") as file:
                file.write(f"{name}\n")
            return "paid"

        # A summary by the model would take an answer from the script.
        session = Session.open(
            "s", model=ScriptedModel(script), store=store, tools=[pay], summary="extract"
        )
        for name in names:
            assert session.say(name).text == name
            if name == names[0]:
                ready.wait()


@pytest.mark.usefixtures("forked_processes")
@pytest.mark.files_only("another process opens the folder")
@pytest.mark.timeout(3600)
def test_processes_answer_each_message_once(tmp_path: Path) -> None:
    """No message is lost or answered twice, each answer is right behind its message, and each
    tool ran once, whatever the processes do to each other."""
    count = MESSAGES[RUN]
    with JsonlStore(tmp_path) as store:
        store.create(SESSION)
        ready = FORKED.Barrier(4)
        workers = [
            FORKED.Process(target=_say_all, args=(str(tmp_path), number, count, ready))
            for number in range(4)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert [worker.exitcode for worker in workers] == [0] * 4
        said_ = check_order(store)
        wanted = [f"{number}.{place}" for number in range(4) for place in range(count)]
        assert sorted(said_) == sorted(wanted)
        for number in range(4):  # each process in its own order
            own = [name for name in said_ if name.startswith(f"{number}.")]
            assert own == [f"{number}.{place}" for place in range(count)]
        together = said_[4 : min(said_.index(f"{number}.{count - 1}") for number in range(4))]
        shares = [sum(name[0] == str(number) for name in together) for number in range(4)]
        assert max(shares) <= 2 * min(shares) + 5, shares  # and none waits for the others to end
        paid = (tmp_path / "paid").read_text().split()
        assert sorted(paid) == sorted(name for name in wanted if name.endswith("0"))
        assert store.verify(SESSION).is_sound


class _PausingModel(ScriptedModel):
    """Answers once it is told to."""

    pipe: Connection

    def send(self, request: Any, on_delta: Any = None) -> Any:
        self.pipe.send("asked")
        self.pipe.recv()
        return super().send(request, on_delta)


def _answer_late(pipe: Connection, open_store: Callable[[], SessionStore]) -> None:
    vars(lease)["LEASE_SECONDS"] = 0.5
    with open_store() as store:
        model = _PausingModel(["too late"])
        model.pipe = pipe
        try:
            Session.open("s", model=model, store=store).say("first")
        except LeaseLost as error:
            pipe.send(f"refused: {error.holder}")
        else:
            pipe.send("wrote")


def _store_without_fence(root: str) -> JsonlStore:
    """A store that does not compare tokens."""
    store = JsonlStore(root)
    append = store.append_batch
    store.append_batch = lambda *args, **more: append(*args, **{**more, "token": None})  # type: ignore[method-assign]
    return store


@pytest.mark.usefixtures("forked_processes")
@pytest.mark.files_only("another process opens the folder")
@pytest.mark.parametrize("has_fence", [True, False])
def test_a_process_that_was_stopped_writes_nothing_after_its_successor(
    tmp_path: Path, has_fence: bool
) -> None:
    """Stopped between its message and its answer, it goes on after another one has taken over.
    Without the comparison of tokens in the append, its answer is in the log: the test can fail."""
    open_store: Any = JsonlStore if has_fence else _store_without_fence
    ours, theirs = FORKED.Pipe()
    with JsonlStore(tmp_path) as store:
        store.create(SESSION)
        make = functools.partial(open_store, str(tmp_path))
        worker = FORKED.Process(target=_answer_late, args=(theirs, make), daemon=True)
        worker.start()
        try:
            assert ours.recv() == "asked"
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGSTOP)
            session = Session.open("s", model=ScriptedModel(["in time", "and on"]), store=store)
            assert session.say("second").text == "in time"
            ours.send("go on")
            os.kill(worker.pid, signal.SIGCONT)
            end = ours.recv()
            session.say("third")
        finally:
            worker.kill()
            worker.join()
        texts = [text for _kind, text in said(list(store.read(SESSION)))]
        if has_fence:
            assert end.startswith("refused")
            assert texts == ["first", "second", "in time", "third", "and on"]
        else:
            assert "too late" in texts
