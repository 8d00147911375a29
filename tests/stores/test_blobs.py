"""Payloads by their hash: stored once, verified always, collected only when nothing needs them."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import stat
import subprocess
import sys
import tracemalloc
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stores.opens import watched
from tests.support.cases import check_all
from tests.support.runs import examples

from holdfast.core.limits import BLOB_GRACE_SECONDS, READ_BLOCK_BYTES
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import OutputRef, Rewind, ToolResult, User
from holdfast.errors import (
    BlobDamaged,
    BlobMissing,
    HoldfastError,
    HoldfastWarning,
    NotDurable,
    PathRejected,
    StoreUnavailable,
    UsageError,
)
from holdfast.ports import ANY_HEAD
from holdfast.stores.blobs import FileBlobs
from holdfast.stores.files import Disk
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KEY = SessionKey("main", "work")
LATER = 10 * BLOB_GRACE_SECONDS


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def blobs(tmp_path: Path, clock: Clock) -> FileBlobs:
    return FileBlobs(tmp_path, clock=clock)


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[JsonlStore]:
    with JsonlStore(tmp_path, clock=clock) as opened:
        opened.create(KEY)
        yield opened


def blob_files(root: Path) -> list[Path]:
    """Everything below `blobs` that is not a folder, temporary files included."""
    return sorted(path for path in (root / "blobs").rglob("*") if not path.is_dir())


def path_of(root: Path, sha256: str) -> Path:
    return root / "blobs" / sha256[:2] / f"{sha256}.zst"


def name(store: JsonlStore, key: SessionKey, sha256: str, size: int) -> None:
    """Append the record that refers to a payload."""
    ref = OutputRef(sha256=sha256, bytes=size, kind="text")
    result = ToolResult(tool_use_id="toolu_1", content="[offloaded]", output_ref=ref)
    store.append(key, [result], expect=ANY_HEAD)


# Storing and reading


@given(
    data=st.one_of(
        st.binary(max_size=2_000),
        st.tuples(st.binary(min_size=1, max_size=9), st.integers(1, 400_000)).map(
            lambda parts: (parts[0] * parts[1])[: parts[1]]
        ),
    )
)
@examples(60)
def test_blobs_return_what_was_put(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """`get`, `chunks` and `size` give back any payload, under the hash of its content."""
    blobs = FileBlobs(tmp_path_factory.mktemp("blobs"))
    sha256 = blobs.put(data)
    assert sha256 == hashlib.sha256(data).hexdigest()
    assert blobs.get(sha256) == data
    assert b"".join(blobs.chunks(sha256)) == data
    assert blobs.size(sha256) == len(data)
    assert sha256 in blobs
    assert list(blobs) == [sha256]


def test_blobs_of_the_same_payload_are_one_file(tmp_path: Path, blobs: FileBlobs) -> None:
    """Storing a payload again writes nothing new and leaves the file as it was."""
    sha256 = blobs.put(b"same" * 1000)
    before = path_of(tmp_path, sha256).stat()
    assert blobs.put(b"same" * 1000) == sha256
    after = path_of(tmp_path, sha256).stat()
    assert blob_files(tmp_path) == [path_of(tmp_path, sha256)]
    assert (before.st_ino, before.st_size) == (after.st_ino, after.st_size)


def test_blobs_are_compressed(tmp_path: Path, blobs: FileBlobs) -> None:
    """Text takes a fraction of its size on disk."""
    sha256 = blobs.put(b"the same words again and again\n" * 10_000)
    assert path_of(tmp_path, sha256).stat().st_size < 310_000 / 100


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_blobs_are_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """Files are 0600 and folders 0700."""
    before = os.umask(umask)
    try:
        sha256 = FileBlobs(tmp_path / "root").put(b"secret")
    finally:
        os.umask(before)
    path = path_of(tmp_path / "root", sha256)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (path.parent, path.parent.parent, tmp_path / "root"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_blobs_list_nothing_when_there_is_no_root(tmp_path: Path) -> None:
    """An empty or missing root holds no payloads; looking does not make it."""
    blobs = FileBlobs(tmp_path / "nowhere")
    assert list(blobs) == []
    assert blobs.collect([], grace_seconds=0) == []
    assert blobs.sweep() == []
    assert not (tmp_path / "nowhere").exists()


def test_blobs_pass_over_files_that_are_no_blobs(tmp_path: Path, blobs: FileBlobs) -> None:
    """Foreign names among the blobs are neither listed nor deleted."""
    sha256 = blobs.put(b"ours")
    strangers = [
        tmp_path / "blobs" / "README",
        tmp_path / "blobs" / sha256[:2] / "notes.txt",
        tmp_path / "blobs" / sha256[:2] / f"{sha256}.zst.bak",
        tmp_path / "blobs" / sha256[:2] / f"{sha256.upper()}.zst",
    ]
    for path in strangers:
        path.write_text("not a blob")
    assert list(blobs) == [sha256]
    assert blobs.collect([], grace_seconds=-1) == [sha256]
    assert all(path.exists() for path in strangers)


# Refusals


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "../x",
        "../" * 20 + "etc/passwd",
        "/etc/passwd",
        "ab" * 31 + "a",
        "ab" * 32 + "a",
        "AB" * 32,
        "ab" * 31 + "g0",
        "ab" * 31 + "a\x00",
        "ab" * 31 + "a\n",
        "ab" * 32 + "\n",
        "٠" * 64,
        "a" * 4096,
    ],
)
def test_blobs_refuse_what_is_no_hash_before_any_open(tmp_path: Path, bad: str) -> None:
    """A name that is not 64 hex digits is refused by every reader and touches no file."""
    blobs = FileBlobs(tmp_path)
    with watched() as seen:
        for read in (
            blobs.get,
            blobs.size,
            blobs.__contains__,
            lambda one: list(blobs.chunks(one)),
        ):
            with pytest.raises(UsageError, match="not a blob's hash"):
                read(bad)
    assert seen == []


@pytest.mark.parametrize("has_folder", [False, True])
def test_blobs_say_so_when_one_is_missing(
    tmp_path: Path, blobs: FileBlobs, has_folder: bool
) -> None:
    """A payload that was never stored is `BlobMissing`, with and without its folder."""
    missing = hashlib.sha256(b"missing").hexdigest()
    if has_folder:
        path_of(tmp_path, missing).parent.mkdir(parents=True)
    with pytest.raises(BlobMissing, match=missing[:12]):
        blobs.get(missing)
    with pytest.raises(BlobMissing):
        blobs.size(missing)
    assert missing not in blobs


def _flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(data)


def _cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _cut_one_byte(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def _add_garbage(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"garbage after the frame")


def _replace_by_text(path: Path) -> None:
    path.write_bytes(b"this was never compressed")


def _replace_by_another(path: Path) -> None:
    elsewhere = path.parents[3] / "elsewhere"
    sha256 = FileBlobs(elsewhere).put(b"another payload, intact and compressed")
    path.write_bytes(path_of(elsewhere, sha256).read_bytes())


def _null(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize(
    "harm",
    [
        *(_flip_a_byte, _cut_in_half, _empty, _cut_one_byte, _add_garbage),
        *(_replace_by_text, _replace_by_another, _null),
    ],
)
def test_blobs_that_are_damaged_deliver_nothing_and_are_mended_by_a_put(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    """Whatever happened to the file: `BlobDamaged`, not one byte out, and storing again mends."""
    data = random.Random(5).randbytes(3 * READ_BLOCK_BYTES * 4)
    blobs = FileBlobs(tmp_path / "root")
    sha256 = blobs.put(data)
    harm(path_of(tmp_path / "root", sha256))
    pieces = blobs.chunks(sha256)
    with pytest.raises(BlobDamaged, match=sha256[:12]):
        next(pieces)
    with pytest.raises(BlobDamaged):
        blobs.get(sha256)
    with pytest.raises(BlobDamaged):
        blobs.size(sha256)
    assert blobs.put(data) == sha256
    assert blobs.get(sha256) == data
    assert blob_files(tmp_path / "root") == [path_of(tmp_path / "root", sha256)]


def test_blobs_stop_when_one_is_changed_while_it_is_delivered(
    tmp_path: Path, blobs: FileBlobs
) -> None:
    """A change after the check is noticed at the latest with the last piece."""
    data = random.Random(6).randbytes(4 * READ_BLOCK_BYTES * 4)
    sha256 = blobs.put(data)
    pieces = blobs.chunks(sha256)
    first = next(pieces)
    assert data.startswith(first)
    path = path_of(tmp_path, sha256)
    with path.open("r+b") as file:
        file.seek(-READ_BLOCK_BYTES, os.SEEK_END)
        file.write(bytes(64))
    with pytest.raises(BlobDamaged):
        list(pieces)


def test_blobs_leave_no_descriptor_open_when_a_reader_stops_early(blobs: FileBlobs) -> None:
    """A reader that takes one piece and goes away costs no descriptor."""
    sha256 = blobs.put(random.Random(7).randbytes(3 * READ_BLOCK_BYTES * 4))
    before = sorted(os.listdir("/proc/self/fd"))
    pieces = blobs.chunks(sha256)
    next(pieces)
    del pieces
    assert sorted(os.listdir("/proc/self/fd")) == before


# Links


@pytest.mark.parametrize("part", ["blobs", "folder", "file"])
def test_blobs_behind_a_link_are_refused(tmp_path: Path, part: str) -> None:
    """A link in place of `blobs`, a folder in it, or a file is refused for reading and writing."""
    outside = FileBlobs(tmp_path / "outside")
    data = b"a payload outside the root"
    sha256 = outside.put(data)
    before = {path: path.read_bytes() for path in blob_files(tmp_path / "outside")}
    blobs = FileBlobs(tmp_path / "root")
    target = path_of(tmp_path / "root", sha256)
    source = path_of(tmp_path / "outside", sha256)
    link, real = {
        "blobs": (target.parent.parent, source.parent.parent),
        "folder": (target.parent, source.parent),
        "file": (target, source),
    }[part]
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    for act in (
        lambda: blobs.get(sha256),
        lambda: blobs.size(sha256),
        lambda: list(blobs.chunks(sha256)),
        lambda: blobs.put(data),
    ):
        with pytest.raises((PathRejected, StoreUnavailable)):
            act()
    if part == "blobs":
        with pytest.raises((PathRejected, StoreUnavailable)):
            blobs.collect([], grace_seconds=-1)
        with pytest.raises((PathRejected, StoreUnavailable)):
            blobs.sweep()
    if part == "folder":  # one odd folder does not stop the others
        with pytest.warns(HoldfastWarning, match="left out"):
            assert blobs.collect([], grace_seconds=-1) == []
        with pytest.warns(HoldfastWarning, match="left out"):
            assert blobs.sweep() == []
    assert {path: path.read_bytes() for path in blob_files(tmp_path / "outside")} == before


def test_blobs_with_a_second_name_are_read_where_nobody_else_can_change_them(
    tmp_path: Path, blobs: FileBlobs
) -> None:
    """A backup by hard links does no harm; a file that others can write to is not trusted."""
    sha256 = blobs.put(b"payload")
    os.link(path_of(tmp_path, sha256), tmp_path / "elsewhere")
    assert blobs.get(sha256) == b"payload"
    assert blobs.put(b"payload") == sha256
    path_of(tmp_path, sha256).chmod(0o660)
    with pytest.raises(PathRejected, match="hard links"):
        blobs.get(sha256)
    with pytest.raises(PathRejected, match="hard links"):
        blobs.put(b"payload")


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_blobs_that_are_no_files_are_refused_without_hanging(
    tmp_path: Path, blobs: FileBlobs, kind: str
) -> None:
    """A folder or FIFO in place of a blob is rejected at once."""
    sha256 = hashlib.sha256(b"payload").hexdigest()
    path = path_of(tmp_path, sha256)
    path.parent.mkdir(parents=True)
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(PathRejected):
        blobs.get(sha256)
    with pytest.raises(PathRejected):
        blobs.put(b"payload")


# Failing disks


class FullDisk(Disk):
    """Takes nothing more."""

    def write(self, fd: int, data: bytes | memoryview) -> int:
        raise OSError(28, "No space left on device")


class UnsyncedDisk(Disk):
    """Writes, but cannot make it durable."""

    def sync(self, fd: int) -> None:
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize(
    ("disk", "error"), [(FullDisk(), StoreUnavailable), (UnsyncedDisk(), NotDurable)]
)
def test_blobs_leave_nothing_behind_when_the_disk_fails(
    tmp_path: Path, disk: Disk, error: type[HoldfastError]
) -> None:
    """A put that fails is an error, leaves no file, and works when the disk does again."""
    with pytest.raises(error):
        FileBlobs(tmp_path, disk=disk).put(b"payload")
    assert blob_files(tmp_path) == []
    blobs = FileBlobs(tmp_path)
    assert blobs.get(blobs.put(b"payload")) == b"payload"


class RecordingDisk(Disk):
    """Remembers the order of what was made durable and how large the writes were."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.largest = 0

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self.largest = max(self.largest, len(data))
        self.done.append("write")
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self.done.append("sync")
        super().sync(fd)

    def sync_folder(self, fd: int) -> None:
        self.done.append("sync folder")
        super().sync_folder(fd)


def test_blobs_are_durable_when_put_returns(tmp_path: Path) -> None:
    """The data is synced after the last write, and the folder after that."""
    disk = RecordingDisk()
    FileBlobs(tmp_path, disk=disk).put(b"payload")
    assert disk.done[-2:] == ["sync", "sync folder"]
    assert "write" in disk.done


# Large payloads


def test_blobs_of_50_megabytes_pass_in_bounded_pieces(tmp_path: Path) -> None:
    """Neither storing nor reading a large payload holds more than a few blocks beside it."""
    disk = RecordingDisk()
    blobs = FileBlobs(tmp_path, disk=disk)
    data = random.Random(8).randbytes(1 << 20) * 50
    block = READ_BLOCK_BYTES * 4

    tracemalloc.start()
    try:
        sha256 = blobs.put(data)
        _now, most_to_put = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        digest, largest = hashlib.sha256(), 0
        for chunk in blobs.chunks(sha256):
            digest.update(chunk)
            largest = max(largest, len(chunk))
        _now, most_to_read = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert digest.hexdigest() == sha256 == hashlib.sha256(data).hexdigest()
    assert largest <= block
    assert disk.largest <= 2 * block
    assert most_to_put < 12 * block
    assert most_to_read < 12 * block


# Several processes

PUT = """
import sys
from holdfast.stores.blobs import FileBlobs
blobs = FileBlobs(sys.argv[1])
data = bytes(range(256)) * 4_000
print("ready", flush=True)
sys.stdin.readline()
for _ in range(20):
    print(blobs.put(data), flush=True)
"""


def test_blobs_put_by_four_processes_at_once_are_one_file(tmp_path: Path) -> None:
    """The same payload from four processes: one intact file, no leftovers, no errors."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", PUT, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    data = bytes(range(256)) * 4_000
    sha256 = hashlib.sha256(data).hexdigest()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    outputs = [writer.communicate()[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 4
    assert all(output.split() == [sha256] * 20 for output in outputs)
    assert blob_files(tmp_path) == [path_of(tmp_path, sha256)]
    assert FileBlobs(tmp_path).get(sha256) == data


# Collecting


def test_blobs_named_in_any_log_are_kept(
    tmp_path: Path, clock: Clock, blobs: FileBlobs, store: JsonlStore
) -> None:
    """What a living, a trashed, an abandoned or a damaged line mentions stays; the rest goes."""
    payloads = [f"payload {number}".encode() for number in range(6)]
    living, trashed, branch, damaged, text, orphan = (blobs.put(data) for data in payloads)
    name(store, KEY, living, 9)
    start = store.head(KEY)
    name(store, KEY, branch, 9)
    store.append(KEY, [Rewind(to=start)], expect=ANY_HEAD)
    store.append(KEY, [User(content=f"see blob:{text}, please")], expect=ANY_HEAD)
    gone = SessionKey("main", "gone")
    store.create(gone)
    name(store, gone, trashed, 9)
    store.remove(gone)
    log = tmp_path / "agents" / "main" / "sessions" / "work.jsonl"
    with log.open("ab") as file:
        file.write(b'\xff\xfe{"sha256":"' + damaged.encode() + b'"\x00 half a lin')
    clock.now += LATER
    assert blobs.collect(store.hash_candidates()) == [orphan]
    assert sorted(blobs) == sorted([living, trashed, branch, damaged, text])
    store.empty_trash()
    assert blobs.collect(store.hash_candidates()) == [trashed]


def test_blobs_named_in_another_agents_log_are_kept(
    clock: Clock, blobs: FileBlobs, store: JsonlStore
) -> None:
    """Payloads are shared between agents, and so are the reasons to keep them."""
    sha256 = blobs.put(b"shared")
    other = SessionKey("other", "elsewhere")
    store.create(other)
    name(store, other, sha256, 6)
    clock.now += LATER
    assert blobs.collect(store.hash_candidates()) == []


@pytest.mark.parametrize("lead", ["\b", "\f", "\x01", "\x1f", "a", "0" * 7, "é", "\\", '"'])
def test_blobs_mentioned_right_after_anything_are_kept(
    clock: Clock, blobs: FileBlobs, store: JsonlStore, lead: str
) -> None:
    """A hash is found in the log also where JSON's escapes, or hex digits, stand before it."""
    sha256 = blobs.put(b"mentioned")
    store.append(KEY, [User(content=f"{lead}{sha256}{lead}")], expect=ANY_HEAD)
    clock.now += LATER
    assert blobs.collect(store.hash_candidates()) == []


def test_blobs_mentioned_across_a_block_are_kept(
    clock: Clock, blobs: FileBlobs, store: JsonlStore, tmp_path: Path
) -> None:
    """A hash is found wherever the blocks in which a log is read begin and end."""
    sha256 = blobs.put(b"mentioned")
    path = tmp_path / "agents" / "main" / "sessions" / "work.jsonl"
    clock.now += LATER
    log = path.read_bytes()

    def check(before: int) -> None:
        padding = b" " * (READ_BLOCK_BYTES + before - len(log))
        path.write_bytes(log + padding + sha256.encode() + b" " * 10)
        assert blobs.collect(store.hash_candidates()) == []

    check_all(range(-70, 8), check)


@pytest.mark.parametrize("already_read", range(4))
def test_blobs_are_kept_when_a_log_moves_while_the_logs_are_read(
    blobs: FileBlobs, store: JsonlStore, already_read: int
) -> None:
    """A session that is restored, or removed, at any point of the search is not missed."""
    restored, removed = SessionKey("main", "restored"), SessionKey("other", "removed")
    wanted = {}
    for key in (restored, removed):
        store.create(key)
        wanted[key] = blobs.put(str(key).encode())
        name(store, key, wanted[key], 10)
    store.append(KEY, [User(content="ab" * 32)], expect=ANY_HEAD)
    store.remove(restored)
    mentioned = store.hash_candidates()
    found = set(islice(mentioned, already_read))
    store.restore("restored")
    store.remove(removed)
    found.update(mentioned)
    assert set(wanted.values()) <= found


def test_blobs_are_not_collected_when_a_log_cannot_be_read(
    tmp_path: Path, clock: Clock, blobs: FileBlobs, store: JsonlStore
) -> None:
    """A log that is not trusted (others can change it) may mention anything: nothing is deleted."""
    sha256 = blobs.put(b"mentioned")
    name(store, KEY, sha256, 9)
    path = tmp_path / "agents" / "main" / "sessions" / "work.jsonl"
    os.link(path, tmp_path / "backup.jsonl")
    path.chmod(0o660)
    clock.now += LATER
    with pytest.raises(PathRejected, match="hard links"):
        blobs.collect(store.hash_candidates())
    assert list(blobs) == [sha256]


def test_blobs_are_not_collected_before_their_grace_is_over(clock: Clock, blobs: FileBlobs) -> None:
    """A payload whose record may be about to be written is left alone."""
    sha256 = blobs.put(b"young")
    clock.now += BLOB_GRACE_SECONDS - 1
    assert blobs.collect([]) == []
    clock.now += 2
    assert blobs.collect([]) == [sha256]
    assert list(blobs) == []


def test_blobs_stored_again_have_a_new_grace(clock: Clock, blobs: FileBlobs) -> None:
    """Storing an old orphan again protects it as if it were new."""
    sha256 = blobs.put(b"orphan")
    clock.now += LATER
    blobs.put(b"orphan")
    assert blobs.collect([]) == []
    clock.now += BLOB_GRACE_SECONDS + 1
    assert blobs.collect([]) == [sha256]


def test_blobs_begin_their_grace_by_the_stores_clock(clock: Clock, blobs: FileBlobs) -> None:
    """The first put counts from the store's own clock, as every later one does."""
    clock.now = 4_000_000_000.0  # far ahead of the file system's clock
    blobs.put(b"young")
    assert blobs.collect([]) == []


CRASH = """
import os, signal, sys
from holdfast.stores.blobs import FileBlobs
print(FileBlobs(sys.argv[1]).put(b"never named"), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_blobs_orphaned_by_a_crash_are_collected_later(
    tmp_path: Path, clock: Clock, blobs: FileBlobs, store: JsonlStore
) -> None:
    """Killed between the payload and its record: the orphan is whole, and goes after the grace."""
    done = subprocess.run(
        [sys.executable, "-c", CRASH, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    orphan = done.stdout.strip()
    assert blobs.get(orphan) == b"never named"
    clock.now = path_of(tmp_path, orphan).stat().st_mtime + 1
    assert blobs.collect(store.hash_candidates()) == []
    clock.now += LATER
    assert blobs.collect(store.hash_candidates()) == [orphan]


def test_blobs_sweep_old_temporary_files_only(
    tmp_path: Path, clock: Clock, blobs: FileBlobs
) -> None:
    """What a killed writer left goes when it is old; a writer's file in use stays; so do blobs."""
    sha256 = blobs.put(b"payload")
    folder = path_of(tmp_path, sha256).parent
    old, young = folder / f".{sha256}.zst.1-1.tmp", folder / f".{sha256}.zst.2-2.tmp"
    for path, age in ((old, LATER), (young, 1.0)):
        path.write_bytes(b"half")
        os.utime(path, (clock.now - age, clock.now - age))
    assert blobs.sweep() == [f"{sha256[:2]}/{old.name}"]
    assert blob_files(tmp_path) == sorted([young, path_of(tmp_path, sha256)])
