"""Sessions are made once, under an id and for an owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Header, Label, Rewind
from holdfast.core.owners import ANY_OWNER, NO_OWNER, NamedOwner
from holdfast.errors import NoSuchSession, SessionExists
from holdfast.ports import ANY_HEAD
from holdfast.testing.conformance.samples import ABSENT, KEY, OTHER, message, raises, texts_of

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
    store.create(KEY)
    store.append(KEY, [message("kept")], expect=ANY_HEAD)
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
