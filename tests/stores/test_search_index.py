"""The index of memory: a cache that is made anew where it is missing, stale, corrupt or locked."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from holdfast.core.memory.ranking import query_terms
from holdfast.core.memory.search_terms import terms
from holdfast.ports.side_stores import IndexPassage, IndexSource, NewSource, places_of, source_of
from holdfast.stores.search.sqlite import SqliteSearchIndex as SearchIndex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _passage(text: str, ts: float = 1.0) -> IndexPassage:
    return IndexPassage(text, terms(text), "user", record="r1", ts=ts)


def _put(index: SearchIndex, name: str, *texts: str) -> None:
    found = [_passage(text) for text in texts]
    index.replace([NewSource("session", name, "1", "r1", found)])


def _sources(index: SearchIndex) -> dict[int, IndexSource]:
    return {one.id: one for one in index.sources()}


def _found(index: SearchIndex, query: str) -> list[str]:
    matches = index.matches(query_terms(query), terms(query), _sources(index))
    by_id = {one.id: one.text for one in index.passages([one.id for one in matches.best])}
    return [by_id[one.id] for one in matches.best]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SearchIndex]:
    """An index that connects when it is first used."""
    with closing(SearchIndex(str(tmp_path / "recall.sqlite3"))) as index:
        yield index


def test_passages_are_found_by_their_terms(index: SearchIndex) -> None:
    _put(index, "main/one", "The server is slow.", "Releases are on Tuesday.")

    assert _found(index, "when was it released") == ["Releases are on Tuesday."]
    assert _found(index, "nothing of that") == []


def test_what_was_replaced_or_forgotten_is_not_found(index: SearchIndex) -> None:
    _put(index, "main/one", "about bananas")
    _put(index, "main/one", "about apples")
    assert _found(index, "bananas apples") == ["about apples"]

    index.forget(_sources(index))
    assert _found(index, "apples") == []
    assert index.sources() == []


def test_a_source_is_extended_once(index: SearchIndex) -> None:
    """Two that saw the same state add the same passages: only the first does."""
    _put(index, "main/one", "about apples")
    (known,) = index.sources()
    for _writer in range(2):
        index.extend(known, stamp="2", head="r2", passages=[_passage("about pears", ts=9.0)])

    (now,) = index.sources()
    assert (now.passages, now.stamp, now.head) == (2, "2", "r2")
    assert (now.oldest, now.newest) == (1.0, 9.0)
    assert _found(index, "pears") == ["about pears"]


def test_only_allowed_sources_are_found(index: SearchIndex) -> None:
    _put(index, "main/one", "a secret garden")
    _put(index, "main/two", "a public garden")
    allowed = {id_: one for id_, one in _sources(index).items() if one.name == "main/two"}
    matches = index.matches(query_terms("garden"), ["garden"], allowed)

    assert {one.source for one in matches.best} == set(allowed)
    assert matches.holding == {"garden": 1}


def test_what_stands_around_a_passage_is_of_its_source(index: SearchIndex) -> None:
    _put(index, "a", "alpha")
    _put(index, "b", *(f"beta {n}" for n in range(100)))
    _put(index, "c", "gamma")
    first = min(one.id for one in index.matches({"beta": 1.0}, (), _sources(index)).best)

    assert [row.text for row in index.around(first)] == [f"beta {n}" for n in range(33)]
    assert [row.text for row in index.around(first + 50)] == [f"beta {n}" for n in range(18, 83)]


def test_what_sources_share_is_counted_in_the_allowed_ones(index: SearchIndex) -> None:
    _put(index, "a", "kiln kiln", "kiln")
    _put(index, "b", "kiln")
    _put(index, "c", "glaze")
    allowed = {id_: one for id_, one in _sources(index).items() if one.name != "b"}
    a, c = (next(i for i, one in allowed.items() if one.name == name) for name in "ac")
    holding = index.holding(["kiln", "glaz", "nowhere"], allowed)

    assert holding == {"kiln": 3, "glaz": 1, "nowhere": 0}
    assert index.count_by_source(holding, allowed) == {"kiln": {a: 3}, "glaz": {c: 1}}


def test_terms_that_are_everywhere_are_not_looked_up_for_what_is_shared(
    index: SearchIndex,
) -> None:
    _put(index, "a", "kiln")

    assert index.count_by_source({"kiln": 1_000_000}, _sources(index)) == {}


def test_the_index_outlives_the_process_and_is_private(index: SearchIndex, tmp_path: Path) -> None:
    _put(index, "main/one", "about apples")
    index.close()
    path = tmp_path / "recall.sqlite3"

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert _found(index, "apple") == ["about apples"]


@pytest.mark.parametrize(
    "garbage", [b"not a database at all" * 100, b"SQLite format 3\0" + b"x" * 900]
)
def test_a_corrupt_index_is_set_aside(index: SearchIndex, tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "recall.sqlite3").write_bytes(garbage)
    _put(index, "main/one", "about apples")

    assert _found(index, "apples") == ["about apples"]
    assert (tmp_path / "recall.sqlite3.corrupt").read_bytes() == garbage


def test_an_index_of_another_version_is_made_anew(index: SearchIndex, tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "recall.sqlite3"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE passages (something TEXT)")
    other.execute("PRAGMA user_version = 999")
    other.close()
    _put(index, "main/one", "about apples")

    assert _found(index, "apples") == ["about apples"]


def test_without_a_place_to_write_it_is_kept_in_memory(tmp_path: Path) -> None:
    """No folder, or a link in its place: a search works all the same."""
    (tmp_path / "target").write_text("")
    os.symlink(tmp_path / "target", tmp_path / "link")
    for path in (tmp_path / "missing" / "recall.sqlite3", tmp_path / "link"):
        with closing(SearchIndex(str(path))) as index:
            _put(index, "main/one", "about apples")

            assert _found(index, "apples") == ["about apples"]
    assert (tmp_path / "target").read_text() == ""


def test_vectors_are_kept_for_passages_that_are_there(index: SearchIndex) -> None:
    """Those of another maker, and of what was forgotten, go."""
    _put(index, "main/one", "about apples", "about pears")
    index.vectors.use_model("maker/1")
    waiting = index.vectors.missing(10)
    made = [(id_, b"\x01\x02") for id_, _text in waiting] + [(12345, b"\x03\x04")]
    assert index.vectors.add("maker/1", made)

    assert len(waiting) == 2
    assert index.vectors.missing(10) == []
    span = places_of(source_of(waiting[0][0]))
    assert index.vectors.load("maker/1", [span]) == [(span[0], 2, b"\x01\x02" * 2)]
    index.vectors.use_model("maker/1")
    assert index.vectors.load("maker/1", [span])[0].length == 2
    index.vectors.use_model("maker/2")
    assert index.vectors.load("maker/2", [span]) == []
