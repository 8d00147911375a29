"""A call that a person has to approve: parked, decided about, run and told, each once."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.session.test_session_calls import Receiver, results, said_in
from tests.engine.sessions import EITHER_KIND, KINDS, Bench, check_requests, said
from tests.support.runs import sample

from holdfast.core.flow.effects import Append, NextToolResult, StartTools
from holdfast.core.flow.events import ApprovalAsked, ToolStarted, TurnFinished
from holdfast.core.log.ids import CallKey, SessionKey
from holdfast.core.log.records import CallState, ToolResult
from holdfast.core.models.messages import INTERRUPTED
from holdfast.core.owners import ANY_OWNER
from holdfast.core.turn.tool_results import NOT_HERE, WAITING
from holdfast.engine.operations.approvals import ListWaitingCalls
from holdfast.engine.session.session import Session
from holdfast.engine.tools import tool
from holdfast.errors import AccessDenied, BadSetting, UsageError
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing.scripted import SCRIPTED, ScriptedModel, calls
from holdfast.testing.simulator import Kill, Killed, SimulatedClock, SimulatedSession, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = EITHER_KIND
SESSION = SessionKey("main", "s")
PAY = calls(("c", "charge", {"amount": 5}))
DAY = 86_400.0


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(request.param)
    yield made
    made.close()


class Shop(Receiver):
    """A receiver whose tool a person has to approve."""

    def tools(self, **rules: Any) -> list[Any]:
        rules.setdefault("approval", True)

        @tool(**rules)
        def charge(amount: int, key: CallKey) -> str:
            """Charge an amount."""
            return self.charge(amount, key)

        def look() -> str:
            """Look at the weather."""
            return "rain"

        return [charge, look]


def parked(
    bench: Bench, answers: list[Any], **rules: Any
) -> tuple[Any, Shop, ScriptedModel, CallKey]:
    """A session in which a charge waits; the reply that parked it, and the key."""
    shop = Shop()
    model = ScriptedModel([PAY, *answers])
    session = bench.open(model, tools=shop.tools(**rules))
    reply = bench.say(session, "charge 5")
    assert reply.stop == "approval"
    (call,) = bench.do(session.calls.waiting())
    return session, shop, model, call.key


def states(bench: Bench, name: str = "s") -> list[str]:
    return [rec.state for rec in bench.records(name) if isinstance(rec, CallState)]


def check_prefixes(model: ScriptedModel) -> None:
    """Every request is the one before it with something appended (L16), and valid."""
    said = [said_in(request) for request in model.requests]
    for before, after in itertools.pairwise(said):
        assert after[: len(before)] == before
    check_requests(model)


def test_a_parked_call_holds_nothing(bench: Bench) -> None:
    """The turn is over: no lease, nothing ran, and the log alone knows of the call."""
    session, shop, model, key = parked(bench, [])
    assert bench.store.leases.current(SESSION) is None
    assert (shop.asked, states(bench)) == ([], ["parked"])
    (asked,) = bench.of(ApprovalAsked)
    assert (asked.key, asked.call.arguments) == (key, {"amount": 5})
    assert bench.of(TurnFinished)[-1].reply.stop == "approval"
    assert not bench.of(ToolStarted)
    assert bench.do(session.resume()).stop == "approval"  # asks no model
    assert len(model.requests) == 1


def test_an_approved_call_has_its_result_as_if_nobody_had_waited(bench: Bench) -> None:
    """By another process, from another object: the session goes on where it stopped."""
    _, shop, _, key = parked(bench, [])
    call = bench.do(bench.open([], tools=[]).calls.approve(key, by="ops"))
    assert (call.state, call.decision.by) == ("approved", "ops")
    model = ScriptedModel(["paid"])
    session = bench.open(model, tools=shop.tools())
    assert bench.do(session.resume()).text == "paid"
    assert shop.asked == [key]
    assert results(bench.records()) == [("charged 5", False)]
    assert WAITING not in str(model.requests)
    assert bench.do(session.calls.waiting()) == []
    assert bench.do(session.resume()) is None
    check_requests(model)


@pytest.mark.parametrize("speaks", [False, True])
def test_an_approved_call_waits_for_a_process_with_its_tool(bench: Bench, speaks: bool) -> None:
    """One without it goes on with the session, and carries nothing out."""
    _, shop, _, key = parked(bench, [])
    office = bench.open(["it is not done yet"], tools=[])
    bench.do(office.calls.approve(key))
    if speaks:
        assert bench.say(office, "is it done?").text == "it is not done yet"
        assert bench.do(office.resume()) is None
    else:
        assert bench.do(office.resume()).stop == "approval"
    assert shop.asked == []
    model = ScriptedModel(["paid"])
    session = bench.open(model, tools=shop.tools())
    assert bench.do(session.resume()).text == "paid"
    assert shop.asked == [key]
    assert str(model.requests[-1]).count("charged 5") == 1
    assert (WAITING in str(model.requests[-1])) == speaks
    check_requests(model)


def test_a_denied_call_does_not_run_and_the_model_reads_why(bench: Bench) -> None:
    """The words are for the model, and stand where a refusal's words stand."""
    session, shop, model, key = parked(bench, ["I see"])
    bench.do(session.calls.deny(key, "ask her first", by="ops"))
    assert bench.do(session.resume()).text == "I see"
    assert shop.asked == []
    (result,) = [rec for rec in bench.records() if isinstance(rec, ToolResult)]
    assert (result.refused, result.is_error, result.pending) == ("ask her first", True, False)
    assert "`ops` denied this call: ask her first" in str(model.requests[-1])
    check_prefixes(model)


@pytest.mark.parametrize("has_spoken", [False, True])
def test_a_person_may_change_the_arguments(bench: Bench, has_spoken: bool) -> None:
    """The call runs with them, and the model is told which they were."""
    session, shop, model, key = parked(bench, ["paid", "later"])
    if has_spoken:
        bench.say(session, "and?")
    bench.do(session.calls.approve(key, arguments={"amount": 2}, by="ops"))
    bench.do(session.resume())
    assert list(shop.ledger.values()) == [2]
    last = str(model.requests[-1])
    assert '`charge` with {"amount": 2}' in last
    assert "`ops` changed this call" in last
    check_prefixes(model)


def test_what_was_sent_meanwhile_stays(bench: Bench) -> None:
    """Somebody spoke: the placeholder stays as it was sent, and the outcome is news, once."""
    session, shop, model, key = parked(bench, ["it waits", "paid", "you are welcome"])
    assert bench.say(session, "how is it?").text == "it waits"
    bench.do(session.calls.approve(key))
    assert bench.do(session.resume()).text == "paid"
    bench.say(session, "thanks")
    assert shop.asked == [key]
    assert results(bench.records())[0] == (WAITING, True)
    assert str(model.requests[-1]).count("charged 5") == 1
    assert '`charge` with {"amount": 5}' in str(model.requests[-1])
    assert [text for kind, text in said(bench.records()) if kind == "user"] == [
        *("charge 5", "how is it?", "thanks")
    ]
    check_prefixes(model)


def test_the_next_message_carries_an_approval_out(bench: Bench) -> None:
    """Whoever speaks first after the decision: the call has its result before the message."""
    session, shop, model, key = parked(bench, ["paid, and it rains"])
    bench.do(session.calls.approve(key))
    bench.say(session, "and the weather?")
    assert shop.asked == [key]
    assert results(bench.records()) == [("charged 5", False)]
    check_prefixes(model)


def test_parallel_calls_run_while_one_is_parked(bench: Bench) -> None:
    """What needs nobody runs at once; the model is asked when the last one has its result."""
    shop = Shop()
    both = calls(("c", "charge", {"amount": 5}), ("d", "look", {}))
    model = ScriptedModel([both, "done"])
    session = bench.open(model, tools=shop.tools())
    assert bench.say(session, "both").stop == "approval"
    assert results(bench.records()) == [("rain", False)]
    assert bench.do(session.resume()).stop == "approval"
    (call,) = bench.do(session.calls.waiting())
    bench.do(session.calls.approve(call.key))
    assert bench.do(session.resume()).text == "done"
    assert sorted(results(bench.records())) == [("charged 5", False), ("rain", False)]
    check_prefixes(model)


def test_several_parked_calls_are_decided_one_by_one(bench: Bench) -> None:
    """Each is carried out when the session goes on; the model is asked after the last one."""
    shop = Shop()
    both = calls(("c", "charge", {"amount": 5}), ("d", "charge", {"amount": 6}))
    model = ScriptedModel([both, "done"])
    session = bench.open(model, tools=shop.tools())
    bench.say(session, "both")
    first, second = bench.do(session.calls.waiting())
    bench.do(session.calls.approve(second.key))
    assert bench.do(session.resume()).stop == "approval"
    assert shop.asked == [second.key]
    bench.do(session.calls.deny(first.key))
    assert bench.do(session.resume()).text == "done"
    assert shop.asked == [second.key]
    check_prefixes(model)


def test_an_approval_counts_once(bench: Bench) -> None:
    """Twice, by two people, and against each other: the first decision counts."""
    session, shop, _, key = parked(bench, ["paid"])
    other = bench.open([], tools=[])
    bench.do(session.calls.approve(key, by="ann"))
    for again in (
        bench.do(other.calls.approve(key, by="bob")),
        bench.do(other.calls.deny(key, "no", by="bob")),
    ):
        assert (again.state, again.decision.by) == ("approved", "ann")
    bench.do(session.resume())
    assert shop.asked == [key]
    assert bench.do(other.calls.deny(key)).decision.by == "ann"
    assert states(bench) == ["parked", "approved", "started"]


def test_always_holds_for_this_session_and_its_reason(bench: Bench) -> None:
    """Later calls that would need approval for the same reason run; others are asked about."""
    shop = Shop()

    def why(amount: int) -> str:
        return "a large amount" if amount > 50 else "an amount"

    model = ScriptedModel(
        [PAY, "one", calls(("d", "charge", {"amount": 6})), "two"],
        otherwise=calls(("e", "charge", {"amount": 90})),
    )
    session = bench.open(model, tools=shop.tools(approval=why))
    bench.say(session, "charge 5")
    (call,) = bench.do(session.calls.waiting())
    bench.do(session.calls.approve(call.key, always=True))
    bench.do(session.resume())
    assert bench.say(session, "6").text == "two"
    assert bench.say(session, "90").stop == "approval"
    assert list(shop.ledger.values()) == [5, 6]


def test_nobody_approves_in_time(bench: Bench) -> None:
    """After its time the call is not run, nobody may decide any more, and the model is told."""
    clock = SimulatedClock()
    bench.store.clock = clock
    session, shop, model, key = parked(bench, ["too late"], expires=DAY)
    clock.now += DAY + 1
    with pytest.raises(UsageError, match="expired"):
        bench.do(session.calls.approve(key))
    assert bench.do(session.calls.waiting()) == []
    assert bench.do(session.resume()).text == "too late"
    assert shop.asked == []
    assert "no one approved this call in time" in str(model.requests[-1])
    check_prefixes(model)


def test_a_call_waits_without_end_unless_it_expires(bench: Bench) -> None:
    """Years later a person may still approve it."""
    clock = SimulatedClock()
    bench.store.clock = clock
    session, shop, _, key = parked(bench, ["paid"])
    clock.now += 2_000 * DAY
    bench.do(session.calls.approve(key))
    bench.do(session.resume())
    assert shop.asked == [key]


def test_what_became_of_a_call_can_be_asked(bench: Bench) -> None:
    """While it waits, after it ran, and with a key that is of no call here."""
    session, _, _, key = parked(bench, ["paid"], approvers=["ann"])
    found = bench.do(session.calls.find(key))
    assert (found.state, found.approvers, found.decision) == ("parked", ("ann",), None)
    bench.do(session.calls.approve(key, by="ann"))
    bench.do(session.resume())
    assert bench.do(session.calls.find(key)).decision.by == "ann"
    assert bench.do(session.calls.find("0-0-0")) is None


def test_approvers_outlive_a_compaction(bench: Bench) -> None:
    """Behind a cut nobody else may decide, either."""
    session, _, _, key = parked(bench, ["ok"] * 9, approvers=["ann"])
    for number in range(6):
        bench.say(session, f"question {number} " + "word " * 2_000)
    assert bench.do(session.compact()).outcome == "applied"
    opened = bench.open([], tools=[])
    with pytest.raises(AccessDenied):
        bench.do(opened.calls.approve(key, by="bob"))
    assert bench.do(opened.calls.approve(key, by="ann")).state == "approved"


def test_a_call_that_was_taken_back_cannot_be_approved(bench: Bench) -> None:
    """After a rewind it is not on the path; taking the rewind back brings it back."""
    session, shop, _, key = parked(bench, ["paid"])
    bench.do(session.rewind(turns=1))
    with pytest.raises(UsageError, match="does not wait for a decision"):
        bench.do(session.calls.approve(key))
    bench.do(session.undo())
    bench.do(session.calls.approve(key))
    bench.do(session.resume())
    assert shop.asked == [key]


def test_a_rewind_between_asking_and_running_runs_nothing_twice(bench: Bench) -> None:
    """Back to where it was parked: it can be approved again, and is not run again."""
    session, shop, model, key = parked(bench, ["paid", "I see"])
    place = next(rec.id for rec in bench.records() if isinstance(rec, CallState))
    for _ in range(2):
        bench.do(session.calls.approve(key))
        bench.do(session.resume())
        bench.do(session.rewind(place)) if len(model.requests) == 2 else None
    assert shop.asked == [key]
    assert "Not run again" in str(model.requests[-1])


def test_a_fork_does_not_take_the_call_along(bench: Bench) -> None:
    """It waits where it was asked: the fork is told so, and approves nothing of its parent's."""
    session, shop, _, key = parked(bench, ["paid"])
    bench.store.fork(SESSION, SessionKey("main", "f"), at=None)
    fork = bench.open(["in the fork"], "f", tools=shop.tools())
    assert bench.do(fork.calls.waiting()) == []
    with pytest.raises(UsageError, match="no call of this session"):
        bench.do(fork.calls.approve(key))
    bench.say(fork, "go on")
    assert results(bench.records("f")) == [(NOT_HERE, True)]
    bench.do(session.calls.approve(key))
    assert bench.do(session.resume()).text == "paid"
    assert shop.asked == [key]


def test_a_compaction_keeps_what_waits(bench: Bench) -> None:
    """The call is cut out of view; it still waits, and its outcome says whose it is."""
    session, shop, _, key = parked(bench, ["ok"] * 9)
    for number in range(6):
        bench.say(session, f"question {number} " + "word " * 2_000)
    assert bench.do(session.compact()).outcome == "applied"
    model = ScriptedModel(["paid"])
    opened = bench.open(model, tools=shop.tools())
    (call,) = bench.do(opened.calls.waiting())
    assert (call.key, call.arguments) == (key, {"amount": 5})
    bench.do(opened.calls.approve(key))
    assert bench.do(opened.resume()).text == "paid"
    assert shop.asked == [key]
    assert str(model.requests[-1]).count("charged 5") == 1
    check_requests(model)


def test_a_reset_withdraws_what_waits(bench: Bench) -> None:
    """The conversation began anew: nobody can approve what it left behind."""
    session, shop, _, key = parked(bench, [])
    fresh = bench.do(session.reset())
    for where in (session, fresh):
        assert bench.do(where.calls.waiting()) == []
    old = bench.open([], tools=[])
    assert bench.do(old.calls.approve(key)).state == "withdrawn"
    assert shop.asked == []


def test_another_model_goes_on_with_an_approved_call(bench: Bench) -> None:
    """Nothing of the wait is bound to the model that asked."""
    _, shop, _, key = parked(bench, [])
    other = ScriptedModel(
        ["paid"],
        target=SCRIPTED.__class__(
            **{name: getattr(SCRIPTED, name) for name in SCRIPTED.__struct_fields__}
            | {"model": "another"}
        ),
    )
    session = bench.open(other, tools=shop.tools())
    bench.do(session.calls.approve(key))
    assert bench.do(session.resume()).text == "paid"
    assert shop.asked == [key]
    check_requests(other)


def test_a_session_in_fresh_mode_waits_in_its_log(bench: Bench) -> None:
    """Its turn is not over, so the next message does not begin another session."""
    session, shop, _, key = parked(bench, ["it waits", "paid"])
    bench.do(session.set_mode("fresh"))
    bench.say(session, "and?")
    assert session.key == SESSION
    bench.do(session.calls.approve(key))
    bench.do(session.resume())
    assert shop.asked == [key]


def test_a_predicate_decides_by_the_arguments(bench: Bench) -> None:
    """It gets them by name and typed; a doubt is a reason to ask, and a bad call needs nobody."""
    shop = Shop()
    seen = []

    def large(**given: Any) -> bool:
        seen.append(given)
        if given["amount"] == 13:
            raise ValueError("unlucky")
        return bool(given["amount"] > 50)

    model = ScriptedModel(
        [
            calls(("a", "charge", {"amount": 5}), ("b", "charge", {"amount": "x"})),
            calls(("c", "charge", {"amount": 13}), ("d", "charge", {"amount": 90})),
        ]
    )
    session = bench.open(model, tools=shop.tools(approval=large))
    assert bench.say(session, "pay").stop == "approval"
    assert list(shop.ledger.values()) == [5]
    waiting = bench.do(session.calls.waiting())
    assert [call.arguments["amount"] for call in waiting] == [13, 90]
    assert "unlucky" in waiting[0].reason
    assert seen == [{"amount": 5}, {"amount": 13}, {"amount": 90}]


@pytest.mark.parametrize(
    "rules",
    [
        {"approval": "yes"},
        {"expires": 0},
        {"approvers": "ann"},
        {"approvers": [""]},
        {"approval": contextlib.aclosing},
    ],
)
def test_wrong_rules_are_refused(rules: Any) -> None:
    """A mistake in a rule is an error where it is written."""
    if rules.get("approval") is contextlib.aclosing:

        async def later(**_: Any) -> bool:
            return True

        rules = {"approval": later}
    with pytest.raises(BadSetting):
        tool(**rules)


def test_a_cancelled_turn_leaves_what_waits(bench: Bench) -> None:
    """The turn was not running when it was cancelled; a person may still decide."""
    session, shop, _, key = parked(bench, ["paid"])
    assert session.cancel() is False
    bench.do(session.calls.approve(key))
    bench.do(session.resume())
    assert shop.asked == [key]


class Life:
    """Processes over one store, each of which may be killed at an effect."""

    def __init__(self, retry: Any, *, honours_keys: bool = True) -> None:
        self.store = MemoryStore()
        self.shop = Shop()
        self.tools = self.shop.tools(retry=retry)
        self.honours_keys = honours_keys

    @property
    def listed(self) -> int:
        """The number of calls on the list across sessions."""
        page = ListWaitingCalls().page(self.store, ANY_OWNER, lambda _key: True)
        return len(page.calls)

    def process(self, work: Any, kill: Kill | None = None) -> list[Any]:
        """Do something in a process of its own; returns its effects."""
        model = ScriptedModel([], otherwise=self._answer)
        with SimulatedSession.open("s", model=model, store=self.store, tools=self.tools) as session:
            simulation = session.simulate(Simulation(kill=kill))
            with contextlib.suppress(Killed):
                work(session)
        check_requests(model)
        return simulation.effects

    def _answer(self, request: Any) -> Any:
        """Charge where nothing was charged yet in this conversation."""
        return "done" if "tool_use" in str(request["messages"]) else PAY


def _ask(session: Any) -> None:
    session.say("charge 5", key="m")


def _approve(session: Any) -> None:
    for call in session.calls.waiting():
        session.calls.approve(call.key, by="ops")


def _go_on(session: Any) -> None:
    session.say("charge 5", key="m")


STEPS = {"asking": _ask, "approving": _approve, "running": _go_on}


def _places(step: str) -> list[Kill]:
    """The effects of a step of a life: those around the tool and the log, and a sample."""
    life = Life("safe")
    for name, work in STEPS.items():
        effects = life.process(work)
        if name == step:
            break
    life.store.close()
    numbers = range(1, len(effects) + 1)
    every = [Kill(number, when) for number in numbers for when in ("before", "after")]

    def around(kill: Kill) -> object:
        effect = effects[kill.effect - 1]
        return isinstance(effect, StartTools | NextToolResult | Append) and kill

    return sample(every, share=1 / 8, name=str, kind=around)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("retry", ["safe", "never"])
def test_a_parked_charge_survives_every_death(step: str, retry: Any, bench: Bench) -> None:
    """Killed at every effect of asking, approving and running: no charge is made before it is
    approved, it is made once where the receiver honours the key and at most once elsewhere, and
    nothing is lost: the list across sessions has it from the asking to the approval."""
    repeats = 0
    for kill in _places(step):
        life = Life(retry)
        for name, work in STEPS.items():
            life.process(work, kill if name == step else None)
            if name == step:
                life.process(work)  # whoever died is started again
            if name == "asking":
                assert life.shop.asked == []
                assert life.listed == 1
            else:
                assert life.listed == 0
        shop = life.shop
        records = list(life.store.read(SESSION))
        life.store.close()
        repeats += len(shop.asked) > 1
        assert len(set(shop.asked)) <= 1
        if retry == "safe" or step != "running":
            assert len(shop.ledger) == 1
            assert results(records) == [("charged 5", False)]
        else:
            assert len(shop.asked) <= 1
            assert results(records)[-1] in (("charged 5", False), (INTERRUPTED, True))
        assert said(records)[-1] == ("assistant", "done")
    # Without the key, the receiver would have charged twice: the test can fail.
    assert (repeats > 0) == (retry == "safe" and step == "running")


def test_a_plain_session_is_the_same_object(bench: Bench) -> None:
    """Without rules, nothing is asked and nothing more is written."""
    model = ScriptedModel([calls(("d", "look", {})), "rain"])
    session = bench.open(model, tools=Shop().tools(approval=None))
    bench.say(session, "weather?")
    assert states(bench) == []
    assert isinstance(session, Session) or bench.is_async
