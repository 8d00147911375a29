"""Whose a session is, and its newest pages: asked of the first line and of the end alone."""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.stores.reads import bytes_read

from holdfast.core.history.access import Caller, decide, subject_of
from holdfast.core.limits import READ_BLOCK_BYTES
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Header, User, encode
from holdfast.core.owners import ANY_OWNER, NO_OWNER, UNKNOWN_OWNER, NamedOwner, owner_of
from holdfast.errors import NoSuchRecord, PathRejected, StoreError
from holdfast.ports import ANY_HEAD
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.log.records import Record
    from holdfast.core.owners import FoundOwner

KEY = SessionKey("main", "work")
MEGABYTE = 1_000_000
SAID = b'{"type":"user","content":"hello"}\n'
OPEN = b'{"type":"user","content":"of an append that broke off","more":1}\n'
HEADER = encode(Header(id="work", agent="main", format="holdfast", version=1, owner="ann")) + b"\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JsonlStore]:
    with JsonlStore(tmp_path) as opened:
        yield opened


def log_of(store: JsonlStore, key: SessionKey = KEY) -> Path:
    path = Path(store.root) / "agents" / key.agent / "sessions" / f"{key.session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def listed_owner(store: JsonlStore, key: SessionKey = KEY) -> FoundOwner:
    (found,) = [info.owner for info in store.sessions(owner=ANY_OWNER) if info.key == key]
    return found


# Logs that do not begin as ours do


@pytest.mark.parametrize(
    "data", [b"", SAID, SAID + HEADER, b"\xef\xbb\xbf" + SAID, OPEN, OPEN + SAID]
)
def test_header_is_made_up_for_a_log_without_one(store: JsonlStore, data: bytes) -> None:
    """A log of another tool, or an empty file, belongs to nobody; a later header says nothing."""
    log_of(store).write_bytes(data)
    assert store.header(KEY) == Header(id="work", agent="main")
    assert listed_owner(store) == NO_OWNER


@pytest.mark.parametrize(
    "first",
    [
        b"garbage\n",
        b"\n",
        b"\x00" * 80 + b"\n",
        b'{"type":"session","owner":7}\n',
        HEADER[:-10],
        HEADER[:-10] + b"\x18\n",
    ],
)
@pytest.mark.parametrize("rest", [b"", SAID, HEADER + SAID])
def test_header_that_is_damaged_is_refused_and_the_owner_unknown(
    store: JsonlStore, first: bytes, rest: bytes
) -> None:
    """Where the first line cannot be read, nobody knows whose the session is: list and read agree.

    A header further down does not count: it may have been put there.
    """
    log_of(store).write_bytes(first + rest)
    with pytest.raises(StoreError) as caught:
        store.header(KEY)
    assert "main/work" in str(caught.value)
    assert caught.value.hint
    assert listed_owner(store) == UNKNOWN_OWNER
    (info,) = store.sessions(owner=ANY_OWNER)
    for owner in ("", "ann"):
        caller = Caller("main", "work", owner=owner_of(owner), visibility="all", agents=("*",))
        assert not decide(caller, subject_of(KEY, info, info.owner), lambda _key: None).is_allowed


def test_header_of_a_link_is_not_read(store: JsonlStore, tmp_path: Path) -> None:
    """A file that others can change has no header, and in the listing no owner."""
    (tmp_path / "elsewhere").write_bytes(HEADER)
    (tmp_path / "elsewhere").chmod(0o666)
    log_of(store).hardlink_to(tmp_path / "elsewhere")
    with pytest.raises(PathRejected):
        store.header(KEY)
    assert listed_owner(store) == UNKNOWN_OWNER


def test_repaired_copy_keeps_the_owner(store: JsonlStore) -> None:
    """To mend a session gives nobody else a right to read it."""
    log_of(store).write_bytes(HEADER + b"garbage\n" + SAID)
    copy = store.repair(KEY).key
    assert store.header(copy).owner == "ann"
    assert listed_owner(store, copy) == NamedOwner("ann")


def test_listing_keeps_the_owner_of_a_log_that_grew(store: JsonlStore) -> None:
    """The owner is known also where only the new part of a log is read."""
    store.create(KEY, owner=NamedOwner("ann"), parent_session="main/old", reason="spawn")
    texts = [User(content="x" * MEGABYTE) for _number in range(9)]
    store.append_each(KEY, texts, durability="buffered")
    for _time in range(2):
        (info,) = store.sessions(owner=ANY_OWNER)
        assert (info.owner, info.parent_session, info.reason) == (
            NamedOwner("ann"),
            "main/old",
            "spawn",
        )
        store.append(KEY, [User(content="more")], expect=ANY_HEAD)


# What it costs


@pytest.fixture(scope="module")
def sizes() -> Iterator[dict[str, JsonlStore]]:
    """The same conversation at 1 MB and at 100 MB."""
    with tempfile.TemporaryDirectory() as folder:
        stores = {}
        for name, count in (("small", 200), ("large", 20_000)):
            stores[name] = store = JsonlStore(Path(folder, name))
            store.create(KEY, owner=NamedOwner("ann"))
            for _part in range(0, count, 200):
                records = [User(content="word " * 1_000)] * 200
                store.append_each(KEY, records, durability="buffered")
        yield stores
        for store in stores.values():
            store.close()


def newest(store: JsonlStore, count: int) -> list[Record]:
    way = store.back(KEY)
    return [next(way) for _number in range(count)]


PAGES: dict[str, Callable[[JsonlStore], object]] = {
    "head": lambda store: store.head(KEY),
    "header": lambda store: store.header(KEY),
    "last": lambda store: store.last(KEY, 50),
    "way back": lambda store: newest(store, 50),
    "second page": lambda store: store.last(KEY, 50, before=store.last(KEY, 50)[0].id),
}


@pytest.mark.parametrize("page", PAGES)
def test_newest_page_costs_the_page_and_not_the_log(
    sizes: dict[str, JsonlStore], page: str
) -> None:
    """At 100 MB as much is read as at 1 MB: the page and the rest of a block."""
    read = {}
    for name, store in sizes.items():
        with bytes_read() as counted:
            PAGES[page](store)
        read[name] = counted.total
    assert log_of(sizes["large"]).stat().st_size > 100 * MEGABYTE
    records = {"last": 50, "way back": 50, "second page": 150}.get(page, 0)
    assert read["large"] <= records * 5_100 + 3 * READ_BLOCK_BYTES // 4
    assert abs(read["large"] - read["small"]) <= READ_BLOCK_BYTES


def test_page_before_a_record_costs_what_lies_between(sizes: dict[str, JsonlStore]) -> None:
    """Ten pages back costs ten pages more than the newest, and is not looked for from the front."""
    store = sizes["large"]
    before = store.last(KEY, 500)[0].id
    with bytes_read() as read:
        page = store.last(KEY, 50, before=before)
    assert len(page) == 50
    assert read.total <= 550 * 5_100 + READ_BLOCK_BYTES


# Damage between the pages


def test_page_before_a_record_without_an_id_goes_by_its_position(store: JsonlStore) -> None:
    """Records that were stored without an id are paged through by the ids they are shown with."""
    log_of(store).write_bytes(SAID * 5)
    everything = list(store.read(KEY))
    for index, record in enumerate(everything):
        assert store.last(KEY, 2, before=record.id) == everything[max(0, index - 2) : index]


@pytest.mark.parametrize(
    ("ids", "order", "expected"),
    [
        ("abcde", "0123401234", "43210"),  # a file that was appended to itself
        ("abcde", "0112234", "43210"),  # lines that stand there twice
        ("aabab", "01234", "43210"),  # ids that were given twice
        ("aaabb", "0123434", "4343210"),  # and both: rather twice than not at all
    ],
)
def test_way_back_never_leads_to_where_it_has_been(
    store: JsonlStore, ids: str, order: str, expected: str
) -> None:
    """Where ids occur twice, pages of every size come to an end and leave no record out."""
    lines = [encode(User(content=f"{number}", id=name)) for number, name in enumerate(ids)]
    log_of(store).write_bytes(b"\n".join([HEADER[:-1], *(lines[int(one)] for one in order), b""]))
    everything = list(store.back(KEY))
    assert "".join(str(one.content) for one in everything if isinstance(one, User)) == expected
    assert len({record.id for record in everything}) == len(everything)
    for size in range(1, 7):
        pages: list[Record] = []
        before = None
        while page := list(islice(store.back(KEY, before=before), size)):
            pages += page
            before = page[-1].id
        assert pages == everything


def test_page_before_a_record_bridges_damage(store: JsonlStore) -> None:
    """Garbage, and a parent that is not there, do not end the way back."""
    ids = ["a", "b", "c", "d"]
    lines = [encode(User(content=one, id=one)) + b"\n" for one in ids]
    lines[2] = encode(User(content="c", id="c", parent="lost")) + b"\n"
    log_of(store).write_bytes(b"garbage\n".join([HEADER, *lines]))
    found = store.last(KEY, 9, before="d")
    assert [record.id for record in found] == ["work", "a", "b", "c"]
    with pytest.raises(NoSuchRecord):
        store.last(KEY, 9, before="lost")
