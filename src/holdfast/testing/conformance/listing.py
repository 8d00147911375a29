"""The listing shows small facts, and `verify` finds a sound session sound.

A store says where it is, exports and repairs sessions, and cleans up after killed processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.log.batch import new_header
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import SEAL, Assistant, Label, ModelChange, Rewind, decode, encode
from holdfast.core.models.totals import read_totals_key
from holdfast.core.owners import ANY_OWNER, NO_OWNER, NamedOwner, owner_of
from holdfast.errors import LogGrown, NoSuchSession, SessionExists
from holdfast.ports import ANY_HEAD
from holdfast.ports.sessions import listing_order
from holdfast.testing.conformance.samples import (
    ABSENT,
    KEY,
    OTHER,
    begin,
    message,
    one_of_each,
    raises,
    texts_of,
)

if TYPE_CHECKING:
    from holdfast.core.log.records import Record
    from holdfast.core.owners import OwnerFilter
    from holdfast.ports import SessionInfo, SessionStore


def the_listing_shows_small_facts(store: SessionStore) -> None:
    """Label, title, times, counts and head are those of the log."""
    store.create(KEY, label="project")
    texts = [f"first  words\nof {'many ' * 100}", "second"]
    records: list[Record] = [message(text, ts=2_000.5 + n) for n, text in enumerate(texts)]
    records.append(Assistant(content="reply", ts=3_000_000_000.25))
    records.append(ModelChange(model="m", ts=2_999_999_999))
    done = store.append(KEY, records, expect=ANY_HEAD)
    (info,) = store.sessions(owner=ANY_OWNER)
    assert (info.key, info.label, info.head) == (KEY, "project", done.head)
    assert (info.records, info.messages, info.damaged) == (5, 3, 0)
    assert info.last_active == 3_000_000_000.25
    header = next(iter(store.read(KEY)))
    assert info.created == header.ts
    assert info.title.startswith("first words of many")
    assert len(info.title) <= 80
    assert info.bytes > 0
    assert info.parent_session is None


def the_listing_is_newest_first_and_by_agent(store: SessionStore) -> None:
    """Sessions are listed by their last activity; one agent's can be asked for."""
    keys = [SessionKey("one", "a"), SessionKey("two", "b"), SessionKey("one", "c")]
    assert store.sessions(owner=ANY_OWNER) == []
    for number, key in enumerate(keys):
        store.create(key)
        store.append(key, [message("x", ts=4_000_000_000.0 + number)], expect=ANY_HEAD)
    assert [info.key for info in store.sessions(owner=ANY_OWNER)] == keys[::-1]
    assert [info.key for info in store.sessions(agent="one", owner=ANY_OWNER)] == [keys[2], keys[0]]
    assert store.sessions(agent="none", owner=ANY_OWNER) == []
    store.append(keys[0], [message("x", ts=5_000_000_000.0)], expect=ANY_HEAD)
    assert store.sessions(owner=ANY_OWNER)[0].key == keys[0]


def filters_are_exact(store: SessionStore) -> None:
    """Agent, owner and label choose by the whole text; no owner is a choice as well."""
    for number, (owner, label) in enumerate((("ann", "x"), ("an", "x"), ("", "x y"), ("ann", ""))):
        store.create(SessionKey("one", f"s{number}"), owner=owner_of(owner), label=label)
    store.create(SessionKey("two", "s0"), owner=NamedOwner("ann"), label="x")

    def names(owner: OwnerFilter, **filters: str) -> list[str]:
        infos = store.sessions(owner=owner, **filters)  # type: ignore[arg-type]
        return sorted(str(info.key) for info in infos)

    assert names(owner=NamedOwner("ann")) == ["one/s0", "one/s3", "two/s0"]
    assert names(owner=NO_OWNER) == ["one/s2"]
    assert names(owner=NamedOwner("nobody")) == []
    assert names(ANY_OWNER, label="x") == ["one/s0", "one/s1", "two/s0"]
    assert names(ANY_OWNER, label="") == ["one/s3"]
    assert names(agent="one", owner=NamedOwner("ann"), label="x") == ["one/s0"]
    store.append(SessionKey("one", "s0"), [Label(label="y")], expect=ANY_HEAD)
    assert names(owner=NamedOwner("ann"), label="x") == ["two/s0"]
    for unstorable in ("\udcff", "é\udcff/x", "a\x00b"):
        assert store.sessions(label=unstorable, owner=ANY_OWNER) == [], repr(unstorable)
        assert store.sessions(owner=NamedOwner(unstorable)) == [], repr(unstorable)


def pages_make_up_the_listing(store: SessionStore) -> None:
    """Pages of any size, one after the other, are the listing, also where times are equal."""
    for number in range(12):
        key = SessionKey("one" if number % 3 else "two", f"s{number:02}")
        store.create(
            key, owner=owner_of("ann" if number % 2 else ""), label="x" if number % 4 else ""
        )
        store.append(key, [message("x", ts=4_000_000_000.0 + number // 3)], expect=ANY_HEAD)
    filters: list[dict[str, Any]] = [{}, {"agent": "one"}, {"label": "x"}]
    every = [{"owner": ANY_OWNER, **chosen} for chosen in filters]
    for chosen in (*every, {"owner": NamedOwner("ann")}, {"owner": NO_OWNER}):
        whole = store.sessions(**chosen)
        for limit in (1, 2, 5, 12, 50):
            found: list[SessionInfo] = []
            while page := _page(store, chosen, found, limit):
                assert len(page) <= limit
                found += page
            assert found == whole
    assert store.sessions(limit=0, owner=ANY_OWNER) == []


def a_page_follows_the_last_whatever_is_appended(store: SessionStore) -> None:
    """No session comes twice while sessions are appended to and made; those untouched all come."""
    keys = [SessionKey("one", f"s{number}") for number in range(9)]
    for number, key in enumerate(keys):
        store.create(key)
        store.append(key, [message("x", ts=4_000_000_000.0 - number)], expect=ANY_HEAD)
    found = store.sessions(limit=3, owner=ANY_OWNER)
    store.append(found[-1].key, [message("x", ts=5_000_000_000.0)], expect=ANY_HEAD)
    store.append(keys[7], [message("x", ts=5_000_000_001.0)], expect=ANY_HEAD)
    store.create(SessionKey("one", "new"))
    store.append(SessionKey("one", "new"), [message("x", ts=6_000_000_000.0)], expect=ANY_HEAD)
    store.remove(keys[4])
    while page := _page(store, {"owner": ANY_OWNER}, found, 2):
        found += page
    assert [info.key for info in found] == [keys[n] for n in (0, 1, 2, 3, 5, 6, 8)]


def what_changed_since_a_listing_is_all_that_changed(store: SessionStore) -> None:
    """Whatever happened between two answers, the second has what is new, and a total that tells of
    what was removed; sessions that were not touched are not in it, where a store can tell."""
    ann = NamedOwner("ann")
    keys = [SessionKey("one", f"s{number}") for number in range(6)]
    for key in keys:
        store.create(key, owner=ann)
    store.create(OTHER)
    found = store.sessions_since("", owner=ann)
    known = {info.key: info for info in found.infos}
    assert (set(known), found.total) == (set(keys), 6)

    def go_on() -> list[SessionKey]:
        nonlocal found
        found = store.sessions_since(found.state, owner=ann)
        if not found.state:
            known.clear()
        known.update({info.key: info for info in found.infos})
        if len(known) != found.total:
            found = store.sessions_since("", owner=ann)
            known.clear()
            known.update({info.key: info for info in found.infos})
        assert sorted(known.values(), key=listing_order) == store.sessions(owner=ann)
        return sorted(info.key for info in found.infos)

    assert go_on() == ([] if found.state else keys)
    store.append(keys[2], [message("x", ts=1.0)], expect=ANY_HEAD)
    assert keys[2] in go_on()
    removed = store.remove(keys[3])
    store.append(OTHER, [message("x")], expect=ANY_HEAD)
    go_on()
    store.create(keys[3])  # of nobody
    store.create(SessionKey("one", "new"), owner=ann)
    go_on()
    assert keys[3] not in known
    store.remove(keys[3])
    store.restore(removed.name)
    go_on()
    assert keys[3] in known


def info_is_the_row_of_the_listing(store: SessionStore) -> None:
    """`info` returns what a listing shows of a session, after every append."""
    store.create(KEY, label="project", owner=NamedOwner("ann"))
    store.create(OTHER)
    for record in one_of_each():
        store.append(KEY, [record], expect=ANY_HEAD)
        assert store.info(KEY) == next(
            row for row in store.sessions(owner=ANY_OWNER) if row.key == KEY
        )
    assert (store.info(KEY).owner, store.info(OTHER).owner) == (NamedOwner("ann"), NO_OWNER)
    with raises(NoSuchSession):
        store.info(ABSENT)


def totals_are_sums_over_every_branch(store: SessionStore) -> None:
    """`totals` counts turns, calls and tokens of everything appended, whatever was rewound."""
    store.create(KEY)
    usage = {"input_tokens": 70, "cache_read_input_tokens": 30, "output_tokens": 5}
    reply = Assistant(content="r", provider="anthropic", model="m", usage=usage)
    first = store.append(KEY, [message("a"), reply], expect=ANY_HEAD)
    store.append(KEY, [Rewind(to=first.ids[0]), reply], expect=ANY_HEAD)
    store.append(KEY, [message("b"), Assistant(content="r")], expect=ANY_HEAD)
    totals = store.totals(KEY)
    assert (totals.turns, totals.calls, totals.unknown) == (2, 3, 1)
    assert (totals.prompt, totals.cached_read, totals.output) == (200, 60, 10)
    assert {read_totals_key(key)[:2] for key in totals.replies} == {("m", "anthropic")}
    assert sum(calls.calls for calls in totals.replies.values()) == 2
    store.append(KEY, one_of_each(), expect=ANY_HEAD)
    totals = store.totals(KEY)
    assert (totals.turns, totals.calls, totals.tools) == (3, 4, 2)
    assert (totals.compactions, totals.prunes, totals.flushes) == (1, 1, 1)
    with raises(NoSuchSession):
        store.totals(ABSENT)


def a_label_names_the_session_or_a_record(store: SessionStore) -> None:
    """The newest label without a target is the session's; one with a target leaves it alone."""
    store.create(KEY, label="old")
    head = store.append(KEY, [message("a")], expect=ANY_HEAD).head
    labels: list[str] = []
    for record in (Label(label="here", target=head), Label(label="new"), Label(label="")):
        store.append(KEY, [record], expect=ANY_HEAD)
        labels += [info.label for info in store.sessions(owner=ANY_OWNER)]
    assert labels == ["old", "new", ""]


def verify_finds_nothing_wrong_with_a_sound_session(store: SessionStore) -> None:
    """A session made by appends, rewinds and compactions is sound, and is counted right."""
    store.create(KEY)
    a, *_rest = store.append(KEY, one_of_each(), expect=ANY_HEAD).ids
    store.append(KEY, [Rewind(to=a), message("b")], expect=ANY_HEAD)
    report = store.verify(KEY)
    assert report.is_sound
    assert report.findings == ()
    entries = list(store.read_all(KEY))
    assert report.records == len(entries) == sum(report.counts.values())
    assert (report.key, report.head) == (KEY, store.head(KEY))


def _page(
    store: SessionStore, filters: dict[str, Any], found: list[SessionInfo], limit: int
) -> list[SessionInfo]:
    after = found[-1] if found else None
    return store.sessions(**filters, after=after, limit=limit)


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
    begin(store, "a")
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
    begin(store, "a")
    use = store.disk_use()
    if use is not None:
        assert use.bytes > 0
        assert use.free is None or use.free >= 0
