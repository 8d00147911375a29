"""A removed session can be restored until the trash is emptied.

One that is erased leaves nothing, and one that is being erased cannot come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.log.records import Label, OutputRef, ToolResult
from holdfast.core.owners import ANY_OWNER, NamedOwner
from holdfast.errors import NoSuchSession, SessionExists, UsageError
from holdfast.ports import ANY_HEAD
from holdfast.testing.conformance.samples import KEY, OTHER, begin, message, raises, texts_of

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
    begin(store, "old")
    trashed = store.remove(KEY)
    begin(store, "new")
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


def an_erasure_that_has_begun_hides_the_session(store: SessionStore) -> None:
    """No listing, trash or reader shows it, nothing restores it, and the id can be used again."""
    store.create(KEY, label="work")
    store.append(KEY, [message("old")], expect=ANY_HEAD)
    trashed = store.remove(KEY)
    store.create(KEY)
    store.begin_erasure(KEY, owner=ANY_OWNER)
    assert store.erasures() == [KEY]
    assert store.sessions(owner=ANY_OWNER) == []
    assert store.trash() == []
    assert list(store.keys()) == []
    with raises(NoSuchSession):
        store.head(KEY)
    with raises(UsageError):
        store.restore(trashed.name)
    begin(store, "new")
    store.finish_erasure(KEY)
    assert store.erasures() == []
    assert texts_of(store.read(KEY)) == ["new"]


def an_erasure_can_be_begun_again(store: SessionStore) -> None:
    """After a crash both steps are repeated; what is not there is no error."""
    store.create(KEY)
    store.create(OTHER)
    store.begin_erasure(KEY, owner=ANY_OWNER)
    store.begin_erasure(KEY, owner=ANY_OWNER)
    assert store.erasable(KEY, owner=ANY_OWNER).logs == 1
    store.finish_erasure(KEY)
    store.finish_erasure(KEY)
    with raises(NoSuchSession):
        store.erasable(KEY, owner=ANY_OWNER)
    assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [OTHER]


def an_erasure_knows_what_it_takes(store: SessionStore) -> None:
    """Every log of a key counts, living, removed or half erased, with its labels and owner."""
    store.create(KEY, label="first", owner=NamedOwner("ann"))
    store.append(KEY, [Label(label="second"), Label(label="")], expect=ANY_HEAD)
    size = store.erasable(KEY, owner=ANY_OWNER).bytes
    assert size > 0
    for step in (
        lambda: None,
        lambda: store.remove(KEY),
        lambda: store.begin_erasure(KEY, owner=ANY_OWNER),
    ):
        step()
        found = store.erasable(KEY, owner=ANY_OWNER)
        assert (found.key, found.logs, found.bytes) == (KEY, 1, size)
        assert found.owners == {NamedOwner("ann")}
        assert found.names == {KEY.session, str(KEY), "first", "second"}


def trash_keys_are_known_by_owner_and_origin(store: SessionStore) -> None:
    """In the trash and in erasures that began; a session that is there is in neither."""
    ann, bob = NamedOwner("ann"), NamedOwner("bob")
    store.create(KEY, owner=ann)
    store.create(OTHER, owner=bob, reason="repair", parent_session=str(KEY))
    assert store.trash_keys(owner=ANY_OWNER) == set()
    for is_begun in (False, True):
        for key in (KEY, OTHER):
            if is_begun:
                store.begin_erasure(key, owner=ANY_OWNER)
            else:
                store.remove(key)
        for _again in range(2):
            assert store.trash_keys(owner=ANY_OWNER) == {KEY, OTHER}
            assert store.trash_keys(owner=ann) == {KEY}
            assert store.trash_keys(owner=bob, repaired_from=[str(KEY)]) == {OTHER}
            assert store.trash_keys(owner=ann, repaired_from=[str(KEY)]) == set()
            assert store.trash_keys(owner=ANY_OWNER, repaired_from=[str(OTHER)]) == set()
    store.finish_erasure(OTHER)
    assert store.trash_keys(owner=ANY_OWNER) == {KEY}


def an_erasure_can_be_of_one_owner(store: SessionStore) -> None:
    """An id that was used by two people: only the logs of one are taken."""
    store.create(KEY, owner=NamedOwner("ann"))
    trashed = store.remove(KEY)
    store.create(KEY, owner=NamedOwner("bob"))
    with raises(NoSuchSession):
        store.erasable(KEY, owner=NamedOwner("eve"))
    assert store.erasable(KEY, owner=ANY_OWNER).logs == 2
    assert store.erasable(KEY, owner=NamedOwner("ann")).logs == 1
    store.begin_erasure(KEY, owner=NamedOwner("ann"))
    store.finish_erasure(KEY)
    assert store.trash() == []
    assert trashed.key == KEY
    assert store.header(KEY).owner == "bob"


def hashes_are_known_by_session(store: SessionStore) -> None:
    """Of a key, of all others, and of every log that is not being erased."""
    shared, own, other = (store.blobs.put(data) for data in (b"shared", b"own", b"other"))
    for key, hashes in ((KEY, (shared, own)), (OTHER, (shared, other))):
        store.create(key)
        refs = [OutputRef(sha256=sha256, bytes=1, kind="text") for sha256 in hashes]
        records = [ToolResult(tool_use_id="c", content="x", output_ref=ref) for ref in refs]
        store.append(key, records, expect=ANY_HEAD)
    assert set(store.hash_candidates(of=KEY)) >= {shared, own}
    assert other not in set(store.hash_candidates(of=KEY))
    assert own not in set(store.hash_candidates(besides=KEY))
    assert set(store.hash_candidates()) >= {shared, own, other}
    store.remove(KEY)
    assert set(store.hash_candidates()) >= {shared, own, other}
    store.begin_erasure(KEY, owner=ANY_OWNER)
    assert set(store.hash_candidates(of=KEY)) >= {shared, own}
    assert own not in set(store.hash_candidates())
    assert set(store.blobs) == {shared, own, other}
    assert store.blobs.discard([own, "0" * 64]) == [own]
    assert own not in store.blobs
    assert store.blobs.get(shared) == b"shared"
