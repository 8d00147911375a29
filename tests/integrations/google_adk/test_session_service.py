"""`HoldfastSessionService` does what ADK's own service does, and keeps records."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support import peers
from tests.support.runs import examples

from holdfast.integrations import google_adk as adapter
from holdfast.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.ports import SessionStore

WHO: dict[str, Any] = {"app_name": "helper", "user_id": "ann", "session_id": "s1"}


@pytest.fixture(autouse=True)
def framework() -> None:
    peers.needs("google-adk")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "store") as opened:
        yield opened


def service(store: SessionStore, **about: Any) -> Any:
    return adapter.HoldfastSessionService(store=store, **about)


def event(number: int, *, author: str = "helper", delta: Any = None, **about: Any) -> Any:
    from google.adk.events import Event, EventActions
    from google.genai import types

    parts = about.pop("parts", [types.Part(text=f"words {number}")])
    actions = EventActions(state_delta=delta or {}, **about.pop("actions", {}))
    return Event(
        id=f"e{number}",
        timestamp=1_000.0 + number,
        invocation_id=f"i{number}",
        author=author,
        content=types.Content(role="user" if author == "user" else "model", parts=parts),
        actions=actions,
        **about,
    )


def turn() -> list[Any]:
    """A question, a call with thoughts and a picture, its result, an answer, a change of state."""
    from google.adk.events import Event, EventActions
    from google.genai import types

    thought = types.Part(text="Hm.", thought=True, thought_signature=b"\xff\x00")
    call = types.Part(
        function_call=types.FunctionCall(id="c1", name="look", args={"where": None}),
        thought_signature=b"\xfb\xff",
    )
    picture = types.Part(inline_data=types.Blob(data=b"\xfb\xff\xfe", mime_type="image/png"))
    answer = types.FunctionResponse(id="c1", name="look", response={"result": ["a", {"b": None}]})
    return [
        event(1, author="user", parts=[types.Part(text="Look."), picture]),
        event(2, parts=[thought, types.Part(text="I look."), call]),
        event(3, parts=[types.Part(function_response=answer)]),
        event(4, usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=7)),
        Event(id="e5", author="helper", actions=EventActions(state_delta={"seen": [1, None]})),
        event(6, parts=[types.Part(executable_code=types.ExecutableCode(code="1"))]),
    ]


def test_events_come_back_equal_and_are_records(store: SessionStore) -> None:
    said = turn()

    async def main() -> None:
        kept = service(store)
        session = await kept.create_session(**WHO, state={"a": 1, "app:b": 2, "user:c": 3})
        for each in said:
            await kept.append_event(session, each)
        found = await service(store).get_session(**WHO)
        assert found.events == said
        assert found.state == session.state
        assert found.state == {"a": 1, "app:b": 2, "user:c": 3, "seen": [1, None]}
        assert await kept.get_user_state(app_name="helper", user_id="ann") == {"c": 3}

    asyncio.run(main())
    records: list[Any] = list(store.read(service(store).key_for(**WHO)))
    kinds = ["user", "assistant", "tool_result", "assistant", "peer_item", "assistant"]
    assert [record.kind for record in records] == ["session", *kinds]
    assert records[0].owner == "ann"
    assert records[1].ts == 1_001.0


def test_bad_input_is_refused_and_nothing_is_stored(store: SessionStore) -> None:
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.genai import types

    async def main() -> None:
        kept = service(store)
        session = await kept.create_session(**WHO)
        with pytest.raises(AlreadyExistsError):
            await kept.create_session(**WHO)
        with pytest.raises(TypeError, match="nothing was stored"):
            await kept.append_event(session, event(1, parts=[types.Part(text="\ud800")]))
        assert (await kept.get_session(**WHO)).events == []
        await kept.delete_session(**WHO)
        with pytest.raises(SessionNotFoundError):
            await kept.append_event(session, event(2))
        kept.close()
        with pytest.raises(RuntimeError, match="HoldfastSessionService is closed"):
            await kept.get_session(**WHO)

    asyncio.run(main())


def test_the_store_is_never_called_on_the_event_loop(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[threading.Thread] = set()
    for name in ("back", "append", "create_log", "keys", "header", "remove", "head"):
        method = getattr(store, name)

        def watch(*args: Any, _method: Any = method, **about: Any) -> Any:
            threads.add(threading.current_thread())
            return _method(*args, **about)

        monkeypatch.setattr(store, name, watch)

    async def main() -> None:
        kept = service(store)
        session = await kept.create_session(**WHO, state={"app:a": 1})
        await kept.append_event(session, event(1, delta={"user:b": 2}))
        await kept.get_session(**WHO)
        await kept.list_sessions(app_name="helper")
        await kept.get_user_state(app_name="helper", user_id="ann")
        await kept.delete_session(**WHO)

    asyncio.run(main())
    assert threads
    assert threading.main_thread() not in threads


APPS = st.sampled_from(["helper", "Helper"])
USERS = st.sampled_from(["ann", "漢字", ""])
IDS = st.sampled_from(["s1", " s1 ", "x" * 200])
MAIN = ("helper", "ann", "s1")
NAMES = st.one_of(st.just(MAIN), st.tuples(APPS, USERS, IDS))
KEYS = st.sampled_from(["a", "a", "b", "app:a", "user:a", "temp:a"])
DELTA = st.dictionaries(KEYS, st.sampled_from([1, None, "x", {"y": [2]}]), max_size=2)
SLOT = st.integers(0, 2)
COUNT = st.sampled_from([None, 0, 1, 2])
STEP = st.one_of(
    st.tuples(st.just("create"), NAMES, SLOT, DELTA),
    st.tuples(st.just("get"), NAMES, SLOT, COUNT, st.sampled_from([None, 1_003.0])),
    st.tuples(st.just("append"), SLOT, DELTA, st.integers(0, 9)),
    st.tuples(st.just("append"), SLOT, DELTA, st.integers(0, 9)),
    st.tuples(st.just("partial"), SLOT, DELTA),
    st.tuples(st.just("again"), SLOT),
    st.tuples(st.just("compact"), SLOT),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("list"), APPS, st.one_of(st.none(), USERS)),
    st.tuples(st.just("state"), APPS, USERS),
)


@given(st.lists(STEP, min_size=4, max_size=25))
@example([("append", 0, {"a": 1}, 1), ("append", 1, {"a": 2}, 2)])
@example([("append", 0, {"a": 1}, 1), ("append", 1, {"b": 2}, 2), ("compact", 1)])
@example([("append", 0, {"a": 1}, 1), ("again", 0), ("append", 0, {"a": 2}, 3), ("again", 0)])
@example([("delete", MAIN), ("append", 0, {"temp:a": 1}, 1)])
@examples(30)
def test_every_answer_is_that_of_the_service_in_memory(steps: list[Any]) -> None:
    """The same calls to ADK's own service and to ours, answer by answer.

    ADK's in-memory service takes every event. `CarefulService` adds the rule for what another
    writer changed, on its own bookkeeping.
    """
    from google.adk.sessions import InMemorySessionService

    # Two copies of one session to begin with: what one writes, the other has not seen.
    steps = [("create", MAIN, 0, {}), ("get", MAIN, 1, None, None), *steps]
    with open_store("memory:") as opened:
        careful = CarefulService(InMemorySessionService())
        answers = [asyncio.run(Program(kept).run(steps)) for kept in (careful, service(opened))]
    for ours, theirs in zip(*answers, strict=True):
        assert theirs == ours


class CarefulService:
    """ADK's service in memory, which refuses what would change the meaning of others' events."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._written: dict[Any, list[tuple[int, set[str]]]] = {}
        self._seen: dict[int, tuple[int, int, set[str], bool]] = {}
        self._lives = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def create_session(self, **about: Any) -> Any:
        session = await self._inner.create_session(**about)
        self._lives += 1
        self._written[self._name(session)] = []
        return self._hold(session)

    async def get_session(self, **about: Any) -> Any:
        session = await self._inner.get_session(**about)
        return None if session is None else self._hold(session)

    def _hold(self, session: Any) -> Any:
        log = self._written[self._name(session)]
        self._seen[id(session)] = (id(log), len(log), set(), False)
        return session

    def _name(self, session: Any) -> Any:
        return session.app_name, session.user_id, session.id

    async def append_event(self, session: Any, given: Any) -> Any:
        from google.adk.errors import StaleSessionError

        stored = await self._inner.get_session(
            app_name=session.app_name, user_id=session.user_id, session_id=session.id
        )
        if given.partial or stored is None:
            return await self._inner.append_event(session, given)
        if any(each == given for each in stored.events if each.id == given.id):
            return given
        log = self._written[self._name(session)]
        life, place, changed, is_behind = self._seen[id(session)]
        unseen = log[place:] if life == id(log) else log
        changed = changed.union(*(keys for _number, keys in unseen))
        is_behind = is_behind or bool(unseen)
        keys = {key for key in given.actions.state_delta if ":" not in key}
        if keys & changed or (is_behind and given.actions.compaction):
            raise StaleSessionError
        log.append((0, keys))
        self._seen[id(session)] = (id(log), len(log), changed, is_behind)
        return await self._inner.append_event(session, given)


class Program:
    """Does steps to a service, and writes every answer down."""

    def __init__(self, kept: Any) -> None:
        self._kept = kept
        self._held: dict[int, Any] = {}
        self._last: dict[int, Any] = {}
        self._names: set[Any] = set()

    async def run(self, steps: list[Any]) -> list[Any]:
        said: list[Any] = []
        for number, (kind, *given_) in enumerate(steps):
            try:
                said.append((kind, await getattr(self, f"_{kind}")(number, *given_)))
            except Exception as error:
                said.append((kind, type(error).__name__))
            names = sorted(self._names)
            said += [facts(await self._kept.get_session(**named(name))) for name in names]
            said += [facts(session) for session in self._held.values()]
        return said

    async def _create(self, _number: int, name: Any, slot: int, state: Any) -> Any:
        made = await self._kept.create_session(**named(name), state=state)
        self._names.add(name)
        self._held[slot] = made
        return facts(made)

    async def _get(
        self, _number: int, name: Any, slot: int, count: int | None, after: float | None
    ) -> Any:
        from google.adk.sessions.base_session_service import GetSessionConfig

        config = GetSessionConfig(num_recent_events=count, after_timestamp=after)
        found = await self._kept.get_session(**named(name), config=config)
        if found is not None:
            self._held[slot] = found
        return facts(found)

    async def _append(self, number: int, slot: int, delta: Any, at: int) -> Any:
        given_ = event(number, delta=dict(delta))
        given_.timestamp = 1_000.0 + at
        self._last[slot] = given_.model_copy(deep=True)
        return (await self._kept.append_event(self._held[slot], given_)).model_dump()

    async def _partial(self, number: int, slot: int, delta: Any) -> Any:
        given_ = event(number, delta=dict(delta), partial=True)
        return (await self._kept.append_event(self._held[slot], given_)).model_dump()

    async def _again(self, _number: int, slot: int) -> Any:
        given_ = self._last[slot].model_copy(deep=True)
        given_.actions.state_delta = {
            key: value
            for key, value in given_.actions.state_delta.items()
            if not key.startswith("temp:")
        }
        return (await self._kept.append_event(self._held[slot], given_)).model_dump()

    async def _compact(self, number: int, slot: int) -> Any:
        from google.adk.events.event_actions import EventCompaction
        from google.genai import types

        content = types.Content(role="model", parts=[types.Part(text="The gist.")])
        gist = EventCompaction(start_timestamp=0, end_timestamp=1, compacted_content=content)
        given_ = event(number, actions={"compaction": gist})
        return (await self._kept.append_event(self._held[slot], given_)).model_dump()

    async def _delete(self, _number: int, name: Any) -> None:
        await self._kept.delete_session(**named(name))

    async def _list(self, _number: int, app: str, user: str | None) -> Any:
        found = (await self._kept.list_sessions(app_name=app, user_id=user)).sessions
        # Sessions without events are in the order of their creation: the clock decides.
        old = [facts(session) for session in found if session.last_update_time < 2_000]
        new = [facts(session) for session in found if session.last_update_time >= 2_000]
        return old, sorted(map(repr, new))

    async def _state(self, _number: int, app: str, user: str) -> Any:
        return await self._kept.get_user_state(app_name=app, user_id=user)


def named(name: Any) -> dict[str, str]:
    return dict(zip(("app_name", "user_id", "session_id"), name, strict=True))


def facts(session: Any) -> Any:
    """Everything of a session but the time at which it was made."""
    if session is None:
        return None
    at = session.last_update_time
    events = [each.model_dump() for each in session.events]
    who = (session.app_name, session.user_id, session.id)
    return who, sorted(session.state.items(), key=str), events, at if at < 2_000 else None
