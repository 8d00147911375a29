"""An append cut off at any of its bytes is there whole or not at all, and nothing else is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.support.runs import sample

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Compaction, Rewind, ToolResult, User
from holdfast.ports import ANY_HEAD
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing.disk import RecordingDisk, Sync, Write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from holdfast.core.log.records import Record

KEY = SessionKey("main", "torn")


def log_file(root: Path) -> Path:
    return root / "agents" / "main" / "sessions" / "torn.jsonl"


def single() -> list[Record]:
    return [User(content="a réply: 🏴‍☠️ \x18")]


def batch() -> list[Record]:
    call = {"type": "tool_use", "id": "c1", "name": "ls", "input": {}}
    return [
        User(content="list"),
        Assistant(content=[call]),
        ToolResult(tool_use_id="c1", content="a\nb"),
        Assistant(content="two files"),
    ]


@dataclass(frozen=True)
class Torn:
    """The log before an append that was recorded, that append's bytes cut by cut, and its ids."""

    before: bytes
    acknowledged: list[str]
    cuts: list[bytes]
    ids: tuple[str, ...]


def record_append(root: Path, before: bytes | None, records: Sequence[Record]) -> Torn:
    """Append to a log that holds `before` (or a few records) and keep every byte of the write."""
    disk = RecordingDisk()
    with JsonlStore(root, disk=disk) as store:
        if before is None:
            store.create(KEY)
            store.append(KEY, [User(content="one")], expect=ANY_HEAD)
            store.append(KEY, [User(content="two"), Assistant(content="2")], expect=ANY_HEAD)
        else:
            log_file(root).write_bytes(before)
        acknowledged = [record.id for record in store.read(KEY)]
        before = log_file(root).read_bytes()
        disk.events.clear()
        ids = store.append(KEY, records, expect=ANY_HEAD).ids
        assert [type(event) for event in disk.events] == [Write, Sync]
        cuts = list(disk.cuts(before))
        assert cuts[-1] == log_file(root).read_bytes()
    return Torn(before, acknowledged, cuts, ids)


def cuts_to_replay(cuts: list[bytes]) -> list[bytes]:
    """The cuts to replay: in the ordinary run those around the ends of lines and a fifth of others.

    The ends of lines decide what an append that was cut off has left; within a line all is alike.
    """
    last = len(cuts) - 1

    def kind(number: int) -> str:
        around = cuts[min(number + 1, last)][-3:]
        return f"end of line {number}" if number in (0, last) or b"\n" in around else "within"

    numbers = sample(range(len(cuts)), share=1 / 5, kind=kind)
    return [cuts[number] for number in numbers]


def check_every_cut(root: Path, torn: Torn) -> None:
    """Replay the crash at each byte with a store that has seen nothing before."""
    whole = 0
    for data in cuts_to_replay(torn.cuts):
        log_file(root).write_bytes(data)
        with JsonlStore(root) as store:
            whole += check_cut(store, torn)
        assert log_file(root).read_bytes().startswith(data)
    # Without its last newline the append is complete already, but not one byte earlier.
    assert whole == 2


def check_cut(store: JsonlStore, torn: Torn) -> bool:
    found = [record.id for record in store.read(KEY)]
    is_whole = found == [*torn.acknowledged, *torn.ids]
    assert is_whole or found == torn.acknowledged
    check_agreement(store, found)
    done = store.append(KEY, [User(content="next"), User(content="and next")], expect=found[-1])
    found += done.ids
    check_agreement(store, found)
    found += store.append(KEY, [User(content="last")], expect=found[-1]).ids
    check_agreement(store, found)
    report = store.verify(KEY)
    assert {finding.kind for finding in report.findings} <= {"torn", "open-batch"}
    assert report.head == found[-1]
    return is_whole


def check_agreement(store: JsonlStore, ids: list[str]) -> None:
    """Every way to read gives these records."""
    assert [record.id for record in store.read(KEY)] == ids
    assert [record.id for record in store.live(KEY).records] == ids
    assert [record.id for record in store.last(KEY, len(ids) + 9)] == ids
    assert store.head(KEY) == store.live(KEY).head == ids[-1]
    counted = [entry.record.id for entry in store.read_all(KEY) if entry.standing == "path"]
    assert counted == ids


@pytest.mark.parametrize("records", [single(), batch()], ids=["single", "batch"])
def test_torn_append_is_whole_or_absent(records: list[Record], tmp_path: Path) -> None:
    """An append cut at every byte is there whole or not at all, and the next one is readable."""
    check_every_cut(tmp_path, record_append(tmp_path, None, records))


@pytest.mark.parametrize("records", [single(), batch()], ids=["single", "batch"])
def test_torn_append_is_whole_or_absent_after_a_torn_record(
    records: list[Record], tmp_path: Path
) -> None:
    """The append that seals a torn record may be cut as well, inside the seal or after it."""
    first = record_append(tmp_path, None, single())
    half = first.cuts[len(first.cuts) // 2]
    check_every_cut(tmp_path, record_append(tmp_path, half, records))


@pytest.mark.parametrize(
    ("lines_written", "records"),
    [(1, single()), (2, single()), (3, single()), (2, batch())],
    ids=["1-single", "2-single", "3-single", "2-batch"],
)
def test_torn_append_is_whole_or_absent_after_an_open_batch(
    lines_written: int, records: list[Record], tmp_path: Path
) -> None:
    """The append after a batch that broke off between two lines does not complete that batch."""
    first = record_append(tmp_path, None, batch())
    lines = first.cuts[-1].removeprefix(first.before).splitlines(keepends=True)
    open_batch = first.before + b"".join(lines[:lines_written])
    check_every_cut(tmp_path, record_append(tmp_path, open_batch, records))


def test_torn_append_is_whole_or_absent_after_a_line_without_newline(tmp_path: Path) -> None:
    """A batch that broke off just before a newline is sealed like one that broke off after it."""
    first = record_append(tmp_path, None, batch())
    lines = first.cuts[-1].removeprefix(first.before).splitlines(keepends=True)
    open_batch = first.before + b"".join(lines[:2]).rstrip(b"\n")
    check_every_cut(tmp_path, record_append(tmp_path, open_batch, batch()))


def test_torn_rewind_is_whole_or_absent(tmp_path: Path) -> None:
    """A rewind cut at every byte has happened or has not, and no branch is lost."""
    first = record_append(tmp_path, None, single())
    target = first.acknowledged[1]
    torn = record_append(tmp_path, first.cuts[-1], [Rewind(to=target)])
    before = torn.acknowledged
    after = [*before[: before.index(target) + 1], *torn.ids]
    for data in cuts_to_replay(torn.cuts):
        log_file(tmp_path).write_bytes(data)
        with JsonlStore(tmp_path) as store:
            found = [record.id for record in store.read(KEY)]
            assert found in (before, after)
            check_agreement(store, found)
            done = store.append(KEY, [User(content="next")], expect=ANY_HEAD)
            check_agreement(store, [*found, done.head])
            assert set(before) <= {entry.record.id for entry in store.read_all(KEY)}


def test_torn_compaction_is_whole_or_absent(tmp_path: Path) -> None:
    """A compaction cut at every byte is the boundary or is not there; nothing hides behind it."""
    first = record_append(tmp_path, None, single())
    kept = first.acknowledged[-1]
    compaction = Compaction(summary="so far", first_kept=kept)
    torn = record_append(tmp_path, first.cuts[-1], [compaction])
    everything = torn.acknowledged
    for data in cuts_to_replay(torn.cuts):
        log_file(tmp_path).write_bytes(data)
        with JsonlStore(tmp_path) as store:
            live = store.live(KEY)
            ids = [record.id for record in live.records]
            if live.boundary is None:
                assert ids == everything
            else:
                assert ids == [*everything[everything.index(kept) :], *torn.ids]
            done = store.append(KEY, [User(content="next")], expect=ANY_HEAD)
            assert [record.id for record in store.live(KEY).records] == [*ids, done.head]
            assert set(everything) <= {record.id for record in store.read(KEY)}


def test_torn_first_append_to_an_empty_file_leaves_a_readable_log(tmp_path: Path) -> None:
    """The header that an append puts into an empty file may be cut at any byte as well."""
    with JsonlStore(tmp_path) as store:
        store.create(KEY)
    torn = record_append(tmp_path, b"", single())
    for data in cuts_to_replay(torn.cuts):
        log_file(tmp_path).write_bytes(data)
        with JsonlStore(tmp_path) as store:
            found = [record.id for record in store.read(KEY)]
            done = store.append(KEY, [User(content="next")], expect=ANY_HEAD)
            # The first append to an empty file brings a header of its own.
            expected = [*found, done.head] if data else [KEY.session, done.head]
            check_agreement(store, expected)


def test_record_cut_at_every_byte_is_sealed_at_every_byte(tmp_path: Path) -> None:
    """A crash while sealing the remains of a crash: every pair of cuts leaves a sound log."""
    first = record_append(tmp_path, None, [User(content="é")])
    for half in cuts_to_replay(first.cuts):
        second = record_append(tmp_path, half, [User(content="ü")])
        for data in second.cuts[:: max(1, len(second.cuts) // 7)]:
            log_file(tmp_path).write_bytes(data)
            with JsonlStore(tmp_path) as store:
                found = [record.id for record in store.read(KEY)]
                assert found[: len(first.acknowledged)] == first.acknowledged
                done = store.append(KEY, [User(content="next")], expect=ANY_HEAD)
                check_agreement(store, [*found, done.head])
