"""The sessions that a caller may read: all of them, in pages, and for what a page costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast import Caller, History, JsonlStore, Memory, Session, SessionKey, User
from holdfast.core.history.access import Gate, subject_of
from holdfast.core.owners import ANY_OWNER, NO_OWNER, NamedOwner
from holdfast.engine.history import lookup
from holdfast.engine.history.lookup import SessionLookup
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.ports.sessions import listing_order
from holdfast.stores import ANY_HEAD, MemoryStore
from holdfast.surfaces.mcp.resources import list_resources

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AGENTS = st.sampled_from(["main", "other", "third"])
OWNERS = st.sampled_from([NO_OWNER, NamedOwner("ann"), NamedOwner("bob")])
NAMES = [f"s{number}" for number in range(7)]
PLANS = st.lists(
    st.tuples(
        AGENTS,
        OWNERS,
        st.sampled_from([None, "fork", "reset", "spawn", "repair"]),
        st.integers(0, 6),
    ),
    min_size=1,
    max_size=7,
)
CALLERS = st.builds(
    Caller,
    AGENTS,
    st.sampled_from([None, *NAMES]),
    OWNERS,
    st.sampled_from(["self", "tree", "agent", "all"]),
    st.sampled_from([(), ("other",), ("*",)]),
    st.sampled_from([(), (NamedOwner("bob"),), ANY_OWNER]),
)


@examples(200)
@given(plans=PLANS, caller=CALLERS, limit=st.integers(1, 3))
def test_pages_have_what_the_gate_lets_through(
    plans: list[tuple[str, Any, str | None, int]], caller: Caller, limit: int
) -> None:
    """Whoever asks, whatever made the sessions: all of them, in order, however they are asked for,
    and none that a look at every session would refuse."""
    with MemoryStore() as store:
        keys: list[SessionKey] = []
        for number, (agent, owner, reason, parent) in enumerate(plans):
            key = SessionKey(agent, NAMES[number])
            came_from = str(keys[parent % len(keys)]) if reason and keys else None
            why = reason if came_from else None
            store.create(key, owner=owner, parent_session=came_from, reason=why)
            store.append(key, [User(content="x", ts=2_000_000_000.0 + number % 3)], expect=ANY_HEAD)
            keys.append(key)
        found = SessionLookup(store, caller, "main")
        gate = Gate(caller, found.find)
        expected = [
            info
            for info in store.sessions(owner=ANY_OWNER)
            if gate.verdict(subject_of(info.key, info, info.owner)).is_allowed
        ]
        assert sorted(expected, key=listing_order) == expected
        assert found.visible() == expected
        assert found.visible(limit) == expected[:limit]
        for after, info in enumerate(expected, 1):
            assert found.visible(limit, after=info) == expected[after : after + limit]


def listed(store: JsonlStore, work: Callable[[], object]) -> int:
    """Return how many sessions a store lists for some work."""
    rows = 0
    with pytest.MonkeyPatch.context() as patch:
        for name in ("sessions", "possible_copies", "sessions_since", "info"):
            method = getattr(type(store), name)

            def spy(self: Any, *args: Any, method: Any = method, **options: Any) -> Any:
                nonlocal rows
                found = method(self, *args, **options)
                rows += len(getattr(found, "infos", found if isinstance(found, list) else [found]))
                return found

            patch.setattr(type(store), name, spy)
        work()
    return rows


@pytest.mark.parametrize("owner", [NO_OWNER, NamedOwner("ann")], ids=["nobody", "ann"])
def test_what_is_listed_does_not_grow_with_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any
) -> None:
    """Lists for models and clients, the newest session, names, and a search after the first: of an
    owner with six times the sessions, as many are listed."""
    monkeypatch.setattr(lookup, "NAMED_MAX", 25)
    few, many = (costs_of_a_home(tmp_path / str(number), owner, number) for number in (40, 240))
    assert many[:2] + many[3:] == few[:2] + few[3:]
    assert many[2] <= 110, "a page of a hundred, and one to know that there are more"
    assert max(few) <= 110


def costs_of_a_home(root: Path, owner: Any, sessions: int) -> list[int]:
    with JsonlStore(root) as store:
        for place in range(sessions):
            key = SessionKey("main", f"s{place}")
            store.create(key, owner=owner, label=f"label {place}")
            if place == 0:
                store.append(key, [User(content="the harbour")], expect=ANY_HEAD)
        caller = Caller("main", "s3", owner, visibility="agent")
        history = History(store, caller=caller)
        workspace = CallerWorkspace(store, caller)

        def open_newest() -> None:
            Session.open(store=store, owner=owner, model="offline", create=False).close()

        with Memory(store, None, caller=caller) as memory:
            assert memory.search("harbour", scope="sessions")
            return [
                listed(store, lambda: history.sessions(limit=20)),
                listed(store, lambda: workspace.lookup.resolve("label 0")),
                listed(store, lambda: list_resources(workspace, None)),
                listed(store, lambda: memory.search("harbour", scope="sessions")),
                listed(store, open_newest),
            ]
