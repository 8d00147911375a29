"""The file of the queues: older versions are read, newer ones left alone."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.owners import ANY_OWNER
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
        for column in ("lost_claims", "ready", "boot"):
            db.execute(f"ALTER TABLE messages DROP COLUMN {column}")
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
            found = db.execute(
                queues_file._FIRST, {"queue": "inbox", "up": 1, "boot": "b", "limit": 32}
            )
            assert [id_ for (id_,) in found] == [1, 2, 3, 4, 5, 6]
            db.set_progress_handler(None, 0)
            steps.append(counted[0])
        assert steps[1] <= 3 * steps[0]


JUMPS = (-86_400.0, -3_600.0, -1.0, 0.0, 1.0, 3_600.0, 86_400.0 * 400)


class Clocks:
    """A wall clock that is set, and one that only grows."""

    def __init__(self) -> None:
        self.wall, self.up = 1_800_000_000.0, 5_000.0

    def pass_time(self, seconds: float) -> None:
        self.wall += seconds
        self.up += seconds


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(("put", "claim", "renew", "postpone", "finish", "pass", "sleep")),
            st.sampled_from(JUMPS),
        ),
        max_size=30,
    )
)
@examples(200)
def test_setting_the_wall_clock_changes_no_decision(steps: list[tuple[str, float]]) -> None:
    """Queues whose wall clock jumps before every step do what those do whose clock never does."""
    made, told = [], []
    for is_set in (False, True):
        clocks = Clocks()
        with closing(
            SqliteQueues(
                None,
                clock=partial(getattr, clocks, "wall"),
                awake_time=partial(getattr, clocks, "up"),
            )
        ) as queues:
            made.append(
                [_act(queues, clocks, steps, number, is_set) for number in range(len(steps))]
            )
            told.append(
                [(m.key, m.state, m.tries, m.lost_claims) for m in queues.messages(owner=ANY_OWNER)]
            )
    assert made[0] == made[1]
    assert told[0] == told[1]


def _act(
    queues: SqliteQueues, clocks: Clocks, steps: list[tuple[str, float]], number: int, is_set: bool
) -> object:
    act, jump = steps[number]
    clocks.wall += jump if is_set else 0.0
    running = queues.messages(states=("running",), owner=ANY_OWNER)
    match act:
        case "put":
            new = NewMessage(queue="inbox", lane=str(number % 3), key=str(number), body={})
            return queues.put(new).key
        case "claim":
            return [message.key for message in queues.claim("inbox", "w", 30, limit=2)]
        case "renew":
            return [queues.renew(message, 30) for message in running]
        case "postpone":
            return [queues.postpone(message, 10) for message in running]
        case "finish":
            return [queues.finish(message, "answered") for message in running]
        case _:
            clocks.pass_time(7 if act == "pass" else 7_200)
            return None


def test_after_another_start_of_the_machine_nothing_is_held(tmp_path: Path) -> None:
    """The clock that only grows begins again: no claim and no wait of before holds anything up."""
    path = str(tmp_path / "queues.sqlite3")
    other = msgspec.structs.replace(NEW, lane="b", key="other")
    with closing(SqliteQueues(path, clock=time.time, awake_time=lambda: 9e6, boot="one")) as queues:
        queues.put(NEW)
        queues.put(other)
        held = queues.claim("inbox", "w", 600, limit=2)
        assert queues.postpone(held[1], 600)
        assert queues.claim("inbox", "w", 600, limit=2) == []
    with closing(SqliteQueues(path, clock=time.time, awake_time=lambda: 3.0, boot="two")) as queues:
        assert [message.key for message in queues.claim("inbox", "w", 600, limit=2)] == [
            "k",
            "other",
        ]
        assert queues.claim("inbox", "w", 600, limit=2) == []
