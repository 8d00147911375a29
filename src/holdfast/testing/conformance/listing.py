"""The listing shows small facts, and `verify` finds a sound session sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Label, ModelChange, Rewind
from holdfast.ports import ANY_HEAD
from holdfast.testing.conformance.samples import KEY, message, one_of_each

if TYPE_CHECKING:
    from holdfast.core.log.records import Record
    from holdfast.ports import SessionStore


def the_listing_shows_small_facts(store: SessionStore) -> None:
    """Label, title, times, counts and head are those of the log."""
    store.create(KEY, label="project")
    texts = [f"first  words\nof {'many ' * 100}", "second"]
    records: list[Record] = [message(text, ts=2_000.5 + n) for n, text in enumerate(texts)]
    records.append(Assistant(content="reply", ts=3_000_000_000.25))
    records.append(ModelChange(model="m", ts=2_999_999_999))
    done = store.append(KEY, records, expect=ANY_HEAD)
    (info,) = store.sessions()
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
    assert store.sessions() == []
    for number, key in enumerate(keys):
        store.create(key)
        store.append(key, [message("x", ts=4_000_000_000.0 + number)], expect=ANY_HEAD)
    assert [info.key for info in store.sessions()] == keys[::-1]
    assert [info.key for info in store.sessions(agent="one")] == [keys[2], keys[0]]
    assert store.sessions(agent="none") == []
    store.append(keys[0], [message("x", ts=5_000_000_000.0)], expect=ANY_HEAD)
    assert store.sessions()[0].key == keys[0]


def a_label_names_the_session_or_a_record(store: SessionStore) -> None:
    """The newest label without a target is the session's; one with a target leaves it alone."""
    store.create(KEY, label="old")
    head = store.append(KEY, [message("a")], expect=ANY_HEAD).head
    labels: list[str] = []
    for record in (Label(label="here", target=head), Label(label="new"), Label(label="")):
        store.append(KEY, [record], expect=ANY_HEAD)
        labels += [info.label for info in store.sessions()]
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
