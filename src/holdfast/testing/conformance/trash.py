"""A removed session can be restored until the trash is emptied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.owners import ANY_OWNER
from holdfast.errors import NoSuchSession, SessionExists, UsageError
from holdfast.ports import ANY_HEAD
from holdfast.testing.conformance.samples import KEY, OTHER, message, raises, texts_of

if TYPE_CHECKING:
    from holdfast.ports import SessionStore


def a_removed_session_can_be_restored(store: SessionStore) -> None:
    """A removed session is in the trash and nowhere else; restored, it is what it was."""
    store.create(KEY, label="work")
    store.append(KEY, [message("a")], expect=ANY_HEAD)
    before = list(store.read(KEY))
    trashed = store.remove(KEY)
    assert trashed.key == KEY
    assert store.trash() == [trashed]
    assert store.sessions(owner=ANY_OWNER) == []
    with raises(NoSuchSession):
        store.head(KEY)
    assert store.restore(trashed.name) == KEY
    assert store.trash() == []
    assert list(store.read(KEY)) == before
    store.append(KEY, [message("b")], expect=before[-1].id)
    assert texts_of(store.read(KEY)) == ["a", "b"]


def a_session_can_be_restored_by_its_id(store: SessionStore) -> None:
    """The trash knows sessions by id and by agent and id; an unknown name is an error."""
    store.create(KEY)
    for name in (KEY.session, str(KEY)):
        store.remove(KEY)
        assert store.restore(name) == KEY
    with raises(UsageError) as errors:
        store.restore("never-was")
    assert errors[0].hint


def a_restored_session_takes_nobodys_place(store: SessionStore) -> None:
    """While the id is taken again, the trashed session stays in the trash."""
    store.create(KEY)
    store.append(KEY, [message("old")], expect=ANY_HEAD)
    trashed = store.remove(KEY)
    store.create(KEY)
    store.append(KEY, [message("new")], expect=ANY_HEAD)
    with raises(SessionExists):
        store.restore(trashed.name)
    assert texts_of(store.read(KEY)) == ["new"]
    assert store.trash() == [trashed]


def the_trash_keeps_every_session_of_a_name(store: SessionStore) -> None:
    """Sessions removed one after the other under the same id are all kept."""
    names = set()
    for text in ("one", "two", "three"):
        store.create(KEY)
        store.append(KEY, [message(text)], expect=ANY_HEAD)
        names.add(store.remove(KEY).name)
    assert {trashed.name for trashed in store.trash()} == names
    assert len(names) == 3
    found = set()
    for name in names:
        store.restore(name)
        found.update(texts_of(store.read(KEY)))
        store.remove(KEY)
    assert found == {"one", "two", "three"}


def the_trash_is_emptied_on_request(store: SessionStore) -> None:
    """Only what is older than asked for is deleted, and only from the trash."""
    store.create(KEY)
    store.create(OTHER)
    trashed = store.remove(KEY)
    assert store.empty_trash(older_than_seconds=3_600.0) == []
    assert store.trash() == [trashed]
    assert store.empty_trash() == [trashed]
    assert store.trash() == []
    assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [OTHER]
    with raises(UsageError):
        store.restore(trashed.name)


def an_id_is_free_again_after_removal(store: SessionStore) -> None:
    """A new session under the id of a removed one starts empty."""
    store.create(KEY)
    store.append(KEY, [message("old", id="r1")], expect=ANY_HEAD)
    store.remove(KEY)
    head = store.create(KEY)
    store.append(KEY, [message("new", id="r1")], expect=head)
    assert texts_of(store.read(KEY)) == ["new"]
