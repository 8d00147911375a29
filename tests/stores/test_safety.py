"""No name, link, special file or swap leads out of the root, and nobody else may read it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.stores.opens import watched
from tests.support.cases import check_all

from holdfast import Session
from holdfast.core.history.access import Access
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Rewind, User
from holdfast.core.owners import ANY_OWNER
from holdfast.errors import (
    BadId,
    HoldfastError,
    HoldfastWarning,
    NoSuchRecord,
    PathRejected,
    StoreUnavailable,
)
from holdfast.ports import ANY_HEAD, NewMessage
from holdfast.stores.blobs import FileBlobs
from holdfast.stores.files import Disk, explaining, network_filesystem
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing.conformance.samples import texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY = SessionKey("main", "work")
SECRET = "what stands outside the root"

BAD_NAMES = {
    "empty": "",
    "dot": ".",
    "parent": "..",
    "absolute": "/etc/passwd",
    "traversal": "../../etc/passwd",
    "folder": "a/b",
    "backslash": "a\\b",
    "nul": "a\x00b",
    "newline": "work\n",
    "space": "a b",
    "hidden": ".hidden",
    "option": "-rf",
    "suffix": "work.jsonl",
    "long": "a" * 4096,
    "one too long": "a" * 113,
    "cyrillic o": "w\u043erk",
    "full width": "\uff57ork",
    "full width dots": "\uff0e\uff0e",
    "division slash": "a\u2215b",
    "ligature": "\ufb01le",
    "arabic digit": "\u0661",
    "superscript": "a\u00b2",
    "combining": "e\u0301",
    "invisible": "wo\u200brk",
    "surrogate": "wo\ud800rk",
    "uri": "file:x",
    "wildcard": "wor*",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def store(root: Path) -> Iterator[JsonlStore]:
    with JsonlStore(root) as opened:
        opened.create(KEY)
        opened.append(KEY, [User(content="inside")], expect=ANY_HEAD)
        yield opened


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Another root, which nothing may touch, with a session of the same name."""
    place = tmp_path / "outside"
    with JsonlStore(place) as other:
        other.create(KEY, label=SECRET)
        other.append(KEY, [User(content=SECRET)], expect=ANY_HEAD)
        other.create(SessionKey("main", "gone"), label=SECRET)
        other.remove(SessionKey("main", "gone"))
    return place


def log_of(root: Path, key: SessionKey = KEY) -> Path:
    return root / "agents" / key.agent / "sessions" / f"{key.session}.jsonl"


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every name below a folder with its mode, time of change and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path)] = (status.st_mode, status.st_mtime_ns, data)
    return found


def acts(store: JsonlStore) -> dict[str, Callable[[], object]]:
    """Everything that can be done to a session."""
    return {
        "read": lambda: list(store.read(KEY)),
        "read from": lambda: list(store.read(KEY, start="x")),
        "read_all": lambda: list(store.read_all(KEY)),
        "read_branch": lambda: list(store.read_branch(KEY, "x")),
        "last": lambda: store.last(KEY, 3),
        "live": lambda: store.live(KEY),
        "head": lambda: store.head(KEY),
        "find": lambda: store.find(KEY, "x"),
        "branches": lambda: store.branches(KEY),
        "verify": lambda: store.verify(KEY),
        "repair": lambda: store.repair(KEY),
        "export": lambda: list(store.export(KEY)),
        "fork": lambda: store.fork(KEY, SessionKey("other", "copy"), at=None),
        "append": lambda: store.append(KEY, [User(content="x")], expect=ANY_HEAD),
        "append_each": lambda: store.append_each(KEY, [User(content="x")]),
        "rewind": lambda: store.append(KEY, [Rewind(to="x")], expect=ANY_HEAD),
        "sync": lambda: store.sync(KEY),
        "remove": lambda: store.remove(KEY),
    }


ACTS = sorted(acts(JsonlStore("/nowhere")))


# Names


@pytest.mark.parametrize("kind", ["agent", "session"])
def test_names_outside_the_allow_list_are_refused_before_any_file_is_touched(kind: str) -> None:
    """There is no key, and so no path, for a name that is not plain letters and digits."""

    def check(name: str) -> None:
        with watched() as seen, pytest.raises(BadId, match=kind):
            SessionKey(name, "work") if kind == "agent" else SessionKey("main", name)
        assert seen == []

    check_all(BAD_NAMES.values(), check)


def test_record_ids_outside_the_allow_list_are_refused_and_nothing_is_written(
    store: JsonlStore, root: Path
) -> None:
    """A record that brings a bad id is refused; the log stays as it was."""
    before = log_of(root).read_bytes()

    def check(name: str) -> None:
        with pytest.raises(BadId, match="record"):
            store.append(KEY, [User(id=name, content="x")], expect=ANY_HEAD)
        assert log_of(root).read_bytes() == before

    names = [name for name in BAD_NAMES.values() if name not in ("", "work.jsonl", "file:x")]
    check_all(names, check)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", "x\x00y"])
def test_names_for_the_trash_are_compared_and_never_opened(store: JsonlStore, name: str) -> None:
    """What `restore` is asked for is looked up among what is there, not used as a path."""
    with watched() as seen, pytest.raises(HoldfastError):
        store.restore(name)
    assert not any(name in touch.name for touch in seen)


# Links


@pytest.mark.parametrize("part", ["agents", "agents/main", "agents/main/sessions", "the log"])
def test_links_out_of_the_root_are_refused_by_everything(
    tmp_path: Path, outside: Path, part: str
) -> None:
    """A link in place of the log or a folder above it: refused, nothing outside touched."""
    part = "agents/main/sessions/work.jsonl" if part == "the log" else part
    before = snapshot(outside)

    def check(act: str) -> None:
        root = tmp_path / f"root of {act}"
        (root / part).parent.mkdir(parents=True)
        (root / part).symlink_to(outside / part)
        with JsonlStore(root) as store:
            with pytest.raises((PathRejected, StoreUnavailable)) as refusal:
                acts(store)[act]()
            assert SECRET not in str(refusal.value)
        assert snapshot(outside) == before

    check_all(ACTS, check)


@pytest.mark.parametrize("part", ["agents", "agents/main", "agents/main/sessions", "the log"])
def test_links_that_appear_later_are_refused_by_an_open_store(
    store: JsonlStore, root: Path, outside: Path, part: str
) -> None:
    """A store that has the session open already does not follow a link that takes its place."""
    part = "agents/main/sessions/work.jsonl" if part == "the log" else part
    (root / part).rename(root / "moved")
    (root / part).symlink_to(outside / part)
    before = snapshot(outside)
    for act in ("read", "live", "head", "export"):
        with pytest.raises((PathRejected, StoreUnavailable)):
            acts(store)[act]()
    # An open descriptor of the true folder or log may still be used; the link never is.
    with suppress(HoldfastError):
        store.append(KEY, [User(content="x")], expect=ANY_HEAD)
    with suppress(HoldfastError):
        store.remove(KEY)
    assert snapshot(outside) == before


@pytest.mark.parametrize("part", ["agents", "agents/main", "agents/main/sessions"])
def test_links_out_of_the_root_hold_no_new_session(
    tmp_path: Path, outside: Path, part: str
) -> None:
    """Making, forking or restoring a session never lands behind a link."""
    root = tmp_path / "root"
    with JsonlStore(root) as store:
        store.create(SessionKey("other", "source"))
        store.create(KEY)
        store.remove(KEY)
        shutil.rmtree(root / part)
        (root / part).symlink_to(outside / part)
        before = snapshot(outside)
        with pytest.raises((PathRejected, StoreUnavailable)):
            store.create(SessionKey("main", "new"))
        with pytest.raises((PathRejected, StoreUnavailable)):
            store.fork(SessionKey("other", "source"), SessionKey("main", "new"), at=None)
        with pytest.raises((PathRejected, StoreUnavailable)):
            store.restore("work")
    assert snapshot(outside) == before


@pytest.mark.parametrize("part", ["agents", "agents/main", "agents/main/sessions", "the log"])
def test_links_out_of_the_root_are_not_listed(tmp_path: Path, outside: Path, part: str) -> None:
    """A listing refuses what is behind a link, or leaves it out and names the link alone."""
    root = tmp_path / "root"
    part = "agents/main/sessions/work.jsonl" if part == "the log" else part
    (root / part).parent.mkdir(parents=True)
    (root / part).symlink_to(outside / part)
    before = snapshot(outside)
    with JsonlStore(root) as store, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        listed = []
        with suppress(StoreUnavailable):
            listed = store.sessions(owner=ANY_OWNER)
        with suppress(StoreUnavailable):
            assert list(store.hash_candidates()) == []
        with suppress(StoreUnavailable):
            assert store.sweep() == []
    assert listed == []
    assert snapshot(outside) == before
    left_out = f"left out: cannot list `{root / part}`"
    if part == "agents/main/sessions":
        assert told
    for warning in told:
        assert issubclass(warning.category, HoldfastWarning)
        assert str(warning.message).startswith(left_out)
        assert str(outside) not in str(warning.message)
        assert SECRET not in str(warning.message)


def test_links_in_place_of_the_trash_are_refused(
    store: JsonlStore, root: Path, outside: Path
) -> None:
    """Nothing is moved to, listed in, restored from or deleted behind such a link."""
    (root / "trash").symlink_to(outside / "trash")
    before = snapshot(outside)
    for act in (lambda: store.remove(KEY), lambda: store.restore("gone"), store.trash):
        with pytest.raises((PathRejected, StoreUnavailable)):
            act()
    with pytest.raises((PathRejected, StoreUnavailable)):
        store.empty_trash()
    with pytest.raises((PathRejected, StoreUnavailable)):
        list(store.hash_candidates())
    assert snapshot(outside) == before
    assert [record.kind for record in store.read(KEY)] == ["session", "user"]


@pytest.mark.parametrize("name", ["index.sqlite3", "index.sqlite3-wal", "index.sqlite3-shm"])
@pytest.mark.parametrize("kind", ["symlink", "hard link", "dangling"])
def test_links_in_place_of_the_index_are_not_followed(
    root: Path, tmp_path: Path, name: str, kind: str
) -> None:
    """The listing does without an index that is a link; what the link leads to stays untouched."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"do not write here")
    victim.chmod(0o644)
    with JsonlStore(root) as store:
        store.create(KEY)
        if kind == "hard link":
            os.link(victim, root / name)
        else:
            (root / name).symlink_to(victim if kind == "symlink" else tmp_path / "nothing")
        assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [KEY]
    assert victim.read_bytes() == b"do not write here"
    assert stat.S_IMODE(victim.stat().st_mode) == 0o644
    assert not (tmp_path / "nothing").exists()


def test_links_in_place_of_the_writers_note_are_not_followed(
    store: JsonlStore, root: Path, tmp_path: Path
) -> None:
    """The note beside a log is a courtesy: an append goes on without it."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"do not write here")
    note = log_of(root).with_suffix(".writer")
    note.unlink(missing_ok=True)
    note.symlink_to(victim)
    with JsonlStore(root) as other:
        other.append(KEY, [User(content="x")], expect=ANY_HEAD)
    assert victim.read_bytes() == b"do not write here"


@pytest.mark.filterwarnings("ignore:.*names .hard links")
def test_hard_links_to_a_file_outside_are_never_written(tmp_path: Path, outside: Path) -> None:
    """What is done to a log with a second name, as a backup makes it, is done to a copy."""
    before = snapshot(outside)

    def check(act: str) -> None:
        root = tmp_path / f"root {act}"
        log_of(root).parent.mkdir(parents=True)
        os.link(log_of(outside), log_of(root))
        with JsonlStore(root) as store, suppress(NoSuchRecord):  # the record `x` is not there
            acts(store)[act]()
        assert snapshot(outside) == before

    check_all(ACTS, check)


@pytest.mark.parametrize("mode", [0o660, 0o606])
def test_hard_links_that_others_can_write_to_are_refused(
    tmp_path: Path, outside: Path, mode: int
) -> None:
    """A log that others can change under another name is neither read nor appended to."""
    root = tmp_path / "root"
    log_of(root).parent.mkdir(parents=True)
    os.link(log_of(outside), log_of(root))
    log_of(outside).chmod(mode)
    before = snapshot(outside)

    def check(act: str) -> None:
        with JsonlStore(root) as store, pytest.raises(PathRejected, match="hard links"):
            acts(store)[act]()
        assert snapshot(outside) == before

    check_all(ACTS, check)


def test_hard_links_made_later_make_an_open_writer_copy(store: JsonlStore, root: Path) -> None:
    """A log that gets a second name while it is open is copied, and says so; the copy goes on."""
    second = root.parent / "second"
    os.link(log_of(root), second)
    before = second.read_bytes()
    with pytest.warns(HoldfastWarning, match="2 names"):
        store.append(KEY, [User(content="x")], expect=store.head(KEY))
    store.append(KEY, [User(content="y")], expect=store.head(KEY))
    assert second.read_bytes() == before
    assert second.stat().st_nlink == log_of(root).stat().st_nlink == 1
    assert log_of(root).read_bytes().startswith(before)
    assert texts_of(store.read(KEY)) == ["inside", "x", "y"]


@pytest.mark.filterwarnings("ignore:.*names .hard links")
def test_home_with_a_backup_by_hard_links_goes_on(tmp_path: Path) -> None:
    """After `cp -al`, everything that is kept goes on, and the backup stays as it was."""
    root, backup = tmp_path / "root", tmp_path / "backup"

    def use(text: str) -> None:
        with JsonlStore(root) as store, Session.open("s", store=store, model="offline") as session:
            session.say(text)
            store.notes("main").append(text)
            sha256 = store.blobs.put(b"payload")
            assert store.blobs.get(sha256) == b"payload"
            store.audit.note(Access(1.0, "list", "main", None, "", "s", True, "own"))
            store.queues.put(NewMessage(queue="inbox", lane="s", body={}, key=text))
            assert len(store.sessions(owner=ANY_OWNER)) == 1

    use("one")
    for path in root.rglob("*"):
        if path.is_file():
            copy = backup / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, copy)
    shared = (".lease", "queues.sqlite3", "index.changes")

    def kept() -> dict[str, bytes]:
        found = snapshot(backup).items()
        return {name: data for name, (*_, data) in found if not name.endswith(shared)}

    before = kept()
    use("two")
    use("three")
    assert kept() == before
    with JsonlStore(root) as store:
        assert texts_of(store.read(SessionKey("main", "s"))) == ["one", "two", "three"]
        assert [note.text for note in store.notes("main").notes()] == ["one", "two", "three"]
        assert len(store.audit.entries().accesses) == 3
        assert store.queues.counts("inbox", owner=ANY_OWNER) == {"waiting": 3}


def test_hard_links_are_listed_as_damaged_without_being_read(tmp_path: Path, outside: Path) -> None:
    """A listing names a log it does not trust, marks it, and tells nothing from inside it."""
    root = tmp_path / "root"
    log_of(root).parent.mkdir(parents=True)
    os.link(log_of(outside), log_of(root))
    log_of(outside).chmod(0o660)  # others can change it
    with JsonlStore(root) as store:
        [info] = store.sessions(owner=ANY_OWNER)
        assert (info.key, info.damaged, info.label, info.title) == (KEY, 1, "", "")
        log_of(outside).unlink()
        [info] = store.sessions(owner=ANY_OWNER)
        assert (info.damaged, info.label) == (0, SECRET)


def test_root_may_be_a_link(tmp_path: Path) -> None:
    """Where the root itself points is the user's own choice."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with JsonlStore(tmp_path / "link") as store:
        store.create(KEY)
        store.append(KEY, [User(content="hello")], expect=ANY_HEAD)
        assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [KEY]
        blobs = FileBlobs(tmp_path / "link")
        assert blobs.get(blobs.put(b"payload")) == b"payload"
    assert log_of(tmp_path / "real").exists()


# Things that are not files


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.mkdir()


def _device(path: Path) -> None:
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # zeros without end
    except PermissionError:
        pytest.skip("NOT TESTED: this user may not make device nodes")


def _socket(path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # the name of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", [_fifo, _folder, _device, _socket])
def test_special_files_are_refused_without_hanging(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """A FIFO, folder, device or socket in place of the log is rejected at once."""

    def check(act: str) -> None:
        root = tmp_path / act
        log_of(root).parent.mkdir(parents=True)
        make(log_of(root))
        with JsonlStore(root) as store:
            assert store.sessions(owner=ANY_OWNER) == []
            with pytest.raises(PathRejected):
                acts(store)[act]()
        assert not (root / "trash").exists() or os.listdir(root / "trash") == []

    check_all(ACTS, check)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", [_fifo, _folder, _device, _socket])
def test_special_files_in_place_of_the_index_are_done_without(
    root: Path, make: Callable[[Path], None]
) -> None:
    """The listing answers from the logs."""
    with JsonlStore(root) as store:
        store.create(KEY)
        make(root / "index.sqlite3")
        for _ in range(2):
            assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [KEY]


@pytest.mark.parametrize("part", ["agents", "agents/main", "agents/main/sessions", "trash"])
def test_files_in_place_of_folders_are_refused(root: Path, part: str) -> None:
    """A plain file where a folder should be is a clear error and stays as it is."""
    (root / part).parent.mkdir(parents=True)
    (root / part).write_text("not a folder")
    with JsonlStore(root) as store:
        if part == "trash":
            store.create(KEY)
        act = store.remove if part == "trash" else store.create
        with pytest.raises((PathRejected, StoreUnavailable)):
            act(KEY)
    assert (root / part).read_text() == "not a folder"


# Swaps

SWAP = """
import ctypes, os, select, sys
place, link = (os.fsencode(path) for path in sys.argv[1:])
renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
HERE, EXCHANGE = -100, 2
print("ready", flush=True)
swaps = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(2):  # the true thing is in its place when we stop
        if renameat2(HERE, place, HERE, link, EXCHANGE):
            sys.exit(os.strerror(ctypes.get_errno()))
        swaps += 1
print(swaps)
"""


@pytest.mark.parametrize("part", ["agents/main", "agents/main/sessions", "the log"])
def test_swaps_between_check_and_open_never_lead_outside(
    store: JsonlStore, root: Path, outside: Path, part: str
) -> None:
    """While a link and the true thing keep changing places, all that is written stays inside."""
    part = "agents/main/sessions/work.jsonl" if part == "the log" else part
    link = root / "link"
    link.symlink_to(outside / part)
    before = snapshot(outside)
    swapper = subprocess.Popen(
        [sys.executable, "-c", SWAP, str(root / part), str(link)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    acknowledged: list[str] = []
    refused = made = attempts = 0
    try:
        assert swapper.stdout is not None
        swapper.stdout.readline()
        # Until both have happened often enough; the bound only keeps a broken test from hanging.
        while attempts < 20_000 and (attempts < 500 or not (acknowledged and refused)):
            attempts += 1
            try:
                with JsonlStore(root) as fresh:
                    texts = [one.content for one in fresh.last(KEY, 3) if isinstance(one, User)]
                    assert SECRET not in texts
                    done = fresh.append(KEY, [User(content="inside")], expect=ANY_HEAD)
                    acknowledged.extend(done.ids)
                    if attempts % 10 == 0:
                        fresh.create(SessionKey("main", f"new-{attempts}"))
                        made += 1
            except (PathRejected, StoreUnavailable):
                refused += 1
    finally:
        output, _ = swapper.communicate("stop\n")
    assert int(output) > 10
    assert acknowledged
    assert refused
    assert snapshot(outside) == before
    assert set(acknowledged) <= {record.id for record in store.read(KEY)}
    assert sum(info.key != KEY for info in store.sessions(owner=ANY_OWNER)) >= made


# Modes


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o027, 0o077])
def test_modes_are_private_whatever_the_umask(root: Path, umask: int) -> None:
    """Every file is 0600 and every folder 0700: logs, notes, index, trash, quarantine, blobs."""
    before = os.umask(umask)
    try:
        with JsonlStore(root) as store:
            store.create(KEY)
            store.append(KEY, [User(content="hello")], expect=ANY_HEAD)
            with log_of(root).open("ab") as file:
                file.write(b"garbage\n")
            store.repair(KEY)
            store.fork(KEY, SessionKey("main", "copy"), at=None)
            store.remove(SessionKey("main", "copy"))
            store.sessions(owner=ANY_OWNER)
            FileBlobs(root).put(b"payload")
            found = [root, *root.rglob("*")]
            modes = {str(path): stat.S_IMODE(path.lstat().st_mode) for path in found}
    finally:
        os.umask(before)
    names = {path.name for path in found}
    assert {"index.sqlite3", "index.sqlite3-wal", "work.writer", "trash", "blobs"} <= names
    assert "work-repaired.quarantine" in names
    expected = {str(path): 0o700 if path.is_dir() else 0o600 for path in found}
    assert modes == expected


# A root that cannot be written


@contextmanager
def unprivileged() -> Iterator[None]:
    """Give up root's right to ignore modes for a while, where we have it."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def public_root() -> Iterator[Path]:
    """A root that others can reach and read, with one session."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        root = Path(folder) / "root"
        with JsonlStore(root) as store:
            store.create(KEY)
            store.append(KEY, [User(content="hello")], expect=ANY_HEAD)
        for path in (root, *root.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield root
        for path in (root, *root.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_forbidden_root_is_read_and_says_why_it_cannot_be_written(public_root: Path) -> None:
    """Reading and listing work without write permission; every change is a clear error."""
    with unprivileged(), JsonlStore(public_root) as store:
        assert [record.kind for record in store.read(KEY)] == ["session", "user"]
        assert [info.messages for info in store.sessions(owner=ANY_OWNER)] == [1]
        for change in (
            lambda: store.create(SessionKey("main", "new")),
            lambda: store.append(KEY, [User(content="x")], expect=ANY_HEAD),
            lambda: store.remove(KEY),
            lambda: store.fork(KEY, SessionKey("other", "new"), at=None),
            lambda: store.repair(KEY),
            lambda: FileBlobs(public_root).put(b"payload"),
        ):
            with pytest.raises(StoreUnavailable, match="permission denied") as refusal:
                change()
            assert refusal.value.hint


def test_forbidden_log_does_not_hide_the_others(public_root: Path) -> None:
    """One log that may not be read is listed as damaged, the rest as they are."""
    with JsonlStore(public_root) as store:
        public_root.chmod(0o755)
        log_of(public_root).parent.chmod(0o755)
        store.create(SessionKey("main", "locked"), label="secret")
        log_of(public_root, SessionKey("main", "locked")).chmod(0o000)
    with unprivileged(), JsonlStore(public_root) as store:
        listed = {
            info.key.session: (info.damaged, info.label) for info in store.sessions(owner=ANY_OWNER)
        }
    assert listed == {"work": (0, ""), "locked": (1, "")}


READ_ONLY = """
import json, sys
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.core.owners import ANY_OWNER
from holdfast.stores.blobs import FileBlobs
from holdfast.stores.jsonl.store import JsonlStore
key = SessionKey("main", "work")
said = {}
with JsonlStore(sys.argv[1]) as store:
    said["read"] = len(list(store.read(key)))
    said["listed"] = len(store.sessions(owner=ANY_OWNER))
    for name, change in {
        "create": lambda: store.create(SessionKey("main", "new")),
        "append": lambda: store.append(key, [User(content="x")], expect=None),
        "remove": lambda: store.remove(key),
        "blob": lambda: FileBlobs(sys.argv[1]).put(b"payload"),
    }.items():
        try:
            change()
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""
MOUNT = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" -c "$3" "$1"'


def test_read_only_file_system_is_read_and_says_why_it_cannot_be_written(
    store: JsonlStore, root: Path
) -> None:
    """On a file system that is mounted read-only, reading works and every change says so."""
    alone = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("NOT TESTED: this user may not mount a read-only file system")
    done = subprocess.run(
        [*alone, "sh", "-c", MOUNT, "sh", str(root), sys.executable, READ_ONLY],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said.pop("read"), said.pop("listed")) == (2, 1)
    assert sorted(said) == ["append", "blob", "create", "remove"]
    for text in said.values():
        assert text.startswith("StoreUnavailable: ")
        assert text.endswith("the file system is read-only")


# Network file systems

MOUNTS = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 22 0:28 / /home/shared rw shared:2 - nfs4 server:/export rw,vers=4.2
32 31 0:29 / /home/shared/local rw - ext4 /dev/vdb rw
33 22 0:30 / /mnt/with\040space rw - cifs //server/share rw
34 22 0:31 / /mnt/tab\011and\134slash rw - fuse.sshfs host:/ rw
35 22 0:32 / /mnt/over rw - nfs server:/a rw
36 22 0:33 / /mnt/over rw - tmpfs tmpfs rw
37 22 0:34 / /mnt/under rw - tmpfs tmpfs rw
38 22 0:35 / /mnt/under rw - 9p host rw
39 22 0:36 / /mnt/nfs rw - ext4 /dev/nfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", None),
        ("/home/me/.sessions", None),
        ("/home/shared", "nfs4"),
        ("/home/shared/me/.sessions", "nfs4"),
        ("/home/shared-not", None),
        ("/home/shared/local", None),
        ("/home/shared/local/me", None),
        ("/home/shared/local2", "nfs4"),
        ("/mnt/with space/x", "cifs"),
        ("/mnt/tab\tand\\slash", "fuse.sshfs"),
        ("/mnt/over/x", None),
        ("/mnt/under/x", "9p"),
        ("/mnt/nfs/x", None),
    ],
)
def test_network_file_systems_are_recognised(tmp_path: Path, path: str, kind: str | None) -> None:
    """The file system of a path is that of the deepest, and last, mount above it."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert network_filesystem(path, str(mounts)) == kind


def test_network_file_systems_are_not_guessed_when_the_system_does_not_say(
    tmp_path: Path,
) -> None:
    """Where mounts cannot be read, nothing is claimed."""
    assert network_filesystem("/home/shared", str(tmp_path / "missing")) is None


def test_network_file_systems_are_warned_of_once(tmp_path: Path, root: Path) -> None:
    """A store on a network file system says once what may not hold there, and works."""
    disk = Disk()
    disk.mounts = str(tmp_path / "mountinfo")
    (tmp_path / "mountinfo").write_text(f"31 22 0:28 / {tmp_path} rw - nfs4 server:/x rw\n")
    with JsonlStore(root, disk=disk) as store:
        with pytest.warns(HoldfastWarning, match=r"network file system \(nfs4\)"):
            store.create(KEY)
        store.append(KEY, [User(content="no second warning")], expect=ANY_HEAD)
        store.create(SessionKey("main", "other"))


def test_a_failed_system_call_names_the_file_and_not_the_folders_above(tmp_path: Path) -> None:
    """Whoever reads the error may be a client of a server."""
    (tmp_path / "log.jsonl").mkdir()
    with pytest.raises(PathRejected, match=r"\(`log\.jsonl`\)") as caught, explaining("read it"):
        open(tmp_path / "log.jsonl").close()
    assert str(tmp_path) not in str(caught.value)
