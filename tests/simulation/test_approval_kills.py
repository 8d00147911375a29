"""Kill -9 around a parked charge: it is made once, as it was approved, and nothing is lost."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.processes import FORKED
from tests.support.runs import is_whole

from holdfast.core.log.ids import CallKey, SessionKey
from holdfast.core.log.records import Assistant, CallState, ToolResult, text_of
from holdfast.engine.session.base import limit_lease
from holdfast.engine.session.session import Session
from holdfast.engine.tools import tool
from holdfast.errors import LeaseLost, NoSuchSession
from holdfast.stores.opening import open_store
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from holdfast.core.log.records import Record
    from holdfast.core.models.replies import Reply

    Moments = Counter[str]

KILLS = 1_000 if is_whole() else 8
KILLS_A_CHARGE = 2
LEASE_SECONDS = 1.0
LOOK_SECONDS = 0.002
REST_SECONDS = 0.02
"""Between two looks of a process that waits for a decision."""
ANSWER_SECONDS = 0.2
DELAY_SECONDS = 0.03
"""At most, from the moment that a kill waits for to each death, and before a person approves."""
MOMENTS = ("", "parked", "approved", "started")
"""States of the call that a kill waits for, or none; the whole run meets each of them."""


def _model() -> ScriptedModel:
    def answer(request: Any) -> Any:
        asked = "tool_use" in str(request["messages"])
        return "done" if asked else calls(("c", "charge", {"amount": 80}))

    return ScriptedModel([], otherwise=answer)


def _open(address: str, name: str, tools: Any = ()) -> Session:
    session = Session.open(name, model=_model(), store=address, tools=tools)
    limit_lease(session, LEASE_SECONDS)
    return session


def _run(pipe: Connection, address: str, name: str, ledger: str) -> None:
    """Ask for the charge, and go on with the session until it is answered."""

    @tool(approval=True, retry="safe")
    def charge(amount: int, key: CallKey) -> str:
        """Charge an amount."""
        with open(ledger, "ab", buffering=0) as file:  # the receiver's own disk
            file.write(f"{key} {amount}\n".encode())
        time.sleep(ANSWER_SECONDS)  # it has charged, and its answer is on the way
        return f"charged {amount}"

    is_answered = False
    while not is_answered:
        with suppress(LeaseLost), _open(address, name, [charge]) as session:
            reply: Reply | None = session.say("charge 80", key="m")
            while reply is not None and reply.stop == "approval":
                time.sleep(REST_SECONDS)
                reply = session.resume()
            is_answered = True
    pipe.send("answered")


def _approve(pipe: Connection, address: str, name: str, seconds: float) -> None:
    """Approve the charge after a while, with another amount; say so once it is acknowledged."""
    with _open(address, name) as session:
        while not (waiting := session.calls.waiting()):
            time.sleep(LOOK_SECONDS)
        time.sleep(seconds)
        session.calls.approve(waiting[0].key, by="ops", arguments={"amount": 40})
    pipe.send("approved")


def _start(work: Any, *args: Any) -> tuple[Any, Connection]:
    ours, theirs = FORKED.Pipe(duplex=False)
    worker = FORKED.Process(target=work, args=(theirs, *args), daemon=True)
    worker.start()
    theirs.close()
    return worker, ours


def _kill(worker: Any) -> None:
    worker.kill()  # SIGKILL
    worker.join()


def _charge(chance: random.Random, shop: Shop, name: str) -> Moments:
    """One charge: its processes are killed at a random moment, then as soon as it was made; returns
    the states that the kills found."""
    moments: Moments = Counter()
    is_approved = False
    ledger = shop.ledger(name)
    for wanted in (chance.choice(MOMENTS), "made"):
        runners = shop.runners(name)
        thinks = DELAY_SECONDS * chance.random()
        approver, heard = _start(_approve, shop.address, name, thinks)
        while not (ledger.exists() if wanted == "made" else shop.has_met(name, wanted)):
            time.sleep(LOOK_SECONDS)
        workers = [approver, *(runner for runner, _answered in runners)]
        for worker in chance.sample(workers, len(workers)):
            time.sleep(DELAY_SECONDS * chance.random() ** 4)
            _kill(worker)
        with suppress(EOFError):
            is_approved = is_approved or (heard.poll() and heard.recv() == "approved")
        moments[(shop.states(name) or [""])[-1]] += 1
    assert not is_approved or "approved" in shop.states(name), "an acknowledged approval is missing"
    runners = shop.runners(name)
    assert [answered.recv() for _runner, answered in runners] == ["answered"] * len(runners)
    for runner, _answered in runners:
        runner.join()
    return moments


class Shop:
    """Where charges are made: a store, and a folder with the ledgers of the receiver."""

    def __init__(self, address: str, folder: Path, count: int) -> None:
        self.address, self._folder, self._count = address, folder, count
        self.store = open_store(address)

    def ledger(self, name: str) -> Path:
        return self._folder / f"ledger-{name}"

    def runners(self, name: str) -> list[tuple[Any, Connection]]:
        """Start the processes that want to run a charge."""
        ledger = str(self.ledger(name))
        return [_start(_run, self.address, name, ledger) for _ in range(self._count)]

    def records(self, name: str) -> list[Record]:
        with suppress(NoSuchSession):
            return list(self.store.read(SessionKey("main", name)))
        return []

    def states(self, name: str) -> list[str]:
        """The states of the call, oldest first."""
        return [rec.state for rec in self.records(name) if isinstance(rec, CallState)]

    def has_met(self, name: str, state: str) -> bool:
        """Return whether a call is in a state, or beyond it."""
        return not state or state in self.states(name)

    def check(self, name: str) -> int:
        """The charge is in the receiver's ledger once, as approved, and the log has its result;
        returns how often the receiver was asked for it."""
        lines = self.ledger(name).read_text().splitlines()
        assert set(lines) == {f"{lines[0].split()[0]} 40"}
        assert self.states(name).count("approved") == 1
        records = self.records(name)
        results = [rec for rec in records if isinstance(rec, ToolResult) and not rec.pending]
        assert [text_of(one.content).endswith("charged 40") for one in results] == [True]
        said = [text_of(one.content) for one in records if isinstance(one, Assistant)]
        assert (said[-1], said.count("done")) == ("done", 1)
        return len(lines)


def _kill_charges(address: str, folder: Path, count: int) -> None:
    chance = random.Random(1)
    shop = Shop(address, folder, count)
    asked, moments, charges = 0, Counter[str](), KILLS // KILLS_A_CHARGE
    for number in range(charges):
        moments += _charge(chance, shop, f"s{number}")
        asked += shop.check(f"s{number}")
    shop.store.close()
    print(f"{KILLS} kills, {charges} charges, {asked} asked for, found {dict(moments)}")
    # A receiver that does not look at the key would have charged twice.
    assert asked > charges
    assert not is_whole() or set(moments) >= set(MOMENTS)


@pytest.mark.usefixtures("forked_processes")
def test_kills_around_a_parked_charge_on_a_folder(tmp_path: Path) -> None:
    """One process at a time; the approval comes while it is killed."""
    _kill_charges(str(tmp_path / "root"), tmp_path, 1)


@pytest.mark.usefixtures("forked_processes")
def test_kills_around_a_parked_charge_on_postgres(
    tmp_path: Path, empty_postgres_address: str
) -> None:
    """Two processes want to run it; both are killed, and the one that approves it."""
    _kill_charges(empty_postgres_address, tmp_path, 2)
