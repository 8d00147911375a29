"""Vectors that searches lack are made in the background: for their caller alone, never in the way
of an answer, by any number of processes, and not after the end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from tests.engine.memory.test_vectors import Letters, Listening, hits, say

from holdfast import Memory
from holdfast.core.history.access import Caller
from holdfast.core.owners import owner_of
from holdfast.engine.memory.vectors import VectorWorker, embed_missing
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from holdfast.ports import SessionStore
    from holdfast.providers.embeddings import Embedder


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    with JsonlStore(tmp_path / "store") as store:
        yield store


def open_memory(
    store: SessionStore, embedder: Embedder, background: VectorWorker | bool, owner: str = ""
) -> Memory:
    caller = Caller("main", None, owner=owner_of(owner), visibility="agent")
    notes = store.notes("main", owner_of(owner))
    return Memory(store, notes, embedder=embedder, caller=caller, background=background)


def test_what_a_search_lacks_is_made_after_it(store: SessionStore) -> None:
    """The first one says how much is there; when all is made, the answer is that of vectors which
    were there from the start."""
    say(store, "a", *(f"apple number {number}" for number in range(100)))
    with open_memory(store, Letters(), True) as memory:
        assert memory.search("apple", scope="all")
        assert memory.notice.startswith("0 of 100 passages have a vector")
        assert "in the background" in memory.notice
        assert memory._worker is not None
        assert memory._worker.wait()
        assert memory._worker.made == 100
        found = hits(memory, "apple 7")
        assert memory.notice == ""
    assert found == hits(open_memory(store, Letters(), False), "apple 7")


def test_few_are_made_before_the_answer(store: SessionStore) -> None:
    """A small memory is compared whole, at once."""
    say(store, "a", "an apple", "a harbour")
    with open_memory(store, Letters(), True) as memory:
        assert memory.search("apple", scope="all")
        assert memory.notice == ""


def test_it_works_for_the_one_who_searches(store: SessionStore) -> None:
    """No word of another owner is given to the model, though one thread works for both."""
    for owner in ("ann", "bob", "eve"):
        say(store, owner, *(f"{owner} number {number}" for number in range(60)), owner=owner)
        open_memory(store, Letters(), False, owner).refresh("all")
    seen = Listening()
    worker = VectorWorker(store.search_index, seen)
    for owner in ("ann", "bob"):
        before = len(seen.texts)
        with open_memory(store, seen, worker, owner) as memory:
            assert memory.search(owner, scope="all")
            assert worker.wait()
        mine = seen.texts[before:]
        assert len(mine) == 60
        assert all(owner in text for text in mine)
    worker.close()
    assert not [text for text in seen.texts if "eve" in text]


def test_an_index_that_is_made_again_gives_nobody_elses_words(store: SessionStore) -> None:
    """A source is known by its name: its number may be that of another one by now."""
    say(store, "hers", *(f"ann number {number}" for number in range(60)), owner="ann")
    open_memory(store, Letters(), False, "ann").refresh("all")
    (source,) = store.search_index.sources()
    say(store, "his", "bob", owner="bob")
    open_memory(store, Letters(), False, "bob").refresh("all")
    others = {one.name: one for one in store.search_index.sources()}
    seen = Listening()
    worker = VectorWorker(store.search_index, seen)
    worker._wanted = {others["main/his"].id: source.name}
    worker.want([source])
    assert worker.wait()
    assert len(seen.texts) == 60
    assert not [text for text in seen.texts if "bob" in text]


class Held(Letters):
    """Waits in each batch until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.batches = 0

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        if threading.current_thread().name == "holdfast-vectors":
            self.batches += 1
            self.begun.release()
            self.go.acquire()
        return super().embed(texts)


def test_no_batch_begins_while_a_search_runs(store: SessionStore) -> None:
    """One that has begun ends; the next waits for the answer."""
    say(store, "a", *(f"apple number {number}" for number in range(40)))
    held = Held()
    with open_memory(store, held, True) as memory:
        worker = memory._worker
        assert worker is not None
        assert memory.search("apple", scope="all")
        held.begun.acquire()
        with worker.rest():
            held.go.release()
            with worker._changed:
                worker._changed.wait_for(lambda: worker.made == 8, 30)
            assert not held.begun.acquire(blocking=False)
            assert held.batches == 1
        held.begun.acquire()
        held.go.release(100)
        assert worker.wait()
        assert worker.made == 40


def test_nothing_is_made_after_the_end(store: SessionStore) -> None:
    """Closing waits for the batch that is being made, and no longer; a later search starts none."""
    say(store, "a", *(f"apple number {number}" for number in range(40)))
    held = Held()
    memory = open_memory(store, held, True)
    assert memory.search("apple", scope="all")
    held.begun.acquire()
    closing = threading.Thread(target=memory.close)
    closing.start()
    held.go.release(100)
    closing.join()
    assert held.batches == 1
    assert memory.search("apple", scope="all")
    assert memory._worker is not None
    assert memory._worker._thread is None
    assert not [one for one in threading.enumerate() if one.name == "holdfast-vectors"]


def test_a_model_that_fails_stops_it_until_the_next_search(store: SessionStore) -> None:
    """The reason is in the notice, and words answer."""

    class Failing(Held):
        is_broken = True

        def embed(self, texts: Sequence[str]) -> list[bytes]:
            if self.is_broken and threading.current_thread().name == "holdfast-vectors":
                raise RuntimeError("out of order")
            return Letters().embed(texts)

    say(store, "a", *(f"apple number {number}" for number in range(40)))
    model = Failing()
    with open_memory(store, model, True) as memory:
        assert memory.search("apple", scope="all")
        assert memory._worker is not None
        assert memory._worker.wait()
        assert memory.search("apple", scope="all")
        assert "out of order" in memory.notice
        model.is_broken = False
        assert memory._worker.wait()
        assert memory.search("apple", scope="all")
        assert memory._worker.wait()
        assert memory.search("apple", scope="all")
        assert memory.notice == ""


def test_two_that_make_the_same_vectors_do_no_harm(store: SessionStore, tmp_path: Path) -> None:
    """Each vector is there once, and the answer is that of one maker."""
    say(store, "a", *(f"apple number {number}" for number in range(100)))
    with (
        JsonlStore(tmp_path / "store") as other,
        open_memory(store, Letters(), True) as one,
        open_memory(other, Letters(), True) as two,
    ):
        for memory in (one, two):
            assert memory.search("apple", scope="all")
        for memory in (one, two):
            assert memory._worker is not None
            assert memory._worker.wait()
        assert one.size().vectors == 100
        assert hits(one, "apple 3") == hits(two, "apple 3")
        assert one.notice == two.notice == ""


class Interrupted(Letters):
    """Is interrupted in its third batch."""

    def __init__(self) -> None:
        self.batches = 0

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        self.batches += 1
        if self.batches == 3:
            raise KeyboardInterrupt
        return super().embed(texts)


def test_who_is_interrupted_goes_on_where_he_was(store: SessionStore) -> None:
    """What was made is stored, and made once."""
    say(store, "a", *(f"apple number {number}" for number in range(100)))
    memory = open_memory(store, Interrupted(), False)
    memory.refresh("all")
    reports: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        memory.embed(report=reports.append)
    assert reports == [32, 64]
    assert memory.size().vectors == 64
    assert memory.embed() == 36


def test_a_change_of_the_model_meanwhile_is_told(store: SessionStore) -> None:
    """Vectors of two models are not mixed: who comes later wins, and the other one says so."""

    class Other(Letters):
        name = "other/1"

    class Overtaken(Letters):
        def embed(self, texts: Sequence[str]) -> list[bytes]:
            store.search_index.vectors.use_model(Other.name)
            return super().embed(texts)

    say(store, "a", *(f"apple number {number}" for number in range(40)))
    memory = open_memory(store, Overtaken(), False)
    assert memory.search("apple", scope="all")
    assert "no longer those of `letters/1`" in memory.notice
    sources = [source.id for source in store.search_index.sources()]
    assert store.search_index.vectors.count(sources) == 0
    assert embed_missing(store.search_index, Other(), sources) == 40
    after = open_memory(store, Other(), False)
    assert after.search("apple", scope="all")
    assert after.notice == ""
