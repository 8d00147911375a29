"""Memory is bounded by the longest line that is parsed, not by the size of a log."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.runs import is_whole

from holdfast import JsonlStore, SessionKey, User
from holdfast.records import Compaction
from holdfast.stores import ANY_HEAD

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = SessionKey("main", "z-a-larger-session")
"""As long as a record's id and sorted after all of them, which must make no difference."""
MEGABYTE = 1_000_000
MANY = 100_000 if is_whole() else 15_000
"""Records in a long log, each of 0.6 kB: more than what may be held at a time."""
HUGE = 200 * MEGABYTE if is_whole() else 100 * MEGABYTE

# The peak of this process alone: what `getrusage` says includes the parent's, from before `exec`.
CHILD = """
import json, re, sys
from holdfast import JsonlStore, SessionKey, User
from holdfast.stores import ANY_HEAD, ANY_OWNER

def peak():
    status = open("/proc/self/status").read()
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) * 1024

def count(records):
    return sum(1 for _ in records)

key = SessionKey("main", "z-a-larger-session")
small = SessionKey("main", "small")
with JsonlStore(sys.argv[1]) as store:
    store.append(small, [User(content="warm up")], expect=ANY_HEAD)
    list(store.read(small)), store.live(small), store.verify(small), store.sessions(owner=ANY_OWNER)
    before = peak()
    found = {name: eval(name) for name in sys.argv[2:]}
print(json.dumps({"grown": peak() - before, "found": found}))
"""


def measured(root: Path, *expressions: str) -> tuple[dict[str, object], int]:
    """What the expressions give in a process of their own, and how much its memory grew."""
    if sys.platform != "linux":
        pytest.skip("memory was NOT measured: there is no /proc here")
    command = [sys.executable, "-c", CHILD, str(root), *expressions]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    result = json.loads(child.stdout)
    return result["found"], result["grown"]


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder that is gone after the test: these files are too large to keep."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def sessions(root: Path, large: int) -> Path:
    """A small session and one with that many records; returns the file of the latter."""
    with JsonlStore(root) as store:
        store.create(SessionKey("main", "small"))
        store.create(KEY)
        for start in range(0, large, 5_000):
            texts = (f"{number} {'x' * 500}" for number in range(start, min(start + 5_000, large)))
            records = [User(content=text) for text in texts]
            store.append_each(KEY, records, durability="buffered")
    return root / "agents" / "main" / "sessions" / f"{KEY.session}.jsonl"


def insert_huge_line(log: Path, size: int) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    middle = len(lines) // 2
    with log.open("wb") as file:
        file.writelines(lines[:middle])
        file.write(b'{"type":"user","id":"huge","content":"')
        for _part in range(size // MEGABYTE):
            file.write(b"x" * MEGABYTE)
        file.write(b'"}\n')
        file.writelines(lines[middle:])


def test_huge_line_is_passed_over_in_bounded_memory(root: Path) -> None:
    """A line of 100 MB or more amid a log is reported, and everything around it works."""
    insert_huge_line(sessions(root, 100), HUGE)
    expressions = (
        "[finding.kind for finding in store.verify(key).findings]",
        "count(store.read(key))",
        "count(store.read_all(key))",
        "len(store.last(key, 1000))",
        "len(store.live(key).records)",
        "store.find(key, store.head(key)).kind",
        "[info.records for info in store.sessions(owner=ANY_OWNER)]",
        "len(store.append(key, [User(content='next')] * 2, expect=store.head(key)).ids)",
        "store.last(key, 1)[0].content",
    )
    found, grown = measured(root, *expressions)
    kinds, *counts = found.values()
    assert kinds == ["oversize"]
    assert counts == [101, 101, 101, 101, "user", [2, 101], 2, "next"]
    assert grown < HUGE * 3 / 4


def test_huge_line_at_the_end_is_sealed_in_bounded_memory(root: Path) -> None:
    """A torn line of 70 MB is sealed by the next append without being read into memory."""
    log = sessions(root, 10)
    insert_huge_line(log, 80 * MEGABYTE)
    data = log.read_bytes()
    log.write_bytes(data[: data.index(b'"huge"') + 70 * MEGABYTE])
    found, grown = measured(
        root,
        "store.append(key, [User(content='next')], expect=ANY_HEAD).sealed.kind",
        "count(store.read(key))",
        "len(store.live(key).records)",
        "[finding.kind for finding in store.verify(key).findings]",
    )
    # A line that long is not looked into: that it was torn shows only while it is the last one.
    assert list(found.values()) == ["torn", 6, 6, ["oversize"]]
    assert grown < 60 * MEGABYTE


def test_huge_line_is_left_out_of_a_repaired_copy_in_bounded_memory(root: Path) -> None:
    """A repair carries the records around the line over and the line itself to the quarantine."""
    insert_huge_line(sessions(root, 10), 60 * MEGABYTE)
    found, grown = measured(
        root,
        "store.repair(key).records",
        "count(store.read(SessionKey('main', key.session + '-repaired')))",
    )
    assert list(found.values()) == [10, 11]
    assert grown < 150 * MEGABYTE
    quarantine = root / "agents" / "main" / "sessions" / f"{KEY.session}-repaired.quarantine"
    assert quarantine.stat().st_size > 60 * MEGABYTE


def test_long_log_is_read_as_a_stream(root: Path) -> None:
    """Reading a log of many records, about 9 or 60 MB, holds a few of them at a time."""
    log = sessions(root, MANY)
    assert log.stat().st_size > MANY * 550
    found, grown = measured(
        root,
        "count(store.read(key))",
        "count(store.read_all(key))",
        "store.verify(key).records",
        "[info.records for info in store.sessions(owner=ANY_OWNER)]",
        "len(store.last(key, 10))",
        "store.find(key, store.head(key)).kind",
    )
    assert list(found.values()) == [MANY + 1, MANY + 1, MANY + 1, [2, MANY + 1], 10, "user"]
    assert grown < 5 * MEGABYTE


def test_live_part_of_a_long_log_costs_the_window(root: Path) -> None:
    """Behind a boundary the length of the history does not matter for the next turn."""
    sessions(root, MANY)
    with JsonlStore(root) as store:
        store.append(KEY, [Compaction(summary="so far")], expect=ANY_HEAD)
        store.append_each(KEY, [User(content="new")] * 5)
    found, grown = measured(
        root,
        "len(store.live(key).records)",
        "len(store.append(key, [User(content='next')], expect=store.head(key)).ids)",
        "count(store.read(key, start=store.live(key).boundary.id))",
    )
    assert list(found.values()) == [6, 1, 7]
    assert grown < 5 * MEGABYTE
