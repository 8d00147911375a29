"""Notes on disk: each is there once, whoever writes at the same time and whatever is broken."""

from __future__ import annotations

import errno
import os
import random
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples, is_whole

from holdfast.core.limits import NOTE_FILE_BYTES_MAX
from holdfast.core.memory.note_files import same_note
from holdfast.core.owners import NamedOwner, owner_of
from holdfast.core.secrets.redaction import Redactor
from holdfast.errors import (
    BadId,
    NoSuchNote,
    NotDurable,
    NoteChanged,
    PathRejected,
    StoreError,
    StoreUnavailable,
    UsageError,
)
from holdfast.stores.files import Disk
from holdfast.stores.notes.notes import NoteStore, local_time
from holdfast.testing.disk import FOREVER, FaultyDisk

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp()
TODAY = "2026-11-16.md"
WRITER = """
import random, sys
from holdfast.stores.files import Disk
from holdfast.stores.notes.notes import NoteStore
class Quick(Disk):
    def sync(self, fd): pass
    def sync_folder(self, fd): pass
root, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = NoteStore(root, "main", disk=Quick())
notes = [f"own note {number} of {name}" for number in range(count // 2)]
notes += [f"Shared note {number}" for number in range(count - count // 2)]
chance = random.Random(name)
chance.shuffle(notes)
print("ready", flush=True)
sys.stdin.readline()
while notes:
    some = [notes.pop() for _ in range(min(len(notes), chance.randrange(1, 40)))]
    kept = store.append(some, session=f"main/{name}", records=[f"r{len(notes)}"])
    print(len(kept.saved), flush=True)
"""
ENDLESS = """
import itertools, sys
from holdfast.stores.notes.notes import NoteStore
store = NoteStore(sys.argv[1], "main")
for number in itertools.count(int(sys.argv[2])):
    store.append([f"note {number} {'x' * (number * 37 % 400)}"], session="main/work")
    print(number, flush=True)
"""


class QuickDisk(Disk):
    """Does not wait for the medium: these tests lose no power."""

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, fd: int) -> None:
        pass


def made(root: Path | str, owner: str = "", **more: object) -> NoteStore:
    options: dict[str, object] = {"clock": lambda: NOON, "zone": UTC, **more}
    return NoteStore(root, "main", owner_of(owner), **options)  # type: ignore[arg-type]


def texts(store: NoteStore) -> list[str]:
    return [note.text for note in store.notes()]


def today(store: NoteStore) -> Path:
    return Path(store.location) / TODAY


# Appending


def test_a_note_is_appended_with_where_it_came_from(tmp_path: Path) -> None:
    """It is in the file of the day, and read back with its session and its records."""
    store = made(tmp_path)

    kept = store.append(["Releases go out on Tuesdays."], session="main/work", records=["19c0"])

    (note,) = store.notes()
    assert kept.saved == (note,)
    assert (note.text, note.path, note.line) == ("Releases go out on Tuesdays.", TODAY, 3)
    assert (note.ts, note.session, note.records) == (NOON, "main/work", ("19c0",))
    assert (note.day, note.heading) == ("2026-11-16", "")
    assert today(store).read_text() == (
        "# 2026-11-16\n\n- Releases go out on Tuesdays. "
        "<!-- hf: 2026-11-16T12:00:00+00:00 main/work 19c0 -->\n"
    )


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    """Files are 0600 and folders 0700, every one of them."""
    store = made(tmp_path)
    store.append(["one"], once="flush")

    for path in Path(tmp_path, "agents").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_a_note_is_written_once(tmp_path: Path) -> None:
    """Not twice in a batch, in a day, or ever; a person's words count as well."""
    clock = [NOON]
    store = made(tmp_path, clock=lambda: clock[0])
    assert len(store.append(["Use tabs.", "use TABS", "Use  'tabs'!"]).saved) == 1
    Path(store.location, "MEMORY.md").write_text("# Ours\nThe server is slow.\n* Ask Ann first\n")
    clock[0] += 86_400 * 40

    again = made(tmp_path, clock=lambda: clock[0])
    kept = again.append(["Use tabs", "The server is slow", "ask Ann first.", "New"])

    assert [note.text for note in kept.saved] == ["New"]
    assert kept.known == ("Use tabs", "The server is slow", "ask Ann first.")
    assert len(texts(again)) == 4


def test_a_note_that_was_taken_out_can_be_noted_again(tmp_path: Path) -> None:
    """What counts is what the files say now."""
    store = made(tmp_path)
    store.append(["one", "two"])
    lines = today(store).read_text().splitlines(keepends=True)
    today(store).write_text("".join(line for line in lines if "one" not in line))

    assert [note.text for note in store.append(["one", "two"]).saved] == ["one"]


def test_what_came_from_one_place_is_added_once(tmp_path: Path) -> None:
    """A person who takes a note out is not told it again by the same flush."""
    store = made(tmp_path)
    store.append(["one", "two"], once="flush 1")
    today(store).write_text("- two\n")

    assert made(tmp_path).append(["one", "two"], once="flush 1").saved == ()
    assert [note.text for note in store.append(["one"], once="flush 2").saved] == ["one"]


@pytest.mark.parametrize(
    "secret", ["the password is hunter2!Xy", "use\nsk-proj-abcdefghij1234567890"]
)
def test_secrets_are_refused_and_told_without_the_secret(tmp_path: Path, secret: str) -> None:
    """The others of the batch are noted."""
    store = made(tmp_path)

    kept = store.append([secret, "The demo is on Friday.", " \n - "])

    assert texts(store) == ["The demo is on Friday."]
    assert [one.why for one in kept.refused] == [
        "it holds what looks like a password, key or token",
        "it says nothing",
    ]
    assert "hunter2" not in kept.refused[0].text
    assert "abcdefghij12345" not in str(kept)


def test_values_that_the_application_registered_are_refused(tmp_path: Path) -> None:
    """They need not look like secrets."""
    store = made(tmp_path, redactor=Redactor({"door": "swordfish 7"}))

    (refused,) = store.append(["Say swordfish 7 at the door"]).refused

    assert refused.text == "Say [masked: door] at the door"
    assert texts(store) == []


def test_nothing_to_note_makes_no_file(tmp_path: Path) -> None:
    """An empty batch leaves no empty day behind."""
    store = made(tmp_path)
    assert store.append([]).saved == ()
    assert list(store.notes()) == []
    assert store.files() == []
    assert list(NoteStore(tmp_path / "none", "main").notes()) == []


def test_one_note_needs_no_list(tmp_path: Path) -> None:
    """A text is not taken for a list of letters."""
    store = made(tmp_path)
    store.append("The demo is on Friday.")
    assert texts(store) == ["The demo is on Friday."]


def test_a_file_that_goes_away_while_notes_are_read_is_left_out(tmp_path: Path) -> None:
    """One that was asked for by name is an error."""
    store = made(tmp_path)
    store.put("a.md", None, b"one\n")
    store.put("b.md", None, b"two\n")
    notes = store.notes()
    assert next(notes).text == "one"
    Path(store.location, "b.md").unlink()
    assert list(notes) == []
    with pytest.raises(NoSuchNote):
        list(store.notes("b.md"))


# Days


def test_the_day_is_the_users(tmp_path: Path) -> None:
    """At the moment of the append, wherever the machine is."""
    moment = datetime(2026, 11, 15, 23, 30, tzinfo=UTC).timestamp()
    for zone in (ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")):
        made(tmp_path, clock=lambda: moment, zone=zone).append([f"Said in {zone}"])

    assert [(note.path, note.ts) for note in made(tmp_path).notes()] == [
        ("2026-11-15.md", moment),
        ("2026-11-16.md", moment),
    ]


def test_midnight_and_a_clock_that_goes_back_lose_nothing(tmp_path: Path) -> None:
    """Each note is in the file of its own moment, and in no other."""
    times = [NOON + hours * 3_600 for hours in (0, 13, 11, -30, 12)]
    clock = iter(times)
    store = made(tmp_path, clock=lambda: next(clock))
    for number in range(5):
        store.append([f"note {number}", "note 0"])

    assert sorted(texts(store)) == [f"note {number}" for number in range(5)]
    assert [file.path for file in store.files()] == ["2026-11-15.md", TODAY, "2026-11-17.md"]


# What people do to files


@pytest.mark.parametrize(
    ("before", "lead"),
    [
        (b"- no end", b"\n"),
        (b"# Mine\r\n- one\r\n", b""),
        (b"- one\r\n- no end", b"\n"),
        (b"\xef\xbb\xbf# Mine\n", b""),
        (b"caf\xe9 in Latin-1\n", b""),
        (b"```\nleft open\n", b""),
        (b"<!-- left open\n", b""),
        (b"\n\n\n", b""),
        (b"\x18\x07 torn", b"\n"),
    ],
)
def test_what_a_person_wrote_is_left_as_it_is(tmp_path: Path, before: bytes, lead: bytes) -> None:
    """Notes go behind it, on lines of their own, and are read back."""
    store = made(tmp_path)
    Path(store.location).mkdir(parents=True)
    today(store).write_bytes(before)

    saved = store.append(["The first.", "The second."]).saved

    after = today(store).read_bytes()
    assert after.startswith(before + lead + b"- The first.")
    assert after.count(b"\n") == (before + lead).count(b"\n") + 2
    assert [note for note in store.notes() if note.ts][-2:] == list(saved)
    if before.endswith(b"\r\n"):
        assert after.endswith(b"-->\r\n")


@pytest.mark.parametrize(
    "what", ["folder", "link", "dangling", "hard link", "fifo", "zeros", "large"]
)
def test_what_is_no_text_file_is_not_touched(tmp_path: Path, what: str) -> None:
    """The error says which file it is; nothing is followed, replaced or cut."""
    store = made(tmp_path / "root")
    Path(store.location).mkdir(parents=True)
    place, other = today(store), tmp_path / "other"
    other.write_text("precious")
    match what:
        case "folder":
            place.mkdir()
        case "link":
            place.symlink_to(other)
        case "dangling":
            place.symlink_to(tmp_path / "nowhere")
        case "hard link":
            other.chmod(0o666)  # others can change it
            place.hardlink_to(other)
        case "fifo":
            os.mkfifo(place)
        case "zeros":
            place.write_bytes("# Notes\n".encode("utf-16"))
        case _:
            with place.open("wb") as file:
                file.truncate(NOTE_FILE_BYTES_MAX + 1)
    size = place.lstat().st_size

    with pytest.raises((PathRejected, StoreUnavailable)) as caught:
        store.append(["one"])

    assert caught.value.hint
    assert place.lstat().st_size == size
    assert other.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()
    assert "one" not in texts(store)


class SavingDisk(QuickDisk):
    """An editor saves the file, as a new one, just before each of the first writes to it."""

    def __init__(self, place: Path, times: int) -> None:
        self.place, self.times, self.saves = place, times, 0

    def write(self, fd: int, data: bytes | memoryview) -> int:
        if bytes(data).startswith((b"- ", b"# ")) and self.times > 0:
            self.times -= 1
            self.saves += 1
            fresh = self.place.with_name("saved")
            fresh.write_text(f"- mine {self.saves}\n")
            fresh.rename(self.place)
        return super().write(fd, data)


def test_an_editor_that_saves_at_the_same_moment_takes_nothing_away(tmp_path: Path) -> None:
    """A file that was put in the place of ours gets the notes as well."""
    store = made(tmp_path)
    store.append(["first"])
    store = made(tmp_path, disk=SavingDisk(today(store), 2))

    saved = store.append(["second"]).saved

    assert texts(store) == ["mine 2", "second"]
    assert [note.line for note in saved] == [2]


def test_a_file_that_is_replaced_without_end_is_an_error(tmp_path: Path) -> None:
    """It is not tried for ever."""
    store = made(tmp_path)
    store.append(["first"])
    with pytest.raises(NotDurable, match="was replaced"):
        made(tmp_path, disk=SavingDisk(today(store), 99)).append(["second"])


# Many writers, and crashes


def test_eight_processes_note_everything_once(tmp_path: Path) -> None:
    """200 notes each (nightly: 1,000), half of them the same in all: each is there once, on its
    own line."""
    names, half = [f"writer{number}" for number in range(8)], 500 if is_whole() else 100
    children = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), name, str(2 * half)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    outputs = []
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        outputs.append(child.communicate()[0])
        assert child.returncode == 0

    expected = {f"own note {number} of {name}" for number in range(half) for name in names}
    expected |= {f"Shared note {number}" for number in range(half)}
    found = Counter(texts(NoteStore(tmp_path, "main")))
    assert set(found) == expected
    assert set(found.values()) == {1}
    assert sum(int(line) for output in outputs for line in output.split()) == len(expected)


@examples(30)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.lists(st.text("ab. \n", max_size=3), max_size=4)),
        max_size=12,
    )
)
def test_stores_side_by_side_agree(appends: list[tuple[str, list[str]]]) -> None:
    """However appends of several stores alternate, each note is there once, the first as said."""
    with tempfile.TemporaryDirectory() as root:
        stores = {name: made(root, disk=QuickDisk()) for name in "abc"}
        saved = [
            note.text
            for name, notes in appends
            for note in stores[name].append(notes, session=f"main/{name}").saved
        ]
        offered = {same_note(text) for _name, notes in appends for text in notes} - {""}

        assert texts(stores["a"]) == saved
        assert sorted(map(same_note, saved)) == sorted(offered)


class Killed(BaseException):
    """The process is gone."""


class DyingDisk(Disk):
    """Dies at a given call, of a write after some of its bytes."""

    def __init__(self, call: int, part: float) -> None:
        self.left, self.part = call, part

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self._step(lambda: os.write(fd, data[: int(len(data) * self.part)]))
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._step()

    def sync_folder(self, fd: int) -> None:
        self._step()

    def _step(self, last: object = None) -> None:
        self.left -= 1
        if self.left < 0:
            if self.left == -1 and callable(last):
                last()
            raise Killed


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("part", [0, 0.05, 0.5, 0.99, 1])
def test_a_kill_at_any_step_loses_doubles_and_halves_nothing(
    tmp_path: Path, part: float, is_new: bool
) -> None:
    """What was acknowledged stays; of what was not, there are whole notes or none."""
    batch = ["The third note, é and 漢 in it.", "The fourth note."]
    for call in range(12):
        root = tmp_path / str(call)
        if not is_new:
            made(root).append(["The first note.", "The second note."], once="a")
        before = texts(made(root))
        try:
            made(root, disk=DyingDisk(call, part)).append(batch, once="b")
        except Killed:
            is_dead = True
        else:
            is_dead = False
        # a reader sees whole notes
        assert texts(made(root)) in (before, before + batch)
        # and so does the next writer, of other notes or of the same
        store = made(root)
        store.append(["The fifth note."])
        between = set(texts(store)) - {"The fifth note."}
        assert between in (set(before), {*before, *batch})
        store.append(batch, once="b")
        assert Counter(texts(store)) == Counter([*before, *batch, "The fifth note."])
        if not is_dead:
            break
    assert not is_dead


def test_a_killed_process_loses_no_note_it_has_acknowledged(tmp_path: Path) -> None:
    """SIGKILL at random moments, over and over: every note is there, whole and once."""
    chance, first = random.Random(6), 0
    acknowledged: set[int] = set()
    for _round in range(6):
        child = subprocess.Popen(
            [sys.executable, "-c", ENDLESS, str(tmp_path), str(first)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        for _line in range(chance.randrange(3, 30)):
            acknowledged.add(int(child.stdout.readline()))
        child.kill()
        acknowledged.update(map(int, child.communicate()[0].split()))
        first = max(acknowledged) + 1

    found = texts(NoteStore(tmp_path, "main"))
    assert all(text == f"note {n} {'x' * (n * 37 % 400)}".rstrip() for n, text in enumerate(found))
    assert len(found) - 1 >= max(acknowledged)
    assert acknowledged == set(range(max(acknowledged) + 1))


@pytest.mark.parametrize("room", [0, 20, 300, 380])
def test_a_full_disk_is_told_and_healed(tmp_path: Path, room: int) -> None:
    """Nothing is acknowledged; once there is space, the same append doubles nothing."""
    disk = FaultyDisk()
    store = made(tmp_path, disk=disk)
    store.append(["first"])
    disk.fill(room=room)
    with pytest.raises(StoreUnavailable, match="full"):
        store.append(["second " + "x" * 200, "third"])
    assert texts(made(tmp_path))[0] == "first"
    disk.free()

    store.append(["second " + "x" * 200, "third"])

    assert texts(store) == ["first", "second " + "x" * 200, "third"]


@pytest.mark.parametrize("call", ["write", "sync", "sync_folder"])
def test_a_failing_disk_is_no_acknowledgement(tmp_path: Path, call: str) -> None:
    """The error says that nothing is claimed; afterwards all is there once."""
    disk = FaultyDisk()
    store = made(tmp_path, disk=disk)
    disk.fail(call, errno.EIO, times=FOREVER)  # type: ignore[arg-type]
    with pytest.raises(StoreError):
        store.append(["one", "two"])
    disk.heal()

    store.append(["one", "two"])

    assert texts(store) == ["one", "two"]


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b'{"name":"../../x.md","size":0,"data":"YQ=="}']
)
def test_a_broken_journal_stops_nothing(tmp_path: Path, data: bytes) -> None:
    """It is ours to write; what else is in it is not believed."""
    store = made(tmp_path)
    store.append(["one"])
    Path(store.location, ".appending").write_bytes(data)

    assert texts(store) == ["one"]
    assert len(store.append(["two"]).saved) == 1
    assert texts(store) == ["one", "two"]


# Whose they are


def test_nobody_reads_the_notes_of_another(tmp_path: Path) -> None:
    """Neither an agent another's, nor an owner another's, nor an agent those of its owners."""
    owners = ["ann", "Ann", "a/../nn", "../../main", "ann ", "漢", "x" * 300, "owners"]
    for owner in owners:
        made(tmp_path, owner).append([f"Of {owner!r}"])
    made(tmp_path).append(["Of the agent"])
    NoteStore(tmp_path, "owners").append(["Of the agent called owners"])
    NoteStore(tmp_path, "owners", NamedOwner("ann")).append(["Of Ann with the other agent"])

    assert texts(made(tmp_path)) == ["Of the agent"]
    assert texts(NoteStore(tmp_path, "owners")) == ["Of the agent called owners"]
    for owner in owners:
        assert len(texts(made(tmp_path, owner))) == 1
    inside = Path(tmp_path, "agents", "main", "memory", "owners")
    assert len(list(inside.iterdir())) == len({name.name.casefold() for name in inside.iterdir()})
    assert {path.parent for path in inside.rglob("*.md")} == set(inside.iterdir())
    with pytest.raises(PathRejected):
        made(tmp_path).data(f"owners/{next(inside.iterdir()).name}/{TODAY}")
    with pytest.raises(BadId):
        NoteStore(tmp_path, "../main")


# Reading


def test_files_and_folders_of_people_are_read_and_links_are_not(tmp_path: Path) -> None:
    """Every plain file in the folder counts; what is hidden or leads elsewhere does not."""
    store = made(tmp_path / "root")
    below = Path(store.location, "projects")
    below.mkdir(parents=True)
    (below / "site.md").write_text("Built with Hugo.\n")
    (below / ".swp").write_text("hidden\n")
    outside = tmp_path / "outside.md"
    outside.write_text("not ours\n")
    (below / "link.md").symlink_to(outside)
    Path(store.location, "away").symlink_to(tmp_path)

    assert texts(store) == ["Built with Hugo."]
    (file,) = store.files()
    assert (file.path, file.size) == ("projects/site.md", 17)
    for path in ("projects/link.md", "away/outside.md", "../outside.md"):
        with pytest.raises(PathRejected):
            store.data(path)


def test_lines_are_read_without_their_comments(tmp_path: Path) -> None:
    """A passage says which lines it has, and of how many."""
    store = made(tmp_path)
    store.append([f"note {number}" for number in range(10)], session="main/work")

    passage = store.read(TODAY, 4, 2)

    assert passage.text == "- note 1\n- note 2"
    assert (passage.first_line, passage.last_line, passage.lines) == (4, 5, 12)
    assert store.read(TODAY).text.count("\n") == 11
    assert store.read(TODAY, 99).text == ""
    with pytest.raises(UsageError):
        store.read(TODAY, 0)
    with pytest.raises(NoSuchNote, match="2026-11-1"):
        store.read("2026-11-15.md")


# Changing whole files


def test_a_file_is_written_anew_only_if_it_is_as_it_was(tmp_path: Path) -> None:
    """An edit that was made for something else is refused and changes nothing."""
    store = made(tmp_path)
    store.put("a/b.md", None, b"one\n")
    with pytest.raises(NoteChanged):
        store.put("a/b.md", None, b"two\n")
    with pytest.raises(NoteChanged):
        store.put("a/b.md", b"zero\n", b"two\n")
    assert store.data("a/b.md") == b"one\n"

    store.put("a/b.md", b"one\n", b"two\n")

    assert store.data("a/b.md") == b"two\n"
    with pytest.raises(NoteChanged):
        store.put("c.md", b"", b"two\n")


def test_appends_and_edits_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    """An edit made for the file before an append is refused; the append stays."""
    store = made(tmp_path)
    store.append(["one"])
    before = store.data(TODAY)
    made(tmp_path).append(["two"])
    with pytest.raises(NoteChanged):
        store.put(TODAY, before, before + b"- three\n")
    assert texts(store) == ["one", "two"]


def test_what_is_deleted_is_in_the_trash(tmp_path: Path) -> None:
    """Files and folders, by the same name as often as one likes."""
    store = made(tmp_path)
    for number in range(3):
        store.put("a/b.md", None, f"{number}\n".encode())
        assert store.discard("a/b.md").startswith(".trash/20261116T120000-")
    assert store.discard("a") == ".trash/20261116T120000-a"
    trash = Path(store.location, ".trash")
    assert sorted(path.read_text() for path in trash.rglob("*.md")) == ["0\n", "1\n", "2\n"]
    assert texts(store) == []
    with pytest.raises(NoSuchNote):
        store.discard("a")


def test_a_rename_replaces_nothing(tmp_path: Path) -> None:
    """A path that is taken is refused, and so is one inside of what is moved."""
    store = made(tmp_path)
    store.put("a.md", None, b"a\n")
    store.put("b/c.md", None, b"c\n")
    with pytest.raises(NoteChanged):
        store.rename("a.md", "b/c.md")
    with pytest.raises(UsageError):
        store.rename("b", "b/d/e")
    with pytest.raises(NoSuchNote):
        store.rename("none.md", "some.md")
    store.rename("b", "d/e")
    assert [file.path for file in store.files()] == ["a.md", "d/e/c.md"]
    assert store.kind("d/e") == "folder"
    assert [store.kind(path) for path in ("a.md", "b", "a.md/x")] == ["file", "nothing", "nothing"]


def test_the_moment_has_the_users_zone() -> None:
    """Without one given, the machine's."""
    zone = timezone(timedelta(hours=5, minutes=30))
    assert local_time(lambda: NOON, zone).isoformat() == "2026-11-16T17:30:00+05:30"
    assert local_time(lambda: NOON).tzinfo is not None
