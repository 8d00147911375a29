"""The file of a running summary: a cache that may be lost, torn or somebody else's at any time."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from holdfast.core.checkpoint.told import ToldLine
from holdfast.core.log.ids import SessionKey
from holdfast.core.memory.running_summary import Sidecar
from holdfast.core.owners import ANY_OWNER
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.stores.summary_files import FileSidecars
from holdfast.testing.disk import FaultyDisk, RecordingDisk, Sync

if TYPE_CHECKING:
    from pathlib import Path

KEY = SessionKey("main", "trip")
SOME = Sidecar(upto="r1", items=(ToldLine("r1", "user", "Which train? 漢字"),))


@pytest.fixture
def sidecars(tmp_path: Path) -> FileSidecars:
    with JsonlStore(tmp_path) as store:
        store.create(KEY)
    return FileSidecars(tmp_path)


def file_of(sidecars: FileSidecars) -> str:
    return os.path.join(sidecars.root, "agents", "main", "sessions", "trip.summary.json")


def test_what_is_saved_is_loaded(sidecars: FileSidecars) -> None:
    """For its owner's eyes only, and no session of its own."""
    assert sidecars.load(KEY) is None
    assert sidecars.save(KEY, SOME)
    assert sidecars.load(KEY) == SOME
    assert stat.S_IMODE(os.stat(file_of(sidecars)).st_mode) == 0o600
    with JsonlStore(sidecars.root) as store:
        assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [KEY]


@pytest.mark.parametrize("length", [0, 1, 20, 60])
def test_a_torn_file_is_as_good_as_none(sidecars: FileSidecars, length: int) -> None:
    sidecars.save(KEY, SOME)
    with open(file_of(sidecars), "r+b") as file:
        file.truncate(length)
    assert sidecars.load(KEY) is None
    assert sidecars.save(KEY, SOME)
    assert sidecars.load(KEY) == SOME


def test_a_link_is_not_followed(sidecars: FileSidecars, tmp_path: Path) -> None:
    """It is neither read nor written through."""
    target = tmp_path / "elsewhere.json"
    target.write_text('{"version": 1}')
    os.symlink(target, file_of(sidecars))
    assert sidecars.load(KEY) is None
    assert sidecars.save(KEY, SOME)
    assert target.read_text() == '{"version": 1}'
    assert sidecars.load(KEY) == SOME


def test_a_huge_file_is_left_alone(sidecars: FileSidecars) -> None:
    with open(file_of(sidecars), "wb") as file:
        file.truncate(64 * 1024 * 1024)
    assert sidecars.load(KEY) is None


@pytest.mark.parametrize("room", range(0, 84, 7))
def test_what_cannot_be_written_leaves_the_old_one_whole(sidecars: FileSidecars, room: int) -> None:
    """Wherever in the middle of it the disk is full; and the next one is written again."""
    sidecars.save(KEY, SOME)
    disk = FaultyDisk()
    disk.fill(room=room)
    full = FileSidecars(sidecars.root, disk=disk)
    assert not full.save(KEY, Sidecar(upto="r2"))
    assert sidecars.load(KEY) == SOME
    folder = os.path.dirname(file_of(sidecars))
    assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]
    disk.heal()
    assert full.save(KEY, Sidecar(upto="r2"))


def test_a_cache_is_not_synced(sidecars: FileSidecars) -> None:
    """The log has the answer where power fails; what is there is whole after a kill."""
    disk = RecordingDisk()
    assert FileSidecars(sidecars.root, disk=disk).save(KEY, SOME)
    assert not any(isinstance(event, Sync) for event in disk.events)
    assert sidecars.load(KEY) == SOME


def test_a_session_that_is_gone_leaves_no_words_behind(sidecars: FileSidecars) -> None:
    sidecars.save(KEY, SOME)
    sidecars.forget(KEY)
    assert not os.path.exists(file_of(sidecars))
    sidecars.forget(KEY)
    sidecars.forget(SessionKey("nobody", "nothing"))
    assert not sidecars.save(SessionKey("nobody", "nothing"), SOME)
