"""A message with a key is stored and answered once, whoever repeats it and however late."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.sessions import KINDS, Bench, said
from tests.support.runs import is_whole

from holdfast.core.flow.events import TurnFinished
from holdfast.core.log.records import Assistant, User
from holdfast.core.owners import ANY_OWNER
from holdfast.engine.session.session import Session
from holdfast.errors import ModelError, UsageError
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing.scripted import ScriptedModel, calls
from holdfast.testing.simulator import Kill, Killed, SimulatedSession, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STORES = ("memory", "files")


@pytest.fixture(params=[(kind, store) for kind in KINDS for store in STORES], ids="-".join)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    kind, store = request.param
    made = Bench(kind)
    if store == "files":
        made.store = JsonlStore(tmp_path)
    yield made
    made.close()


def test_extra_and_key_are_in_the_record(bench: Bench) -> None:
    """Fields of the application come back as they were given; the model sees none of them."""
    model = ScriptedModel(["hello"])
    session = bench.open(model)
    extra = {"channel": "C1", "nested": {"a": [1, None]}}
    bench.say(session, "hi", key="k1", extra=extra)
    record_id = bench.do(session.own_loop.add_user("more", extra={"channel": "C2"}))
    first, second = (rec for rec in bench.records() if isinstance(rec, User))
    assert first.extra == {**extra, "key": "k1"}
    assert (second.id, second.extra) == (record_id, {"channel": "C2"})
    assert "C1" not in str(model.requests)


def test_a_repeated_message_gets_the_stored_answer(bench: Bench) -> None:
    """The model is asked once; a stream of the same message ends with the answer as well."""
    model = ScriptedModel([calls(("c", "look", {})), "the answer", "next"])

    def look() -> str:
        return "seen"

    session = bench.open(model, tools=[look])
    first = bench.say(session, "hi", key="k1")
    bench.say(session, "another")
    again = bench.say(session, "hi", key="k1")
    assert (again.text, again.record) == (first.text, first.record) == ("the answer", first.record)
    assert bench.do(session.own_loop.add_user("hi", key="k1")) == bench.records()[1].id
    assert len(model.requests) == 3
    assert [text for kind, text in said(bench.records()) if kind == "user"] == ["hi", "another"]
    last = bench.of(TurnFinished)[-1]
    assert (last.reply.text, last.steps) == ("the answer", 0)


PAIRS = 1_500 if is_whole() else 300
"""Of a message and its answer, between a key and its next use."""


def test_a_key_is_found_however_old_it_is(bench: Bench) -> None:
    """Also behind many records and a compaction, by a process that has just started."""
    session = bench.open(["first", *["x"] * 10])
    bench.say(session, "hi", key="old")
    filler = [User(content="q"), Assistant(content=[{"type": "text", "text": "a " * 20}])] * PAIRS
    bench.store.append(session.key, filler, expect=None)
    bench.do(session.compact())
    other = bench.open(["never"])
    assert bench.say(other, "hi", key="old").text == "first"
    assert [text for _kind, text in said(bench.records())].count("hi") == 1


def test_a_failed_turn_is_answered_under_its_key(bench: Bench) -> None:
    """The message is stored, the answer is not: the next attempt only answers."""
    session = bench.open([PermissionError("401 invalid x-api-key"), "now"])
    with pytest.raises(ModelError):
        bench.say(session, "hi", key="k")
    assert bench.say(session, "hi", key="k").text == "now"
    assert said(bench.records()) == [("user", "hi"), ("assistant", "now")]


def test_a_message_that_was_taken_back_unanswered_is_stored_again(bench: Bench) -> None:
    """A branch that was left counts where it has the answer, and not where it has none."""
    session = bench.open(["one", "two"])
    bench.do(session.own_loop.add_user("earlier"))
    bench.do(session.own_loop.add_user("hi", key="k"))
    bench.do(session.rewind(bench.records()[1].id))
    assert bench.say(session, "hi", key="k").text == "one"
    bench.do(session.rewind(bench.records()[1].id))
    assert bench.say(session, "hi", key="k").text == "one"


def test_a_key_is_found_in_fresh_mode(bench: Bench) -> None:
    """A session of its own for each message: the key of an earlier one is found all the same."""
    session = bench.open(["one", "two", "three"])
    bench.do(session.set_mode("fresh"))
    for key in ("a", "b", "c"):
        bench.say(session, f"message {key}", key=key)
    count = len(bench.store.sessions(owner=ANY_OWNER))
    for key, answer in (("c", "three"), ("a", "one"), ("b", "two")):
        assert bench.say(session, f"message {key}", key=key).text == answer
    assert len(bench.store.sessions(owner=ANY_OWNER)) == count == 3


@pytest.mark.parametrize(
    ("key", "extra"),
    [
        ("", None),
        ("x" * 501, None),
        (7, None),
        (None, {"key": "x"}),
        (None, {"content": "x"}),
        (None, {"type": "assistant"}),
        (None, {"id": "x"}),
    ],
)
def test_wrong_keys_and_fields_are_refused(bench: Bench, key: Any, extra: Any) -> None:
    """Nothing is stored, and no field of the record is replaced."""
    session = bench.open(["never"])
    for act in (session.say, session.own_loop.add_user):
        with pytest.raises(UsageError):
            bench.do(act("hi", key=key, extra=extra))
    assert said(bench.records()) == []


@pytest.mark.parametrize("kind", STORES)
def test_many_that_add_the_same_key_store_it_once(kind: str, tmp_path: Path) -> None:
    """Without a turn there is no lease: the append itself looks again where it lost a race."""
    store: Any = MemoryStore() if kind == "memory" else JsonlStore(tmp_path)
    sessions = [Session.open("s", model=ScriptedModel([]), store=store) for _ in range(6)]
    ready, ids = threading.Barrier(len(sessions)), list[str]()

    def add(session: Session) -> None:
        ready.wait()
        for number in range(5):
            ids.append(session.own_loop.add_user(f"message {number}", key=f"k{number}"))

    threads = [threading.Thread(target=add, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    users = [rec for rec in store.read(sessions[0].key) if isinstance(rec, User)]
    assert [rec.content for rec in users] == [f"message {number}" for number in range(5)]
    assert set(ids) == {rec.id for rec in users}
    store.close()


def test_a_message_is_answered_once_wherever_its_process_dies() -> None:
    """Killed before or after any effect and repeated under its key: one message, one answer, and
    no tool runs twice."""

    def run(kill: Kill | None) -> tuple[int, bool]:
        store, ran = MemoryStore(), list[str]()

        def pay() -> str:
            ran.append("paid")
            return "paid"

        def open_session() -> SimulatedSession:
            records = [rec for key in list(store.keys()) for rec in store.read(key)]
            is_asked = any(isinstance(rec, Assistant) for rec in records)
            script: list[Any] = ["done"] if is_asked else [calls(("c", "pay", {})), "done"]
            return SimulatedSession.open("s", model=ScriptedModel(script), store=store, tools=[pay])

        session = open_session()
        simulation = session.simulate(Simulation(kill))
        died = False
        try:
            session.say("pay", key="k")
        except Killed:
            died = True
        again = open_session()
        assert again.say("pay", key="k").text == "done"
        assert again.say("pay", key="k").text == "done"
        texts = [text for kind, text in said(list(store.read(again.key))) if kind != "tool_result"]
        assert (texts.count("pay"), texts.count("done")) == (1, 1)
        assert len(ran) <= 1
        return len(simulation.effects), died

    total, _died = run(None)
    for number in range(1, total + 1):
        assert run(Kill(number, "before"))[1]
        assert run(Kill(number, "after"))[1]
