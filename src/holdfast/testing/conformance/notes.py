"""A store keeps notes: each once, for its agent or owner alone, until they are erased.

It keeps running summaries, too, as a cache that never answers for another session.
"""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING, Final

from holdfast.core.checkpoint.told import ToldLine
from holdfast.core.memory.running_summary import Sidecar
from holdfast.core.owners import UNKNOWN_OWNER, owner_of
from holdfast.core.secrets.redaction import Redactor
from holdfast.errors import HoldfastError, NoSuchNote, NoteChanged, PathRejected, UsageError
from holdfast.testing.conformance.samples import ABSENT, KEY, OTHER, raises

if TYPE_CHECKING:
    from holdfast.ports import Notes, SessionStore


_NOON: Final = 1_763_294_400.0
"""A time that is on the same day in every time zone but two."""
_WRITERS: Final = 4
_NOTES_EACH: Final = 25
"""Enough for writers to meet, and few enough to run in a blink."""


def notes_are_kept_with_their_origin(store: SessionStore) -> None:
    """A note comes back with its text, place, time, session and records, from a new object too."""
    saved = _notes(store).append("Ship on Tuesdays.", session="main/a", records=["r1", "r2"]).saved
    (note,) = _notes(store).notes()
    assert saved == (note,)
    assert (note.text, note.session, note.records) == ("Ship on Tuesdays.", "main/a", ("r1", "r2"))
    assert note.ts == _NOON
    assert [file.path for file in _notes(store).files()] == [note.path]
    assert _notes(store).read(note.path, note.line, 1).text == "- Ship on Tuesdays."
    assert list(_notes(store).notes(note.path)) == [note]


def a_note_is_kept_once(store: SessionStore) -> None:
    """A note that is in any file, in other letters even, is not added again."""
    notes = _notes(store)
    notes.put("MEMORY.md", None, b"# Ours\n* Ask Ann first\n")
    notes.append(["Ship on Tuesdays."])
    again = _notes(store).append(["ship on tuesdays", "ask ann first", "Something new", ""])
    assert [note.text for note in again.saved] == ["Something new"]
    assert again.known == ("ship on tuesdays", "ask ann first")
    assert len(again.refused) == 1
    texts = sorted(note.text for note in notes.notes())
    assert texts == ["Ask Ann first", "Ship on Tuesdays.", "Something new"]


def notes_of_a_name_are_added_once(store: SessionStore) -> None:
    """Notes that a person took out are not added again under the same `once`."""
    notes = _notes(store)
    (note,) = notes.append(["Ship on Tuesdays."], once="flush 1").saved
    notes.discard(note.path)
    assert _notes(store).append(["Ship on Tuesdays."], once="flush 1").saved == ()
    assert list(notes.notes()) == []
    assert len(_notes(store).append(["Ship on Tuesdays."], once="flush 2").saved) == 1
    notes.append([], once="flush 3")
    assert notes.marks() == {"flush 1", "flush 2", "flush 3"}
    assert _notes(store, "other").marks() == set()


def a_secret_is_not_noted(store: SessionStore) -> None:
    """Text that the redactor masks is refused, and shown masked."""
    notes = store.notes("main", redactor=Redactor({"DOOR": "swordfish-4711"}))
    kept = notes.append(["The door opens with swordfish-4711.", "The door is red."])
    assert [note.text for note in kept.saved] == ["The door is red."]
    assert "swordfish-4711" not in kept.refused[0].text
    assert [note.text for note in store.notes("main").notes()] == ["The door is red."]


def notes_of_others_are_not_seen(store: SessionStore) -> None:
    """Each agent and each owner has notes of its own, with a scope that no other has."""
    places = [("main", ""), ("main", "ann"), ("main", "Ann"), ("other", ""), ("other", "ann")]
    for agent, owner in places:
        _notes(store, agent, owner).append([f"of {agent} {owner}"])
    scopes = {_notes(store, agent, owner).scope for agent, owner in places}
    assert len(scopes) == len(places)
    for agent, owner in places:
        found = [note.text for note in _notes(store, agent, owner).notes()]
        assert found == [f"of {agent} {owner}".strip()]
        assert store.note_scopes(agent)[_notes(store, agent, owner).scope] in (
            owner_of(owner),
            UNKNOWN_OWNER,
        )
    assert set(store.agents()) >= {"main", "other"}
    assert len(store.note_scopes("main")) == 3
    assert store.note_scopes("nobody") == {}
    _notes(store, "other").erase(None)
    _notes(store, "other", "ann").discard(_notes(store, "other", "ann").files()[0].path)
    assert store.note_scopes("other") == {}, "what was erased or thrown away is not a note"


def a_file_is_written_only_over_what_was_read(store: SessionStore) -> None:
    """`put` compares and writes in one step; what it refuses changes nothing."""
    notes = _notes(store)
    notes.put("a.md", None, b"one\n")
    with raises(NoteChanged):
        notes.put("a.md", None, b"two\n")
    with raises(NoteChanged):
        notes.put("a.md", b"else\n", b"two\n")
    before = notes.files()
    notes.put("a.md", b"one\n", b"two \xff\x00\n")
    assert notes.data("a.md") == b"two \xff\x00\n"
    assert notes.files() != before, "a change is noticed by the marks of a file"
    with raises(NoteChanged):
        notes.put("gone.md", b"", b"x")
    with raises(NoSuchNote):
        notes.data("gone.md")


def files_lie_in_folders(store: SessionStore) -> None:
    """Folders come and go with the files in them; a name is a file or a folder, never both."""
    notes = _notes(store)
    for path in ("b/c/two.md", "a.md", "b/one.md", "b-z.md"):
        notes.put(path, None, path.encode())
    tree = [(file.path, file.is_folder) for file in notes.tree()]
    assert sorted(tree) == [
        *(("a.md", False), ("b", True), ("b-z.md", False), ("b/c", True)),
        *(("b/c/two.md", False), ("b/one.md", False)),
    ]
    seen = [path for path, _is_folder in tree]
    assert seen.index("b") < seen.index("b/c") < seen.index("b/c/two.md")
    assert [file.path for file in notes.files()] == ["a.md", "b-z.md", "b/c/two.md", "b/one.md"]
    kinds = {path: notes.kind(path) for path in ("a.md", "b", "b/c", "b/c/two.md", "b/x", "x")}
    assert list(kinds.values()) == ["file", "folder", "folder", "file", "nothing", "nothing"]
    for path in ("b", "a.md/below.md"):
        with raises(HoldfastError):
            notes.put(path, None, b"x")
    assert notes.data("a.md") == b"a.md"


def files_and_folders_are_renamed(store: SessionStore) -> None:
    """A path moves with everything in it, and only to where nothing is."""
    notes = _notes(store)
    for path in ("b/c/two.md", "b/one.md", "bc.md"):
        notes.put(path, None, path.encode())
    notes.rename("b", "d/e")
    assert [file.path for file in notes.files()] == ["bc.md", "d/e/c/two.md", "d/e/one.md"]
    assert notes.data("d/e/c/two.md") == b"b/c/two.md"
    notes.rename("bc.md", "b.md")
    assert notes.kind("bc.md") == "nothing"
    with raises(NoteChanged):
        notes.rename("b.md", "d/e/one.md")
    with raises(NoSuchNote):
        notes.rename("gone.md", "new.md")
    with raises(UsageError):
        notes.rename("d", "d/inside")


def what_is_discarded_leaves_every_listing(store: SessionStore) -> None:
    """A discarded path is in no listing and no search, and its name is free again."""
    notes = _notes(store)
    for _time in range(3):
        notes.put("b/one.md", None, b"- a note\n")
        place = notes.discard("b/one.md")
        assert place.startswith(".trash/")
        assert notes.files() == []
        assert list(notes.notes()) == []
    notes.put("b/one.md", None, b"- a note\n")
    assert notes.discard("b") != place
    assert notes.kind("b") == "nothing"
    with raises(NoSuchNote):
        notes.discard("b")


def paths_stay_among_the_notes(store: SessionStore) -> None:
    """No path leads out, to what is ours, or to the notes of owners."""
    notes = _notes(store)
    notes.append("a note")
    _notes(store, owner="ann").append("of ann")
    for path in ("", "..", "../x", "/etc/passwd", "a/../b", ".trash", ".flushed", "owners/x.md"):
        for act in (notes.kind, notes.data, notes.discard):
            with raises(PathRejected):
                act(path)
        with raises(PathRejected):
            notes.put(path, None, b"x")
        with raises(PathRejected):
            notes.rename("a.md", path)


def notes_of_a_session_are_erased(store: SessionStore) -> None:
    """`erase` deletes the lines from a session in every file and in the trash, and no others."""
    notes = _notes(store)
    notes.append("secret one", session="main/a")
    notes.discard(next(iter(notes.files())).path)
    notes.append(["secret two"], session="main/a")
    notes.append(["kept"], session="main/ab")
    notes.put("MEMORY.md", None, b"- by hand\n")
    assert notes.erase("main/a") == 2
    assert sorted(note.text for note in notes.notes()) == ["by hand", "kept"]
    assert notes.erase("main/a") == 0
    assert notes.erase(None) == 2
    assert notes.files() == []
    assert notes.erase(None) == 0
    assert _notes(store, "nobody").erase("main/a") == 0


def writers_of_notes_do_not_get_in_each_others_way(store: SessionStore) -> None:
    """Several threads add their own notes and the same ones: each is there once."""

    def write(name: int) -> None:
        notes = _notes(store)
        for number in range(_NOTES_EACH):
            notes.append([f"shared {number}", f"own {number} of {name}"])

    threads = [Thread(target=write, args=(name,)) for name in range(_WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [note.text for note in _notes(store).notes()]
    assert len(found) == len(set(found)) == _NOTES_EACH * (_WRITERS + 1)


def _notes(store: SessionStore, agent: str = "main", owner: str = "") -> Notes:
    return store.notes(agent, owner_of(owner), clock=lambda: _NOON)


def a_summary_comes_back_as_it_was_saved(store: SessionStore) -> None:
    """The last summary that was saved is loaded, for its own session only."""
    store.create(KEY)
    store.create(OTHER)
    assert store.summaries.load(KEY) is None
    summary = Sidecar(upto="r2", items=(ToldLine("r1", "user", "hello \u2603"),), omitted=3)
    assert store.summaries.save(KEY, Sidecar(upto="r1"))
    assert store.summaries.save(KEY, summary)
    assert store.summaries.load(KEY) == summary
    assert store.summaries.load(OTHER) is None
    assert store.summaries.load(ABSENT) is None


def a_summary_is_forgotten(store: SessionStore) -> None:
    """`forget` deletes it, and forgetting what is not there is no error."""
    store.create(KEY)
    store.summaries.save(KEY, Sidecar(upto="r1"))
    store.summaries.forget(KEY)
    assert store.summaries.load(KEY) is None
    store.summaries.forget(KEY)
    store.summaries.forget(ABSENT)


def a_removed_session_leaves_no_summary(store: SessionStore) -> None:
    """Words of a removed session are not in a summary; a restored one makes it again."""
    store.create(KEY)
    store.summaries.save(KEY, Sidecar(upto="r1"))
    trashed = store.remove(KEY)
    assert store.summaries.load(KEY) is None
    store.restore(trashed.name)
    assert store.summaries.load(KEY) is None
