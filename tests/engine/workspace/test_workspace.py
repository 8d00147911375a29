"""Everything that a workspace answers is decided like reading, bounded, and in the audit log."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import pytest
from tests.support.answers import answer_of
from tests.support.runs import sample
from tests.surfaces.mcp.owners import NEEDLE, plant

from holdfast import Assistant, Caller, SessionKey, ToolResult, User
from holdfast.core.history.access import OPERATOR, Visibility, decide, decide_change, subject_of
from holdfast.core.limits import EXCERPT_CHARS_MIN
from holdfast.core.log.records import OutputRef
from holdfast.core.owners import NamedOwner, owner_of
from holdfast.engine.erasing import erase_owner
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.memory.ranker import Neighbours
from holdfast.engine.operations import approvals, context, inbox, links, own_loop, sessions
from holdfast.engine.operations.context import CompactContext, ReadOutput, ReadStatus
from holdfast.engine.operations.memory import FindPassages, ReadPassage, SaveNote
from holdfast.engine.operations.tools import OPERATIONS
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.errors import StoreError
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast import Record
    from holdfast.engine.operations.operation import Operation
    from holdfast.ports import SessionStore

CHANGING = {"AppendRecords", "CompactContext", "RemoveSession", "SetTimer", "StoreCheckpoint"}


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with MemoryStore() as store:
        yield store


ABOUT_SESSIONS = {
    operation.__name__: operation
    for operation in OPERATIONS
    if "session_key" in operation.__struct_fields__
    and operation.__module__
    not in {part.__name__ for part in (sessions, inbox, approvals, links, own_loop)}
}
"""Those of persons alone are walked over HTTP (`tests/surfaces/http/test_owners`)."""


def ask_about(
    operation: type[Operation[Any]], workspace: CallerWorkspace, session: str, ref: str
) -> Any:
    """Call an operation about a session, with a ref, words or records where it wants them. What it
    removes is restored."""
    given = {
        "session_key": session,
        "ref": ref,
        "query": "hello",
        "when": "1h",
        "text": "hello",
        "records": [{"type": "user", "content": f"hello {NEEDLE}"}],
    }
    known = {name: given[name] for name in operation.__struct_fields__ if name in given}
    reply = answer_of(operation(**known).call, workspace)
    for removed in workspace.store.trash():
        workspace.store.restore(removed.name)
    return reply


def test_the_operations_are_found() -> None:
    """The tests below walk these; a new one is walked by itself."""
    assert set(ABOUT_SESSIONS) >= {"ReadMessages", "ReadOutput", "ReadStatus", *CHANGING}


CALLERS = [
    Caller(
        agent, session, owner=owner_of(owner), visibility=visibility, agents=agents, owners=owners
    )
    for visibility, owner, agent, session, (agents, owners) in product(
        get_args(Visibility),
        ("", "alice"),
        ("main", "other"),
        (None, "root"),
        (((), ()), (("*",), ()), (("other",), (NamedOwner("bob"),))),
    )
]


def build_world(store: SessionStore) -> dict[SessionKey, str]:
    """Sessions of two agents and three owners, some of which descend from another; with refs."""
    refs = {}
    for agent, owner in product(("main", "other"), ("", "alice", "bob")):
        for name in ("root", "child"):
            session = name if owner == "alice" else f"{name}-{owner or 'nobody'}"
            key = SessionKey(agent, session)
            parent = str(SessionKey(agent, session.replace("child", "root")))
            is_child = name == "child"
            store.create(
                key,
                owner=owner_of(owner),
                parent_session=parent if is_child else None,
                reason="spawn" if is_child else None,
            )
            text = f"the output of {key}\n" * 30
            ref = OutputRef(sha256=store.blobs.put(text.encode()), bytes=len(text), kind="text")
            records: list[Record] = [
                User(content=f"hello {key}"),
                Assistant(content="hi"),
                ToolResult(tool_use_id="c", content="preview", output_ref=ref),
            ]
            store.append(key, records, expect=ANY_HEAD)
            refs[key] = ref.sha256
    return refs


@pytest.mark.parametrize("caller", sample(CALLERS, share=1 / 12))
def test_every_operation_decides_as_reading_does(store: MemoryStore, caller: Caller) -> None:
    """One decision for what is listed, read, planned and resumed; a stricter one for changes."""
    refs = build_world(store)
    workspace = CallerWorkspace(store, caller)

    def find(key: SessionKey) -> Any:
        if key not in refs:
            return None
        header = store.header(key)
        return subject_of(key, header, owner_of(header.owner))

    listed = {info.key for info in workspace.sessions()}
    for key, ref in refs.items():
        may_read = decide(caller, find(key), find).is_allowed
        may_change = decide_change(caller, find(key), find).is_allowed
        assert (key in listed) == may_read
        for name, operation in ABOUT_SESSIONS.items():
            reply = ask_about(operation, workspace, str(key), ref)
            expected = may_change if name in CHANGING else may_read
            if operation.is_for_operator and caller != OPERATOR:
                assert reply.get("status") == "not_allowed", (name, key, reply)
            else:
                assert (reply.get("status") != "forbidden") == expected, (name, key, reply)
            if not may_read:
                assert "hello" not in str(reply)
        found = str(answer_of(ReadOutput(ref=ref).call, workspace))  # by its hash alone
        assert ("the output of" in found) == may_read, (key, found)


def test_erasing_takes_a_session_out_of_the_audit_log(store: MemoryStore) -> None:
    """Whatever was asked about it, in whichever way, no line names it or quotes it afterwards."""
    alice = plant(store, "alice")
    workspace = CallerWorkspace(
        store, Caller("main", None, owner=NamedOwner("alice"), visibility="agent")
    )
    for name in (str(alice.key), alice.key.session):
        for operation in ABOUT_SESSIONS.values():
            ask_about(operation, workspace, name, alice.sha256)
    ReadOutput(ref=alice.sha256).call(workspace)
    ReadPassage(citation=f"{alice.key}#{alice.records[0]}").call(workspace)
    FindPassages(query=f"{NEEDLE} {alice.words[1]}", scope="all").call(workspace)
    SaveNote(text=f"{NEEDLE} {alice.words[1]} is noted").call(workspace)
    before = str(store.audit.entries().accesses)
    assert str(alice.key) in before

    erase_owner(store, "alice")

    after = str(store.audit.entries().accesses)
    names = ("alice", alice.key.session, alice.sha256[:16], *alice.words, *alice.records, NEEDLE)
    assert [name for name in names if name in after] == []


@pytest.mark.parametrize("cap", [2_400, 9_000])
@pytest.mark.parametrize("text", ["a line of text\n" * 500, "世界🌍\t\x01" * 900, "x" * 9_000])
def test_parts_of_an_output_make_up_the_whole(store: MemoryStore, cap: int, text: str) -> None:
    """Following `nextOffset` gives every character once, however small the replies are."""
    key = SessionKey("main", "work")
    store.create(key)
    ref = OutputRef(sha256=store.blobs.put(text.encode()), bytes=len(text.encode()), kind="text")
    result = ToolResult(tool_use_id="c", content="preview", output_ref=ref)
    store.append(key, [result], expect=ANY_HEAD)
    workspace = CallerWorkspace(store, OPERATOR, max_bytes=cap)
    offset: int | None = 0
    found = []
    while offset is not None:
        part = ReadOutput(ref=ref.sha256, offset=offset, max_chars=120_000).call(workspace)
        assert len(msgspec.json.encode(part)) <= cap
        found.append(part.text)
        assert len(part.text) >= min(EXCERPT_CHARS_MIN // 8, len(text))
        offset = part.next_offset
        assert part.is_cut == (offset is not None)
    assert "".join(found) == text


def test_a_compaction_is_applied_and_bounded(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A preview stores nothing; the compaction itself does, without a model; status tells of it."""
    key = SessionKey("main", "work")
    store.create(key)
    for number in range(12):
        text = f"Step {number}: the port is 80{number:02}. " * 20
        said: list[Record] = [
            User(content=text),
            Assistant(content=f"Done {number}. " * 40, model="gpt-5"),
        ]
        store.append(key, said, expect=ANY_HEAD)
    workspace = CallerWorkspace(store, OPERATOR)
    head = store.head(key)

    preview = answer_of(CompactContext(session_key="work", preview=True).call, workspace)
    assert preview["outcome"] == "preview"
    assert store.head(key) == head
    done = answer_of(CompactContext(session_key="work", focus="the port").call, workspace)
    assert (done["outcome"], done["method"]) == ("applied", "extract")
    assert done["tokensAfter"] < done["tokensBefore"]
    status = answer_of(ReadStatus(session_key="work").call, workspace)
    assert (status["compactions"], status["model"]) == (1, "gpt-5")
    assert status["window"]["tokens"] == 400_000
    asked = ReadStatus(session_key="work", window=32_000)
    assert answer_of(asked.call, workspace)["window"]["tokens"] == 32_000
    store.leases.acquire(key, "a turn", 60.0)
    monkeypatch.setattr(context, "_WAIT_SECONDS", 0.0)
    busy = answer_of(CompactContext(session_key="work").call, workspace)
    assert busy["status"] == "conflict"
    assert "turn" in busy["error"]
    small = answer_of(ReadStatus(session_key="work", window=100).call, workspace)
    assert small["status"] == "invalid"
    assert "100" in small["error"]


def test_nothing_is_given_that_cannot_be_recorded(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the audit log cannot be written, every operation answers with a refusal."""
    alice = plant(store, "alice")
    workspace = CallerWorkspace(
        store, Caller("main", None, owner=NamedOwner("alice"), visibility="agent")
    )

    def fail(_audit: object, _access: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(type(store.audit), "note", fail)
    for name, operation in ABOUT_SESSIONS.items():
        reply = ask_about(operation, workspace, str(alice.key), alice.sha256)
        assert "could not be written to the audit log" in reply["error"], name
        assert not any(word in str(reply) for word in alice.words)
    for unrecorded in (workspace.sessions, lambda: FindPassages(query=NEEDLE).call(workspace)):
        with pytest.raises(RequestRefused, match="could not be written to the audit log"):
            unrecorded()


def test_a_turn_beside_a_hit_takes_the_room_of_no_hit(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every cap there are as many hits as without the turns; with room for all, the turns."""
    said: list[Record] = [
        turn
        for number in range(4)
        for turn in (
            User(content=f"{NEEDLE} {number}?"),
            Assistant(content=f"It is {number}. " * 9),
        )
    ]
    key = SessionKey("main", "one")
    store.create(key)
    store.append(key, said, expect=None)

    def search(cap: int) -> dict[str, Any]:
        workspace = CallerWorkspace(store, OPERATOR, max_bytes=cap)
        found: dict[str, Any] = answer_of(
            FindPassages(query=NEEDLE, scope="sessions").call, workspace
        )
        return found

    with_turns = {cap: search(cap) for cap in range(EXCERPT_CHARS_MIN, 4_200, 250)}
    monkeypatch.setattr(Neighbours, "_turns", lambda *_: [])
    without = {cap: search(cap)["count"] for cap in with_turns}

    assert {cap: reply["count"] for cap, reply in with_turns.items()} == without
    assert len(set(without.values())) > 2
    assert all(
        "turnsAfter" in hit or "turnsBefore" in hit for hit in with_turns[max(with_turns)]["hits"]
    )
