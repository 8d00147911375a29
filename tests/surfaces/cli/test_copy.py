"""`holdfast copy`: moves a store, tells what it did, and fails loudly where something is left."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.stores.stores_to_copy import DAMAGED, OWNED, PLAIN, fill, state_of
from tests.support.cli import run_in_process
from tests.surfaces.terminals import Terminal

from holdfast import User
from holdfast.core.owners import ANY_OWNER
from holdfast.stores import ANY_HEAD, open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.surfaces.conftest import Cli, Result


@pytest.fixture
def copy(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Run `holdfast copy` with these arguments, in a folder with a filled store `here`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_ROOT", raising=False)
    with open_store("here") as store:
        fill(store)
    return lambda *args: run_in_process(["copy", *args], capfd, b"")


def test_a_store_moves_to_a_database_and_back(
    copy: Callable[..., Result], postgres_address: str
) -> None:
    """Everything is there, verified; a second run has nothing to do; the way back is the same."""
    planned = copy("here", postgres_address, "--dry-run", "--json")
    assert planned.status == 0
    assert "nothing was written" in copy("here", "elsewhere", "--dry-run").err
    assert not os.path.exists("elsewhere")
    done = copy("here", postgres_address, "--json")
    assert done.status == 0
    assert {**done.json, "dry_run": True} == planned.json
    assert done.json["complete"] is True
    assert {session["state"] for session in done.json["sessions"]} == {"copied"}
    again = copy("here", postgres_address)
    assert again.status == 0
    assert "5 sessions: 5 same" in again.out
    assert "1 session in the trash" in again.err
    assert copy(postgres_address, "back").status == 0
    with open_store("here") as here, open_store("back") as back:
        assert state_of(back) == state_of(here)


def test_what_is_in_the_way_is_reported(copy: Callable[..., Result]) -> None:
    """The exit code says that something is left; the table says which session, and why."""
    copy("here", "there")
    with open_store("here") as here, open_store("there") as there:
        there.append(PLAIN, [User(content="at the target")], expect=ANY_HEAD)
        here.leases.acquire(OWNED, "a turn of mine", 60)
        found = copy("here", "there")
        assert found.status == 1
        assert "conflict" in found.out
        assert "a turn is running: a turn of mine" in found.out
        assert str(DAMAGED) not in found.out
        parts = copy("here", "there", "--json").json["sessions"]
        states = {part["session"]: part["state"] for part in parts}
        assert (states["plain"], states["owned"]) == ("conflict", "same")
        assert [part["turn"] for part in parts if part["turn"]] == ["a turn of mine"]


def test_messages_in_queues_are_copied_and_reported(copy: Callable[..., Result]) -> None:
    """The line of the queues, what is worked on, and what is in the way."""
    with open_store("here") as here:
        here.queues.claim("inbox", "a worker", 600)
    found = copy("here", "there")
    assert found.status == 1
    assert "10 messages in queues: 10 added, 0 updated" in found.out
    assert "1 message at work; at the target" in found.err
    with open_store("here") as here, open_store("there") as there:
        here.queues.release_all("inbox")
        newest = there.queues.messages(limit=1, owner=ANY_OWNER)[0].id
        assert there.queues.drop(newest, "at the target")
    found = copy("here", "there")
    assert found.status == 1
    assert f"that the target has another of, or has gone on with: {newest}" in found.err
    counts = copy("here", "there", "--json").json["messages"]
    assert (counts["messages"], counts["conflicts"], counts["running"]) == (10, [newest], 0)


@pytest.mark.files_only("a store in memory is one of them")
def test_stores_that_cannot_be_copied_are_refused(copy: Callable[..., Result]) -> None:
    """An empty source is more likely a mistake; what ends with the command keeps nothing."""
    for arguments, words in {
        ("heer", "there"): "nothing to copy",
        ("here", "here"): "into itself",
        ("here", "./here/../here"): "into itself",
        ("here", "memory:"): "gone when this process ends",
        ("memory:", "there"): "gone when this process ends",
        ("here", "there", "--root", "elsewhere"): "two stores",
        ("here", "mysql://x/y"): "no such kind of address",
    }.items():
        found = copy(*arguments)
        assert (found.status, words in found.err) == (2, True), (arguments, found)


def test_payloads_follow_the_settings(
    copy: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOLDFAST_BLOBS holds for both sides; an option takes one of them elsewhere."""
    for place in ("alone", "shared", "inside"):
        monkeypatch.setenv("HOLDFAST_BLOBS", "payloads")
        options = {
            "alone": ["--from-blobs", "-", "--to-blobs", "elsewhere"],
            "shared": ["--from-blobs", "-"],
            "inside": ["--from-blobs", "-", "--to-blobs", "-"],
        }[place]
        assert copy("here", place, *options, "--json").status == 0
        where = {"alone": "elsewhere", "shared": "payloads", "inside": None}[place]
        with open_store(place, blobs=where) as store:
            assert len(list(store.blobs)) == 1
    stored = copy("shared", "another", "--json").json["sessions"]
    assert sum(session["payloads"] for session in stored) == 0


@pytest.mark.files_only("it looks into folders")
def test_payloads_move_into_a_bucket_and_out_of_it(
    copy: Callable[..., Result], s3_options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the usual AWS variables; what is shared by both sides stays where it is."""
    bucket = "s3://tests/moved"
    for name, option in (
        *(("AWS_ENDPOINT_URL", "endpoint"), ("AWS_ACCESS_KEY_ID", "access_key_id")),
        *(("AWS_SECRET_ACCESS_KEY", "secret_access_key"), ("AWS_REGION", "region")),
    ):
        monkeypatch.setenv(name, s3_options[option])
    moved = copy("here", "there", "--to-blobs", bucket, "--json")
    assert moved.status == 0, moved.err
    assert sum(session["payloads"] for session in moved.json["sessions"]) == 1
    assert not os.path.exists("there/blobs")
    monkeypatch.setenv("HOLDFAST_BLOBS", bucket)
    shared = copy("there", "third", "--json")
    assert shared.status == 0, shared.err
    assert sum(session["payloads"] for session in shared.json["sessions"]) == 0
    assert copy("third", "back", "--to-blobs", "-").status == 0
    with open_store("here") as here, open_store("back") as back:
        assert state_of(back) == state_of(here)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    refused = copy("here", "fourth", "--from-blobs", "-")
    assert refused.status != 0
    assert "refuses the key" in refused.out + refused.err
    assert "another-secret" not in refused.out + refused.err


def test_no_password_is_shown(copy: Callable[..., Result]) -> None:
    """Neither where the server cannot be reached, nor as JSON."""
    address = "postgresql://agent:s3cret-words@127.0.0.1:1/none?connect_timeout=1"
    for arguments in (("here", address), (address, "there")):
        for more in ((), ("--json",)):
            found = copy(*arguments, *more)
            assert found.status == 1
            assert "s3cret" not in found.out + found.err
            assert "127.0.0.1" in found.out + found.err


def test_the_root_is_the_source_that_is_not_named(cli: Cli, tmp_path: Path) -> None:
    """`holdfast copy TO` copies what other commands work on."""
    cli("new", "--id", "work")
    assert cli("copy", str(tmp_path / "there"), "--json").json["sessions"][0]["session"] == "work"


@pytest.mark.files_only("another process opens the folder")
@pytest.mark.usefixtures("copy")
def test_a_terminal_sees_how_far_it_is(tmp_path: Path) -> None:
    """The count of sessions and bytes is replaced as it grows, and gone in the end."""
    command = (sys.executable, "-m", "holdfast", "copy", "here", "there")
    with Terminal(*command, folder=tmp_path, PYTHONPATH=":".join(sys.path)) as terminal:
        assert terminal.wait_for_end() == 0
        assert b"5 of 5: main/without-a-byte" in terminal.raw
        assert b"5 sessions: 5 copied" in terminal.raw
