"""An append is whole, ordered, and after the head that its caller expects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.limits import BATCH_RECORDS_MAX
from holdfast.core.log.records import Header, Rewind, User
from holdfast.errors import BadId, BadRecord, HoldfastError, LogConflict
from holdfast.ports import ANY_HEAD
from holdfast.testing.conformance.samples import KEY, message, raises, texts_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.ports import SessionStore


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
