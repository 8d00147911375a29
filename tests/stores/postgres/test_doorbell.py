"""Followers look when something was appended, and lose nothing where no bell is heard."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.support.processes import FORKED

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.core.owners import ANY_OWNER
from holdfast.errors import NoSuchSession
from holdfast.ports import ANY_HEAD
from holdfast.stores.postgres import doorbell
from holdfast.stores.postgres.doorbell import Doorbell
from holdfast.stores.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

KEY, OTHER = SessionKey("main", "s"), SessionKey("main", "other")
NEVER = 3_600.0
"""Seconds that no test takes: what is seen although the next look is so far off was heard of."""


@pytest.fixture
def store(postgres_address: str) -> Iterator[PostgresStore]:
    with PostgresStore(postgres_address) as made:
        made.create(KEY)
        made.create(OTHER)
        yield made


def say(store: PostgresStore, text: str, key: SessionKey = KEY) -> None:
    store.append(key, [User(content=text)], expect=ANY_HEAD)


def texts(follower: Any, count: int) -> list[str]:
    return [str(record.content) for record in islice(follower, count)]


def wait_until(is_so: Callable[[], object]) -> None:
    while not is_so():
        time.sleep(0.01)


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "holdfast-doorbell"]


def count_looks(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> list[SessionKey]:
    looks: list[SessionKey] = []
    open_log = store.open_log

    def counted(key: SessionKey) -> Any:
        looks.append(key)
        return open_log(key)

    monkeypatch.setattr(store, "open_log", counted)
    return looks


def append_when_asked(pipe: Connection, address: str) -> None:
    with PostgresStore(address) as store:
        while (text := pipe.recv()) is not None:
            say(store, text)


@pytest.mark.usefixtures("forked_processes")
def test_a_follower_hears_another_process(
    store: PostgresStore, postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record comes with one look or two, although the next look of its own is an hour off."""
    monkeypatch.setattr(doorbell, "LOOK_SECONDS", NEVER)
    ours, theirs = FORKED.Pipe()
    writer = FORKED.Process(target=append_when_asked, args=(theirs, postgres_address), daemon=True)
    writer.start()
    follower = store.follow(KEY)
    ours.send("first")
    assert texts(follower, 1) == ["first"]
    follower_hears(store, follower)
    looks = count_looks(store, monkeypatch)
    for number in range(20):
        ours.send(str(number))
        assert texts(follower, 1) == [str(number)]
    assert len(looks) <= 2 * 20 + 1
    ours.send(None)
    writer.join()
    assert writer.exitcode == 0


def follower_hears(store: PostgresStore, follower: Any) -> None:
    """Return once bells come through to a follower; before that it looks often."""
    while not store._doorbell.is_heard:
        say(store, "is anybody there?")
        texts(follower, 1)


def test_bells_of_other_sessions_are_not_ours(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorbell, "LOOK_SECONDS", NEVER)
    follower, other = store.follow(KEY), store.follow(OTHER)
    say(store, "begin")
    assert texts(follower, 1) == ["begin"]
    follower_hears(store, follower)
    waiting = threading.Thread(target=texts, args=(follower, 1))
    looks = count_looks(store, monkeypatch)
    waiting.start()
    for number in range(5):
        say(store, str(number), OTHER)
        assert texts(other, 1) == [str(number)]
    assert looks.count(KEY) <= 2
    say(store, "end")
    waiting.join()


@pytest.mark.parametrize("lost", ["ringing", "listening"])
def test_without_bells_followers_look_by_themselves(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """A process that is killed before it rings, and a pooler that does not pass bells on."""
    monkeypatch.setattr(doorbell, "LOOK_SECONDS", 0.05)
    if lost == "ringing":
        monkeypatch.setattr(Doorbell, "ring", lambda *_: None)
    else:
        monkeypatch.setattr(Doorbell, "_hear", lambda _bell, _on, closing: closing.wait(0.05))
    for is_heard in (False, True):  # also where bells were heard before
        follower = store.follow(KEY)
        for number in range(3):
            store._doorbell.is_heard = is_heard
            say(store, str(number))
            assert texts(follower, 1) == [str(number)]


def test_a_lost_connection_for_listening_is_made_again(
    store: PostgresStore, postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is appended meanwhile is seen, and bells are heard again."""
    monkeypatch.setattr(doorbell, "LOOK_SECONDS", NEVER)
    monkeypatch.setattr(doorbell, "_RETRY_SECONDS", 0.01)
    follower = store.follow(KEY)
    for number in range(2):
        say(store, str(number))
        assert texts(follower, 1) == [str(number)]
        follower_hears(store, follower)
        address = postgres_address.partition("&schema")[0]
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE %s",
                [f"LISTEN%{store._connections.address.schema}%"],
            )
        wait_until(lambda: not store._doorbell.is_heard)


def test_a_follower_hears_that_its_session_is_gone(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doorbell, "LOOK_SECONDS", NEVER)
    for end in (store.remove, partial(store.begin_erasure, owner=ANY_OWNER)):
        follower = store.follow(KEY)
        say(store, "here")
        assert texts(follower, 1) == ["here"]
        follower_hears(store, follower)
        end(KEY)
        with pytest.raises(NoSuchSession):
            next(follower)
        store.create(KEY) if end == store.remove else None


def test_appends_share_a_bell_and_wait_for_none(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the bell hangs, appends go on; those of the meantime ring once; closing rings last."""
    hangs, sent = threading.Event(), list[list[str]]()
    send = Doorbell._send

    def hang(bell: Doorbell, bells: list[str], connection: Any) -> None:
        sent.append(bells)
        hangs.wait()
        send(bell, bells, connection)

    wait_until(lambda: not threads())
    monkeypatch.setattr(doorbell, "RING_SECONDS", NEVER)
    monkeypatch.setattr(doorbell, "LOOK_SECONDS", NEVER)
    monkeypatch.setattr(Doorbell, "_send", hang)
    for number in range(50):
        say(store, str(number), (KEY, OTHER)[number % 2])
    wait_until(lambda: sent)
    hangs.set()
    store.close()
    first, *rest = sent
    assert len(rest) <= 1
    assert len({name for bells in (first, *rest) for bell in bells for name in bell.split()}) == 2


def test_a_bell_has_room_for_many_sessions(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notification has at most 8,000 bytes: more sessions are more of them, in one statement."""
    monkeypatch.setattr(doorbell, "LOOK_SECONDS", NEVER)
    follower = store.follow(KEY)
    say(store, "begin")
    texts(follower, 1)
    follower_hears(store, follower)
    bell = store._doorbell
    with bell._mutex:
        bell._rung |= {doorbell._name(SessionKey("main", f"m{n}")) for n in range(5_000)}
    say(store, "end")
    assert texts(follower, 1) == ["end"]


def test_nothing_is_left_after_closing(postgres_address: str) -> None:
    """Neither a thread nor a connection, whoever still follows; and the store can be used again."""
    mine = "&application_name=bells"
    before = len(threads())
    with PostgresStore(postgres_address + mine) as store:
        store.create(KEY)
        follower = store.follow(KEY)
        say(store, "one")
        assert texts(follower, 1) == ["one"]
        wait_until(lambda: len(threads()) > before)
    assert len(threads()) <= before
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'bells'"
    with psycopg.connect(postgres_address.partition("&schema")[0], autocommit=True) as connection:
        wait_until(lambda: connection.execute(query).fetchall() == [(0,)])
    say(store, "two")
    assert texts(follower, 1) == ["two"]
    store.close()


def test_threads_end_by_themselves(store: PostgresStore) -> None:
    """A store that nobody appends to or follows has none, also before it is closed."""
    follower = store.follow(KEY)
    say(store, "one")
    assert texts(follower, 1) == ["one"]
    follower.close()  # type: ignore[attr-defined]
    bell = store._doorbell
    wait_until(lambda: bell._ringer is None and bell._listener is None)


def test_a_forked_child_has_a_bell_of_its_own(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It follows and appends beside its parent, whose threads it does not have."""
    monkeypatch.setattr(doorbell, "LOOK_SECONDS", NEVER)
    follower = store.follow(KEY)
    say(store, "parent")
    assert texts(follower, 1) == ["parent"]
    follower_hears(store, follower)
    pid = os.fork()
    if pid == 0:  # pragma: no cover - another process
        try:
            own = store.follow(OTHER)
            say(store, "child", OTHER)
            is_seen = texts(own, 1) == ["child"]
            say(store, "from the child")
            store.close()
            os._exit(0 if is_seen else 1)
        finally:
            os._exit(2)
    assert texts(follower, 1) == ["from the child"]
    assert os.waitpid(pid, 0)[1] == 0
    say(store, "after")
    assert texts(follower, 1) == ["after"]
