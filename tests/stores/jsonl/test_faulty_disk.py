"""When the disk fails, an append fails with it: clearly, alone, and never pretending."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from holdfast import Assistant, JsonlStore, SessionKey, User
from holdfast.core.owners import ANY_OWNER
from holdfast.errors import BlobMissing, NotDurable, StoreError, StoreUnavailable
from holdfast.stores import ANY_HEAD
from holdfast.stores.blobs import FileBlobs
from holdfast.testing.disk import FOREVER, FaultyDisk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast import Record

KEY = SessionKey("main", "faulty")
REFUSALS = [
    (errno.ENOSPC, StoreUnavailable, "full"),
    (errno.EDQUOT, StoreUnavailable, "quota"),
    (errno.EROFS, StoreUnavailable, "read-only"),
    (errno.EACCES, StoreUnavailable, "permission"),
    (errno.EIO, NotDurable, "Input/output error"),
]


def log_file(root: Path) -> Path:
    return root / "agents" / "main" / "sessions" / "faulty.jsonl"


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def store(tmp_path: Path, disk: FaultyDisk) -> Iterator[JsonlStore]:
    """A session with two records, on a disk that is well so far."""
    with JsonlStore(tmp_path, disk=disk) as opened:
        opened.create(KEY)
        opened.append(KEY, [User(content="one"), Assistant(content="two")], expect=ANY_HEAD)
        disk.calls.clear()
        yield opened


def texts(store: JsonlStore) -> list[str]:
    """What every way to read agrees on, for a log without boundaries."""
    records = list(store.read(KEY))
    assert store.last(KEY, 9_999) == records
    assert list(store.live(KEY).records) == records
    return [str(record.content) for record in records if isinstance(record, User | Assistant)]


def turn() -> list[Record]:
    return [User(content="three", id="r3"), Assistant(content="four"), User(content="five")]


@pytest.mark.parametrize(("number", "kind", "words"), REFUSALS)
@pytest.mark.parametrize("call", ["write", "sync"])
def test_append_fails_clearly_and_leaves_no_trace(
    call: str,
    number: int,
    kind: type[StoreError],
    words: str,
    store: JsonlStore,
    disk: FaultyDisk,
    tmp_path: Path,
) -> None:
    """A failed write or sync is an error with a hint; the log is as it was; a retry works."""
    before, head = log_file(tmp_path).read_bytes(), store.head(KEY)
    disk.fail("write" if call == "write" else "sync", number)
    with pytest.raises(kind, match=words) as caught:
        store.append(KEY, turn(), expect=head)
    assert caught.value.hint
    assert log_file(tmp_path).read_bytes() == before
    assert texts(store) == ["one", "two"]
    assert store.append(KEY, turn(), expect=head).sealed is None
    assert texts(store) == ["one", "two", "three", "four", "five"]
    assert store.verify(KEY).findings == ()


def test_append_never_returns_while_sync_fails(
    store: JsonlStore, disk: FaultyDisk, tmp_path: Path
) -> None:
    """However often it is tried, an append whose sync fails raises and acknowledges nothing."""
    before = log_file(tmp_path).read_bytes()
    disk.fail("sync", errno.EIO, times=FOREVER)
    for _attempt in range(5):
        with pytest.raises(NotDurable):
            store.append(KEY, turn(), expect=ANY_HEAD)
        assert log_file(tmp_path).read_bytes() == before
    disk.heal()
    store.append(KEY, turn(), expect=ANY_HEAD)
    assert texts(store) == ["one", "two", "three", "four", "five"]


def test_append_after_a_failed_sync_uses_a_new_descriptor(tmp_path: Path) -> None:
    """The system reports a lost write once per descriptor: the one that failed is not trusted."""

    class Marking(FaultyDisk):
        """Marks the descriptor of a failed sync with a flag that new ones never have."""

        def write(self, fd: int, data: bytes | memoryview) -> int:
            assert not os.get_inheritable(fd)
            return super().write(fd, data)

        def sync(self, fd: int) -> None:
            try:
                super().sync(fd)
            except OSError:
                os.set_inheritable(fd, True)
                raise

    disk = Marking()
    with JsonlStore(tmp_path, disk=disk) as store:
        store.create(KEY)
        store.append(KEY, [User(content="one")], expect=ANY_HEAD)
        disk.fail("sync", errno.EIO)
        with pytest.raises(NotDurable):
            store.append(KEY, [User(content="two")], expect=ANY_HEAD)
        disk.calls.clear()
        store.append(KEY, [User(content="two")], expect=ANY_HEAD)
        assert disk.calls == ["write", "sync"]
        assert texts(store) == ["one", "two"]


def test_buffered_append_does_not_sync_and_sync_reports_errors(
    store: JsonlStore, disk: FaultyDisk
) -> None:
    """The weaker mode leaves syncing to `sync`, which fails where the disk does."""
    store.append(KEY, turn(), expect=ANY_HEAD, durability="buffered")
    assert disk.calls == ["write"]
    disk.fail("sync", errno.EIO)
    with pytest.raises(NotDurable) as caught:
        store.sync(KEY)
    assert caught.value.hint
    store.sync(KEY)
    assert texts(store) == ["one", "two", "three", "four", "five"]


@pytest.mark.parametrize("bytes_max", [1, 7, 100])
def test_short_writes_are_completed(bytes_max: int, store: JsonlStore, disk: FaultyDisk) -> None:
    """A disk that takes a few bytes at a time gets all of them before the one sync."""
    disk.shorten(bytes_max)
    store.append(KEY, turn(), expect=ANY_HEAD)
    assert disk.calls[-1] == "sync"
    assert disk.calls.count("sync") == 1
    assert len(disk.calls) > 2
    assert texts(store) == ["one", "two", "three", "four", "five"]
    assert store.verify(KEY).findings == ()


def test_short_write_of_nothing_is_an_error(
    store: JsonlStore, disk: FaultyDisk, tmp_path: Path
) -> None:
    """A disk that takes some bytes and then none is not waited for."""
    before = log_file(tmp_path).read_bytes()
    disk.fill(room=20)
    disk.shorten(20)
    with pytest.raises(StoreUnavailable):
        store.append(KEY, turn(), expect=ANY_HEAD)
    disk.heal()
    disk.shorten(0)
    with pytest.raises(NotDurable):
        store.append(KEY, turn(), expect=ANY_HEAD)
    assert log_file(tmp_path).read_bytes() == before


def test_full_disk_takes_back_what_it_took(
    store: JsonlStore, disk: FaultyDisk, tmp_path: Path
) -> None:
    """Wherever in the append the space runs out, nothing of it stays; with space it works."""
    before = log_file(tmp_path).read_bytes()
    for room in range(0, 200, 7):
        disk.fill(room=room)
        with pytest.raises(StoreUnavailable, match="full") as caught:
            store.append(KEY, turn(), expect=ANY_HEAD)
        assert "space" in (caught.value.hint or "")
        assert log_file(tmp_path).read_bytes() == before
        assert texts(store) == ["one", "two"]
    disk.free()
    store.append(KEY, turn(), expect=ANY_HEAD)
    assert texts(store) == ["one", "two", "three", "four", "five"]
    assert store.verify(KEY).findings == ()


def test_rest_that_cannot_be_taken_back_is_sealed(
    store: JsonlStore, disk: FaultyDisk, tmp_path: Path
) -> None:
    """When even the clean-up fails, the rest is torn, says so, and no later append suffers."""
    expected = ["one", "two"]
    before = log_file(tmp_path).read_bytes()
    for room in range(0, 150, 7):
        disk.fill(room=room)
        disk.fail("truncate", errno.EIO, times=FOREVER)
        with pytest.raises(StoreUnavailable):
            store.append(KEY, [User(content="no"), User(content="never")], expect=ANY_HEAD)
        assert texts(store) == expected
        disk.heal()
        expected.append(f"after {room}")
        store.append(KEY, [User(content=f"after {room}")], expect=ANY_HEAD)
        assert texts(store) == expected
    assert log_file(tmp_path).read_bytes().startswith(before)
    assert {finding.kind for finding in store.verify(KEY).findings} == {"torn", "open-batch"}


def test_sealed_rest_is_reported_by_the_append_that_seals_it(
    store: JsonlStore, disk: FaultyDisk
) -> None:
    """The next append says what it found torn, and where."""
    disk.fill(room=30)
    disk.fail("truncate", errno.EIO)
    with pytest.raises(StoreUnavailable):
        store.append(KEY, [User(content="no")], expect=ANY_HEAD)
    disk.heal()
    (finding,) = store.verify(KEY).findings
    done = store.append(KEY, [User(content="after")], expect=ANY_HEAD)
    assert done.sealed is not None
    assert (done.sealed.kind, done.sealed.position, done.sealed.size) == (
        "torn",
        finding.position,
        30,
    )
    assert store.append(KEY, [User(content="later")], expect=ANY_HEAD).sealed is None


def test_unsynced_append_that_cannot_be_taken_back_is_whole(
    store: JsonlStore, disk: FaultyDisk
) -> None:
    """A batch whose sync and clean-up both fail is there as a whole, and a retry by id is told."""
    disk.fail("sync", errno.EIO)
    disk.fail("truncate", errno.EIO)
    with pytest.raises(NotDurable):
        store.append(KEY, turn(), expect=ANY_HEAD)
    assert texts(store) == ["one", "two", "three", "four", "five"]
    assert store.find(KEY, "r3").id == "r3"


def test_other_store_is_not_confused_by_a_failed_append(
    store: JsonlStore, disk: FaultyDisk, tmp_path: Path
) -> None:
    """A writer on the same file goes on as if the failed append had never been tried."""
    with JsonlStore(tmp_path) as other:
        other.append(KEY, [User(content="a")], expect=ANY_HEAD)
        disk.fill(room=40)
        with pytest.raises(StoreUnavailable):
            store.append(KEY, turn(), expect=ANY_HEAD)
        other.append(KEY, [User(content="b")], expect=ANY_HEAD)
        disk.free()
        store.append(KEY, [User(content="c")], expect=other.head(KEY))
        assert texts(other) == ["one", "two", "a", "b", "c"]
        assert other.verify(KEY).findings == ()


@pytest.mark.parametrize(("number", "kind", "words"), REFUSALS)
@pytest.mark.parametrize("call", ["write", "sync"])
def test_create_that_fails_makes_no_session(
    call: str,
    number: int,
    kind: type[StoreError],
    words: str,
    store: JsonlStore,
    disk: FaultyDisk,
    tmp_path: Path,
) -> None:
    """A session that could not be written does not exist, and nothing of it is left."""
    new = SessionKey("main", "new")
    names = sorted(os.listdir(log_file(tmp_path).parent))
    disk.fail("write" if call == "write" else "sync", number)
    with pytest.raises(kind, match=words) as caught:
        store.create(new)
    assert caught.value.hint
    assert sorted(os.listdir(log_file(tmp_path).parent)) == names
    assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [KEY]
    assert store.create(new) == "new"


def test_create_that_cannot_sync_its_folder_says_so(store: JsonlStore, disk: FaultyDisk) -> None:
    """A session whose name may not survive power loss is not acknowledged; what is there works."""
    new = SessionKey("main", "new")
    disk.fail("sync_folder", errno.EIO)
    with pytest.raises(NotDurable) as caught:
        store.create(new)
    assert caught.value.hint
    for info in store.sessions(owner=ANY_OWNER):
        store.append(info.key, [User(content="works")], expect=info.head)


@pytest.mark.parametrize("copy", ["fork", "repair"])
def test_copy_that_fails_leaves_nothing(
    copy: str, store: JsonlStore, disk: FaultyDisk, tmp_path: Path
) -> None:
    """A fork or a repair that runs out of space half-way leaves no half-made session."""
    store.append_each(KEY, [User(content="x" * 1_000)] * 50)
    names = sorted(os.listdir(log_file(tmp_path).parent))
    disk.fill(room=20_000)
    makers: dict[str, Callable[[], object]] = {
        "fork": lambda: store.fork(KEY, SessionKey("main", "copy"), at=None),
        "repair": lambda: store.repair(KEY),
    }
    with pytest.raises(StoreUnavailable, match="full"):
        makers[copy]()
    assert sorted(os.listdir(log_file(tmp_path).parent)) == names
    disk.free()
    store.repair(KEY)
    assert len(store.sessions(owner=ANY_OWNER)) == 2


@pytest.mark.parametrize("call", ["write", "sync", "sync_folder"])
def test_blob_that_fails_is_not_acknowledged(call: str, tmp_path: Path) -> None:
    """A payload whose write or sync fails raises, and can be put again."""
    disk = FaultyDisk()
    blobs = FileBlobs(tmp_path, disk=disk)
    data = os.urandom(3_000)
    if call == "write":
        disk.fill(room=1_000)
    else:
        disk.fail("sync" if call == "sync" else "sync_folder", errno.EIO)
    with pytest.raises(StoreError):
        blobs.put(data)
    disk.heal()
    sha256 = blobs.put(data)
    assert blobs.get(sha256) == data
    with pytest.raises(BlobMissing):
        blobs.get("0" * 64)
    files = [name for _folder, _folders, names in os.walk(tmp_path) for name in names]
    assert files == [f"{sha256}.zst"]


# Real ones


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("a real full disk was NOT tested: there is no `mount` here")
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mounted)]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"a real full disk was NOT tested: {tried.stderr.strip()}")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


def test_real_full_disk_refuses_and_recovers(small_disk: Path) -> None:
    """On a file system that really fills up, every acknowledged record stays; space mends it."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * 300_000)
    expected: list[str] = []
    with JsonlStore(small_disk / "root") as store:
        store.create(KEY)
        with suppress(StoreUnavailable):
            for number in range(10_000):
                text = f"{number} {'x' * 3_000}"
                store.append(KEY, [User(content=text), User(content=text)], expect=ANY_HEAD)
                expected += [text, text]
        assert 100 < len(expected) < 1_000
        assert texts(store) == expected
        assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [KEY]
        with pytest.raises(StoreUnavailable, match="full"):
            store.append(KEY, [User(content="y" * 5_000)], expect=ANY_HEAD)
        with pytest.raises(StoreUnavailable, match="full"):
            store.fork(KEY, SessionKey("main", "copy"), at=None)
        ballast.unlink()
        store.append(KEY, [User(content="again")], expect=ANY_HEAD)
        assert texts(store) == [*expected, "again"]
        assert store.verify(KEY).findings == ()


def test_real_read_only_disk_can_be_read(small_disk: Path) -> None:
    """On a file system that became read-only one can read and list, and is told why not append."""
    with JsonlStore(small_disk / "root") as store:
        store.create(KEY)
        store.append(KEY, [User(content="one")], expect=ANY_HEAD)
    remount = ["mount", "-o", "remount,ro", str(small_disk)]
    subprocess.run(remount, check=True, capture_output=True)
    with JsonlStore(small_disk / "root") as store:
        assert texts(store) == ["one"]
        assert [info.records for info in store.sessions(owner=ANY_OWNER)] == [2]
        assert store.verify(KEY).findings == ()
        with pytest.raises(StoreUnavailable, match="read-only") as caught:
            store.append(KEY, [User(content="two")], expect=ANY_HEAD)
        assert caught.value.hint
        for make in (
            lambda: store.create(SessionKey("main", "new")),
            lambda: store.create(SessionKey("new", "new")),
            lambda: store.fork(KEY, SessionKey("main", "copy"), at=None),
            lambda: store.remove(KEY),
        ):
            with pytest.raises(StoreUnavailable, match="read-only"):
                make()
        remount[2] = "remount,rw"
        subprocess.run(remount, check=True, capture_output=True)
        store.append(KEY, [User(content="two")], expect=ANY_HEAD)
        assert texts(store) == ["one", "two"]


CHILD = """
import os, sys
from holdfast import HoldfastError, JsonlStore, SessionKey, User
from holdfast.stores import ANY_HEAD
with JsonlStore(sys.argv[1]) as store:
    for number in range(4):
        try:
            done = store.append(
                SessionKey("main", "faulty"), [User(content=f"{number}")], expect=ANY_HEAD
            )
            said = f"ack {number} {done.head}"
        except HoldfastError as error:
            said = f"failed {number} {error.code}"
        os.write(1, said.encode() + b"\\n")
"""


def traced(root: Path, *options: str) -> tuple[list[str], list[str]]:
    """What a child that appends said, and its system calls in order, as strace saw them."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("the order of real system calls was NOT tested: there is no `strace` here")
    trace = root / "trace"
    command = [strace, "-f", "-y", "-o", str(trace), "-e", "trace=write,fdatasync", *options]
    child = subprocess.run(
        [*command, sys.executable, "-c", CHILD, str(root)], capture_output=True, check=False
    )
    if b"ptrace" in child.stderr:
        pytest.skip(f"the order of real system calls was NOT tested: {child.stderr.decode()}")
    assert child.returncode == 0, child.stderr
    calls = []
    for line in trace.read_text().splitlines():
        call = line.split(" ", 1)[1].strip()
        if call.startswith("write(1<"):
            calls.append(call.split('"')[1].split(" ")[0])
        elif "faulty.jsonl>" in call:
            name = call.split("(")[0]
            calls.append(name if " = -1 " not in call else f"{name} {call.split()[-1]}")
    return child.stdout.decode().splitlines(), calls


def test_real_acknowledgement_follows_the_sync(tmp_path: Path) -> None:
    """The system itself sees: write to the log, sync of the log, and only then the answer."""
    with JsonlStore(tmp_path) as store:
        store.create(KEY)
        said, calls = traced(tmp_path)
        assert [line.split()[0] for line in said] == ["ack"] * 4
        assert calls == ["write", "fdatasync", "ack"] * 4
        ids = [line.split()[2] for line in said]
        assert [record.id for record in store.read(KEY)][1:] == ids


def test_real_sync_error_is_never_acknowledged(tmp_path: Path) -> None:
    """When the system fails a sync, that append is an error and its record is not in the log."""
    with JsonlStore(tmp_path) as store:
        store.create(KEY)
        said, calls = traced(tmp_path, "-e", "inject=fdatasync:error=EIO:when=2")
        assert [line.split()[0] for line in said] == ["ack", "failed", "ack", "ack"]
        assert said[1] == "failed 1 not-durable"
        acknowledged = ["write", "fdatasync", "ack"]
        failed = ["write", "fdatasync (INJECTED)", "failed"]
        assert calls == acknowledged + failed + acknowledged * 2
        assert texts(store) == ["0", "2", "3"]
        assert store.verify(KEY).findings == ()
