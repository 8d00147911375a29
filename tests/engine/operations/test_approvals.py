"""Decisions about calls that wait, for callers who may make them; the session goes on at once."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.engine.gateway.gateways import FAST, done, running_gateway
from tests.support.approvals import pay, paying

from holdfast.core.history.access import OPERATOR, Caller
from holdfast.core.log.ids import CallKey, SessionKey
from holdfast.core.log.records import CallState, ToolResult
from holdfast.core.owners import ANY_OWNER, NamedOwner
from holdfast.engine.erasing import erase
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.approvals import ApproveCall, DenyCall, ListWaitingCalls
from holdfast.engine.session.session import Session
from holdfast.engine.tools import tool
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.errors import AccessDenied
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
    assert (call.until, call.session, call.owner) == (None, "main/s", "ann")
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


def park_in(store: SessionStore, name: str, owner: str, *, amount: int = 5, by: Any = ()) -> str:
    """Park a call in a session of its own; returns its key."""
    tools = [paying(approvers=by)]
    options: Any = {"model": pay(amount), "store": store, "owner": owner, "tools": tools}
    with Session.open(name, **options) as session:
        assert session.say("pay").stop == "approval"
        return str(session.calls.waiting()[0].key)


def listed(store: SessionStore, caller: Caller, **asked: Any) -> list[tuple[str, str, Any]]:
    found = ListWaitingCalls(**asked).call(CallerWorkspace(store, caller))
    return [(call.session, call.owner, call.arguments) for call in found.calls]


def test_what_waits_is_listed_across_sessions(store: SessionStore) -> None:
    """By owner, the newest first, a page at a time; an operator sees everything."""
    for number in range(5):
        park_in(store, f"a{number}", "ann", amount=number + 1)
    park_in(store, "b", "bob", amount=9)
    anns = [(f"main/a{number}", "ann", {"amount": number + 1}) for number in (4, 3, 2, 1, 0)]
    assert listed(store, ANN) == anns
    assert listed(store, BOB) == [("main/b", "bob", {"amount": 9})]
    assert listed(store, OPERATOR) == [("main/b", "bob", {"amount": 9}), *anns]
    assert listed(store, ANN, session_key="main/a2") == [anns[2]]
    seen: list[Any] = []
    before: int | None = None
    for _ in range(3):
        asked = ListWaitingCalls(limit=2, before=before)
        page = asked.call(CallerWorkspace(store, ANN))
        seen += [call.session for call in page.calls]
        before = page.next_before
    assert (seen, before) == ([session for session, *_ in anns], None)


def test_listing_opens_the_sessions_of_its_page_alone(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store of many sessions costs no more than what waits in it."""
    for number in range(20):
        key = SessionKey("main", f"quiet{number}")
        store.create(key, owner=NamedOwner("ann"))
    park_in(store, "a", "ann")
    park_in(store, "b", "ann")
    opened: list[SessionKey] = []
    header = type(store).header

    def noted_header(self: Any, key: SessionKey) -> Any:
        opened.append(key)
        return header(self, key)

    monkeypatch.setattr(type(store), "header", noted_header)
    assert len(listed(store, ANN)) == 2
    assert {key.session for key in opened} == {"a", "b"}


def test_the_list_follows_the_log(store: SessionStore) -> None:
    """A decision, a reset and a rewind take a call off it; a rewind that is undone brings it back,
    and so does one to the place where a call was parked that was decided since."""
    decided, reset, rewound = (park_in(store, name, "ann") for name in ("a", "b", "c"))
    DenyCall(key=decided).call(CallerWorkspace(store, ANN))
    with Session.open("b", model="offline", store=store, owner="ann") as session:
        session.reset()
    with Session.open("c", model="offline", store=store, owner="ann") as session:
        session.rewind(turns=1)
        assert listed(store, ANN) == []
        session.undo()
        assert [name for name, *_ in listed(store, ANN)] == ["main/c"]
        place = next(rec.id for rec in store.read(session.key) if isinstance(rec, CallState))
        session.calls.approve(rewound)
        assert listed(store, ANN) == []
        session.rewind(place)
        assert [name for name, *_ in listed(store, ANN)] == ["main/c"]
    assert ApproveCall(key=reset).call(CallerWorkspace(store, ANN)).state == "withdrawn"


def test_a_death_between_list_and_log_loses_nothing(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry is there before the record. While nothing is parked it is not shown, and looking
    at the list does not take it down."""
    append: Any = type(store).append

    def append_until_parked(self: Any, key: SessionKey, records: Any, **more: Any) -> Any:
        if store.queues.counts("approvals", owner=ANY_OWNER):
            raise KeyboardInterrupt  # the process is dead: nothing is written any more
        return append(self, key, records, **more)

    monkeypatch.setattr(type(store), "append", append_until_parked)
    with pytest.raises(KeyboardInterrupt):
        park_in(store, "a", "ann")
    monkeypatch.undo()
    assert listed(store, ANN) == []
    options: Any = {"store": store, "owner": "ann", "tools": [paying()]}
    with Session.open("a", model=ScriptedModel([]), **options) as session:
        reply = session.resume()
    assert reply is not None
    assert reply.stop == "approval"
    assert [name for name, *_ in listed(store, ANN)] == ["main/a"]


def test_an_expired_call_is_on_no_list(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody may decide about it any more."""
    model = ScriptedModel([calls(("c", "soon", {}))])

    @tool(approval=True, expires=60)
    def soon() -> str:
        """Do it soon."""
        return "done"

    with Session.open("a", model=model, store=store, owner="ann", tools=[soon]) as session:
        session.say("do")
    assert [name for name, *_ in listed(store, ANN)] == ["main/a"]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 61)
    assert listed(store, ANN) == []


@pytest.mark.parametrize("name", ["bob", "", "Ann"])
def test_only_a_named_approver_decides(store: SessionStore, name: str) -> None:
    """Whoever else may use the session: an operator under another name, a person without one."""
    key = park_in(store, "a", "ann", by=["ann", "carl"])
    workspace = CallerWorkspace(store, OPERATOR)
    workspace.person = name
    for operation in (ApproveCall(key=key), DenyCall(key=key)):
        with pytest.raises(RequestRefused, match="may not decide") as refused:
            operation.call(workspace)
        assert refused.value.status == "not_allowed"
    with (
        Session.open("a", model="offline", store=store, owner="ann") as session,
        pytest.raises(AccessDenied, match="may not decide"),
    ):
        session.calls.approve(key, by=name)
    workspace.person = "carl"
    assert ApproveCall(key=key).call(workspace).by == "carl"
    workspace.person = name
    with pytest.raises(RequestRefused, match="may not decide"):
        DenyCall(key=key).call(workspace)


def test_an_agent_decides_nothing(store: SessionStore) -> None:
    """Its own call least of all; one that speaks for a person, which its operator states, may."""
    key = park_in(store, "a", "ann")
    agent = Caller("main", "a", owner=NamedOwner("ann"), visibility="all")
    workspace = CallerWorkspace(store, agent)
    assert listed(store, agent) == [("main/a", "ann", {"amount": 5})]
    for operation in (ApproveCall(key=key), DenyCall(session_key="current", key=key)):
        with pytest.raises(RequestRefused, match="only a person"):
            operation.call(workspace)
    workspace.person = "carl"
    assert ApproveCall(key=key).call(workspace).by == "carl"
    other = Caller("main", "a", owner=NamedOwner("bob"), visibility="all")
    assert listed(store, other) == []


def test_erasing_takes_what_waits_along(store: SessionStore) -> None:
    """No list has the words or the key of an erased session."""
    park_in(store, "a", "ann")
    park_in(store, "b", "ann")
    erase(store, SessionKey("main", "a"), owner=ANY_OWNER)
    assert [name for name, *_ in listed(store, OPERATOR)] == ["main/b"]
    assert store.queues.counts("approvals", owner=ANY_OWNER) == {"waiting": 1}


def test_a_gateway_goes_on_after_a_decision_without_it(store: SessionStore) -> None:
    """Of the command line, or of another process: what goes on is a message of the inbox, once, and
    nothing is put there for a session whose turns no gateway runs."""
    key = park_in(store, "a", "ann")
    assert ApproveCall(key=key).call(CallerWorkspace(store, ANN)).state == "approved"
    assert store.queues.counts("inbox", owner=ANY_OWNER) == {}

    async def ask_and_decide() -> None:
        model: Any = ScriptedModel([calls(("c", "charge", {"amount": 5})), "paid"]).as_async()
        async with running_gateway(store, model, session={"tools": [charge]}) as gateway:
            sent = await gateway.submit(SESSION, "5", owner="ann")
            assert (await done(gateway, sent)).state == "answered"
            (call,) = await asyncio.to_thread(waiting, store)
            for _ in range(2):
                asked = ApproveCall(key=call.key)
                await asyncio.to_thread(asked.call, CallerWorkspace(store, ANN))
            newest, *others = store.queues.messages("inbox", owner=ANY_OWNER)
            assert len(others) == 1
            assert (await done(gateway, newest)).state == "answered"

    asyncio.run(ask_and_decide())
    assert list(charged.values()) == [5]
