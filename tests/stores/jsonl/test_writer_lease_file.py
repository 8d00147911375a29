"""The lease of a turn in files: it dies with its holder, and a doubt is a refusal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.errors import LeaseLost, NoSuchSession, PathRejected, TurnInProgress
from holdfast.ports import ANY_HEAD
from holdfast.stores.jsonl import writer
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = SessionKey("main", "work")
HOLD = """
import sys
from holdfast.core.log.ids import SessionKey
from holdfast.stores.jsonl.store import JsonlStore
store = JsonlStore(sys.argv[1])
store.leases.acquire(SessionKey("main", "work"), "the child", float(sys.argv[2]))
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JsonlStore]:
    with JsonlStore(tmp_path) as opened:
        opened.create(KEY)
        yield opened


def _file(store: JsonlStore) -> str:
    return os.path.join(store.root, "agents", "main", "sessions", "work.lease")


def _hold(store: JsonlStore, seconds: float) -> subprocess.Popen[str]:
    """Start a process that holds the lease."""
    command = [sys.executable, "-c", HOLD, store.root, str(seconds)]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def _end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


def _append(store: JsonlStore, token: int) -> None:
    store.append(KEY, [User(content="hi")], expect=ANY_HEAD, token=token)


def test_a_lease_of_a_killed_process_is_free_at_once(store: JsonlStore) -> None:
    """No one waits for the time of a holder that is dead to run out."""
    child = _hold(store, 3600)
    with pytest.raises(TurnInProgress, match="the child"):
        store.leases.acquire(KEY, "we", 10)
    _end(child)
    assert store.leases.current(KEY) is None
    _append(store, store.leases.acquire(KEY, "we", 10))


def test_a_lease_taken_from_a_stopped_process_is_held_without_its_lock(store: JsonlStore) -> None:
    """While a stopped process has the file's lock, its successor's lease holds by its time, also
    against the process that wakes up."""
    child = _hold(store, 0.0)
    child.send_signal(signal.SIGSTOP)
    try:
        token = store.leases.acquire(KEY, "we", 3600)
        with JsonlStore(store.root) as other, pytest.raises(TurnInProgress, match="we"):
            other.leases.acquire(KEY, "they", 10)
        _append(store, token)
    finally:
        _end(child)
    with JsonlStore(store.root) as other, pytest.raises(TurnInProgress):
        other.leases.acquire(KEY, "they", 10)
    store.leases.renew(KEY, token, 3600)  # from here on with the lock
    store.close()
    assert store.leases.current(KEY) is None


def test_a_process_that_lost_its_lease_does_not_take_it_for_free(store: JsonlStore) -> None:
    """It still has the file's lock, which says nothing about its successor."""
    store.leases.acquire(KEY, "we", 0.0)
    with JsonlStore(store.root) as other:
        other.leases.acquire(KEY, "they", 3600)
        with pytest.raises(TurnInProgress, match="they"):
            store.leases.acquire(KEY, "we again", 10)


def test_a_forked_child_cannot_write_with_its_parents_token(store: JsonlStore) -> None:
    """A token belongs to the process that got it: a child is another writer."""
    token = store.leases.acquire(KEY, "we", 3600)
    _append(store, token)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            store.leases.release(KEY, token)  # ends nothing
            _append(store, token)
        except LeaseLost:
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    _append(store, token)


def test_a_deleted_file_is_a_lost_lease(store: JsonlStore) -> None:
    """A holder that cannot prove its lease writes no more; the next token is another one."""
    token = store.leases.acquire(KEY, "we", 3600)
    os.unlink(_file(store))
    with pytest.raises(LeaseLost):
        _append(store, token)
    assert store.leases.acquire(KEY, "next", 10) != token


@pytest.mark.parametrize("content", [b"", b"\xff\xfe{", b"[1]", b'{"token": "x"}'])
def test_a_damaged_file_is_a_lost_lease(store: JsonlStore, content: bytes) -> None:
    """Whatever another program wrote there: nobody holds the lease, and the next one can."""
    token = store.leases.acquire(KEY, "we", 3600)
    with open(_file(store), "wb") as file:
        file.write(content)
    with pytest.raises(LeaseLost):
        _append(store, token)
    _append(store, store.leases.acquire(KEY, "next", 10))


def test_a_link_in_place_of_the_file_is_rejected(store: JsonlStore, tmp_path: Path) -> None:
    """Nothing outside the root is opened."""
    (tmp_path / "outside").write_text("{}")
    os.symlink(tmp_path / "outside", _file(store))
    with pytest.raises(PathRejected):
        store.leases.acquire(KEY, "we", 10)
    assert (tmp_path / "outside").read_text() == "{}"


def test_a_lease_of_another_machine_ends_by_the_wall_clock(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time since the start of another machine says nothing here; a minute is added."""
    store.leases.acquire(KEY, "we", 0.0)
    monkeypatch.setattr(writer, "this_boot", lambda: "another machine")
    with JsonlStore(store.root) as other:
        with pytest.raises(TurnInProgress):
            other.leases.acquire(KEY, "they", 10)
        monkeypatch.setattr(writer, "_GRACE_SECONDS", 0.0)
        other.leases.acquire(KEY, "they", 10)


def test_a_session_with_a_turn_stays_open_beyond_the_limit(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing its file would free its lease."""
    monkeypatch.setattr(writer, "_WRITERS_MAX", 3)
    token = store.leases.acquire(KEY, "we", 3600)
    for number in range(8):
        store.create(SessionKey("main", f"other-{number}"))
        store.append(SessionKey("main", f"other-{number}"), [User(content="hi")], expect=ANY_HEAD)
    with JsonlStore(store.root) as other, pytest.raises(TurnInProgress):
        other.leases.acquire(KEY, "they", 10)
    _append(store, token)


def test_a_holder_of_any_length_is_stored(store: JsonlStore) -> None:
    """A long name with characters that JSON escapes is cut, and the file stays readable."""
    store.leases.acquire(KEY, "\x1b\U0001f600é" * 5_000, 10)
    found = store.leases.current(KEY)
    assert found is not None
    assert len(found.holder) <= 200
    with open(_file(store), "rb") as file:
        assert json.loads(file.read())["token"] == found.token


def test_a_removed_session_leaves_no_lease(store: JsonlStore) -> None:
    """The file goes with the session."""
    store.leases.acquire(KEY, "we", 10)
    store.remove(KEY)
    assert not os.path.exists(_file(store))


@pytest.mark.parametrize("is_other", [False, True], ids=["same store", "another store"])
def test_log_deleted_while_its_turn_runs_leaves_the_name_free(
    store: JsonlStore, is_other: bool
) -> None:
    """The end of its turn says that it is gone, and a new session of the name has its turn."""
    token = store.leases.acquire(KEY, "we", 3_600)
    Path(store.root, "agents", KEY.agent, "sessions", f"{KEY.session}.jsonl").unlink()
    with pytest.raises(NoSuchSession):
        store.leases.release(KEY, token)
    with JsonlStore(store.root) as other:
        chosen = other if is_other else store
        chosen.create(KEY)
        later = chosen.leases.acquire(KEY, "they", 10)
        assert later > token
        chosen.append(KEY, [User(content="new")], expect=ANY_HEAD, token=later)
        with pytest.raises(LeaseLost):
            store.append(KEY, [User(content="late")], expect=ANY_HEAD, token=token)
