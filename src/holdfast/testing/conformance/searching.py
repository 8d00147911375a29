"""A store has a search index: passages by terms and by vectors, kept up to date and erasable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.limits import RECALL_CANDIDATES_MAX
from holdfast.core.memory.ranking import query_terms
from holdfast.core.memory.search_terms import terms
from holdfast.ports.side_stores import IndexPassage, NewSource, places_of, source_of
from holdfast.testing.conformance.samples import KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.ports import IndexSource, SearchIndex, SessionStore


def passages_are_found_by_their_terms(store: SessionStore) -> None:
    """A passage that holds a term of the query is found, and comes back as it was put in."""
    _put(store, "main/a", "about red apples", "about pears \u2603")
    (found,) = _search(store, "pear")
    index = store.search_index
    (row,) = index.passages([found])
    assert (row.text, row.role, row.record, row.ts) == ("about pears \u2603", "user", "r1", 101.0)
    assert list(row.terms) == terms("about pears \u2603")
    assert (row.source, row.place) == (source_of(found), 1)
    assert index.passages([found, found + 1_000]) == [row]
    assert index.passages([]) == []
    assert _search(store, "bananas") == []
    (source,) = index.sources()
    assert (source.kind, source.name, source.passages) == ("session", "main/a", 2)
    assert (source.oldest, source.newest, source.stamp, source.head) == (100.0, 101.0, "s", "r1")
    assert source.terms == len(terms("about red apples")) + len(terms("about pears"))


def the_exact_words_are_found(store: SessionStore) -> None:
    """A passage with the words of the query next to each other is found, whatever has them apart:
    more newer ones, and shorter ones, than are looked at closely."""
    _put(store, "main/a", "red apples", "a red barn", "apples")
    assert "red apples" in _texts(store, _search(store, "red apples"))
    _put(store, "main/b", *["apples that are red"] * (RECALL_CANDIDATES_MAX + 10))
    assert "red apples" in _texts(store, _search(store, "red apples"))


def a_rare_term_weighs_more(store: SessionStore) -> None:
    """Of passages that hold one term each, that with the rarer one is first."""
    _put(store, "main/a", *(f"harbour number {number}" for number in range(9)), "the quokka")
    assert _texts(store, _search(store, "harbour quokka"))[0] == "the quokka"


def a_source_is_replaced_extended_and_forgotten(store: SessionStore) -> None:
    """Passages that left a source are not found; an extension counts once."""
    index = store.search_index
    _put(store, "main/a", "about apples")
    _put(store, "main/a", "about pears")
    assert _search(store, "apples") == []
    (known,) = index.sources()
    more = [IndexPassage("about plums", terms("about plums"), "user", record="r9", ts=50.0)]
    for _time in range(2):  # the second is that of another process, which comes too late
        index.extend(known, stamp="later", head="r9", passages=more)
    assert _texts(store, _search(store, "plums")) == ["about plums"]
    (grown,) = index.sources()
    assert (grown.id, grown.passages, grown.head, grown.oldest) == (known.id, 2, "r9", 50.0)
    index.forget([grown.id])
    assert index.sources() == []
    assert _search(store, "plums") == []
    index.forget([grown.id])


def only_allowed_sources_answer(store: SessionStore) -> None:
    """Passages of other sources are neither found nor counted."""
    _put(store, "main/a", "about apples")
    _put(store, "main/b", "about apples", "more apples", "and apples")
    allowed = {
        source.id: source
        for source in _sources(store.search_index).values()
        if source.name == "main/a"
    }
    matches = store.search_index.matches(query_terms("apples"), terms("apples"), allowed)
    (term,) = query_terms("apples")
    assert _texts(store, [each.id for each in matches.best]) == ["about apples"]
    assert matches.holding[term] == 1
    assert set(matches.sources[term]) == set(allowed)
    assert store.search_index.holding([term, "nothing"], allowed) == {term: 4, "nothing": 0}
    shared = store.search_index.count_by_source({term: 4}, allowed)
    assert shared == {term: dict.fromkeys(allowed, 1)}


def owners_are_counted_apart(store: SessionStore) -> None:
    """A search neither finds nor counts passages of other owners."""
    for owner in ("ann", "bob"):
        _put(store, f"main/{owner}", "about apples", "the harbour", group=owner)
    _put(store, "main/more", *["apples and harbour"] * 9, group="bob")
    sources = _sources(store.search_index)
    allowed = {id_: source for id_, source in sources.items() if source.name == "main/ann"}
    query = query_terms("apples harbour")
    matches = store.search_index.matches(query, [*query], allowed)
    assert set(matches.holding.values()) == {1}
    assert len(matches.best) == 2
    assert set(store.search_index.holding(query, allowed).values()) == {1}
    assert set(store.search_index.holding(query, sources).values()) == {11}


def segments_are_merged(store: SessionStore) -> None:
    """Many small changes find and count the same as one large one, and what left is not found."""
    index = store.search_index
    _put(store, "main/a", "about apples 0")
    for number in range(1, 100):
        (known,) = (source for source in index.sources() if source.name == "main/a")
        text = f"about apples {number}"
        more = [IndexPassage(text, terms(text), "user", record=f"r{number}")]
        index.extend(known, stamp=str(number), head=f"r{number}", passages=more)
        _put(store, "main/b", f"a pear {number}")
    sources = _sources(index)
    (apple,) = query_terms("apples")
    matches = index.matches({apple: 1.0}, [apple], sources)
    assert matches.holding[apple] == 100
    assert [len(places) for places in matches.sources.values()] == [1]
    found = index.passages([each.id for each in matches.best])
    assert sorted(row.text for row in found) == sorted(f"about apples {n}" for n in range(100))
    assert [list(row.terms) for row in found] == [terms(row.text) for row in found]
    assert _texts(store, _search(store, "pear")) == ["a pear 99"]
    (pear,) = query_terms("pear")
    assert index.holding([pear], sources)[pear] <= 1 + len(found)


def neighbours_are_of_the_same_source(store: SessionStore) -> None:
    """`around` returns a passage with those before and after it, in order, of its source alone."""
    _put(store, "main/a", "before", "the middle", "after")
    _put(store, "main/b", "elsewhere")
    (middle,) = _search(store, "middle")
    rows = store.search_index.around(middle)
    assert [row.text for row in rows] == ["before", "the middle", "after"]


def vectors_belong_to_passages_and_a_model(store: SessionStore) -> None:
    """Vectors go with their passages, and those of another model are deleted."""
    vectors = store.search_index.vectors
    vectors.use_model("one")
    _put(store, "main/a", "about apples", "about pears")
    missing = vectors.missing(10)
    assert [text for _id, text in missing] == ["about pears", "about apples"]
    assert len(vectors.missing(1)) == 1
    made = [(id_, bytes([128, 0, number])) for number, (id_, _text) in enumerate(missing)]
    assert vectors.add("one", made)
    assert vectors.add("one", [(missing[0][0] + 1_000, b"of nothing")])
    assert vectors.missing(10) == []
    (source,) = _sources(store.search_index)
    span = places_of(source)
    assert vectors.load("one", [span]) == [(span[0], 2, b"\x80\x00\x01\x80\x00\x00")]
    vectors.use_model("one")
    assert vectors.load("one", [span])[0].length == vectors.count([source]) == 2
    store.search_index.forget([source])
    assert vectors.load("one", [span]) == []
    assert vectors.count([source]) == 0
    _put(store, "main/a", "about apples")
    vectors.add("one", [(id_, b"v") for id_, _text in vectors.missing(1)])
    (source,) = _sources(store.search_index)
    span = places_of(source)
    assert vectors.load("one", [span]) == [(span[0], 1, b"v")]
    vectors.use_model("two")
    assert vectors.load("one", [span]) == vectors.load("two", [span]) == []


def vectors_of_two_models_are_never_mixed(store: SessionStore) -> None:
    """Who still works with the old model stores none of its vectors and is given no other's."""
    vectors = store.search_index.vectors
    _put(store, "main/a", "about apples", "about pears")
    (source,) = _sources(store.search_index)
    first, past = places_of(source)
    assert not vectors.add("one", [(first, b"old")])  # no model is in use yet
    vectors.use_model("one")
    vectors.use_model("two")
    assert not vectors.add("one", [(first, b"old")])
    assert vectors.count([source]) == 0
    assert vectors.add("two", [(first, b"new")])
    assert vectors.add("two", [])
    assert vectors.load("one", [(first, past)]) == []
    assert vectors.load("two", [(first, past)]) == [(first, 1, b"new")]


def vectors_are_asked_for_by_source(store: SessionStore) -> None:
    """Missing ones of some sources, newest first; and those that are there, from a place on."""
    vectors = store.search_index.vectors
    vectors.use_model("one")
    for name in ("main/a", "main/b", "main/c"):
        _put(store, name, f"first of {name}", f"second of {name}")
    one, two, three = sorted(_sources(store.search_index))
    asked = vectors.missing(3, [one, three])
    assert [text for _id, text in asked] == [
        *("second of main/c", "first of main/c", "second of main/a")
    ]
    assert vectors.missing(10, []) == []
    vectors.add("one", [(id_, text.encode()) for id_, text in vectors.missing(3, [one, two])])
    assert vectors.count([one, three]) == 1
    assert vectors.count([two]) == 2
    assert vectors.count([]) == 0
    vectors.add("one", [(id_, text.encode()) for id_, text in vectors.missing(10)])
    assert vectors.missing(10) == vectors.missing(10, [one, two, three]) == []
    spans = [places_of(three, 1), places_of(one), places_of(two, 2)]
    assert vectors.load("one", spans) == [
        (spans[0][0], 1, b"second of main/c"),
        (spans[1][0], 2, b"first of main/asecond of main/a"),
    ]
    assert vectors.load("one", []) == []


def vectors_are_loaded_around_gaps(store: SessionStore) -> None:
    """Those that are there are loaded whatever is missing between them, in order, each run whole:
    the first id tells whose they are."""
    vectors = store.search_index.vectors
    vectors.use_model("one")
    _put(store, "main/a", *(f"passage {number}" for number in range(4)))
    (source,) = _sources(store.search_index)
    first = places_of(source)[0]
    for number, found in ((3, ["3"]), (0, ["0", "3"]), (2, ["0", "23"]), (1, ["0123"])):
        vectors.add("one", [(first + number, b"%d" % number)])
        assert vectors.load("one", [places_of(source)]) == [
            (first + int(run[0]), len(run), run.encode()) for run in found
        ]
    spans = [places_of(source, 2), places_of(source, 4), (first, first + 1)]
    assert vectors.load("one", spans) == [(first + 2, 2, b"23"), (first, 1, b"0")]


def an_erasure_leaves_no_words_in_an_index(store: SessionStore) -> None:
    """An erasure takes out a session, the files with notes from it, and scopes of notes."""
    _put(store, str(KEY), "the quokka of the session")
    _put(store, "main/other", "the harbour")
    for name, origin in (("s1//a.md", str(KEY)), ("s1//b.md", f"{KEY} r1"), ("s1//c.md", "main/o")):
        _put_note(store, name, "a quokka noted", origin)
    for name in ("s2//a.md", "s22//a.md"):
        _put_note(store, name, "of an owner", "")
    some = store.search_index.sources(["main/other", "main/none"], "s2//")
    assert sorted(source.name for source in some) == ["main/other", "s2//a.md"]
    assert [source.name for source in store.search_index.sources([str(KEY)])] == [str(KEY)]
    assert [source.name for source in store.search_index.sources(notes="s22//")] == ["s22//a.md"]
    store.erase_from_indexes([KEY])
    names = sorted(source.name for source in _sources(store.search_index).values())
    assert names == ["main/other", "s1//c.md", "s2//a.md", "s22//a.md"]
    store.erase_from_indexes([], ["s2"])
    names = sorted(source.name for source in _sources(store.search_index).values())
    assert names == ["main/other", "s1//c.md", "s22//a.md"]
    assert _texts(store, _search(store, "quokka")) == ["a quokka noted"]
    store.erase_from_indexes([KEY], ["nothing"])


def _put(store: SessionStore, name: str, *texts: str, group: str = "") -> None:
    passages = [
        IndexPassage(text, terms(text), "user", record=f"r{number}", ts=100.0 + number)
        for number, text in enumerate(texts)
    ]
    head = passages[-1].record
    store.search_index.replace([NewSource("session", name, "s", head, passages, group)])


def _put_note(store: SessionStore, name: str, text: str, origin: str) -> None:
    passage = IndexPassage(text, terms(text), "note", record=origin, first_line=1, last_line=1)
    scope = name.partition("//")[0] + "//"
    store.search_index.replace([NewSource("note", name, "s", "", [passage], scope)])


def _sources(index: SearchIndex) -> Mapping[int, IndexSource]:
    return {source.id: source for source in index.sources()}


def _search(store: SessionStore, query: str) -> list[int]:
    index = store.search_index
    found = index.matches(query_terms(query), terms(query), _sources(index)).best
    return [each.id for each in found]


def _texts(store: SessionStore, ids: list[int]) -> list[str]:
    texts = {row.id: row.text for row in store.search_index.passages(ids)}
    return [texts[id_] for id_ in ids]
