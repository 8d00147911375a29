"""Decisions about calls that wait, for callers who may make them; the session goes on at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.engine.gateway.gateways import FAST, done, running_gateway

from holdfast.core.history.access import OPERATOR, Caller
from holdfast.core.log.ids import CallKey, SessionKey
from holdfast.core.log.records import ToolResult
from holdfast.core.owners import ANY_OWNER, NamedOwner
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.approvals import ApproveCall, DenyCall, ListWaitingCalls
from holdfast.engine.session.session import Session
from holdfast.engine.tools import tool
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.core.models.replies import Reply
    from holdfast.ports import QueuedMessage, SessionStore

SESSION = SessionKey("main", "s")
ANN, BOB = (
    Caller("", None, owner=NamedOwner(name), visibility="all", agents=("*",))
    for name in ("ann", "bob")
)
charged: dict[str, int] = {}


@tool(approval=True)
def charge(amount: int, key: CallKey) -> str:
    """Charge an amount."""
    charged[key] = amount
    return f"charged {amount}"


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    opened = JsonlStore(tmp_path / "root") if request.param == "folder" else MemoryStore()
    charged.clear()
    with opened:
        opened.create(SESSION, owner=NamedOwner("ann"))
        yield opened


def park(store: SessionStore) -> None:
    model = ScriptedModel([calls(("c", "charge", {"amount": 5}))])
    with Session.open("s", model=model, store=store, owner="ann", tools=[charge]) as session:
        assert session.say("charge 5").stop == "approval"


def waiting(store: SessionStore, caller: Caller = ANN) -> list[Any]:
    found = ListWaitingCalls(session_key="main/s").call(CallerWorkspace(store, caller))
    return list(found.calls)


def test_an_owner_lists_and_decides(store: SessionStore) -> None:
    """With the arguments in full, why, and since when; the decision has its maker's name."""
    park(store)
    (call,) = waiting(store)
    assert (call.tool, call.arguments, call.state) == ("charge", {"amount": 5}, "parked")
    assert call.until == pytest.approx(call.since + 7 * 86_400, abs=60)
    workspace = CallerWorkspace(store, ANN)
    decided = DenyCall(session_key="main/s", key=call.key, words="not today").call(workspace)
    again = ApproveCall(session_key="main/s", key=call.key).call(CallerWorkspace(store, OPERATOR))
    assert (decided.state, decided.by) == (again.state, again.by) == ("denied", "ann")
    assert waiting(store) == []


def test_another_owner_neither_sees_nor_decides(store: SessionStore) -> None:
    """Whatever they know: the key is no secret, and no right."""
    park(store)
    (call,) = waiting(store)
    for operation in (
        ListWaitingCalls(session_key="main/s"),
        ApproveCall(session_key="main/s", key=call.key),
        DenyCall(session_key="main/s", key=call.key),
    ):
        with pytest.raises(RequestRefused):
            operation.call(CallerWorkspace(store, BOB))
    assert [one.state for one in waiting(store)] == ["parked"]


def test_a_key_that_waits_nowhere_is_a_conflict(store: SessionStore) -> None:
    """The refusal says what was asked for, and is in the audit log."""
    park(store)
    with pytest.raises(RequestRefused, match="the key of no call") as refused:
        ApproveCall(session_key="main/s", key="nonsense").call(CallerWorkspace(store, ANN))
    assert refused.value.status == "conflict"


class Told:
    """A channel that keeps what it is told."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, str]] = []

    async def on_answer(self, message: QueuedMessage, reply: Reply) -> None:
        self.answers.append((message.body["about"]["chat"], reply.text or reply.stop))

    async def on_failure(self, message: QueuedMessage, reason: str) -> None:
        raise AssertionError(reason)

    async def on_reset(self, message: QueuedMessage, reason: object) -> None:
        raise AssertionError(reason)


def test_a_session_goes_on_with_a_decision(store: SessionStore) -> None:
    """Its gateway was restarted in between. The call runs once, however often it is approved, and
    the chat that asked hears of it. That it was idle for long begins no fresh session."""
    channel, about = Told(), {"chat": "42"}
    more: Any = {"channels": {"test": channel}, "session": {"tools": [charge]}}

    async def ask() -> None:
        model: Any = ScriptedModel([calls(("c", "charge", {"amount": 5}))]).as_async()
        async with running_gateway(store, model, **more) as gateway:
            sent = await gateway.submit(SESSION, "5", owner="ann", channel="test", about=about)
            assert (await done(gateway, sent)).state == "answered"

    async def approve() -> None:
        model: Any = ScriptedModel(["paid"]).as_async()
        (call,) = await asyncio.to_thread(waiting, store)
        soon = msgspec.structs.replace(FAST, reset_idle_seconds=1e-6)
        async with running_gateway(store, model, soon, **more) as gateway:
            for _ in range(3):
                asked = ApproveCall(session_key="main/s", key=call.key)
                await asked.run(CallerWorkspace(store, ANN), gateway)
            found = store.queues.messages("inbox", owner=ANY_OWNER, limit=10)
            assert len(found) == 2
            assert (await done(gateway, found[0])).state == "answered"

    asyncio.run(ask())
    assert charged == {}
    asyncio.run(approve())
    assert list(charged.values()) == [5]
    assert channel.answers == [("42", "approval"), ("42", "paid")]
    stored = [rec.content for rec in store.read(SESSION) if isinstance(rec, ToolResult)]
    assert stored == ["charged 5"]
