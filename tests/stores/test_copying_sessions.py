"""A copy that is killed anywhere goes on where it was, and the result is the same."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.stores.stores_to_copy import (
    PLAIN,
    address_of,
    fill,
    line,
    opener,
    said,
    state_of,
    view_of,
)
from tests.support.runs import is_whole, sample

from holdfast import SessionKey, User
from holdfast.errors import StoreUnavailable
from holdfast.stores import ANY_HEAD, MemoryStore, copy_store, open_store
from holdfast.stores import copying as log_pieces
from holdfast.stores import copying as session_copies
from holdfast.stores.copying import LogPieces
from holdfast.stores.files import Disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


EVERY = {"folder": 29, "postgres": 37}
"""In `make test`, a kill at every so many steps."""


class Killed(BaseException):
    """The process ends here, as far as the copy is concerned."""


class Killer:
    """Ends the copy at one of the steps that reach a disk or a server, before or in the middle."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.step = self.last = self._thread = 0
        patch.setattr(Disk, "write", self._torn(Disk.write))
        for kind, name in (
            *((Disk, "sync"), (Disk, "sync_folder"), (psycopg.Connection, "execute")),
            *((psycopg.Copy, "write_row"), (psycopg.Connection, "commit")),
        ):
            patch.setattr(kind, name, self._stopped(getattr(kind, name)))

    @contextmanager
    def at(self, last: int) -> Iterator[None]:
        """Kill at that step from now on; 0 is never."""
        self.step, self.last, self._thread = 0, last, threading.get_ident()
        try:
            yield
        finally:
            self.last = 0

    def _is_now(self) -> bool:
        if threading.get_ident() != self._thread:
            return False  # the bell for followers has a thread of its own
        self.step += 1
        return self.step == self.last

    def _torn(self, write: Any) -> Any:
        def tear(disk: Disk, fd: int, data: bytes | memoryview) -> Any:
            if self._is_now():
                write(disk, fd, memoryview(data)[: len(data) // 2])
                raise Killed
            return write(disk, fd, data)

        return tear

    def _stopped(self, call: Any) -> Any:
        def stop(*args: Any, **more: Any) -> Any:
            if self._is_now():
                raise Killed
            return call(*args, **more)

        return stop


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of a few hundred bytes are written in several steps."""

    def cut(key: SessionKey, blocks: Iterator[bytes]) -> LogPieces:
        return LogPieces(key, blocks, piece_bytes=300)

    monkeypatch.setattr(session_copies, "LogPieces", cut)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("kind", EVERY)
def test_a_copy_goes_on_after_a_kill_at_any_step(
    kind: str, tmp_path: Path, postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed once at each write, sync, statement and row, then run again: nothing is missing,
    nothing is there twice, and every session was at each moment one that its source has been."""
    with MemoryStore() as source:
        fill(source)
        logs = {key: b"".join(source.export(key)) for key in source.keys()}  # noqa: SIM118
        expected = state_of(source)
        killer = Killer(monkeypatch)
        last, step = 1, 1 if is_whole() else EVERY[kind]
        while True:
            open_target = opener(kind, tmp_path, postgres_address)
            with open_target():
                pass  # its tables are made
            try:
                with open_target() as target, killer.at(last):
                    copy_store(source, target)
            except Killed:
                pass
            else:
                break
            with open_target() as target:
                for key in target.keys():  # noqa: SIM118
                    assert logs[key].startswith(b"".join(target.export(key)))
                assert copy_store(source, target).is_complete, last
                assert state_of(target) == expected, last
            last += step
        assert last > 40


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("kind", ["folder", "memory", "postgres"])
def test_two_copies_at_once_make_one(kind: str, tmp_path: Path, postgres_address: str) -> None:
    """Each may find that the other was faster; neither takes the other for a conflict."""
    open_target = opener(kind, tmp_path, postgres_address)
    with MemoryStore() as source, open_target() as first, open_target() as second:
        fill(source)
        for number in range(60):
            source.append(PLAIN, [User(content=f"text {number}" * 20)], expect=ANY_HEAD)
        reports: list[Any] = []
        threads = [
            threading.Thread(
                target=lambda target=target: reports.append(copy_store(source, target))
            )
            for target in (first, second)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        conflicts = [s for report in reports for s in report.sessions if not s.is_done]
        assert conflicts == []
        assert copy_store(source, first).is_complete
        for key in source.keys():  # noqa: SIM118
            assert view_of(first, key) == view_of(source, key)


def test_a_store_that_stays_away_ends_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One session that cannot be written is reported; after some in a row it is the store."""
    with MemoryStore() as source, open_store(tmp_path / "target") as target:
        for number in range(10):
            source.create(SessionKey("main", f"s{number}"))
        extend, failing = target.extend_log, {"s1"}

        def fail(key: SessionKey, data: bytes, *, at: int) -> None:
            if key.session in failing:
                raise StoreUnavailable("the disk is full")
            extend(key, data, at=at)

        monkeypatch.setattr(target, "extend_log", fail)
        report = copy_store(source, target)
        assert [str(s.key) for s in report.sessions if not s.is_done] == ["main/s1"]
        failing |= {f"s{number}" for number in range(10)}
        source.append(SessionKey("main", "s0"), [User(content="more")], expect=ANY_HEAD)
        source.append(SessionKey("main", "s2"), [User(content="more")], expect=ANY_HEAD)
        with pytest.raises(StoreUnavailable, match="full"):
            copy_store(source, target)
        failing.clear()
        assert copy_store(source, target).is_complete


def test_what_the_target_did_not_keep_is_noticed(tmp_path: Path) -> None:
    """A target that returns other bytes than it was given fails the comparison after the copy."""

    class Forgetful(MemoryStore):
        def extend_log(self, key: SessionKey, data: bytes, *, at: int) -> None:
            super().extend_log(key, data.replace(b"hello", b"hallo"), at=at)

    with open_store(tmp_path / "source") as source, Forgetful() as target:
        fill(source)
        report = copy_store(source, target)
        (plain,) = [session for session in report.sessions if session.key == PLAIN]
        assert plain.state == "failed"
        assert "not what was written" in plain.detail


@pytest.mark.parametrize("kind", sample(["folder", "postgres"], share=0.5))
def test_a_process_that_is_killed_loses_nothing(
    kind: str, tmp_path: Path, postgres_address: str
) -> None:
    """`holdfast copy` with kill -9 at random moments, again and again until it is done."""
    rng = random.Random(kind)
    target = address_of(kind, tmp_path, postgres_address)
    with open_store(tmp_path / "here") as source:
        fill(source)
        big = SessionKey("main", "big")
        source.create(big)
        for number in range(6):
            texts = [User(content=f"{number} {n} " + "x" * 90_000) for n in range(20)]
            source.append_each(big, texts)
        assert source.info(big).bytes > 2 * log_pieces.PIECE_BYTES
    command = [sys.executable, "-m", "holdfast", "copy", str(tmp_path / "here"), target, "--json"]
    kills = 0  # it may be done before it is killed
    for _number in range(40 if is_whole() else 1):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.2, 2.0))
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    assert b'"complete":true' in done.stdout
    assert kills or not is_whole()
    with open_store(tmp_path / "here") as source, open_store(target) as copied:
        assert state_of(copied) == state_of(source)


COPIES = """
import re, sys
from holdfast import SessionKey
from holdfast.stores import copy_store, open_store

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024

with open_store(sys.argv[1]) as source, open_store(sys.argv[2]) as target:
    assert copy_store(source, target, agent="small").is_complete
    before = peak()
    report = copy_store(source, target)
    assert report.is_complete, report
    print(peak() - before, report.sessions[0].bytes)
"""
WAYS = [("folder", "postgres"), ("postgres", "folder")]
LARGE = (50, 400) if is_whole() else (16, 64)
"""Megabytes of a session, and of a larger one."""
MEGABYTE = 1_000_000


@pytest.mark.parametrize("way", sample(WAYS, share=0.5), ids="-".join)
def test_a_copy_takes_the_same_memory_for_a_larger_session(
    way: tuple[str, str], tmp_path: Path, postgres_address: str
) -> None:
    """A copy holds some pieces of a log, however long it is."""
    if sys.platform != "linux":
        pytest.skip("memory was NOT measured: there is no /proc here")
    text = random.Random(1).randbytes(5_000).hex()
    grown = []
    for megabytes in LARGE:
        source, target = (address_of(kind, tmp_path, postgres_address) for kind in way)
        with open_store(source) as store:
            for name, count in (("small", 1), ("main", megabytes * 100)):
                lines = (line(said(f"{number} {text}", number)) for number in range(count + 2))
                long = LogPieces(SessionKey(name, "s"), lines)
                for piece in long:
                    store.extend_log(SessionKey(name, "s"), piece.data, at=piece.position)
        command = [sys.executable, "-c", COPIES, source, target]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        memory, size = map(int, found.stdout.split())
        assert size > megabytes * MEGABYTE
        grown.append(memory)
    assert grown[1] < 1.5 * max(grown[0], 16_000_000)
