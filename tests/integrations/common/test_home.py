"""The store behind an adapter."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.core.log.records import User
from holdfast.errors import AccessDenied, AdapterClosed, BadSetting, HoldfastWarning
from holdfast.integrations.common.home import Delete, PeerHome
from holdfast.integrations.common.originals import MessageLine
from holdfast.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path


def home(root: Path, *, owner: str = "", delete: Delete = "trash") -> PeerHome:
    return PeerHome("It", root=str(root), store=None, agent=None, owner=owner, delete=delete)


def test_names_come_back_from_the_store(tmp_path: Path) -> None:
    names = {("thread-1",), ("Thread-1",), ("app", "user", "s"), ("", ""), ("x" * 9000,)}
    first = home(tmp_path)
    keys = {first.ensure(name) for name in names}
    assert len(keys) == len(names)
    first.close()
    again = home(tmp_path)
    assert {name for name, _key in again.names()} == names
    assert {again.ensure(name) for name in names} == keys
    again.close()


def test_deleted_session_is_in_the_trash_or_gone(tmp_path: Path) -> None:
    for delete, left in (("trash", 1), ("erase", 0)):
        home_of = home(tmp_path / delete, delete=delete)  # type: ignore[arg-type]
        key = home_of.ensure(("thread-1",))
        home_of.remove(key)
        home_of.remove(key)
        assert not home_of.exists(key)
        assert len(home_of.store.trash()) == left
        home_of.close()


def test_erasing_leaves_what_another_owner_had_under_the_name(tmp_path: Path) -> None:
    bob, ann = home(tmp_path, owner="bob"), home(tmp_path, owner="ann", delete="erase")
    key = bob.ensure(("thread-1",))
    bob.remove(key)
    ann.ensure(("thread-1",))
    ann.remove(key)
    (trashed,) = bob.store.trash()
    bob.store.restore(trashed.name)
    assert bob.exists(key)
    ann.close()
    bob.close()


def test_session_of_another_owner_is_refused(tmp_path: Path) -> None:
    ann, bob = home(tmp_path, owner="ann"), home(tmp_path, owner="bob")
    key = ann.ensure(("thread-1",))
    for use in (lambda: bob.ensure(("thread-1",)), lambda: bob.remove(key)):
        with pytest.raises(AccessDenied):
            use()
    assert list(bob.names()) == []
    ann.close()
    bob.close()


def test_open_store_stays_open_and_a_closed_adapter_says_so(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        given = PeerHome("HoldfastSession", root=None, store=store, agent=None)
        key = given.ensure(("thread-1",))
        given.close()
        given.close()
        assert store.head(key)
        with pytest.raises(RuntimeError, match="HoldfastSession is closed") as refused:
            given.ensure(("thread-1",))
        assert isinstance(refused.value, AdapterClosed)


def test_a_home_closes_those_that_were_made_of_it(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        given = PeerHome("HoldfastSession", root=None, store=store, agent=None)
        other = given.at("helper", "ann")
        assert list(other.names()) == []
        given.close()
        with pytest.raises(AdapterClosed):
            other.ensure(("thread-1",))


@pytest.mark.files_only("it damages a file")
def test_damage_is_told_once_and_the_rest_is_there(tmp_path: Path) -> None:
    first = home(tmp_path)
    key = first.ensure(("thread-1",))
    said = [User(content=f"message {number}") for number in range(3)]
    for record in said:
        first.store.append(key, [record], expect=None)
    first.close()
    (log,) = tmp_path.rglob("thread-1.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    lines[2] = b"\0" * (len(lines[2]) - 1) + b"\n"
    log.write_bytes(b"".join(lines))
    damaged = home(tmp_path)
    with pytest.warns(HoldfastWarning, match="1 damaged places"):
        assert damaged.exists(key)
    assert damaged.exists(key)  # warnings are errors here
    texts = [record.content for record in damaged.store.read(key) if isinstance(record, User)]
    assert texts == ["message 0", "message 2"]
    damaged.close()


@pytest.mark.files_only("it damages a file")
@pytest.mark.parametrize("way", ["items", "lines"])
def test_damage_is_told_by_whoever_reads_the_whole_log(tmp_path: Path, way: str) -> None:
    """Nobody has to look for it before, which would read the log twice."""
    first = home(tmp_path)
    key = first.ensure(("thread-1",))
    for number in range(3):
        first.store.append(key, [User(content=f"message {number}")], expect=None)
    first.close()
    (log,) = tmp_path.rglob("thread-1.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:2], b"\0" * 20 + b"\n", *lines[3:]]))
    damaged = home(tmp_path)
    assert damaged.exists(key, is_read_whole=True)  # warnings are errors here
    for is_told in (False, True):
        with nullcontext() if is_told else pytest.warns(HoldfastWarning, match="1 damaged places"):
            found: list[Any] = list(
                damaged.items(key, "x") if way == "items" else damaged.lines(key, MessageLine)
            )
        assert len(found) == 3
    damaged.close()


@pytest.mark.files_only("it writes a line of its own")
def test_a_line_that_is_no_record_is_told(tmp_path: Path) -> None:
    """Also where every line is JSON, and each follows the one before it."""
    for way in ("items", "lines"):
        first = home(tmp_path / way)
        key = first.ensure(("thread-1",))
        (log,) = (tmp_path / way).rglob("thread-1.jsonl")
        log.write_bytes(log.read_bytes() + b'{"type":"user","id":"zz","content":5}\n')
        with pytest.warns(HoldfastWarning, match="1 damaged places"):
            list(first.items(key, "x") if way == "items" else first.lines(key, MessageLine))
        first.close()


def test_settings_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, pytest.raises(BadSetting):
        PeerHome("It", root=str(tmp_path), store=store, agent=None)
    with pytest.raises(BadSetting):
        home(tmp_path, delete="burn")  # type: ignore[arg-type]
