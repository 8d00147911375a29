"""Sessions of ADK in a store: names, writers side by side, other programs, the trash."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast import Session
from holdfast.core.log.records import Assistant, User
from holdfast.errors import AdapterClosed, NoSuchSession
from holdfast.integrations.google_adk.session_service import (
    SeenRevision,
    SessionLogs,
    SessionName,
    StaleRevision,
)
from holdfast.stores import open_store
from holdfast.testing import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.ports import SessionStore

NAME = SessionName("helper", "ann", "s1")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    with open_store(tmp_path / "store") as opened:
        yield opened


def logs_of(store: SessionStore, **about: Any) -> SessionLogs:
    return SessionLogs("test", root=None, store=store, **{"delete": "trash", **about})


def event(number: int | str, **about: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": f"words {number}"}]}
    return {"id": f"e{number}", "timestamp": 5.0, "author": "helper", "content": content, **about}


def changing(number: int | str, **delta: Any) -> dict[str, Any]:
    return event(number, actions={"state_delta": delta})


def add(logs: SessionLogs, given_: Any, seen: SeenRevision | None = None, *ids: str) -> Any:
    return logs.append(NAME, given_, json.dumps(given_), seen or SeenRevision(), ids)


def events_of(session: Any) -> list[Any]:
    return [json.loads(spelled) for spelled in session.events]


def found(logs: SessionLogs, **about: Any) -> Any:
    session = logs.find(NAME, **about)
    assert session is not None
    return session


NAMES = st.builds(SessionName, *(st.sampled_from(["a", "A", "a/b", "", "漢" * 300, "a b"]),) * 3)


@given(st.lists(NAMES, unique=True, max_size=12))
@examples(20)
def test_no_two_names_share_a_session_and_each_comes_back(names: list[SessionName]) -> None:
    with open_store("memory:") as store:
        logs = logs_of(store)
        for number, name in enumerate(names):
            assert logs.create(name, {"n": number}) is not None
            assert logs.create(name, {}) is None
        for number, name in enumerate(names):
            session = logs.find(name)
            assert session is not None
            assert session.state == {"n": number}
        for app in {name.app for name in names}:
            listed = {each.name for each in logs.list_sessions(app, None)}
            assert listed == {name for name in names if name.app == app}
            for user in {name.user for name in names}:
                listed = {each.name for each in logs.list_sessions(app, user)}
                assert listed == {n for n in names if (n.app, n.user) == (app, user)}


def test_a_writer_who_saw_less_is_kept_unless_meaning_would_change(store: SessionStore) -> None:
    first, second = logs_of(store), logs_of(store)
    first.create(NAME, {"a": 0, "b": 0})
    began = SeenRevision(found(first).head)
    ahead = add(first, changing(1, a=1), began)
    merged = add(second, changing(2, b=2), began)
    assert merged.changed == ("a",)
    with pytest.raises(StaleRevision, match="another writer has changed a"):
        add(second, changing(3, a=3), merged)
    for action in ("compaction", "rewind_before_invocation_id"):
        with pytest.raises(StaleRevision, match="has added events"):
            add(second, event(4, actions={action: {"x": 1}}), merged)
    with pytest.raises(StaleRevision, match="another writer has changed b"):
        add(first, changing(5, b=5), ahead)
    assert add(second, changing(6, b=6), merged).is_behind
    session = found(first)
    assert [each["id"] for each in events_of(session)] == ["e1", "e2", "e6"]
    assert session.state == {"a": 1, "b": 6}
    again = SeenRevision.read(SeenRevision(session.head).marker)
    assert add(first, changing(7, a=7, b=7), again).changed == ()


def test_an_event_that_is_delivered_again_is_stored_once(store: SessionStore) -> None:
    logs = logs_of(store)
    logs.create(NAME, {})
    seen = add(logs, changing(1, a=1))
    for number in range(2, 150):
        seen = add(logs, changing(number, b=number), seen)
    assert add(logs, changing(149, b=149), seen) is None
    assert add(logs_of(store), changing(100, b=100), seen) is None  # among the newest
    assert add(logs, changing(1, a=1), seen, "e1") is None  # the caller has it
    assert add(logs, changing(149, b="another"), seen) is not None
    assert len(found(logs).events) == 150


def test_threads_that_append_at_once_lose_nothing(store: SessionStore) -> None:
    logs_of(store).create(NAME, {"app:n": 0})
    errors: list[Exception] = []

    def write(number: int) -> None:
        logs, seen = logs_of(store), SeenRevision()
        try:
            for place in range(20):
                given_ = changing(f"{number}-{place}", **{f"own {number}": place, "app:n": place})
                seen = add(logs, given_, seen)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    session = found(logs_of(store))
    assert len({each["id"] for each in events_of(session)}) == 80
    assert {key: value for key, value in session.state.items() if key != "app:n"} == {
        f"own {number}": 19 for number in range(4)
    }
    for number in range(4):  # each one's in its order
        own = [each["id"] for each in events_of(session) if each["id"].startswith(f"e{number}-")]
        assert own == [f"e{number}-{place}" for place in range(20)]


def test_the_newest_events_and_the_state_cost_the_same_in_a_long_session(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = logs_of(store)
    logs.create(NAME, {"first": 1})
    seen = SeenRevision()
    for number in range(400):
        seen = add(logs, changing(number, n=number) if number % 9 == 0 else event(number), seen)
    read = 0
    back = store.back

    def count(*args: Any, **about: Any) -> Any:
        nonlocal read
        for record in back(*args, **about):
            read += 1
            yield record

    monkeypatch.setattr(store, "back", count)
    session = found(logs_of(store), newest=3)
    assert [each["id"] for each in events_of(session)] == ["e397", "e398", "e399"]
    assert session.state == {"first": 1, "n": 396}
    assert logs_of(store).list_sessions("helper", "ann")[0].state == {"first": 1, "n": 396}
    assert read <= 2 * 130


def test_times_and_numbers_of_events(store: SessionStore) -> None:
    logs = logs_of(store)
    logs.create(NAME, {})
    for number, time in enumerate((1.0, 5.0, 3.0, 7.0)):
        add(logs, {**event(number), "timestamp": time})
    cases: list[tuple[Any, Any, list[str]]] = [
        (None, None, ["e0", "e1", "e2", "e3"]),
        (0, None, []),
        (2, None, ["e2", "e3"]),
        (9, 0.5, ["e0", "e1", "e2", "e3"]),
        (None, 4.0, ["e3"]),
        (2, 2.0, ["e2", "e3"]),
        (None, 8.0, []),
    ]
    for newest, after, expected in cases:
        session = found(logs, newest=newest, after=after)
        assert [each["id"] for each in events_of(session)] == expected, (newest, after)
        assert session.updated == 7.0


def test_other_programs_continue_a_session(store: SessionStore) -> None:
    """What they wrote is an event, and what ADK wrote is in the request that they send."""
    logs = logs_of(store)
    logs.create(NAME, {"a": 1})
    seen = add(logs, event(1))
    key = logs.key_for(NAME)
    model = ScriptedModel(["And I."])
    Session(store, key, model).say("I go on.")
    assert "words 1" in str(model.requests[0])
    session = found(logs)
    said = [each["content"]["parts"][0]["text"] for each in events_of(session)]
    assert said == ["words 1", "I go on.", "And I."]
    assert [each["author"] for each in events_of(session)] == ["helper", "user", "helper"]
    assert session.state == {"a": 1}
    assert add(logs, changing(2, a=2), seen).is_behind
    records = list(store.read(key))
    assert sum(isinstance(record, User | Assistant) for record in records) == 4


@pytest.mark.parametrize("delete", ["trash", "erase"])
def test_a_deleted_session_is_in_the_trash_or_gone(store: SessionStore, delete: Any) -> None:
    logs = logs_of(store, delete=delete)
    logs.delete(NAME)
    logs.create(NAME, {"user:a": 1, "b": 2})
    add(logs, event(1))
    logs.delete(NAME)
    assert logs.find(NAME) is None
    with pytest.raises(NoSuchSession):
        add(logs, event(2))
    assert [t.key for t in store.trash()] == ([logs.key_for(NAME)] if delete == "trash" else [])
    assert logs.user_state("helper", "ann") == {"a": 1}
    made = logs.create(NAME, {})
    assert made is not None
    assert made.state == {"user:a": 1}
    assert found(logs).events == ()
    logs.close()
    with pytest.raises(AdapterClosed):
        logs.find(NAME)
