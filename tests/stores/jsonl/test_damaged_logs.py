"""One test for each way a log has been seen to break: what is lost, what is kept, what is said."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from holdfast import Assistant, JsonlStore, SessionKey, ToolResult, User
from holdfast.core.owners import ANY_OWNER
from holdfast.errors import (
    BadRecord,
    ForeignLog,
    LogConflict,
    NoSuchRecord,
    NoSuchSession,
    PathRejected,
)
from holdfast.records import Compaction, Header, Label, Rewind, Unknown
from holdfast.stores import ANY_HEAD
from holdfast.stores.files import Disk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast import Record

KEY = SessionKey("main", "hurt")
OTHER = SessionKey("main", "other")


def log_file(root: str | Path, key: SessionKey = KEY) -> Path:
    return Path(root) / "agents" / key.agent / "sessions" / f"{key.session}.jsonl"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JsonlStore]:
    """A session with the messages 0 to 9, each an append of its own."""
    with JsonlStore(tmp_path) as opened:
        opened.create(KEY, label="work")
        opened.append_each(KEY, [User(content=f"{number}") for number in range(10)])
        yield opened


def texts(records: Iterable[Record]) -> list[str]:
    return [str(record.content) for record in records if isinstance(record, User)]


def everything(store: JsonlStore, key: SessionKey = KEY) -> list[str]:
    """The messages that every way to read agrees on, for a log without boundaries."""
    records = list(store.read(key))
    assert store.last(key, 10_000) == records
    assert list(store.live(key).records) == records
    assert [entry.record for entry in store.read_all(key) if entry.standing == "path"] == records
    return texts(records)


def kinds(store: JsonlStore, key: SessionKey = KEY) -> list[str]:
    return [finding.kind for finding in store.verify(key).findings]


def lines_of(store: JsonlStore) -> list[bytes]:
    return log_file(store.root).read_bytes().splitlines(keepends=True)


def say(store: JsonlStore, text: str) -> None:
    """Append, and check that it arrived and that nothing before it changed."""
    before, data = everything(store), log_file(store.root).read_bytes()
    store.append(KEY, [User(content=text)], expect=store.head(KEY))
    assert everything(store) == [*before, text]
    assert log_file(store.root).read_bytes().startswith(data)


NUMBERS = [str(number) for number in range(10)]


# Ends


@pytest.mark.parametrize("length", [1, 2, 40, 60])
def test_torn_record_is_sealed_and_reported_once(length: int, store: JsonlStore) -> None:
    """What follows a torn record is readable; the torn bytes stay where they are, reported."""
    data = log_file(store.root).read_bytes()
    torn = lines_of(store)[-1][:length]
    log_file(store.root).write_bytes(data + torn)
    assert kinds(store) == ["torn"]
    done = store.append(KEY, [User(content="two")], expect=store.head(KEY))
    assert done.sealed is not None
    assert (done.sealed.kind, done.sealed.position, done.sealed.size) == ("torn", len(data), length)
    assert everything(store) == [*NUMBERS, "two"]
    (finding,) = store.verify(KEY).findings
    assert (finding.kind, finding.position) == ("torn", len(data))
    assert torn in log_file(store.root).read_bytes()
    assert store.append(KEY, [User(content="three")], expect=ANY_HEAD).sealed is None


def test_last_line_without_newline_is_whole(store: JsonlStore) -> None:
    """A record that lacks only its newline counts, and the next one is not fused with it."""
    log_file(store.root).write_bytes(log_file(store.root).read_bytes().rstrip(b"\n"))
    assert everything(store) == NUMBERS
    say(store, "next")
    assert kinds(store) == []


def test_nul_tail_is_sealed(store: JsonlStore) -> None:
    """NUL bytes after the last record, as a file system leaves them, are a torn end."""
    with log_file(store.root).open("ab") as file:
        file.write(b"\0" * 4_096)
    (finding,) = store.verify(KEY).findings
    assert (finding.kind, finding.size) == ("torn", 4_096)
    assert everything(store) == NUMBERS
    say(store, "next")
    assert kinds(store) == ["torn"]


def test_rewind_to_an_append_that_never_completed_is_refused(store: JsonlStore) -> None:
    """A record of an open batch was never acknowledged: nothing can be made to follow it."""
    done = store.append(KEY, [User(content="a"), User(content="b")], expect=ANY_HEAD)
    lines = lines_of(store)
    log_file(store.root).write_bytes(b"".join(lines[:-1]))
    assert kinds(store) == ["open-batch"]
    for record in (Rewind(to=done.ids[0]), User(content="c", parent=done.ids[0])):
        with pytest.raises(NoSuchRecord):
            store.append(KEY, [record], expect=ANY_HEAD)
    say(store, "next")
    assert kinds(store) == ["open-batch"]


# The middle


def test_nul_block_in_the_middle_costs_only_what_it_covers(store: JsonlStore) -> None:
    """After 9 KB of zeros in the middle, all other records are read and follow each other."""
    big = [User(content=f"big {number} {'x' * 1_000}") for number in range(20)]
    store.append_each(KEY, big)
    data = bytearray(log_file(store.root).read_bytes())
    start = data.index(b"big 5 ") + 100
    data[start : start + 9_000] = bytes(9_000)
    log_file(store.root).write_bytes(data)
    found = everything(store)
    kept = [record.content for record in big[:5] + big[14:]]
    assert found == [*NUMBERS, *kept]
    (finding,) = store.verify(KEY).findings
    assert finding.kind == "nul"
    assert finding.size > 9_000
    assert "9000 NUL" in finding.detail
    assert len(store.branches(KEY)) == 1
    say(store, "next")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"", []),
        (b"\n", []),
        (b"   \t", []),
        (b"\r", []),
        (b"what is this?", ["garbage"]),
        (b'{"type":"user","content":"cut', ["garbage"]),
        (b'{"type":"user","content":"a"}{"type":"user","content":"b"}', ["garbage"]),
        (b"[" * 50_000, ["garbage"]),
        (b"\xff\xfe\x00\x01", ["nul"]),
        (b'{"type":"user","content":"\xff"}', ["utf-8"]),
        (b"\xef\xbb\xbf", ["garbage"]),
        (b"\0" * 17, ["nul"]),
        (b"null", ["shape"]),
        (b"42", ["shape"]),
        (b'"text"', ["shape"]),
        (b'["user"]', ["shape"]),
        (b"{}", ["shape"]),
        (b'{"type":""}', ["shape"]),
        (b'{"type":7,"content":"x"}', ["shape"]),
        (b'{"type":"user"}', ["shape"]),
        (b'{"type":"user","content":7}', ["shape"]),
        (b'{"type":"user","content":"x","ts":"noon"}', ["shape"]),
        (b'{"type":"user","content":"x","id":12}', ["shape"]),
        (b'{"type":"compaction","summary":["x"]}', ["shape"]),
        (b'{"type":"user","content":"x","more":1}', ["open-batch"]),
        (b"\x18", []),
        (b"half a line\x18", ["torn"]),
    ],
)
def test_damaged_line_is_isolated(line: bytes, found: list[str], store: JsonlStore) -> None:
    """A line that is not a record is reported with its place; the records around it are there."""
    lines = lines_of(store)
    before = b"".join(lines[:5])
    log_file(store.root).write_bytes(before + line + b"\n" + b"".join(lines[5:]))
    assert everything(store) == NUMBERS
    findings = store.verify(KEY).findings
    assert [finding.kind for finding in findings] == found
    assert all((one.position, one.size) == (len(before), len(line)) for one in findings)
    assert all(finding.meaning and finding.detail for finding in findings)
    assert len(store.branches(KEY)) == 1
    say(store, "next")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"type":"telepathy","strength":3}', Unknown(type="telepathy", extra={"strength": 3})),
        (b'{"type":"user","content":"x","mood":{}}', User(content="x", extra={"mood": {}})),
        (b' \t{"type" : "user", "content":"x" }\r', User(content="x")),
        (b'{"type":"user","content":null}', User(content=None)),
    ],
)
def test_strange_line_is_a_record_all_the_same(
    line: bytes, expected: Record, store: JsonlStore
) -> None:
    """Unknown types, unknown fields, blanks and missing ids are no damage."""
    lines = lines_of(store)
    position = len(b"".join(lines[:5]))
    log_file(store.root).write_bytes(b"".join([*lines[:5], line + b"\n", *lines[5:]]))
    record = store.find(KEY, f"@{position}")
    assert record == msgspec.structs.replace(expected, id=record.id)
    assert record in list(store.read(KEY))
    assert kinds(store) == []
    say(store, "next")


def test_crlf_and_bom_are_read(store: JsonlStore) -> None:
    """A log that went through a Windows editor is the same log."""
    data = log_file(store.root).read_bytes()
    log_file(store.root).write_bytes(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n\r\n"))
    assert everything(store) == NUMBERS
    assert kinds(store) == []
    header = next(iter(store.read(KEY)))
    assert isinstance(header, Header)
    assert header.label == "work"
    say(store, "next")


def test_foreign_text_is_mended_when_read(store: JsonlStore) -> None:
    """Lone surrogates and NaN of other writers become U+FFFD and null, noted and not damage."""
    with log_file(store.root).open("ab") as file:
        file.write(b'{"type":"user","content":"a\\ud800b","id":"odd","cost":NaN}\n')
    record = store.find(KEY, "odd")
    assert record == User(content="a\ufffdb", id="odd", extra={"cost": None})
    report = store.verify(KEY)
    assert [finding.kind for finding in report.findings] == ["repaired-text"]
    assert report.is_sound
    say(store, "next")


def test_any_text_survives_the_file(store: JsonlStore) -> None:
    """Line separators, NUL, controls, emoji and lone surrogates are stored on one line each."""
    said = ["\u2028\u2029\x85\x0b\x0c", "\0\x18\x7f", "🏴‍☠️ e\u0301", "\ud83c\udff4", "\udead"]
    store.append_each(KEY, [User(content=text) for text in said])
    assert everything(store)[10:] == [*said[:3], "🏴", "\ufffd"]
    assert len(lines_of(store)) == 1 + 10 + len(said)
    assert kinds(store) == []


# Headers


def test_newer_format_is_read_and_not_written(store: JsonlStore) -> None:
    """A log of a newer Holdfast can be read by an older one, which refuses to append to it."""
    data = log_file(store.root).read_bytes()
    log_file(store.root).write_bytes(data.replace(b'"version":1', b'"version":99'))
    check_read_only(store, "upgrade", ["newer-version"])


def test_foreign_header_is_read_and_not_written(store: JsonlStore) -> None:
    """Another tool's header makes the log readable, and appending is refused with a way out."""
    header = b'{"type":"session","version":3,"id":"6c3a","timestamp":"2026-01-01","cwd":"/x"}\n'
    log_file(store.root).write_bytes(b"".join([header, *lines_of(store)[1:]]))
    check_read_only(store, "copy", ["foreign-header"])


def check_read_only(store: JsonlStore, hint: str, found: list[str]) -> None:
    data = log_file(store.root).read_bytes()
    with JsonlStore(store.root) as fresh:
        assert everything(fresh) == NUMBERS
        report = fresh.verify(KEY)
        assert [finding.kind for finding in report.findings] == found
        assert report.is_sound
        with pytest.raises(ForeignLog) as caught:
            fresh.append(KEY, [User(content="no")], expect=ANY_HEAD)
        assert hint in (caught.value.hint or "")
        assert log_file(store.root).read_bytes() == data
        fresh.fork(KEY, OTHER, at=None)
        fresh.append(OTHER, [User(content="yes")], expect=ANY_HEAD)
        assert everything(fresh, OTHER) == [*NUMBERS, "yes"]


def test_empty_file_gets_a_header_with_its_first_record(store: JsonlStore) -> None:
    """A session file of no bytes is an empty session; the first append makes it a proper one."""
    log_file(store.root).write_bytes(b"")
    with JsonlStore(store.root) as fresh:
        assert everything(fresh) == []
        assert (fresh.head(KEY), kinds(fresh)) == ("", ["no-header"])
        assert [info.key for info in fresh.sessions(owner=ANY_OWNER)] == [KEY]
        assert fresh.branches(KEY) == []
        fresh.append(KEY, [User(content="a"), User(content="b")], expect="")
        assert everything(fresh) == ["a", "b"]
        assert kinds(fresh) == []
        header = next(iter(fresh.read(KEY)))
        assert isinstance(header, Header)
        assert (header.id, header.agent) == (KEY.session, KEY.agent)


def test_header_alone_is_an_empty_session(store: JsonlStore) -> None:
    """A log that ends after its header has nothing wrong with it."""
    log_file(store.root).write_bytes(lines_of(store)[0])
    assert everything(store) == []
    assert kinds(store) == []
    say(store, "first")


def test_missing_header_is_no_damage(store: JsonlStore) -> None:
    """A log without a header is known by its name, sound, and can be appended to."""
    log_file(store.root).write_bytes(b"".join(lines_of(store)[1:]))
    assert everything(store) == NUMBERS
    report = store.verify(KEY)
    assert [finding.kind for finding in report.findings] == ["no-header"]
    assert report.is_sound
    assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [KEY]
    say(store, "next")


def test_destroyed_first_line_loses_nothing_else(store: JsonlStore) -> None:
    """With its first line destroyed a log is salvaged whole, and never overwritten."""
    lines = lines_of(store)
    log_file(store.root).write_bytes(b"".join([b"\0" * 50 + lines[0][50:], *lines[1:]]))
    assert everything(store) == NUMBERS
    assert kinds(store) == ["nul", "no-header"]
    say(store, "next")
    mended = store.repair(KEY)
    assert everything(store, mended.key) == [*NUMBERS, "next"]
    assert store.verify(mended.key).findings == ()


def test_header_in_the_middle_is_reported_and_left_out_of_a_repair(store: JsonlStore) -> None:
    """Two logs in one file are read as one; a repaired copy is sound, whatever points where."""
    store.create(OTHER)
    store.append(OTHER, [User(content="a")], expect=ANY_HEAD)
    store.append(OTHER, [Rewind(to=OTHER.session), User(content="b")], expect=ANY_HEAD)
    with log_file(store.root).open("ab") as file:
        file.write(log_file(store.root, OTHER).read_bytes())
    assert everything(store) == [*NUMBERS, "b"]
    assert kinds(store) == ["late-header"]
    mended = store.repair(KEY)
    assert everything(store, mended.key) == [*NUMBERS, "b"]
    assert store.verify(mended.key).findings == ()
    assert [branch.title for branch in store.branches(mended.key)] == ["a", "b"]
    store.fork(KEY, SessionKey("main", "fork"), at=None)
    assert everything(store, SessionKey("main", "fork")) == [*NUMBERS, "b"]
    assert kinds(store, SessionKey("main", "fork")) == []


def test_header_in_the_middle_may_jump(store: JsonlStore) -> None:
    """A stray header that names a parent moves the path, and a repaired copy keeps it there."""
    ids = [record.id for record in store.read(KEY)]
    with log_file(store.root).open("ab") as file:
        file.write(b'{"type":"session","id":"stray","parent":"%s"}\n' % ids[2].encode())
        file.write(b'{"type":"user","id":"x","content":"x"}\n')
        file.write(b'{"type":"user","id":"y","content":"y","parent":"stray"}\n')
    assert everything(store) == ["0", "1", "y"]
    mended = store.repair(KEY)
    assert everything(store, mended.key) == ["0", "1", "y"]
    assert [
        texts(store.read_branch(mended.key, one.head)) for one in store.branches(mended.key)
    ] == [
        NUMBERS,
        ["0", "1", "x"],
        ["0", "1", "y"],
    ]
    assert store.verify(mended.key).findings == ()


def test_seed_format_opens_as_it_is(store: JsonlStore) -> None:
    """A log of four record types without header or ids is read, rewound, forked and repaired."""
    log_file(store.root).write_bytes(
        b'{"type":"user","content":"list","ts":1.5}\n'
        b'{"type":"assistant","content":[{"type":"tool_use","id":"c1","name":"ls","input":{}}],'
        b'"ts":2}\n'
        b'{"type":"tool_use","tool_use_id":"c1","name":"ls","input":{},"ts":3}\n'
        b'{"type":"tool_result","tool_use_id":"c1","content":"a","ts":3}\n'
        b'{"type":"user","content":"thanks","ts":4}\n'
    )
    expected = ["user", "assistant", "tool_result", "user"]
    records = list(store.read(KEY))
    assert [record.kind for record in records] == expected
    assert [store.find(KEY, record.id) for record in records] == records
    store.append(KEY, [Rewind(to=records[0].id)], expect=records[-1].id)
    assert [record.kind for record in store.read(KEY)] == ["user", "rewind"]
    store.append(KEY, [Rewind(to=records[3].id)], expect=ANY_HEAD)
    store.fork(KEY, OTHER, at=None)
    mended = store.repair(KEY)
    for key in (KEY, OTHER, mended.key):
        kept = [record for record in store.read(key) if record.kind != "session"]
        assert [record.kind for record in kept] == [*expected, "rewind"]
        assert [record.id for record in kept[:4]] == [record.id for record in records]
    assert kinds(store) == ["no-header"]
    assert kinds(store, OTHER) == kinds(store, mended.key) == []


def test_positional_ids_mean_the_same_record_in_a_copy(tmp_path: Path) -> None:
    """Records copied under their old positions are not confused with what stands there now."""
    with JsonlStore(tmp_path, clock=lambda: 1.0) as store:
        store.create(OTHER)
        store.fork(OTHER, SessionKey("main", "probe"), at=None)
        # The header that a fork of `hurt` will have: as long as the probe's, which is one
        # letter longer in both of its names and two shorter in those of its parent.
        probe = log_file(tmp_path, SessionKey("main", "probe")).read_bytes()
        store.create(KEY)
        for width in range(len(probe) - 60, len(probe) + 60):
            first = b'{"type":"user","content":"%s"}\n' % (b"x" * (width - 28))
            log_file(tmp_path).write_bytes(first + b'{"type":"user","content":"second"}\n')
            copy = SessionKey("main", f"copy-{width}")
            store.fork(KEY, copy, at=None)
            records = [record for record in store.read(copy) if isinstance(record, User)]
            assert [store.find(copy, record.id) for record in records] == records
            assert texts(store.read_branch(copy, records[0].id)) == texts(records[:1])


# Files that change under a store


def test_deleted_log_is_missed_and_not_made_again(store: JsonlStore) -> None:
    """After the file of an open session was deleted, an append fails and makes no new file."""
    log_file(store.root).unlink()
    for _attempt in range(2):
        with pytest.raises(NoSuchSession):
            store.append(KEY, [User(content="lost?")], expect=ANY_HEAD)
        assert not log_file(store.root).exists()
    assert store.sessions(owner=ANY_OWNER) == []
    store.create(KEY)
    store.append(KEY, [User(content="new")], expect=KEY.session)
    assert everything(store) == ["new"]


def test_deleted_folder_is_missed(store: JsonlStore) -> None:
    """The same when the whole folder is gone."""
    log_file(store.root).unlink()
    for name in os.listdir(log_file(store.root).parent):
        (log_file(store.root).parent / name).unlink()
    log_file(store.root).parent.rmdir()
    with pytest.raises(NoSuchSession):
        store.append(KEY, [User(content="lost?")], expect=ANY_HEAD)
    assert store.sessions(owner=ANY_OWNER) == []


def test_replaced_log_is_noticed(store: JsonlStore) -> None:
    """A file put in the place of an open session's is the session from then on."""
    old = store.head(KEY)
    store.create(OTHER)
    store.append(OTHER, [User(content="theirs")], expect=ANY_HEAD)
    os.replace(log_file(store.root, OTHER), log_file(store.root))
    with pytest.raises(LogConflict):
        store.append(KEY, [User(content="mine")], expect=old)
    say(store, "mine")
    assert everything(store) == ["theirs", "mine"]


def test_restored_backup_is_continued(store: JsonlStore) -> None:
    """An older copy of a log, put back in place or over it, is continued from where it ends."""
    backup = log_file(store.root).read_bytes()
    for number in range(3):
        say(store, f"after the backup {number}")
    assert store.sessions(owner=ANY_OWNER)[0].records == 14
    if_replaced = log_file(store.root).with_suffix(".backup")
    if_replaced.write_bytes(backup)
    os.replace(if_replaced, log_file(store.root))
    assert everything(store) == NUMBERS
    assert store.sessions(owner=ANY_OWNER)[0].records == 11
    say(store, "again")
    log_file(store.root).write_bytes(backup)
    assert everything(store) == NUMBERS
    say(store, "once more")
    assert [info.records for info in store.sessions(owner=ANY_OWNER)] == [12]
    assert kinds(store) == []


def test_link_in_the_place_of_a_log_is_rejected(store: JsonlStore, tmp_path: Path) -> None:
    """A link that took the place of an open session's file is not followed, read or written."""
    elsewhere = tmp_path / "elsewhere"
    os.replace(log_file(store.root), elsewhere)
    data = elsewhere.read_bytes()
    log_file(store.root).symlink_to(elsewhere)
    for ask in (
        lambda: store.append(KEY, [User(content="no")], expect=ANY_HEAD),
        lambda: store.head(KEY),
    ):
        with pytest.raises(PathRejected):
            ask()
    log_file(store.root).unlink()
    os.link(elsewhere, log_file(store.root))
    elsewhere.chmod(0o660)  # others can change it
    with pytest.raises(PathRejected):
        store.append(KEY, [User(content="no")], expect=ANY_HEAD)
    assert elsewhere.read_bytes() == data


def test_stray_temporary_files_are_ignored_and_swept(store: JsonlStore) -> None:
    """What killed processes left half-written is never listed, and swept once it is old."""
    folder = log_file(store.root).parent
    old = [folder / ".hurt.jsonl.17-4.tmp", folder / ".hurt.jsonl.18-9.tmp"]
    young = folder / ".other.jsonl.19-1.tmp"
    for stray in (*old, young):
        stray.write_bytes(lines_of(store)[0])
    for stray in old:
        os.utime(stray, (1, 1))
    assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [KEY]
    store.create(OTHER)
    assert sorted(store.sweep()) == sorted(f"main/{stray.name}" for stray in old)
    assert [stray.exists() for stray in (*old, young)] == [False, False, True]
    assert store.sweep() == []
    assert everything(store) == NUMBERS


@pytest.mark.parametrize("call", ["write", "sync"])
def test_interrupted_append_leaves_the_store_usable(call: str, tmp_path: Path) -> None:
    """Ctrl-C inside an append lets go of the lock; what it left is whole or sealed."""

    class Interrupted(Disk):
        is_on = False

        def write(self, fd: int, data: bytes | memoryview) -> int:
            if self.is_on and call == "write":
                super().write(fd, data[:30])
                raise KeyboardInterrupt
            return super().write(fd, data)

        def sync(self, fd: int) -> None:
            if self.is_on and call == "sync":
                raise KeyboardInterrupt
            super().sync(fd)

    disk = Interrupted()
    with JsonlStore(tmp_path, disk=disk) as store, JsonlStore(tmp_path) as other:
        store.create(KEY)
        disk.is_on = True
        with pytest.raises(KeyboardInterrupt):
            store.append(KEY, [User(content="half"), User(content="done")], expect=ANY_HEAD)
        disk.is_on = False
        before = everything(store)
        assert before == ([] if call == "write" else ["half", "done"])
        other.append(KEY, [User(content="theirs")], expect=ANY_HEAD)
        store.append(KEY, [User(content="mine")], expect=other.head(KEY))
        assert everything(store) == [*before, "theirs", "mine"]
        assert kinds(store) == (["torn"] if call == "write" else [])


# Ids, order and the tree


def test_clock_that_goes_back_changes_no_order(tmp_path: Path) -> None:
    """Ids keep growing and records keep their order, whatever the clock says."""
    times = [1_000.0, 2_000.0, 500.0, 500.0, 0.25, 3_000.0, 2_999.0]
    now = [times[0]]
    with JsonlStore(tmp_path, clock=lambda: now[0]) as store:
        store.create(KEY)
        ids: list[str] = []
        for number, now[0] in enumerate(times[1:]):
            ids += store.append(KEY, [User(content=f"{number}")], expect=ANY_HEAD).ids
        assert ids == sorted(set(ids))
        assert everything(store) == ["0", "1", "2", "3", "4", "5"]
        assert kinds(store) == []
        assert [record.ts for record in store.read(KEY)] == times
        assert store.sessions(owner=ANY_OWNER)[0].last_active == 3_000.0


def test_repeated_line_is_taken_once(store: JsonlStore) -> None:
    """A record that some program wrote twice is read once and reported."""
    lines = lines_of(store)
    log_file(store.root).write_bytes(b"".join([*lines[:6], lines[3], *lines[6:]]))
    assert everything(store) == NUMBERS
    assert kinds(store) == ["duplicate-id"]
    standings = [entry.standing for entry in store.read_all(KEY)]
    assert standings.count("repeat") == 1
    say(store, "next")


def test_reused_id_keeps_both_records(store: JsonlStore) -> None:
    """Two different records under one id are both kept; the later one goes by its position."""
    lines = lines_of(store)
    again = lines[3].replace(b'"content":"2"', b'"content":"another"')
    position = len(b"".join(lines[:6]))
    log_file(store.root).write_bytes(b"".join([*lines[:6], again, *lines[6:]]))
    assert everything(store) == [*NUMBERS[:5], "another", *NUMBERS[5:]]
    assert kinds(store) == ["duplicate-id"]
    assert texts([store.find(KEY, f"@{position}")]) == ["another"]
    mended = store.repair(KEY)
    assert store.verify(mended.key).findings == ()
    assert texts([store.find(mended.key, f"@{position}")]) == ["another"]
    say(store, "next")


def test_id_of_an_abandoned_branch_is_refused_by_everybody(store: JsonlStore) -> None:
    """A store that has just been opened knows the ids that are taken off the path as well."""
    store.append(KEY, [User(content="left", id="mine")], expect=ANY_HEAD)
    store.append(KEY, [Rewind(to=KEY.session)], expect=ANY_HEAD)
    with JsonlStore(store.root) as fresh:
        with pytest.raises(BadRecord, match="mine"):
            fresh.append(KEY, [User(content="again", id="mine")], expect=ANY_HEAD)
        assert kinds(fresh) == []


def test_id_of_an_append_that_never_completed_is_free(store: JsonlStore) -> None:
    """A batch that was cut off by a crash can be tried again under the same ids."""
    batch = [User(content="a", id="r1"), User(content="b", id="r2")]
    store.append(KEY, batch, expect=ANY_HEAD)
    log_file(store.root).write_bytes(b"".join(lines_of(store))[:-20])
    with JsonlStore(store.root) as fresh:
        assert everything(fresh) == NUMBERS
        fresh.append(KEY, batch, expect=ANY_HEAD)
        assert everything(fresh) == [*NUMBERS, "a", "b"]
        assert texts([fresh.find(KEY, "r1"), fresh.find(KEY, "r2")]) == ["a", "b"]
        assert set(kinds(fresh)) == {"open-batch", "torn"}


def test_missing_parent_is_bridged(store: JsonlStore) -> None:
    """A record whose parent was lost follows the record before it, and the gap is reported."""
    head = store.head(KEY)
    store.append(KEY, [User(content="child", parent=head)], expect=head)
    store.append(KEY, [User(content="grandchild")], expect=ANY_HEAD)
    lines = lines_of(store)
    log_file(store.root).write_bytes(
        b"".join([*lines[:-3], lines[-2].replace(head.encode(), b"gone"), lines[-1]])
    )
    assert everything(store) == [*NUMBERS[:-1], "child", "grandchild"]
    (finding,) = store.verify(KEY).findings
    assert (finding.kind, "gone" in finding.detail) == ("missing-parent", True)
    mended = store.repair(KEY)
    assert store.verify(mended.key).findings == ()
    assert everything(store, mended.key) == [*NUMBERS[:-1], "child", "grandchild"]
    say(store, "next")


def test_lost_rewind_target_keeps_what_follows(store: JsonlStore) -> None:
    """When the record a rewind went to is damaged, what was said since is still on the path."""
    ids = [record.id for record in store.read(KEY)]
    store.append(KEY, [Rewind(to=ids[5]), User(content="since")], expect=ANY_HEAD)
    lines = lines_of(store)
    lines[5] = b"\0" * (len(lines[5]) - 1) + b"\n"
    log_file(store.root).write_bytes(b"".join(lines))
    assert everything(store)[-1] == "since"
    assert kinds(store) == ["nul", "missing-parent"]
    assert set(NUMBERS) - {"4"} <= set(texts(entry.record for entry in store.read_all(KEY)))
    say(store, "next")


def test_orphans_are_read_as_they_stand(store: JsonlStore) -> None:
    """Results without calls, calls without results and doubled ids are the reader's affair."""
    call = {"type": "tool_use", "id": "c1", "name": "ls", "input": {}}
    records: list[Record] = [
        ToolResult(tool_use_id="nobody", content="early"),
        Assistant(content=[call]),
        ToolResult(tool_use_id="c1", content="once"),
        ToolResult(tool_use_id="c1", content="twice"),
        Assistant(content=[{**call, "id": "c2"}]),
    ]
    store.append_each(KEY, records)
    assert [record.kind for record in store.last(KEY, 5)] == [record.kind for record in records]
    assert kinds(store) == []


def test_repair_keeps_branches_boundaries_and_bytes(store: JsonlStore) -> None:
    """A mended copy has the same tree; the bytes it leaves out are in its quarantine."""
    ids = [record.id for record in store.read(KEY)]
    store.append(KEY, [Rewind(to=ids[3]), User(content="a")], expect=ANY_HEAD)
    store.append(
        KEY, [Compaction(summary="s", first_kept=ids[2]), Label(label="b")], expect=ANY_HEAD
    )
    store.append(KEY, [User(content="c")], expect=ANY_HEAD)
    lines = lines_of(store)
    log_file(store.root).write_bytes(b"".join([*lines[:8], b"rubbish \xff\n", *lines[8:], b"to"]))
    before = log_file(store.root).read_bytes()
    mended = store.repair(KEY)
    assert log_file(store.root).read_bytes() == before
    assert [finding.kind for finding in mended.findings] == ["utf-8", "torn"]
    assert store.verify(mended.key).findings == ()
    assert texts(store.live(mended.key).records) == texts(store.live(KEY).records)
    assert [one.head for one in store.branches(mended.key)] == [
        one.head for one in store.branches(KEY)
    ]
    assert mended.quarantine is not None
    with open(mended.quarantine, "rb") as file:
        quarantine = file.read()
    assert b"rubbish \xff\n" in quarantine
    assert quarantine.endswith(b"to\n")
    header = next(iter(store.read(mended.key)))
    assert isinstance(header, Header)
    assert (header.parent_session, header.reason) == (str(KEY), "repair")
    assert store.repair(KEY).key != mended.key


def test_trash_keeps_sessions_removed_in_the_same_moment(tmp_path: Path) -> None:
    """Two sessions of one name, removed at the same time by the clock, are both kept."""
    with JsonlStore(tmp_path, clock=lambda: 1_000.0) as store:
        for text in ("one", "two"):
            store.create(KEY)
            store.append(KEY, [User(content=text)], expect=ANY_HEAD)
            store.remove(KEY)
        names = [trashed.name for trashed in store.trash()]
        assert len(names) == 2
        found = []
        for name in names:
            store.restore(name)
            found += everything(store)
            store.fork(KEY, SessionKey("main", f"kept-{len(found)}"), at=None)
            log_file(tmp_path).unlink()
        assert sorted(found) == ["one", "two"]


def test_many_missing_parents_are_bridged_alike_from_both_ends(store: JsonlStore) -> None:
    """However many parents are gone, every way to read gives the same path, each flaw told once."""
    with log_file(store.root).open("ab") as log:
        log.write(b"garbage\n")
        for number in range(40):
            line = f'{{"type":"user","content":"n{number}","id":"n{number}","parent":"gone"}}\n'
            log.write(line.encode())

    assert everything(store) == [*NUMBERS, *(f"n{number}" for number in range(40))]
    assert [finding.kind for finding in store.live(KEY).findings] == ["garbage"]
    assert kinds(store).count("missing-parent") == 40
