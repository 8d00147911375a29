"""Every search of memory is in the audit log, by every way in: who searched where, how many hits
there were and which sessions were shown; never a word of the query or of a hit."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import check_all
from tests.support.runs import examples
from tests.surfaces.http.servers import serving, token_for

from holdfast import Memory, Session, SessionKey, User
from holdfast.core.history.access import OPERATOR, Caller
from holdfast.core.owners import ANY_OWNER, NamedOwner, owner_of
from holdfast.engine.erasing import erase
from holdfast.engine.memory.tools import memory_tools
from holdfast.engine.operations.tools import TOOLS
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.errors import HoldfastWarning, StoreUnavailable
from holdfast.ports import ANY_HEAD
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.surfaces.cli import main
from holdfast.surfaces.cli.verbs.memory import MemoryCommand
from holdfast.surfaces.http.server import ROUTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.core.history.access import Access
    from holdfast.ports import SessionStore

QUERY = "quokka harbour"
WORDS = ("quokka", "harbour", "marmalade", "zeppelin")
CALLER = Caller("main", None, owner=NamedOwner("ann"), visibility="agent")


def fill(store: SessionStore) -> str:
    """Two sessions and a note that answer, and a session of somebody else; return a citation."""
    for name, owner in (("one", "ann"), ("two", "ann"), ("his", "bob")):
        store.create(SessionKey("main", name), owner=owner_of(owner))
        said = [User(content=f"the quokka by the harbour, marmalade, {name}")]
        store.append(SessionKey("main", name), said, expect=ANY_HEAD)
    store.notes("main", NamedOwner("ann")).append(["a harbour for a zeppelin"])
    return cite(store, "one")


def cite(store: SessionStore, name: str) -> str:
    record = list(store.read(SessionKey("main", name)))[-1]
    return f"main/{name}#{record.id}"


def remember(store: SessionStore) -> Memory:
    return Memory(store, store.notes("main", NamedOwner("ann")), caller=CALLER)


def call_tool(store: SessionStore, name: str, citation: str) -> None:
    tools = {tool.tool.name: tool for tool in memory_tools(remember(store))}
    given = {"query": QUERY} if "search" in name else {"citation": citation}
    tools[name].function(**given)


def call_mcp(store: SessionStore, name: str, citation: str) -> None:
    given = {"citation": citation} if name == "memory_get" else {"query": QUERY}
    TOOLS[name].call(CallerWorkspace(store, CALLER), given)


def call_cli(store: SessionStore, *words: str) -> None:
    assert isinstance(store, JsonlStore)
    assert main(["--root", store.root, "--owner", "ann", "memory", *words]) == 0


def call_http(store: SessionStore, path: str, citation: str) -> None:
    async def ask() -> None:
        token, known = token_for("ann")
        async with serving(store, known) as client:
            client.headers["Authorization"] = f"Bearer {token}"
            params = {"query": QUERY, "citation": citation}
            given = {
                key: params[key] for key in (("query",) if "search" in path else ("citation",))
            }
            assert (await client.get(path, params=given)).status_code == 200

    asyncio.run(ask())


def recall(store: SessionStore) -> None:
    with Session.open(
        "plans", model="offline", store=store, owner="ann", memory=remember(store)
    ) as session:
        session.say("Where is the quokka by the harbour?")


WAYS: dict[str, Callable[[SessionStore, str], object]] = {
    "library search": lambda store, _: remember(store).search(QUERY, scope="all"),
    "library search_many": lambda store, _: list(
        remember(store).search_many([QUERY, QUERY], scope="all")
    ),
    "library get": lambda store, citation: remember(store).get(citation),
    "tool memory_search": lambda store, citation: call_tool(store, "memory_search", citation),
    "tool memory_get": lambda store, citation: call_tool(store, "memory_get", citation),
    "mcp memory_search": lambda store, citation: call_mcp(store, "memory_search", citation),
    "mcp session_search": lambda store, citation: call_mcp(store, "session_search", citation),
    "mcp memory_get": lambda store, citation: call_mcp(store, "memory_get", citation),
    "cli search": lambda store, _: call_cli(
        store, "search", *QUERY.split(), "--scope", "all", "--words-only"
    ),
    "cli get": lambda store, citation: call_cli(store, "get", citation),
    "http /v1/memory/search": lambda store, citation: call_http(
        store, "/v1/memory/search", citation
    ),
    "http /v1/memory/passage": lambda store, citation: call_http(
        store, "/v1/memory/passage", citation
    ),
    "session recall": lambda store, _: recall(store),
}


def test_every_way_in_is_here() -> None:
    """A new route, tool or command that searches or reads memory is asked, too."""
    found = {f"http {route.path}" for route in ROUTES if route.path.startswith("/v1/memory/")}
    reading = [name for name, tool in TOOLS.items() if tool.is_reading]
    found |= {f"mcp {name}" for name in reading if "memory" in name or name.endswith("_search")}
    found |= {f"cli {name}" for name in MemoryCommand.verbs if name in ("search", "get")}
    methods = [name for name in vars(Memory) if name.startswith(("search", "get"))]
    found |= {f"library {name}" for name in methods}
    with JsonlStore("/nonexistent") as store:
        found |= {f"tool {tool.tool.name}" for tool in memory_tools(remember(store))}
    assert found == set(WAYS) - {"session recall"}


def about_memory(store: SessionStore) -> list[Access]:
    found = store.audit.entries().accesses
    return [access for access in found if access.action in ("search", "read")]


@pytest.mark.files_only("the command line opens the folder itself")
def test_every_search_is_in_the_audit_log(tmp_path: Path) -> None:
    """With its caller, scope, hits and the sessions that were shown; without any words."""

    def check(way: str) -> None:
        with JsonlStore(tmp_path / str(list(WAYS).index(way))) as store:
            citation = fill(store)
            WAYS[way](store, citation)
            accesses = about_memory(store)
            assert accesses
            is_search = "get" not in way and "passage" not in way
            for access in accesses:
                assert access.owner == "ann"
                assert access.is_allowed
                if is_search:
                    assert access.action == "search"
                    assert access.target in ("notes", "sessions", "all")
                    assert access.hits == (2 if access.target == "sessions" else 3)
                    assert set(access.shown) == {"main/one", "main/two"}
                else:
                    assert (access.action, access.target) == ("read", "main/one")
            if way == "session recall":
                assert [access.session for access in accesses] == ["plans"]
            if way == "library search_many":
                assert len(accesses) == 2
            lines = msgspec.json.encode(store.audit.entries().accesses).decode().casefold()
            assert not [word for word in WORDS if word in lines]

    check_all(list(WAYS), check)


def test_a_refused_reading_is_there_too(tmp_path: Path) -> None:
    with JsonlStore(tmp_path / "store") as store:
        fill(store)
        call_tool(store, "memory_get", cite(store, "his"))
        (access,) = store.audit.entries().accesses
        assert (access.action, access.target, access.is_allowed) == ("read", "main/his", False)


@examples(30)
@given(queries=st.lists(st.text("abcdefgh 0123456789:#/._-", max_size=40), min_size=1, max_size=4))
def test_no_query_leaves_words_in_the_log(queries: list[str]) -> None:
    """Whatever is asked for: one line for each search, which is the same for any query that finds
    nothing, but for its time. Where there is nothing to search, there is nothing to note."""
    from holdfast.stores.in_memory import MemoryStore

    with MemoryStore() as store:
        memory = Memory(store, None, caller=CALLER)
        assert memory.search(QUERY, scope="all") == []
        assert store.audit.entries().accesses == ()
        store.create(SessionKey("main", "one"), owner=NamedOwner("ann"))
        store.append(SessionKey("main", "one"), [User(content="\u16a0")], expect=ANY_HEAD)
        for query in queries:
            assert memory.search(query, scope="all") == []
        accesses = store.audit.entries().accesses
        assert len(accesses) == len(queries)
        assert len({msgspec.structs.replace(access, ts=0.0) for access in accesses}) == 1


def test_an_erasure_takes_out_what_was_shown(tmp_path: Path) -> None:
    """The name of the session goes from every line; who searched, and how many hits, stay. The
    session that was shown it is named as a reader."""
    with JsonlStore(tmp_path / "store") as store:
        fill(store)
        recall(store)
        report = erase(store, SessionKey("main", "one"), owner=ANY_OWNER)
        assert [copy.where for copy in report.remaining if copy.kind == "reader"] == ["main/plans"]
        (access,) = about_memory(store)
        assert (access.hits, access.shown, access.session) == (3, ("main/two",), "plans")
        assert "main/one" not in json.dumps(msgspec.to_builtins(store.audit.entries().accesses))


class _Broken:
    """An audit log that cannot be written."""

    def note(self, _access: Any) -> None:
        raise OSError("no space left")


def test_what_cannot_be_noted_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But to the operator, who is warned."""
    with JsonlStore(tmp_path / "store") as store:
        fill(store)
        memory, operator = remember(store), Memory(store, None, caller=OPERATOR)
        for one in (memory, operator):
            assert one._accesses is not None
            monkeypatch.setattr(one._accesses, "_audit", _Broken())
        with pytest.raises(StoreUnavailable, match="audit log"):
            memory.search(QUERY, scope="all")
        with pytest.warns(HoldfastWarning, match="audit log"):
            assert operator.search(QUERY, scope="sessions")
