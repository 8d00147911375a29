"""Many writers at once: processes, threads and forks share a session and lose nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from holdfast import JsonlStore, SessionKey, User
from holdfast.core.owners import ANY_OWNER
from holdfast.errors import LogBusy, LogConflict
from holdfast.stores import ANY_HEAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from holdfast import Record

KEY = SessionKey("main", "shared")

PRELUDE = """
import os, signal, sys
from holdfast import HoldfastError, JsonlStore, SessionKey, User
from holdfast.stores import ANY_HEAD, ANY_OWNER
from holdfast.errors import LogConflict, SessionExists
from holdfast.stores.files import Disk
root, name, *rest = sys.argv[1:]
key = SessionKey("main", "shared")

def wait():
    print("ready", flush=True)
    sys.stdin.readline()

"""
APPEND = """
count, size, durability = int(rest[0]), int(rest[1]), rest[2]
with JsonlStore(root) as store:
    wait()
    for number in range(count):
        records = [User(content=f"{name} {number}.{part}") for part in range(size)]
        store.append(key, records, expect=ANY_HEAD, durability=durability)
"""
EXPECT = """
conflicts = 0
with JsonlStore(root) as store:
    wait()
    for number in range(int(rest[0])):
        while True:
            try:
                head = store.head(key)
                store.append(key, [User(content=f"{name} {number}")], expect=head)
                break
            except LogConflict:
                conflicts += 1
print(conflicts)
"""
CREATE = """
with JsonlStore(root) as store:
    wait()
    for number in range(int(rest[0])):
        store.create(SessionKey("main", f"{name}-{number}"))
        try:
            store.create(SessionKey("main", f"contested-{number}"))
            print(number, flush=True)
        except SessionExists:
            pass
"""
STOP_WHILE_LOCKED = """
class Stopping(Disk):
    def sync(self, fd):
        os.kill(os.getpid(), getattr(signal, rest[0]))
        super().sync(fd)

with JsonlStore(root, disk=Stopping()) as store:
    store.append(key, [User(content=f"{name} 0.0")], expect=ANY_HEAD)
"""
FORK = """
count = int(rest[0])
store = JsonlStore(root)
store.append(key, [User(content="before 0.0")], expect=ANY_HEAD)
store.sessions(owner=ANY_OWNER)
child = os.fork()
me = "parent" if child else "child"
for number in range(count):
    store.append(key, [User(content=f"{me} {number}.0")], expect=ANY_HEAD)
assert len(store.sessions(owner=ANY_OWNER)) == 1
if child:
    assert os.waitpid(child, 0)[1] == 0
    store.append(key, [User(content="after 0.0")], expect=ANY_HEAD)
    store.close()
else:
    sys.stdout.flush()
    os._exit(0)
"""

FORK_WHILE_LOCKED = """
class Meeting(Disk):
    is_here = False

    def sync(self, fd):
        if self.is_here:
            os.write(locked[1], b"locked")
            print(os.read(tried[0], 100).decode())
        super().sync(fd)

locked, tried, disk = os.pipe(), os.pipe(), Meeting()
store = JsonlStore(root, disk=disk, lock_wait_seconds=0.05)
store.append(key, [User(content="before 0.0")], expect=ANY_HEAD)
child = os.fork()
if child:
    disk.is_here = True
    store.append(key, [User(content="parent 0.0")], expect=ANY_HEAD)
    assert os.waitpid(child, 0)[1] == 0
else:
    os.read(locked[0], 100)
    try:
        store.append(key, [User(content="child 0.0")], expect=ANY_HEAD)
        os.write(tried[1], b"not locked")
    except HoldfastError as error:
        os.write(tried[1], str(error).encode())
    os._exit(0)
"""


def start(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", PRELUDE + code, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@contextmanager
def together(processes: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Let processes that wait for it begin at the same moment; kill them if the test fails."""
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        for process in processes:
            if process.poll() is None and sys.exc_info()[0] is not None:
                process.kill()
            process.communicate()


def finish(processes: Sequence[subprocess.Popen[bytes]]) -> list[bytes]:
    """Say go, and wait until all have ended well."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return outputs


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JsonlStore]:
    with JsonlStore(tmp_path) as opened:
        opened.create(KEY)
        yield opened


def texts(records: Iterable[Record]) -> list[str]:
    return [str(record.content) for record in records if isinstance(record, User)]


def check_all_there(store: JsonlStore, writers: dict[str, int], size: int = 1) -> None:
    """Every record of every writer is there once, in its writer's order, batches unbroken."""
    found = texts(store.read(KEY))
    assert len(found) == sum(writers.values()) * size
    for name, count in writers.items():
        mine = [text for text in found if text.split(" ")[0] == name]
        assert mine == [f"{name} {n}.{part}" for n in range(count) for part in range(size)]
    starts = [index for index, text in enumerate(found) if text.endswith(".0")]
    assert starts == list(range(0, len(found), size))
    report = store.verify(KEY)
    assert report.findings == ()
    assert report.records == len(found) + 1
    assert report.branches == 1


def test_four_processes_append_eight_thousand_records(store: JsonlStore) -> None:
    """4 processes append 2,000 records each to one session: none is lost, fused or out of order."""
    names = ["ann", "bob", "cem", "dee"]
    processes = [start(APPEND, store.root, name, 2_000, 1, "buffered") for name in names]
    with together(processes):
        finish(processes)
    check_all_there(store, dict.fromkeys(names, 2_000))


def test_processes_append_synced_batches(store: JsonlStore) -> None:
    """The same with synced batches of three: no batch is broken up by another writer."""
    names = ["ann", "bob", "cem", "dee"]
    processes = [start(APPEND, store.root, name, 60, 3, "synced") for name in names]
    with together(processes):
        finish(processes)
    check_all_there(store, dict.fromkeys(names, 60), size=3)


def test_reader_sees_only_whole_batches_while_others_write(store: JsonlStore) -> None:
    """Whenever one reads, the log is a prefix of what was appended, cut between batches."""
    process = start(APPEND, store.root, "ann", 400, 5, "buffered")
    with together([process]):
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
        seen = 0
        while process.poll() is None:
            found = texts(store.read(KEY))
            assert len(found) % 5 == 0
            assert len(found) >= seen
            assert texts(store.live(KEY).records)[: len(found)] == found
            assert len(store.last(KEY, 5)) in (1, 5)
            seen = len(found)
    assert process.returncode == 0
    check_all_there(store, {"ann": 400}, size=5)


def test_processes_that_expect_a_head_take_turns(store: JsonlStore) -> None:
    """Writers that read, decide and append with the head they saw never overwrite each other."""
    names = ["ann", "bob"]
    processes = [start(EXPECT, store.root, name, 100) for name in names]
    with together(processes):
        finish(processes)
    found = texts(store.read(KEY))
    for name in names:
        mine = [text for text in found if text.startswith(name)]
        assert mine == [f"{name} {number}" for number in range(100)]
    assert store.verify(KEY).findings == ()


def test_stale_head_is_refused_with_the_writers_pid(store: JsonlStore) -> None:
    """A conflict names the process that wrote meanwhile; after another look the append works."""
    old = store.head(KEY)
    process = start(APPEND, store.root, "ann", 3, 1, "synced")
    with together([process]):
        finish([process])
    with pytest.raises(LogConflict, match=rf"pid {process.pid}\b") as caught:
        store.append(KEY, [User(content="mine")], expect=old)
    assert caught.value.found == store.head(KEY)
    store.append(KEY, [User(content="mine 0.0")], expect=store.head(KEY))
    check_all_there(store, {"ann": 3, "mine": 1})


def test_two_processes_create_sessions(store: JsonlStore) -> None:
    """Sessions made by two processes at once are all listed; a contested id has one winner."""
    names = ["ann", "bob"]
    processes = [start(CREATE, store.root, name, 25) for name in names]
    with together(processes):
        won = [[int(number) for number in output.split()] for output in finish(processes)]
    assert sorted(won[0] + won[1]) == list(range(25))
    expected = {f"{name}-{number}" for name in [*names, "contested"] for number in range(25)}
    assert {info.key.session for info in store.sessions(owner=ANY_OWNER)} == {
        *expected,
        KEY.session,
    }


def test_killed_lock_holder_delays_nobody(tmp_path: Path) -> None:
    """A lock dies with its process: the next append gets it within the lock wait."""
    with JsonlStore(tmp_path, lock_wait_seconds=1.0) as store:
        store.create(KEY)
        process = start(STOP_WHILE_LOCKED, tmp_path, "killed", "SIGKILL")
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        store.append(KEY, [User(content="mine 0.0")], expect=ANY_HEAD)
        # It was killed between the write and the sync: what it wrote was not acknowledged.
        check_all_there(store, {"killed": 1, "mine": 1})


def test_stopped_lock_holder_is_named(tmp_path: Path) -> None:
    """A writer that was stopped inside its append is named; when it goes on, so do the others."""
    with JsonlStore(tmp_path, lock_wait_seconds=0.05) as store:
        store.create(KEY)
        process = start(STOP_WHILE_LOCKED, tmp_path, "stopped", "SIGSTOP")
        try:
            assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
            with pytest.raises(LogBusy, match=rf"pid {process.pid}\b") as caught:
                store.append(KEY, [User(content="mine 0.0")], expect=ANY_HEAD)
            assert caught.value.hint
            readable = texts(store.read(KEY))
        finally:
            os.kill(process.pid, signal.SIGCONT)
            process.communicate()
        assert process.returncode == 0
        assert readable == ["stopped 0.0"]
        store.append(KEY, [User(content="mine 0.0")], expect=ANY_HEAD)
        check_all_there(store, {"stopped": 1, "mine": 1})


def test_threads_share_a_store(store: JsonlStore) -> None:
    """8 threads on one store object append and read as if they were alone."""
    begin = threading.Barrier(8)

    def work(name: str) -> None:
        begin.wait()
        for number in range(150):
            text = f"{name} {number}.0"
            done = store.append(KEY, [User(content=text)], expect=ANY_HEAD, durability="buffered")
            if number % 50 == 0:
                assert texts([store.find(KEY, done.head)]) == [text]
                assert store.sessions(owner=ANY_OWNER)[0].key == KEY

    names = [f"thread{number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, names))
    check_all_there(store, dict.fromkeys(names, 150))


def test_threads_share_more_sessions_than_are_kept_open(store: JsonlStore) -> None:
    """Sessions beyond those held open for writing are closed and opened again, losing nothing."""
    keys = [SessionKey("main", f"one-of-many-{number}") for number in range(90)]
    for key in keys:
        store.create(key)
    open_before = len(os.listdir("/dev/fd"))

    def work(name: str) -> None:
        for number in range(2):
            for key in keys:
                record = User(content=f"{name} {number}")
                store.append(key, [record], expect=ANY_HEAD, durability="buffered")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, "abcd"))
    expected = sorted(f"{name} {number}" for name in "abcd" for number in range(2))
    assert all(sorted(texts(store.read(key))) == expected for key in keys)
    assert len(os.listdir("/dev/fd")) - open_before < 2 * len(keys)


def test_forked_child_and_parent_both_append(store: JsonlStore) -> None:
    """A store that was in use before a fork serves both sides of it."""
    process = start(FORK, store.root, "fork", 150)
    process.communicate()
    assert process.returncode == 0
    check_all_there(store, {"before": 1, "parent": 150, "child": 150, "after": 1})


def test_forked_child_respects_its_parents_lock(store: JsonlStore) -> None:
    """A lock that the parent takes after the fork keeps the child out, and it is told by whom."""
    process = start(FORK_WHILE_LOCKED, store.root, "fork")
    output = process.communicate()[0].decode()
    assert process.returncode == 0
    assert f"pid {process.pid} " in output
    assert "is locked" in output
    check_all_there(store, {"before": 1, "parent": 1})


def test_writer_note_names_program_and_host(store: JsonlStore) -> None:
    """The name of the last writer says which process it was, where, and what it ran."""
    process = start(APPEND, store.root, "ann", 1, 1, "synced")
    with together([process]):
        finish([process])
    with pytest.raises(LogConflict) as caught:
        store.append(KEY, [User(content="x")], expect=KEY.session)
    assert re.fullmatch(rf"pid {process.pid} on \S+ \(.+\)", caught.value.writer)
