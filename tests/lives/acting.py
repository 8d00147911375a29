"""What a life does with calls that wait: a receiver with a ledger, people who decide, timers."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING, Any, assert_never

from tests.engine.gateway.gateways import make_gateway
from tests.lives.lives import Ask, Decide, Deliver, GoOn, Remind, Reset
from tests.lives.oracle import MARK, Fault

from holdfast import CallKey, Session, ToolOutput, tool
from holdfast.core.log.ids import place_of
from holdfast.core.log.records import CallState, ToolResult, User, text_of
from holdfast.core.owners import ANY_OWNER, NO_OWNER
from holdfast.core.timers import Clocks
from holdfast.engine.timers import Timers, TimerService

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.lives.living import Living

    from holdfast.core.log.records import Json, Record

APPROVAL_SECONDS = 50_000.0
AMOUNT, CHANGED = 5, 3
DECIDED = ("approved", "denied", "expired", "withdrawn")
Act = Ask | Decide | Deliver | GoOn | Reset | Remind


class Shop:
    """A receiver that keeps a ledger by key, and what was said of its calls."""

    def __init__(self) -> None:
        self.ledger: list[tuple[CallKey, int]] = []
        self.exports: dict[CallKey, str] = {}
        """Calls whose results come later, each with its mark."""
        self.marks: set[str] = set()
        """Of all outcomes that there were."""
        self.tools = [self._pay_tool(), self._export_tool()]

    def mark(self, kind: str, name: str) -> str:
        """Return what an outcome says that no other says."""
        made = f"{kind}.{name}.end"
        self.marks.add(made)
        return made

    def _pay_tool(self) -> Any:
        @tool(approval=lambda **_: "a payment", expires=APPROVAL_SECONDS, retry="safe")
        def pay(amount: int, tag: str, key: CallKey) -> str:
            """Pay an amount."""
            self.ledger.append((key, amount))
            return self.mark("receipt", tag)

        return pay

    def _export_tool(self) -> Any:
        def export(tag: str, key: CallKey) -> ToolOutput:
            """Export something, later."""
            self.exports[key] = tag
            return ToolOutput("It was begun.", pending=True)

        return export


class Acting:
    """Takes the steps of a life that are about its calls and timers."""

    def __init__(self, life: Living) -> None:
        self._life = life
        self.shop = Shop()
        self.faults: list[Fault] = []
        self._left_behind: set[str] = set()
        self._clocks = lambda: Clocks(life.provider.now, life.provider.now, "boot")
        self._timers = Timers(life.store, clocks=self._clocks)
        self._said: set[str] = set()

    def take(self, step: Act) -> None:
        match step:
            case Ask():
                waits: list[int | str] = [*["pay"] * step.parked, *["export"] * step.late]
                wanted = (*waits, *step.others)
                self._life.say(5, (wanted,) if wanted else ())
            case Decide():
                self._decide(step)
            case Deliver(place=place):
                self._deliver(place)
            case GoOn():
                self._life.taken_back.clear()
                self._life.attempt(lambda: self._life.session.resume())
                self._life.provider.loopback.heal()
            case Reset():
                self._reset()
            case Remind(seconds=seconds):
                mark = self.shop.mark("alarm", str(len(self.shop.marks)))
                self._timers.set(self._life.key, f"{seconds}s", mark, owner=NO_OWNER)
            case _:
                assert_never(step)

    def _decide(self, step: Decide) -> None:
        life = self._life
        waiting = life.do(life.session.calls.waiting())
        if not waiting:
            return
        key = waiting[step.place % len(waiting)].key
        if not step.is_elsewhere:
            self._decide_by(life.session.calls, key, step.how)
            return
        with closing(Session.open(life.key.session, model="offline", store=life.store)) as office:
            self._decide_by(office.calls, key, step.how)

    def _decide_by(self, calls: Any, key: CallKey, how: str) -> None:
        """Decide, and try to decide otherwise: the first decision counts."""
        if how == "deny":
            words = self.shop.mark("refused", f"{len(self.shop.marks)}")
            self._life.do(calls.deny(key, words, by="ops"))
            again = self._life.do(calls.approve(key))
        else:
            more: Json = {"always": how == "always"}
            if how == "change":
                found = next(call for call in self._life.do(calls.waiting()) if call.key == key)
                more["arguments"] = {**found.arguments, "amount": CHANGED}
            self._life.do(calls.approve(key, **more))
            again = self._life.do(calls.deny(key, "too late"))
        wanted = "denied" if how == "deny" else "approved"
        if again.decision is None or again.decision.state != wanted:
            self.faults.append(Fault("a second decision counted", f"{how}: {again}"))

    def _deliver(self, place: int) -> None:
        keys = list(self.shop.exports)
        if not keys:
            return
        key = keys[place % len(keys)]
        mark = self.shop.mark("export", self.shop.exports[key])
        for _ in range(2):
            self._life.attempt(lambda: self._life.session.calls.deliver(key, mark))

    def _reset(self) -> None:
        life = self._life
        old = life.session
        if life.attempt(lambda: self._replace_session(old)):
            life.do(old.close())
            life.forget_turns()
            self._left_behind |= self.shop.marks

    def _replace_session(self, old: Any) -> Any:
        life = self._life
        life.session = life.do(old.reset())
        life.key = life.session.key

    # Timers

    def send_due(self) -> None:
        """Say what the timers have for this session: twice, as after a crash."""
        if not any(mark.startswith("alarm") for mark in self.shop.marks):
            return
        life = self._life
        service = TimerService(make_gateway(life.store), clocks=self._clocks)
        asyncio.run(service.look())
        queues = life.store.queues
        for message in reversed(
            queues.messages("inbox", owner=ANY_OWNER, lane=str(life.key), states=("waiting",))
        ):
            if message.key not in self._said:
                life.begin_turn()
                self._said.add(message.key)
            if self._say_twice(str(message.body["content"]), message.key):
                queues.drop(message.id, "said")
            life.provider.loopback.heal()

    def _say_twice(self, words: str, key: str) -> bool:
        life = self._life
        if not life.attempt(lambda: life.session.say(words, key=key)):
            return False
        before = len(life.provider.sent)
        life.attempt(lambda: life.session.say(words, key=key))
        if len(life.provider.sent) > before:
            self.faults.append(Fault("a message was answered twice", key))
        return True

    # The laws

    def check_waiting(self) -> None:
        """Whatever waits on the branch is listed, and nothing else is."""
        life = self._life
        states = [rec for rec in life.store.read(life.key) if isinstance(rec, CallState)]
        decided = {rec.key for rec in states if rec.state in DECIDED}
        wanted = {
            rec.key
            for rec in states
            if rec.state == "parked"
            and rec.key not in decided
            and life.provider.now < (rec.until or 0)
            and place_of(str(life.key), rec.key)
        }
        found = {call.key for call in life.do(life.session.calls.waiting())} if states else set()
        if found != wanted:
            self.faults.append(Fault("what waits is not what is listed", f"{wanted} {found}"))

    def outcomes(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the marks of the outcomes that the branch has, and of those that it has not."""
        told = frozenset(_marks_in(self._life.store.read(self._life.key)))
        return told, frozenset(self.shop.marks - told - self._left_behind)

    def judge(self) -> list[Fault]:
        """Return every payment that was made twice, or otherwise than it was approved, and every
        decision that nothing came of."""
        store = self._life.store
        states: dict[str, list[CallState]] = {}
        for info in store.sessions(owner=ANY_OWNER):
            for entry in store.read_all(info.key):
                if isinstance(entry.record, CallState):
                    states.setdefault(entry.record.key, []).append(entry.record)
        keys = [key for key, _amount in self.shop.ledger]
        faults = [Fault("a payment was made twice", key) for key in keys if keys.count(key) > 1]
        for key, amount in self.shop.ledger:
            faults += _judge_payment(key, amount, states.get(key, []))
        return [*self.faults, *faults, *self._judge_left()]

    def _judge_left(self) -> list[Fault]:
        """The life has ended with a message: nothing that was decided is left undone."""
        path = list(self._life.store.read(self._life.key))
        results = [rec for rec in path if isinstance(rec, ToolResult) and not rec.pending]
        ended = {rec.key or rec.tool_use_id for rec in results}
        return [
            Fault("nothing came of a decision", f"{rec.state}: {rec.name} {rec.key}")
            for rec in path
            if isinstance(rec, CallState)
            and rec.state in ("approved", "denied")
            and not {rec.key, rec.call} & ended
        ]


def _judge_payment(key: str, amount: int, states: list[CallState]) -> list[Fault]:
    approved = [state for state in states if state.state == "approved"]
    if any(state.state == "parked" for state in states) and not approved:
        return [Fault("a payment was made that nobody approved", key)]
    given = [(state.arguments or {}).get("amount", AMOUNT) for state in approved] or [AMOUNT]
    if amount not in given:
        return [Fault("a payment was made otherwise than approved", f"{key}: {amount} {given}")]
    return []


def _marks_in(path: Iterable[Record]) -> Iterable[str]:
    for record in path:
        if isinstance(record, User) or (isinstance(record, ToolResult) and not record.pending):
            yield from MARK.findall(text_of(record.content))
