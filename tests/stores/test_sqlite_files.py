"""Changes of several threads share a transaction, and an error is that of its own change."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.stores.sqlite_files import SharedTransactions, SqliteFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class CountingFile(SqliteFile):
    """Counts its transactions."""

    transactions = 0

    def transaction(self, *, is_synced: bool = True) -> Any:
        self.transactions += 1
        return super().transaction(is_synced=is_synced)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[CountingFile]:
    def prepare(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE IF NOT EXISTS numbers (number INTEGER PRIMARY KEY)")

    with closing(CountingFile(str(tmp_path / "file"), prepare, wait_seconds=5)) as opened:
        opened.connect()
        yield opened


def _insert(number: int) -> Callable[[sqlite3.Connection], int]:
    return lambda db: db.execute("INSERT INTO numbers VALUES (?)", (number,)).rowcount


def _run_together(
    writes: SharedTransactions, works: list[Callable[[sqlite3.Connection], Any]]
) -> list[Any]:
    """Run changes that all wait before the first of them can begin; returns results and errors."""
    found: list[Any] = [None] * len(works)

    def run(number: int) -> None:
        try:
            found[number] = writes.run(works[number])
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    with writes.alone():
        for thread in threads:
            thread.start()
        while len(writes._waiting) < len(works):
            pass
    for thread in threads:
        thread.join()
    return found


def _numbers(file: SqliteFile) -> list[int]:
    rows = file.connect().execute("SELECT number FROM numbers ORDER BY number")
    return [number for (number,) in rows]


def test_changes_that_wait_share_a_transaction(file: CountingFile) -> None:
    writes = SharedTransactions(file)
    assert _run_together(writes, [_insert(number) for number in range(20)]) == [1] * 20
    assert _numbers(file) == list(range(20))
    assert file.transactions == 1
    assert writes.run(_insert(20)) == 1
    assert file.transactions == 2


def test_a_change_that_fails_fails_alone(file: CountingFile) -> None:
    """The others are stored, each once, whatever the error is."""

    def mistake(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO numbers VALUES (99)")
        raise ValueError("a mistake")

    writes = SharedTransactions(file)
    writes.run(_insert(3))
    works = [_insert(1), _insert(3), mistake, _insert(2)]
    found = _run_together(writes, works)
    assert [found[0], found[3]] == [1, 1]
    assert isinstance(found[1], sqlite3.IntegrityError)
    assert isinstance(found[2], ValueError)
    assert _numbers(file) == [1, 2, 3]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_interrupted_leader_leaves_nobody_waiting(file: CountingFile) -> None:
    """Ctrl-C in the thread that makes the changes: nothing is stored, and the others are told."""

    def interrupt(_db: sqlite3.Connection) -> None:
        raise KeyboardInterrupt

    writes = SharedTransactions(file)
    found = _run_together(writes, [_insert(1), interrupt, _insert(2)])
    assert sum(isinstance(each, InterruptedError) for each in found) == 2
    assert writes.run(_insert(3)) == 1
    assert _numbers(file) == [3]


def test_a_new_file_waits_for_another_that_writes_it_first(tmp_path: Path) -> None:
    """SQLite itself does not wait where one connection writes and another changes the mode."""
    path = tmp_path / "file"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as first:
        first.execute("BEGIN IMMEDIATE")
        first.execute("CREATE TABLE numbers (number INTEGER)")
        timer = threading.Timer(0.1, first.execute, ["COMMIT"])
        timer.start()
        with closing(SqliteFile(str(path), lambda _db: None, wait_seconds=60)) as file:
            (mode,) = file.connect().execute("PRAGMA journal_mode").fetchone()
        timer.join()

    assert mode == "wal"


def test_a_file_that_stays_locked_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with closing(sqlite3.connect(path, isolation_level=None)) as first:
        first.execute("BEGIN IMMEDIATE")
        file = SqliteFile(str(path), lambda _db: None, wait_seconds=0.05)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            file.connect()
