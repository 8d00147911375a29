"""Errors of the system while reading are errors of ours, and one odd folder stops no other."""

from __future__ import annotations

import errno
import inspect
import os
import shutil
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.runs import is_whole, sample

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, User
from holdfast.core.log.views import MESSAGE_KEY
from holdfast.core.owners import ANY_OWNER
from holdfast.errors import HoldfastError, HoldfastWarning
from holdfast.ports import ANY_HEAD
from holdfast.stores import files
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


KEY = SessionKey("main", "s")
OTHER = SessionKey("main", "other")
READS = ("open", "fstat", "stat", "pread", "read", "scandir", "listdir", "lseek", "dup")
ERRNOS = (errno.EIO, errno.EACCES, errno.ENOENT, errno.EISDIR, errno.ESTALE, errno.EMFILE)

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "append": (KEY, [User(content="x")]),
    "append_each": (KEY, [User(content="x")]),
    "create": (SessionKey("main", "new"),),
    "extend_log": (SessionKey("main", "new"), b"{}\n"),
    "find": (KEY, "no-such-record"),
    "find_message": (KEY, "a-key"),
    "fork": (KEY, SessionKey("main", "forked")),
    "is_head": (KEY, "no-such-record"),
    "last": (KEY, 2),
    "read_branch": (KEY, "no-such-record"),
    "restore": ("removed",),
    "erase_from_indexes": ([KEY],),
    "possible_copies": (["main/x"],),
    "begin_erasure": (KEY,),
    "finish_erasure": (KEY,),
    "sessions_since": ("",),
    "notes": ("main",),
    "note_scopes": ("main",),
}
KEYWORDS: dict[str, dict[str, Any]] = {
    "append": {"expect": ANY_HEAD},
    "extend_log": {"at": 0},
    "fork": {"at": None},
    "follow": {"idle_seconds": 0.0},
}
ONLY_READING = (
    *("back", "branches", "export", "find", "find_message", "head", "header"),
    *("is_head", "keys", "last", "live", "read", "read_all", "read_branch", "verify"),
    *("hash_candidates", "trash", "audit", "summaries"),
)
"""Methods that may fail again and again on one copy."""
NOT_CALLED = {"append_batch", "create_log", "locate", "open_log"}
"""Steps of other methods, which are called."""


def _methods() -> list[str]:
    return [
        name
        for name, member in inspect.getmembers(JsonlStore)
        if not name.startswith("_") and name not in NOT_CALLED and name != "close"
        if callable(member) or isinstance(member, property)
    ]


def _make(root: Path) -> None:
    with JsonlStore(root) as store:
        for key in (KEY, OTHER, SessionKey("main", "removed")):
            store.create(key)
            asked = User(content="a", extra={MESSAGE_KEY: "a-key"})
            store.append(key, [asked, Assistant(content="b")], expect=ANY_HEAD)
        store.remove(SessionKey("main", "removed"))
        store.blobs.put(b"payload")
        store.notes("main").append("a note")


def _use(store: JsonlStore, method: str) -> None:
    """Call a method to the end of what it returns; for a side store, read all of it."""
    found = getattr(store, method)
    if callable(found):
        given = ARGUMENTS.get(method)
        if given is None:
            wants_key = "key" in inspect.signature(found).parameters
            given = (KEY,) if wants_key else ()
        named = KEYWORDS.get(method, {})
        if "owner" in inspect.signature(found).parameters:
            named = {"owner": ANY_OWNER, **named}
        found = found(*given, **named)
    if inspect.isgenerator(found) or isinstance(found, map | filter):
        list(found)
    if method == "blobs":
        for sha256 in store.blobs:
            store.blobs.get(sha256)
            store.blobs.size(sha256)
            _is_there = sha256 in store.blobs
        store.blobs.put(b"payload")
        store.blobs.collect(store.hash_candidates(), grace_seconds=0.0)
    if method == "audit":
        store.audit.entries()
    if method == "notes":
        found.files()


class Faults:
    """Lets the `left`-th call of one system call fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, call: str, error: int, left: int) -> None:
        self.left = left
        self._real = getattr(os, call)
        self._error = error
        monkeypatch.setattr(os, call, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.left == -1:
            raise OSError(self._error, os.strerror(self._error))
        return self._real(*args, **kwargs)


@pytest.mark.parametrize("method", _methods())
def test_no_error_of_the_system_leaves_a_store_as_it_is(method: str, tmp_path: Path) -> None:
    """Every read call of every public method fails once: ours is raised, or none."""
    made = tmp_path / "made"
    _make(made)
    for call in sample(READS, share=1 / 3, name=lambda call: f"{method} {call}"):
        for start in range(len(ERRNOS) if is_whole() else 1):
            for place in range(60):
                error = ERRNOS[(start + place + len(call)) % len(ERRNOS)]
                root = made
                if method not in ONLY_READING:
                    root = tmp_path / "root"
                    shutil.rmtree(root, ignore_errors=True)
                    shutil.copytree(made, root)
                faults = _use_once(root, method, call, error, place)
                if faults.left >= 0:
                    break


def _use_once(root: Path, method: str, call: str, error: int, place: int) -> Faults:
    with (
        pytest.MonkeyPatch.context() as patch,
        JsonlStore(root) as store,
        warnings.catch_warnings(),
        suppress(HoldfastError),
    ):
        warnings.simplefilter("ignore")
        patch.setattr(files, "_synced_names", set())
        faults = Faults(patch, call, error, place)
        _use(store, method)
    return faults


def _loop(folder: Path) -> None:
    folder.symlink_to(folder)


def _file(folder: Path) -> None:
    folder.write_bytes(b"no folder")


def _strange(folder: Path) -> None:
    folder.mkdir()
    os.mkdir(os.path.join(os.fsencode(folder), b"\xff\xfe"))
    (folder / "sessions").write_bytes(b"no folder")


def _names(folder: Path) -> None:
    (folder / "sessions").mkdir(parents=True)
    for name in (b"\xff.jsonl", b"a b.jsonl", b".jsonl", b"-.jsonl", b"x.jsonl.jsonl"):
        with open(os.path.join(os.fsencode(folder / "sessions"), name), "wb") as file:
            file.write(b"{}\n")
    (folder / "sessions" / "folder.jsonl").mkdir()
    (folder / "sessions" / "link.jsonl").symlink_to("link.jsonl")
    os.mkfifo(folder / "sessions" / "pipe.jsonl")


ODD: dict[str, Callable[[Path], None]] = {
    "loop": _loop,
    "file": _file,
    "strange": _strange,
    "names": _names,
}


@pytest.mark.parametrize("make_odd", ODD.values(), ids=list(ODD))
def test_one_odd_folder_does_not_stop_the_others(
    make_odd: Callable[[Path], None], tmp_path: Path
) -> None:
    """Listing, reading, searching for mentions, sweeping and verifying work for the others."""
    _make(tmp_path)
    make_odd(tmp_path / "agents" / "odd")
    with JsonlStore(tmp_path) as store, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert {info.key for info in store.sessions(owner=ANY_OWNER)} == {KEY, OTHER}
        assert set(store.keys()) == {KEY, OTHER}
        assert store.verify(KEY).is_sound
        assert list(store.read(KEY))
        assert store.sweep() == []
    if make_odd is _strange:
        assert any(issubclass(one.category, HoldfastWarning) for one in told)
        assert any("odd/sessions" in str(one.message) for one in told)


def test_a_log_that_cannot_be_read_keeps_every_blob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it mentions is unknown, so nothing is collected."""
    _make(tmp_path)
    with JsonlStore(tmp_path) as store:
        kept = set(store.blobs)
        Faults(monkeypatch, "pread", errno.EIO, 0)
        with pytest.raises(HoldfastError):
            store.blobs.collect(store.hash_candidates(), grace_seconds=-1e9)
        assert set(store.blobs) == kept
