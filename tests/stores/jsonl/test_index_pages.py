"""A page of a large root is that of a full listing, and costs what it shows."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stores.jsonl.test_index import QuickDisk
from tests.stores.test_sqlite_files_shredding import bytes_written
from tests.support.runs import examples

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Label, User
from holdfast.core.owners import ANY_OWNER, NamedOwner, owner_of
from holdfast.errors import SessionExists
from holdfast.ports import ANY_HEAD, SessionCatalogue, page_of
from holdfast.stores import changes
from holdfast.stores.jsonl import index
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.ports import SessionInfo


class Time:
    """A clock that stands still, a day after the files were made."""

    def __init__(self) -> None:
        self.now = time.time() + 86_400.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def large_roots() -> Iterator[None]:
    """Take every root for a large one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "_SMALL_ROOT", -1)
        yield


def all_of(store: JsonlStore) -> list[SessionInfo]:
    """Every session, from the logs themselves."""
    infos = [SessionCatalogue.info(store, key) for key in store.keys()]  # noqa: SIM118
    return page_of(infos, owner=ANY_OWNER, label=None, after=None, limit=None)


NAMES = st.sampled_from("abcdef")
ACTS = st.lists(
    st.tuples(
        st.sampled_from(["create", "append", "label", "remove", "restore", "erase", "page", "cut"]),
        NAMES,
        st.integers(0, 2),
        st.integers(0, 9),
    ),
    max_size=30,
)


@examples(100)
@given(acts=ACTS)
def test_a_page_is_the_beginning_of_the_listing(acts: list[tuple[str, str, int, int]]) -> None:
    """Whatever several stores of one root do in between, each sees it in its next page."""
    clock = Time()
    with large_roots(), tempfile.TemporaryDirectory() as root:
        stores = [JsonlStore(root, disk=QuickDisk(), clock=clock) for _ in range(3)]
        for name in "gabcdef":
            clock.now += 1e-3
            stores[0].create(SessionKey("main", name))
        stores[0].sessions(owner=ANY_OWNER)
        for act, name, place, number in acts:
            clock.now += 1e-3
            _do(stores[place], act, SessionKey("main", name), number)
            reader = stores[(place + 1) % 3]
            listing = all_of(reader)
            assert reader.sessions(limit=2, owner=ANY_OWNER) == listing[:2]
            after = listing[number % len(listing)] if listing else None
            assert (
                reader.sessions(after=after, limit=2, owner=ANY_OWNER)
                == [info for info in listing if after is None or _place(info) > _place(after)][:2]
            )
            for owner in ("", "ann"):
                chosen = [info for info in listing if info.owner == owner_of(owner)]
                assert reader.sessions(owner=owner_of(owner), agent="main", label="l1") == [
                    info for info in chosen if info.label == "l1"
                ]
                if act == "page":
                    assert reader.sessions(owner=owner_of(owner)) == chosen
        for store in stores:
            store.close()


def _place(info: SessionInfo) -> tuple[float, SessionKey]:
    return -info.last_active, info.key


def _do(store: JsonlStore, act: str, key: SessionKey, number: int) -> None:
    exists = key in list(store.keys())
    if act == "create" and not exists:
        store.create(key, owner=owner_of("ann" if number % 2 else ""), label=f"l{number % 3}")
    elif act == "append" and exists:
        store.append(key, [User(content="x")], expect=ANY_HEAD)
    elif act == "label" and exists:
        store.append(key, [Label(label=f"l{number % 3}")], expect=ANY_HEAD)
    elif act == "remove" and exists:
        store.remove(key)
    elif act == "restore" and store.trash():
        try:
            store.restore(store.trash()[0].name)
        except SessionExists:
            return
    elif act == "erase" and exists:
        store.begin_erasure(key, owner=ANY_OWNER)
        store.erase_from_indexes([key])
        store.finish_erasure(key)
    elif act == "cut":
        store._folders.changes.cut()
    elif act == "page":
        store.sessions(limit=number, owner=ANY_OWNER)


class Work(msgspec.Struct):
    """Files that were looked at, and folders that were listed."""

    stats: int = 0
    folders: int = 0


@contextmanager
def counted() -> Iterator[Work]:
    work, stat, scandir = Work(), os.stat, os.scandir

    def counting_stat(*args: Any, **kwargs: Any) -> Any:
        work.stats += 1
        return stat(*args, **kwargs)

    def counting_scandir(*args: Any) -> Any:
        work.folders += 1
        return scandir(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "stat", counting_stat)
        patch.setattr(os, "scandir", counting_scandir)
        yield work


def filled(root: Path, count: int, clock: Time) -> JsonlStore:
    store = JsonlStore(root, disk=QuickDisk(), clock=clock)
    store.create(SessionKey("main", "s0"))
    folder = root / "agents" / "main" / "sessions"
    header = msgspec.json.decode((folder / "s0.jsonl").read_bytes())
    for number in range(1, count):
        made = {**header, "id": f"s{number}", "ts": header["ts"] - number}
        (folder / f"s{number}.jsonl").write_bytes(msgspec.json.encode(made) + b"\n")
    assert len(store.sessions(owner=ANY_OWNER)) == count
    return store


@pytest.mark.parametrize("count", [60, 1_500])
def test_a_page_looks_at_its_own_files(tmp_path: Path, count: int) -> None:
    """Among 25 times as many sessions, a page of 50 looks at no more files, nor do filters."""
    clock = Time()
    with large_roots(), filled(tmp_path, count, clock) as store:
        for number in range(3):
            clock.now += 0.01
            store.append(SessionKey("main", f"s{number}"), [User(content="x")], expect=ANY_HEAD)
        with counted() as work:
            page = store.sessions(limit=50, owner=ANY_OWNER)
        assert [info.key.session for info in page[:3]] == ["s2", "s1", "s0"]
        assert (work.folders, work.stats) == (0, 50 + 3 + 2), (
            "its own, the changed, one whose turn it is, and the list"
        )
        with counted() as work:
            assert store.sessions(label="none", owner=ANY_OWNER) == []
            assert store.sessions(owner=NamedOwner("ann"), limit=5) == []
        assert work.stats == 2
        clock.now += 3_600  # the appends left the name of their writer: the folders changed
        store.sessions(limit=5, owner=ANY_OWNER)
        for _hour in range(3):
            clock.now += 3_600
            with counted() as work, names_read(store) as names:
                store.sessions(limit=5, owner=ANY_OWNER)
            assert (work.folders, names) == (1, []), "the folder of agents alone"
            assert work.stats <= 5 + 1 + index._TURN_FILES


def test_changes_by_other_programs_are_seen_within_a_minute(tmp_path: Path) -> None:
    clock = Time()
    with large_roots(), filled(tmp_path, 5, clock) as store:
        store.sessions(limit=2, owner=ANY_OWNER)
        folder = tmp_path / "agents" / "main" / "sessions"
        (folder / "new.jsonl").write_bytes((folder / "s1.jsonl").read_bytes())
        (folder / "s2.jsonl").unlink()
        assert len(store.sessions(limit=9, owner=ANY_OWNER)) == 4, "what is gone is not shown"
        clock.now += index._LOOK_SECONDS
        names = {info.key.session for info in store.sessions(limit=9, owner=ANY_OWNER)}
        assert names == {"new", "s0", "s1", "s3", "s4"}


@contextmanager
def names_read(store: JsonlStore) -> Iterator[list[SessionKey]]:
    """The names of logs that are read, beside those of a full listing."""
    read: list[SessionKey] = []
    names = store._files.names

    def spy() -> Iterator[SessionKey]:
        for key in names():
            read.append(key)
            yield key

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store._files, "names", spy)
        yield read


@pytest.mark.parametrize("count", [60, 300])
def test_each_file_is_looked_at_in_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """A log that another program writes to is found by as many pages as it takes to look at every
    file, a few in each of them; and no log is read but that one, nor another row."""
    clock = Time()
    with large_roots(), filled(tmp_path, count, clock) as store:
        changed = tmp_path / "agents" / "main" / "sessions" / "s50.jsonl"
        changed.write_bytes(
            changed.read_bytes() + b'{"type":"user","id":"x","ts":1900000000,"content":"y"}\n'
        )
        made: list[object] = []
        read: list[SessionKey] = []
        row_of, read_row = index.row_of, index.read_row

        def spy_row(row: tuple[Any, ...]) -> tuple[SessionKey, index.IndexRow]:
            made.append(row)
            return row_of(row)

        def spy_log(file: index.LogFile, known: index.IndexRow | None) -> index.IndexRow:
            read.append(file.key)
            return read_row(file, known)

        monkeypatch.setattr(index, "row_of", spy_row)
        monkeypatch.setattr(index, "read_row", spy_log)
        for _page in range(count // index._TURN_FILES + 1):
            clock.now += 10
            made.clear()
            page = store.sessions(limit=5, owner=ANY_OWNER)
            assert len(page) == 5
            assert len(made) <= 5 + 2
        assert read == [SessionKey("main", "s50")]
        assert page[0].key == SessionKey("main", "s50")


@pytest.mark.parametrize("count", [60, 600])
def test_looks_at_all_names_take_no_more_of_a_minute_in_a_large_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """While sessions come and go, ten times as many names are looked at as often in an hour."""
    clock = Time()
    monkeypatch.setattr(index, "_FILES_A_SECOND", 1.0)
    with large_roots(), filled(tmp_path, count, clock) as store, names_read(store) as names:
        folder = tmp_path / "agents" / "main" / "sessions"
        for minute in range(60):
            clock.now += 60
            (folder / f"new{minute}.tmp").touch()
            store.sessions(limit=2, owner=ANY_OWNER)
        assert 3_600 - count <= len(names) <= 3_600 + count


def test_a_folder_that_changed_a_moment_ago_is_not_relied_on(tmp_path: Path) -> None:
    """Its time can be the same after the next change."""
    clock = Time()
    clock.now = time.time()
    with large_roots(), filled(tmp_path, 5, clock) as store, names_read(store) as names:
        clock.now += index._LOOK_SECONDS
        store.sessions(limit=2, owner=ANY_OWNER)
        assert len(names) == 5
        clock.now += index._LOOK_SECONDS
        store.sessions(limit=2, owner=ANY_OWNER)
        assert len(names) == 5


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs the counters of Linux")
def test_a_first_listing_writes_each_page_once(tmp_path: Path) -> None:
    """Of more sessions than SQLite keeps in memory by itself: once to its log, once to the file."""
    clock = Time()
    with JsonlStore(tmp_path, disk=QuickDisk(), clock=clock) as store:
        store.create(SessionKey("main", "s0"))
        folder = tmp_path / "agents" / "main" / "sessions"
        header = msgspec.json.decode((folder / "s0.jsonl").read_bytes())
        for number in range(1, 6_000):
            made = {**header, "id": f"s{number}", "owner": f"o{number % 900}", "label": f"{number}"}
            (folder / f"s{number}.jsonl").write_bytes(msgspec.json.encode(made) + b"\n")
        before = bytes_written()
        assert len(store.sessions(owner=ANY_OWNER)) == 6_000
        written = bytes_written() - before
    assert written <= 2.2 * (tmp_path / "index.sqlite3").stat().st_size


def test_another_boot_means_looking_at_every_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut a change may be in a log and not on the list."""
    clock = Time()
    with large_roots(), filled(tmp_path, 5, clock) as store:
        store.sessions(limit=2, owner=ANY_OWNER)
        monkeypatch.setattr(changes, "_BOOT_ID", "/nowhere")
        with counted() as work:
            store.sessions(limit=2, owner=ANY_OWNER)
        assert work.folders > 0


def test_a_writer_marks_once_between_two_listings(tmp_path: Path) -> None:
    """The list does not grow with appends, and is cut short when it is long."""
    clock = Time()
    with large_roots(), filled(tmp_path, 3, clock) as store:
        store.sessions(limit=2, owner=ANY_OWNER)
        path = tmp_path / changes.NAME
        sizes = []
        for _ in range(20):
            store.append(SessionKey("main", "s1"), [User(content="x")], expect=ANY_HEAD)
            sizes.append(path.stat().st_size)
        assert len(set(sizes)) == 1
        store.sessions(limit=2, owner=ANY_OWNER)
        with path.open("ab") as file:
            file.write(b"main/s1\n" * (changes._LIST_BYTES_MAX // 8 + 1))
        clock.now += 1
        store.append(SessionKey("main", "s1"), [User(content="last")], expect=ANY_HEAD)
        assert path.stat().st_size < 100
        assert store.sessions(limit=1, owner=ANY_OWNER)[0].records == 22


@pytest.mark.parametrize("what", ["deleted", "a folder", "a link", "garbage", "read-only"])
def test_a_list_that_cannot_be_used_changes_no_answer(tmp_path: Path, what: str) -> None:
    clock = Time()
    path = tmp_path / changes.NAME
    with large_roots():
        with filled(tmp_path, 3, clock) as store:
            store.sessions(limit=2, owner=ANY_OWNER)
        path.unlink()
        if what == "a folder":
            path.mkdir()
        elif what == "a link":
            (tmp_path / "target").write_bytes(b"x" * 100)
            path.symlink_to(tmp_path / "target")
        elif what == "garbage":
            path.write_bytes(b"\xff\n/\n..//x\n" * 5)
        elif what == "read-only":
            path.write_bytes(b"x" * 16)
            path.chmod(0o400)
        with JsonlStore(tmp_path, disk=QuickDisk(), clock=clock) as store:
            clock.now += 1
            store.append(SessionKey("main", "s2"), [User(content="x")], expect=ANY_HEAD)
            assert [info.key.session for info in store.sessions(limit=1, owner=ANY_OWNER)] == ["s2"]
            assert len(store.sessions(limit=9, owner=ANY_OWNER)) == 3
        if what == "a link":
            assert (tmp_path / "target").read_bytes() == b"x" * 100


def test_an_index_that_gives_no_answer_is_not_an_empty_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the rows of a page cannot be read, every file is looked at."""
    clock = Time()
    with large_roots(), filled(tmp_path, 5, clock) as store:
        expected = store.sessions(limit=3, owner=ANY_OWNER)
        select = index._Rows.select

        def failing(self: index._Rows, statement: str, *rest: Any) -> Any:
            return None if "LIMIT" in statement else select(self, statement, *rest)

        monkeypatch.setattr(index._Rows, "select", failing)
        assert store.sessions(limit=3, owner=ANY_OWNER) == expected


def test_possible_copies_are_found_by_their_origin(tmp_path: Path) -> None:
    """Neither sessions of other origins nor files are looked through for them."""
    with JsonlStore(tmp_path, disk=QuickDisk()) as store:
        store.create(SessionKey("main", "copy"), parent_session="main/origin")
        store.sessions(owner=ANY_OWNER)
    query = index.PageQuery(None, ANY_OWNER, None, None, None, parents=["main/origin"])
    [(statement, values)] = query.statements
    with closing(sqlite3.connect(tmp_path / "index.sqlite3")) as db:
        plan = db.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
        found = [index.row_of(row)[0] for row in db.execute(statement, values)]
    assert found == [SessionKey("main", "copy")]
    assert [row[3] for row in plan if row[3].startswith("SCAN s")] == []
