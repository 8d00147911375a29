"""Memory that answers: fresh, cited, bounded, and blind to what it may not know."""

from __future__ import annotations

from base64 import b64encode
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Session
from holdfast.core.history.access import OPERATOR, Caller
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import (
    Assistant,
    Checkpoint,
    Compaction,
    Flush,
    Rewind,
    ToolResult,
    User,
)
from holdfast.core.memory.hits import STANDING_HEAD
from holdfast.core.owners import NO_OWNER, NamedOwner, owner_of
from holdfast.core.secrets.redaction import Redactor
from holdfast.engine.memory import indexer, ranker
from holdfast.engine.memory.ranker import COMPARED
from holdfast.engine.memory.search import Memory
from holdfast.engine.memory.tools import memory_tools
from holdfast.errors import AccessDenied, HoldfastError, UsageError
from holdfast.ports import ANY_HEAD, IndexSource, NewSource
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.stores.search.tables import AROUND_PLACES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from tests.support.databases import Contents

    from holdfast.engine.memory.indexer import Scope
    from holdfast.ports import FoundPassage

KEY = SessionKey("main", "one")
DAY = 86_400.0


class Letters:
    """An embedder by the letters of a text, for tests: like letters, like vectors."""

    name = "letters/1"

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        return [_letters(text) for text in texts]


def _letters(text: str) -> bytes:
    counts = [text.lower().count(letter) for letter in "abcdefghijklmnop"]
    length = sum(count * count for count in counts) ** 0.5 or 1.0
    return bytes(round(127 * count / length) for count in counts)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


@pytest.fixture
def store(root: str) -> Iterator[JsonlStore]:
    with JsonlStore(root) as store:
        store.create(KEY)
        yield store


@pytest.fixture
def memory(store: JsonlStore, root: str) -> Iterator[Memory]:
    with Memory.open(root) as memory:
        yield memory


def _texts(memory: Memory, query: str, scope: Scope = "all", limit: int = 6) -> list[str]:
    return [hit.text for hit in memory.search(query, scope=scope, limit=limit)]


def _say(store: JsonlStore, said: dict[str, list[str]]) -> None:
    for name, texts in said.items():
        key = SessionKey("main", name)
        store.create(key)
        store.append(key, [User(content=text, ts=DAY) for text in texts], expect=None)


def test_a_note_written_a_moment_ago_is_found(memory: Memory, store: JsonlStore) -> None:
    """Every search looks whether something changed first."""
    notes = store.notes("main")
    assert memory.search("releases") == []
    notes.append(["Releases go out on Tuesdays"], session="main/one", records=("r1",))
    (hit,) = memory.search("when do we release")

    assert hit.text == "Releases go out on Tuesdays"
    assert (hit.path, hit.session, hit.record) == (hit.citation.split("#")[0], "main/one", "r1")
    assert hit.lines is not None
    assert memory.get(hit.citation).endswith(hit.text)


def test_what_a_person_edits_by_hand_is_found_at_once(memory: Memory, store: JsonlStore) -> None:
    notes = store.notes("main")
    notes.append(["about bananas"])
    (hit,) = memory.search("bananas")
    assert hit.path is not None
    notes.put(hit.path, notes.data(hit.path), b"# Fruit\n\nAll about apples.\n")

    assert memory.search("bananas") == []
    (now,) = memory.search("apples")
    assert now.lines == (3, 3)


def test_what_is_said_is_found_as_a_session_grows(memory: Memory, store: JsonlStore) -> None:
    said = store.append(KEY, [User(content="My dog is called Rex")], expect=None)
    (hit,) = memory.search("dog", scope="sessions")
    assert hit.citation == f"main/one#{said.ids[0]}"
    assert (hit.session, hit.record, hit.role) == ("main/one", said.ids[0], "user")
    store.append(KEY, [Assistant(content="And the cat is Tom")], expect=None)

    assert _texts(memory, "cat") == ["And the cat is Tom"]
    assert memory.get(hit.citation) == "My dog is called Rex"


def test_only_what_is_on_the_path_is_found(memory: Memory, store: JsonlStore) -> None:
    """What was rewound is gone from memory, and what is said instead is there."""
    kept = store.append(KEY, [User(content="we meet on Monday")], expect=None)
    store.append(KEY, [User(content="we meet on Friday")], expect=None)
    assert len(_texts(memory, "meet")) == 2
    store.append(KEY, [Rewind(to=kept.head)], expect=None)
    store.append(KEY, [User(content="we meet on Sunday")], expect=None)

    assert sorted(_texts(memory, "meet")) == ["we meet on Monday", "we meet on Sunday"]


def test_a_removed_session_is_not_found(memory: Memory, store: JsonlStore) -> None:
    store.append(KEY, [User(content="about bananas")], expect=None)
    assert _texts(memory, "bananas")
    store.remove(KEY)

    assert _texts(memory, "bananas") == []


def test_only_what_people_and_models_said_is_in_memory(memory: Memory, store: JsonlStore) -> None:
    """Summaries, checkpoints, flushes, tool results and injected text are nobody's words."""
    call = {"type": "tool_use", "id": "c1", "name": "memory_search", "input": {"query": "banana"}}
    store.append(
        KEY,
        [
            User(
                content="<memory> banana </memory>\n\nNext: hello",
                extra={"original_prompt": "hello"},
            ),
            User(content="banana reminder", extra={"meta": True}),
            Assistant(content=[call]),
            ToolResult(tool_use_id="c1", content="banana in a result"),
            Compaction(summary="banana in a summary"),
            Checkpoint(state={"objective": "banana"}),
            Flush(notes=["banana noted"]),
        ],
        expect=None,
    )

    assert _texts(memory, "banana") == []
    assert _texts(memory, "hello") == ["hello"]


def test_more_hits_are_only_more(memory: Memory, store: JsonlStore) -> None:
    """The first of many hits are the hits of few, in every scope."""
    store.append(
        KEY, [User(content=f"server {n} is slow on day {n}") for n in range(20)], expect=None
    )
    store.notes("main").append([f"the server number {n} was replaced" for n in range(20)])
    scopes: tuple[Scope, ...] = ("notes", "sessions", "all")
    for scope in scopes:
        many = _texts(memory, "slow server", scope, limit=30)
        for limit in range(1, 10):
            assert _texts(memory, "slow server", scope, limit=limit) == many[:limit]


def test_sessions_do_not_drown_notes(memory: Memory, store: JsonlStore) -> None:
    store.append(KEY, [User(content=f"server server server {n}") for n in range(30)], expect=None)
    store.notes("main").append(["One of our machines is called server nine and it is old"])
    hits = memory.search("server", scope="all", limit=6)

    assert "note" in [hit.role for hit in hits[:3]]


def test_a_question_finds_what_the_session_that_answers_began_with(
    memory: Memory, store: JsonlStore
) -> None:
    """It says what the session is about, in other words; a look-up of a few words stays one."""
    began = "We want to spend a summer on an alp, with goats."
    later = "The third inquiry went out on Monday; Berta wants a reply about travel dates."
    _say(store, {"alp": [began, later], "ink": ["My printer is out of ink."]})
    question = "what travel dates should the reply to the third inquiry name, since Berta waits?"

    assert {hit.text for hit in memory.search(question, scope="sessions")} == {began, later}
    assert [hit.text for hit in memory.search("travel dates", scope="sessions")] == [later]


def test_an_exact_name_is_first(memory: Memory, store: JsonlStore) -> None:
    """However many passages are about the same things in other words."""
    store.append(
        KEY,
        [
            *(User(content=f"the config parser failed to parse config {n}") for n in range(40)),
            User(content="it was parse_config_v2 all along, buried in a long and winding story"),
            *(User(content=f"parse the config, version {n}") for n in range(40)),
        ],
        expect=None,
    )

    assert "parse_config_v2" in _texts(memory, "parse_config_v2", limit=1)[0]


def test_before_a_time_only_what_is_older_is_found(memory: Memory, store: JsonlStore) -> None:
    store.append(KEY, [User(content="old bananas", ts=100.0)], expect=None)
    store.append(KEY, [User(content="new bananas", ts=200.0)], expect=None)
    found = memory.search("bananas", scope="sessions", before=150.0)

    assert [hit.text for hit in found] == ["old bananas"]


def test_the_words_of_a_fork_are_found_once(memory: Memory, store: JsonlStore) -> None:
    store.append(KEY, [User(content="about bananas")], expect=None)
    store.fork(KEY, SessionKey("main", "two"), at=None)

    assert _texts(memory, "bananas") == ["about bananas"]


def test_owners_and_agents_are_kept_apart(store: JsonlStore, root: str) -> None:
    """What one owner or agent said or noted is neither found nor read for another."""
    for agent, session, owner in (
        ("main", "a", "ann"),
        ("main", "b", "bob"),
        ("other", "c", "ann"),
    ):
        key = SessionKey(agent, session)
        store.create(key, owner=owner_of(owner))
        store.append(key, [User(content=f"bananas of {owner} with {agent}")], expect=None)
        store.notes(agent, owner_of(owner)).append([f"noted bananas of {owner} with {agent}"])
    store.notes("main").append(["noted bananas of nobody"])

    for owner in ("ann", "bob"):
        expected = [f"bananas of {owner} with main", f"noted bananas of {owner} with main"]
        with Memory.open(root, agent="main", owner=owner) as memory:
            assert sorted(_texts(memory, "bananas")) == expected
    with Memory.open(root, agent="main") as nobody:
        assert _texts(nobody, "bananas") == ["noted bananas of nobody"]
    with Memory.open(root, caller=OPERATOR) as everybody:
        assert len(_texts(everybody, "bananas", "sessions")) == 3


def _lay_down(store: JsonlStore, session: str, value: str, owner: NamedOwner | None = None) -> None:
    key = SessionKey("main", session)
    store.create(key, owner=owner or NO_OWNER)
    told = f"When naming attributes, start them with '{value}'."
    store.append(key, [User(content=told)], expect=None)
    taken_up = f"Noted, attributes start with '{value}'."
    store.append(key, [Assistant(content=taken_up, model="m")], expect=None)


def test_what_was_laid_down_comes_along_whatever_is_asked(
    memory: Memory, store: JsonlStore
) -> None:
    _lay_down(store, "rules", "t_")
    asked = "a linked list class"

    assert memory.search(asked) == []
    (standing,) = memory.search(asked, standing=True)
    assert standing.is_standing
    assert "t_" in memory.get(standing.citation)
    assert f"{STANDING_HEAD}\n- {standing.text}\n" in memory.injection([standing])
    assert memory.search(asked, scope="notes", standing=True) == []

    _lay_down(store, "later", "q_")  # the later value holds, and beyond the limit
    (later,) = memory.search(asked, standing=True, limit=1)
    assert "q_" in later.text


def test_the_newest_words_stand_in_whatever_order_sessions_were_indexed(
    memory: Memory, store: JsonlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that is imported later may be older."""
    monkeypatch.setattr(ranker, "STANDING_EXCHANGES_MAX", 1)
    for name, value, ts in (("new", "q_", 2 * DAY), ("old", "t_", DAY)):
        said = f"When naming attributes, start them with '{value}'."
        key = SessionKey("main", name)
        store.create(key)
        store.append(key, [User(content=said, ts=ts), Assistant(content=said, ts=ts)], expect=None)
        memory.refresh()

    (standing,) = memory.search("a linked list class", standing=True)
    assert "q_" in standing.text


def test_what_one_owner_laid_down_stands_for_no_other(store: JsonlStore) -> None:
    _lay_down(store, "ann", "t_", NamedOwner("ann"))
    for whose, count in (("ann", 1), ("bob", 0)):
        caller = Caller("main", None, owner=NamedOwner(whose), visibility="agent")
        with Memory(store, None, caller=caller) as known:
            assert len(known.search("a linked list class", standing=True)) == count


def test_a_citation_of_what_may_not_be_read_is_refused(store: JsonlStore, root: str) -> None:
    key = SessionKey("main", "hers")
    store.create(key, owner=NamedOwner("ann"))
    said = store.append(key, [User(content="private")], expect=None)
    with Memory.open(root, caller=Caller("main", None, visibility="agent")) as memory:
        with pytest.raises(AccessDenied):
            memory.get(f"main/hers#{said.head}")
        with pytest.raises(HoldfastError):
            memory.get("../../etc/passwd.md#L1-L2")


def test_secrets_are_masked_on_the_way_in_and_out(
    memory: Memory, store: JsonlStore, root: str, contents: Contents
) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    said = store.append(KEY, [User(content=f"the deploy token is {token}")], expect=None)
    (hit,) = memory.search("deploy token", scope="sessions")

    assert token not in hit.text
    assert token not in memory.get(f"main/one#{said.head}")
    memory.close()
    index = [data for name, data in contents(root) if name in ("recall.sqlite3", "texts")]
    assert b"deploy" in b"".join(index)
    assert token.encode() not in b"".join(index)


def test_meaning_finds_what_words_do_not(store: JsonlStore) -> None:
    """With vectors, a passage without a common word is found, and an exact one is still first."""
    store.append(
        KEY,
        [User(content="aaaa bbbb"), User(content="mmmm nnnn"), User(content="zzz")],
        expect=None,
    )
    with Memory(store, None, embedder=Letters()) as memory:
        assert _texts(memory, "aabb", "sessions")[0] == "aaaa bbbb"
        assert _texts(memory, "zzz", "sessions")[0] == "zzz"
        assert memory.notice == ""


def test_what_is_about_the_same_matter_comes_before_what_only_shares_a_word(
    memory: Memory, store: JsonlStore
) -> None:
    """The session that answers best says in which words the matter is spoken of elsewhere."""
    said = {
        "best": ["My pottery course began.", "The kiln and the glaze.", "A glaze for the kiln."],
        "same": ["The kiln broke.", "So the glaze ran.", "That course again."],
        "other": ["The golf lawn.", "Lawn and golf.", "A course of golf."],
        "another": ["We had soup.", "Then fish, of course."],
    }
    _say(store, said)
    hits = memory.search("pottery course", scope="sessions", limit=20)

    assert [hit.session for hit in hits][:2] == ["main/best", "main/same"]
    assert memory.search("pottery course", scope="sessions", limit=3) == hits[:3]


def test_what_means_the_same_as_the_best_comes_before_what_does_not(store: JsonlStore) -> None:
    said = {
        "best": ["harbour aaaaaaa", "bbbbbbbb"],
        "same": ["harbour b", "bbbbbbbbb"],
        "other": ["harbour p", "ppppppppp"],
        "another": ["harbour k", "kkkkkkkkk"],
    }
    _say(store, said)
    with Memory(store, None, embedder=Letters()) as memory:
        hits = memory.search("harbour aaaaaaa", scope="sessions", limit=20)
        again = memory.search("harbour aaaaaaa", scope="sessions", limit=2)

    assert [hit.session for hit in hits][:2] == ["main/best", "main/same"]
    assert again == hits[:2]


def test_a_search_does_not_wait_for_many_vectors(store: JsonlStore) -> None:
    """What has none yet is compared by words alone, and the search says how much that is."""
    store.append(KEY, [User(content=f"apple number {n}") for n in range(80)], expect=None)
    with Memory(store, None, embedder=Letters()) as memory:
        assert memory.search("apple", scope="sessions")
        assert memory.notice.startswith("32 of 80 passages have a vector")
        assert memory.embed() > 0
        assert memory.search("apple", scope="sessions")
        assert memory.notice == ""


def test_a_broken_embedder_does_not_break_a_search(store: JsonlStore) -> None:
    class Broken(Letters):
        def embed(self, texts: Sequence[str]) -> list[bytes]:
            raise RuntimeError("out of order")

    store.append(KEY, [User(content="about bananas")], expect=None)
    with Memory(store, None, embedder=Broken()) as memory:
        assert _texts(memory, "bananas", "sessions") == ["about bananas"]
        assert "out of order" in memory.notice


def test_many_queries_are_answered_over_one_index(memory: Memory, store: JsonlStore) -> None:
    store.append(KEY, [User(content="about bananas"), User(content="about apples")], expect=None)
    found = list(memory.search_many(["banana", "apple", "pear"], scope="sessions"))

    assert [[hit.text for hit in hits] for hits in found] == [
        ["about bananas"],
        ["about apples"],
        [],
    ]


def test_a_search_lists_what_changed(
    memory: Memory, store: JsonlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among any number of sessions, and nothing for queries over one state of the files."""
    listed: list[int] = []
    for number in range(30):
        key = SessionKey("main", f"other{number}")
        store.create(key)
        store.append(key, [User(content=f"word{number}")], expect=None)
    since = type(store).sessions_since

    def count(self: Any, state: str, **options: Any) -> Any:
        found = since(self, state, **options)
        listed.append(len(found.infos))
        return found

    monkeypatch.setattr(type(store), "sessions_since", count)
    assert memory.search("word7", scope="sessions")
    assert memory.search("word8", scope="sessions")
    assert listed == [31, 0]
    store.append(SessionKey("main", "other3"), [User(content="quokka")], expect=None)
    store.remove(SessionKey("main", "other8"))
    assert memory.search("quokka", scope="sessions")
    assert memory.search("word8", scope="sessions") == []
    assert listed[2:] == [1, 30, 0], "one was removed, so all are listed once"
    for _query in range(3):
        memory.search("quokka", scope="sessions", refresh=False)
    assert len(listed) == 5


@pytest.mark.parametrize("options", [{"scope": "everything"}, {"limit": 0}, {"limit": 101}])
def test_what_cannot_be_meant_is_refused(memory: Memory, options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        memory.search("x", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("query", ["", " ", '"', "AND OR NOT", "a" * 20_000, "\ud800", "的"])
def test_any_query_can_be_asked(memory: Memory, store: JsonlStore, query: str) -> None:
    store.append(KEY, [User(content="about bananas")], expect=None)

    assert memory.search(query, scope="all") == []


def test_the_tools_answer_within_their_cap_and_refuse_in_words(
    memory: Memory, store: JsonlStore
) -> None:
    said = store.append(KEY, [User(content="bananas " * 300)], expect=None)
    search, get = memory_tools(memory, max_chars=500)
    found = search.function(query="bananas")

    assert len(found.content) <= 500
    assert f"main/one#{said.head}" in found.content
    assert get.function(citation=f"main/one#{said.head}").content.startswith("bananas")
    assert search.function(query="x", scope="mars").is_error
    assert get.function(citation="nowhere").is_error
    assert "Nothing" in search.function(query="pears").content


@pytest.mark.files_only("it damages files")
def test_an_index_that_breaks_is_made_anew(memory: Memory, store: JsonlStore, root: str) -> None:
    """It is only a cache: what is damaged under our hands costs a reading, not an answer."""
    store.append(KEY, [User(content=f"about bananas {n}") for n in range(50)], expect=None)
    assert _texts(memory, "bananas")
    memory.close()
    path = f"{root}/recall.sqlite3"
    with open(path, "r+b") as file:
        size = file.seek(0, 2)
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))

    assert len(_texts(memory, "bananas")) == 6


def test_without_a_root_nothing_is_found_and_nothing_is_made(tmp_path: Path) -> None:
    with Memory.open(str(tmp_path / "missing")) as memory:
        assert memory.search("anything", scope="all") == []
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("way", ["redactor", "session"])
def test_registered_secrets_are_not_in_the_index_in_any_form(
    way: str, store: JsonlStore, root: str, contents: Contents
) -> None:
    """Neither as they are nor in base64 or hexadecimal, given to a memory or to its session."""
    secret = "correct horse battery staple"
    forms = (secret, b64encode(secret.encode()).decode(), secret.encode().hex())
    for number, form in enumerate(forms):
        key = SessionKey("main", f"old{number}")
        store.create(key)
        store.append(key, [User(content=f"the gate opens with {form} today")], expect=None)
    store.notes("main").append(f"the gate opens with {forms[1]}")
    given = {"gate": secret}
    redactor = Redactor(given) if way == "redactor" else None
    memory = Memory(store, store.notes("main"), redactor=redactor, caller=OPERATOR)
    if way == "redactor":
        assert memory.search("gate opens")
    else:
        options = {"store": store, "model": "offline", "memory": memory, "secrets": given}
        with Session.open("new", **options) as session:  # type: ignore[arg-type]
            session.say("what opens the gate?")
    store.close()  # and what SQLite has not yet written into the file is there
    indexed = [
        (name, data)
        for name, data in contents(root)
        if name.startswith(("recall", "texts", "blocks", "segments", "vectors", "sources"))
    ]
    assert any(b"opens" in data for _name, data in indexed)
    assert [(name, form) for name, data in indexed for form in forms if form.encode() in data] == []


def test_many_sessions_are_indexed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One transaction for many sessions: each costs the pages that it touches."""
    with MemoryStore() as store:
        for number in range(25):
            key = SessionKey("main", f"s{number}")
            store.create(key)
            store.append(key, [User(content=f"said in session {number}")], expect=ANY_HEAD)
        index = store.search_index
        put = index.replace
        written: list[int] = []

        def spy(sources: Sequence[NewSource]) -> None:
            written.append(len(sources))
            put(sources)

        monkeypatch.setattr(index, "replace", spy)
        monkeypatch.setattr(indexer, "_SOURCES_AT_ONCE", 10)
        memory = Memory(store, None)
        assert len(memory.search("said")) > 0
        assert written == [10, 10, 5]
        assert memory.size().sources == 25


def test_a_search_reads_the_texts_that_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of passages answer and are weighed: the texts of the best are read, each once."""
    with MemoryStore() as store:
        for number in range(300):
            key = SessionKey("main", f"s{number}")
            store.create(key)
            store.append(key, [User(content=f"the harbour of day {number}")], expect=ANY_HEAD)
        memory = Memory(store, None)
        memory.refresh()
        index = store.search_index
        read, sources = index.passages, index._sources
        asked: list[int] = []

        def spy(ids: Collection[int]) -> list[FoundPassage]:
            asked.extend(ids)
            return read(ids)

        monkeypatch.setattr(index, "passages", spy)
        assert len(memory.search("where is the harbour", limit=5)) == 5
        leaders = 3  # whose passages are read once more, for what they have in common
        assert len(asked) <= COMPARED + leaders * (2 * AROUND_PLACES + 1)
        assert len({id_ for id_ in asked if id_ & 0xFFFFFF == 0}) <= COMPARED + leaders

        known = {asked: found for asked, (_state, found) in sources.items()}
        memory.search("a kiln", refresh=False)
        again = {asked: found for asked, (_state, found) in sources.items()}
        assert all(again[one] is known[one] for one in known), "nothing changed: none is read again"
        key = SessionKey("main", "later")
        store.create(key)
        store.append(key, [User(content="the kiln at last")], expect=ANY_HEAD)
        assert memory.search("a kiln")[0].session == "main/later"


@pytest.mark.parametrize("others", [5, 100])
def test_a_search_reads_the_sources_of_its_owner(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, others: int
) -> None:
    """What other owners have in the index costs a search nothing."""
    with JsonlStore(tmp_path) as store:
        for number in range(others + 3):
            owner = NamedOwner("ann" if number < 3 else f"other-{number}")
            key = SessionKey("main", f"s{number}")
            store.create(key, owner=owner)
            store.append(key, [User(content=f"said in {number}")], expect=ANY_HEAD)
            store.notes("main", owner).append("a note")
        Memory(store, None, caller=OPERATOR).refresh()
        index = store.search_index
        sources = index.sources
        given: list[int] = []

        def spy(*names: Any, **more: Any) -> list[IndexSource]:
            found = sources(*names, **more)
            given.append(len(found))
            return found

        monkeypatch.setattr(index, "sources", spy)
        whose = NamedOwner("ann")
        caller = Caller("main", None, owner=whose, visibility="agent")
        memory = Memory(store, store.notes("main", whose), caller=caller)
        assert len(memory.search("said")) == 3
        assert max(given) <= 3 + 1
        store.remove(SessionKey("main", "s0"))
        assert len(memory.search("said")) == 2
        assert "main/s0" not in {source.name for source in sources()}


def test_a_whole_date_selects_what_was_said_that_day(tmp_path: Path) -> None:
    """Also what has no word of the question; what was said on other days comes after it. Where
    nothing was said that day, everything answers."""
    root = str(tmp_path / "root")
    with JsonlStore(root) as store:
        for day, said in (
            ("2026-06-01", "The budget, the budget, and once more the budget of the garden."),
            ("2026-06-03", "We planted three roses."),
            ("2026-06-05", "The budget of the garden is spent."),
        ):
            key = SessionKey("main", day)
            store.create(key)
            ts = datetime.fromisoformat(f"{day}T12:00+00:00").timestamp()
            store.append(key, [User(content=said, ts=ts)], expect=None)
    with Memory.open(root) as memory:
        now = datetime.fromisoformat("2026-07-01T12:00+00:00").timestamp()

        def days(question: str) -> list[str]:
            hits = memory.search(question, scope="sessions", now=now)
            return [str(hit.session).removeprefix("main/") for hit in hits]

        assert days("Garden budget on 3.6.2026")[0] == "2026-06-03"
        assert set(days("Garden budget on 3.6.2026")) == {"2026-06-01", "2026-06-03", "2026-06-05"}
        assert days("Garden budget on 2026-06-05")[0] == "2026-06-05"
        assert days("Garden budget on 2026-05-20") == days("Garden budget")
        assert days("Garden budget 2026-06-03 – 2026-06-05")[2:] == ["2026-06-01"]
