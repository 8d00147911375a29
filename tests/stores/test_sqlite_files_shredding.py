"""A key that was overwritten is in no byte of a file, however its rows were moved before."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.databases import read_index

from holdfast.core.memory.search_terms import terms
from holdfast.ports.side_stores import IndexPassage, NewSource
from holdfast.stores.search.sqlite import FILE_NAME, SqliteSearchIndex
from holdfast.stores.sqlite_files import KEYS_TABLE, Key, destroy_keys, new_key


@given(secret=st.binary(min_size=16, max_size=16), data=st.binary(max_size=300))
def test_what_was_scrambled_is_restored(secret: bytes, data: bytes) -> None:
    """Each time it is stored, it is stored as other bytes."""
    key = Key(1, secret)
    stored = [key.scramble(data), key.scramble(data)]
    assert [key.restore(one) for one in stored] == [data, data]
    assert stored[0] != stored[1]
    if len(data) > 8:
        assert data not in stored[0]


def test_no_copy_of_a_shredded_key_is_left(tmp_path: Path) -> None:
    """Plain rows leave some behind, also with `secure_delete`: this is why there are keys."""
    rng = random.Random(3)
    path = tmp_path / "keys.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA secure_delete = ON")
        db.execute(KEYS_TABLE)
        db.execute("CREATE TABLE plain (name TEXT PRIMARY KEY, text TEXT)")
        living: dict[int, Key] = {}
        gone: list[bytes] = []
        lost: list[bytes] = []
        for _round in range(30):
            db.execute("BEGIN")
            for _ in range(rng.randrange(500)):
                key = new_key(db)
                living[key.id] = key
                text = f"words-{key.id}-" + "x" * rng.randrange(90)
                db.execute("INSERT INTO plain VALUES (?, ?)", (f"{rng.random()}", text))
            for id_ in rng.sample(sorted(living), len(living) // 3):
                destroy_keys(db, [id_])
                gone.append(living.pop(id_).secret)
                db.execute("DELETE FROM plain WHERE text GLOB ?", (f"words-{id_}-*",))
                lost.append(f"words-{id_}-".encode())
            db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        data = path.read_bytes()
    assert len(gone) > 1_000
    assert [secret for secret in gone if secret in data] == []
    assert all(key.secret in data for key in living.values())
    assert [text for text in lost if text in data], "rows that moved left copies"


def test_an_erasure_shreds_the_keys_of_what_it_erases(tmp_path: Path) -> None:
    """The keys of its source and of each segment that held its terms, also of earlier states."""
    path = tmp_path / FILE_NAME
    with closing(SqliteSearchIndex(str(path))) as index:
        for number in range(40):
            put(index, "main/gone", f"quokka {number}", "ann")
            put(index, f"main/s{number}", f"the harbour {number}", "ann")
        put(index, "main/bobs", "a kiln", "bob")
        assert b"quokka" in read_index(path)
        index.erase(["main/gone"])
        assert b"quokka" not in read_index(path)
        before = keys_in(path)
        index.erase([f"main/s{number}" for number in range(40)])
        assert [source.name for source in index.sources()] == ["main/bobs"]
        left = keys_in(path)
        assert len(left) == 2, "those of the source and the segment that are left"
        data = b"".join(one.read_bytes() for one in tmp_path.iterdir())
        assert [secret for secret in before - left if secret in data] == []
        assert all(secret in data for secret in left)


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs the counters of Linux")
def test_an_erasure_writes_as_much_among_many(tmp_path: Path) -> None:
    """Ten sessions of one owner: what others have is not written again; and a session costs the
    index no more than three times its text."""
    written = {}
    rng = random.Random(7)
    words = [f"word{number:x}" for number in range(3_000)]
    for owners in (5, 100):
        with closing(SqliteSearchIndex(str(tmp_path / f"{owners}.sqlite3"))) as index:
            sources = []
            for number in range(10 * owners):
                texts = [" ".join(rng.choices(words, k=55)) for _ in range(8)]
                made = [IndexPassage(text, terms(text), "user", record="r") for text in texts]
                owner = f"owner-{number // 10}"
                sources.append(NewSource("session", f"main/s{number}", "", "", made, owner))
            size = sum(len(passage.text) for source in sources for passage in source.passages)
            before = bytes_written()
            index.replace(sources)
            index.close()
            assert bytes_written() - before <= 3 * size
            before = bytes_written()
            index.erase([f"main/s{number}" for number in range(10)])
            written[owners] = bytes_written() - before
    assert written[100] <= 2 * written[5]


def bytes_written() -> int:
    """Return the bytes that this process gave to the system to write."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("wchar")))


def put(index: SqliteSearchIndex, name: str, text: str, owner: str) -> None:
    passage = IndexPassage(text, terms(text), "user")
    index.replace([NewSource("session", name, "", "", [passage], owner)])


def keys_in(path: Path) -> set[bytes]:
    with closing(sqlite3.connect(path)) as db:
        keys = {row[0] for row in db.execute("SELECT key FROM keys")}
    return keys - {bytes(16)}
