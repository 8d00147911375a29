"""An append of several records is there or it is not, whichever of its pages a power cut took."""

from __future__ import annotations

import tempfile
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stores.jsonl.test_log_fuzz import KEY, QUICK, check_log, log_file
from tests.support.runs import examples

from holdfast.core.log.records import User
from holdfast.core.log.walk import outline
from holdfast.core.owners import ANY_OWNER
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryLog
from holdfast.stores.jsonl import index
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAGE = 4096
_SIZES = (30, 300, 1_500, 5_000)
"""Lines far shorter than a page, near one, and longer than one."""


class Append(NamedTuple):
    """The records of one append, and the bytes they have in the file."""

    texts: tuple[str, ...]
    start: int
    end: int


class Written(NamedTuple):
    data: bytes
    appends: tuple[Append, ...]


@cache
def written(shape: tuple[tuple[int, ...], ...]) -> Written:
    """A log of these appends, each given as the sizes of its records."""
    ticks, bits, numbers = count(1_700_000_000), count(), count()
    appends: list[Append] = []
    with tempfile.TemporaryDirectory(dir=QUICK) as root:
        clock, entropy = (lambda: float(next(ticks))), (lambda _bits: next(bits))
        store = JsonlStore(root, clock=clock, entropy=entropy)
        store.create(KEY)
        for sizes in shape:
            texts = tuple(f"{next(numbers)} ".ljust(_SIZES[size], "x") for size in sizes)
            start = log_file(root).stat().st_size
            store.append(KEY, [User(content=text) for text in texts], expect=ANY_HEAD)
            appends.append(Append(texts, start, log_file(root).stat().st_size))
        store.close()
        return Written(log_file(root).read_bytes(), tuple(appends))


def _shapes() -> st.SearchStrategy[tuple[tuple[int, ...], ...]]:
    size = st.integers(0, len(_SIZES) - 1)
    append = st.lists(size, min_size=1, max_size=7).map(tuple)
    return st.lists(append, min_size=1, max_size=4).map(tuple)


def _spoilt(data: bytes, ranges: Sequence[tuple[int, int]], byte: bytes = b"\0") -> bytes:
    spoilt = bytearray(data)
    for start, end in ranges:
        spoilt[start:end] = byte * (min(end, len(data)) - start)
    return bytes(spoilt)


def _present(data: bytes) -> set[str]:
    """The texts that count, as every reader tells them."""
    with tempfile.TemporaryDirectory(dir=QUICK) as root, JsonlStore(root) as store:
        store.create(KEY)
        log_file(root).write_bytes(data)
        found = {record.content for record in store.read(KEY) if isinstance(record, User)}
        if data.endswith(b"\n"):
            in_memory = MemoryLog(KEY)
            in_memory.extend(data)
            assert dict(outline(in_memory).counts) == store.verify(KEY).counts
    check_log(data)
    return {text for text in found if isinstance(text, str)}


@st.composite
def _cuts(draw: st.DrawFn) -> tuple[Written, list[tuple[int, int]], int]:
    """A log, the ranges of it that became zeros, and its length after the cut."""
    log = written(draw(_shapes()))
    first, length = log.appends[0].start, len(log.data)
    ranges: list[tuple[int, int]] = []
    for _range in range(draw(st.integers(0, 3))):
        start = draw(st.integers(first, length - 1))
        kind = draw(st.sampled_from(("page", "from", "range")))
        if kind == "page":
            page = max(start // _PAGE * _PAGE, first)
            ranges.append((page, min((start // _PAGE + 1) * _PAGE, length)))
        elif kind == "from":
            ranges.append((start, min(start + _PAGE, length)))
        else:
            ranges.append((start, draw(st.integers(start + 1, length))))
    return log, ranges, draw(st.one_of(st.just(length), st.integers(first, length)))


@examples(100)
@given(_cuts())
def test_append_that_lost_a_page_is_absent_as_a_whole(
    cut: tuple[Written, list[tuple[int, int]], int],
) -> None:
    """Zeros and torn ends: appends before them are whole, none counts in part, for all readers."""
    log, ranges, length = cut
    found = _present(_spoilt(log.data, ranges)[:length])
    is_known_before = True
    for append in log.appends:
        kept = found & set(append.texts)
        is_zeroed = any(start < append.end and end > append.start for start, end in ranges)
        is_whole = not is_zeroed and append.end - 1 <= length  # it may lack the last newline
        assert kept in (set(), set(append.texts))
        if is_whole and (is_known_before or len(append.texts) == 1):
            assert kept or _ends_before(append, ranges)
        elif not is_whole:
            assert not kept
        is_known_before = is_whole


def _ends_before(append: Append, ranges: Sequence[tuple[int, int]]) -> bool:
    """True where the newline before an append was lost, and the first line of it with that."""
    return any(start < append.start <= end for start, end in ranges)


@pytest.mark.parametrize("byte", [b"\0", b"\xff"])
@pytest.mark.parametrize("shape", [((0,), (3,)), ((0,), (0, 3)), ((0,), (3, 0, 3))])
def test_damaged_last_line_is_sealed_before_the_next_append(
    shape: tuple[tuple[int, ...], ...], byte: bytes
) -> None:
    """What is appended after damage that ends with a newline is whole, and none of the damage."""
    log = written(shape)
    spoilt = _spoilt(log.data, [(len(log.data) - 1_000, len(log.data) - 100)], byte)
    assert _present(spoilt) >= set(log.appends[0].texts)  # and so is what `check_log` appends


@examples(60)
@given(_shapes(), st.integers(0, 1 << 20), st.integers(1, 200))
def test_damage_in_one_line_of_an_append_costs_that_line(
    shape: tuple[tuple[int, ...], ...], place: int, size: int
) -> None:
    """Bytes that are spoilt inside a line, without NUL bytes, hide one record and no other."""
    log = written(shape)
    first = log.appends[0].start
    start = first + place % (len(log.data) - first)
    line_start = log.data.rfind(b"\n", 0, start) + 1
    line_end = log.data.index(b"\n", start)
    start = min(start, line_end - 1)
    found = _present(_spoilt(log.data, [(start, min(start + size, line_end))], b"\xff"))
    hit = log.data.count(b"\n", first, line_start)
    texts = [text for append in log.appends for text in append.texts]
    assert found == {text for number, text in enumerate(texts) if number != hit}


@examples(60)
@given(_shapes(), st.integers(0, 1 << 20))
def test_page_of_other_bytes_inside_an_append_undoes_it(
    shape: tuple[tuple[int, ...], ...], place: int
) -> None:
    """Where a page holds something else instead of zeros, the gap in the count-down tells."""
    log = written(shape)
    first = log.appends[0].start
    start = first + place % (len(log.data) - first)
    end = min(start + _PAGE, len(log.data))
    found = _present(_spoilt(log.data, [(start, end)], b"\xff"))
    for append in log.appends:
        begins = log.data.index(b"\n", append.start) + 1
        inside = log.data.count(b"\n", start, end)
        if begins <= start and end < append.end and inside:
            assert not found & set(append.texts)
        elif append.end <= start:
            assert found >= set(append.texts)


@examples(100)
@given(_cuts(), st.integers(0, 1 << 20))
def test_index_that_saw_a_part_agrees_with_one_that_sees_all(
    cut: tuple[Written, list[tuple[int, int]], int], seen: int
) -> None:
    """A listing that goes on from where it stopped counts what a new one counts."""
    log, ranges, length = cut
    data = _spoilt(log.data, ranges)[:length]
    seen = data.rfind(b"\n", 0, seen % (len(data) + 1)) + 1
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(dir=QUICK) as root,
        JsonlStore(root) as store,
    ):
        patch.setattr(index, "_GROWN_BYTES_MIN", 0)
        store.create(KEY)
        log_file(root).write_bytes(data[:seen])
        store.sessions(owner=ANY_OWNER)
        with log_file(root).open("ab") as file:
            file.write(data[seen:])
        (info,) = store.sessions(owner=ANY_OWNER)
        report = store.verify(KEY)
        assert (info.records, info.head) == (report.records, report.head)
