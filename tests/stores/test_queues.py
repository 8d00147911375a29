"""The file of the queues: older versions are read, newer ones left alone."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.ports import NewMessage
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
