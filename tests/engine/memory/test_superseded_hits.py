"""Statements that no longer hold are shown after the one that replaced them, and marked."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Session
from holdfast.core.history.access import OPERATOR
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, User
from holdfast.core.owners import owner_of
from holdfast.engine.memory.search import Memory
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

DAY = 86_400.0
OLD = "My bank is Fidor. My bank is near. My bank is kind."
NEW = "Oh, and my bank is now Triodos."


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with closing(MemoryStore()) as store:
        for day, text in enumerate([OLD, "Fish swim.", NEW, "Is the bank open?"]):
            key = SessionKey("main", f"day-{day}")
            store.create(key)
            store.append(key, [User(content=text, ts=(day + 1) * DAY)], expect=None)
        yield store


def test_the_latest_is_first_and_the_older_one_names_it(store: MemoryStore) -> None:
    hits = Memory(store, None).search("which bank is my bank", scope="sessions")
    texts = [hit.text for hit in hits]
    old, new = hits[texts.index(OLD)], hits[texts.index(NEW)]

    assert texts.index(NEW) == texts.index(OLD) - 1
    assert old.superseded_by == new.citation
    assert new.superseded_by is None
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_the_mark_is_in_the_request(store: MemoryStore) -> None:
    """Found is not sent: the model reads which of the two holds."""
    memory = Memory(store, None)
    options = {"model": "offline", "store": store, "memory": memory}
    with Session.open("next", **options) as session:  # type: ignore[arg-type]
        session.say("Remind me, which bank is my bank?")
        sent = str(session.plan().prompt.messages)

    assert sent.index("Triodos") < sent.index("Fidor")
    assert ", superseded by main/day-2#" in sent


SAID = st.lists(
    st.sampled_from([OLD, NEW, "My bank is Fidor.", "The bank of the river.", "Bank holiday."]),
    min_size=1,
    max_size=9,
)


@given(SAID, st.booleans())
def test_a_larger_limit_only_adds_hits(said: list[str], is_reply: bool) -> None:
    """For all that was said: the order does not depend on the limit, and nothing is lost."""
    record = Assistant if is_reply else User
    with closing(MemoryStore()) as store:
        for day, text in enumerate(said):
            key = SessionKey("main", f"day-{day}")
            store.create(key)
            store.append(key, [record(content=f"{text} {day}.", ts=day * DAY + 1)], expect=None)
        memory = Memory(store, None)
        full = memory.search("which bank is my bank", scope="sessions", limit=50)
        for limit in range(1, len(full) + 1):
            some = memory.search("which bank is my bank", scope="sessions", limit=limit)
            assert [hit.citation for hit in some] == [hit.citation for hit in full[:limit]]

    assert len({hit.citation for hit in full}) == len(full) == len(said)
    assert not is_reply or all(hit.superseded_by is None for hit in full)


PEOPLE = st.sampled_from(["", "ann", "bob"])


@given(st.lists(st.tuples(PEOPLE, PEOPLE, st.sampled_from([OLD, NEW])), min_size=2, max_size=6))
def test_a_person_replaces_only_what_that_person_said(said: list[tuple[str, str, str]]) -> None:
    """For all owners of sessions and all names in them, seen by somebody who may read all."""
    people = {}
    with closing(MemoryStore()) as store:
        for day, (owner, name, text) in enumerate(said):
            key = SessionKey("main", f"day-{day}")
            store.create(key, owner=owner_of(owner))
            record = User(content=f"{text} {day}.", name=name or None, ts=day * DAY + 1)
            (id_,) = store.append(key, [record], expect=None).ids
            people[f"{key}#{id_}"] = (owner, name)
        memory = Memory(store, None, caller=OPERATOR)
        hits = memory.search("which bank is my bank", scope="sessions", limit=20)

    assert len(hits) == len(said)
    for hit in hits:
        if hit.superseded_by:
            assert people[hit.citation] == people[hit.superseded_by]
    latest = {people[hit.citation]: hit for hit in sorted(hits, key=lambda hit: hit.ts or 0.0)}
    assert all(hit.superseded_by is None for hit in latest.values())
