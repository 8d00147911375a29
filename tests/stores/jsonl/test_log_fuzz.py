"""Whatever is done to a log, it can be read, it can be appended to, and intact lines are kept."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from functools import cache
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.log import walk
from holdfast.core.log.damage import Flaw
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Header,
    Label,
    Rewind,
    ToolResult,
    ToolUse,
    Unknown,
    User,
    decode,
)
from holdfast.core.owners import ANY_OWNER
from holdfast.core.window import ANY_WINDOW, Window
from holdfast.errors import ForeignLog, NoSuchRecord
from holdfast.ports import ANY_HEAD
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.records import Record

KEY = SessionKey("main", "fuzzed")
BOM = b"\xef\xbb\xbf"
QUICK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where to put files that need no disk."""


def log_file(root: str) -> Path:
    return Path(root) / "agents" / "main" / "sessions" / "fuzzed.jsonl"


@cache
def sound_log(seed: int = 0) -> bytes:
    """A log with everything in it: batches, branches, boundaries, strangers, doubled calls."""
    ticks = count(1_700_000_000 + seed)
    bits = count(seed)
    with tempfile.TemporaryDirectory() as root:
        store = JsonlStore(root, clock=lambda: float(next(ticks)), entropy=lambda _n: next(bits))
        head = store.create(KEY, label="fuzz")
        call = {"type": "tool_use", "id": "c1", "name": "ls", "input": {}}
        one = store.append(KEY, [User(content="one")], expect=head).head
        turn: list[Record] = [
            User(content="twö"),
            Assistant(content=[call]),
            ToolUse(tool_use_id="c1", name="ls", input={}),
            ToolResult(tool_use_id="c1", content="a\nb"),
        ]
        two = store.append(KEY, turn, expect=one).head
        store.append(KEY, [Unknown(type="odd", extra={"x": 1})], expect=two)
        store.append(KEY, [Rewind(to=one)], expect=ANY_HEAD)
        three = store.append(KEY, [User(content="three", id="a-mine")], expect=ANY_HEAD).head
        store.append(KEY, [User(content="four", parent=one)], expect=three)
        store.append(KEY, [Compaction(summary="s", first_kept=one, window=9)], expect=ANY_HEAD)
        store.append(KEY, [Label(label="new"), User(content="five")], expect=ANY_HEAD)
        store.append(KEY, [Rewind(to=head)], expect=ANY_HEAD)
        store.append(KEY, [User(content="six"), Assistant(content="6")], expect=ANY_HEAD)
        store.append_each(KEY, [User(content="seven"), User(content="eight")])
        store.close()
        return log_file(root).read_bytes()


# What can happen to a file


class Damage(NamedTuple):
    """One accident; the numbers and bytes mean what `how` makes of them."""

    how: str
    first: int
    second: int = 0
    noise: bytes = b""

    def to(self, data: bytes) -> bytes:
        if self.how in BYTE_DAMAGE:
            return BYTE_DAMAGE[self.how](data, self.first % (len(data) + 1), self)
        lines = data.splitlines(keepends=True) or [b""]
        LINE_DAMAGE[self.how](lines, self.first % len(lines), self)
        return b"".join(lines)


def _swap(lines: list[bytes], at: int, damage: Damage) -> None:
    other = damage.second % len(lines)
    lines[at], lines[other] = lines[other], lines[at]


def _repeat(lines: list[bytes], at: int, damage: Damage) -> None:
    lines.insert(damage.second % (len(lines) + 1), lines[at])


def _insert_line(lines: list[bytes], at: int, damage: Damage) -> None:
    lines.insert(at, damage.noise.replace(b"\n", b"") + b"\n")


def _lose(lines: list[bytes], at: int, _damage: Damage) -> None:
    del lines[at]


def _fuse(lines: list[bytes], at: int, _damage: Damage) -> None:
    lines[at] = lines[at].removesuffix(b"\n")


def _carriage_return(lines: list[bytes], at: int, _damage: Damage) -> None:
    lines[at] = lines[at].replace(b"\n", b"\r\n")


def _lose_id(lines: list[bytes], at: int, _damage: Damage) -> None:
    lines[at] = re.sub(rb'"id":"[^"]*",', b"", lines[at], count=1)


def _lose_content(lines: list[bytes], at: int, _damage: Damage) -> None:
    lines[at] = lines[at].replace(b'"content"', b'"kontent"')


def _flip(data: bytes, at: int, damage: Damage) -> bytes:
    return (
        data[:at]
        + bytes(byte ^ (1 << damage.second % 8) for byte in data[at : at + 1])
        + data[at + 1 :]
    )


def _insert(data: bytes, at: int, damage: Damage) -> bytes:
    return data[:at] + damage.noise + data[at:]


def _overwrite(data: bytes, at: int, damage: Damage) -> bytes:
    return data[:at] + damage.noise + data[at + len(damage.noise) :]


def _truncate(data: bytes, at: int, _damage: Damage) -> bytes:
    return data[:at]


def _behead(data: bytes, at: int, _damage: Damage) -> bytes:
    return data[at:]


def _splice(data: bytes, at: int, damage: Damage) -> bytes:
    """The beginning of this log and the end of another."""
    other = sound_log(1)
    return data[:at] + other[damage.second % (len(other) + 1) :]


LINE_DAMAGE: dict[str, Callable[[list[bytes], int, Damage], None]] = {
    "swap": _swap,
    "repeat": _repeat,
    "insert-line": _insert_line,
    "lose": _lose,
    "fuse": _fuse,
    "crlf": _carriage_return,
    "lose-id": _lose_id,
    "lose-content": _lose_content,
}
BYTE_DAMAGE: dict[str, Callable[[bytes, int, Damage], bytes]] = {
    "flip": _flip,
    "insert": _insert,
    "overwrite": _overwrite,
    "truncate": _truncate,
    "behead": _behead,
    "splice": _splice,
}
PLACES = st.integers(0, 1 << 20)
NOISE = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([0, 1, 17, 9_000]).map(lambda size: b"\0" * size),
    st.sampled_from(
        [
            BOM,
            b"\n",
            b"\r\n",
            b"\n\n",
            b" ",
            b"\x18",
            b"\x18\n",
            b"\xff",
            b"\xc3",
            b"{}",
            b"[]",
            b"null",
            b"7",
            b'"text"',
            b'{"type":5}',
            b'{"type":"user"}',
            b'{"type":"user","content":7}',
            b'{"type":"user","id":7,"content":"x"}',
            b'{"type":"rewind","to":"nowhere","parent":"nowhere"}',
            b'{"type":"user","content":"x","more":3}',
            b'{"type":"user","content":"x","more":-1}',
            b'{"type":"user","content":"x","more":0}',
            b'{"type":"session","id":"other"}',
            b'{"type":"session","id":"fuzzed","format":"holdfast","version":99}',
            b'{"type":"user","content":"\\ud800","ts":NaN}',
            b'{"type":"user","content":"x","id":"@0"}',
            b'{"type":"user","content":"x","parent":"@0"}',
            b"[" * 100_000,
        ]
    ),
)
DAMAGE = st.builds(
    Damage, st.sampled_from([*LINE_DAMAGE, *BYTE_DAMAGE]), first=PLACES, second=PLACES, noise=NOISE
)


def damaged(damages: list[Damage]) -> bytes:
    data = sound_log()
    for damage in damages:
        data = damage.to(data)
    return data


# What must hold all the same


def check_log(data: bytes) -> None:
    """Everything that is promised for a log with these bytes."""
    with tempfile.TemporaryDirectory(dir=QUICK) as root, JsonlStore(root) as store:
        store.create(KEY)
        log_file(root).write_bytes(data)
        check_reading(store, data)
        check_repair(store)
        assert log_file(root).read_bytes() == data
        check_appending(store, data)
        assert log_file(root).read_bytes().startswith(data)


def check_reading(store: JsonlStore, data: bytes) -> None:
    entries = list(store.read_all(KEY))
    assert [plain(entry.record) for entry in entries] == intact_records(data)
    path = list(store.read(KEY))
    assert [entry.record for entry in entries if entry.standing == "path"] == path
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "_HELD_BYTES_MAX", -1)  # as a log is read that is too long to be held
        assert list(store.read_all(KEY)) == entries
        assert list(store.read(KEY)) == path
    report = store.verify(KEY)
    assert report.bytes == len(data)
    branches = store.branches(KEY)
    paths = [list(store.read_branch(KEY, branch.head)) for branch in branches]
    assert b"".join(store.export(KEY)) == data
    list(store.hash_candidates())
    head = store.head(KEY)
    assert head == report.head
    (info,) = store.sessions(owner=ANY_OWNER)
    assert all(paths)
    assert len(branches) == report.branches
    assert info.head == head
    assert info.records == report.records
    check_way_back(store)
    # Where an id was used twice, it depends on how much of the log one reads who goes by it.
    if not any(finding.kind == "duplicate-id" for finding in report.findings):
        check_agreement(store, path, head)


def check_agreement(store: JsonlStore, path: list[Record], head: str) -> None:
    """Reading from the end gives what reading from the beginning gives."""
    assert store.last(KEY, 1_000_000) == path
    assert store.last(KEY, 2) == path[-2:]
    assert list(store.back(KEY)) == path[::-1]
    # A call that is doubled by one before the part one reads is read as it stands.
    doubles = [entry.record for entry in store.read_all(KEY) if entry.standing == "double"]
    for window in (ANY_WINDOW, Window(10)):
        live = store.live(KEY, window=window)
        assert live.head == head
        records = [record for record in live.records if record not in doubles]
        assert records == path[len(path) - len(records) :]
        assert live.boundary is not None or len(records) == len(path)
    for index, record in enumerate(path):
        assert store.find(KEY, record.id) == record
        later = [one for one in store.read(KEY, start=record.id) if one not in doubles]
        assert later == path[index:]
        assert store.last(KEY, 3, before=record.id) == path[max(0, index - 3) : index]


def check_way_back(store: JsonlStore) -> None:
    """Page by page towards the root, nothing comes twice, whatever ids the log holds."""
    everything = list(store.back(KEY))
    pages: list[Record] = []
    while page := list(islice(store.back(KEY, before=pages[-1].id if pages else None), 2)):
        pages += page
        assert len(pages) <= len(everything)
    assert [record.id for record in pages] == [record.id for record in everything]
    assert len({record.id for record in everything}) == len(everything)


def check_repair(store: JsonlStore) -> None:
    entries = list(store.read_all(KEY))
    path = [record for record in store.read(KEY) if not isinstance(record, Header)]
    headers = {entry.record.id for entry in entries if isinstance(entry.record, Header)}
    mended = store.repair(KEY)
    report = store.verify(mended.key)
    assert report.is_sound, report.findings
    counted = [entry for entry in entries if entry.standing in ("path", "branch", "double")]
    expected = [entry.record for entry in counted if not isinstance(entry.record, Header)]
    check_copies(expected, [entry.record for entry in store.read_all(mended.key)][1:], headers)
    check_copies(path, list(store.read(mended.key))[1:], headers)
    assert mended.records == len(expected)
    if not any(finding.kind == "duplicate-id" for finding in mended.findings):
        check_live_part(store, mended.key, headers)


def check_copies(records: Sequence[Record], copies: Sequence[Record], headers: set[str]) -> None:
    """The copies are the same records. A copy never points at a header inside the old log.

    `repair` leaves such headers out, and points at the record before instead: a compaction whose
    first kept record is missing would lose everything it kept.
    """
    assert len(copies) == len(records)
    for record, copy in zip(records, copies, strict=True):
        moved = {
            name: getattr(copy, name)
            for name in ("first_kept", "target")
            if getattr(record, name, None) in headers
        }
        assert plain(copy) == plain(msgspec.structs.replace(record, **moved))


def check_live_part(store: JsonlStore, repaired: SessionKey, headers: set[str]) -> None:
    """A repaired log shows a model what the damaged one shows.

    It shows one record more where a compaction keeps everything from a header on: the header is
    left out, and the copy keeps from the record before it.
    """
    shown, copies = (
        [record for record in store.live(key).records if not isinstance(record, Header)]
        for key in (KEY, repaired)
    )
    assert 0 <= len(copies) - len(shown) <= 1
    check_copies(shown, copies[len(copies) - len(shown) :], headers)


def check_appending(store: JsonlStore, data: bytes) -> None:
    before = list(store.read_all(KEY))
    path = list(store.read(KEY))
    head = store.head(KEY)
    try:
        done = store.append(KEY, [User(content="next"), User(content="last")], expect=head)
    except ForeignLog:
        return
    if not data:
        path = [next(iter(store.read(KEY)))]
    assert [record.id for record in store.read(KEY)] == [*(record.id for record in path), *done.ids]
    assert [record.id for record in store.last(KEY, 2)] == list(done.ids)
    after = list(store.read_all(KEY))
    assert [entry.record for entry in after if entry in before] == [e.record for e in before]
    for entry in before[:3]:
        with suppress(NoSuchRecord):
            store.append(KEY, [Rewind(to=entry.record.id)], expect=ANY_HEAD)
    fork = SessionKey("main", "fork")
    store.fork(KEY, fork, at=None)
    assert len(list(store.read(fork))) >= 1


def intact_records(data: bytes) -> list[Record]:
    """The records in the lines of a file, as far as they can be parsed one by one."""
    lines = data.removeprefix(BOM).split(b"\n")
    found = [decode(line) for line in lines]
    return [plain(item) for item in found if not isinstance(item, Flaw)]


def plain(record: Record) -> Record:
    """A record without its name, its place and what it points at: a copy has its own header."""
    changes = {"to": ""} if isinstance(record, Rewind) else {}
    return msgspec.structs.replace(record, id="", parent=None, more=None, **changes)


@examples(250)
@given(st.lists(DAMAGE, min_size=1, max_size=4))
@example([Damage("swap", 0, 1), Damage("splice", 114, 127)])  # a header takes a kept record's id
def test_damaged_log_keeps_every_intact_line(damages: list[Damage]) -> None:
    """Damage of any kind is isolated: the rest is read, repaired and appended to."""
    check_log(damaged(damages))


@pytest.mark.nightly
@settings(deadline=None, max_examples=20_000)
@given(st.lists(DAMAGE, min_size=1, max_size=12))
def test_damaged_log_keeps_every_intact_line_in_a_deep_search(damages: list[Damage]) -> None:
    """The same with more damage at once, for as long as a night allows."""
    check_log(damaged(damages))


@examples(60)
@given(st.lists(st.one_of(st.binary(max_size=60), NOISE), max_size=8))
def test_random_bytes_are_a_log_without_records(pieces: list[bytes]) -> None:
    """A file of anything at all is read without an error."""
    check_log(b"".join(pieces))


def test_sound_log_passes_its_own_checks() -> None:
    """The log that is damaged in these tests is sound to begin with."""
    check_log(sound_log())
    with tempfile.TemporaryDirectory() as root, JsonlStore(root) as store:
        store.create(KEY)
        log_file(root).write_bytes(sound_log())
        assert store.verify(KEY).findings == ()
