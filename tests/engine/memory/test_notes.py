"""Flushes reach the files of notes: each note once, whatever happens in between."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Flush, Record, User
from holdfast.core.memory.note_files import Note, SavedNotes, inert, same_note
from holdfast.engine.memory.notes import newest, save_flush, save_flushes
from holdfast.stores.files import Disk
from holdfast.stores.notes.notes import NoteStore

KEY = SessionKey("main", "work")
flushes = st.lists(st.lists(st.text("ab .-", max_size=4), max_size=3), max_size=6)


class QuickDisk(Disk):
    """Does not wait for the medium: these tests lose no power."""

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, fd: int) -> None:
        pass


class Killed(BaseException):
    """The process is gone."""


class DyingDisk(QuickDisk):
    """Dies in the middle of a given write."""

    def __init__(self, writes: int) -> None:
        self.left = writes

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self.left -= 1
        if self.left < 0:
            super().write(fd, data[: len(data) // 2])
            raise Killed
        return super().write(fd, data)


def made(root: str | Path, disk: Disk | None = None) -> NoteStore:
    return NoteStore(root, "main", disk=disk or QuickDisk())


def texts(store: NoteStore) -> list[str]:
    return [note.text for note in store.notes()]


def log_of(notes: list[list[str]]) -> list[Record]:
    records: list[Record] = [User(content="hello", id="r0")]
    return records + [Flush(id=f"f{number}", notes=some) for number, some in enumerate(notes)]


@given(flushes, st.integers(0, 20))
@examples(60)
def test_a_replay_adds_only_what_is_missing(notes: list[list[str]], writes: int) -> None:
    """A process that dies anywhere while it saves is made good by the next one, once."""
    records = log_of(notes)
    expected = {key for some in notes for text in some if (key := same_note(inert(text)))}
    with tempfile.TemporaryDirectory() as root:
        with suppress(Killed):
            save_flushes(made(root, DyingDisk(writes)), records, KEY)
        save_flushes(made(root), records, KEY)
        once = texts(made(root))
        files = {path: path.read_bytes() for path in Path(root).rglob("*.md")}
        again = save_flushes(made(root), records, KEY)

        assert Counter(map(same_note, once)) == Counter(expected)
        assert again.saved == ()
        assert {path: path.read_bytes() for path in Path(root).rglob("*.md")} == files


def test_a_note_knows_its_session_and_its_flush(tmp_path: Path) -> None:
    """So that it can be looked up what it came from."""
    store = made(tmp_path)
    (note,) = save_flush(store, Flush(id="19c0", notes=["Use tabs."]), KEY).saved
    assert (note.session, note.records) == ("main/work", ("19c0",))


def test_what_a_person_took_out_stays_out(tmp_path: Path) -> None:
    """Neither the session nor a fork of it brings the note back; another flush may."""
    store = made(tmp_path)
    flush = Flush(id="19c0", notes=["Use tabs."])
    save_flush(store, flush, KEY)
    Path(store.location, store.files()[0].path).write_text("")

    for key in (KEY, SessionKey("main", "fork")):
        assert save_flushes(made(tmp_path), [flush], key).saved == ()
    other = Flush(id="19c1", notes=["Use tabs."])
    assert len(save_flush(store, other, KEY).saved) == 1


def test_flushes_without_an_id_of_their_own_are_told_apart(tmp_path: Path) -> None:
    """`@3` is in every log, and another record in each."""
    store = made(tmp_path)
    save_flush(store, Flush(id="@3", notes=["one"]), KEY)
    assert save_flush(store, Flush(id="@3", notes=["two"]), KEY).saved
    Path(store.location, store.files()[0].path).write_text("")
    assert save_flush(store, Flush(id="@3", notes=["one"]), SessionKey("main", "other")).saved


def test_a_store_that_fails_stops_no_one(tmp_path: Path) -> None:
    """What could not be saved is told, and saved the next time."""
    store = made(tmp_path)
    save_flush(store, Flush(id="19c0", notes=["one"]), KEY)
    place = Path(store.location, store.files()[0].path)
    place.unlink()
    place.mkdir()
    records = log_of([["two"]])

    kept = save_flushes(store, records, KEY)
    assert (kept.saved, [one.text for one in kept.refused]) == ((), ["record f0"])
    place.rmdir()
    assert [note.text for note in save_flushes(store, records, KEY).saved] == ["two"]


def test_no_flush_makes_no_file(tmp_path: Path) -> None:
    """A session that noted nothing leaves nothing behind."""
    assert (
        save_flushes(made(tmp_path), [User(content="x"), Flush(id="f", notes=[])], KEY)
        == SavedNotes()
    )
    assert list(tmp_path.iterdir()) == []


def test_the_newest_come_first_and_hold_the_words() -> None:
    """By the moment code wrote them, else by the day of the file."""
    notes = [
        Note("A person's, of a day", "2026-11-15.md", 1, 1, day="2026-11-15"),
        Note("old", "2026-11-14.md", 3, 3, ts=1.0, day="2026-11-14"),
        Note("undated", "MEMORY.md", 1, 1),
        Note("newest of the day", "2026-11-15.md", 9, 9, ts=9.0, day="2026-11-15"),
    ]
    assert [note.line for note in newest(notes)] == [9, 1, 3, 1]
    assert [note.text for note in newest(notes, last=1)] == ["newest of the day"]
    assert [note.line for note in newest(notes, words="DAY of")] == [9, 1]
    assert newest(notes, last=0) == newest(notes, words="none") == []
