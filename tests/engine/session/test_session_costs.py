"""A turn asks the store for what it needs: counted, so that it is seen when it grows."""

from __future__ import annotations

import itertools
import sys
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.sessions import EITHER_KIND, KINDS, Bench, texts

from holdfast.core.flow.effects import Now
from holdfast.core.flow.events import CallStarted, ToolFinished, TurnStarted
from holdfast.core.log.records import User
from holdfast.core.narrative import pieces
from holdfast.core.narrative.digest import digest_record
from holdfast.core.projection.units import LEAST_SUMMARY
from holdfast.core.tokens.counting import Estimator
from holdfast.engine.session.drivers.awaiting import AwaitingDriver
from holdfast.engine.session.drivers.blocking import BlockingDriver
from holdfast.engine.session.session import Session
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.disk import FaultyDisk
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.records import Record
    from holdfast.core.narrative.digest import Digest


def look(size: int) -> str:
    """Look at something of a size."""
    return "seen " * size


def script() -> ScriptedModel:
    """A plain turn, then one with no call, with one, and with three, one after the other."""
    rounds = [calls((f"c{number}", "look", {"size": 3})) for number in range(4)]
    return ScriptedModel(["hello", "plain", rounds[0], "one", *rounds[1:], "three"])


def counted(session: Session, count: Callable[[], int]) -> list[int]:
    """The number that each turn of the script adds, after the first one."""
    session.say("hello")
    found = []
    for words in ("none", "one", "three"):
        before = count()
        session.say(words)
        found.append(count() - before)
    return found


@pytest.mark.files_only("it counts what is done to files")
def test_a_turn_writes_and_syncs_each_message_once(tmp_path: Path) -> None:
    """The question, the reply, and two records for each round of tools: caches are not synced."""
    disk = FaultyDisk()
    with JsonlStore(str(tmp_path), disk=disk) as store:
        session = Session.open("s", model=script(), store=store, tools=[look])
        synced = counted(session, lambda: sum(call != "write" for call in disk.calls))
        assert synced == [2, 4, 8]
    with JsonlStore(str(tmp_path / "b"), disk=disk) as store:
        session = Session.open("s", model=script(), store=store, tools=[look])
        assert counted(session, lambda: disk.calls.count("write")) == [2, 4, 8]


@pytest.mark.files_only("it opens a database itself")
def test_a_turn_is_five_statements_and_a_round_two(postgres_address: str) -> None:
    """The lease, the head once, an append for each message, and the lease again."""
    with (
        tempfile.TemporaryFile() as trace,
        PostgresStore(postgres_address, connections_max=1) as store,
    ):
        session = Session.open("s", model=script(), store=store, tools=[look])
        with store._connections.use() as connection:
            connection.pgconn.trace(trace.fileno())

        def count() -> int:
            trace.seek(0)
            lines = trace.read().split(b"\n")
            sent = sum(b"\tExecute\t" in line or b"\tQuery\t" in line for line in lines)
            # Followers are woken from another thread, for several appends at once.
            return sent - sum(b"\tParse\t" in line and b"pg_notify" in line for line in lines)

        assert counted(session, count) == [5, 7, 11]
        with store._connections.use() as connection:
            connection.pgconn.untrace()


@pytest.fixture(params=KINDS)
def bench(request: Any) -> Iterator[Bench]:
    made = Bench(request.param)
    yield made
    made.close()


@EITHER_KIND
@pytest.mark.parametrize("moment", ["before", "asked", "started", "called", "tool", "finished"])
def test_words_of_another_writer_are_in_the_next_request(bench: Bench, moment: str) -> None:
    """Whenever they came: between two turns, while the model, a tool or a listener was at it."""
    told: list[str] = []

    def tell(*_: object) -> None:
        if not told:
            told.append(moment)
            record = User(content=f"word of another, {moment}")
            bench.store.append(session.key, [record], expect=ANY_HEAD)

    def ask(_request: Any) -> Any:
        if moment == "asked":
            tell()
        return calls(("c1", "peek", {}))

    def peek() -> str:
        """Look."""
        if moment == "tool":
            tell()
        return "seen"

    model = ScriptedModel([ask], otherwise="done")
    session = bench.open(model, tools=[peek])
    bench.do(session.plan())
    events = {"started": TurnStarted, "called": CallStarted, "finished": ToolFinished}
    if moment in events:
        session.on(tell, events[moment])
    if moment == "before":
        tell()
    bench.say(session, "go")
    first = "before" if moment == "before" else "started" if moment == "started" else ""
    seen = model.requests[0 if first else 1]
    assert f"word of another, {moment}" in texts(seen)


def test_a_flow_decides_while_nobody_else_plans(bench: Bench) -> None:
    """What one plan leaves to the next is for one thread: `status` in another one waits."""
    session = bench.open(["done"])
    world = session._state.world
    free: list[bool] = []

    def try_lock() -> None:
        free.append(world.planning.acquire(blocking=False))

    def flow() -> Flow[None]:
        thread = threading.Thread(target=try_lock)
        thread.start()
        thread.join()
        yield Now()

    driver: Any = AwaitingDriver if bench.is_async else BlockingDriver
    bench.do(driver(world, None).run(flow()))
    assert free == [False]


def test_what_is_before_a_cut_leaves_memory() -> None:
    """A held session has the records of its view and what was weighed of them, however old."""
    model = ScriptedModel((), otherwise="fine " * 400)
    session = Session.open("s", model=model, store=MemoryStore(), window=24_000)
    held: list[int] = []
    for number in range(200):
        session.say(f"part {number} " + "seen " * 400)
        state = session._state
        held.append(len(state.log.read(state.run.window)) + state.run.cache.size)
    cuts = session.status().compactions
    assert cuts >= 4
    # After some cuts a carry-over has the size that it keeps.
    young, old = max(held[80:140]), max(held[140:])
    assert old <= young, (young, old)
    assert old <= 200


def test_the_texts_of_a_cut_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever plans it before it is stored: the sentences of a long text are found a single time,
    and let go with the text. What was told as it is stays for the next cut, which tells it."""
    found: list[str] = []
    find_spans = pieces.find_spans

    def find(text: str) -> list[tuple[int, int]]:
        found.append(text)
        return find_spans(text)

    monkeypatch.setattr(pieces, "find_spans", find)
    lines = "\n".join(f"line {number} of {number % 97} short ones" for number in range(9_000))
    model = ScriptedModel((), otherwise="fine " * 800)
    session = Session.open("s", model=model, store=MemoryStore(), window=24_000)
    session.say("one")
    session.say(lines)
    while session.plan().decisions == ():
        session.say("go on")
    for _ in range(3):
        session.plan()
    session.say("go on")
    told = [text for text in found if len(text) > 10_000]
    assert len(told) == len(set(told)) >= 1
    kept = session._state.run.cache.scale.texts
    assert kept
    assert all(len(text) < 10_000 for text in kept)


def test_a_checkpoint_at_a_cut_reads_no_record_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came since the checkpoint before is at hand, and so is what a cut found in it."""
    read, digested = [0], [0]
    back = MemoryStore.back

    def count(*given: Any, **options: Any) -> Iterator[Any]:
        for record in back(*given, **options):
            read[0] += 1
            yield record

    def note(record: Record) -> Digest | None:
        digested[0] += 1
        return digest_record(record)

    monkeypatch.setattr(MemoryStore, "back", count)
    for reader in ("core.projection.sizes", "engine.session.checkpoints"):
        monkeypatch.setattr(f"holdfast.{reader}.digest_record", note)
    model = ScriptedModel((), otherwise="fine " * 400)
    session = Session.open("s", model=model, store=MemoryStore(), window=24_000)
    for number in range(100):
        if number == 60:
            read[0] = digested[0] = 0
            cuts = session.status().compactions
        session.say(f"part {number} " + "seen " * 400)
    assert session.status().compactions > cuts
    assert read == [0]
    assert digested[0] <= 110, "80 messages, and the records of the cuts"


def test_what_is_not_shown_is_not_counted() -> None:
    """A tokenizer builds its tables for the first word that is none of its tokens: a note that
    stands in no request is not the first."""
    session = Session.open("s", model=ScriptedModel(["ok"]), store=MemoryStore())
    counted: list[str] = []

    class Recorder(Estimator):
        def count(self, text: str) -> int:
            counted.append(text)
            return super().count(text)

    session._state.run.cache.scale.counter = Recorder()
    session.say("hello")
    assert "hello" in counted
    assert LEAST_SUMMARY not in counted


def test_an_old_session_works_no_more_for_a_turn_than_a_young_one() -> None:
    """Calls of functions in whole rounds of cuts, by the age of a session that is held open."""
    model = ScriptedModel((), otherwise="fine " * 300)
    session = Session.open("s", model=model, store=MemoryStore(), window=24_000)
    turns = itertools.count()

    def work(count: int) -> int:
        made = 0

        def note(_frame: object, event: str, _given: object) -> None:
            nonlocal made
            made += event in ("call", "c_call")

        sys.setprofile(note)
        for number in itertools.islice(turns, count):
            session.say(f"part {number} " + "seen " * 300)
        sys.setprofile(None)
        return made

    for number in itertools.islice(turns, 60):
        session.say(f"part {number} " + "seen " * 300)
    young = work(60)
    for number in itertools.islice(turns, 240):
        session.say(f"part {number} " + "seen " * 300)
    old = work(60)
    assert session.status().compactions >= 10
    assert old <= 1.1 * young, (young, old)
