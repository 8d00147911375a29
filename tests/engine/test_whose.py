"""Whoever asks gets their own: every public callable that asks whose, for two people, nobody and
everybody. What the ports promise is walked by `holdfast.testing.conformance.owning`."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from scripts.api_page import MODULES, public_names

from holdfast import AsyncSession, Memory, Session, async_model, erase, erase_owner
from holdfast.commands import AsyncChatContext, ChatContext
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.core.owners import (
    ANY_OWNER,
    NO_OWNER,
    AnyOwner,
    NamedOwner,
    Owner,
    OwnerFilter,
    owner_of,
    owner_text,
)
from holdfast.engine.session.options import SessionOptions
from holdfast.errors import AccessDenied, NoSuchSession
from holdfast.ports import ANY_HEAD, NewMessage
from holdfast.stores import MemoryStore, copy_store
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing import ScriptedModel
from holdfast.testing.conformance import owning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.ports import SessionStore

PEOPLE: tuple[Owner, ...] = (NamedOwner("ann"), NamedOwner("an"), NO_OWNER)
KEYS = {person: SessionKey("main", f"of-{owner_text(person) or 'nobody'}") for person in PEOPLE}
OWNER_TYPES = re.compile(r"\b(?:NamedOwner|NoOwner|AnyOwner|Owner|OwnerFilter|FoundOwner)\b")

ELSEWHERE = {
    "holdfast.gateway.Gateway.submit": "writes the owner into a message; queues are walked",
}
"""Callables that ask whose and look nothing up, or whose port is walked, and why."""
OF_PORTS = {name.partition(".")[2] for name in (*owning.ASKS, *owning.ERASES)}
STORES = {"SessionStore", "SessionEraser", "SideStores", "JsonlStore", "MemoryStore"} | {
    "PostgresStore"
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JsonlStore]:
    """Each of the people has a session, a note and a message, with their name in it."""
    with JsonlStore(tmp_path / "store") as opened:
        for person, key in KEYS.items():
            opened.create(key, owner=person)
            opened.append(key, [User(content=f"heron {key.session}.")], expect=ANY_HEAD)
            opened.notes("main", person).append(f"a heron in the notes {key.session}.")
            message = NewMessage(
                queue="inbox",
                lane=str(key),
                key="k",
                body={},
                owner=owner_text(person),
                session=str(key),
            )
            opened.queues.put(message)
        yield opened


def model() -> ScriptedModel:
    return ScriptedModel((), otherwise="fine")


def open_each(opening: Callable[[str], Any]) -> set[Owner]:
    """The people whose sessions a way to open one leads into."""
    seen = set()
    for person, key in KEYS.items():
        with suppress(AccessDenied, NoSuchSession):
            assert opening(key.session) == key
            seen.add(person)
    return seen


def open_sessions(kind: Any) -> Callable[[JsonlStore, OwnerFilter], set[Owner]]:
    def seen(store: JsonlStore, wanted: OwnerFilter) -> set[Owner]:
        def opening(name: str | None) -> SessionKey:
            given: dict[str, Any] = {"store": store, "owner": wanted, "create": False}
            if kind is AsyncSession:
                return asyncio.run(open_async(name, given))
            session = kind.open(name, model=model(), **given)
            return session.key  # type: ignore[no-any-return]

        newest = opening(None)
        found = open_each(opening)
        assert owner_of(store.header(newest).owner) in found
        return found

    return seen


async def open_async(name: str | None, given: dict[str, Any]) -> SessionKey:
    session = await AsyncSession.open(name, model="offline", **given)
    await session.close()
    return session.key


def list_in_chat(store: JsonlStore, wanted: OwnerFilter) -> set[Owner]:
    chat = ChatContext(store, "main", model(), SessionOptions(), owner=wanted)
    listed = {person for person, key in KEYS.items() if key in {info.key for info in chat.infos()}}
    assert open_each(lambda name: chat.open(SessionKey("main", name)).key) == listed
    return listed


def list_in_async_chat(store: JsonlStore, wanted: OwnerFilter) -> set[Owner]:
    chat = AsyncChatContext(store, "main", async_model("offline"), SessionOptions(), owner=wanted)

    async def opening(name: str) -> SessionKey:
        return (await chat.open(SessionKey("main", name))).key

    return open_each(lambda name: asyncio.run(opening(name)))


def plan_erasures(store: JsonlStore, wanted: OwnerFilter) -> set[Owner]:
    seen = set()
    for person, key in KEYS.items():
        with suppress(NoSuchSession):
            assert erase(store, key, owner=wanted, dry_run=True).sessions
            seen.add(person)
    return seen


def plan_erasure_of_owner(store: JsonlStore, wanted: OwnerFilter) -> set[Owner]:
    assert isinstance(wanted, NamedOwner)
    report = erase_owner(store, wanted, dry_run=True)
    gone = {session.key for session in report.sessions}
    return {person for person, key in KEYS.items() if key in gone}


def copy(store: JsonlStore, wanted: OwnerFilter) -> set[Owner]:
    with MemoryStore() as target:
        copy_store(store, target, owner=wanted)
        sessions = owners_in(target)
        notes = {person for person in PEOPLE if list(target.notes("main", person).notes())}
        messages = {owner_of(each.owner) for each in target.queues.messages(owner=ANY_OWNER)}
    assert sessions == notes == messages
    return notes


def owners_in(store: SessionStore) -> set[Owner]:
    return {owner_of(store.header(info.key).owner) for info in store.sessions(owner=ANY_OWNER)}


def remember(store: JsonlStore, wanted: OwnerFilter) -> set[Owner]:
    assert not isinstance(wanted, AnyOwner)
    with Memory.open(store.root, owner=wanted) as memory:
        texts = " ".join(hit.text for hit in memory.search("heron", scope="all", limit=20))
    return {person for person, key in KEYS.items() if f"{key.session}." in texts}


ASKERS: dict[str, Callable[[JsonlStore, OwnerFilter], set[Owner]]] = {
    "holdfast.Session.open": open_sessions(Session),
    "holdfast.AsyncSession.open": open_sessions(AsyncSession),
    "holdfast.commands.ChatContext.__init__": list_in_chat,
    "holdfast.commands.AsyncChatContext.__init__": list_in_async_chat,
    "holdfast.erase": plan_erasures,
    "holdfast.erase_owner": plan_erasure_of_owner,
    "holdfast.stores.copy_store": copy,
    "holdfast.Memory.open": remember,
}
"""The people whose things a callable shows, by its path."""


def askers() -> Iterator[tuple[str, str]]:
    """Yield every public callable with an owner among its parameters, and that one's type."""
    for module in MODULES:
        for name in public_names(module):
            thing = getattr(importlib.import_module(module), name)
            for path, function in _functions(f"{module}.{name}", thing):
                for parameter in inspect.signature(function).parameters.values():
                    if OWNER_TYPES.search(str(parameter.annotation)):
                        yield path, str(parameter.annotation)


def _functions(path: str, thing: Any) -> Iterator[tuple[str, Any]]:
    if inspect.isfunction(thing):
        yield path, thing
    elif inspect.isclass(thing) and not issubclass(thing, BaseException):
        for name, member in inspect.getmembers(thing):
            function = getattr(member, "__func__", member)
            if inspect.isfunction(function) and (name[0] != "_" or name == "__init__"):
                yield f"{path}.{name}", function


def _is_of_a_port(path: str) -> bool:
    kind, method = path.split(".")[-2:]
    return kind in STORES and method in OF_PORTS


def test_every_callable_that_asks_whose_is_walked() -> None:
    """A new public callable with an owner is asked below, or says why it need not be."""
    found = dict(askers())
    unknown = [path for path in found if path not in ASKERS and path not in ELSEWHERE]
    assert [path for path in unknown if not _is_of_a_port(path)] == []
    assert set(found) >= ASKERS.keys() | ELSEWHERE.keys()


@pytest.mark.files_only("a memory is opened by the folder of its store")
@pytest.mark.parametrize("path", ASKERS)
def test_whoever_asks_gets_their_own(path: str, store: JsonlStore) -> None:
    """Neither of two people sees what is the other's or nobody's; nobody sees what is theirs; and
    everything is for whoever asks for every owner."""
    kind = dict(askers())[path]
    is_named = "NamedOwner" in kind
    for person in PEOPLE[:2] if is_named else PEOPLE:
        assert ASKERS[path](store, person) == {person}
    if "OwnerFilter" in kind:
        assert ASKERS[path](store, ANY_OWNER) == set(PEOPLE)
