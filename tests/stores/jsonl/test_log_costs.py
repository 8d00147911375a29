"""Looking for a record, facts and totals cost what is asked for, and are what a scan would say."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stores.reads import bytes_read
from tests.support.runs import examples

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Header, Label, User, encode
from holdfast.core.log.walk import position_of
from holdfast.core.owners import ANY_OWNER
from holdfast.errors import UsageError
from holdfast.ports import ANY_HEAD, SessionCatalogue
from holdfast.stores.jsonl import catalogue, index, log
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.stores.lines import SEAL_LINE

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.records import Record

KEY = SessionKey("main", "work")
USAGE = {"input_tokens": 10, "output_tokens": 2}


def log_of(root: str | Path) -> Path:
    return Path(root) / "agents" / "main" / "sessions" / "work.jsonl"


LINES = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(0, 400), st.integers(1, 3)),
        st.tuples(st.just("batch"), st.integers(2, 5), st.integers(1, 3)),
        st.tuples(st.just("half"), st.integers(2, 5), st.integers(1, 3)),
        st.tuples(st.just("damage"), st.integers(0, 90), st.just(0)),
        st.tuples(st.just("seal"), st.just(0), st.just(0)),
        st.tuples(st.just("back"), st.integers(1, 9), st.just(0)),
    ),
    max_size=40,
)
"""Lines of a log: single records, whole and half appends, damage, seals, and ids that go back."""


def bytes_of(lines: list[tuple[str, int, int]], *, is_torn: bool) -> tuple[bytes, list[str]]:
    """The bytes of a log, and the ids in it."""
    data, ids = encode(Header(id="work", agent="main", ts=1.0)) + b"\n", ["work"]
    number = 0x170

    def record(text: str, more: int | None, step: int) -> bytes:
        nonlocal number
        number += step
        ids.append(f"{number:04x}")
        return encode(User(content=text, id=ids[-1], ts=1.0, more=more)) + b"\n"

    for kind, size, step in lines:
        if kind == "record":
            data += record("x" * size, None, step)
        elif kind in ("batch", "half"):
            count = size if kind == "batch" else size - 1
            data += b"".join(record("y", size - 1 - at, step) for at in range(count))
        elif kind == "damage":
            data += b"{" * size + b"\n"
        elif kind == "seal":
            data += SEAL_LINE + b"\n"
        else:
            number -= size
    return data[:-1] if is_torn else data, ids


@examples(100)
@given(lines=LINES, is_torn=st.booleans(), asked=st.lists(st.text("0123456789abwork@", max_size=5)))
def test_the_index_finds_what_a_scan_finds(
    lines: list[tuple[str, int, int]], asked: list[str], *, is_torn: bool
) -> None:
    """Every id, every prefix and any other text lead to the same record, or the same refusal: by
    halving where ids only grow, and by a table where they do not."""
    data, ids = bytes_of(lines, is_torn=is_torn)
    names = {
        *asked,
        *ids,
        *(name[:cut] for name in ids for cut in (1, 2, 3)),
        "@0",
        f"@{len(data)}",
    }
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "_SCANNED_BYTES", 0)
        patch.setattr(log, "_NEAR_BYTES", 64)
        patch.setattr(index, "_GROWN_BYTES_MIN", 1)
        log_of(root).parent.mkdir(parents=True)
        log_of(root).write_bytes(data)
        with JsonlStore(root) as store, store.open_log(KEY) as opened:
            for name in names:
                found = outcome(lambda name=name: store.locate(opened, name))  # type: ignore[misc]
                assert found == outcome(lambda name=name: position_of(opened, name))  # type: ignore[misc]


def outcome(locate: Callable[[], object]) -> object:
    """The position, or the kind of refusal and the first of its candidates."""
    try:
        return locate()
    except UsageError as error:
        return type(error), sorted(getattr(error, "candidates", ()))[:8]


def _imported(numbers: range) -> bytes:
    """Records with ids of another tool, which do not grow."""
    ids = (hashlib.sha256(str(number).encode()).hexdigest()[:32] for number in numbers)
    return b"".join(encode(User(content="x" * 90, id=name, ts=1.0)) + b"\n" for name in ids)


def test_ids_that_do_not_grow_follow_the_log(tmp_path: Path) -> None:
    """A log that grew, was rewritten, was cut short: its records are found, and no others. Nothing
    of them is left in the index once the session is erased."""
    path = log_of(tmp_path)
    path.parent.mkdir(parents=True)
    header = encode(Header(id="work", agent="main", ts=1.0)) + b"\n"

    def find(store: JsonlStore, number: int) -> object:
        name = hashlib.sha256(str(number).encode()).hexdigest()[:20]
        with store.open_log(KEY) as opened:
            found = outcome(lambda: store.locate(opened, name))
            assert found == outcome(lambda: position_of(opened, name))
            return found

    with JsonlStore(tmp_path) as store:
        for content in (
            header + _imported(range(3_000)),
            header + _imported(range(4_000)),  # grown
            header + _imported(range(1_000, 5_000)),  # rewritten, of the same size
            header + _imported(range(2_000, 5_000)),  # cut short
        ):
            with path.open("ab") as file:
                if content.startswith(path.read_bytes()):
                    file.write(content[file.tell() :])
                else:
                    path.write_bytes(content)
            places = [find(store, number) for number in range(0, 5_000, 250)]
            assert sum(isinstance(place, int) for place in places) == content.count(b"\n") // 250
        database = tmp_path / "index.sqlite3"
        known = hashlib.sha256(b"4000").hexdigest()[:32].encode()
        assert known in b"".join(path.read_bytes() for path in tmp_path.glob("index.sqlite3*"))
        store.erase_from_indexes([KEY])
        assert database.exists()
        assert known not in b"".join(path.read_bytes() for path in tmp_path.glob("index.sqlite3*"))


@pytest.mark.parametrize("question", ["find", "find a prefix", "an id that is not there"])
def test_a_record_of_an_imported_log_is_found_at_the_same_cost(
    question: str, tmp_path: Path
) -> None:
    """Once its ids are known, no lookup takes 1.5 times the bytes in a log 8 times as long."""
    read = {}
    for count in (4_000, 32_000):
        path = log_of(tmp_path / str(count))
        path.parent.mkdir(parents=True)
        header = encode(Header(id="work", agent="main", ts=1.0)) + b"\n"
        path.write_bytes(header + _imported(range(count)))
        name = hashlib.sha256(str(count // 2).encode()).hexdigest()[:32]
        with JsonlStore(tmp_path / str(count)) as store:
            QUESTIONS[question](store, name)
            with bytes_read() as counted:
                QUESTIONS[question](store, name)
            read[count] = counted.total
    assert read[32_000] <= 1.5 * read[4_000] + 4_096, read


@examples(40)
@given(lines=LINES, more=LINES, is_torn=st.booleans())
def test_kept_totals_and_facts_are_those_of_a_scan(
    lines: list[tuple[str, int, int]], more: list[tuple[str, int, int]], *, is_torn: bool
) -> None:
    """Also after a log grew, and only its new part was read."""
    data, _ids = bytes_of(lines + more, is_torn=is_torn)
    first, _ids = bytes_of(lines, is_torn=is_torn)
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "_GROWN_BYTES_MIN", 1)
        log_of(root).parent.mkdir(parents=True)
        with JsonlStore(root) as store:
            for content in (first, data):
                with log_of(root).open("ab") as file:
                    file.write(content[file.tell() :])
                for _ in range(2):
                    assert store.totals(KEY) == SessionCatalogue.totals(store, KEY)
                    scanned = SessionCatalogue.info(store, KEY)
                    assert store.info(KEY) == scanned == store.sessions(owner=ANY_OWNER)[0]


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Logs of two lengths."""
    made = {}
    for count in (2_000, 32_000):
        made[count] = tmp_path_factory.mktemp(str(count))
        with JsonlStore(made[count]) as store:
            store.create(KEY)
            turn: list[Record] = [
                User(content="a question " * 9),
                Assistant(content="an answer", usage=USAGE),
            ]
            for _ in range(count // 2_000):
                store.append_each(KEY, turn * 1_000, durability="buffered")
    return made


def middle_id(root: Path) -> str:
    data = log_of(root).read_bytes()
    line = data[len(data) // 2 :].split(b"\n")[1]
    return line.partition(b'"id":"')[2].partition(b'"')[0].decode()


QUESTIONS: dict[str, Callable[[JsonlStore, str], object]] = {
    "find": lambda store, name: store.find(KEY, name),
    "find a prefix": lambda store, name: outcome(lambda: store.find(KEY, name[:-1])),
    "an id that is not there": lambda store, name: outcome(lambda: store.find(KEY, name + "0")),
    "totals": lambda store, _name: store.totals(KEY),
    "info": lambda store, _name: store.info(KEY),
    "label": lambda store, _name: (
        store.append(KEY, [Label(label="x")], expect=ANY_HEAD) and store.info(KEY)
    ),
    "follow": lambda store, _name: list(store.follow(KEY, idle_seconds=0)),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_costs_the_same_in_a_long_log(question: str, roots: dict[int, Path]) -> None:
    """Once the index knows a log, no answer takes 1.5 times the bytes in one 16 times as long."""
    read = {}
    for count, root in roots.items():
        name = middle_id(root)
        with JsonlStore(root) as store:
            QUESTIONS[question](store, name)
            with bytes_read() as counted:
                QUESTIONS[question](store, name)
            read[count] = counted.total
    assert read[32_000] <= 1.5 * read[2_000] + 4_096, read


def test_a_head_that_we_wrote_last_is_not_read(tmp_path: Path) -> None:
    """As long as no one else wrote, the log has its name, and it is as long as we left it."""
    with JsonlStore(tmp_path) as store, JsonlStore(tmp_path) as other:
        store.create(KEY)
        first, second = (
            store.append(KEY, [User(content=text)], expect=ANY_HEAD).head for text in "ab"
        )
        with bytes_read() as read:
            assert store.is_head(KEY, second)
        assert read.total == 0
        assert not store.is_head(KEY, first)
        third = other.append(KEY, [User(content="c")], expect=second).head
        assert not store.is_head(KEY, second)
        assert store.is_head(KEY, third)
        fourth = store.append(KEY, [User(content="d")], expect=third).head
        store.remove(KEY)
        store.create(KEY)
        assert not store.is_head(KEY, fourth)
