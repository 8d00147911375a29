"""Sessions are made once; an append is whole, ordered, and after the head its caller expects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.limits import BATCH_RECORDS_MAX
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Header, Label, Rewind, User
from holdfast.core.owners import ANY_OWNER, NO_OWNER, NamedOwner
from holdfast.errors import (
    BadId,
    BadRecord,
    HoldfastError,
    LogConflict,
    NoSuchSession,
    SessionExists,
)
from holdfast.ports import ANY_HEAD
from holdfast.testing.conformance.samples import (
    ABSENT,
    KEY,
    OTHER,
    begin,
    message,
    raises,
    texts_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.ports import SessionStore


def a_new_session_is_empty_and_has_a_head(store: SessionStore) -> None:
    """`create` returns the head of a session that holds its header and nothing else."""
    head = store.create(KEY, label="first")
    (header,) = store.read(KEY)
    assert isinstance(header, Header)
    assert (header.id, header.agent, header.label) == (KEY.session, KEY.agent, "first")
    assert header.id == head == store.head(KEY) == store.live(KEY).head
    assert header.ts > 0


def a_new_session_says_where_it_comes_from(store: SessionStore) -> None:
    """The parent session, the parent record and the reason are in the header and the listing."""
    store.create(KEY, parent_session="main/old", parent_record="abc", reason="reset")
    header = next(iter(store.read(KEY)))
    assert isinstance(header, Header)
    found = (header.parent_session, header.parent_record, header.reason)
    assert found == ("main/old", "abc", "reset")
    (info,) = store.sessions(owner=ANY_OWNER)
    assert (info.parent_session, info.reason) == ("main/old", "reset")


def a_new_session_says_whose_it_is(store: SessionStore) -> None:
    """The owner is in the header and the listing; a session made without one has none."""
    store.create(KEY, owner=NamedOwner("ann"))
    store.create(OTHER)
    assert (store.header(KEY).owner, store.header(OTHER).owner) == ("ann", "")
    assert {info.key: info.owner for info in store.sessions(owner=ANY_OWNER)} == {
        KEY: NamedOwner("ann"),
        OTHER: NO_OWNER,
    }


def the_header_is_the_first_record(store: SessionStore) -> None:
    """`header` is what `read` begins with, whatever came after it."""
    head = store.create(
        KEY, label="work", parent_session="main/old", reason="spawn", owner=NamedOwner("ann")
    )
    header = store.header(KEY)
    assert (header.id, header.agent, header.label) == (KEY.session, KEY.agent, "work")
    assert (header.parent_session, header.reason, header.owner) == ("main/old", "spawn", "ann")
    store.append_each(KEY, [message("a"), Label(label="new"), Rewind(to=head), message("b")])
    assert store.header(KEY) == next(iter(store.read(KEY))) == header


def an_id_is_taken_once(store: SessionStore) -> None:
    """A second session with the same id, or one that differs only in case, is refused."""
    begin(store, "kept")
    for session in ("conformance", "CONFORMANCE"):
        with raises(SessionExists):
            store.create(SessionKey("main", session))
    assert texts_of(store.read(KEY)) == ["kept"]


def agents_have_their_own_sessions(store: SessionStore) -> None:
    """The same session id under two agents is two sessions."""
    keys = [SessionKey("one", "same"), SessionKey("two", "same")]
    for key in keys:
        store.create(key)
        store.append(key, [message(key.agent)], expect=ANY_HEAD)
    assert [texts_of(store.read(key)) for key in keys] == [["one"], ["two"]]


def an_unknown_session_is_named_with_its_nearest(store: SessionStore) -> None:
    """Whatever is asked of a session that does not exist, the error suggests one that does."""
    store.create(KEY)
    asks: list[Callable[[], object]] = [
        lambda: store.append(ABSENT, [message("x")], expect=ANY_HEAD),
        lambda: store.append_each(ABSENT, [message("x")]),
        lambda: store.sync(ABSENT),
        lambda: list(store.read(ABSENT)),
        lambda: list(store.read_all(ABSENT)),
        lambda: list(store.read_branch(ABSENT, "x")),
        lambda: store.header(ABSENT),
        lambda: store.last(ABSENT, 1),
        lambda: store.last(ABSENT, 1, before="x"),
        lambda: next(iter(store.back(ABSENT))),
        lambda: store.live(ABSENT),
        lambda: store.head(ABSENT),
        lambda: store.find(ABSENT, "x"),
        lambda: store.branches(ABSENT),
        lambda: store.fork(ABSENT, OTHER, at=None),
        lambda: store.verify(ABSENT),
        lambda: store.remove(ABSENT),
    ]
    for ask in asks:
        with raises(NoSuchSession) as errors:
            ask()
        assert KEY.session in (errors[0].hint or "")
    assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [KEY]


def an_append_gives_back_ids_in_order(store: SessionStore) -> None:
    """Each record gets an id; ids are unique, sort in the order of appending, and name the head."""
    store.create(KEY)
    ids: list[str] = []
    for number in range(5):
        done = store.append(KEY, [message(f"{number}")], expect=ANY_HEAD)
        assert done.head == done.ids[-1] == store.head(KEY)
        ids += done.ids
    ids += store.append(KEY, [message("5"), message("6")], expect=ANY_HEAD).ids
    assert ids == sorted(set(ids))
    assert [record.id for record in store.read(KEY)][1:] == ids
    assert texts_of(store.read(KEY)) == ["0", "1", "2", "3", "4", "5", "6"]


def an_append_of_many_keeps_their_order(store: SessionStore) -> None:
    """A batch is read in the order it was given, with a time on every record."""
    store.create(KEY)
    done = store.append(KEY, [message(f"{n}") for n in range(300)], expect=ANY_HEAD)
    records = list(store.read(KEY))[1:]
    assert tuple(record.id for record in records) == done.ids
    assert texts_of(records) == [f"{n}" for n in range(300)]
    assert all(record.ts > 0 for record in records)


def an_append_of_nothing_changes_nothing(store: SessionStore) -> None:
    """Appending no records returns no ids and the head as it is."""
    head = store.create(KEY)
    for done in (store.append(KEY, [], expect=ANY_HEAD), store.append_each(KEY, [])):
        assert (done.ids, done.head) == ((), head)


def an_append_keeps_the_ids_and_times_it_is_given(store: SessionStore) -> None:
    """A record that comes with an id and a time is stored under them."""
    store.create(KEY)
    done = store.append(KEY, [message("mine", id="my-id.1:x", ts=12.5)], expect=ANY_HEAD)
    assert done.ids == ("my-id.1:x",)
    found = store.find(KEY, "my-id.1:x")
    assert (found.id, found.ts) == ("my-id.1:x", 12.5)


def an_append_after_the_expected_head_succeeds(store: SessionStore) -> None:
    """A caller that has seen the newest head appends after it, turn by turn."""
    head = store.create(KEY)
    for text in ("a", "b", "c"):
        head = store.append(KEY, [message(text)], expect=head).head
    assert texts_of(store.read(KEY)) == ["a", "b", "c"]


def an_append_after_an_old_head_is_refused(store: SessionStore) -> None:
    """When the log has moved on, the error names both heads and the writer; nothing is written."""
    old = store.create(KEY)
    new = store.append(KEY, [message("theirs")], expect=old).head
    with raises(LogConflict) as errors:
        store.append(KEY, [message("ours"), message("ours too")], expect=old)
    error = errors[0]
    assert (error.expected, error.found) == (old, new)
    assert error.writer
    assert all(part in str(error) for part in (old, new, error.writer))
    assert error.hint
    assert texts_of(store.read(KEY)) == ["theirs"]
    assert texts_of(entry.record for entry in store.read_all(KEY)) == ["theirs"]


def a_batch_with_a_bad_record_is_refused_whole(store: SessionStore) -> None:
    """One record that cannot be stored keeps the others of its append out as well."""
    store.create(KEY)
    for bad in (message(object()), message("x", id="../x"), Header(id="x")):
        with raises(HoldfastError):
            store.append(KEY, [message("good"), bad, message("good")], expect=ANY_HEAD)
    assert [entry.record.kind for entry in store.read_all(KEY)] == ["session"]
    store.append(KEY, [message("after")], expect=ANY_HEAD)
    assert texts_of(store.read(KEY)) == ["after"]


def a_batch_has_a_largest_size(store: SessionStore) -> None:
    """More records than a reader can hold open are refused in one append, not in `append_each`."""
    store.create(KEY)
    many = [message("x")] * (BATCH_RECORDS_MAX + 1)
    with raises(BadRecord):
        store.append(KEY, many, expect=ANY_HEAD)
    assert store.head(KEY) == KEY.session


def records_that_stand_for_themselves_are_appended_each(store: SessionStore) -> None:
    """`append_each` stores records in order like so many appends, and needs no expected head."""
    store.create(KEY)
    done = store.append_each(KEY, [message("a"), message("b"), message("c")], durability="buffered")
    store.sync(KEY)
    records = list(store.read(KEY))[1:]
    assert tuple(record.id for record in records) == done.ids
    assert done.head == done.ids[-1] == store.head(KEY)
    assert texts_of(records) == ["a", "b", "c"]


def a_header_cannot_be_appended(store: SessionStore) -> None:
    """A header in the middle of a log is refused, with the way to make a session."""
    store.create(KEY)
    appends: tuple[Callable[[], object], ...] = (
        lambda: store.append(KEY, [Header(id="late")], expect=ANY_HEAD),
        lambda: store.append_each(KEY, [Header(id="late")]),
    )
    for append in appends:
        with raises(BadRecord) as errors:
            append()
        assert "create" in (errors[0].hint or "")


def an_id_is_refused_the_second_time(store: SessionStore) -> None:
    """A retry of an append that had succeeded does not store its record twice."""
    store.create(KEY)
    store.append(KEY, [message("once", id="r1")], expect=ANY_HEAD)
    store.append(KEY, [message("between")], expect=ANY_HEAD)
    for again in ([message("once", id="r1")], [message("x", id="r2"), message("y", id="r2")]):
        with raises(BadRecord) as errors:
            store.append(KEY, again, expect=ANY_HEAD)
        assert again[-1].id in str(errors[0])
    assert texts_of(store.read(KEY)) == ["once", "between"]


def an_id_on_an_abandoned_branch_is_taken_too(store: SessionStore) -> None:
    """An id that was used before a rewind cannot be used again after it."""
    head = store.create(KEY)
    store.append(KEY, [message("left", id="r1")], expect=ANY_HEAD)
    store.append(KEY, [Rewind(to=head)], expect=ANY_HEAD)
    with raises(BadRecord):
        store.append(KEY, [message("again", id="r1")], expect=ANY_HEAD)


def an_id_outside_the_allow_list_is_refused(store: SessionStore) -> None:
    """Record ids are checked before anything is written."""
    store.create(KEY)
    for bad in ("../x", "a b", "@12", "x" * 200, "-x", "a\nb"):
        with raises(BadId):
            store.append(KEY, [message("x", id=bad)], expect=ANY_HEAD)
    assert store.head(KEY) == KEY.session


def what_was_appended_cannot_be_changed(store: SessionStore) -> None:
    """Neither the caller's own objects nor those a reader got lead back into the log."""
    store.create(KEY)
    block = {"type": "text", "text": "as it was"}
    store.append(KEY, [User(content=[block])], expect=ANY_HEAD)
    block["text"] = "changed by the writer"
    for _time in range(2):
        record = list(store.read(KEY))[-1]
        assert isinstance(record, User)
        assert record.content == [{"type": "text", "text": "as it was"}]
        assert isinstance(record.content, list)
        record.content[0]["text"] = "changed by a reader"
