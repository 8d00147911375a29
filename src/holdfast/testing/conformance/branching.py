"""Rewinds and forks move the head and lose nothing.

The live part of a session begins at the newest compaction that counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Compaction, Header, Label, Rewind, Undo, User
from holdfast.core.log.replay import META
from holdfast.core.owners import ANY_OWNER, NamedOwner
from holdfast.core.window import ANY_WINDOW, Window
from holdfast.errors import NoSuchRecord, SessionExists
from holdfast.ports import ANY_HEAD
from holdfast.testing.conformance.samples import (
    KEY,
    OTHER,
    begin,
    message,
    raises,
    text_of,
    texts_of,
)

if TYPE_CHECKING:
    from holdfast.core.log.records import Record
    from holdfast.ports import SessionStore


def a_rewind_moves_the_head_and_loses_nothing(store: SessionStore) -> None:
    """After a rewind the path is the one to its target; the records it left are still there."""
    _a, b, _c = begin(store, "a", "b", "c")
    done = store.append(KEY, [Rewind(to=b, reason="wrong turn")], expect=ANY_HEAD)
    assert store.head(KEY) == done.head
    assert store.is_head(KEY, done.head)
    assert texts_of(store.read(KEY)) == ["a", "b"]
    store.append(KEY, [message("d")], expect=done.head)
    assert not store.is_head(KEY, done.head)
    assert texts_of(store.read(KEY)) == ["a", "b", "d"]
    assert texts_of(store.last(KEY, 99)) == ["a", "b", "d"]
    assert texts_of(store.live(KEY).records) == ["a", "b", "d"]
    standings = {text_of(entry.record): entry.standing for entry in store.read_all(KEY)}
    assert standings["c"] == "branch"
    assert [standings[text] for text in "abd"] == ["path"] * 3


def a_rewind_can_be_rewound(store: SessionStore) -> None:
    """A rewind to a record of an abandoned branch makes that branch the path again."""
    head = store.create(KEY)
    a, b = store.append_each(KEY, [message("a"), message("b")]).ids
    store.append(KEY, [Rewind(to=a)], expect=ANY_HEAD)
    c = store.append(KEY, [message("c")], expect=ANY_HEAD).head
    store.append(KEY, [Rewind(to=b)], expect=c)
    assert texts_of(store.read(KEY)) == ["a", "b"]
    store.append(KEY, [Rewind(to=head)], expect=ANY_HEAD)
    assert texts_of(store.read(KEY)) == []
    assert texts_of(entry.record for entry in store.read_all(KEY)) == ["a", "b", "c"]


def a_rewind_within_a_batch_holds(store: SessionStore) -> None:
    """A rewind may name a record of its own append."""
    store.create(KEY)
    batch: list[Record] = [message("a", id="a"), message("b", id="b"), Rewind(to="a"), message("c")]
    store.append(KEY, batch, expect=ANY_HEAD)
    assert texts_of(store.read(KEY)) == ["a", "c"]
    assert texts_of(store.read_branch(KEY, "b")) == ["a", "b"]


def a_rewind_to_nowhere_is_refused(store: SessionStore) -> None:
    """A rewind, or a parent, that names no record of the session is an error; nothing changes."""
    head = store.create(KEY)
    for record in (Rewind(to="nowhere"), message("x", parent="nowhere")):
        with raises(NoSuchRecord):
            store.append(KEY, [record], expect=ANY_HEAD)
    assert store.head(KEY) == head


def a_parent_makes_a_branch(store: SessionStore) -> None:
    """A record that names an earlier parent starts a branch there and becomes the head."""
    a, b = begin(store, "a", "b")
    c = store.append(KEY, [message("c", parent=a)], expect=b).head
    assert texts_of(store.read(KEY)) == ["a", "c"]
    assert (store.head(KEY), store.find(KEY, c).parent) == (c, a)


def branches_are_listed_with_their_leaves(store: SessionStore) -> None:
    """Every leaf is listed once, with where it forked, what was said last, and which is current."""
    a, b = begin(store, "a", "b")
    assert [branch.head for branch in store.branches(KEY)] == [b]
    rewind = store.append(KEY, [Rewind(to=a)], expect=ANY_HEAD).head
    c = store.append(KEY, [message("c and\nmore")], expect=ANY_HEAD).head
    left, current = store.branches(KEY)
    assert (left.head, left.is_current, left.title) == (b, False, "b")
    assert (current.head, current.is_current, current.title) == (c, True, "c and more")
    assert (left.forked_from, current.forked_from) == (None, a)
    assert current.records == len((rewind, c))
    assert store.verify(KEY).branches == 2


def a_branch_is_titled_by_words_of_a_user(store: SessionStore) -> None:
    """Text that a program put in the user's mouth is not a title."""
    store.create(KEY)
    reminder = User(content="a reminder of a program", extra={META: True})
    store.append(KEY, [message("what I want"), reminder], expect=ANY_HEAD)
    assert [branch.title for branch in store.branches(KEY)] == ["what I want"]


def every_branch_can_be_read(store: SessionStore) -> None:
    """`read_branch` gives the path to any leaf, or to any record on the way."""
    a, b = begin(store, "a", "b")
    store.append(KEY, [Rewind(to=a), message("c"), message("d")], expect=ANY_HEAD)
    found = [texts_of(store.read_branch(KEY, branch.head)) for branch in store.branches(KEY)]
    assert found == [["a", "b"], ["a", "c", "d"]]
    assert texts_of(store.read_branch(KEY, a)) == ["a"]
    assert list(store.read_branch(KEY, store.head(KEY))) == list(store.read(KEY))
    assert texts_of(store.read_branch(KEY, b)) == ["a", "b"]
    with raises(NoSuchRecord):
        list(store.read_branch(KEY, "nowhere"))


def a_fork_copies_the_path(store: SessionStore) -> None:
    """A fork has the records of the path with their ids, and grows apart from then on."""
    store.create(KEY, label="work")
    a, b, _c = store.append(KEY, [message("a"), message("b"), message("c")], expect=ANY_HEAD).ids
    store.append(KEY, [Rewind(to=b)], expect=ANY_HEAD)
    last = store.append(KEY, [message("d")], expect=ANY_HEAD).head
    head = store.fork(KEY, OTHER, at=None, label="try")
    assert head == store.head(OTHER) == last
    assert texts_of(store.read(OTHER)) == ["a", "b", "d"]
    assert [record.id for record in store.read(OTHER)][1:3] == [a, b]
    header = next(iter(store.read(OTHER)))
    assert isinstance(header, Header)
    assert (header.label, header.reason) == ("try", "fork")
    assert (header.parent_session, header.parent_record) == (str(KEY), last)
    store.append(OTHER, [message("there")], expect=head)
    store.append(KEY, [message("here")], expect=last)
    assert texts_of(store.read(OTHER)) == ["a", "b", "d", "there"]
    assert texts_of(store.read(KEY)) == ["a", "b", "d", "here"]
    assert store.verify(OTHER).is_sound


def a_fork_has_a_label_of_its_own(store: SessionStore) -> None:
    """The label given to a fork is its label, also where the session was named again since."""
    store.create(KEY, label="old")
    store.append_each(KEY, [Label(label="new"), message("a")])
    store.fork(KEY, OTHER, at=None, label="try")
    labels = {info.key: info.label for info in store.sessions(owner=ANY_OWNER)}
    assert labels == {KEY: "new", OTHER: "try"}
    assert texts_of(store.read(OTHER)) == ["a"]


def a_fork_belongs_to_whom_the_session_belongs_to(store: SessionStore) -> None:
    """A copy keeps the owner, so that copying a session gives no one else a right to read it."""
    store.create(KEY, owner=NamedOwner("ann"))
    store.append(KEY, [message("a")], expect=ANY_HEAD)
    store.fork(KEY, OTHER, at=None)
    assert store.header(OTHER).owner == "ann"
    assert {info.owner for info in store.sessions(owner=ANY_OWNER)} == {NamedOwner("ann")}


def a_fork_can_start_anywhere(store: SessionStore) -> None:
    """A fork at an earlier record, also of an abandoned branch, ends with that record."""
    head = store.create(KEY)
    _a, b, _c = store.append_each(KEY, [message("a"), message("b"), message("c")]).ids
    store.append(KEY, [Rewind(to=head)], expect=ANY_HEAD)
    assert store.fork(KEY, OTHER, at=b) == b
    assert texts_of(store.read(OTHER)) == ["a", "b"]
    empty = SessionKey("main", "empty")
    store.fork(KEY, empty, at=head)
    assert [record.kind for record in store.read(empty)] == ["session"]


def a_fork_changes_nothing_when_it_cannot_be_made(store: SessionStore) -> None:
    """A taken id or an unknown record is refused, and no half-made session is left."""
    store.create(KEY)
    store.create(OTHER)
    third = SessionKey("main", "third")
    with raises(SessionExists):
        store.fork(KEY, OTHER, at=None)
    with raises(NoSuchRecord):
        store.fork(KEY, third, at="nowhere")
    assert {info.key for info in store.sessions(owner=ANY_OWNER)} == {KEY, OTHER}


def a_session_without_a_boundary_is_live_as_a_whole(store: SessionStore) -> None:
    """Without a compaction the live part is the path."""
    begin(store, "a", "b")
    live = store.live(KEY)
    assert list(live.records) == list(store.read(KEY))
    assert (live.boundary, live.head, live.findings) == (None, store.head(KEY), ())


def the_live_part_begins_at_the_first_kept_record(store: SessionStore) -> None:
    """A compaction hides what came before its first kept record from `live`, and nothing else."""
    store.create(KEY)
    texts = ["a", "b", "c"]
    _a, b, _c = store.append_each(KEY, [message(text) for text in texts]).ids
    store.append(KEY, [Compaction(summary="a", first_kept=b)], expect=ANY_HEAD)
    store.append(KEY, [message("d")], expect=ANY_HEAD)
    live = store.live(KEY)
    assert [record.kind for record in live.records] == ["user", "user", "compaction", "user"]
    assert texts_of(live.records) == ["b", "c", "d"]
    assert live.boundary is not None
    assert live.boundary.summary == "a"
    assert texts_of(store.read(KEY)) == ["a", "b", "c", "d"]
    assert texts_of(store.last(KEY, 99)) == ["a", "b", "c", "d"]


def a_compaction_that_keeps_nothing_starts_the_live_part(store: SessionStore) -> None:
    """Without a first kept record the live part begins with the compaction itself."""
    store.create(KEY)
    store.append_each(KEY, [message("a"), Compaction(summary="a"), message("b")])
    live = store.live(KEY)
    assert [record.kind for record in live.records] == ["compaction", "user"]
    assert live.boundary == live.records[0]


def the_newest_compaction_counts(store: SessionStore) -> None:
    """Of several compactions the newest is the boundary; it may keep from before an older one."""
    store.create(KEY)
    a, _one, _b, _two = store.append_each(
        KEY, [message("a"), Compaction(summary="one"), message("b"), Compaction(summary="two")]
    ).ids
    live = store.live(KEY)
    assert live.boundary is not None
    assert (live.boundary.summary, len(live.records)) == ("two", 1)
    store.append(KEY, [Compaction(summary="three", first_kept=a)], expect=ANY_HEAD)
    assert texts_of(store.live(KEY).records) == ["a", "b"]


def a_compaction_binds_its_window_and_smaller_ones(store: SessionStore) -> None:
    """A compaction made for one window is passed over by readers with a larger one."""
    store.create(KEY)
    store.append_each(
        KEY,
        [
            message("a"),
            Compaction(summary="large", window=200_000),
            message("b"),
            Compaction(summary="small", window=32_000),
            message("c"),
        ],
    )

    def boundary(tokens: int) -> str | None:
        found = store.live(KEY, window=Window(tokens)).boundary
        return None if found is None else found.summary

    assert [boundary(tokens) for tokens in (1, 32_000)] == ["small"] * 2
    assert [boundary(tokens) for tokens in (32_001, 200_000)] == ["large"] * 2
    assert store.live(KEY).boundary == store.live(KEY, window=ANY_WINDOW).boundary
    assert store.live(KEY, window=ANY_WINDOW).boundary == store.live(KEY, window=Window(1)).boundary
    assert boundary(200_001) is None
    assert texts_of(store.live(KEY, window=Window(200_000)).records) == ["b", "c"]
    assert texts_of(store.live(KEY, window=Window(200_001)).records) == ["a", "b", "c"]


def an_undone_compaction_is_no_boundary(store: SessionStore) -> None:
    """Taken back, a compaction hides nothing; what was said after it stays."""
    store.create(KEY)
    _a, first, _b, second, _c = store.append_each(
        KEY,
        [
            message("a"),
            Compaction(summary="1"),
            message("b"),
            Compaction(summary="2"),
            message("c"),
        ],
    ).ids
    store.append(KEY, [Undo(target=second)], expect=ANY_HEAD)
    live = store.live(KEY)
    assert live.boundary is not None
    assert live.boundary.id == first
    assert texts_of(live.records) == ["b", "c"]
    store.append(KEY, [Undo(target=first), message("d")], expect=ANY_HEAD)
    assert store.live(KEY).boundary is None
    assert texts_of(store.live(KEY).records) == ["a", "b", "c", "d"]


def a_rewind_to_before_a_compaction_undoes_it(store: SessionStore) -> None:
    """A compaction on an abandoned branch is not a boundary."""
    store.create(KEY)
    _a, b, _compaction, _c = store.append_each(
        KEY, [message("a"), message("b"), Compaction(summary="s"), message("c")]
    ).ids
    store.append(KEY, [Rewind(to=b)], expect=ANY_HEAD)
    live = store.live(KEY)
    assert live.boundary is None
    assert texts_of(live.records) == ["a", "b"]


def a_boundary_that_keeps_from_nowhere_is_reported(store: SessionStore) -> None:
    """When the first kept record is not on the path, `live` starts at the summary and says so."""
    store.create(KEY)
    store.append_each(KEY, [message("a"), Compaction(summary="s", first_kept="gone"), message("b")])
    live = store.live(KEY)
    assert [record.kind for record in live.records] == ["compaction", "user"]
    assert [finding.kind for finding in live.findings] == ["lost-boundary"]
