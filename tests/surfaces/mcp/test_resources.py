"""Whatever a client sends to a tool or a resource is answered or refused, within the cap."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import texts
from tests.support.runs import examples
from tests.surfaces.mcp.owners import NEEDLE, plant

from holdfast import Caller
from holdfast.core.owners import NamedOwner
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.tools import TOOLS
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.mcp.resources import KINDS, read_resource

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

CAP = 3_000
NAMES = ("main/of-alice", "of-alice", "main/of-bob", "of-bob", "current", "MEMORY.md", NEEDLE)
PATHS = (
    "..",
    "../",
    "main/",
    "/",
    "#",
    "#L1-L9",
    "%2e%2e",
    "\x00",
    "\ud800",
    "*",
    "-50:",
    "(a+)+$",
)


def values() -> SearchStrategy[Any]:
    """Names that exist, names that do not, pieces of paths and patterns, and any JSON."""
    words = st.sampled_from(NAMES) | st.sampled_from(PATHS) | texts()
    joined = st.lists(words, max_size=4).map("".join)
    plain = st.none() | st.booleans() | st.integers() | st.floats() | joined
    return plain | st.lists(plain, max_size=3) | st.dictionaries(texts(), plain, max_size=2)


def calls() -> SearchStrategy[tuple[str, dict[str, Any]]]:
    def arguments(name: str) -> SearchStrategy[tuple[str, dict[str, Any]]]:
        properties = {key: values() for key in TOOLS[name].schema["properties"]}
        required = TOOLS[name].schema.get("required", [])
        fixed = {key: properties.pop(key) for key in required}
        given = st.fixed_dictionaries(fixed, optional=properties)
        return st.tuples(st.just(name), given)

    return st.sampled_from(sorted(TOOLS)).flatmap(arguments)


def workspace_of(store: MemoryStore) -> CallerWorkspace:
    caller = Caller("main", None, owner=NamedOwner("alice"), visibility="agent")
    return CallerWorkspace(store, caller, max_bytes=CAP)


def check(answer: object, words: tuple[str, ...]) -> None:
    """An answer is JSON within the cap, without a word of somebody else."""
    text = msgspec.json.encode(answer).decode()
    assert len(text.encode()) <= CAP
    assert isinstance(json.loads(text), dict)
    assert not any(word in text for word in words)


@examples(200)
@given(st.lists(calls(), min_size=1, max_size=12))
def test_whatever_is_asked_is_answered_or_refused(asked: list[tuple[str, dict[str, Any]]]) -> None:
    """Any arguments, in any order of calls: nothing else is raised, and nothing leaks."""
    with MemoryStore() as store:
        plant(store, "alice")
        bob = plant(store, "bob")
        workspace = workspace_of(store)
        for name, given_ in asked:
            try:
                answer = TOOLS[name].call(workspace, given_)
            except RequestRefused:
                continue
            check(answer, bob.words)


@examples(200)
@given(st.lists(st.tuples(st.sampled_from(KINDS), values()), min_size=1, max_size=20))
def test_whatever_is_read_is_answered_or_refused(asked: list[tuple[Any, Any]]) -> None:
    """Any address of a resource, with real and invented names, quoted and not."""
    with MemoryStore() as store:
        plant(store, "alice")
        bob = plant(store, "bob")
        workspace = workspace_of(store)
        for kind, name in asked:
            for uri in (f"{kind.scheme}://{name}", str(name)):
                try:
                    answer = read_resource(workspace, uri)
                except RequestRefused:
                    continue
                check(answer, bob.words)
