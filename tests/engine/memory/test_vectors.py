"""Vectors are loaded once, for sources that may answer, and rank as if loaded each time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast import Memory, SessionKey, User
from holdfast.core.history.access import Caller
from holdfast.core.log.records import Rewind
from holdfast.core.owners import ANY_OWNER, NamedOwner, owner_of
from holdfast.engine.memory import vectors as vectors_module
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from holdfast.ports import SessionStore
    from holdfast.ports.side_stores import VectorRun

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
    caller = Caller("main", None, owner=owner_of(owner), visibility="agent")
    return Memory(store, store.notes("main", owner_of(owner)), embedder=Letters(), caller=caller)


def say(store: SessionStore, name: str, *texts: str, owner: str = "") -> None:
    key = SessionKey("main", name)
    if not any(info.key == key for info in store.sessions(owner=ANY_OWNER)):
        store.create(key, owner=owner_of(owner))
    store.append(key, [User(content=text, ts=DAY) for text in texts], expect=ANY_HEAD)


def count_loaded(memory: Memory, patch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the ids whose vectors are loaded from now on."""
    loaded: list[int] = []
    vectors = memory._index.vectors
    load = vectors.load

    def counted(model: str, spans: Sequence[tuple[int, int]]) -> list[VectorRun]:
        runs = load(model, spans)
        for run in runs:
            loaded.extend(range(run.first, run.first + run.length))
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
        assert "32 of 200 passages have a vector" in bob.notice
        ann = remember(store, "ann")
        assert ann.search("apple", scope="all")
        assert ann.notice == ""


def test_what_others_said_is_not_embedded() -> None:
    """The model is given the words of the caller's own sources alone, whoever else has some."""
    with MemoryStore() as store:
        for owner in ("ann", "bob"):
            say(store, owner, *(f"{owner} {number}" for number in range(100)), owner=owner)
            store.notes("main", owner_of(owner)).append([f"{owner} noted"])
            remember(store, owner).refresh("all")
        seen = Listening()
        ann = Memory(
            store,
            store.notes("main", NamedOwner("ann")),
            embedder=seen,
            caller=Caller("main", None, owner=NamedOwner("ann"), visibility="agent"),
        )
        assert ann.search("ann", scope="all")
        assert ann.embed() == 101 - 32
        assert len(seen.texts) == 101 + 1
        assert not [text for text in seen.texts if "bob" in text]
        assert ann.search("ann", scope="all")
        assert ann.notice == ""


class Listening(Letters):
    """Remembers the texts that it is given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        self.texts += texts
        return super().embed(texts)


TOPICS = tuple((f"{stem}ar", f"{stem}ik", f"{stem}os") for stem in "bcdfghjklmnprstvwz")
"""Three words for each of some matters."""
FILL = tuple(f"{first}{second}um" for first in "bdfgk" for second in "aeiou")


class Matters:
    """Knows which words mean the same."""

    name = "matters/1"

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        rows = []
        for text in texts:
            words = text.split()
            counts = [0.05 + sum(word in words for word in topic) for topic in TOPICS]
            length = sum(count * count for count in counts) ** 0.5
            rows.append(bytes(round(127 * count / length) for count in counts))
        return rows


class Questions:
    """Sessions about matters, and questions whose answer is one passage each: half of them in the
    words of the answer, half of them in other words that mean the same."""

    def __init__(self, store: SessionStore, seed: int) -> None:
        chance = random.Random(seed)
        self.store = store
        self.asked: list[tuple[str, str]] = []
        self.memory = Memory(store, None, embedder=Matters())
        self.words = Memory(store, None)
        pairs = chance.sample([(one, two) for one in TOPICS for two in TOPICS if one < two], 60)
        for number, (one, two) in enumerate(pairs):
            text = " ".join([one[0], two[0], *chance.sample(FILL, 3)])
            say(store, f"s{number % 12}", text)
            other = number % 2
            self.asked.append((f"{one[other]} {two[other]}", text))
        self.words.refresh("all")
        self.ids = [id_ for id_, _text in store.search_index.vectors.missing(1_000)]
        chance.shuffle(self.ids)

    def make(self, count: int) -> None:
        """Make the vectors of so many passages, and of no others."""
        vectors, embedder = self.store.search_index.vectors, Matters()
        vectors.use_model("none")
        vectors.use_model(embedder.name)
        texts = {row.id: row.text for row in self.store.search_index.passages(self.ids)}
        made = embedder.embed([texts[id_] for id_ in self.ids[:count]])
        vectors.add(embedder.name, zip(self.ids[:count], made, strict=True))

    def recall(self, memory: Memory) -> float:
        """The share of the answers among the first five hits."""
        found = [
            any(hit.text == text for hit in memory.search(query, scope="sessions", limit=5))
            for query, text in self.asked
        ]
        return sum(found) / len(found)


@examples(60)
@given(seed=st.integers(0, 2**32), share=st.floats(0, 1))
@example(seed=1, share=0.0)
@example(seed=1, share=0.02)
@example(seed=1, share=0.3)
@example(seed=2, share=0.5)
@example(seed=3, share=0.9)
@example(seed=4, share=1.0)
def test_vectors_help_while_some_are_missing(seed: int, share: float) -> None:
    """With any of them, a search finds what words alone find, up to a few; and with more vectors it
    finds more of what is said in other words, up to all of it."""
    with MemoryStore() as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors_module, "RECALL_EMBED_MAX", 0)
        questions = Questions(store, seed)
        count = round(share * len(questions.ids))
        questions.make(count)
        alone, some = questions.recall(questions.words), questions.recall(questions.memory)
        assert some >= alone - 0.05
        assert some >= alone + share / 2 * (1 - alone) - 0.1
        if count < len(questions.ids):
            assert f"{count} of {len(questions.ids)} passages" in questions.memory.notice
        else:
            assert questions.memory.notice == ""
            assert some > 0.9


@examples(60)
@given(seed=st.integers(0, 2**32), count=st.integers(0, 60))
@example(seed=1, count=1)
@example(seed=1, count=59)
def test_exact_words_are_first_whatever_has_a_vector(seed: int, count: int) -> None:
    """A passage that holds exactly what was asked for is not lost beside those that mean it."""
    with MemoryStore() as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors_module, "RECALL_EMBED_MAX", 0)
        questions = Questions(store, seed)
        say(store, "exact", "the harbour wall of Genoa")
        questions.words.refresh("all")
        questions.make(count)
        first, *_rest = questions.memory.search("harbour wall of Genoa", scope="sessions")
        assert first.text == "the harbour wall of Genoa"


@examples(40)
@given(seed=st.integers(0, 2**32), counts=st.lists(st.integers(0, 60), min_size=1, max_size=4))
@example(seed=7, counts=[10, 20, 60])
def test_vectors_that_come_meanwhile_are_used(seed: int, counts: list[int]) -> None:
    """A memory that was asked while they were made answers as one that is asked afterwards."""
    with MemoryStore() as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors_module, "RECALL_EMBED_MAX", 0)
        questions = Questions(store, seed)
        for count in sorted(counts):
            questions.make(count)
            query = questions.asked[count % 60][0]
            new = Memory(store, None, embedder=Matters())
            assert hits(questions.memory, query) == hits(new, query)


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
    is_there = any(info.key == key for info in store.sessions(owner=ANY_OWNER))
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
                remember(store).search("nothing")  # now: of equal hits the one indexed last wins
            store.notes("main").append([" ".join(chance.choices(WORDS, k=4)) for _ in range(10)])
            memory = remember(store)
            queries = [" ".join(chance.choices(WORDS, k=chance.randint(1, 3))) for _ in range(12)]
            found.append([hits(memory, query) for query in (*queries, "mango", "cab")])
            assert memory.notice == ""
    assert found[0] == found[1]
    assert all(found[0][:12])
