"""Session files: making them, the trash, what killed processes leave, free names."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.limits import ID_CHARS_MAX
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.core.owners import ANY_OWNER
from holdfast.errors import (
    HoldfastError,
    NoSuchSession,
    NotDurable,
    SessionExists,
    StoreUnavailable,
    UsageError,
)
from holdfast.ports import ANY_HEAD
from holdfast.stores.files import Disk
from holdfast.stores.jsonl.folders import Folders
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = SessionKey("main", "work")
LONGEST = SessionKey("a" * ID_CHARS_MAX, "s" * ID_CHARS_MAX)


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self, now: float = 1_700_000_000.25) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[JsonlStore]:
    with JsonlStore(tmp_path, clock=clock) as opened:
        yield opened


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(str(tmp_path), Disk())


def log_of(root: Path, key: SessionKey) -> Path:
    return root / "agents" / key.agent / "sessions" / f"{key.session}.jsonl"


def made(store: JsonlStore, key: SessionKey, *texts: str) -> bytes:
    """A session with these user messages; returns its log."""
    store.create(key)
    for text in texts:
        store.append(key, [User(content=text)], expect=ANY_HEAD)
    return log_of(Path(store.root), key).read_bytes()


def keys(store: JsonlStore) -> list[SessionKey]:
    return sorted(info.key for info in store.sessions(owner=ANY_OWNER))


# The trash


@pytest.mark.parametrize("key", [KEY, LONGEST], ids=["short", "longest"])
def test_trash_holds_a_removed_session_whole_until_it_is_restored(
    tmp_path: Path, store: JsonlStore, clock: Clock, key: SessionKey
) -> None:
    """Removing hides a session, restoring brings back every byte of it, whatever its name."""
    log = made(store, key, "hello", "again")
    trashed = store.remove(key)
    assert keys(store) == []
    assert store.trash() == [trashed]
    assert (trashed.key, trashed.removed, trashed.bytes) == (key, clock.now, len(log))
    with pytest.raises(NoSuchSession):
        store.head(key)
    assert store.restore(key.session) == key
    assert store.trash() == []
    assert keys(store) == [key]
    assert log_of(tmp_path, key).read_bytes() == log


def test_trash_keeps_every_session_of_the_same_name(store: JsonlStore, tmp_path: Path) -> None:
    """Removing sessions of one id in the same instant overwrites none of them."""
    logs = []
    for number in range(3):
        logs.append(made(store, KEY, f"number {number}"))
        store.remove(KEY)
    assert len(store.trash()) == 3
    held = {path.read_bytes() for path in (tmp_path / "trash").iterdir()}
    assert held == set(logs)


def test_trash_is_listed_newest_first_and_the_newest_is_restored(
    store: JsonlStore, clock: Clock, tmp_path: Path
) -> None:
    """Of several with one id the one removed last comes back."""
    for text in ("old", "new"):
        made(store, KEY, text)
        clock.now += 1
        store.remove(KEY)
    assert [trashed.removed for trashed in store.trash()] == [clock.now, clock.now - 1]
    store.restore("work")
    assert b'"new"' in log_of(tmp_path, KEY).read_bytes()


@pytest.mark.parametrize("by", ["name", "id", "agent and id"])
def test_trash_restores_by_name_or_id(store: JsonlStore, by: str) -> None:
    """A trashed session is found by its name in the trash, its id, or its agent and id."""
    made(store, KEY, "hello")
    made(store, SessionKey("other", "thing"))
    trashed = store.remove(KEY)
    store.remove(SessionKey("other", "thing"))
    names = {"name": trashed.name, "id": KEY.session, "agent and id": str(KEY)}
    assert store.restore(names[by]) == KEY
    assert keys(store) == [KEY]


@pytest.mark.parametrize("name", ["", "wor", "nothing", "..", "main.work.1"])
def test_trash_says_so_when_there_is_nothing_to_restore(store: JsonlStore, name: str) -> None:
    """A name that fits nothing in the trash is a clear error."""
    made(store, KEY)
    store.remove(KEY)
    with pytest.raises(UsageError, match="in the trash"):
        store.restore(name)


@pytest.mark.parametrize("taken", ["work", "WORK"])
def test_trash_does_not_restore_over_a_living_session(
    store: JsonlStore, tmp_path: Path, taken: str
) -> None:
    """Where the id is in use, or one that differs only in case, both sessions stay as they are."""
    removed = made(store, KEY, "first")
    store.remove(KEY)
    living = made(store, SessionKey("main", taken), "second")
    with pytest.raises(SessionExists):
        store.restore("work")
    assert log_of(tmp_path, SessionKey("main", taken)).read_bytes() == living
    [left] = (tmp_path / "trash").iterdir()
    assert left.read_bytes() == removed


def test_trash_is_emptied_by_age(store: JsonlStore, clock: Clock) -> None:
    """Only what is older than asked for is deleted for good; what went is named."""
    old, young = SessionKey("main", "old"), SessionKey("main", "young")
    made(store, old)
    made(store, young)
    first = store.remove(old)
    clock.now += 100
    second = store.remove(young)
    assert store.empty_trash(older_than_seconds=101) == []
    assert store.empty_trash(older_than_seconds=100) == [first]
    assert store.trash() == [second]
    assert store.empty_trash() == [second]
    assert store.trash() == []


def test_trash_passes_over_what_it_did_not_put_there(
    tmp_path: Path, store: JsonlStore, clock: Clock
) -> None:
    """Foreign names, folders and links in the trash are neither listed nor deleted nor a fault."""
    made(store, KEY)
    trashed = store.remove(KEY)
    trash = tmp_path / "trash"
    names = [
        *("notes.txt", "main.work.jsonl", "main.work.x.jsonl", "main.work.².jsonl"),
        *(".main.work.1.jsonl", "main.-work.1.jsonl", "main.work.1.2.jsonl", "main.work.1.json"),
    ]
    for name in names:
        (trash / name).write_text("{}\n")
    (trash / "main.folder.1.jsonl").mkdir()
    (trash / "main.link.1.jsonl").symlink_to(tmp_path / "agents")
    strangers = {*names, "main.folder.1.jsonl", "main.link.1.jsonl"}
    assert store.trash() == [trashed]
    assert store.empty_trash() == [trashed]
    assert set(os.listdir(trash)) == strangers


def test_trash_takes_the_writers_note_along(tmp_path: Path, store: JsonlStore) -> None:
    """Nothing of a removed session stays behind in its folder."""
    made(store, KEY, "hello")
    assert len(list(log_of(tmp_path, KEY).parent.iterdir())) == 2
    store.remove(KEY)
    assert list(log_of(tmp_path, KEY).parent.iterdir()) == []


def test_trash_is_not_written_to_by_a_writer_that_had_the_session_open(
    tmp_path: Path, store: JsonlStore
) -> None:
    """Another process's open session is gone when it is removed, and new when it is made anew."""
    made(store, KEY, "hello")
    with JsonlStore(tmp_path) as other:
        other.append(KEY, [User(content="other")], expect=ANY_HEAD)
        store.remove(KEY)
        [trashed] = (tmp_path / "trash").iterdir()
        before = trashed.read_bytes()
        with pytest.raises(NoSuchSession):
            other.append(KEY, [User(content="too late")], expect=ANY_HEAD)
        made(store, KEY, "anew")
        other.append(KEY, [User(content="welcome")], expect=ANY_HEAD)
    assert trashed.read_bytes() == before
    texts = [record.content for record in store.read(KEY) if isinstance(record, User)]
    assert texts == ["anew", "welcome"]


# Making


def test_folders_makes_a_session_once(tmp_path: Path, store: JsonlStore) -> None:
    """An id that is taken is refused and what is there stays."""
    log = made(store, KEY, "hello")
    with pytest.raises(SessionExists, match="exists already"):
        store.create(KEY)
    assert log_of(tmp_path, KEY).read_bytes() == log


def test_folders_refuses_an_id_that_differs_only_in_case(tmp_path: Path, store: JsonlStore) -> None:
    """Two ids that are one file on other systems are not both made."""
    made(store, KEY)
    with pytest.raises(SessionExists, match="only in case"):
        store.create(SessionKey("main", "Work"))
    assert [path.name for path in log_of(tmp_path, KEY).parent.iterdir()] == ["work.jsonl"]
    made(store, SessionKey("other", "Work"))


class FailingDisk(Disk):
    """Fails at one step."""

    def __init__(self, step: str) -> None:
        self._step = step

    def write(self, fd: int, data: bytes | memoryview) -> int:
        if self._step == "write":
            raise OSError(28, "No space left on device")
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        if self._step == "sync":
            raise OSError(5, "Input/output error")
        super().sync(fd)


@pytest.mark.parametrize(("step", "error"), [("write", StoreUnavailable), ("sync", NotDurable)])
def test_folders_leaves_nothing_behind_when_a_session_cannot_be_made(
    tmp_path: Path, step: str, error: type[HoldfastError]
) -> None:
    """A failed create leaves no file and no half session, and can be tried again."""
    with JsonlStore(tmp_path, disk=FailingDisk(step)) as failing, pytest.raises(error):
        failing.create(KEY)
    assert list(log_of(tmp_path, KEY).parent.iterdir()) == []
    with JsonlStore(tmp_path) as store:
        store.create(KEY)
        assert keys(store) == [KEY]


def test_folders_lists_only_files_that_could_be_sessions(tmp_path: Path, store: JsonlStore) -> None:
    """Other names, folders, links and hidden files among the sessions are passed over."""
    made(store, KEY)
    folder = log_of(tmp_path, KEY).parent
    for name in (".hidden.jsonl", "-x.jsonl", "a b.jsonl", "x.json", "work.jsonl.bak", "é.jsonl"):
        (folder / name).write_text("{}\n")
    (folder / "folder.jsonl").mkdir()
    (folder / "link.jsonl").symlink_to(folder / "work.jsonl")
    (tmp_path / "agents" / ".hidden" / "sessions").mkdir(parents=True)
    (tmp_path / "agents" / "file").write_text("")
    (tmp_path / "agents" / "link").symlink_to(tmp_path / "agents" / "main")
    assert keys(store) == [KEY]


def test_folders_lists_nothing_when_there_is_no_root(tmp_path: Path) -> None:
    """A root that does not exist has no sessions and no trash; looking does not make it."""
    with JsonlStore(tmp_path / "nowhere") as store:
        assert store.sessions(owner=ANY_OWNER) == []
        assert store.trash() == []
        assert store.empty_trash() == []
        assert store.sweep() == []
        assert list(store.hash_candidates()) == []
    assert not (tmp_path / "nowhere").exists()


# Housekeeping


def test_sweep_removes_old_temporary_files_only(
    tmp_path: Path, store: JsonlStore, clock: Clock
) -> None:
    """What killed processes left goes when it is an hour old; everything else stays."""
    made(store, KEY, "hello")
    folder = log_of(tmp_path, KEY).parent
    ages = {
        ".work.jsonl.1-1.tmp": 3_601.0,
        ".other.jsonl.2-2.tmp": 3_599.0,
        "work.jsonl": 99_999.0,
        "work.tmp": 99_999.0,
        ".work.jsonl": 99_999.0,
    }
    for name, age in ages.items():
        with (folder / name).open("ab"):
            os.utime(folder / name, (clock.now - age, clock.now - age))
    before = {path.name for path in folder.iterdir()}
    assert store.sweep() == ["main/.work.jsonl.1-1.tmp"]
    assert {path.name for path in folder.iterdir()} == before - {".work.jsonl.1-1.tmp"}


# Free names


def test_free_key_is_new_and_says_where_it_came_from(folders: Folders, store: JsonlStore) -> None:
    """The first free name is the id with the suffix, then numbered ones."""
    made(store, KEY)
    found = []
    for _ in range(3):
        key = folders.free_key(KEY, "repaired")
        store.create(key)
        found.append(key.session)
    assert found == ["work-repaired", "work-repaired-2", "work-repaired-3"]


@given(
    session=st.from_regex(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{ID_CHARS_MAX - 1}}}", fullmatch=True),
    copies=st.integers(0, 3),
    is_shouted=st.booleans(),
)
@examples(30)
def test_free_key_can_always_be_made(
    session: str,
    copies: int,
    is_shouted: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Whatever the id and whatever is there already, in whatever case, the name is free."""
    root = tmp_path_factory.mktemp("root")
    key = SessionKey("main", session)
    with JsonlStore(root) as store:
        store.create(key)
        folders = Folders(str(root), Disk())
        for _ in range(copies):
            taken = folders.free_key(key, "repaired")
            store.create(SessionKey("main", taken.session.upper()) if is_shouted else taken)
        store.create(folders.free_key(key, "repaired"))
        assert len(keys(store)) == copies + 2


def test_write_beside_is_no_session(tmp_path: Path, folders: Folders, store: JsonlStore) -> None:
    """A file beside a log is written where it says, privately, and not listed as a session."""
    made(store, KEY)
    path = Path(folders.write_beside(KEY, ".quarantine", [b"left ", b"out"]))
    assert path == log_of(tmp_path, KEY).with_suffix(".quarantine")
    assert path.read_bytes() == b"left out"
    assert path.stat().st_mode & 0o777 == 0o600
    assert keys(store) == [KEY]


def _opened_below(root: Path) -> list[str]:
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [path for path in found if path.startswith(str(root))]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="NO /proc: open files are unknown")
@pytest.mark.parametrize("uses", range(5))
def test_a_store_that_is_closed_holds_no_file(uses: int, tmp_path: Path) -> None:
    """After any number of its uses: nobody could unmount its disk otherwise."""
    key = SessionKey("main", "a")
    with JsonlStore(str(tmp_path / "root")) as store:
        steps = (
            lambda: store.create(key),
            lambda: store.append(key, [User(content="one")], expect=ANY_HEAD),
            lambda: list(store.sessions(owner=ANY_OWNER)),
            lambda: store.remove(key),
        )
        for step in steps[:uses]:
            step()
    assert _opened_below(tmp_path) == []
