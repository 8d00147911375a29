"""A note names the record that it was said in, by every way that takes notes from a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.cases import check_all
from tests.support.runs import examples

from holdfast import Caller, Memory, Session, SessionKey, User
from holdfast.core.log.records import Flush
from holdfast.core.log.speakers import user_text
from holdfast.core.text.cut import cut
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.ports import SessionStore

RULES = (
    "Remember that releases go out on Tuesdays.",
    "Always use tabs in Go files.",
    "My sister lives in Lisbon, remember that.",
    "Never push to main without a review.",
    "The deadline is 3 June 2027, please remember.",
)
SMALL_TALK = ("What is the weather like?", "Thanks.", "Tell me about harbours.")


def talk(session: Session, texts: list[str]) -> None:
    for text in texts:
        session.say(text)


def leave_small_window(store: SessionStore, texts: list[str]) -> None:
    filler = [
        f"Tell me about harbour number {number}. " + "It is big. " * 300 for number in range(8)
    ]
    with Session.open("work", model="offline", store=store, window=16_000) as session:
        talk(session, [*texts, *filler])
        session.compact()


def leave_by_reset(store: SessionStore, texts: list[str]) -> None:
    with Session.open("work", model="offline", store=store) as session:
        talk(session, texts)
        session.reset()


WAYS: dict[str, Callable[[SessionStore, list[str]], object]] = {
    "compaction": leave_small_window,
    "reset": leave_by_reset,
}


def check_way(way: str, texts: list[str]) -> int:
    """Take notes, and return their number: each is in the record that it names."""
    with MemoryStore() as store:
        WAYS[way](store, texts)
        memory = Memory(store, store.notes("main"))
        records = {record.id: record for record in store.read(SessionKey("main", "work"))}
        notes = list(store.notes("main").notes())
        for note in notes:
            assert note.session == "main/work"
            source, flush = note.records
            assert isinstance(records[flush], Flush)
            said = user_text(records[source])
            assert cut(note.text, 300).text.rstrip(".") in said
            assert note.text.rstrip(".") in memory.get(f"{note.session}#{source}")
            hits = memory.search(note.text)
            assert source in {hit.record for hit in hits if hit.text == note.text}
        return len(notes)


@examples(20)
@given(texts=st.lists(st.sampled_from((*RULES, *SMALL_TALK)), min_size=1, max_size=6))
@example(texts=[RULES[0], SMALL_TALK[0], RULES[1], RULES[2]])
@example(texts=[RULES[0], RULES[0], SMALL_TALK[1]])
def test_a_note_names_the_record_it_was_said_in(texts: list[str]) -> None:
    """The newest that says it, before the record of the flush that took it."""
    check_all(list(WAYS), lambda way: check_way(way, texts))


def test_notes_are_taken_at_all() -> None:
    """The property above speaks of something."""
    for way in WAYS:
        assert check_way(way, [RULES[0], SMALL_TALK[0], RULES[1], SMALL_TALK[2]]) >= 1


def test_a_note_over_mcp_names_the_session_of_its_client() -> None:
    """And the newest record of it; a client without a session names none."""
    with MemoryStore() as store:
        key = SessionKey("main", "work")
        store.create(key)
        store.append(key, [User(content="hello")], expect=None)
        callers = {
            "work": ("main/work", (store.head(key),)),
            "later": ("main/later", ()),
            None: (None, ()),
        }
        for session, origin in callers.items():
            caller = Caller("main", session, visibility="agent")
            reply: Any = CallerWorkspace(store, caller).memory.add(f"A note of {session}.")
            assert msgspec.json.decode(reply)["saved"]
            (note,) = [
                note for note in store.notes("main").notes() if note.text.endswith(f"{session}.")
            ]
            assert (note.session, note.records) == origin


def test_sources_are_those_of_each_note() -> None:
    """Also where some of several are not new, or have no source."""
    with MemoryStore() as store:
        notes = store.notes("main")
        notes.append(["One."])
        notes.append(
            ["One.", "Two.", "Three.", "Four."],
            session="main/work",
            records=("f1",),
            sources=["r1", "r2", "", "r4"],
        )
        found = {note.text: note.records for note in notes.notes()}
        assert found == {
            "One.": (),
            "Two.": ("r2", "f1"),
            "Three.": ("f1",),
            "Four.": ("r4", "f1"),
        }
