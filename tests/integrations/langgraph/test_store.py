"""`HoldfastStore` does what LangGraph's own stores do; memory finds its items."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import peers
from tests.support.runs import examples

from holdfast import Memory
from holdfast.core import limits
from holdfast.errors import BadItem, StoreUnavailable
from holdfast.integrations import langgraph as adapter
from holdfast.integrations.langgraph import items
from holdfast.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.ports import SessionStore


@pytest.fixture(autouse=True)
def framework() -> None:
    peers.needs("langgraph")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "store") as opened:
        yield opened


def own(store: SessionStore, **about: Any) -> Any:
    return adapter.HoldfastStore(store=store, embedder=None, **about)


@contextlib.contextmanager
def another(name: str, store: SessionStore) -> Iterator[Any]:
    """A store of LangGraph's own, or ours."""
    if name == "memory":
        from langgraph.store.memory import InMemoryStore

        yield InMemoryStore()
    elif name == "sqlite":
        peers.needs("langgraph-checkpoint-sqlite")
        from langgraph.store.sqlite import SqliteStore

        with SqliteStore.from_conn_string(":memory:") as opened:
            opened.setup()
            yield opened
    else:
        yield own(store)


def said(found: Any) -> Any:
    """What an answer says, without times."""
    if isinstance(found, list):
        return [said(each) for each in found]
    if hasattr(found, "namespace"):
        return (found.namespace, found.key, found.value)
    return found


def program(kept: Any, *, is_async: bool) -> list[Any]:
    """The program: every operation, blocking or not, with what the contract leaves open sorted."""
    seen: list[Any] = []

    def do(name: str, *args: Any, **about: Any) -> Any:
        async def wait() -> Any:
            return await getattr(kept, f"a{name}")(*args, **about)

        try:
            found = asyncio.run(wait()) if is_async else getattr(kept, name)(*args, **about)
        except Exception as error:
            found = type(error).__name__
        found = said(found)
        seen.append(
            sorted(found, key=repr) if name == "search" and isinstance(found, list) else found
        )
        return found

    ann = ("users", "ann")
    do("put", ann, "food", {"text": "loves sushi", "kind": "pref", "n": 1})
    do("put", ann, "pet", {"text": "a cat", "kind": "fact", "n": 2.5, "deep": {"a": [1, {"b": 2}]}})
    do("put", ("users", "böb/x"), "a/b ☃", {"text": "x", "n": 3, "none": None, "ok": True})
    do("put", ("users", "Ann"), "FOOD", {"text": "another Ann"})
    do("put", ("docs",), "r" * 300, {"text": "<!-- x --> -->\n# no\n```\n", "n": 4})
    do("put", ("a", "b", "c", "d", "e", "f", "g", "h", "i" * 200), "deep", {})
    do("get", ann, "food")
    do("get", ann, "nothing")
    do("get", ("users", "Ann"), "FOOD")
    do("get", ("docs",), "r" * 300)
    do("put", ann, "food", {"text": "loves ramen"})
    do("get", ann, "food")
    do("search", ("users",))
    do("search", ())
    do("search", ann, filter={"kind": "fact"})
    do("search", ("docs",), filter={"n": {"$gte": 2, "$lt": 5}})
    do("search", ("docs",), filter={"n": {"$gt": 4}})
    do("search", ("users",), filter={"text": {"$ne": "a cat"}})
    do("search", ("nobody",))
    do("list_namespaces")
    do("list_namespaces", prefix=("users",))
    do("list_namespaces", suffix=("ann",))
    do("list_namespaces", prefix=("users", "*"))
    do("list_namespaces", max_depth=1)
    do("list_namespaces", limit=2, offset=1)
    do("delete", ann, "pet")
    do("delete", ann, "pet")
    do("get", ann, "pet")
    do("search", ann)
    do("put", ann, "pet", {"text": "a dog"})
    do("get", ann, "pet")
    do("put", (), "x", {})
    do("put", ("langgraph",), "x", {})
    do("put", ("a.b",), "x", {})
    do("put", ("",), "x", {})
    do("put", ann, "ttl", {"x": 1}, ttl=5) if kept.supports_ttl is False else seen.append(
        "NotImplementedError"
    )
    return seen


@pytest.mark.parametrize(
    ("theirs", "is_async"), [("memory", False), ("memory", True), ("sqlite", False)]
)
def test_program_cannot_tell_it_from_langgraphs_own(
    theirs: str, is_async: bool, store: SessionStore
) -> None:
    """33 observations, one by one."""
    with another(theirs, store) as kept:
        expected = program(kept, is_async=is_async)
    assert len(expected) >= 33
    assert program(own(store), is_async=is_async) == expected


LABELS = st.sampled_from(["users", "ann", "Ann", "böb", "x y", "a/b"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["a", "A", "b", "ünï ☃", "a/b", "-", "x" * 130])
TEXTS = st.sampled_from(["", "sushi", "a\nb", "<!-- -->", "\ud800", "\u2028", "- x", "# y"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(-2, 2), TEXTS)
VALUES = st.dictionaries(
    st.sampled_from(["kind", "n", "x>y", ""]),
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
        max_leaves=4,
    ),
    max_size=3,
)
FILTERS = st.none() | st.dictionaries(
    st.sampled_from(["kind", "n"]),
    st.one_of(
        SCALARS,
        st.lists(SCALARS, max_size=2),
        st.dictionaries(st.sampled_from(["$eq", "$ne"]), SCALARS, min_size=1, max_size=2),
        st.dictionaries(TEXTS, SCALARS, max_size=1),
    ),
    max_size=2,
)
PATHS = st.lists(LABELS | st.just("*"), min_size=1, max_size=3).map(tuple)


@st.composite
def batches(draw: Any) -> list[list[Any]]:
    from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

    conditions = st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), PATHS)
    places = draw(st.lists(st.tuples(NAMESPACES, KEYS), min_size=1, max_size=4))
    place = st.sampled_from(places)
    put = st.builds(lambda at, value: PutOp(*at, value), place, st.none() | VALUES)
    op = st.one_of(
        put,
        put,
        st.builds(lambda at: GetOp(*at), place),
        st.builds(
            lambda prefix, wanted: SearchOp(prefix, wanted, limit=1_000),
            st.just(()) | NAMESPACES,
            FILTERS,
        ),
        st.builds(
            ListNamespacesOp,
            st.none() | st.lists(conditions, min_size=1, max_size=2).map(tuple),
            st.none() | st.integers(1, 3),
            st.integers(1, 3),
            st.integers(0, 2),
        ),
    )
    steps: list[list[Any]] = draw(st.lists(st.lists(op, min_size=1, max_size=4), max_size=8))
    return steps


@pytest.mark.parametrize("is_async", [False, True])
def test_random_batches_are_answered_alike(is_async: bool, tmp_path_factory: Any) -> None:
    """Each answer is that of `InMemoryStore`; so is what another process finds then.

    That store lists a namespace that somebody asked for in vain: here it forgets empty ones, and a
    batch asks last.
    """
    from langgraph.store.base import GetOp, SearchOp
    from langgraph.store.memory import InMemoryStore

    @given(batches())
    @examples(60)
    def check(steps: list[list[Any]]) -> None:
        with open_store(tmp_path_factory.mktemp("place")) as store:
            mine, theirs = own(store), InMemoryStore()
            for step in steps:
                ops = sorted(step, key=lambda op: isinstance(op, GetOp))
                for namespace in [name for name, kept in theirs._data.items() if not kept]:
                    del theirs._data[namespace]
                expected = comparable(theirs.batch(ops))
                found = asyncio.run(mine.abatch(ops)) if is_async else mine.batch(ops)
                assert comparable(found) == expected, ops
            whole = [SearchOp((), limit=1_000)]
            expected = comparable(theirs.batch(whole))
            for kept in (mine, own(store)):
                assert comparable(kept.batch(whole)) == expected

    check()


def comparable(results: list[Any]) -> list[Any]:
    """Answers without times; the items of a search in any order."""
    return [
        sorted(said(found), key=repr) if isinstance(found, list) else said(found)
        for found in results
    ]


def test_pages_of_a_search_are_the_whole(store: SessionStore) -> None:
    kept = own(store)
    for number in range(25):
        kept.put(("n", str(number % 3)), f"k{number}", {"n": number})
    whole = [item.key for item in kept.search(("n",), limit=100)]
    assert len(whole) == 25
    pages = [kept.search(("n",), limit=7, offset=start) for start in range(0, 28, 7)]
    assert [item.key for page in pages for item in page] == whole
    asked = [kept.search(("n",), query="k3", limit=7, offset=start) for start in range(0, 28, 7)]
    assert sorted(item.key for page in asked for item in page) == sorted(whole)


FACTS = {
    "food": "Ann loves ramen with extra ginger",
    "car": "She drives a blue car to the harbour every Tuesday",
    "pet": "Her cat is named Professor",
    "work": "Works as a carpenter in Bergen",
}


def embed(texts: list[str]) -> list[list[float]]:
    """Words as vectors, for LangGraph's own search."""
    words = sorted({word for text in [*FACTS.values(), "x"] for word in text.lower().split()})
    return [[1.0 * (word in text.lower()) for word in words] or [1.0] for text in texts]


def test_search_is_that_of_memory_and_begins_with_the_same_item(store: SessionStore) -> None:
    from langgraph.store.memory import InMemoryStore

    theirs = InMemoryStore(index={"dims": 1, "embed": embed, "fields": ["text"]})
    mine = own(store, fields=["text"])
    for kept in (theirs, mine):
        for key, text in FACTS.items():
            kept.put(("users", "ann"), key, {"text": text, "code": "zebra"})
        kept.put(("users", "ann"), "hidden", {"text": "the ramen car cat"}, index=False)
        kept.put(("users", "bob"), "food", {"text": "Bob loves ramen too"})
    queries = {
        "ramen ginger": "food",
        "blue car": "car",
        "cat named professor": "pet",
        "carpenter": "work",
    }
    for query, key in queries.items():
        found = [kept.search(("users", "ann"), query=query) for kept in (theirs, mine)]
        assert [each[0].key for each in found] == [key, key], query
        assert {item.key for item in found[1]} == {item.key for item in found[0]}
        assert found[1][0].score > 0
        assert next(item for item in found[1] if item.key == "hidden").score is None
        only = mine.search(("users",), query=query, filter={"text": FACTS["pet"]})
        assert [item.key for item in only] == ["pet"]
    # A field that is not searched is not found: every item is there, and none has a score.
    assert all(item.score is None for item in mine.search(("users",), query="zebra"))


def test_every_item_with_a_text_is_found_however_many_have_it(store: SessionStore) -> None:
    kept = own(store, fields=["kind", "text"])
    for number in range(30):
        kept.put(("n",), f"k{number}", {"kind": "preference", "text": f"word{number}"})
        kept.put(("other",), f"k{number}", {"kind": "preference preference", "text": "preference"})
    found = kept.search(("n",), query="preference", limit=30)
    assert len(found) == 30
    assert all(item.score is not None for item in found)


def test_memory_finds_the_items_and_the_trash_has_deleted_ones(store: SessionStore) -> None:
    kept = own(store)
    kept.put(("users", "ann"), "food", {"text": FACTS["food"]})
    notes = store.notes("main")
    memory = Memory(store, notes)
    (hit,) = memory.search("who loves ramen?", scope="notes")
    assert FACTS["food"] in hit.text
    assert hit.path == items.path_of(("users", "ann"), "food")
    kept.delete(("users", "ann"), "food")
    assert memory.search("who loves ramen?", scope="notes") == []


def test_owners_and_agents_are_kept_apart(store: SessionStore) -> None:
    """The same namespace and key: nobody reads, finds, lists or deletes another's."""
    whose = [{"owner": "ann"}, {"owner": "bob"}, {}, {"agent": "other"}, {"owner": "*"}]
    stores = [own(store, **about) for about in whose]
    for number, kept in enumerate(stores):
        kept.put(("users",), "food", {"text": f"loves ramen {number}"})
        kept.put((f"only-{number}",), "x", {})
    stores[1].delete(("users",), "food")
    for number, kept in enumerate(stores):
        found = [item.value["text"] for item in kept.search(("users",), query="ramen")]
        expected = [] if number == 1 else [f"loves ramen {number}"]
        assert found == expected
        names = kept.list_namespaces()
        assert (f"only-{number}",) in names
        assert len(names) == 1 + len(expected)


def test_an_item_without_the_number_of_a_filter_is_left_out(store: SessionStore) -> None:
    """As in SQLite's store; the one in memory raises a `TypeError`."""
    with another("sqlite", store) as theirs:
        for kept in (theirs, own(store)):
            for key, value in (("a", {"n": 1}), ("b", {"n": 5}), ("c", {}), ("d", {"n": None})):
                kept.put(("n",), key, value)
            for sign, keys in (("$gt", ["b"]), ("$gte", ["b"]), ("$lt", ["a"]), ("$lte", ["a"])):
                found = kept.search(("n",), filter={"n": {sign: 3}})
                assert [item.key for item in found] == keys
            with pytest.raises(ValueError, match="operator"):
                kept.search(("n",), filter={"n": {"$near": 3}})


def test_times_are_kept(store: SessionStore) -> None:
    kept = own(store)
    kept.put(("n",), "k", {"a": 1})
    first = kept.get(("n",), "k")
    kept.put(("n",), "k", {"a": 2})
    second = own(store).get(("n",), "k")
    assert second.created_at == first.created_at <= first.updated_at <= second.updated_at
    assert second.created_at.tzinfo is not None


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    """Each thread its own keys, and one that all write: all are there, and the one is whole."""

    def write(number: int) -> None:
        with open_store(tmp_path / "store") as opened:
            kept = own(opened)
            for turn in range(15):
                kept.put(("n",), f"{number}-{turn}", {"n": turn})
                kept.put(("n",), "shared", {"who": number, "turn": turn})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open_store(tmp_path / "store") as opened:
        found = own(opened).search(("n",), limit=100)
    assert len(found) == 46
    assert {item.key: item.value for item in found}["shared"]["turn"] == 14


def test_what_cannot_be_stored_stores_nothing(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from langgraph.store.base import PutOp

    kept = own(store)
    with pytest.raises(TypeError, match="cannot store an item"):
        kept.batch([PutOp(("n",), "a", {"a": 1}), PutOp(("n",), "b", {"b": object()})])
    assert kept.search(()) == []
    monkeypatch.setattr(items, "NOTE_FILE_BYTES_MAX", 1_000)
    with pytest.raises(BadItem, match="1,000"):
        kept.put(("n",), "large", {"a": "x" * 1_000})
    assert limits.NOTE_FILES_MAX > 6
    monkeypatch.setattr(items, "NOTE_FILES_MAX", 6)

    def fill() -> None:
        for number in range(9):
            kept.put(("n",), str(number), {})

    with pytest.raises(StoreUnavailable, match="6 notes"):
        fill()
    assert len(kept.search(())) < 6
    with pytest.raises(ValueError, match="Unknown operation"):
        kept.batch(["?"])
    kept.close()
    with pytest.raises(RuntimeError, match="closed"):
        kept.get(("n",), "0")


def test_a_damaged_item_is_named_and_notes_of_others_are_no_items(store: SessionStore) -> None:
    kept = own(store)
    kept.put(("n",), "k", {"a": 1})
    notes = store.notes("main")
    notes.put("langgraph/n/mine.md", None, b"- a note of a person\n")
    assert len(kept.search(())) == 1
    path = items.path_of(("n",), "k")
    before = notes.data(path)
    notes.put(path, before, before.replace(b'"value"', b'"valve"'))
    with pytest.raises(BadItem, match=r"langgraph/n/k\.md"):
        kept.get(("n",), "k")
    with pytest.raises(BadItem, match=r"langgraph/n/k\.md"):
        kept.search(())


def test_a_graph_uses_it(tmp_path: Path) -> None:
    """The saver and the store of one graph in one folder, over two processes' worth of objects."""
    from langgraph.config import get_store
    from langgraph.graph import MessagesState, StateGraph

    def remember(state: Any) -> Any:
        kept = get_store()
        known = kept.search(("ann",), query=state["messages"][-1].content)
        kept.put(("ann",), str(len(known)), {"text": state["messages"][-1].content})
        return {"messages": [("ai", " | ".join(item.value["text"] for item in known))]}

    builder = StateGraph(MessagesState).add_node("n", remember).set_entry_point("n")
    told = []
    for text in ("I love ramen", "What do I love?"):
        saver = adapter.HoldfastSaver(root=str(tmp_path))
        kept = adapter.HoldfastStore(root=str(tmp_path), embedder=None)
        graph = builder.compile(checkpointer=saver, store=kept)
        state = graph.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": "t"}})
        told.append([message.content for message in state["messages"]])
        kept.close()
        saver.close()
    assert told[1] == ["I love ramen", "", "What do I love?", "I love ramen"]
