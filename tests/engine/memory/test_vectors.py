"""Vectors are loaded once, for sources that may answer, and rank as if loaded each time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast import Memory, SessionKey, User
from holdfast.core.history.access import Caller
from holdfast.core.log.records import Rewind
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from holdfast.ports import SessionStore
    from holdfast.ports.search_index import VectorRun

WORDS = (
    *("apple", "banana", "cherry", "damson", "elder", "fig", "grape", "harbour"),
    *("iris", "jasmine", "kiwi", "lemon"),
)
DAY = 86_400.0


class Letters:
    """Compares texts by their letters."""

    name = "letters/1"

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        return [self._letters(text) for text in texts]

    def _letters(self, text: str) -> bytes:
        counts = [text.lower().count(letter) for letter in "abcdefghijklmnop"]
        length = sum(count * count for count in counts) ** 0.5 or 1.0
        return bytes(round(127 * count / length) for count in counts)


def remember(store: SessionStore, owner: str = "") -> Memory:
    caller = Caller("main", None, owner=owner, visibility="agent")
    return Memory(store, store.notes("main", owner), embedder=Letters(), caller=caller)


def say(store: SessionStore, name: str, *texts: str, owner: str = "") -> None:
    key = SessionKey("main", name)
    if not any(info.key == key for info in store.sessions()):
        store.create(key, owner=owner)
    store.append(key, [User(content=text, ts=DAY) for text in texts], expect=ANY_HEAD)


def count_loaded(memory: Memory, patch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the ids whose vectors are loaded from now on."""
    loaded: list[int] = []
    vectors = memory._index.vectors
    load = vectors.load

    def counted(spans: Sequence[tuple[int, int]]) -> list[VectorRun]:
        runs = load(spans)
        for (first, _end), run in zip(spans, runs, strict=True):
            loaded.extend(range(first, first + run.length))
        return runs

    patch.setattr(vectors, "load", counted)
    return loaded


def test_each_vector_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the caller's sources alone; after that, a search loads what was said since."""
    with MemoryStore() as store:
        for number in range(4):
            say(store, f"ann{number}", "an apple", "a harbour", owner="ann")
            say(store, f"bob{number}", "an apple of bob", owner="bob")
        memory = remember(store, "ann")
        loaded = count_loaded(memory, monkeypatch)
        assert memory.search("apple", scope="all")
        assert len(loaded) == len(set(loaded)) == 8
        assert memory.search("harbour", scope="all")
        assert memory.search("harbour", scope="notes") == []
        assert memory.search("apple", scope="all")
        assert len(loaded) == 8
        say(store, "ann2", "a cherry", owner="ann")
        say(store, "bob2", "a cherry of bob", owner="bob")
        assert memory.search("cherry", scope="all")[0].text == "a cherry"
        assert len(loaded) == len(set(loaded)) == 9


def test_what_others_said_does_not_keep_vectors_from_being_used() -> None:
    """Passages of other owners that have no vector yet are none of the caller's business."""
    with MemoryStore() as store:
        say(store, "hers", "an apple", owner="ann")
        say(store, "his", *(f"banana {number}" for number in range(200)), owner="bob")
        bob = remember(store, "bob")
        assert bob.search("banana", scope="all")
        assert "no vector yet" in bob.notice
        ann = remember(store, "ann")
        assert ann.search("apple", scope="all")
        assert ann.notice == ""


ACTS = st.sampled_from(["say", "say", "rewind", "remove", "note", "edit", "search", "search"])


@examples(100)
@given(acts=st.lists(st.tuples(ACTS, st.integers(0, 9)), min_size=8, max_size=30))
def test_a_memory_that_was_used_answers_as_a_new_one(acts: list[tuple[str, int]]) -> None:
    """Whatever was said, rewound, removed or edited between its searches."""
    with MemoryStore() as store:
        used = remember(store)
        for number, (act, value) in enumerate([*acts, ("search", 0)]):
            do(store, act, value, number)
            if act == "search":
                query = WORDS[value]
                assert hits(used, query) == hits(remember(store), query)
                assert used.notice == ""


def do(store: SessionStore, act: str, value: int, number: int) -> None:
    key, notes = SessionKey("main", f"s{value % 3}"), store.notes("main")
    text = " ".join(random.Random(number).sample(WORDS, 3))
    is_there = any(info.key == key for info in store.sessions())
    if act == "say":
        say(store, key.session, text)
    elif act == "note":
        notes.append([text])
    elif act == "edit":
        is_new = all(file.path != "MEMORY.md" for file in notes.files())
        before = None if is_new else notes.data("MEMORY.md")
        notes.put("MEMORY.md", before, f"- {text}\n".encode())
    elif act == "rewind" and is_there:
        ids = [record.id for record in store.read(key)]
        store.append(key, [Rewind(to=ids[len(ids) // 2])], expect=ANY_HEAD)
    elif act == "remove" and is_there:
        store.remove(key)


def hits(memory: Memory, query: str) -> list[Any]:
    found = memory.search(query, scope="all", limit=20)
    return [(hit.text, hit.session, hit.path, hit.score) for hit in found]


@pytest.mark.files_only("it compares files with a database")
@pytest.mark.parametrize("seed", range(3))
def test_a_database_ranks_as_files_do(seed: int, tmp_path: Path, postgres_address: str) -> None:
    """The same hits, in the same order, with the same scores, by words and by meaning."""
    found = []
    for address in (str(tmp_path), postgres_address):
        chance = random.Random(seed)
        with open_store(address) as store:
            for number in range(12):
                texts = [" ".join(chance.choices(WORDS, k=6)) for _ in range(chance.randint(1, 8))]
                say(store, f"s{number}", *texts)
            store.notes("main").append([" ".join(chance.choices(WORDS, k=4)) for _ in range(10)])
            memory = remember(store)
            queries = [" ".join(chance.choices(WORDS, k=chance.randint(1, 3))) for _ in range(12)]
            found.append([hits(memory, query) for query in (*queries, "mango", "cab")])
            assert memory.notice == ""
    assert found[0] == found[1]
    assert all(found[0][:12])
