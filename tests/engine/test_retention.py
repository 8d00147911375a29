"""Sessions that a rule lets go are in the trash, and nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast import JsonlStore, SessionKey, User
from holdfast.core.owners import ANY_OWNER, NO_OWNER, NamedOwner, owner_of
from holdfast.core.retention import DAY_SECONDS, Retention, RetentionRule
from holdfast.engine import retention
from holdfast.engine.retention import apply_retention, apply_rule
from holdfast.errors import NoSuchSession
from holdfast.ports import NewMessage
from holdfast.stores import ANY_HEAD, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.core.owners import Owner
    from holdfast.ports import SessionStore


class Days:
    """A clock that counts days."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, days: float) -> None:
        self.now += days * DAY_SECONDS


@pytest.fixture
def days() -> Days:
    return Days()


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path, days: Days) -> Iterator[SessionStore]:
    made = JsonlStore(tmp_path, clock=days) if request.param == "files" else MemoryStore(clock=days)
    with made as store:
        yield store


def live(store: SessionStore, days: Days) -> None:
    """A session each day for ten days, of ann, bob and nobody in turn."""
    owners: tuple[Owner, ...] = (NamedOwner("ann"), NamedOwner("bob"), NO_OWNER)
    for number in range(10):
        days.pass_(1)
        key = SessionKey("main", f"s{number}")
        store.create(key, owner=owners[number % 3])
        store.append(key, [User(content=f"words {number} " * 10)], expect=ANY_HEAD)


def ids(store: SessionStore) -> set[str]:
    return {info.key.session for info in store.sessions(owner=ANY_OWNER)}


def everything(store: SessionStore) -> list[object]:
    return [store.sessions(owner=ANY_OWNER), store.trash(), store.audit.entries().accesses]


def test_old_sessions_go_to_the_trash_and_come_back(store: SessionStore, days: Days) -> None:
    """Oldest and newest are told by the newest record; a dry run says what the run does."""
    live(store, days)
    store.append(SessionKey("main", "s0"), [User(content="again")], expect=ANY_HEAD)
    before, rule = everything(store), RetentionRule(days=4.5)
    planned = apply_rule(store, rule, owner=ANY_OWNER, is_dry_run=True, clock=days)
    assert everything(store) == before
    done = apply_rule(store, rule, owner=ANY_OWNER, clock=days)
    assert (
        [(each.id, each.why) for each in done]
        == [(f"s{number}", "age") for number in (5, 4, 3, 2, 1)[1:]]
        == [(each.id, each.why) for each in planned]
    )
    assert ids(store) == {"s0", "s5", "s6", "s7", "s8", "s9"}
    removed = [one for one in store.audit.entries().accesses if one.action == "remove"]
    assert [one.target for one in removed] == [f"main/{each.id}" for each in done]
    assert all(one.is_allowed and one.reason.startswith("retention") for one in removed)
    assert apply_rule(store, rule, owner=ANY_OWNER, clock=days) == []
    for each in done:
        store.restore(each.name)
    assert len(ids(store)) == 10
    [words] = [record for record in store.read(SessionKey("main", "s1")) if record.kind == "user"]
    assert words.content == "words 1 " * 10  # type: ignore[union-attr]


def test_each_owner_has_the_room(store: SessionStore, days: Days) -> None:
    """The newest of each owner stay; what others have takes none of it."""
    live(store, days)
    size = max(info.bytes for info in store.sessions(owner=ANY_OWNER))
    done = apply_rule(store, RetentionRule(bytes=2 * size), owner=ANY_OWNER, clock=days)
    assert {(each.id, each.why) for each in done} == {
        *(("s0", "size"), ("s1", "size"), ("s2", "size"), ("s3", "size")),
    }
    assert apply_rule(store, RetentionRule(bytes=0), owner=NamedOwner("bob"), clock=days)
    assert {info.owner for info in store.sessions(owner=ANY_OWNER)} == {NamedOwner("ann"), NO_OWNER}


def test_an_owner_may_have_another_rule(store: SessionStore, days: Days) -> None:
    """It takes the place of the common one, and what is in the trash for long is deleted."""
    live(store, days)
    rules = Retention(
        days=2.5,
        owners={"ann": RetentionRule(days=8.5), "": RetentionRule()},
        trash_days=5,
    )
    apply_retention(store, rules, clock=days)
    ann, bob, nobody = {"s3", "s6", "s9"}, {"s7"}, {"s2", "s5", "s8"}
    assert ids(store) == ann | bob | nobody
    days.pass_(4)
    apply_retention(store, Retention(trash_days=5), clock=days)
    assert {trashed.key.session for trashed in store.trash()} == {"s0", "s1", "s4"}
    days.pass_(2)
    apply_retention(store, Retention(trash_days=5), clock=days)
    assert store.trash() == []
    assert ids(store) == ann | bob | nobody


def test_what_is_in_use_stays(store: SessionStore, days: Days) -> None:
    """A turn that runs, a message or a timer ahead, and a record that came meanwhile."""
    live(store, days)
    token = store.leases.acquire(SessionKey("main", "s0"), "a turn", 1e9)
    for queue, session in (("inbox", "main/s1"), ("timers", "main/s2")):
        store.queues.put(
            NewMessage(queue=queue, lane=session, key="k", body={}, owner="", session=session)
        )
    days.pass_(100)
    rule = RetentionRule(days=1)
    assert {each.id for each in apply_rule(store, rule, owner=ANY_OWNER, clock=days)} == {
        f"s{number}" for number in range(3, 10)
    }
    store.leases.release(SessionKey("main", "s0"), token)
    info = store.info(SessionKey("main", "s0"))
    store.append(info.key, [User(content="back again")], expect=ANY_HEAD)
    assert retention._remove(store, info) is None
    assert ids(store) == {"s0", "s1", "s2"}
    store.remove(info.key)
    assert retention._remove(store, info) is None
    with pytest.raises(NoSuchSession):
        store.info(info.key)


@pytest.mark.files_only("it damages a file")
def test_what_nobody_knows_the_owner_of_stays(tmp_path: Path, days: Days) -> None:
    with JsonlStore(tmp_path, clock=days) as store:
        live(store, days)
        path = tmp_path / "agents" / "main" / "sessions" / "s4.jsonl"
        path.write_bytes(b"x" + path.read_bytes())
        days.pass_(100)
        apply_rule(store, RetentionRule(days=1, bytes=0), owner=ANY_OWNER, clock=days)
        assert ids(store) == {"s4"}


def test_a_rule_by_age_lists_the_old_ones_alone(
    store: SessionStore, days: Days, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two new sessions or eight: the same are listed."""
    live(store, days)
    seen: list[str] = []
    listing = store.sessions

    def spy(**asked: object) -> object:
        found = listing(**asked)  # type: ignore[arg-type]
        seen.extend(info.key.session for info in found)
        return found

    monkeypatch.setattr(store, "sessions", spy)
    apply_rule(store, RetentionRule(days=7.5), owner=owner_of("ann"), clock=days)
    assert seen == ["s9", "s0"]
