"""A store says where it is, exports and repairs sessions, and cleans up after killed processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.log.batch import new_header
from holdfast.core.log.records import decode
from holdfast.errors import NoSuchSession
from holdfast.ports import ANY_HEAD
from holdfast.testing.conformance.samples import (
    ABSENT,
    KEY,
    OTHER,
    message,
    one_of_each,
    raises,
    texts_of,
)

if TYPE_CHECKING:
    from holdfast.core.log.records import Record
    from holdfast.ports import SessionStore


def a_store_says_where_it_is(store: SessionStore) -> None:
    """It has a place, and so has each session; neither needs to exist to be named."""
    assert store.describe()
    places = {store.describe(), store.describe(KEY), store.describe(OTHER)}
    assert len(places) == 3
    assert isinstance(store.caveat, str)
    assert store.local_folder is None or store.local_folder


def an_export_is_the_log(store: SessionStore) -> None:
    """An export has every record, abandoned ones too, one a line, and is the same every time."""
    store.create(KEY)
    first = store.append(KEY, [message("a"), *one_of_each()], expect=ANY_HEAD).ids[0]
    store.append(KEY, [message("left")], expect=ANY_HEAD)
    store.append(KEY, [message("right", parent=first)], expect=ANY_HEAD)
    data = b"".join(store.export(KEY))
    assert data.endswith(b"\n")
    assert [decode(line) for line in data.splitlines()] == [
        entry.record for entry in store.read_all(KEY)
    ]
    assert b"".join(store.export(KEY)) == data
    with raises(NoSuchSession):
        list(store.export(ABSENT))


def a_repaired_copy_is_sound(store: SessionStore) -> None:
    """The copy has every intact record under a new id; the damaged session is left as it is."""
    broken: list[Record] = [
        new_header(KEY, now=1.0, label="mine", owner="ann"),
        message("one", id="a1", ts=2.0),
        message("two", id="a1", ts=3.0),
        message("three", id="a3", ts=4.0, parent="gone"),
    ]
    store.create_log(KEY, broken)
    before = b"".join(store.export(KEY))
    assert store.verify(KEY).findings
    repaired = store.repair(KEY)
    assert repaired.findings == store.verify(KEY).findings
    assert b"".join(store.export(KEY)) == before
    assert repaired.key.agent == KEY.agent
    assert store.verify(repaired.key).findings == ()
    assert texts_of(store.read(repaired.key)) == ["one", "two", "three"]
    assert repaired.records == 3
    header = store.header(repaired.key)
    assert (header.owner, header.reason, header.parent_session) == ("ann", "repair", str(KEY))
    assert store.repair(KEY).key not in (KEY, repaired.key)
    with raises(NoSuchSession):
        store.repair(ABSENT)


def a_sweep_takes_nothing_that_is_used(store: SessionStore) -> None:
    """After a sweep of the store and its blobs, everything is as it was."""
    store.create(KEY)
    store.append(KEY, [message("a")], expect=ANY_HEAD)
    sha256 = store.blobs.put(b"payload")
    store.notes("main").append("a note")
    before = b"".join(store.export(KEY))
    assert store.sweep() == []
    assert store.blobs.sweep() == []
    assert b"".join(store.export(KEY)) == before
    assert store.blobs.get(sha256) == b"payload"
    assert [note.text for note in store.notes("main").notes()] == ["a note"]
