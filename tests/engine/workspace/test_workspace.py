"""Everything that a workspace answers is decided like reading, bounded, and in the audit log."""

from __future__ import annotations

import inspect
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
from holdfast.engine.memory.neighbours import Neighbours
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.errors import StoreError
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast import Record
    from holdfast.ports import SessionStore

CHANGING = {"context.compact", "context.save_checkpoint"}


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with MemoryStore() as store:
        yield store


def questions(workspace: CallerWorkspace) -> dict[str, Callable[..., Any]]:
    """Every method of a workspace and of its parts, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for name, part in vars(workspace).items():
        if not name.startswith("_"):
            for method, function in inspect.getmembers(part, inspect.ismethod):
                if not method.startswith("_"):
                    found[f"{name}.{method}"] = function
    return found


def ask_about(function: Callable[..., Any], session: str, ref: str) -> dict[str, Any]:
    """Call a method about a session, with a ref where it wants one."""
    wanted = inspect.signature(function).parameters
    given = {"session": session, "ref": ref}
    found: dict[str, Any] = answer_of(
        function, **{name: given[name] for name in wanted if name in given}
    )
    return found


def about_sessions(workspace: CallerWorkspace) -> dict[str, Callable[..., Any]]:
    """The methods about a session. `history.text` and `history.read` are `history.page` as text
    and as data, and have their own tests."""
    return {
        name: function
        for name, function in questions(workspace).items()
        if "session" in inspect.signature(function).parameters
        and name not in ("history.text", "history.read")
    }


def test_the_methods_are_found(store: MemoryStore) -> None:
    """The tests below walk these; a new one is walked by itself."""
    names = set(about_sessions(CallerWorkspace(store, OPERATOR)))
    assert names >= {"history.page", "outputs.read", "context.status", "context.resume"} | CHANGING


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
def test_every_method_decides_as_reading_does(store: MemoryStore, caller: Caller) -> None:
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
        for name, function in about_sessions(workspace).items():
            reply = ask_about(function, str(key), ref)
            expected = may_change if name in CHANGING else may_read
            assert (reply.get("status") != "forbidden") == expected, (name, key, reply)
            if not may_read:
                assert "hello" not in str(reply)
        found = str(answer_of(workspace.outputs.read, ref))  # by its hash alone
        assert ("the output of" in found) == may_read, (key, found)


def test_erasing_takes_a_session_out_of_the_audit_log(store: MemoryStore) -> None:
    """Whatever was asked about it, in whichever way, no line names it or quotes it afterwards."""
    alice = plant(store, "alice")
    workspace = CallerWorkspace(
        store, Caller("main", None, owner=NamedOwner("alice"), visibility="agent")
    )
    for name in (str(alice.key), alice.key.session):
        for function in about_sessions(workspace).values():
            ask_about(function, name, alice.sha256)
    workspace.outputs.read(alice.sha256)
    workspace.memory.get(f"{alice.key}#{alice.records[0]}")
    workspace.memory.search(f"{NEEDLE} {alice.words[1]}", scope="all")
    workspace.memory.add(f"{NEEDLE} {alice.words[1]} is noted")
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
        part = workspace.outputs.read(ref.sha256, offset=offset, max_chars=120_000)
        assert len(msgspec.json.encode(part)) <= cap
        found.append(part.text)
        assert len(part.text) >= min(EXCERPT_CHARS_MIN // 8, len(text))
        offset = part.next_offset
        assert part.is_cut == (offset is not None)
    assert "".join(found) == text


def test_a_compaction_is_applied_and_bounded(store: MemoryStore) -> None:
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

    preview = answer_of(workspace.context.compact, "work", preview=True)
    assert preview["outcome"] == "preview"
    assert store.head(key) == head
    done = answer_of(workspace.context.compact, "work", focus="the port")
    assert (done["outcome"], done["method"]) == ("applied", "extract")
    assert done["tokensAfter"] < done["tokensBefore"]
    status = answer_of(workspace.context.status, "work")
    assert (status["compactions"], status["model"]) == (1, "gpt-5")
    assert status["window"]["tokens"] == 400_000
    assert answer_of(workspace.context.status, "work", window=32_000)["window"]["tokens"] == 32_000
    store.leases.acquire(key, "a turn", 60.0)
    busy = answer_of(workspace.context.compact, "work", wait=0.0)
    assert busy["status"] == "conflict"
    assert "turn" in busy["error"]
    small = answer_of(workspace.context.status, "work", window=100)
    assert small["status"] == "invalid"
    assert "100" in small["error"]


def test_nothing_is_given_that_cannot_be_recorded(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the audit log cannot be written, every method answers with a refusal."""
    alice = plant(store, "alice")
    workspace = CallerWorkspace(
        store, Caller("main", None, owner=NamedOwner("alice"), visibility="agent")
    )

    def fail(_audit: object, _access: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(type(store.audit), "note", fail)
    for name, function in about_sessions(workspace).items():
        reply = ask_about(function, str(alice.key), alice.sha256)
        assert "could not be written to the audit log" in reply["error"], name
        assert not any(word in str(reply) for word in alice.words)
    for unrecorded in (workspace.sessions, lambda: workspace.memory.search(NEEDLE)):
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
        found: dict[str, Any] = answer_of(workspace.memory.search, NEEDLE, scope="sessions")
        return found

    with_turns = {cap: search(cap) for cap in range(EXCERPT_CHARS_MIN, 4_200, 250)}
    monkeypatch.setattr(Neighbours, "_turns", lambda *_: [])
    without = {cap: search(cap)["count"] for cap in with_turns}

    assert {cap: reply["count"] for cap, reply in with_turns.items()} == without
    assert len(set(without.values())) > 2
    assert all(
        "turnsAfter" in hit or "turnsBefore" in hit for hit in with_turns[max(with_turns)]["hits"]
    )
