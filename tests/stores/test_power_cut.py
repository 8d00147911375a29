"""After a power cut, everything acknowledged is there: no name on the way to it may be missing.

A name is durable once its folder was synced after it was made. A process that is killed between
the two leaves a name that others see and use, and that the power cut takes.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.core.history.access import Access
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.errors import SessionExists
from holdfast.ports import ANY_HEAD
from holdfast.stores import files
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = SessionKey("main", "s")


class Killed(BaseException):
    """The process ends here."""


class NameDisk:
    """Knows which names are durable: those that were in a folder when it was synced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.durable: set[tuple[int, str, int]] = set()
        self.left = -1
        """Folder syncs until the process is killed; -1: it is not."""
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, fd: int) -> None:
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            if self.left == 0:
                raise Killed
            self.left -= 1
            with os.scandir(fd) as entries:
                self.durable |= {(found.st_ino, entry.name, entry.inode()) for entry in entries}
        self._fsync(fd)

    def survives(self, base: Path, path: Path) -> bool:
        """True where every name from `base` to `path` is durable."""
        while path != base:
            inode = path.stat().st_ino
            if (path.parent.stat().st_ino, path.name, inode) not in self.durable:
                return False
            path = path.parent
        return True


def _append(store: JsonlStore) -> list[str]:
    with contextlib.suppress(SessionExists):
        store.create(KEY)
    store.append(KEY, [User(content="x")], expect=ANY_HEAD)
    return ["agents/main/sessions/s.jsonl"]


def _put_blob(store: JsonlStore) -> list[str]:
    sha256 = store.blobs.put(b"payload" * 100)
    return [f"blobs/{sha256[:2]}/{sha256}.zst"]


def _audit(store: JsonlStore) -> list[str]:
    store.audit.note(Access(1.0, "read", "", None, "", "s", is_allowed=True, reason="why"))
    return ["audit.jsonl"]


def _note(store: JsonlStore) -> list[str]:
    store.notes("main").append("remember this")
    root = Path(store.root)
    return [str(path.relative_to(root)) for path in root.rglob("*.md")]


ACTS: dict[str, Callable[[JsonlStore], list[str]]] = {
    "append": _append,
    "blob": _put_blob,
    "audit": _audit,
    "note": _note,
}


@pytest.mark.parametrize("act", ACTS.values(), ids=list(ACTS))
def test_names_that_a_killed_process_left_are_synced_by_the_next(
    act: Callable[[JsonlStore], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at any of its folder syncs, the next process loses nothing that it acknowledges."""
    kills = 0
    while True:
        disk = NameDisk(monkeypatch)
        base = tmp_path / str(kills)
        base.mkdir()
        root = base / "deep" / "root"
        _forget_process(monkeypatch)
        disk.left = kills
        try:
            _do(act, root)
        except Killed:
            kills += 1
        else:
            break
        disk.left = -1
        _forget_process(monkeypatch)
        for path in _do(act, root):
            assert disk.survives(base, root / path), (kills, path)
    assert kills >= 3


def _do(act: Callable[[JsonlStore], list[str]], root: Path) -> list[str]:
    with JsonlStore(root) as store:
        return act(store)


def _forget_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new process knows of no name that it is durable."""
    remembered: set[Any] = set()
    monkeypatch.setattr(files, "_synced_names", remembered)


def test_a_log_that_is_open_is_synced_by_name_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sync of names costs the first append, and no other."""
    disk = NameDisk(monkeypatch)
    with JsonlStore(tmp_path) as store:
        _append(store)
        disk.left = 0
        for _ in range(3):
            store.append(KEY, [User(content="y")], expect=ANY_HEAD)
