"""Each call has one key, whoever tries it and however often; a late result is told once."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.sessions import EITHER_KIND, KINDS, Bench, check_requests
from tests.support.runs import sample

from holdfast.core.flow.effects import NextToolResult, StartTools
from holdfast.core.log.ids import CallKey, SessionKey, call_key
from holdfast.core.log.records import Assistant, CallState, ToolResult, User, text_of
from holdfast.core.models.messages import INTERRUPTED
from holdfast.engine.session.session import Session
from holdfast.engine.tool_values import ToolOutput
from holdfast.engine.tools import tool
from holdfast.errors import BadSetting, UsageError
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing.scripted import ScriptedModel, calls
from holdfast.testing.simulator import Kill, Killed, SimulatedSession, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = EITHER_KIND
SESSION = SessionKey("main", "s")
PAID = {"amount": 5}


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(request.param)
    yield made
    made.close()


class Receiver:
    """The world outside: it is asked to charge, and keeps a ledger by key."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.ledger: dict[str, int] = {}

    def charge(self, amount: int, key: CallKey) -> str:
        """Charge an amount."""
        self.asked.append(key)
        self.ledger.setdefault(key, amount)
        return f"charged {amount}"


def said_in(request: Any) -> list[Any]:
    """The blocks of a request in order, without cache marks."""
    blocks = [
        (message["role"], block) for message in request["messages"] for block in message["content"]
    ]
    return [(role, {**block, "cache_control": None}) for role, block in blocks]


def results(records: list[Any]) -> list[tuple[str, bool]]:
    """What was stored as results: their texts, and whether they only stand in."""
    found = [record for record in records if isinstance(record, ToolResult)]
    return [(text_of(result.content), result.pending) for result in found]


def test_a_tool_takes_the_key_of_its_call(bench: Bench) -> None:
    """The key is the tool's, and not the model's to give: no schema and no request has it."""
    receiver = Receiver()
    model = ScriptedModel([calls(("c", "charge", PAID), ("d", "charge", PAID)), "done", "x"])
    session = bench.open(model, tools=[receiver.charge])
    bench.say(session, "pay twice")
    first, second = receiver.asked
    assert first != second
    assert len(receiver.ledger) == 2
    assert all(len(key) < 64 and "main" not in key for key in receiver.asked)
    (declared,) = [one for one in model.requests[0]["tools"] if one["name"] == "charge"]
    assert list(declared["input_schema"]["properties"]) == ["amount"]
    assert first not in str(model.requests)


def test_an_id_that_is_used_again_is_another_call(bench: Bench) -> None:
    """Models repeat ids, within a reply and in later ones; keys do not repeat."""
    receiver = Receiver()
    again: list[Any] = [calls(("c", "charge", PAID), ("c", "charge", {"amount": 6})), "one"]
    model = ScriptedModel([*again, *again])
    session = bench.open(model, tools=[receiver.charge])
    bench.say(session, "pay")
    bench.say(session, "pay")
    assert len(set(receiver.asked)) == len(receiver.asked) == 4


def test_a_tool_with_two_keys_is_refused() -> None:
    """A call has one key; a mistake is an error before anything runs."""

    def charge(key: CallKey, other: CallKey) -> str:
        return key + other

    with pytest.raises(BadSetting, match="`key` and as `other`"):
        Session.open("s", model=ScriptedModel(), store=MemoryStore(), tools=[charge])
    with pytest.raises(BadSetting, match="`retry` cannot be often"):
        tool(retry="often")  # type: ignore[arg-type]


def die(store: Any, tools: list[Any], kill: Kill | None) -> list[Any]:
    """A process that is killed at an effect of a turn with a charge; returns the effects it had."""
    model = ScriptedModel([calls(("c", "charge", PAID)), "done"])
    with SimulatedSession.open("s", model=model, store=store, tools=tools) as session:
        simulation = session.simulate(Simulation(kill=kill))
        with contextlib.suppress(Killed):
            session.say("pay", key="m")
        return simulation.effects


def effects() -> list[Any]:
    """The effects of the whole turn."""
    return die(MemoryStore(), [receiver_of(Receiver())], None)


def kills() -> list[Kill]:
    """Where a process dies: around the tool, and at a sample of the other effects."""

    def around(kill: Kill) -> object:
        return isinstance(whole[kill.effect - 1], StartTools | NextToolResult) and kill

    whole = effects()
    numbers = range(1, len(whole) + 1)
    every = [Kill(number, when) for number in numbers for when in ("before", "after")]
    return list(sample(every, share=1 / 8, name=str, kind=around))


def receiver_of(receiver: Receiver) -> Any:
    """The receiver as a function of its own, which can be marked."""

    def charge(amount: int, key: CallKey) -> str:
        """Charge an amount."""
        return receiver.charge(amount, key)

    return charge


@pytest.mark.parametrize("retry", ["safe", "never"])
def test_a_killed_call_has_one_effect(retry: Any, bench: Bench) -> None:
    """Killed at every effect: a safe call is run again with its key, any other one is not, and in
    both cases the model gets an answer and the user a reply."""
    seen = set()
    for kill in kills():
        bench.store, receiver = MemoryStore(), Receiver()
        charge = tool(retry=retry)(receiver_of(receiver))
        die(bench.store, [charge], kill)
        ran = len(receiver.asked)
        # The first life may have ended before its reply was stored.
        model = ScriptedModel([calls(("c", "charge", PAID)), "done"], otherwise="done")
        has_reply = any(isinstance(rec, Assistant) for rec in bench.store.read(SESSION))
        session = bench.open(["done"] if has_reply else model, tools=[charge])
        bench.say(session, "pay", key="m")
        (told, *_) = results(bench.records())
        seen.add((ran, len(receiver.asked), told))
        assert len(receiver.ledger) == len(set(receiver.asked)) <= 1
        if retry == "safe":
            assert told == ("charged 5", False)
            assert len(receiver.ledger) == 1
        else:
            assert len(receiver.asked) <= 1
            assert told == ("charged 5", False) or told == (INTERRUPTED, True)
        check_requests(model)
    assert (1, 2 if retry == "safe" else 1) in {(before, after) for before, after, _ in seen}


def test_a_call_that_ends_the_process_is_given_up(bench: Bench) -> None:
    """It is run three times in all; then the model learns that its outcome is unknown."""
    receiver = Receiver()
    charge = tool(retry="safe")(receiver_of(receiver))
    die(bench.store, [charge], Kill(_effect_of(StartTools), "before"))
    for _ in range(5):
        with SimulatedSession.open(
            "s", model=ScriptedModel(["given up"]), store=bench.store, tools=[charge]
        ) as session:
            simulation = session.simulate(Simulation())
            found = _first(session, simulation)
            if found is None:
                break
    assert len(receiver.asked) == 0  # each process died before the tool itself ran
    assert results(bench.records()) == [(INTERRUPTED, True)]
    states = [rec for rec in bench.records() if isinstance(rec, CallState)]
    assert [state.state for state in states] == ["started", "started"]


def _effect_of(kind: type) -> int:
    return next(at for at, effect in enumerate(effects(), 1) if isinstance(effect, kind))


def _first(session: SimulatedSession, simulation: Simulation) -> str | None:
    """Kill a process when it has started its tool; None where it starts none."""
    begin = simulation.begin

    def until_started(effect: Any) -> None:
        if isinstance(effect, StartTools):
            simulation.kill = Kill(len(simulation.effects) + 1, "before")
        begin(effect)

    simulation.begin = until_started  # type: ignore[method-assign]
    try:
        session.resume()
    except Killed:
        return "killed"
    return None


def test_a_copy_runs_nothing_again(bench: Bench) -> None:
    """A fork has the open call of its parent; what the parent began is not begun twice."""
    receiver = Receiver()
    charge = tool(retry="safe")(receiver_of(receiver))
    die(bench.store, [charge], Kill(_effect_of(StartTools), "before"))
    bench.store.fork(SESSION, SessionKey("main", "f"), at=None)
    fork = bench.open(["in the fork"], "f", tools=[charge])
    bench.say(fork, "go on")
    assert receiver.asked == []
    assert bench.do(bench.open(["in the parent"], tools=[charge]).resume()).text == "in the parent"
    assert len(receiver.asked) == 1


def interrupted(bench: Bench, answers: list[Any] | None = None) -> tuple[Any, Receiver, Any]:
    """A session whose charge was interrupted, its receiver, and its model."""
    receiver = Receiver()
    charge = receiver_of(receiver)
    model = ScriptedModel(answers or [], otherwise="I see")
    session = bench.open(model, tools=[charge])
    reply = Assistant(content=[{"type": "tool_use", "id": "c", "name": "charge", "input": PAID}])
    bench.store.append(SESSION, [User(content="pay"), reply], expect=None)
    return session, receiver, model


def key_of_call(bench: Bench) -> str:
    reply = next(rec for rec in bench.store.read(SESSION) if isinstance(rec, Assistant))
    return call_key(str(SESSION), reply.id, 0)


def test_a_late_result_is_the_result_where_nobody_asked_yet(bench: Bench) -> None:
    """The call was left open, and no request went out: the model never knows that it was late."""
    session, _, model = interrupted(bench)
    key = key_of_call(bench)
    first = bench.do(session.calls.deliver(key, "charged 5"))
    assert bench.do(session.calls.deliver(key, "charged 9")) == first
    assert bench.do(session.resume()).text == "I see"
    assert results(bench.records()) == [("charged 5", False)]
    assert "unknown" not in str(model.requests)
    check_requests(model)


def test_a_late_result_is_news_once(bench: Bench) -> None:
    """The model was told that the outcome is unknown; that stays as it was sent, and the result
    comes behind it, once, with the call that it is of."""
    session, _, model = interrupted(bench)
    key = key_of_call(bench)
    bench.say(session, "and?")
    for _ in range(3):
        bench.do(session.calls.deliver(key, "charged 5"))
    bench.do(session.resume())
    bench.say(session, "thanks")
    assert results(bench.records())[0] == (INTERRUPTED, True)
    assert len(results(bench.records())) == 2
    before, news, last = (said_in(request) for request in model.requests)
    assert news[: len(before)] == before
    assert last[: len(news)] == news
    assert str(last).count("charged 5") == 1
    assert '`charge` with {"amount": 5}' in str(last)
    check_requests(model)


def test_a_late_result_is_news_after_a_cut_too(bench: Bench) -> None:
    """A cut took the call out of view; its result says whose it is."""
    session, _, model = interrupted(bench)
    key = key_of_call(bench)
    for number in range(8):
        bench.say(session, f"question {number} " + "word " * 2_000)
    assert bench.do(session.compact()).outcome == "applied"
    assert bench.do(session.calls.deliver(key, "charged 5"))
    bench.do(session.resume())
    assert str(model.requests[-1]).count("charged 5") == 1
    assert '`charge` with {"amount": 5}' in str(model.requests[-1])
    check_requests(model)


def test_two_workers_deliver_one_result(bench: Bench) -> None:
    """Each has the session open; whoever comes second gets the first one's record."""
    session, _, _ = interrupted(bench)
    other = bench.open(["x"])
    key = key_of_call(bench)
    assert bench.do(session.calls.deliver(key, "mine")) == bench.do(
        other.calls.deliver(key, "theirs")
    )
    assert results(bench.records()) == [("mine", False)]


def test_a_key_of_another_call_is_refused(bench: Bench) -> None:
    """Of another session, of a call that was taken back, and of none at all."""
    session, _, _ = interrupted(bench)
    key = key_of_call(bench)
    other = bench.open(["x"], "other")
    for where, given in ((other, key), (session, "nonsense"), (session, key.replace("-0-", "-7-"))):
        with pytest.raises(UsageError):
            bench.do(where.calls.deliver(given, "charged"))
    bench.do(session.rewind(turns=1))
    with pytest.raises(UsageError, match="not on the session's path"):
        bench.do(session.calls.deliver(key, "charged"))
    assert results(bench.records()) == []


def test_a_tool_may_say_that_its_result_comes_later(bench: Bench) -> None:
    """The turn goes on with what stands in its place; the result is news when a worker has it."""
    keys = []

    def export(key: CallKey) -> ToolOutput:
        """Export everything."""
        keys.append(key)
        return ToolOutput("The export was begun; its result comes later.", pending=True)

    model = ScriptedModel([calls(("c", "export", {})), "it runs", "it is done"])
    session = bench.open(model, tools=[export])
    assert bench.say(session, "export").text == "it runs"
    bench.do(session.calls.deliver(keys[0], "3 files"))
    assert bench.do(session.resume()).text == "it is done"
    assert bench.do(session.resume()) is None
    assert str(model.requests[-1]).count("3 files") == 1
    check_requests(model)
