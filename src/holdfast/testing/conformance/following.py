"""Readers that follow a session see every record once, in order, as it is appended."""

from __future__ import annotations

import threading
from itertools import islice
from typing import TYPE_CHECKING, Final

from holdfast.core.log.records import Rewind
from holdfast.errors import NoSuchRecord, NoSuchSession
from holdfast.ports import ANY_HEAD
from holdfast.testing.conformance.samples import (
    ABSENT,
    KEY,
    message,
    one_of_each,
    raises,
    texts_of,
)

if TYPE_CHECKING:
    from holdfast.core.log.records import Record
    from holdfast.ports import SessionStore

_LONG: Final = 60.0
"""Seconds that nothing here takes."""


def following_begins_after_a_record(store: SessionStore) -> None:
    """With an id, everything after that record comes; without one, what is appended from now on."""
    store.create(KEY)
    ids = store.append(KEY, [message(str(n)) for n in range(4)], expect=ANY_HEAD).ids
    for place, record_id in enumerate(ids):
        found = list(store.follow(KEY, record_id, idle_seconds=0))
        assert [record.id for record in found] == list(ids[place + 1 :])
    assert len(list(store.follow(KEY, KEY.session, idle_seconds=0))) == len(ids)
    assert list(store.follow(KEY, idle_seconds=0)) == []
    later = store.follow(KEY, idle_seconds=0)
    store.append(KEY, [message("new")], expect=ANY_HEAD)
    assert texts_of(later) == ["new"]
    with raises(NoSuchSession):
        store.follow(ABSENT)
    with raises(NoSuchRecord):
        store.follow(KEY, "nothing")


def following_shows_records_as_they_are_stored(store: SessionStore) -> None:
    """Records of every type come as `read_all` shows them; a rewind does not hide a branch."""
    store.create(KEY)
    follower = store.follow(KEY, idle_seconds=_LONG)
    seen: list[Record] = []
    for records in ([record] for record in one_of_each()):
        store.append(KEY, records, expect=ANY_HEAD)
        seen += islice(follower, 1)
    store.append(KEY, [Rewind(to=seen[0].id), message("elsewhere")], expect=ANY_HEAD)
    seen += islice(follower, 2)
    assert seen == [entry.record for entry in store.read_all(KEY)][1:]


def followers_see_what_threads_append(store: SessionStore) -> None:
    """Several readers wait while several writers append; each sees everything, in one order."""
    store.create(KEY)
    writers, appends = 3, 20
    followers = [store.follow(KEY, idle_seconds=_LONG) for _ in range(2)]
    seen: list[list[str]] = [[] for _ in followers]

    def read(place: int) -> None:
        seen[place] += (rec.id for rec in islice(followers[place], 2 * writers * appends))

    def write() -> None:
        for _ in range(appends):
            store.append(KEY, [message("a"), message("b")], expect=ANY_HEAD)

    threads = [threading.Thread(target=read, args=(place,)) for place in range(len(followers))]
    threads += [threading.Thread(target=write) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_LONG)
    expected = [record.id for record in store.read(KEY)][1:]
    assert len(expected) == 2 * writers * appends
    assert seen == [expected, expected]


def a_follower_stops_when_told(store: SessionStore) -> None:
    """A reader that waits ends when `stop` is set, and raises when the session is removed."""
    store.create(KEY)
    stop = threading.Event()
    waiting = threading.Thread(target=lambda: list(store.follow(KEY, stop=stop)))
    waiting.start()
    stop.set()
    waiting.join(_LONG)
    assert not waiting.is_alive()
    follower = store.follow(KEY, idle_seconds=_LONG)
    store.remove(KEY)
    with raises(NoSuchSession):
        next(follower)
