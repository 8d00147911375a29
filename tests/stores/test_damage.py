"""Damage stays local on every store: one suite of damage for files and for tables.

Whatever happens to one line of a log, the session can be read, continued, verified, repaired,
copied and erased, and no line outside the append of the damaged one is lost.
"""

from __future__ import annotations

from itertools import count, product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import check_all
from tests.support.runs import examples, sample

from holdfast import Session
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Compaction, Label, Rewind, User
from holdfast.core.owners import ANY_OWNER
from holdfast.engine.erasing import erase
from holdfast.errors import NoSuchRecord, NoSuchSession
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.stores.postgres.store import PostgresStore
from holdfast.testing.conformance.samples import texts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.log.records import Record
    from holdfast.ports import SessionStore

DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda _line: None,
    "emptied": lambda _line: b"",
    "shortened": lambda line: line[: len(line) // 2],
    "shorter by a byte": lambda line: line[:-1],
    "garbage": lambda line: b"x" * len(line),
    "NUL": lambda line: bytes(len(line)),
    "longer": lambda line: line + b"??",
    "two lines": lambda line: line[:9] + b"\n" + line[9:],
}
"""What can happen to a line; None where nothing is left of it."""


class Written(NamedTuple):
    """A log before it is damaged."""

    lines: list[bytes]
    ids: list[str]
    """The id of each line."""
    appends: list[int]
    """The number of the append that wrote each line."""


def write_log(store: SessionStore, key: SessionKey) -> Written:
    """Write a log with everything that damage can hit: batches, a cut, an abandoned branch."""
    store.create(key, label="mine")
    ids, appends = [key.session], [0]

    def add(*records: Record) -> str:
        done = store.append(key, list(records), expect=ANY_HEAD)
        appends.extend([appends[-1] + 1] * len(records))
        ids.extend(done.ids)
        return done.ids[0]

    add(User(content="one"))
    kept = add(User(content="two"), Assistant(content="2"), User(content="three"))
    add(Compaction(summary="so far", first_kept=kept))
    add(User(content="four"), Assistant(content="4"))
    fork = add(User(content="five"))
    add(Assistant(content="left"), Label(label="theirs"))
    add(Rewind(to=fork, parent=fork))
    add(User(content="six"), Assistant(content="6 " + "x" * 300), User(content="seven"))
    lines = b"".join(store.export(key)).split(b"\n")[:-1]
    assert len(lines) == len(ids)
    return Written(lines, ids, appends)


def set_lines(store: SessionStore, key: SessionKey, lines: Iterable[bytes | None]) -> None:
    """Replace what is stored of each line, behind the back of the store."""
    if isinstance(store, JsonlStore):
        path = Path(store.root, "agents", key.agent, "sessions", f"{key.session}.jsonl")
        path.write_bytes(b"".join(line + b"\n" for line in lines if line is not None))
        return
    assert isinstance(store, PostgresStore)
    address = store._connections.address
    with psycopg.connect(address.conninfo) as connection:
        where = f'"{address.schema}".records'
        of = f'(SELECT id FROM "{address.schema}".logs WHERE agent = %s AND session = %s)'
        query = f"SELECT position FROM {where} WHERE log = {of} ORDER BY position"
        found = connection.execute(query.encode(), (key.agent, key.session)).fetchall()
        for (position,), line in zip(found, lines, strict=True):
            at = f"WHERE log = {of} AND position = %s"
            if line is None:
                connection.execute(
                    f"DELETE FROM {where} {at}".encode(), (key.agent, key.session, position)
                )
            else:
                query = f"UPDATE {where} SET line = %s {at}"
                connection.execute(query.encode(), (line, key.agent, key.session, position))


def open_store(kind: str, request: pytest.FixtureRequest) -> SessionStore:
    if kind == "files":
        return JsonlStore(request.getfixturevalue("tmp_path"))
    return PostgresStore(request.getfixturevalue("empty_postgres_address"))


def intact(written: Written, hurt: dict[int, str], kind: str) -> set[str]:
    """Return the ids that must be readable: all but the hurt lines, and, where an append lost a
    line as a crash loses it, the rest of that append. NUL bytes may hide where it ends."""
    torn = {
        written.appends[number] + more
        for number, how in hurt.items()
        for more in (0, 1)
        if how == "NUL" or (kind == "files" and how not in ("garbage", "longer") and not more)
    }
    return {
        name
        for number, name in enumerate(written.ids)
        if number not in hurt and written.appends[number] not in torn
    }


def check_damaged(store: SessionStore, key: SessionKey, hurt: dict[int, str], kind: str) -> None:
    """Damage some lines of a new log, and use it in every way."""
    written = write_log(store, key)
    lines: list[bytes | None] = [*written.lines]
    for number, how in hurt.items():
        lines[number] = DAMAGE[how](written.lines[number])
    set_lines(store, key, lines)
    before = [entry.record for entry in store.read_all(key) if entry.standing != "open"]
    if len(hurt) == 1 or (kind == "tables" and "NUL" not in hurt.values()):
        # Of several lost lines in a file, or NUL bytes, nobody can tell which appends they were.
        assert intact(written, hurt, kind) <= {record.id for record in before}
    gone = {written.ids[number] for number in hurt} - {record.id for record in before}
    for name in gone - {key.session}:
        with pytest.raises(NoSuchRecord):
            store.find(key, name)
    check_readers(store, key)
    if kind == "tables" and any(how not in ("longer",) for how in hurt.values()):
        assert not store.verify(key).is_sound
    if kind == "files" or {"longer", "two lines"}.isdisjoint(hurt.values()):  # one row, one line
        check_copies(store, key)
    path = [record.id for record in store.read(key)]
    first = store.append(key, [User(content="next")], expect=store.live(key).head)
    more = store.append(key, [User(content="a"), User(content="b")], expect=store.head(key))
    assert [record.id for record in store.read(key)] == [*path, *first.ids, *more.ids]
    check_readers(store, key)
    sound = store.repair(key).key
    assert store.verify(sound).is_sound
    assert texts_of(store.read(sound)) == texts_of(store.read(key))
    store.begin_erasure(key, owner=ANY_OWNER)
    store.erasable(key, owner=ANY_OWNER)
    store.finish_erasure(key)
    with pytest.raises(NoSuchSession):
        store.live(key)


def check_readers(store: SessionStore, key: SessionKey) -> None:
    """Every way to read agrees on the path and its head."""
    path = list(store.read(key))
    assert store.last(key, 1_000) == path
    assert [entry.record for entry in store.read_all(key) if entry.standing == "path"] == path
    live = store.live(key)
    assert live.head == store.head(key) == store.verify(key).head
    assert list(live.records) == path[len(path) - len(live.records) :]


def check_copies(store: SessionStore, key: SessionKey) -> None:
    """A copy byte for byte has the same positions, records and damage on another store."""
    data = b"".join(store.export(key))
    with MemoryStore() as copy:
        if not data.endswith(b"\n"):
            data += b"\n"
        copy.extend_log(key, data, at=0)
        assert b"".join(copy.export(key)) == data
        assert [record.id for record in copy.read(key)] == [record.id for record in store.read(key)]


@pytest.mark.parametrize("kind", ["files", "tables"])
def test_damage_to_one_line_stays_there(kind: str, request: pytest.FixtureRequest) -> None:
    """Each kind of damage to each line of a log leaves the other appends and every operation."""
    numbers = count(1)
    with open_store(kind, request) as store:
        size = len(write_log(store, SessionKey("main", "measure")).lines)
        cases = sample(list(product(range(size), DAMAGE)), share=1 / 2)

        def check(case: tuple[int, str]) -> None:
            line, how = case
            check_damaged(store, SessionKey("main", f"s{next(numbers)}"), {line: how}, kind)

        check_all(cases, check)


@pytest.mark.parametrize("kind", ["files", "tables"])
def test_damage_to_many_lines_stays_there(kind: str, request: pytest.FixtureRequest) -> None:
    """Any lines can be damaged at once, in any ways."""
    numbers = count(1)
    with open_store(kind, request) as store:

        @given(st.dictionaries(st.integers(0, 14), st.sampled_from(list(DAMAGE)), min_size=2))
        @examples(200)
        def check(hurt: dict[int, str]) -> None:
            check_damaged(store, SessionKey("main", f"m{next(numbers)}"), hurt, kind)

        check()


@pytest.mark.parametrize("kind", ["files", "tables"])
@pytest.mark.parametrize("how", list(DAMAGE))
def test_damaged_session_goes_on_and_can_be_erased(
    kind: str, how: str, request: pytest.FixtureRequest
) -> None:
    """A session whose newest line, and one in the middle, are damaged answers the next message."""
    with open_store(kind, request) as store:
        key = SessionKey("main", "s")
        with Session.open("s", store=store, model="offline") as session:
            for text in ("one", "two", "three"):
                session.say(text)
        lines: list[bytes | None] = [*b"".join(store.export(key)).split(b"\n")[:-1]]
        for number in (2, len(lines) - 1):
            line = lines[number]
            assert line is not None
            lines[number] = DAMAGE[how](line)
        set_lines(store, key, lines)
        with Session.open("s", store=store, model="offline") as session:
            session.say("four")
        texts = texts_of(store.read(key))
        assert texts[-1] == "four"
        assert len(texts) >= 3
        erase(store, key, owner=ANY_OWNER)
        assert list(store.keys()) == []
