"""The listing: always what the logs say, whatever happened to them or to the index."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.stores.opens import logs_opened, watched
from tests.support.runs import examples

from holdfast.core.log.ids import Named, SessionKey, resolve
from holdfast.core.log.records import (
    MESSAGES,
    Assistant,
    Header,
    Label,
    ModelChange,
    Rewind,
    ToolResult,
    User,
)
from holdfast.core.owners import ANY_OWNER, UNKNOWN_OWNER, owner_of
from holdfast.errors import AmbiguousName, ForeignLog, NoSuchSession, StoreError
from holdfast.ports import ANY_HEAD, SessionInfo
from holdfast.stores.changes import Changes
from holdfast.stores.files import Disk
from holdfast.stores.jsonl import index
from holdfast.stores.jsonl.folders import SeedLabels
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.owners import FoundOwner

KEY = SessionKey("main", "work")
COUNTED = ("nul", "utf-8", "garbage", "shape", "oversize", "late-header")
"""Damage that is seen while counting; the rest takes a closer look."""


class QuickDisk(Disk):
    """Does not wait for the medium: these tests lose no power."""

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, fd: int) -> None:
        pass


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JsonlStore]:
    with JsonlStore(tmp_path, disk=QuickDisk()) as opened:
        yield opened


def log_of(root: Path | str, key: SessionKey = KEY) -> Path:
    return Path(root) / "agents" / key.agent / "sessions" / f"{key.session}.jsonl"


def scanned(store: JsonlStore, key: SessionKey) -> SessionInfo:
    """The facts about one session from every line of its log, without any index."""
    records = [entry.record for entry in store.read_all(key) if entry.standing != "open"]
    kinds = Counter(record.kind for record in records)
    header = records[0] if records and isinstance(records[0], Header) else Header()
    labels = [one.label for one in records if isinstance(one, Label) and one.target is None]
    texts = (str(one.content) for one in records if isinstance(one, User))
    times = [record.ts for record in records if record.ts]
    path = log_of(store.root, key)
    return SessionInfo(
        key=key,
        label=labels[-1] if labels else header.label,
        title=next((" ".join(text.split()) for text in texts if text.strip()), ""),
        created=times[0] if times else 0.0,
        last_active=max(times) if times else path.stat().st_mtime,
        records=len(records),
        messages=sum(kinds[kind] for kind in MESSAGES),
        bytes=path.stat().st_size,
        head=store.head(key),
        damaged=sum(finding.kind in COUNTED for finding in store.verify(key).findings),
        parent_session=header.parent_session,
        reason=header.reason,
        owner=stated_owner(store, key),
    )


def stated_owner(store: JsonlStore, key: SessionKey) -> FoundOwner:
    """Whose session it is, as whoever opens it finds out."""
    try:
        return owner_of(store.header(key).owner)
    except StoreError:
        return UNKNOWN_OWNER


def all_scanned(store: JsonlStore) -> list[SessionInfo]:
    keys = [
        SessionKey(path.parts[-3], path.stem)
        for path in Path(store.root).glob("agents/*/sessions/*.jsonl")
    ]
    infos = [scanned(store, key) for key in keys]
    return sorted(infos, key=lambda info: (-info.last_active, info.key))


def filled(store: JsonlStore, count: int = 3) -> None:
    """Some sessions with something in them."""
    for number in range(count):
        key = SessionKey(f"agent-{number % 2}", f"session-{number}")
        store.create(key, label=f"label {number}")
        store.append(key, [User(content=f"question {number}")], expect=ANY_HEAD)


def opens_no_log(store: JsonlStore) -> bool:
    """Whether a listing answers from the index alone."""
    with watched() as seen:
        store.sessions(owner=ANY_OWNER)
    return logs_opened(seen) == []


# What a listing says


def test_listing_has_the_small_facts(store: JsonlStore, tmp_path: Path) -> None:
    """Label, title, times, counts, size, head and origin are those of the log."""
    store.create(KEY, label="First label")
    store.append(
        KEY,
        [
            ModelChange(model="m", ts=5.0),
            User(content="  What is\n\n the   answer? " + "x" * 200, ts=10.0),
            Assistant(
                content=[{"type": "tool_use", "id": "t1", "name": "f", "input": {}}], ts=11.0
            ),
            ToolResult(tool_use_id="t1", content="42", ts=99_999_999_999.5),
            User(content="another question", ts=12.0),
        ],
        expect=ANY_HEAD,
    )
    done = store.append(KEY, [Label(label="Renamed", ts=13.0)], expect=ANY_HEAD)
    with log_of(tmp_path).open("ab") as file:
        file.write(b"garbage\n\xff\n")
    [info] = store.sessions(owner=ANY_OWNER)
    assert info.label == "Renamed"
    assert info.title.startswith("What is the answer? xxx")
    assert len(info.title) == 80
    assert info.title.endswith("…")
    assert (info.records, info.messages, info.damaged) == (7, 4, 2)
    assert info.created == next(store.read(KEY)).ts
    assert info.last_active == 99_999_999_999.5
    assert info.bytes == log_of(tmp_path).stat().st_size
    assert info.head == done.head == store.head(KEY)
    assert info.parent_session is None


def test_listing_knows_where_a_fork_came_from(store: JsonlStore) -> None:
    """A fork names its parent session and has a label of its own."""
    store.create(KEY, label="origin")
    store.append(KEY, [User(content="hello")], expect=ANY_HEAD)
    copy = SessionKey("main", "copy")
    store.fork(KEY, copy, at=None)
    facts = {
        info.key: (info.parent_session, info.label) for info in store.sessions(owner=ANY_OWNER)
    }
    assert facts == {KEY: (None, "origin"), copy: ("main/work", "origin (fork)")}


def test_listing_label_of_a_record_is_not_the_sessions(store: JsonlStore) -> None:
    """A label with a target names that record; an empty one without takes the name away."""
    store.create(KEY, label="name")
    done = store.append(KEY, [User(content="x")], expect=ANY_HEAD)
    store.append(KEY, [Label(label="marked", target=done.head)], expect=ANY_HEAD)
    assert [info.label for info in store.sessions(owner=ANY_OWNER)] == ["name"]
    store.append(KEY, [Label(label="")], expect=ANY_HEAD)
    assert [info.label for info in store.sessions(owner=ANY_OWNER)] == [""]


def test_listing_is_newest_first_and_by_agent(store: JsonlStore) -> None:
    """The most recently active session comes first; one agent's sessions can be asked for."""
    for number, agent in enumerate(["a", "b", "a"]):
        key = SessionKey(agent, f"s{number}")
        store.create(key)
        store.append(key, [User(content="x", ts=4_000_000_000.0 + number)], expect=ANY_HEAD)
    assert [info.key.session for info in store.sessions(owner=ANY_OWNER)] == ["s2", "s1", "s0"]
    assert [info.key.session for info in store.sessions(agent="a", owner=ANY_OWNER)] == ["s2", "s0"]
    assert store.sessions(agent="nobody", owner=ANY_OWNER) == []
    assert opens_no_log(store)


def test_listing_of_a_log_without_times_uses_the_files(tmp_path: Path, store: JsonlStore) -> None:
    """Where no record says when it was written, the file does."""
    log_of(tmp_path).parent.mkdir(parents=True)
    log_of(tmp_path).write_text('{"type":"user","content":"hello"}\n')
    os.utime(log_of(tmp_path), (1_234_567.0, 1_234_567.0))
    [info] = store.sessions(owner=ANY_OWNER)
    assert (info.created, info.last_active, info.head) == (0.0, 1_234_567.0, "@0")


# Names


@pytest.fixture
def named(store: JsonlStore) -> Callable[[str], SessionKey]:
    """Resolve a name against a listing of a few sessions."""
    for agent, session, label in (
        ("main", "0a1b2c", "Release notes"),
        ("main", "0a1fff", "Research"),
        ("main", "work", "release"),
        ("other", "77aa", ""),
        ("other", "work", "0a1b2c"),
    ):
        store.create(SessionKey(agent, session), label=label)
    return lambda name: resolve(
        name, [Named(one.key, one.label) for one in store.sessions(owner=ANY_OWNER)]
    )


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("0a1fff", "main/0a1fff"),
        ("0a1f", "main/0a1fff"),
        ("77", "other/77aa"),
        ("other/7", "other/77aa"),
        ("main/work", "main/work"),
        ("Release notes", "main/0a1b2c"),
        ("Rel", "main/0a1b2c"),
        ("release", "main/work"),
        ("Rese", "main/0a1fff"),
        ("rese", "main/0a1fff"),
        ("0a1b2c", "main/0a1b2c"),
        ("0a1…2c", "main/0a1b2c"),  # as a list shows a long one
        ("main/0a1…ff", "main/0a1fff"),
    ],
)
def test_names_resolve_by_id_label_and_unique_prefix(
    named: Callable[[str], SessionKey], name: str, key: str
) -> None:
    """The exact beats the prefix, the id beats the label, and case only helps at the end."""
    assert str(named(name)) == key


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("0a1", ["main/0a1b2c", "main/0a1fff", "other/work"]),
        ("work", ["main/work", "other/work"]),
        ("Re", ["main/0a1b2c", "main/0a1fff"]),
        ("main/", ["main/0a1b2c", "main/0a1fff", "main/work"]),
    ],
)
def test_names_that_fit_several_sessions_name_them_all(
    named: Callable[[str], SessionKey], name: str, candidates: list[str]
) -> None:
    """Ambiguity is an error that lists every candidate."""
    with pytest.raises(AmbiguousName) as ambiguous:
        named(name)
    assert sorted(one.split(" ")[0] for one in ambiguous.value.candidates) == candidates


@pytest.mark.parametrize(("name", "nearest"), [("Reserch", "Research"), ("wrok", "work")])
def test_names_that_fit_nothing_suggest_the_nearest(
    named: Callable[[str], SessionKey], name: str, nearest: str
) -> None:
    """A name that is only nearly right gets the nearest one as a hint."""
    with pytest.raises(NoSuchSession) as missing:
        named(name)
    assert missing.value.hint is not None
    assert f"`{nearest}`" in missing.value.hint


# Whatever happens to the logs


class Chaos:
    """A store, and another program that does things to its files."""

    def __init__(self, root: Path) -> None:
        self.store = JsonlStore(root, disk=QuickDisk())
        self.count = 0

    def logs(self) -> list[Path]:
        return sorted(Path(self.store.root).glob("agents/*/sessions/*.jsonl"))

    def pick(self, number: int) -> tuple[SessionKey, Path] | None:
        logs = self.logs()
        if not logs:
            return None
        path = logs[number % len(logs)]
        return SessionKey(path.parts[-3], path.stem), path

    def run(self, act: str, number: int) -> None:
        self.count += 1
        if act == "create":
            key = SessionKey(f"agent-{number % 2}", f"session-{self.count}")
            self.store.create(key, label=f"label {number}")
        elif picked := self.pick(number):
            key, path = picked
            before = path.stat()
            with suppress(ForeignLog):  # an edit can make a header another tool's
                getattr(self, act)(key, path, number)
            _let_the_clock_move_on(path, before)

    # Ours

    def append(self, key: SessionKey, _path: Path, number: int) -> None:
        self.store.append(key, [User(content=f"text {number}")], expect=ANY_HEAD)

    def batch(self, key: SessionKey, _path: Path, number: int) -> None:
        label = Label(label=f"batch {number}")
        self.store.append(
            key, [User(content="one"), Assistant(content="two"), label], expect=ANY_HEAD
        )

    def rewind(self, key: SessionKey, _path: Path, number: int) -> None:
        ids = [one.record.id for one in self.store.read_all(key) if one.standing != "open"]
        if ids and Counter(ids)[ids[number % len(ids)]] == 1:
            self.store.append(key, [Rewind(to=ids[number % len(ids)])], expect=ANY_HEAD)

    def remove(self, key: SessionKey, _path: Path, _number: int) -> None:
        self.store.remove(key)

    # Another program's

    def edit(self, _key: SessionKey, path: Path, number: int) -> None:
        """Change a byte in place: the size stays."""
        if path.stat().st_size:
            with path.open("r+b") as file:
                file.seek(number % path.stat().st_size)
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(b"Z" if byte not in b"Z\n" else byte)

    def grow(self, _key: SessionKey, path: Path, number: int) -> None:
        line = {"type": ("user", "custom", "session")[number % 3], "content": f"grown {number}"}
        with path.open("ab") as file:
            file.write(json.dumps({**line, "ts": 1e9 + number}).encode() + b"\n")

    def spoil(self, _key: SessionKey, path: Path, number: int) -> None:
        ends = (b"garbage\n", b'{"type":"user","content":"torn', b"\x00\x00\n", b"\n\n", b"\xff\n")
        with path.open("ab") as file:
            file.write(ends[number % len(ends)])

    def open_batch(self, _key: SessionKey, path: Path, number: int) -> None:
        with path.open("ab") as file:
            line = {"type": "user", "content": "half", "id": f"half-{self.count}", "more": 2}
            file.write(json.dumps(line).encode() + b"\n")

    def truncate(self, _key: SessionKey, path: Path, number: int) -> None:
        os.truncate(path, number % (path.stat().st_size + 1))

    def replace(self, _key: SessionKey, path: Path, number: int) -> None:
        new = path.with_name("new")
        new.write_text(f'{{"type":"user","content":"replaced {number}","ts":{1e9 + number}}}\n')
        new.replace(path)

    def copy(self, _key: SessionKey, path: Path, number: int) -> None:
        shutil.copyfile(path, path.with_name(f"copy-{self.count}.jsonl"))

    def delete(self, _key: SessionKey, path: Path, _number: int) -> None:
        path.unlink()

    def forget(self, _key: SessionKey, _path: Path, _number: int) -> None:
        """Lose the index."""
        Path(self.store.root, "index.sqlite3").unlink(missing_ok=True)


def _let_the_clock_move_on(path: Path, before: os.stat_result) -> None:
    """An edit is seen by the file's times. Where their clock is coarse, wait for its next tick."""
    while path.exists() and path.stat().st_ctime_ns == before.st_ctime_ns:
        os.utime(path)


ACTS = st.sampled_from(
    [
        *("create", "append", "batch", "rewind", "remove", "edit", "grow", "spoil"),
        *("open_batch", "truncate", "replace", "copy", "delete", "forget"),
    ]
)
SCRIPTS = st.lists(st.tuples(ACTS, st.integers(0, 5_000), st.booleans()), max_size=14)


@given(script=SCRIPTS)
@example(script=[("append", 1, True), ("edit", 60, True), ("edit", 61, True)])
@examples(150)
def test_listing_equals_a_scan_whatever_is_done_to_the_logs(
    script: list[tuple[str, int, bool]],
) -> None:
    """After any mix of appends, removals and outside changes, listed or not in between."""
    with tempfile.TemporaryDirectory() as folder:
        chaos = Chaos(Path(folder))
        with chaos.store as store:
            chaos.run("create", 0)
            for act, number, is_listed in script:
                chaos.run(act, number)
                if is_listed:
                    assert store.sessions(owner=ANY_OWNER) == all_scanned(store)
            assert store.sessions(owner=ANY_OWNER) == all_scanned(store)
            assert store.sessions(owner=ANY_OWNER) == all_scanned(store)


@given(script=SCRIPTS)
@examples(150)
def test_listing_equals_a_scan_when_only_what_was_added_is_read(
    script: list[tuple[str, int, bool]],
) -> None:
    """Large logs are read from where they grew: the facts are the same as from the whole."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "_GROWN_BYTES_MIN", 1)
        patch.setattr(index, "_FINGERPRINT_BYTES", 64)
        chaos = Chaos(Path(folder))
        with chaos.store as store:
            chaos.run("create", 0)
            for act, number, is_listed in script:
                # A byte changed in place is seen unless the log grew between the same listings.
                if act == "edit":
                    store.sessions(owner=ANY_OWNER)
                chaos.run(act, number)
                if is_listed or act == "edit":
                    assert store.sessions(owner=ANY_OWNER) == all_scanned(store)
            assert store.sessions(owner=ANY_OWNER) == all_scanned(store)


def test_listing_reads_only_what_was_added_to_a_large_log(
    store: JsonlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that only grew is not read again from its beginning."""
    monkeypatch.setattr(index, "_GROWN_BYTES_MIN", 1_000)
    store.create(KEY)
    for number in range(50):
        store.append(KEY, [User(content=f"number {number} " + "x" * 1_000)], expect=ANY_HEAD)
    [before] = store.sessions(owner=ANY_OWNER)
    # Its beginning is gone, in place; only a full reading would notice.
    with log_of(tmp_path).open("r+b") as file:
        file.seek(200)
        file.write(b"\xff" * 2_000)
    store.append(KEY, [User(content="more")], expect=ANY_HEAD)
    [after] = store.sessions(owner=ANY_OWNER)
    assert (after.records, after.damaged) == (before.records + 1, 0)
    # Without growth the same log is read whole, and the damage is seen.
    os.utime(log_of(tmp_path))
    [whole] = store.sessions(owner=ANY_OWNER)
    assert whole.damaged > 0


def test_listing_sees_an_edit_that_hides_its_time(store: JsonlStore, tmp_path: Path) -> None:
    """Size and time of modification set back as they were: the change is noticed all the same."""
    store.create(KEY, label="before")
    assert [info.label for info in store.sessions(owner=ANY_OWNER)] == ["before"]
    path = log_of(tmp_path)
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(b"before", b"edited"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    while path.stat().st_ctime_ns == status.st_ctime_ns:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    assert [info.label for info in store.sessions(owner=ANY_OWNER)] == ["edited"]


def test_listing_leaves_out_a_session_that_goes_while_it_is_made(
    store: JsonlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session removed between looking at the folder and reading the log is not listed."""
    filled(store, 2)
    keys = [info.key for info in store.sessions(owner=ANY_OWNER)]
    files = list(store._folders.sessions())
    with closing(
        index.Index(
            str(tmp_path / "other.sqlite3"), Changes(str(tmp_path)), SeedLabels(str(tmp_path))
        )
    ) as other:
        store.remove(keys[0])
        logs = [index.LogFile(key, status, store._open) for key, status in files]
        monkeypatch.setattr(store._files, "all", lambda: logs)
        assert [info.key for info in other.infos(store._files)] == [keys[1]]


# Opening no log


def test_listing_of_a_thousand_sessions_opens_no_log(store: JsonlStore, tmp_path: Path) -> None:
    """Nothing changed: not one log is opened. Something did: just that one."""
    for number in range(1_000):
        store.create(SessionKey(f"agent-{number % 7}", f"session-{number}"))
    with watched() as seen:
        first = store.sessions(owner=ANY_OWNER)
    assert len(logs_opened(seen)) == len(first) == 1_000
    with watched() as seen:
        assert store.sessions(owner=ANY_OWNER) == first
    assert logs_opened(seen) == []
    assert any(touch.event == "os.scandir" for touch in seen)  # the watch itself works
    with JsonlStore(tmp_path) as fresh, watched() as seen:
        assert fresh.sessions(owner=ANY_OWNER) == first
    assert logs_opened(seen) == []
    store.append(SessionKey("agent-3", "session-3"), [User(content="x")], expect=ANY_HEAD)
    with watched() as seen:
        store.sessions(owner=ANY_OWNER)
    assert logs_opened(seen) == ["session-3.jsonl"]


# Whatever happens to the index


def _missing(path: Path) -> None:
    path.unlink()


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _cut_at(size: int) -> Callable[[Path], None]:
    def cut(path: Path) -> None:
        os.truncate(path, size)

    cut.__name__ = f"_cut_at_{size}"
    return cut


def _garbage(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(20_000))


def _garbage_with_the_right_start(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\x00" + random.Random(2).randbytes(20_000))


def _garbage_pages(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4096] + random.Random(3).randbytes(len(data) - 4096))


def _sql(*statements: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        connection = sqlite3.connect(path)
        try:
            with connection:
                for statement in statements:
                    connection.execute(statement)
        finally:
            connection.close()

    run.__name__ = "_sql_" + statements[-1].split(" (")[0].replace(" ", "_")
    return run


WRONGED: list[Callable[[Path], None]] = [
    *(_missing, _empty, _cut_at(1), _cut_at(100), _cut_at(4_096), _cut_at(6_000)),
    *(_garbage, _garbage_with_the_right_start, _garbage_pages),
    _sql("DROP TABLE sessions"),
    _sql("DROP TABLE sessions", "CREATE TABLE sessions (agent TEXT, session TEXT)"),
    _sql("ALTER TABLE sessions ADD COLUMN more TEXT NOT NULL DEFAULT ''"),
    _sql("ALTER TABLE sessions DROP COLUMN mtime_ns"),
    _sql("DROP TABLE sessions", "CREATE VIEW sessions AS SELECT 1 AS agent"),
    _sql("PRAGMA user_version = 99"),
    _sql("PRAGMA user_version = 0"),
    _sql("DROP TABLE sessions", "CREATE TABLE sessions (x)", "PRAGMA user_version = 7"),
    _sql("DELETE FROM sessions"),
    _sql("UPDATE sessions SET size = size + 1"),
    _sql("UPDATE sessions SET active = 'yesterday'"),
    _sql("UPDATE sessions SET data = x'ff00'"),
    _sql("UPDATE sessions SET data = CAST(x'ff00' AS TEXT)"),
    _sql("UPDATE sessions SET data = zeroblob(200)"),
    _sql("UPDATE sessions SET data = 'text', inode = 'text'"),
    _sql("UPDATE keys SET key = zeroblob(16)"),
    _sql("DELETE FROM keys"),
    _sql(
        "INSERT INTO sessions SELECT x'00', inode, size, mtime_ns, ctime_ns, active, agent, owner, "
        "label, parent, is_labelled, version, key, data FROM sessions LIMIT 1"
    ),
]


@pytest.mark.sampled(1 / 2, "is_open")
@pytest.mark.parametrize("wrong", WRONGED, ids=lambda wrong: wrong.__name__)
@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
def test_index_that_was_wronged_is_made_anew(
    tmp_path: Path, wrong: Callable[[Path], None], is_open: bool
) -> None:
    """However the index was damaged, while it was open or not: the listing is right, and so is
    the next one, which opens no log again."""
    with JsonlStore(tmp_path, disk=QuickDisk()) as store:
        filled(store, 40)
        expected = store.sessions(owner=ANY_OWNER)
        if not is_open:
            store.close()
        wrong(tmp_path / "index.sqlite3")
        assert store.sessions(owner=ANY_OWNER) == expected
        assert store.sessions(owner=ANY_OWNER) == expected
    with JsonlStore(tmp_path) as fresh:
        assert fresh.sessions(owner=ANY_OWNER) == expected
        assert opens_no_log(fresh)


@pytest.mark.parametrize("wrong", [_garbage, _garbage_with_the_right_start, _garbage_pages])
def test_index_that_is_corrupt_is_kept_aside(tmp_path: Path, wrong: Callable[[Path], None]) -> None:
    """The bytes of a corrupt index stay for whoever wants to know what happened."""
    path = tmp_path / "index.sqlite3"
    with JsonlStore(tmp_path, disk=QuickDisk()) as store:
        filled(store, 40)
        store.sessions(owner=ANY_OWNER)
    wrong(path)
    corrupt = path.read_bytes()
    with JsonlStore(tmp_path) as store:
        store.sessions(owner=ANY_OWNER)
    assert (tmp_path / "index.sqlite3.corrupt").read_bytes() == corrupt
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    finally:
        connection.close()


@given(data=st.binary(max_size=300), position=st.integers(0, 20_000), is_open=st.booleans())
@examples(60)
def test_index_with_any_bytes_anywhere_never_breaks_a_listing(
    data: bytes, position: int, is_open: bool
) -> None:
    """Random bytes over any part of the file: no exception, and the sessions are all there."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "index.sqlite3")
        with JsonlStore(folder, disk=QuickDisk()) as store:
            filled(store, 30)
            keys = sorted(info.key for info in store.sessions(owner=ANY_OWNER))
            if not is_open:
                store.close()
            with path.open("r+b") as file:
                file.seek(position % path.stat().st_size)
                file.write(data)
            assert sorted(info.key for info in store.sessions(owner=ANY_OWNER)) == keys
            assert sorted(info.key for info in store.sessions(owner=ANY_OWNER)) == keys


def test_index_that_others_hold_locked_is_done_without(store: JsonlStore, tmp_path: Path) -> None:
    """While another program blocks the index, the logs are asked."""
    filled(store)
    expected = store.sessions(owner=ANY_OWNER)
    store.append(expected[0].key, [User(content="more")], expect=ANY_HEAD)
    blocker = sqlite3.connect(tmp_path / "index.sqlite3", isolation_level=None)
    try:
        blocker.execute("BEGIN EXCLUSIVE")
        assert store.sessions(owner=ANY_OWNER) == all_scanned(store)
    finally:
        blocker.close()
    assert store.sessions(owner=ANY_OWNER) == all_scanned(store)
    assert opens_no_log(store)


def test_index_is_not_trusted_with_a_session_made_anew(store: JsonlStore) -> None:
    """A session removed and made again under the same id is not mistaken for the old one."""
    store.create(KEY, label="old")
    store.append(KEY, [User(content="old")], expect=ANY_HEAD)
    store.sessions(owner=ANY_OWNER)
    store.remove(KEY)
    store.create(KEY, label="new")
    assert store.sessions(owner=ANY_OWNER) == all_scanned(store)
    assert [info.label for info in store.sessions(owner=ANY_OWNER)] == ["new"]
    store.remove(KEY)
    assert store.sessions(owner=ANY_OWNER) == []


def test_index_of_one_agents_listing_keeps_the_others(store: JsonlStore) -> None:
    """Asking for one agent forgets nothing about the rest."""
    filled(store, 6)
    expected = store.sessions(owner=ANY_OWNER)
    assert len(store.sessions(agent="agent-0", owner=ANY_OWNER)) == 3
    assert opens_no_log(store)
    assert store.sessions(owner=ANY_OWNER) == expected


# Several at once

BUSY = """
import sys
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.core.owners import ANY_OWNER
from holdfast.stores.jsonl.folders import SeedLabels
from holdfast.stores.jsonl.store import JsonlStore
key = SessionKey("main", sys.argv[2])
with JsonlStore(sys.argv[1]) as store:
    store.create(key)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(60):
        head = store.append(key, [User(content=f"{number}")], expect=None).head
        mine = [info for info in store.sessions(owner=ANY_OWNER) if info.key == key]
        assert [(info.head, info.records) for info in mine] == [(head, number + 2)], mine
print("done")
"""


def test_listing_is_right_while_two_processes_append_and_list(
    store: JsonlStore, tmp_path: Path
) -> None:
    """Each sees its own appends in every listing; nobody gets an error; all agree in the end."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", BUSY, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("left", "right")
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    while any(writer.poll() is None for writer in writers):
        assert {info.key.session for info in store.sessions(owner=ANY_OWNER)} == {"left", "right"}
        if all(info.records == 61 for info in store.sessions(owner=ANY_OWNER)):
            break
    outputs = [writer.communicate() for writer in writers]
    assert [(out, err) for out, err in outputs] == [("done\n", "")] * 2
    assert store.sessions(owner=ANY_OWNER) == all_scanned(store)
    assert [info.records for info in store.sessions(owner=ANY_OWNER)] == [61, 61]


def test_listing_is_right_from_many_threads(store: JsonlStore) -> None:
    """One store, listed and appended to from four threads, gives no errors and right facts."""
    filled(store, 4)
    keys = [info.key for info in store.sessions(owner=ANY_OWNER)]
    faults: list[BaseException] = []

    def work(key: SessionKey) -> None:
        try:
            for number in range(25):
                head = store.append(key, [User(content=f"{number}")], expect=ANY_HEAD).head
                assert head in [info.head for info in store.sessions(owner=ANY_OWNER)]
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert store.sessions(owner=ANY_OWNER) == all_scanned(store)


FORK = """
import os, sys
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.core.owners import ANY_OWNER
from holdfast.stores.jsonl.folders import SeedLabels
from holdfast.stores.jsonl.store import JsonlStore
key = SessionKey("main", "work")
store = JsonlStore(sys.argv[1])
store.create(key)
store.sessions(owner=ANY_OWNER)
child = os.fork()
for number in range(20):
    store.append(key, [User(content="x")], expect=None)
    store.sessions(owner=ANY_OWNER)
store.close()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
with JsonlStore(sys.argv[1]) as fresh:
    assert [info.records for info in fresh.sessions(owner=ANY_OWNER)] == [41]
print("done")
"""


def test_listing_goes_on_in_a_forked_child(tmp_path: Path) -> None:
    """Parent and child both go on listing and appending with the store they share."""
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_listing_facts_are_plain_values(store: JsonlStore) -> None:
    """What a listing gives can be shown as JSON as it is."""
    filled(store)
    for info in store.sessions(owner=ANY_OWNER):
        assert json.loads(msgspec.json.encode(info))["key"]["session"] == info.key.session
