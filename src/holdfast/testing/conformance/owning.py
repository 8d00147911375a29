"""No caller sees what is another's: each gets their own, what has no owner is for a caller without
one, and everything is for a caller that asks for every owner.

`ASKS` has every operation of a store that asks whose. A test compares it with the ports, so that a
new one is walked as well.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.core.log.ids import SessionKey
from holdfast.core.owners import ANY_OWNER, NO_OWNER, AnyOwner, NamedOwner, owner_of, owner_text
from holdfast.core.queues import NewMessage
from holdfast.errors import NoSuchSession
from holdfast.testing.conformance.samples import KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.owners import FoundOwner, Owner, OwnerFilter
    from holdfast.ports import SessionStore

PEOPLE: Final[tuple[Owner, ...]] = (NamedOwner("ann"), NamedOwner("an"), NO_OWNER)
"""Two people, one of whose names begins with the other's, and no one."""
_QUEUE: Final = "inbox"
_MESSAGES: Final = (1, 2, 4)
"""Numbers of messages, by which a count tells whose they are."""


def whoever_asks_gets_their_own(store: SessionStore) -> None:
    """Every operation that asks whose: no other owner's things are seen, found or taken, also not
    those without an owner."""
    _fill(store, PEOPLE)
    everybody: set[FoundOwner] = set(PEOPLE)
    for name, ask in ASKS.items():
        for person in PEOPLE:
            assert ask(store, person) == {person}, (name, person)
        if name not in NARROW:
            assert ask(store, ANY_OWNER) == everybody, name


def what_is_erased_of_one_owner_stays_of_the_others(store: SessionStore) -> None:
    """An id that three people used one after the other: only the logs of one are taken."""
    filters: tuple[OwnerFilter, ...] = (*PEOPLE, ANY_OWNER)
    for number, wanted in enumerate(filters):
        key = SessionKey("main", f"used-by-all-{number}")
        _use_by_all(store, key)
        store.begin_erasure(key, owner=wanted)
        store.finish_erasure(key)
        left: set[Owner] = set()
        with suppress(NoSuchSession):
            left |= store.erasable(key, owner=ANY_OWNER).owners
        gone = set(PEOPLE) if isinstance(wanted, AnyOwner) else {wanted}
        assert left == set(PEOPLE) - gone, wanted


def copies_of_a_session_are_found(store: SessionStore) -> None:
    """Sessions that were made from it, and those of an unknown owner; no others."""
    for number in range(3):
        store.create(SessionKey("main", f"other-{number}"), parent_session="main/elsewhere")
    store.create(KEY, owner=PEOPLE[0])
    fork, spawned = SessionKey("main", "fork"), SessionKey("helper", "spawned")
    store.fork(KEY, fork, at=None)
    store.create(spawned, parent_session=str(KEY), reason="spawn")
    unknown = SessionKey("main", "damaged")
    store.extend_log(unknown, b'{"type": "session", damaged}\n', at=0)
    found = {info.key: info for info in store.possible_copies([str(KEY), "main/none"])}
    assert found.keys() == {fork, spawned, unknown}
    assert found[fork] == store.info(fork)
    assert [info.key for info in store.possible_copies([])] == [unknown]


def messages_of_one_owner_are_erased_alone(store: SessionStore) -> None:
    """Messages of the others stay, also those without an owner."""
    _fill(store, PEOPLE)
    for person in PEOPLE[:2]:
        assert isinstance(person, NamedOwner)
        before = _owners_of_messages(store, ANY_OWNER)
        assert store.queues.erase(person) > 0
        assert _owners_of_messages(store, ANY_OWNER) == before - {person}


def _fill(store: SessionStore, people: Sequence[Owner]) -> None:
    """Give each of the people a session, messages and notes, and an id that they all used."""
    _use_by_all(store, KEY)
    for person, number in zip(people, _MESSAGES, strict=True):
        store.create(_trash_of(person), owner=person)
        store.remove(_trash_of(person))
        key = SessionKey("main", f"session-of-{_name(person)}")
        store.create(key, owner=person, label="work")
        store.notes("main", person).append(f"a note of {_name(person)}")
        for count in range(number):
            store.queues.put(
                NewMessage(
                    queue=_QUEUE,
                    lane=str(key),
                    key=f"message-{count}",
                    body={},
                    owner=owner_text(person),
                    session=str(key),
                )
            )


def _trash_of(person: Owner) -> SessionKey:
    return SessionKey("main", f"removed-of-{_name(person)}")


def _use_by_all(store: SessionStore, key: SessionKey) -> None:
    """Make and remove a session of this id for each of the people; the last one stays."""
    for person in PEOPLE:
        if person != PEOPLE[0]:
            store.remove(key)
        store.create(key, owner=person)


def _owners_of_messages(store: SessionStore, wanted: OwnerFilter) -> set[FoundOwner]:
    return {owner_of(message.owner) for message in store.queues.messages(owner=wanted)}


def _create(store: SessionStore, owner: OwnerFilter) -> set[FoundOwner]:
    assert not isinstance(owner, AnyOwner)
    key = SessionKey("other", f"made-for-{_name(owner)}")
    store.create(key, owner=owner)
    return {owner_of(store.header(key).owner), store.info(key).owner}


def _count(store: SessionStore, wanted: OwnerFilter) -> set[FoundOwner]:
    total = store.queues.counts(_QUEUE, owner=wanted).get("waiting", 0)
    return {person for person, number in zip(PEOPLE, _MESSAGES, strict=True) if total & number}


def _find(store: SessionStore, owner: OwnerFilter) -> set[FoundOwner]:
    assert not isinstance(owner, AnyOwner)
    message = store.queues.find(_QUEUE, owner, "message-0")
    return set() if message is None else {owner_of(message.owner)}


def _read_notes(store: SessionStore, owner: OwnerFilter) -> set[FoundOwner]:
    assert not isinstance(owner, AnyOwner)
    seen = {note.text for note in store.notes("main", owner).notes()}
    return {person for person in PEOPLE if f"a note of {_name(person)}" in seen}


def _name(person: Owner) -> str:
    return owner_text(person) or "nobody"


ASKS: Final[dict[str, Callable[[SessionStore, OwnerFilter], set[FoundOwner]]]] = {
    "SessionCatalogue.create": _create,
    "SessionCatalogue.sessions": lambda store, wanted: {
        info.owner for info in store.sessions(agent="main", owner=wanted)
    },
    "SessionStore.sessions_since": lambda store, wanted: {
        info.owner for info in store.sessions_since("", owner=wanted).infos
    },
    "SessionEraser.erasable": lambda store, wanted: {*store.erasable(KEY, owner=wanted).owners},
    "SessionEraser.trash_keys": lambda store, wanted: {
        person for person in PEOPLE if _trash_of(person) in store.trash_keys(owner=wanted)
    },
    "MovableMessages.copies": lambda store, wanted: {
        owner_of(message.owner) for message in store.queues.copies(owner=wanted)
    },
    "Queues.messages": _owners_of_messages,
    "Queues.counts": _count,
    "Queues.find": _find,
    "SideStores.notes": _read_notes,
}
"""The owners that an operation shows, for each that asks whose."""
NARROW: Final = frozenset({"SessionCatalogue.create", "Queues.find", "SideStores.notes"})
"""Those that are about one owner, and cannot be asked for all of them."""
ERASES: Final = frozenset({"SessionEraser.begin_erasure", "Queues.erase", "SpendingLedger.erase"})
"""Those that take something away; each has a check of its own."""
