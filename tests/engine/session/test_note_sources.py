"""A note names the record that it was said in, by every way that takes notes from a session."""

from __future__ import annotations

from typing import Any

from holdfast import Caller, Memory, Session, SessionKey, User
from holdfast.core.log.records import Flush
from holdfast.engine.operations.memory import SaveNote
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.stores.in_memory import MemoryStore

RULE = "Releases go out on Tuesdays, whatever happens."


def test_a_note_of_a_model_names_its_flush_and_is_found() -> None:
    """What a session saves before a cut, and what memory finds without it: the words themselves."""
    for notes in ("model", "off"):
        with MemoryStore() as store:
            options: Any = {"model": "offline", "store": store, "window": 16_000, "notes": notes}
            filler = [f"Is harbour {number} big? " + "It is big. " * 300 for number in range(8)]
            with Session.open("work", **options) as session:
                for text in (RULE, *filler):
                    session.say(text)
                session.compact()
            memory = Memory(store, store.notes("main"))
            records = {record.id: record for record in store.read(SessionKey("main", "work"))}
            taken = list(store.notes("main").notes())
            assert bool(taken) == (notes == "model")
            for note in taken:
                assert note.session == "main/work"
                assert all(isinstance(records[flush], Flush) for flush in note.records)
            hits = memory.search("when do releases go out")
            assert any(RULE in hit.text for hit in hits)


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
            assert SaveNote(text=f"A note of {session}.").call(CallerWorkspace(store, caller)).saved
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
