"""A store says where it is, exports and repairs sessions, and cleans up after killed processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.log.batch import new_header
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import SEAL, decode, encode
from holdfast.core.owners import NamedOwner
from holdfast.errors import LogGrown, NoSuchSession, SessionExists
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


def a_log_can_be_extended_as_it_is(store: SessionStore) -> None:
    """Lines of another log, damaged ones too, are kept byte for byte, and records follow them."""
    lines = _foreign_log()
    end = 0
    for line in lines:
        store.extend_log(KEY, line, at=end)
        end += len(line)
    assert b"".join(store.export(KEY)) == b"".join(lines)
    assert texts_of(store.read(KEY)) == ["one", "two"]
    info = store.info(KEY)
    assert (info.bytes, info.head, info.owner, info.label) == (end, "a2", NamedOwner("ann"), "mine")
    assert (info.records, info.messages, info.damaged) == (3, 2, 1)
    at = end - len(lines[-1])
    assert store.find(KEY, f"@{at}").id == "a2"  # a position is the byte offset, on every store
    appended = store.append(KEY, [message("three"), message("four")], expect="a2")
    assert texts_of(store.read(KEY)) == ["one", "two", "three", "four"]
    assert store.head(KEY) == appended.head
    assert b"".join(store.export(KEY)).startswith(b"".join(lines))


def a_log_is_extended_at_its_end_only(store: SessionStore) -> None:
    """Nothing is written anywhere else, so that two copies cannot mix."""
    lines = _foreign_log()
    store.extend_log(KEY, lines[0], at=0)
    for at in (0, len(lines[0]) - 1, len(lines[0]) + 1):
        with raises(LogGrown) as caught:
            store.extend_log(KEY, lines[-1], at=at)
        assert (caught[0].expected, caught[0].found) == (at, len(lines[0]))
    assert b"".join(store.export(KEY)) == lines[0]
    with raises(NoSuchSession):
        store.extend_log(OTHER, lines[0], at=1)
    with raises(SessionExists):
        store.extend_log(SessionKey(KEY.agent, KEY.session.upper()), lines[0], at=0)
    assert list(store.keys()) == [KEY]


def a_log_of_another_tool_can_be_extended(store: SessionStore) -> None:
    """A log that cannot be appended to, because its format is a newer one, is still copied."""
    newer = new_header(KEY, now=1.0)
    header = encode(msgspec.structs.replace(newer, version=newer.version + 1)) + b"\n"
    line = encode(message("one", id="a1", ts=2.0)) + b"\n"
    store.extend_log(KEY, header, at=0)
    store.extend_log(KEY, line, at=len(header))
    assert b"".join(store.export(KEY)) == header + line


def _foreign_log() -> list[bytes]:
    """Return the lines of a log with everything that a damaged one can have."""
    header = new_header(KEY, now=1.0, label="mine", owner="ann")
    one, two = message("one", id="a1", ts=2.0), message("two", id="a2", ts=3.0)
    seal = bytes([SEAL]) + b"\n"
    return [
        *(encode(header) + b"\n", b"\n", b" \t\r\n", encode(one) + b"\n"),
        *(b"no json \xff\x00\n", seal, b"  " + encode(two) + b"\n"),
    ]


def a_store_tells_its_room_or_that_it_cannot(store: SessionStore) -> None:
    """`disk_use` is None, or it counts bytes once something is stored."""
    store.create(KEY)
    store.append(KEY, [message("a")], expect=ANY_HEAD)
    use = store.disk_use()
    if use is not None:
        assert use.bytes > 0
        assert use.free is None or use.free >= 0
