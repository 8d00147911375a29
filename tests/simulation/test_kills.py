"""A writer killed at any moment loses nothing that it had acknowledged."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from tests.support.runs import is_whole

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.ports import ANY_HEAD
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing.crash import BATCH_FIELD, SIZE_FIELD, KillableWriter, kill_at_random

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.log.records import Record
    from holdfast.testing.crash import Acknowledged

KEY = SessionKey("main", "killed")
TORN = {"torn", "open-batch"}


def survive_kills(root: Path, kills: int, *, seed: int, kills_per_session: int = 5) -> None:
    for start in range(0, kills, kills_per_session):
        key = SessionKey("main", f"killed-{start}")
        with JsonlStore(root) as store:
            store.create(key)
        acknowledged: list[Acknowledged] = []
        first = 0
        for number in range(start, min(start + kills_per_session, kills)):
            acknowledged += kill_at_random(root, key, seed=seed + number, first=first)
            first = check_survivors(root, key, acknowledged) + 1


def check_survivors(root: Path, key: SessionKey, acknowledged: list[Acknowledged]) -> int:
    """Everything the log must still be after a kill; returns the number of the last append."""
    with JsonlStore(root) as store:
        torn_before = [finding.kind for finding in store.verify(key).findings]
        records = list(store.read(key))
        ids = [record.id for record in records]
        assert store.head(key) == ids[-1]
        assert list(store.live(key).records) == records

        expected = [record_id for one in acknowledged for record_id in one.ids]
        known = set(expected)
        assert [record_id for record_id in ids if record_id in known] == expected
        appended = check_batches_are_whole(records)
        assert sorted(appended) == appended

        done = store.append(key, [User(content="after the kill")], expect=ids[-1])
        assert [record.id for record in store.read(key)] == [*ids, done.head]
        assert store.last(key, 1)[0].id == done.head
        findings = [finding.kind for finding in store.verify(key).findings]
        assert set(findings) <= TORN
        assert len(findings) >= len(torn_before)
        return max([one.append for one in acknowledged] + appended, default=-1)


def check_batches_are_whole(records: list[Record]) -> list[int]:
    """The numbers of the appends in the log, each of which has all its records."""
    ours = [record.extra for record in records if BATCH_FIELD in record.extra]
    numbers = []
    for number, group in groupby(ours, key=lambda extra: extra[BATCH_FIELD]):
        sizes = [extra[SIZE_FIELD] for extra in group]
        assert sizes == [len(sizes)] * len(sizes)
        numbers.append(number)
    return numbers


def test_killed_writer_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """After each of 10 kills at random moments the log is whole and takes the next append."""
    survive_kills(tmp_path, 25 if is_whole() else 5, seed=1)


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
def test_killed_writer_loses_nothing_acknowledged_in_a_thousand_kills(tmp_path: Path) -> None:
    """The same for 1,000 kills over 200 sessions."""
    survive_kills(tmp_path, 1_000, seed=1_000_000)


def test_killed_writer_had_acknowledged_what_it_was_waited_for(tmp_path: Path) -> None:
    """The harness itself: it waits for as many acknowledgements as asked, and keeps them all."""
    with JsonlStore(tmp_path) as store:
        store.create(KEY)
        with KillableWriter(tmp_path, KEY, seed=7) as writer:
            writer.wait_for(10)
            acknowledged = writer.kill()
        assert len(acknowledged) >= 10
        assert [one.append for one in acknowledged] == list(range(len(acknowledged)))
        store.append(KEY, [User(content="after")], expect=ANY_HEAD)
