"""Kill -9 around a parked charge: it is made once, as it was approved, and nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import time
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

    from holdfast.core.models.replies import Reply

KILLS = 1_000 if is_whole() else 8
KILLS_A_CHARGE = 2
LEASE_SECONDS = 1.0
LOOK_SECONDS = 0.002
ANSWER_SECONDS = 0.2


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
                time.sleep(LOOK_SECONDS)
                reply = session.resume()
            is_answered = True
    pipe.send("answered")


def _approve(pipe: Connection, address: str, name: str) -> None:
    """Approve the charge, with another amount; say so once it is acknowledged."""
    with _open(address, name) as session:
        while not (waiting := session.calls.waiting()):
            time.sleep(LOOK_SECONDS)
        session.calls.approve(waiting[0].key, by="ops", arguments={"amount": 40})
    pipe.send("approved")


def _start(work: Any, *args: Any) -> tuple[Any, Connection]:
    ours, theirs = FORKED.Pipe(duplex=False)
    worker = FORKED.Process(target=work, args=(theirs, *args), daemon=True)
    worker.start()
    theirs.close()
    return worker, ours


def _kill(worker: Any) -> None:
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()


def _charge(chance: random.Random, address: str, name: str, ledger: Path) -> None:
    """One charge: killed while it is asked for and approved, then as soon as it was made."""
    is_approved = False
    for is_made in (False, True):
        runner, _answered = _start(_run, address, name, str(ledger))
        approver, heard = _start(_approve, address, name)
        if is_made:
            while not ledger.exists():
                time.sleep(LOOK_SECONDS)
        else:
            time.sleep(chance.random() * 0.2)
        for worker in (runner, approver):
            _kill(worker)
        with suppress(EOFError):
            is_approved = is_approved or (heard.poll() and heard.recv() == "approved")
    assert not is_approved or _decisions(address, name), "an acknowledged approval is missing"
    runner, answered = _start(_run, address, name, str(ledger))
    assert answered.recv() == "answered"
    runner.join()


def _states(address: str, name: str) -> list[CallState]:
    with open_store(address) as store:
        try:
            records = list(store.read(SessionKey("main", name)))
        except NoSuchSession:
            return []
    return [rec for rec in records if isinstance(rec, CallState)]


def _decisions(address: str, name: str) -> list[CallState]:
    return [state for state in _states(address, name) if state.state == "approved"]


def _check(address: str, name: str, lines: list[str]) -> None:
    """The charge is in the receiver's ledger once, as approved, and the log has its result."""
    assert set(lines) == {f"{lines[0].split()[0]} 40"}
    assert len(_decisions(address, name)) == 1
    with open_store(address) as store:
        records = list(store.read(SessionKey("main", name)))
    results = [rec for rec in records if isinstance(rec, ToolResult) and not rec.pending]
    assert [text_of(one.content).endswith("charged 40") for one in results] == [True]
    assert [text_of(one.content) for one in records if isinstance(one, Assistant)][-1] == "done"


def _round(address: str, folder: Path) -> None:
    chance = random.Random(1)
    asked = 0
    for number in range(KILLS // KILLS_A_CHARGE):
        ledger = folder / f"ledger-{number}"
        _charge(chance, address, f"s{number}", ledger)
        lines = ledger.read_text().splitlines()
        _check(address, f"s{number}", lines)
        asked += len(lines)
    # A receiver that does not look at the key would have charged twice.
    assert asked > KILLS // KILLS_A_CHARGE


@pytest.mark.usefixtures("forked_processes")
def test_kills_around_a_parked_charge_on_a_folder(tmp_path: Path) -> None:
    """One process at a time; the approval comes while it is killed."""
    _round(str(tmp_path / "root"), tmp_path)
