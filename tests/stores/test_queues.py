"""The file of the queues: older versions are read, newer ones left alone."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.ports import NewMessage
from holdfast.stores import queues as queues_file
from holdfast.stores.queues import SqliteQueues

if TYPE_CHECKING:
    from pathlib import Path

NEW = NewMessage(queue="inbox", lane="a", key="k", body={"text": "hello"})


def test_queues_of_the_first_version_go_on(tmp_path: Path) -> None:
    """Messages that it kept are claimed, with the column that it did not have."""
    path = tmp_path / "queues.sqlite3"
    with closing(SqliteQueues(str(path), clock=time.time)) as queues:
        queues.put(NEW)
    with closing(sqlite3.connect(path)) as db:
        db.execute("ALTER TABLE messages DROP COLUMN lost_claims")
        db.execute("PRAGMA user_version = 1")
        db.commit()
    for lost in range(3):
        with closing(SqliteQueues(str(path), clock=time.time)) as queues:
            (held,) = queues.claim("inbox", "w", 600)
            assert (held.body, held.tries, held.lost_claims) == ({"text": "hello"}, 1, lost)
            assert queues.release_all("inbox") == 1


def test_queues_of_a_later_version_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "queues.sqlite3"
    with closing(SqliteQueues(str(path), clock=time.time)) as queues:
        queues.put(NEW)
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA user_version = 99")
    with (
        closing(SqliteQueues(str(path), clock=time.time)) as queues,
        pytest.raises(StoreUnavailable, match="newer version"),
    ):
        queues.claim("inbox", "w", 600)


def test_a_claim_costs_the_same_behind_any_backlog() -> None:
    """The steps of the query, counted by SQLite, follow the lanes and not what waits in them."""
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in queues_file._SCHEMA:
            db.execute(statement)
        steps = []
        for first, last in ((0, 60), (60, 3_000)):
            rows = [("inbox", f"lane{n % 6}", f"key{n}") for n in range(first, last)]
            db.executemany(
                """INSERT INTO messages (queue, lane, key, owner, session, body, state, tries,
                  claims, created, changed, due, holder, reason)
                  VALUES (?, ?, ?, '', '', '', 'waiting', 0, 0, 0, 0, 0, '', '')""",
                rows,
            )
            counted = [0]

            def count(counted: list[int] = counted) -> int:
                counted[0] += 1
                return 0

            db.set_progress_handler(count, 10)
            found = db.execute(queues_file._FIRST, {"queue": "inbox", "now": 1, "limit": 32})
            assert [id_ for (id_,) in found] == [1, 2, 3, 4, 5, 6]
            db.set_progress_handler(None, 0)
            steps.append(counted[0])
        assert steps[1] <= 3 * steps[0]
