"""What every session store, blob store and audit log must do, as small checks.

Each check gets an empty store of its own and says in its docstring what it expects. They use the
ports and nothing else, so that a store in files, in memory or in a database can be held to them:

    @pytest.mark.parametrize("check", SESSION_CHECKS, ids=lambda check: check.__name__)
    def test_my_store_keeps_the_promises(check):
        check(MyStore())

`check_session_store`, `check_blob_store` and `check_audit` run them without a test framework.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from holdfast.core.history.access import Access
from holdfast.core.limits import AUDIT_FIELD_CHARS_MAX, BATCH_RECORDS_MAX
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import (
    Assistant,
    Checkpoint,
    Compaction,
    Flush,
    Header,
    Label,
    Model,
    OutputRef,
    Prune,
    PruneDecision,
    Record,
    Rewind,
    ToolResult,
    ToolUse,
    Undo,
    Unknown,
    User,
)
from holdfast.errors import (
    AmbiguousName,
    BadId,
    BadRecord,
    BlobDamaged,
    BlobMissing,
    HoldfastError,
    LogConflict,
    NoSuchRecord,
    NoSuchSession,
    SessionExists,
    UsageError,
)
from holdfast.ports import ANY_HEAD, Audit, BlobStore, SessionStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SessionCheck = Callable[[SessionStore], None]
BlobCheck = Callable[[BlobStore], None]
AuditCheck = Callable[[Audit], None]
_Error = TypeVar("_Error", bound=HoldfastError)

_KEY: Final = SessionKey("main", "conformance")
_OTHER: Final = SessionKey("main", "other")
_ABSENT: Final = SessionKey("main", "conformancy")


def check_session_store(make_store: Callable[[], SessionStore]) -> None:
    """Run every check, each on a new and empty store; the first broken promise raises."""
    for check in SESSION_CHECKS:
        store = make_store()
        try:
            check(store)
        finally:
            store.close()


def check_blob_store(make_store: Callable[[], BlobStore]) -> None:
    """Run every check, each on a new and empty store; the first broken promise raises."""
    for check in BLOB_CHECKS:
        check(make_store())


def check_audit(make_audit: Callable[[], Audit]) -> None:
    """Run every check, each on a new and empty audit log; the first broken promise raises."""
    for check in AUDIT_CHECKS:
        check(make_audit())


# Making sessions


def a_new_session_is_empty_and_has_a_head(store: SessionStore) -> None:
    """`create` returns the head of a session that holds its header and nothing else."""
    head = store.create(_KEY, label="first")
    (header,) = store.read(_KEY)
    assert isinstance(header, Header)
    assert (header.id, header.agent, header.label) == (_KEY.session, _KEY.agent, "first")
    assert header.id == head == store.head(_KEY) == store.live(_KEY).head
    assert header.ts > 0


def a_new_session_says_where_it_comes_from(store: SessionStore) -> None:
    """The parent session, the parent record and the reason are in the header and the listing."""
    store.create(_KEY, parent_session="main/old", parent_record="abc", reason="reset")
    header = next(iter(store.read(_KEY)))
    assert isinstance(header, Header)
    found = (header.parent_session, header.parent_record, header.reason)
    assert found == ("main/old", "abc", "reset")
    (info,) = store.sessions()
    assert (info.parent_session, info.reason) == ("main/old", "reset")


def a_new_session_says_whose_it_is(store: SessionStore) -> None:
    """The owner is in the header and the listing; a session made without one has none."""
    store.create(_KEY, owner="ann")
    store.create(_OTHER)
    assert (store.header(_KEY).owner, store.header(_OTHER).owner) == ("ann", "")
    assert {info.key: info.owner for info in store.sessions()} == {_KEY: "ann", _OTHER: ""}


def the_header_is_the_first_record(store: SessionStore) -> None:
    """`header` is what `read` begins with, whatever came after it."""
    head = store.create(_KEY, label="work", parent_session="main/old", reason="spawn", owner="ann")
    header = store.header(_KEY)
    assert (header.id, header.agent, header.label) == (_KEY.session, _KEY.agent, "work")
    assert (header.parent_session, header.reason, header.owner) == ("main/old", "spawn", "ann")
    store.append_each(_KEY, [_said("a"), Label(label="new"), Rewind(to=head), _said("b")])
    assert store.header(_KEY) == next(iter(store.read(_KEY))) == header


def an_id_is_taken_once(store: SessionStore) -> None:
    """A second session with the same id, or one that differs only in case, is refused."""
    store.create(_KEY)
    store.append(_KEY, [_said("kept")], expect=ANY_HEAD)
    for session in ("conformance", "CONFORMANCE"):
        with _raises(SessionExists):
            store.create(SessionKey("main", session))
    assert _texts(store.read(_KEY)) == ["kept"]


def agents_have_their_own_sessions(store: SessionStore) -> None:
    """The same session id under two agents is two sessions."""
    keys = [SessionKey("one", "same"), SessionKey("two", "same")]
    for key in keys:
        store.create(key)
        store.append(key, [_said(key.agent)], expect=ANY_HEAD)
    assert [_texts(store.read(key)) for key in keys] == [["one"], ["two"]]


def an_unknown_session_is_named_with_its_nearest(store: SessionStore) -> None:
    """Whatever is asked of a session that does not exist, the error suggests one that does."""
    store.create(_KEY)
    asks: list[Callable[[], object]] = [
        lambda: store.append(_ABSENT, [_said("x")], expect=ANY_HEAD),
        lambda: store.append_each(_ABSENT, [_said("x")]),
        lambda: store.sync(_ABSENT),
        lambda: list(store.read(_ABSENT)),
        lambda: list(store.read_all(_ABSENT)),
        lambda: list(store.read_branch(_ABSENT, "x")),
        lambda: store.header(_ABSENT),
        lambda: store.last(_ABSENT, 1),
        lambda: store.last(_ABSENT, 1, before="x"),
        lambda: next(iter(store.back(_ABSENT))),
        lambda: store.live(_ABSENT),
        lambda: store.head(_ABSENT),
        lambda: store.find(_ABSENT, "x"),
        lambda: store.branches(_ABSENT),
        lambda: store.fork(_ABSENT, _OTHER, at=None),
        lambda: store.verify(_ABSENT),
        lambda: store.remove(_ABSENT),
    ]
    for ask in asks:
        with _raises(NoSuchSession) as errors:
            ask()
        assert _KEY.session in (errors[0].hint or "")
    assert [info.key for info in store.sessions()] == [_KEY]


# Appending


def an_append_gives_back_ids_in_order(store: SessionStore) -> None:
    """Each record gets an id; ids are unique, sort in the order of appending, and name the head."""
    store.create(_KEY)
    ids: list[str] = []
    for number in range(5):
        done = store.append(_KEY, [_said(f"{number}")], expect=ANY_HEAD)
        assert done.head == done.ids[-1] == store.head(_KEY)
        ids += done.ids
    ids += store.append(_KEY, [_said("5"), _said("6")], expect=ANY_HEAD).ids
    assert ids == sorted(set(ids))
    assert [record.id for record in store.read(_KEY)][1:] == ids
    assert _texts(store.read(_KEY)) == ["0", "1", "2", "3", "4", "5", "6"]


def an_append_of_many_keeps_their_order(store: SessionStore) -> None:
    """A batch is read in the order it was given, with a time on every record."""
    store.create(_KEY)
    done = store.append(_KEY, [_said(f"{n}") for n in range(300)], expect=ANY_HEAD)
    records = list(store.read(_KEY))[1:]
    assert tuple(record.id for record in records) == done.ids
    assert _texts(records) == [f"{n}" for n in range(300)]
    assert all(record.ts > 0 for record in records)


def an_append_of_nothing_changes_nothing(store: SessionStore) -> None:
    """Appending no records returns no ids and the head as it is."""
    head = store.create(_KEY)
    for done in (store.append(_KEY, [], expect=ANY_HEAD), store.append_each(_KEY, [])):
        assert (done.ids, done.head) == ((), head)


def an_append_keeps_the_ids_and_times_it_is_given(store: SessionStore) -> None:
    """A record that comes with an id and a time is stored under them."""
    store.create(_KEY)
    done = store.append(_KEY, [_said("mine", id="my-id.1:x", ts=12.5)], expect=ANY_HEAD)
    assert done.ids == ("my-id.1:x",)
    found = store.find(_KEY, "my-id.1:x")
    assert (found.id, found.ts) == ("my-id.1:x", 12.5)


def an_append_after_the_expected_head_succeeds(store: SessionStore) -> None:
    """A caller that has seen the newest head appends after it, turn by turn."""
    head = store.create(_KEY)
    for text in ("a", "b", "c"):
        head = store.append(_KEY, [_said(text)], expect=head).head
    assert _texts(store.read(_KEY)) == ["a", "b", "c"]


def an_append_after_an_old_head_is_refused(store: SessionStore) -> None:
    """When the log has moved on, the error names both heads and the writer; nothing is written."""
    old = store.create(_KEY)
    new = store.append(_KEY, [_said("theirs")], expect=old).head
    with _raises(LogConflict) as errors:
        store.append(_KEY, [_said("ours"), _said("ours too")], expect=old)
    error = errors[0]
    assert (error.expected, error.found) == (old, new)
    assert error.writer
    assert all(part in str(error) for part in (old, new, error.writer))
    assert error.hint
    assert _texts(store.read(_KEY)) == ["theirs"]
    assert _texts(entry.record for entry in store.read_all(_KEY)) == ["theirs"]


def a_batch_with_a_bad_record_is_refused_whole(store: SessionStore) -> None:
    """One record that cannot be stored keeps the others of its append out as well."""
    store.create(_KEY)
    for bad in (_said(object()), _said("x", id="../x"), Header(id="x")):
        with _raises(HoldfastError):
            store.append(_KEY, [_said("good"), bad, _said("good")], expect=ANY_HEAD)
    assert [entry.record.kind for entry in store.read_all(_KEY)] == ["session"]
    store.append(_KEY, [_said("after")], expect=ANY_HEAD)
    assert _texts(store.read(_KEY)) == ["after"]


def a_batch_has_a_largest_size(store: SessionStore) -> None:
    """More records than a reader can hold open are refused in one append, not in `append_each`."""
    store.create(_KEY)
    many = [_said("x")] * (BATCH_RECORDS_MAX + 1)
    with _raises(BadRecord):
        store.append(_KEY, many, expect=ANY_HEAD)
    assert store.head(_KEY) == _KEY.session


def records_that_stand_for_themselves_are_appended_each(store: SessionStore) -> None:
    """`append_each` stores records in order like so many appends, and needs no expected head."""
    store.create(_KEY)
    done = store.append_each(_KEY, [_said("a"), _said("b"), _said("c")], durability="buffered")
    store.sync(_KEY)
    records = list(store.read(_KEY))[1:]
    assert tuple(record.id for record in records) == done.ids
    assert done.head == done.ids[-1] == store.head(_KEY)
    assert _texts(records) == ["a", "b", "c"]


def a_header_cannot_be_appended(store: SessionStore) -> None:
    """A header in the middle of a log is refused, with the way to make a session."""
    store.create(_KEY)
    appends: tuple[Callable[[], object], ...] = (
        lambda: store.append(_KEY, [Header(id="late")], expect=ANY_HEAD),
        lambda: store.append_each(_KEY, [Header(id="late")]),
    )
    for append in appends:
        with _raises(BadRecord) as errors:
            append()
        assert "create" in (errors[0].hint or "")


def an_id_is_refused_the_second_time(store: SessionStore) -> None:
    """A retry of an append that had succeeded does not store its record twice."""
    store.create(_KEY)
    store.append(_KEY, [_said("once", id="r1")], expect=ANY_HEAD)
    store.append(_KEY, [_said("between")], expect=ANY_HEAD)
    for again in ([_said("once", id="r1")], [_said("x", id="r2"), _said("y", id="r2")]):
        with _raises(BadRecord) as errors:
            store.append(_KEY, again, expect=ANY_HEAD)
        assert again[-1].id in str(errors[0])
    assert _texts(store.read(_KEY)) == ["once", "between"]


def an_id_on_an_abandoned_branch_is_taken_too(store: SessionStore) -> None:
    """An id that was used before a rewind cannot be used again after it."""
    head = store.create(_KEY)
    store.append(_KEY, [_said("left", id="r1")], expect=ANY_HEAD)
    store.append(_KEY, [Rewind(to=head)], expect=ANY_HEAD)
    with _raises(BadRecord):
        store.append(_KEY, [_said("again", id="r1")], expect=ANY_HEAD)


def an_id_outside_the_allow_list_is_refused(store: SessionStore) -> None:
    """Record ids are checked before anything is written."""
    store.create(_KEY)
    for bad in ("../x", "a b", "@12", "x" * 200, "-x", "a\nb"):
        with _raises(BadId):
            store.append(_KEY, [_said("x", id=bad)], expect=ANY_HEAD)
    assert store.head(_KEY) == _KEY.session


def what_was_appended_cannot_be_changed(store: SessionStore) -> None:
    """Neither the caller's own objects nor those a reader got lead back into the log."""
    store.create(_KEY)
    block = {"type": "text", "text": "as it was"}
    store.append(_KEY, [User(content=[block])], expect=ANY_HEAD)
    block["text"] = "changed by the writer"
    for _time in range(2):
        record = list(store.read(_KEY))[-1]
        assert isinstance(record, User)
        assert record.content == [{"type": "text", "text": "as it was"}]
        assert isinstance(record.content, list)
        record.content[0]["text"] = "changed by a reader"


# What comes back


def every_type_of_record_comes_back(store: SessionStore) -> None:
    """All types keep all their fields, known to this version or not."""
    store.create(_KEY)
    records = _one_of_each()
    done = store.append(_KEY, records, expect=ANY_HEAD)
    found = list(store.read(_KEY))[1:]
    assert [_bare(record) for record in found] == [_bare(record) for record in records]
    assert tuple(record.id for record in found) == done.ids


def unknown_types_and_fields_are_carried(store: SessionStore) -> None:
    """A record of a type nobody here knows is kept, counted and copied like any other."""
    store.create(_KEY)
    stranger = Unknown(type="telepathy", extra={"strength": 3, "to": ["you", None]})
    known = User(content="hi", extra={"mood": {"is": "good"}})
    store.append(_KEY, [stranger, known], expect=ANY_HEAD)
    store.fork(_KEY, _OTHER, at=None)
    for key in (_KEY, _OTHER):
        assert [_bare(record) for record in store.last(key, 2)] == [stranger, known]
    assert store.verify(_KEY).counts["telepathy"] == 1


def text_of_every_kind_comes_back(store: SessionStore) -> None:
    """Any text survives, but for lone surrogates, which become U+FFFD."""
    store.create(_KEY)
    texts = ["", " ", "\n\r\t\0\x18\x7f", "\u2028\u2029\x85", "🏴‍☠️ é é", '"\\/\\u0000', "\ufeff"]
    store.append_each(_KEY, [_said(text) for text in [*texts, "a\ud83db", "\udc00"]])
    assert _texts(store.read(_KEY)) == [*texts, "a\ufffdb", "\ufffd"]


def a_doubled_call_is_read_once(store: SessionStore) -> None:
    """A `tool_use` record that repeats a call of the message before it shows in `read_all` only."""
    store.create(_KEY)
    call = {"type": "tool_use", "id": "call-1", "name": "ls", "input": {}}
    records: list[Record] = [
        _said("list"),
        Assistant(content=[call]),
        ToolUse(tool_use_id="call-1", name="ls", input={}),
        ToolResult(tool_use_id="call-1", content="a b"),
    ]
    store.append_each(_KEY, records)
    kinds = ["session", "user", "assistant", "tool_result"]
    assert [record.kind for record in store.read(_KEY)] == kinds
    assert [record.kind for record in store.live(_KEY).records] == kinds
    assert [record.kind for record in store.last(_KEY, 2)] == kinds[-2:]
    standings = [entry.standing for entry in store.read_all(_KEY)]
    assert standings == ["path", "path", "path", "double", "path"]


def the_newest_records_are_the_end_of_all(store: SessionStore) -> None:
    """`last(n)` is the last n of `read`, for every n from 0 to past the beginning."""
    store.create(_KEY)
    store.append_each(_KEY, [_said(f"{n}") for n in range(12)])
    everything = list(store.read(_KEY))
    for count in range(len(everything) + 3):
        assert store.last(_KEY, count) == everything[max(0, len(everything) - count) :]


def the_records_before_one_are_the_end_of_what_it_follows(store: SessionStore) -> None:
    """`last(n, before)` is the last n of what `read` shows before that record."""
    store.create(_KEY)
    ids = store.append_each(_KEY, [_said(f"{n}") for n in range(8)]).ids
    store.append_each(_KEY, [Rewind(to=ids[5]), _said("8"), _said("9")])
    everything = list(store.read(_KEY))
    for index, record in enumerate(everything):
        for count in range(index + 3):
            newest = everything[max(0, index - count) : index]
            assert store.last(_KEY, count, before=record.id) == newest


def the_way_back_is_the_path_from_its_other_end(store: SessionStore) -> None:
    """`back` is what `read` shows, newest first, from the head or from before any record."""
    store.create(_KEY)
    ids = store.append_each(_KEY, _one_of_each()).ids
    call = {"type": "tool_use", "id": "call-1", "name": "ls", "input": {}}
    doubled: list[Record] = [Assistant(content=[call]), ToolUse(tool_use_id="call-1")]
    store.append_each(_KEY, [Rewind(to=ids[-2]), *doubled, _said("8")])
    everything = list(store.read(_KEY))
    assert list(store.back(_KEY)) == everything[::-1]
    for index, record in enumerate(everything):
        assert list(store.back(_KEY, before=record.id)) == everything[:index][::-1]


def a_session_can_be_read_back_page_by_page(store: SessionStore) -> None:
    """Pages of every size, each before the oldest record of the one before, make up the path."""
    store.create(_KEY)
    for number in range(4):
        call = {"type": "tool_use", "id": f"call-{number}", "name": "ls", "input": {}}
        records: list[Record] = [
            _said(f"{number}"),
            Assistant(content=[call]),
            ToolUse(tool_use_id=f"call-{number}", name="ls", input={}),
            ToolResult(tool_use_id=f"call-{number}", content="a b"),
        ]
        store.append_each(_KEY, records)
    everything = list(store.read(_KEY))
    for size in range(1, len(everything) + 2):
        pages = [store.last(_KEY, size)]
        while pages[0]:
            pages.insert(0, store.last(_KEY, size, before=pages[0][0].id))
        assert [record for page in pages for record in page] == everything


def the_records_before_one_that_is_not_there_are_refused(store: SessionStore) -> None:
    """A record that does not exist, or lies on an abandoned branch, has nothing before it."""
    head = store.create(_KEY)
    left = store.append(_KEY, [_said("left")], expect=ANY_HEAD).head
    store.append(_KEY, [Rewind(to=head)], expect=ANY_HEAD)
    for before in (left, left[:-1], "nowhere", ""):
        for count in (0, 1):
            with _raises(NoSuchRecord):
                store.last(_KEY, count, before=before)
        with _raises(NoSuchRecord):
            next(iter(store.back(_KEY, before=before)))


def reading_can_start_at_a_record(store: SessionStore) -> None:
    """`read(start)` is the end of `read`, from each record of the path on."""
    store.create(_KEY)
    store.append_each(_KEY, [_said(f"{n}") for n in range(6)])
    everything = list(store.read(_KEY))
    for index, record in enumerate(everything):
        assert list(store.read(_KEY, start=record.id)) == everything[index:]


def reading_from_a_record_that_is_not_there_fails(store: SessionStore) -> None:
    """A start that does not exist, or lies on an abandoned branch, is an error and not silence."""
    head = store.create(_KEY)
    left = store.append(_KEY, [_said("left")], expect=ANY_HEAD).head
    store.append(_KEY, [Rewind(to=head)], expect=ANY_HEAD)
    for start in (left, "nowhere"):
        with _raises(NoSuchRecord):
            list(store.read(_KEY, start=start))


def a_record_is_found_by_its_id_or_a_prefix(store: SessionStore) -> None:
    """The whole id, or the beginning of just one, finds the record."""
    store.create(_KEY)
    ids = ("alpha-1", "alpha-2", "beta-1", "alpha")
    store.append_each(_KEY, [_said(record_id, id=record_id) for record_id in ids])
    assert _texts(store.find(_KEY, record_id) for record_id in ids) == list(ids)
    assert store.find(_KEY, "be").id == "beta-1"
    assert store.find(_KEY, _KEY.session).kind == "session"


def an_ambiguous_prefix_names_its_candidates(store: SessionStore) -> None:
    """A prefix of several ids is an error that names them; an unknown one suggests the nearest."""
    store.create(_KEY)
    ids = ("alpha-1", "alpha-2", "beta-1")
    store.append_each(_KEY, [_said("x", id=record_id) for record_id in ids])
    with _raises(AmbiguousName) as ambiguous:
        store.find(_KEY, "alpha")
    assert set(ambiguous[0].candidates) == {"alpha-1", "alpha-2"}
    for missing in ("beta-2", "zzz", ""):
        with _raises(NoSuchRecord) as unknown:
            store.find(_KEY, missing)
        assert unknown[0].hint
    with _raises(NoSuchRecord) as near:
        store.find(_KEY, "beta-2")
    assert "beta-1" in (near[0].hint or "")


# The tree


def a_rewind_moves_the_head_and_loses_nothing(store: SessionStore) -> None:
    """After a rewind the path is the one to its target; the records it left are still there."""
    store.create(_KEY)
    _a, b, _c = store.append_each(_KEY, [_said("a"), _said("b"), _said("c")]).ids
    done = store.append(_KEY, [Rewind(to=b, reason="wrong turn")], expect=ANY_HEAD)
    assert store.head(_KEY) == done.head
    assert _texts(store.read(_KEY)) == ["a", "b"]
    store.append(_KEY, [_said("d")], expect=done.head)
    assert _texts(store.read(_KEY)) == ["a", "b", "d"]
    assert _texts(store.last(_KEY, 99)) == ["a", "b", "d"]
    assert _texts(store.live(_KEY).records) == ["a", "b", "d"]
    standings = {_text(entry.record): entry.standing for entry in store.read_all(_KEY)}
    assert standings["c"] == "branch"
    assert [standings[text] for text in "abd"] == ["path"] * 3


def a_rewind_can_be_rewound(store: SessionStore) -> None:
    """A rewind to a record of an abandoned branch makes that branch the path again."""
    head = store.create(_KEY)
    a, b = store.append_each(_KEY, [_said("a"), _said("b")]).ids
    store.append(_KEY, [Rewind(to=a)], expect=ANY_HEAD)
    c = store.append(_KEY, [_said("c")], expect=ANY_HEAD).head
    store.append(_KEY, [Rewind(to=b)], expect=c)
    assert _texts(store.read(_KEY)) == ["a", "b"]
    store.append(_KEY, [Rewind(to=head)], expect=ANY_HEAD)
    assert _texts(store.read(_KEY)) == []
    assert _texts(entry.record for entry in store.read_all(_KEY)) == ["a", "b", "c"]


def a_rewind_within_a_batch_holds(store: SessionStore) -> None:
    """A rewind may name a record of its own append."""
    store.create(_KEY)
    batch: list[Record] = [_said("a", id="a"), _said("b", id="b"), Rewind(to="a"), _said("c")]
    store.append(_KEY, batch, expect=ANY_HEAD)
    assert _texts(store.read(_KEY)) == ["a", "c"]
    assert _texts(store.read_branch(_KEY, "b")) == ["a", "b"]


def a_rewind_to_nowhere_is_refused(store: SessionStore) -> None:
    """A rewind, or a parent, that names no record of the session is an error; nothing changes."""
    head = store.create(_KEY)
    for record in (Rewind(to="nowhere"), _said("x", parent="nowhere")):
        with _raises(NoSuchRecord):
            store.append(_KEY, [record], expect=ANY_HEAD)
    assert store.head(_KEY) == head


def a_parent_makes_a_branch(store: SessionStore) -> None:
    """A record that names an earlier parent starts a branch there and becomes the head."""
    store.create(_KEY)
    a, b = store.append_each(_KEY, [_said("a"), _said("b")]).ids
    c = store.append(_KEY, [_said("c", parent=a)], expect=b).head
    assert _texts(store.read(_KEY)) == ["a", "c"]
    assert (store.head(_KEY), store.find(_KEY, c).parent) == (c, a)


def branches_are_listed_with_their_leaves(store: SessionStore) -> None:
    """Every leaf is listed once, with where it forked, what was said last, and which is current."""
    store.create(_KEY)
    a, b = store.append_each(_KEY, [_said("a"), _said("b")]).ids
    assert [branch.head for branch in store.branches(_KEY)] == [b]
    rewind = store.append(_KEY, [Rewind(to=a)], expect=ANY_HEAD).head
    c = store.append(_KEY, [_said("c and\nmore")], expect=ANY_HEAD).head
    left, current = store.branches(_KEY)
    assert (left.head, left.is_current, left.title) == (b, False, "b")
    assert (current.head, current.is_current, current.title) == (c, True, "c and more")
    assert (left.forked_from, current.forked_from) == (None, a)
    assert current.records == len((rewind, c))
    assert store.verify(_KEY).branches == 2


def every_branch_can_be_read(store: SessionStore) -> None:
    """`read_branch` gives the path to any leaf, or to any record on the way."""
    store.create(_KEY)
    a, b = store.append_each(_KEY, [_said("a"), _said("b")]).ids
    store.append(_KEY, [Rewind(to=a), _said("c"), _said("d")], expect=ANY_HEAD)
    found = [_texts(store.read_branch(_KEY, branch.head)) for branch in store.branches(_KEY)]
    assert found == [["a", "b"], ["a", "c", "d"]]
    assert _texts(store.read_branch(_KEY, a)) == ["a"]
    assert list(store.read_branch(_KEY, store.head(_KEY))) == list(store.read(_KEY))
    assert _texts(store.read_branch(_KEY, b)) == ["a", "b"]
    with _raises(NoSuchRecord):
        list(store.read_branch(_KEY, "nowhere"))


def a_fork_copies_the_path(store: SessionStore) -> None:
    """A fork has the records of the path with their ids, and grows apart from then on."""
    store.create(_KEY, label="work")
    a, b, _c = store.append(_KEY, [_said("a"), _said("b"), _said("c")], expect=ANY_HEAD).ids
    store.append(_KEY, [Rewind(to=b)], expect=ANY_HEAD)
    last = store.append(_KEY, [_said("d")], expect=ANY_HEAD).head
    head = store.fork(_KEY, _OTHER, at=None, label="try")
    assert head == store.head(_OTHER) == last
    assert _texts(store.read(_OTHER)) == ["a", "b", "d"]
    assert [record.id for record in store.read(_OTHER)][1:3] == [a, b]
    header = next(iter(store.read(_OTHER)))
    assert isinstance(header, Header)
    assert (header.label, header.reason) == ("try", "fork")
    assert (header.parent_session, header.parent_record) == (str(_KEY), last)
    store.append(_OTHER, [_said("there")], expect=head)
    store.append(_KEY, [_said("here")], expect=last)
    assert _texts(store.read(_OTHER)) == ["a", "b", "d", "there"]
    assert _texts(store.read(_KEY)) == ["a", "b", "d", "here"]
    assert store.verify(_OTHER).is_sound


def a_fork_has_a_label_of_its_own(store: SessionStore) -> None:
    """The label given to a fork is its label, also where the session was named again since."""
    store.create(_KEY, label="old")
    store.append_each(_KEY, [Label(label="new"), _said("a")])
    store.fork(_KEY, _OTHER, at=None, label="try")
    labels = {info.key: info.label for info in store.sessions()}
    assert labels == {_KEY: "new", _OTHER: "try"}
    assert _texts(store.read(_OTHER)) == ["a"]


def a_fork_belongs_to_whom_the_session_belongs_to(store: SessionStore) -> None:
    """A copy keeps the owner, so that copying a session gives nobody else a right to read it."""
    store.create(_KEY, owner="ann")
    store.append(_KEY, [_said("a")], expect=ANY_HEAD)
    store.fork(_KEY, _OTHER, at=None)
    assert store.header(_OTHER).owner == "ann"
    assert {info.owner for info in store.sessions()} == {"ann"}


def a_fork_can_start_anywhere(store: SessionStore) -> None:
    """A fork at an earlier record, also of an abandoned branch, ends with that record."""
    head = store.create(_KEY)
    _a, b, _c = store.append_each(_KEY, [_said("a"), _said("b"), _said("c")]).ids
    store.append(_KEY, [Rewind(to=head)], expect=ANY_HEAD)
    assert store.fork(_KEY, _OTHER, at=b) == b
    assert _texts(store.read(_OTHER)) == ["a", "b"]
    empty = SessionKey("main", "empty")
    store.fork(_KEY, empty, at=head)
    assert [record.kind for record in store.read(empty)] == ["session"]


def a_fork_changes_nothing_when_it_cannot_be_made(store: SessionStore) -> None:
    """A taken id or an unknown record is refused, and no half-made session is left."""
    store.create(_KEY)
    store.create(_OTHER)
    third = SessionKey("main", "third")
    with _raises(SessionExists):
        store.fork(_KEY, _OTHER, at=None)
    with _raises(NoSuchRecord):
        store.fork(_KEY, third, at="nowhere")
    assert {info.key for info in store.sessions()} == {_KEY, _OTHER}


# The live part


def a_session_without_a_boundary_is_live_as_a_whole(store: SessionStore) -> None:
    """Without a compaction the live part is the path."""
    store.create(_KEY)
    store.append_each(_KEY, [_said("a"), _said("b")])
    live = store.live(_KEY)
    assert list(live.records) == list(store.read(_KEY))
    assert (live.boundary, live.head, live.findings) == (None, store.head(_KEY), ())


def the_live_part_begins_at_the_first_kept_record(store: SessionStore) -> None:
    """A compaction hides what came before its first kept record from `live`, and nothing else."""
    store.create(_KEY)
    texts = ["a", "b", "c"]
    _a, b, _c = store.append_each(_KEY, [_said(text) for text in texts]).ids
    store.append(_KEY, [Compaction(summary="a", first_kept=b)], expect=ANY_HEAD)
    store.append(_KEY, [_said("d")], expect=ANY_HEAD)
    live = store.live(_KEY)
    assert [record.kind for record in live.records] == ["user", "user", "compaction", "user"]
    assert _texts(live.records) == ["b", "c", "d"]
    assert live.boundary is not None
    assert live.boundary.summary == "a"
    assert _texts(store.read(_KEY)) == ["a", "b", "c", "d"]
    assert _texts(store.last(_KEY, 99)) == ["a", "b", "c", "d"]


def a_compaction_that_keeps_nothing_starts_the_live_part(store: SessionStore) -> None:
    """Without a first kept record the live part begins with the compaction itself."""
    store.create(_KEY)
    store.append_each(_KEY, [_said("a"), Compaction(summary="a"), _said("b")])
    live = store.live(_KEY)
    assert [record.kind for record in live.records] == ["compaction", "user"]
    assert live.boundary == live.records[0]


def the_newest_compaction_counts(store: SessionStore) -> None:
    """Of several compactions the newest is the boundary; it may keep from before an older one."""
    store.create(_KEY)
    a, _one, _b, _two = store.append_each(
        _KEY, [_said("a"), Compaction(summary="one"), _said("b"), Compaction(summary="two")]
    ).ids
    live = store.live(_KEY)
    assert live.boundary is not None
    assert (live.boundary.summary, len(live.records)) == ("two", 1)
    store.append(_KEY, [Compaction(summary="three", first_kept=a)], expect=ANY_HEAD)
    assert _texts(store.live(_KEY).records) == ["a", "b"]


def a_compaction_binds_its_window_and_smaller_ones(store: SessionStore) -> None:
    """A compaction made for one window is passed over by readers with a larger one."""
    store.create(_KEY)
    store.append_each(
        _KEY,
        [
            _said("a"),
            Compaction(summary="large", window=200_000),
            _said("b"),
            Compaction(summary="small", window=32_000),
            _said("c"),
        ],
    )

    def boundary(window: int | None) -> str | None:
        found = store.live(_KEY, window=window).boundary
        return None if found is None else found.summary

    assert [boundary(window) for window in (None, 1, 32_000)] == ["small"] * 3
    assert [boundary(window) for window in (32_001, 200_000)] == ["large"] * 2
    assert boundary(200_001) is None
    assert _texts(store.live(_KEY, window=200_000).records) == ["b", "c"]
    assert _texts(store.live(_KEY, window=200_001).records) == ["a", "b", "c"]


def an_undone_compaction_is_no_boundary(store: SessionStore) -> None:
    """Taken back, a compaction hides nothing; what was said after it stays."""
    store.create(_KEY)
    _a, first, _b, second, _c = store.append_each(
        _KEY,
        [_said("a"), Compaction(summary="1"), _said("b"), Compaction(summary="2"), _said("c")],
    ).ids
    store.append(_KEY, [Undo(target=second)], expect=ANY_HEAD)
    live = store.live(_KEY)
    assert live.boundary is not None
    assert live.boundary.id == first
    assert _texts(live.records) == ["b", "c"]
    store.append(_KEY, [Undo(target=first), _said("d")], expect=ANY_HEAD)
    assert store.live(_KEY).boundary is None
    assert _texts(store.live(_KEY).records) == ["a", "b", "c", "d"]


def a_rewind_to_before_a_compaction_undoes_it(store: SessionStore) -> None:
    """A compaction on an abandoned branch is no boundary."""
    store.create(_KEY)
    _a, b, _compaction, _c = store.append_each(
        _KEY, [_said("a"), _said("b"), Compaction(summary="s"), _said("c")]
    ).ids
    store.append(_KEY, [Rewind(to=b)], expect=ANY_HEAD)
    live = store.live(_KEY)
    assert live.boundary is None
    assert _texts(live.records) == ["a", "b"]


def a_boundary_that_keeps_from_nowhere_is_reported(store: SessionStore) -> None:
    """When the first kept record is not on the path, `live` starts at the summary and says so."""
    store.create(_KEY)
    store.append_each(_KEY, [_said("a"), Compaction(summary="s", first_kept="gone"), _said("b")])
    live = store.live(_KEY)
    assert [record.kind for record in live.records] == ["compaction", "user"]
    assert [finding.kind for finding in live.findings] == ["lost-boundary"]


# The catalogue


def the_listing_shows_small_facts(store: SessionStore) -> None:
    """Label, title, times, counts and head are those of the log."""
    store.create(_KEY, label="project")
    texts = [f"first  words\nof {'many ' * 100}", "second"]
    records: list[Record] = [_said(text, ts=2_000.5 + n) for n, text in enumerate(texts)]
    records.append(Assistant(content="reply", ts=3_000_000_000.25))
    records.append(Model(model="m", ts=2_999_999_999))
    done = store.append(_KEY, records, expect=ANY_HEAD)
    (info,) = store.sessions()
    assert (info.key, info.label, info.head) == (_KEY, "project", done.head)
    assert (info.records, info.messages, info.damaged) == (5, 3, 0)
    assert info.last_active == 3_000_000_000.25
    header = next(iter(store.read(_KEY)))
    assert info.created == header.ts
    assert info.title.startswith("first words of many")
    assert len(info.title) <= 80
    assert info.bytes > 0
    assert info.parent_session is None


def the_listing_is_newest_first_and_by_agent(store: SessionStore) -> None:
    """Sessions are listed by their last activity; one agent's can be asked for."""
    keys = [SessionKey("one", "a"), SessionKey("two", "b"), SessionKey("one", "c")]
    assert store.sessions() == []
    for number, key in enumerate(keys):
        store.create(key)
        store.append(key, [_said("x", ts=4_000_000_000.0 + number)], expect=ANY_HEAD)
    assert [info.key for info in store.sessions()] == keys[::-1]
    assert [info.key for info in store.sessions(agent="one")] == [keys[2], keys[0]]
    assert store.sessions(agent="none") == []
    store.append(keys[0], [_said("x", ts=5_000_000_000.0)], expect=ANY_HEAD)
    assert store.sessions()[0].key == keys[0]


def a_label_names_the_session_or_a_record(store: SessionStore) -> None:
    """The newest label without a target is the session's; one with a target leaves it alone."""
    store.create(_KEY, label="old")
    head = store.append(_KEY, [_said("a")], expect=ANY_HEAD).head
    labels: list[str] = []
    for record in (Label(label="here", target=head), Label(label="new"), Label(label="")):
        store.append(_KEY, [record], expect=ANY_HEAD)
        labels += [info.label for info in store.sessions()]
    assert labels == ["old", "new", ""]


def verify_finds_nothing_wrong_with_a_sound_session(store: SessionStore) -> None:
    """A session made by appends, rewinds and compactions is sound, and is counted right."""
    store.create(_KEY)
    a, *_rest = store.append(_KEY, _one_of_each(), expect=ANY_HEAD).ids
    store.append(_KEY, [Rewind(to=a), _said("b")], expect=ANY_HEAD)
    report = store.verify(_KEY)
    assert report.is_sound
    assert report.findings == ()
    entries = list(store.read_all(_KEY))
    assert report.records == len(entries) == sum(report.counts.values())
    assert (report.key, report.head) == (_KEY, store.head(_KEY))


def a_removed_session_can_be_restored(store: SessionStore) -> None:
    """A removed session is in the trash and nowhere else; restored, it is what it was."""
    store.create(_KEY, label="work")
    store.append(_KEY, [_said("a")], expect=ANY_HEAD)
    before = list(store.read(_KEY))
    trashed = store.remove(_KEY)
    assert trashed.key == _KEY
    assert store.trash() == [trashed]
    assert store.sessions() == []
    with _raises(NoSuchSession):
        store.head(_KEY)
    assert store.restore(trashed.name) == _KEY
    assert store.trash() == []
    assert list(store.read(_KEY)) == before
    store.append(_KEY, [_said("b")], expect=before[-1].id)
    assert _texts(store.read(_KEY)) == ["a", "b"]


def a_session_can_be_restored_by_its_id(store: SessionStore) -> None:
    """The trash knows sessions by id and by agent and id; an unknown name is an error."""
    store.create(_KEY)
    for name in (_KEY.session, str(_KEY)):
        store.remove(_KEY)
        assert store.restore(name) == _KEY
    with _raises(UsageError) as errors:
        store.restore("never-was")
    assert errors[0].hint


def a_restored_session_takes_nobodys_place(store: SessionStore) -> None:
    """While the id is taken again, the trashed session stays in the trash."""
    store.create(_KEY)
    store.append(_KEY, [_said("old")], expect=ANY_HEAD)
    trashed = store.remove(_KEY)
    store.create(_KEY)
    store.append(_KEY, [_said("new")], expect=ANY_HEAD)
    with _raises(SessionExists):
        store.restore(trashed.name)
    assert _texts(store.read(_KEY)) == ["new"]
    assert store.trash() == [trashed]


def the_trash_keeps_every_session_of_a_name(store: SessionStore) -> None:
    """Sessions removed one after the other under the same id are all kept."""
    names = set()
    for text in ("one", "two", "three"):
        store.create(_KEY)
        store.append(_KEY, [_said(text)], expect=ANY_HEAD)
        names.add(store.remove(_KEY).name)
    assert {trashed.name for trashed in store.trash()} == names
    assert len(names) == 3
    found = set()
    for name in names:
        store.restore(name)
        found.update(_texts(store.read(_KEY)))
        store.remove(_KEY)
    assert found == {"one", "two", "three"}


def the_trash_is_emptied_on_request(store: SessionStore) -> None:
    """Only what is older than asked for is deleted, and only from the trash."""
    store.create(_KEY)
    store.create(_OTHER)
    trashed = store.remove(_KEY)
    assert store.empty_trash(older_than_seconds=3_600.0) == []
    assert store.trash() == [trashed]
    assert store.empty_trash() == [trashed]
    assert store.trash() == []
    assert [info.key for info in store.sessions()] == [_OTHER]
    with _raises(UsageError):
        store.restore(trashed.name)


def an_id_is_free_again_after_removal(store: SessionStore) -> None:
    """A new session under the id of a removed one starts empty."""
    store.create(_KEY)
    store.append(_KEY, [_said("old", id="r1")], expect=ANY_HEAD)
    store.remove(_KEY)
    head = store.create(_KEY)
    store.append(_KEY, [_said("new", id="r1")], expect=head)
    assert _texts(store.read(_KEY)) == ["new"]


# Blobs


def a_blob_comes_back(store: BlobStore) -> None:
    """What was put is got, by its SHA-256, whole or in pieces, empty or large."""
    for data in (b"", b"\0", b"some text" * 1_000, bytes(range(256)) * 8_000):
        sha256 = store.put(data)
        assert len(sha256) == 64
        assert store.get(sha256) == data
        assert b"".join(store.chunks(sha256)) == data
        assert store.size(sha256) == len(data)
        assert sha256 in store


def a_blob_goes_by_the_hash_of_its_content(store: BlobStore) -> None:
    """The ref is the SHA-256 of the payload itself, not of how it is kept."""
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert store.put(b"abc") == expected


def the_same_blob_is_stored_once(store: BlobStore) -> None:
    """Putting the same payload again gives the same ref; collecting it deletes one thing."""
    first, second = store.put(b"twice"), store.put(b"twice")
    assert first == second
    assert store.collect([], grace_seconds=0.0) == [first]
    assert first not in store


def a_missing_blob_is_an_error(store: BlobStore) -> None:
    """A ref without a payload raises `BlobMissing` with a hint, never an empty payload."""
    store.put(b"another")
    missing = "0" * 64
    assert missing not in store
    asks: tuple[Callable[[], object], ...] = (
        lambda: store.get(missing),
        lambda: list(store.chunks(missing)),
        lambda: store.size(missing),
    )
    for ask in asks:
        with _raises(BlobMissing) as errors:
            ask()
        assert errors[0].hint


def a_blob_of_more_bytes_than_it_should_have_is_refused(store: BlobStore) -> None:
    """Who knows the size gets that many bytes or an error; the size itself is enough."""
    data = b"some text" * 1_000
    sha256 = store.put(data)
    assert b"".join(store.chunks(sha256, size=len(data))) == data
    with _raises(BlobDamaged) as errors:
        list(store.chunks(sha256, size=len(data) - 1))
    assert errors[0].hint


def a_ref_that_is_no_hash_is_refused(store: BlobStore) -> None:
    """Anything but 64 lower-case hex digits is refused before it is looked for."""
    for bad in ("", "abc", "../" * 20 + "etc/passwd", "A" * 64, "0" * 63 + "\n", "0" * 65):
        with _raises(UsageError):
            store.get(bad)


def unreferenced_blobs_are_collected(store: BlobStore) -> None:
    """What nothing refers to is deleted, and nothing else."""
    kept, gone = store.put(b"kept"), store.put(b"gone")
    assert store.collect([kept, "0" * 64], grace_seconds=0.0) == [gone]
    assert store.get(kept) == b"kept"
    assert gone not in store
    assert store.put(b"gone") == gone
    assert store.get(gone) == b"gone"


def young_blobs_are_left_alone(store: BlobStore) -> None:
    """Within the grace nothing is collected: its record may be about to be written."""
    young = store.put(b"young")
    assert store.collect([], grace_seconds=3_600.0) == []
    assert store.get(young) == b"young"


# Audit logs


def accesses_come_back_in_order(audit: Audit) -> None:
    """Every access, allowed or refused, comes back as it was noted, the newest last."""
    assert audit.entries() == ((), 0)
    noted = [_access(number) for number in range(5)]
    for access in noted:
        audit.note(access)
    assert audit.entries() == (tuple(noted), 0)


def the_newest_accesses_are_the_end_of_all(audit: Audit) -> None:
    """`entries(n)` are the last n, for every n from 0 to past the beginning."""
    noted = [_access(number) for number in range(5)]
    for access in noted:
        audit.note(access)
    for count in range(7):
        assert audit.entries(count).accesses == tuple(noted[max(0, 5 - count) :])


def texts_in_an_audit_log_are_bounded(audit: Audit) -> None:
    """However long a name somebody asks for, the log grows by a bounded line, on one line."""
    name = "so long\n a name\ud800" * 100_000
    audit.note(msgspec.structs.replace(_access(1), target=name, reason=name, owner=name))
    (access,) = audit.entries().accesses
    for text in (access.target, access.reason, access.owner):
        assert text.startswith("so long\n a name\ufffd")
        assert len(text) <= AUDIT_FIELD_CHARS_MAX
    assert access.is_allowed == _access(1).is_allowed


# Making it short


def _said(text: object, **fields: object) -> User:
    """A user's message; anything but text makes one that cannot be stored."""
    return User(content=text, **fields)  # type: ignore[arg-type]


def _text(record: Record) -> str:
    return record.content if isinstance(record, User) and isinstance(record.content, str) else ""


def _texts(records: Iterable[Record]) -> list[str]:
    return [_text(record) for record in records if isinstance(record, User)]


def _bare(record: Record) -> Record:
    """A record without what the store adds to it."""
    return msgspec.structs.replace(record, id="", ts=0.0, parent=None, more=None)


def _one_of_each() -> list[Record]:
    call = {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "."}}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    ref = OutputRef(sha256="0" * 64, bytes=9, kind="text", lines=1, extra={"later": [1]})
    decision = PruneDecision(record="r", action="trim", tool_use_id="c1", extra={"why": "old"})
    return [
        User(content=[{"type": "text", "text": "hi"}], name="ann", extra={"mood": "good"}),
        Assistant(
            content=[thinking, call],
            provider="p",
            model="m",
            usage={"input": 1, "cached": {"read": 2}},
            stop_reason="tool_use",
        ),
        ToolResult(tool_use_id="c1", content="out", name="ls", details={"n": 1}, output_ref=ref),
        ToolResult(tool_use_id="c2", content=None, is_error=True),
        ToolUse(tool_use_id="c9", name="old", input=[1, 2.5, None]),
        Prune(decisions=[decision], window=32_000, reason="full"),
        Compaction(
            summary="so far",
            first_kept="r",
            covers=("a", "b"),
            window=200_000,
            tokens_before=9,
            tokens_after=1,
            method="model",
            model="m",
            usage={"output": 3},
            cost=0.25,
            reason="budget",
        ),
        Checkpoint(state={"goal": ["x"]}, trigger="manual"),
        Flush(notes=["n1"], trigger="compaction", usage={"output": 1}),
        Label(label="here", target="r"),
        Model(model="m2", provider="p2", window=1_000_000),
        Unknown(type="novelty", extra={"type_of": "thing", "n": 1}),
    ]


def _access(number: int) -> Access:
    return Access(
        ts=1_000.5 + number,
        action="read",
        agent="main",
        session="asking" if number % 2 else None,
        owner="ann",
        target=f"main/{number}",
        is_allowed=number % 2 == 0,
        reason="because",
        bytes=number,
    )


@contextmanager
def _raises(kind: type[_Error]) -> Iterator[list[_Error]]:
    """The block must raise that error; it is put into the list."""
    caught: list[_Error] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
    else:
        raise AssertionError(f"expected {kind.__name__}, and nothing was raised")


SESSION_CHECKS: Final[tuple[SessionCheck, ...]] = (
    a_new_session_is_empty_and_has_a_head,
    a_new_session_says_where_it_comes_from,
    a_new_session_says_whose_it_is,
    the_header_is_the_first_record,
    an_id_is_taken_once,
    agents_have_their_own_sessions,
    an_unknown_session_is_named_with_its_nearest,
    an_append_gives_back_ids_in_order,
    an_append_of_many_keeps_their_order,
    an_append_of_nothing_changes_nothing,
    an_append_keeps_the_ids_and_times_it_is_given,
    an_append_after_the_expected_head_succeeds,
    an_append_after_an_old_head_is_refused,
    a_batch_with_a_bad_record_is_refused_whole,
    a_batch_has_a_largest_size,
    records_that_stand_for_themselves_are_appended_each,
    a_header_cannot_be_appended,
    an_id_is_refused_the_second_time,
    an_id_on_an_abandoned_branch_is_taken_too,
    an_id_outside_the_allow_list_is_refused,
    what_was_appended_cannot_be_changed,
    every_type_of_record_comes_back,
    unknown_types_and_fields_are_carried,
    text_of_every_kind_comes_back,
    a_doubled_call_is_read_once,
    the_newest_records_are_the_end_of_all,
    the_records_before_one_are_the_end_of_what_it_follows,
    the_way_back_is_the_path_from_its_other_end,
    a_session_can_be_read_back_page_by_page,
    the_records_before_one_that_is_not_there_are_refused,
    reading_can_start_at_a_record,
    reading_from_a_record_that_is_not_there_fails,
    a_record_is_found_by_its_id_or_a_prefix,
    an_ambiguous_prefix_names_its_candidates,
    a_rewind_moves_the_head_and_loses_nothing,
    a_rewind_can_be_rewound,
    a_rewind_within_a_batch_holds,
    a_rewind_to_nowhere_is_refused,
    a_parent_makes_a_branch,
    branches_are_listed_with_their_leaves,
    every_branch_can_be_read,
    a_fork_copies_the_path,
    a_fork_has_a_label_of_its_own,
    a_fork_belongs_to_whom_the_session_belongs_to,
    a_fork_can_start_anywhere,
    a_fork_changes_nothing_when_it_cannot_be_made,
    a_session_without_a_boundary_is_live_as_a_whole,
    the_live_part_begins_at_the_first_kept_record,
    a_compaction_that_keeps_nothing_starts_the_live_part,
    the_newest_compaction_counts,
    a_compaction_binds_its_window_and_smaller_ones,
    an_undone_compaction_is_no_boundary,
    a_rewind_to_before_a_compaction_undoes_it,
    a_boundary_that_keeps_from_nowhere_is_reported,
    the_listing_shows_small_facts,
    the_listing_is_newest_first_and_by_agent,
    a_label_names_the_session_or_a_record,
    verify_finds_nothing_wrong_with_a_sound_session,
    a_removed_session_can_be_restored,
    a_session_can_be_restored_by_its_id,
    a_restored_session_takes_nobodys_place,
    the_trash_keeps_every_session_of_a_name,
    the_trash_is_emptied_on_request,
    an_id_is_free_again_after_removal,
)
"""Every promise of `SessionStore`."""

BLOB_CHECKS: Final[tuple[BlobCheck, ...]] = (
    a_blob_comes_back,
    a_blob_goes_by_the_hash_of_its_content,
    the_same_blob_is_stored_once,
    a_missing_blob_is_an_error,
    a_blob_of_more_bytes_than_it_should_have_is_refused,
    a_ref_that_is_no_hash_is_refused,
    unreferenced_blobs_are_collected,
    young_blobs_are_left_alone,
)
"""Every promise of `BlobStore`."""

AUDIT_CHECKS: Final[tuple[AuditCheck, ...]] = (
    accesses_come_back_in_order,
    the_newest_accesses_are_the_end_of_all,
    texts_in_an_audit_log_are_bounded,
)
"""Every promise of `Audit`."""
