"""Every record comes back as it was appended, from the beginning or from the end.

Readers that follow a session see every record once, in order, as it is appended.
"""

from __future__ import annotations

import threading
from itertools import islice
from typing import TYPE_CHECKING, Final

from holdfast.core.log.records import Assistant, Rewind, ToolResult, ToolUse, Unknown, User
from holdfast.errors import AmbiguousName, NoSuchRecord, NoSuchSession
from holdfast.ports import ANY_HEAD
from holdfast.testing.conformance.samples import (
    ABSENT,
    KEY,
    OTHER,
    message,
    one_of_each,
    raises,
    texts_of,
    without_metadata,
)

if TYPE_CHECKING:
    from holdfast.core.log.records import Record
    from holdfast.ports import SessionStore


def every_type_of_record_comes_back(store: SessionStore) -> None:
    """All types keep all their fields, known to this version or not."""
    store.create(KEY)
    records = one_of_each()
    done = store.append(KEY, records, expect=ANY_HEAD)
    found = list(store.read(KEY))[1:]
    assert [without_metadata(record) for record in found] == [
        without_metadata(record) for record in records
    ]
    assert tuple(record.id for record in found) == done.ids


def unknown_types_and_fields_are_carried(store: SessionStore) -> None:
    """A record of a type no one here knows is kept, counted and copied like any other."""
    store.create(KEY)
    stranger = Unknown(type="telepathy", extra={"strength": 3, "to": ["you", None]})
    known = User(content="hi", extra={"mood": {"is": "good"}})
    store.append(KEY, [stranger, known], expect=ANY_HEAD)
    store.fork(KEY, OTHER, at=None)
    for key in (KEY, OTHER):
        assert [without_metadata(record) for record in store.last(key, 2)] == [stranger, known]
    assert store.verify(KEY).counts["telepathy"] == 1


def text_of_every_kind_comes_back(store: SessionStore) -> None:
    """Any text survives, but for lone surrogates, which become U+FFFD."""
    store.create(KEY)
    texts = ["", " ", "\n\r\t\0\x18\x7f", "\u2028\u2029\x85", "🏴‍☠️ é é", '"\\/\\u0000', "\ufeff"]
    store.append_each(KEY, [message(text) for text in [*texts, "a\ud83db", "\udc00"]])
    assert texts_of(store.read(KEY)) == [*texts, "a\ufffdb", "\ufffd"]


def a_doubled_call_is_read_once(store: SessionStore) -> None:
    """A `tool_use` record that repeats a call of the message before it shows in `read_all` only."""
    store.create(KEY)
    call = {"type": "tool_use", "id": "call-1", "name": "ls", "input": {}}
    records: list[Record] = [
        message("list"),
        Assistant(content=[call]),
        ToolUse(tool_use_id="call-1", name="ls", input={}),
        ToolResult(tool_use_id="call-1", content="a b"),
    ]
    store.append_each(KEY, records)
    kinds = ["session", "user", "assistant", "tool_result"]
    assert [record.kind for record in store.read(KEY)] == kinds
    assert [record.kind for record in store.live(KEY).records] == kinds
    assert [record.kind for record in store.last(KEY, 2)] == kinds[-2:]
    standings = [entry.standing for entry in store.read_all(KEY)]
    assert standings == ["path", "path", "path", "double", "path"]


def the_newest_records_are_the_end_of_all(store: SessionStore) -> None:
    """`last(n)` is the last n of `read`, for every n from 0 to past the beginning."""
    store.create(KEY)
    store.append_each(KEY, [message(f"{n}") for n in range(12)])
    everything = list(store.read(KEY))
    for count in range(len(everything) + 3):
        assert store.last(KEY, count) == everything[max(0, len(everything) - count) :]


def the_records_before_one_are_the_end_of_what_it_follows(store: SessionStore) -> None:
    """`last(n, before)` is the last n of what `read` shows before that record."""
    store.create(KEY)
    ids = store.append_each(KEY, [message(f"{n}") for n in range(8)]).ids
    store.append_each(KEY, [Rewind(to=ids[5]), message("8"), message("9")])
    everything = list(store.read(KEY))
    for index, record in enumerate(everything):
        for count in range(index + 3):
            newest = everything[max(0, index - count) : index]
            assert store.last(KEY, count, before=record.id) == newest


def the_way_back_is_the_path_from_its_other_end(store: SessionStore) -> None:
    """`back` is what `read` shows, newest first, from the head or from before any record."""
    store.create(KEY)
    ids = store.append_each(KEY, one_of_each()).ids
    call = {"type": "tool_use", "id": "call-1", "name": "ls", "input": {}}
    doubled: list[Record] = [Assistant(content=[call]), ToolUse(tool_use_id="call-1")]
    store.append_each(KEY, [Rewind(to=ids[-2]), *doubled, message("8")])
    everything = list(store.read(KEY))
    assert list(store.back(KEY)) == everything[::-1]
    for index, record in enumerate(everything):
        assert list(store.back(KEY, before=record.id)) == everything[:index][::-1]


def a_session_can_be_read_back_page_by_page(store: SessionStore) -> None:
    """Pages of every size, each before the oldest record of the one before, make up the path."""
    store.create(KEY)
    for number in range(4):
        call = {"type": "tool_use", "id": f"call-{number}", "name": "ls", "input": {}}
        records: list[Record] = [
            message(f"{number}"),
            Assistant(content=[call]),
            ToolUse(tool_use_id=f"call-{number}", name="ls", input={}),
            ToolResult(tool_use_id=f"call-{number}", content="a b"),
        ]
        store.append_each(KEY, records)
    everything = list(store.read(KEY))
    for size in range(1, len(everything) + 2):
        pages = [store.last(KEY, size)]
        while pages[0]:
            pages.insert(0, store.last(KEY, size, before=pages[0][0].id))
        assert [record for page in pages for record in page] == everything


def the_records_before_one_that_is_not_there_are_refused(store: SessionStore) -> None:
    """A record that does not exist, or lies on an abandoned branch, has nothing before it."""
    head = store.create(KEY)
    left = store.append(KEY, [message("left")], expect=ANY_HEAD).head
    store.append(KEY, [Rewind(to=head)], expect=ANY_HEAD)
    for before in (left, left[:-1], "nowhere", ""):
        for count in (0, 1):
            with raises(NoSuchRecord):
                store.last(KEY, count, before=before)
        with raises(NoSuchRecord):
            next(iter(store.back(KEY, before=before)))


def reading_can_start_at_a_record(store: SessionStore) -> None:
    """`read(start)` is the end of `read`, from each record of the path on."""
    store.create(KEY)
    store.append_each(KEY, [message(f"{n}") for n in range(6)])
    everything = list(store.read(KEY))
    for index, record in enumerate(everything):
        assert list(store.read(KEY, start=record.id)) == everything[index:]


def reading_from_a_record_that_is_not_there_fails(store: SessionStore) -> None:
    """A start that does not exist, or lies on an abandoned branch, is an error and not silence."""
    head = store.create(KEY)
    left = store.append(KEY, [message("left")], expect=ANY_HEAD).head
    store.append(KEY, [Rewind(to=head)], expect=ANY_HEAD)
    for start in (left, "nowhere"):
        with raises(NoSuchRecord):
            list(store.read(KEY, start=start))


def a_record_is_found_by_its_id_or_a_prefix(store: SessionStore) -> None:
    """The whole id, or the beginning of just one, finds the record."""
    store.create(KEY)
    ids = ("alpha-1", "alpha-2", "beta-1", "alpha")
    store.append_each(KEY, [message(record_id, id=record_id) for record_id in ids])
    assert texts_of(store.find(KEY, record_id) for record_id in ids) == list(ids)
    assert store.find(KEY, "be").id == "beta-1"
    assert store.find(KEY, KEY.session).kind == "session"


def an_ambiguous_prefix_names_its_candidates(store: SessionStore) -> None:
    """A prefix of several ids is an error that names them; an unknown one suggests the nearest."""
    store.create(KEY)
    ids = ("alpha-1", "alpha-2", "beta-1")
    store.append_each(KEY, [message("x", id=record_id) for record_id in ids])
    with raises(AmbiguousName) as ambiguous:
        store.find(KEY, "alpha")
    assert set(ambiguous[0].candidates) == {"alpha-1", "alpha-2"}
    for missing in ("beta-2", "zzz", ""):
        with raises(NoSuchRecord) as unknown:
            store.find(KEY, missing)
        assert unknown[0].hint
    with raises(NoSuchRecord) as near:
        store.find(KEY, "beta-2")
    assert "beta-1" in (near[0].hint or "")


def a_message_is_found_by_its_key(store: SessionStore) -> None:
    """However old it is and on whichever branch; of several with one key, the newest."""
    head = store.create(KEY)
    assert store.find_message(KEY, "a") is None
    for number in range(3):
        store.append(KEY, [message("x", extra={"key": f"k{number}"})], expect=ANY_HEAD)
        store.append(KEY, [message('"key":"k9"'), message("y")] * 30, expect=ANY_HEAD)
    store.append(KEY, [Rewind(to=head)], expect=ANY_HEAD)
    new = store.append(KEY, [message("z", extra={"key": "k1"})], expect=ANY_HEAD).head
    found = [store.find_message(KEY, f"k{number}") for number in (0, 1, 2, 9)]
    assert [rec is None for rec in found] == [False, False, False, True]
    assert texts_of(rec for rec in found if rec) == ["x", "z", "x"]
    assert found[1] is not None
    assert found[1].id == new


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
