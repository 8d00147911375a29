"""A log is cut where it could have ended, whatever is in it; a copy of any such part is sound."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.stores.jsonl.test_log_fuzz import QUICK
from tests.stores.stores_to_copy import line, said, view_of
from tests.support.runs import examples

from holdfast import SessionKey, User
from holdfast.core.limits import LINE_BYTES_MAX
from holdfast.core.log.batch import new_header
from holdfast.core.log.records import SEAL, Header
from holdfast.core.log.tree import Outline
from holdfast.core.log.walk import outline_lines
from holdfast.errors import StoreError
from holdfast.stores import ANY_HEAD, MemoryStore, copy_store
from holdfast.stores import copying as session_copies
from holdfast.stores.copying import LogPieces
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.stores.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.stores import SessionStore

KEY = SessionKey("main", "log")


def _fragments() -> st.SearchStrategy[bytes]:
    """Lines, whole appends, and everything that crashes, disks and editors leave between them."""
    number = st.integers(1, 40)
    record = number.map(lambda n: line(said(f"text {n}", n)))
    part = st.tuples(number, st.integers(0, 3)).map(
        lambda pair: line(said("part", pair[0], more=pair[1]))
    )
    batch = st.tuples(number, st.integers(2, 4)).map(
        lambda pair: b"".join(
            line(said(f"of several {left}", pair[0] + 10 - left, more=left))
            for left in range(pair[1] - 1, -1, -1)
        )
    )
    linked = st.tuples(number, number).map(
        lambda pair: line(said("linked", pair[0], parent=f"{pair[1]:018x}"))
    )
    odd = st.sampled_from(
        [
            *(b"\n", b" \t\r\n", bytes([SEAL]) + b"\n", b"torn" + bytes([SEAL]) + b"\n"),
            *(b"\0" * 30 + b"\n", b"no json\n", b"\xff\xfe\n", b'{"type":"user"}\n', b"[1]\n"),
            *(b'{"type":"user","content":"no id"}\n', b'{"type":"user","\\u006dore":2}\n'),
            b'  {"type":"user","id":"spaces","content":"x","more":1}  \n',
            line(new_header(KEY, now=1.0, owner="ann", label="first")),
        ]
    )
    return st.one_of(record, part, batch, linked, odd)


def _logs() -> st.SearchStrategy[bytes]:
    """Logs of such fragments, that may end anywhere."""
    header = line(new_header(KEY, now=1.0, owner="ann"))
    body = st.lists(_fragments(), max_size=12).map(b"".join)
    begins = st.sampled_from([header, b"\xef\xbb\xbf" + header, b""])
    cut = st.one_of(st.just(0), st.integers(0, 80))
    return st.tuples(begins, body, cut).map(
        lambda parts: (parts[0] + parts[1])[: len(parts[0] + parts[1]) - parts[2]]
    )


def _write(root: str, data: bytes) -> JsonlStore:
    """Return a store whose session has exactly these bytes."""
    store = JsonlStore(root)
    store.create(KEY)
    Path(store.describe(KEY)).write_bytes(data)
    return store


def _blocks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


@given(_logs(), st.integers(1, 400), st.integers(1, 300))
def test_pieces_are_the_log_up_to_its_last_whole_append(
    data: bytes, block: int, piece_bytes: int
) -> None:
    """However it is read and cut, no byte is changed, and no record that counts is left out."""
    pieces = LogPieces(KEY, _blocks(data, block), piece_bytes=piece_bytes)
    found = list(pieces)
    whole = b"".join(piece.data for piece in found)
    tail = b"" if data.startswith(whole) else b"\n"
    assert whole == data[: len(data) - pieces.left_out] + tail
    assert all(piece.data.endswith(b"\n") for piece in found)
    starts = [piece.position for piece in found]
    assert starts == [sum(len(piece.data) for piece in found[:n]) for n in range(len(found))]
    with tempfile.TemporaryDirectory(dir=QUICK) as root, _write(root, data) as store:
        every, counted = list(store.read(KEY)), []
        for start in [*starts[1:], len(whole)]:
            Path(store.describe(KEY)).write_bytes(whole[:start])
            os.utime(store.describe(KEY), ns=(start, start))
            counted.append(list(store.read(KEY)))
            with store.open_log(KEY) as log:
                shape = Outline()
                assert all(item[1] for item in outline_lines(shape, log.lines()))
                assert not shape.is_open
        assert counted[-1] == every


def _check_copy(data: bytes, target: SessionStore, source_root: str) -> None:
    """Copy a log of these bytes, and append to both sides: they must go on in the same way."""
    with _write(source_root, data) as source:
        report = copy_store(source, target)
        (copied,) = report.sessions
        assert (copied.state, report.is_complete) == ("copied", True)
        data_there = b"".join(target.export(KEY))
        assert (data + b"\n").startswith(data_there)
        assert len(data) - len(data_there) in (copied.left_out, -1)
        with tempfile.TemporaryDirectory(dir=QUICK) as root, _write(root, data_there) as plain:
            assert view_of(target, KEY) == view_of(plain, KEY)
        assert {*(s.state for s in copy_store(source, target).sessions)} == {"same"}
        new = [User(id=f"{'e' * 17}{n}", ts=99.0, content=f"new {n}") for n in range(3)]
        for store in (source, target):
            store.append(KEY, new, expect=ANY_HEAD)
        paths = [  # a folder begins an empty log with a header of its own
            [record.id for record in store.read(KEY) if not isinstance(record, Header)]
            for store in (source, target)
        ]
        assert paths[0] == paths[1]


@given(_logs())
def test_any_log_is_copied_into_memory(data: bytes) -> None:
    """What is seen of it is what a folder shows, and records that follow count on both sides."""
    with tempfile.TemporaryDirectory(dir=QUICK) as root, MemoryStore() as target:
        _check_copy(data, target, root)


@given(_logs(), st.floats(0, 1))
def test_any_log_is_copied_into_a_folder_from_any_byte_on(data: bytes, share: float) -> None:
    """A copy that was killed left the first bytes of the log, and goes on from there."""
    with (
        tempfile.TemporaryDirectory(dir=QUICK) as root,
        tempfile.TemporaryDirectory(dir=QUICK) as other,
        _write(root, data) as source,
    ):
        whole = b"".join(piece.data for piece in LogPieces(KEY, [data]))
        with _write(other, whole[: int(len(whole) * share)]) as target:
            report = copy_store(source, target)
            assert report.is_complete
            assert b"".join(target.export(KEY)) == whole


@settings(examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_logs(), min_size=8, max_size=8))
def test_any_log_is_copied_into_a_database(postgres_address: str, datas: list[bytes]) -> None:
    """The facts in the session's row are those that a reader of the whole log counts."""
    with PostgresStore(postgres_address) as target:
        for data in datas:
            with tempfile.TemporaryDirectory(dir=QUICK) as root:
                _check_copy(data, target, root)
                target.remove(KEY)


@pytest.mark.parametrize("piece_bytes", [1, 300, 2_000])
def test_a_log_in_many_pieces_is_the_same(
    piece_bytes: int, postgres_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts that grow piece by piece are those of the whole, also after a look in between."""

    def cut(key: SessionKey, blocks: Iterator[bytes]) -> LogPieces:
        return LogPieces(key, blocks, piece_bytes=piece_bytes)

    monkeypatch.setattr(session_copies, "LogPieces", cut)
    batch = [said(f"part {left}", 70 - left, more=left) for left in (2, 1, 0)]
    records = [
        said(f"text {n}", n, parent=f"{n - 5:018x}" if n % 7 == 0 else None) for n in range(1, 60)
    ]
    data = line(new_header(KEY, now=1.0, owner="ann")) + b"".join(map(line, [*records, *batch]))
    with _write(str(tmp_path), data) as source, PostgresStore(postgres_address) as target:
        assert copy_store(source, target).is_complete
        assert view_of(target, KEY) == view_of(source, KEY)


def test_a_line_that_is_too_long_is_reported(tmp_path: Path) -> None:
    """It cannot be held in memory; the session is named, and the others are copied."""
    header = line(new_header(KEY, now=1.0))
    with _write(str(tmp_path), header) as source, MemoryStore() as target:
        with open(source.describe(KEY), "ab") as file:
            file.truncate(len(header) + LINE_BYTES_MAX + 1)
        source.create(SessionKey("main", "other"))
        report = copy_store(source, target)
        assert [session.state for session in report.sessions] == ["failed", "copied"]
        assert f"byte {len(header)}" in report.sessions[0].detail
        with pytest.raises(StoreError, match="more than"):
            list(LogPieces(KEY, source.export(KEY)))
