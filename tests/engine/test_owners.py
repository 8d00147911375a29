"""No lookup by a text, whoever chose the text, leads one owner into a session of another."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts.api_page import MODULES, public_names
from tests.support.runs import examples

from holdfast import AsyncSession, History, Memory, Session
from holdfast.core.history.access import Caller
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Label, Mode, User
from holdfast.core.owners import ANY_OWNER, NO_OWNER, NamedOwner, NoOwner, owner_of, owner_text
from holdfast.engine.session.opening import find_session, session_id_of
from holdfast.engine.session.options import SessionOptions
from holdfast.engine.timers import SessionTimers, Timers
from holdfast.errors import AccessDenied, HoldfastError, NoSuchSession, UsageError
from holdfast.ports import ANY_HEAD
from holdfast.stores import MemoryStore
from holdfast.surfaces.chat_context import ChatContext
from holdfast.testing import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TEXTS = ("name", "session", "citation")
"""Parameters that say which session is meant, in words that may come from a user or a model."""

NO_LOOKUPS = {
    "read_baseline": "the name of a file, for its errors",
    "holdfast.model": "a model",
    "holdfast.async_model": "a model",
    "holdfast.models.model": "a model",
    "holdfast.models.async_model": "a model",
    "holdfast.models.target": "a model",
    "holdfast.commands.SlashCommand.__init__": "a command",
    "holdfast.tokens.Vocabulary.__init__": "a vocabulary",
    "add_user": "the speaker of a message",
    "rewrite_field": "a field",
    "holdfast.context.capture": "written into a checkpoint",
    "holdfast.importers.detect_format": "a file",
    "holdfast.importers.read_transcript": "a file",
    "holdfast.importers.Source.__init__": "a file",
    "replace": "a source",
    "use_model": "a model",
    "holdfast.memory.CallableEmbedder.__init__": "a model",
    "holdfast.memory.embedder": "a model",
    "bucket": "a bucket",
    "append": "written into a note",
    "erase": "an operator's: deletes what came from a session",
    "restore": "an operator's: the trash has no owners",
    "find_trashed": "an operator's: the trash has no owners",
    "take": "a session that is open",
    "holdfast.gateway.SessionTimers.__init__": "a session that is open",
}
"""Callables with such a parameter that look no session up for a user, by path or by name."""

NAMES = st.sampled_from(
    ["tg_1", "tg_2", "tg_3", "plan", "my plan", "telegram:1", "Tg_1", "tg", "main/tg_1", "current"]
)
OWNERS = st.sampled_from(["ann", "bob", "", "an"])
SESSIONS = st.lists(st.tuples(NAMES, OWNERS, NAMES, st.booleans()), max_size=6)
"""Sessions that exist: by which name they were opened, whose they are, their label, and if the
label was set later by a user."""


def lookups() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every public callable with a text that may mean a session."""
    for module in MODULES:
        for name in public_names(module):
            thing = getattr(importlib.import_module(module), name)
            for path, function in _functions(f"{module}.{name}", thing):
                for parameter in inspect.signature(function).parameters.values():
                    if parameter.name in TEXTS and "SessionKey" not in str(parameter.annotation):
                        yield path, function


def _functions(path: str, thing: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    if inspect.isfunction(thing):
        yield path, thing
    if not inspect.isclass(thing) or issubclass(thing, BaseException):
        return
    for name, member in inspect.getmembers(thing):
        function = getattr(member, "__func__", member)
        is_ours = str(getattr(function, "__module__", "")).startswith("holdfast")
        if inspect.isfunction(function) and is_ours and (name[0] != "_" or name == "__init__"):
            yield f"{path}.{name}", function


def model() -> ScriptedModel:
    return ScriptedModel((), otherwise="fine")


def stored(sessions: list[tuple[str, str, str, bool]]) -> MemoryStore:
    """A store with these sessions; the first word of each is its owner's name."""
    store = MemoryStore()
    for name, owner, label, is_late in sessions:
        try:
            key = find_session(
                store,
                name,
                "main",
                create=True,
                label="" if is_late else label,
                owner=owner_of(owner),
            )
        except (AccessDenied, UsageError):
            continue  # the id is somebody else's, or differs only in case
        store.append(key, [User(content=f"of [{owner}]")], expect=ANY_HEAD)
        if is_late:
            store.append(key, [Label(label=label)], expect=ANY_HEAD)
    return store


def words(store: MemoryStore, key: SessionKey) -> str:
    return str([rec.content for rec in store.read(key) if isinstance(rec, User)])


def open_session(store: MemoryStore, name: str, owner: str) -> str:
    session = Session.open(name, model=model(), store=store, agent="main", owner=owner)
    return words(store, session.key)


def open_async(store: MemoryStore, name: str, owner: str) -> str:
    async def run() -> str:
        session = await AsyncSession.open(
            name, model="offline", store=store, agent="main", owner=owner
        )
        return words(store, session.key)

    return asyncio.run(run())


def read_history(store: MemoryStore, name: str, owner: str) -> str:
    caller = Caller("main", None, owner=owner_of(owner), visibility="all", agents=("*",))
    return str(History(store, caller=caller).read(name))


def history_text(store: MemoryStore, name: str, owner: str) -> str:
    caller = Caller("main", "tg_1", owner=owner_of(owner), visibility="agent")
    return History(store, caller=caller).text(name)


def read_memory(store: MemoryStore, name: str, owner: str) -> str:
    caller = Caller("main", None, owner=owner_of(owner), visibility="agent")
    found = name
    with Memory(store, None, caller=caller) as memory:
        found += " ".join(hit.text for hit in memory.search("of ann bob", scope="sessions"))
        for key in list(store.keys()):
            for record in store.read(key):
                with suppress(HoldfastError):
                    found += memory.get(f"{key}#{record.id}")
    return found


def find_in_chat(store: MemoryStore, name: str, owner: str) -> str:
    chat = ChatContext(store, "main", model(), SessionOptions(), owner=owner_of(owner))
    return words(store, chat.find(name))


def timers_of(store: MemoryStore, name: str, owner: str, *, has_own: bool) -> SessionTimers:
    """Timers of the session that a name opens, where every session of another owner has a timer of
    that name, and with `has_own` this session too."""
    session = Session.open(name, model=model(), store=store, agent="main", owner=owner)
    own = owner_of(owner)
    for key in list(store.keys()):
        whose = owner_of(store.header(key).owner)
        assert isinstance(whose, NamedOwner | NoOwner)
        if whose != own or (has_own and key == session.key):
            with suppress(UsageError):  # another session of that owner has the timer
                Timers(store).set(key, "1h", f"of [{owner_text(whose)}]", owner=whose, name=name)
    return SessionTimers(session)


def set_timer(store: MemoryStore, name: str, owner: str) -> str:
    timers = timers_of(store, name, owner, has_own=False)
    try:
        made = timers.wake_at("1h", f"of [{owner}]", name=name)
    except UsageError as error:
        raise AssertionError("a timer of another owner takes the name") from error
    return f"{made} {timers.ahead()}"


def change_timer(store: MemoryStore, name: str, owner: str) -> str:
    timers = timers_of(store, name, owner, has_own=True)
    return f"{timers.change(name, when='2h')} {timers.ahead()}"


def cancel_timer(store: MemoryStore, name: str, owner: str) -> str:
    timers = timers_of(store, name, owner, has_own=True)
    return f"{timers.cancel(name)} {timers.ahead()}"


PROBES: dict[str, Callable[[MemoryStore, str, str], str]] = {
    "holdfast.Session.open": open_session,
    "holdfast.AsyncSession.open": open_async,
    "holdfast.History.read": read_history,
    "holdfast.History.text": history_text,
    "holdfast.Memory.get": read_memory,
    "holdfast.commands.ChatContext.find": find_in_chat,
    "holdfast.gateway.SessionTimers.wake_at": set_timer,
    "holdfast.gateway.SessionTimers.change": change_timer,
    "holdfast.gateway.SessionTimers.cancel": cancel_timer,
}
"""A way to see whose words each lookup leads to."""


def test_every_lookup_has_a_probe() -> None:
    """A new public callable with such a parameter is probed, or says why it looks nothing up."""
    found = dict(lookups())
    unknown = [
        path
        for path in found
        if path not in PROBES and not {path, path.rpartition(".")[2]} & NO_LOOKUPS.keys()
    ]
    assert unknown == []
    assert set(PROBES) <= set(found)


@pytest.mark.parametrize("path", sorted(PROBES))
@examples(60)
@given(sessions=SESSIONS, name=NAMES, owner=OWNERS)
def test_no_session_of_another_owner_is_found(
    path: str, sessions: list[tuple[str, str, str, bool]], name: str, owner: str
) -> None:
    """Whatever ids and labels there are, a lookup shows the owner's own words, or none."""
    with closing(stored(sessions)) as store:
        try:
            shown = PROBES[path](store, name, owner)
        except (AccessDenied, UsageError):
            return
    for other in {"ann", "bob", "", "an"} - {owner}:
        assert f"of [{other}]" not in shown


@examples(100)
@given(sessions=SESSIONS, name=NAMES, labels=st.lists(NAMES, max_size=3))
def test_labels_change_nothing_about_what_a_name_opens(
    sessions: list[tuple[str, str, str, bool]], name: str, labels: list[str]
) -> None:
    """A name opens the session that it opened before, whatever sessions are labelled."""
    store = stored([(known, "", label, late) for known, _owner, label, late in sessions])
    for key in list(store.keys()):
        for label in labels:
            store.append(key, [Label(label=label)], expect=ANY_HEAD)
    try:
        key = find_session(store, name, "main", create=True, owner=NO_OWNER)
    except UsageError:
        return  # an id that differs only in case
    assert key == SessionKey("main", session_id_of(name, NO_OWNER))


def test_a_label_is_not_an_id() -> None:
    store = MemoryStore()
    Session.open("tg_1", model=model(), store=store).rename("tg_99")
    Session.open("tg_1", model=model(), store=store).rename("telegram:99")

    assert Session.open("tg_99", model=model(), store=store).key.session == "tg_99"
    other = Session.open("telegram:99", model=model(), store=store)
    assert other.key.session not in ("tg_1", "tg_99")
    assert Session.open("telegram:99", model=model(), store=store).key == other.key
    assert store.info(other.key).label == "telegram:99"
    with pytest.raises(NoSuchSession, match="tg_98"):
        Session.open("tg_98", model=model(), store=store, create=False)


def test_without_an_owner_only_sessions_without_one_are_opened() -> None:
    store = MemoryStore()
    store.create(SessionKey("main", "anns"), owner=NamedOwner("ann"))

    with pytest.raises(AccessDenied, match="does not belong to a caller without an owner"):
        Session.open("anns", model=model(), store=store)
    opened = Session.open("anns", model=model(), store=store, owner=ANY_OWNER)
    assert opened.key.session == "anns"
    with pytest.raises(UsageError, match="`owner` cannot be None"):
        Session.open("anns", model=model(), store=store, owner=None)  # type: ignore[arg-type]
    assert Session.open(model=model(), store=store).key.session != "anns"


def test_a_forged_continuation_is_not_followed() -> None:
    """A record that names another owner's session as the next one leads nowhere."""
    store = MemoryStore()
    anns, bobs = SessionKey("main", "anns"), SessionKey("main", "bobs")
    store.create(anns, owner=NamedOwner("ann"))
    store.create(bobs, owner=NamedOwner("bob"))
    store.append(anns, [Mode(mode="fresh", continued_in="bobs")], expect=ANY_HEAD)

    assert Session.open("anns", model=model(), store=store, owner="ann").key == anns


def test_sessions_that_come_of_others_keep_the_owner() -> None:
    store = MemoryStore()
    session = Session.open("anns", model=model(), store=store, owner="ann")
    session.say("hello")
    session.reset("again")
    session.set_mode("fresh")
    session.say("and on")
    store.fork(session.key, SessionKey("main", "copy"), at=None)
    chat = ChatContext(store, "main", model(), SessionOptions(), owner=ANY_OWNER)
    chat.open(session.key)
    chat.start("new")

    assert len(list(store.keys())) >= 5
    assert {info.owner for info in store.sessions(owner=ANY_OWNER)} == {NamedOwner("ann")}


class OneOwner(MemoryStore):
    """Refuses to list the sessions of every owner."""

    def sessions(self, **filters: Any) -> Any:
        assert filters.get("owner") is not None, "sessions of every owner were listed"
        return super().sessions(**filters)


@pytest.mark.parametrize("path", sorted(PROBES))
def test_a_lookup_lists_the_sessions_of_its_owner_alone(path: str) -> None:
    """What an owner asks for does not cost what the others have."""
    with OneOwner() as store:
        for owner in ("ann", "bob"):
            key = find_session(store, f"{owner}s", "main", create=True, owner=owner_of(owner))
            store.append(key, [User(content=f"of [{owner}]")], expect=ANY_HEAD)
        assert "of [ann]" in PROBES[path](store, "anns", "ann")
        with suppress(AccessDenied, UsageError):
            PROBES[path](store, "no such", "ann")
