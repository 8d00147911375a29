"""Which session a request belongs to, and what is logged of it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.proxy.conversations import DIALECTS, Client, exchange, path, texts
from tests.support.runs import examples

from holdfast.core.log.records import ModelChange
from holdfast.core.models.window import window_in
from holdfast.core.owners import ANY_OWNER, NO_OWNER, NamedOwner
from holdfast.core.proxy.endpoints import ProxyProblem
from holdfast.core.proxy.identity import newest_terms
from holdfast.core.window import Window
from holdfast.engine.proxy import session_branches
from holdfast.engine.proxy.exchange import ProxyKeeper
from holdfast.engine.proxy.session_branches import last_number
from holdfast.errors import HoldfastWarning, StoreError
from holdfast.ports import ANY_HEAD, sessions
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.log.ids import SessionKey
    from holdfast.ports import SessionInfo

dialects = pytest.mark.parametrize("dialect", DIALECTS)


def walk(keeper: ProxyKeeper, client: Client, steps: int = 3, word: str = "a") -> None:
    """A turn of some tool calls."""
    client.say(f"question {word}")
    for step in range(steps):
        exchange(keeper, client, f"look {word}{step}", f"{word}{step}.txt")
        client.answer(f"content of {word}{step}")
    exchange(keeper, client, f"done {word}")


@dialects
def test_a_conversation_is_one_session_and_each_message_is_stored_once(
    dialect: str,
) -> None:
    store = MemoryStore()
    client = Client(dialect)
    walk(ProxyKeeper(store), client)
    (info,) = store.sessions(owner=ANY_OWNER)
    found = path(store, info.key.session)
    assert [record.kind for record in found] == [
        "user",
        *("assistant", "tool_result") * 3,
        "assistant",
    ]
    assert texts(found)[1] == 'look a0 {"path":"a0.txt"}'
    assert info.messages == len(found)
    assert len(store.branches(info.key)) == 1


@dialects
def test_the_proxy_may_be_killed_between_any_two_requests(dialect: str, tmp_path: Path) -> None:
    client = Client(dialect)
    client.say("question")
    for step in range(4):
        with JsonlStore(str(tmp_path)) as store:
            exchange(ProxyKeeper(store), client, f"look {step}", f"{step}.txt")
        client.answer(f"content {step}")
    with JsonlStore(str(tmp_path)) as store:
        (info,) = store.sessions(owner=ANY_OWNER)
        assert info.messages == 1 + 4 + 3
        assert len(store.branches(info.key)) == 1


@pytest.mark.parametrize("kept", [1, 2, 1_000])
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("xyz")), min_size=1, max_size=14))
@examples(100)
def test_conversations_with_the_same_opening_never_mix(
    kept: int, moves: list[tuple[int, str]]
) -> None:
    """Three conversations begin alike, go on in any order, and may say the same for a while. After
    each reply, the path to the head is exactly what its client has."""
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    clients = [Client("anthropic") for _ in range(3)]
    for client in clients:
        client.say("hello")
    for number, word in moves:
        for key in list(keeper._pool._sessions)[:-kept]:
            keeper._pool._forget_oldest()
            assert key not in keeper._pool._sessions
        client = clients[number]
        sent = exchange(keeper, client, f"reply {word}")
        found = path(store, sent.headers()["x-holdfast-session"])
        content = [item["content"] for item in client.items]
        assert texts(found) == [
            said if isinstance(said, str) else said[0]["text"] for said in content
        ]
        client.say(f"more {word}")


@dialects
def test_a_rewritten_history_is_a_branch_that_is_found_again(dialect: str) -> None:
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    client = Client(dialect)
    client.headers = {"x-claude-code-session-id": "abc"}
    walk(keeper, client)
    client.items = client.items[:1]
    client.say("summary of what was done")
    walk(keeper, client, 2, "b")
    (info,) = store.sessions(owner=ANY_OWNER)
    assert info.key.session == "proxy-abc"
    assert texts(path(store, "proxy-abc"))[:3] == [
        "question a",
        "summary of what was done",
        "question b",
    ]
    assert len(store.branches(info.key)) == 2


@dialects
def test_an_equal_request_is_a_retry_and_is_stored_once(dialect: str) -> None:
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    client = Client(dialect)
    client.say("question")
    for cause in ("the upstream is down", "it is down again"):
        keeper.begin(client.request()).break_off(cause)
    exchange(keeper, client, "answer")
    (info,) = store.sessions(owner=ANY_OWNER)
    kinds = [entry.record.kind for entry in store.read_all(info.key)]
    assert kinds == ["session", "model", "user", "failure", "failure", "assistant"]


@dialects
def test_a_partial_reply_is_kept_with_its_cause(dialect: str) -> None:
    event = {
        "anthropic": b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
        b'"text":"half"}}\n\n',
        "openai-chat": b'data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n',
        "openai-responses": b'data: {"type":"response.output_text.delta","output_index":0,'
        b'"content_index":0,"delta":"half"}\n\n',
        "gemini": b'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"half"}]}}]}'
        b"\n\n",
    }[dialect]
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    client = Client(dialect)
    client.say("question")
    begun = keeper.begin(client.request())
    begun.open("text/event-stream", "")
    assert begun.take(event) == "pass"
    begun.break_off("the client hung up")
    (info,) = store.sessions(owner=ANY_OWNER)
    last = list(store.read(info.key))[-1]
    assert (texts([last]), last.extra["cause"]) == (["half"], "the client hung up")
    exchange(keeper, client, "whole")
    assert texts(path(store, info.key.session)) == ["question", "whole"]


def test_a_volatile_last_message_makes_no_branch() -> None:
    """OpenClaw ends each request with a message that the next one does not have."""
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    client = Client("anthropic")
    client.say("question")
    for step in range(4):
        client.say(f"<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>> {step}")
        begun = keeper.begin(client.request())
        client.items.pop()
        begun.open("application/json", "")
        begun.take(client.hear(f"look {step}", f"{step}.txt"))
        begun.finish()
        client.answer(f"content {step}")
    (info,) = store.sessions(owner=ANY_OWNER)
    assert len(store.branches(info.key)) == 1
    said = [text for text in texts(path(store, info.key.session)) if "OPENCLAW" not in text]
    assert said[:3] == ["question", 'look 0 {"path":"0.txt"}', "content 0"]
    assert len(said) == 8


def test_marks_and_spellings_that_change_make_no_branch() -> None:
    """The cache mark moves, a text comes as blocks, a call's id loses its underscore."""
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    client = Client("anthropic")
    client.say("question")
    exchange(keeper, client, "look", "a.txt")
    client.answer("content")
    mark = {"cache_control": {"type": "ephemeral"}}
    client.items[0]["content"] = [{"type": "text", "text": "question", **mark}]
    client.items[1]["content"][1]["id"] = client.items[2]["content"][0]["tool_use_id"] = "call1"
    client.items[1]["content"].insert(0, {"type": "thinking", "thinking": "Hm", "signature": "s"})
    client.items[2]["content"][0] |= {"content": [{"type": "text", "text": "content"}], **mark}
    exchange(keeper, client, "more", "b.txt")
    client.answer("content b")
    exchange(keeper, client, "done")
    (info,) = store.sessions(owner=ANY_OWNER)
    assert len(store.branches(info.key)) == 1
    assert info.messages == 6


LONG = "and I look at this file in order to find out why the importer stops at line twelve"


@dialects
@given(
    steps=st.integers(3, 5),
    beginning=st.text(st.characters(codec="utf-8"), max_size=40),
    has_restarted=st.booleans(),
    is_noted=st.booleans(),
)
@examples(40)
def test_a_conversation_that_begins_otherwise_on_resume_is_known_by_its_replies(
    dialect: str, steps: int, beginning: str, has_restarted: bool, is_noted: bool
) -> None:
    """Some clients spell the first message otherwise when they resume: other surroundings, another
    date, a message more. It stays one session, on one branch, and nothing is stored twice."""
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    client = Client(dialect)
    client.ids = "call_8GxT02mkQzp4_"
    walk(keeper, client, steps, LONG)
    if has_restarted:
        keeper = ProxyKeeper(store)
    later, client.items = client.items[1:], []
    client.say(f"The date is another one. {beginning}")
    if is_noted:
        client.say("Go on from here.")
    client.items += later
    for word in ("b", "c"):
        walk(keeper, client, 2, word)
    (info,) = store.sessions(owner=ANY_OWNER)
    assert len(store.branches(info.key)) == 1
    assert info.messages == 2 * (steps + 1) + 2 * 6


@dialects
def test_equal_replies_of_another_conversation_are_not_its_own(dialect: str) -> None:
    """Two agents that begin otherwise and then do the same keep a session each: the ids of their
    calls differ, or are counters and say nothing."""
    for first, second in (("call_8GxT02mkQzp4_", "call_b77LLw0QrsT1_"), ("call_", "call_")):
        store = MemoryStore()
        keeper = ProxyKeeper(store)
        for number, ids in enumerate((first, second)):
            client = Client(dialect)
            client.ids = ids
            client.say(f"task {number}")
            for step in range(2):
                exchange(keeper, client, f"look {step}", f"{step}.txt")
                client.answer("content")
            exchange(keeper, client, "done")
            assert len(store.sessions(owner=ANY_OWNER)) == number + 1
        assert [info.messages for info in store.sessions(owner=ANY_OWNER)] == [6, 6]


def test_an_instruction_amid_the_messages_is_part_of_the_conversation() -> None:
    """Claude Code sends entries with the role `system`, the first of them at index 1."""
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    client = Client("anthropic")
    client.say("question")
    client.items.append({"role": "system", "content": "Be brief."})
    for step in range(3):
        exchange(keeper, client, f"look {step}", f"{step}.txt")
        client.answer(f"content {step}")
        client.items.append({"role": "system", "content": f"Step {step}."})
    exchange(keeper, client, "done")
    (info,) = store.sessions(owner=ANY_OWNER)
    assert len(store.branches(info.key)) == 1
    said = [record for record in path(store, info.key.session) if record.extra.get("role")]
    assert texts(said) == ["Be brief.", "Step 0.", "Step 1.", "Step 2."]


def test_side_requests_are_logged_apart() -> None:
    """A title before the first turn, a memory extraction after it: by id, system and prefix."""
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    main, title, memory = Client("openai-chat"), Client("openai-chat"), Client("openai-chat")
    for client in (main, title, memory):
        client.headers = {"x-session-id": "ses_1"}
    title.system, title.has_tools = "You name conversations.", False
    memory.system, memory.has_tools = "You extract memories.", False
    title.say("question a")
    exchange(keeper, title, "A title")
    walk(keeper, main)
    memory.say("<conversation>…</conversation>")
    exchange(keeper, memory, "Nothing")
    main.has_tools = False  # the lack of tools alone makes no side request
    walk(keeper, main, 1, "b")
    sessions = {info.key.session: info.messages for info in store.sessions(owner=ANY_OWNER)}
    assert sessions["proxy-ses_1"] == 8 + 4
    assert sorted(sessions.values()) == [2, 2, 12]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_named_conversation_without_tools_stays_one(dialect: str) -> None:
    """Its system prompt changes with each request: only the first request, which may be a title,
    is logged apart."""
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    client = Client(dialect)
    client.headers, client.has_tools = {"x-session-id": "talk"}, False
    for number in range(5):
        client.system = f"You are an agent. It is {number} o'clock."
        client.say(f"question {number}")
        exchange(keeper, client, f"answer {number}")
    found = {info.key.session: info.messages for info in store.sessions(owner=ANY_OWNER)}
    assert found.pop("proxy-talk") == 10
    assert list(found.values()) == [2]


def test_a_sub_agent_has_a_session_of_its_own() -> None:
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    main, inner = Client("anthropic"), Client("anthropic")
    main.headers = {"x-claude-code-session-id": "abc"}
    inner.headers = {**main.headers, "x-claude-code-agent-id": "a1"}
    walk(keeper, main)
    walk(keeper, inner)
    assert {info.key.session for info in store.sessions(owner=ANY_OWNER)} == {
        "proxy-abc",
        "proxy-abc-agent-a1",
    }


def test_a_response_is_gone_on_from_by_its_id() -> None:
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    client = Client("openai-responses")
    client.say("first")
    exchange(keeper, client, "one")
    client.items, client.extra = [], {"previous_response_id": "resp_call_1"}
    client.say("second")
    exchange(keeper, client, "two")
    (info,) = store.sessions(owner=ANY_OWNER)
    assert texts(path(store, info.key.session)) == ["first", "one", "second", "two"]


def test_terms_are_logged_once_and_when_they_change() -> None:
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    client = Client("anthropic")
    walk(keeper, client)
    client.system = "You are another agent."
    walk(keeper, client, 1, "b")
    (info,) = store.sessions(owner=ANY_OWNER)
    terms = [entry.record for entry in store.read_all(info.key) if entry.record.kind == "model"]
    assert [record.extra["request"].get("system") for record in terms] == [
        "You are an agent.",
        "You are another agent.",
    ]
    assert "tools" in terms[0].extra["request"]
    assert "tools" not in terms[1].extra["request"]


@dialects
def test_each_branch_has_its_own_terms(dialect: str) -> None:
    """A branch begins under the terms of the place that it leaves; what the other one changed
    since is no term of it. The path to each head tells the terms of its last request."""
    store, client = MemoryStore(), Client(dialect)
    client.headers = {"x-claude-code-session-id": "abc"}
    keeper = ProxyKeeper(store)
    walk(keeper, client)
    fork = list(client.items)
    for system in ("You are another agent.", "You are an agent.", "A third.", "You are an agent."):
        for other in (keeper, ProxyKeeper(store)):
            client.system, client.items = system, list(fork)
            walk(other, client, 1, f"{system} {id(other)}")
            (info,) = store.sessions(owner=ANY_OWNER)
            shown, tools = newest_terms(store.back(info.key))
            assert shown == system
            assert [tool.name for tool in tools] == ["read"]


def test_a_change_of_terms_forgets_no_window() -> None:
    """A window that was learned is in the record of the change, for whoever reads the log."""
    store, client = MemoryStore(), Client("anthropic")
    walk(ProxyKeeper(store), client)
    (info,) = store.sessions(owner=ANY_OWNER)
    model = next(found.model for found in store.read(info.key) if isinstance(found, ModelChange))
    store.append(info.key, [ModelChange(model=model, window=20_000)], expect=ANY_HEAD)
    client.system = "You are another agent."
    walk(ProxyKeeper(store), client, 1, "b")
    records = list(store.read(info.key))
    assert sum(isinstance(found, ModelChange) for found in records) == 3
    assert window_in(records, model) == Window(20_000, "as the session recorded it", "learned")


def test_two_requests_at_once_keep_their_branches() -> None:
    """Two answers to one prefix are in flight; each reply follows its own request."""
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    main = Client("anthropic")
    main.headers = {"x-claude-code-session-id": "abc"}
    walk(keeper, main)
    left, right = Client("anthropic"), Client("anthropic")
    begun = []
    for client, word in ((left, "left"), (right, "right")):
        client.headers, client.items = main.headers, list(main.items)
        client.say(word)
        begun.append(keeper.begin(client.request()))
    for sent, client in zip(begun, (left, right), strict=True):
        sent.open("application/json", "")
        sent.take(client.hear("ok"))
        sent.finish()
    left.say("go on")
    exchange(keeper, left, "fine")
    assert texts(path(store, "proxy-abc"))[-4:] == ["left", "ok", "go on", "fine"]


class FullStore(MemoryStore):
    """A store that takes nothing any more."""

    is_full = False

    def append_batch(self, *args: object, **named: object) -> object:  # type: ignore[override]
        if self.is_full:
            raise StoreError("no space left on device")
        return super().append_batch(*args, **named)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["guard", "save"])
def test_a_log_that_cannot_be_written_is_an_error(mode: str) -> None:
    store = FullStore()
    keeper = ProxyKeeper(store, mode=mode)  # type: ignore[arg-type]
    client = Client("anthropic")
    client.say("question")
    begun = keeper.begin(client.request())
    store.is_full = True
    begun.open("application/json", "")
    begun.take(client.hear("answer"))
    with pytest.raises(ProxyProblem, match="no space left"):
        begun.finish()
    client.say("more")
    with pytest.raises(ProxyProblem, match="no space left"):
        keeper.begin(client.request())


def test_observing_passes_on_without_a_log_and_warns() -> None:
    store = FullStore()
    store.is_full = True
    keeper = ProxyKeeper(store, mode="observe")
    client = Client("anthropic")
    client.say("question")
    with pytest.warns(HoldfastWarning, match="no space left"):
        begun = keeper.begin(client.request())
    assert begun.body == client.request().data
    assert not begun.is_logged


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.engine.proxy.session_branches._PLACES_MAX", 50)
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    clients = [Client("anthropic") for _ in range(12)]
    for number, client in enumerate(clients):
        client.headers = {"x-claude-code-session-id": f"s{number}"}
        walk(keeper, client)
    pool = keeper._pool._sessions
    assert sum(len(session.branches) for session in pool.values()) <= 50 + 8
    walk(keeper, clients[0], 1, "b")  # forgotten, and read again
    assert {info.messages for info in store.sessions(owner=ANY_OWNER)} == {8, 12}


POOL = "holdfast.engine.proxy.session_branches"


@dialects
def test_the_number_of_sessions_in_memory_is_bounded(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where each conversation is short: what is forgotten is found again in the log."""
    monkeypatch.setattr(f"{POOL}._SESSIONS_MAX", 3)
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    clients = [Client(dialect) for _ in range(8)]
    for number, client in enumerate(clients):
        walk(keeper, client, 1, f"c{number}")
    for number, client in enumerate(clients):
        walk(keeper, client, 1, f"d{number}")
    pool = keeper._pool
    assert len(pool._sessions) == 3
    assert {key for keys in pool._keys.values() for key in keys} <= set(pool._sessions)
    assert [info.messages for info in store.sessions(owner=ANY_OWNER)] == [8] * 8


def test_a_session_that_is_forgotten_in_use_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exchange and the next request of its conversation share one lock."""
    monkeypatch.setattr(f"{POOL}._SESSIONS_MAX", 2)
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    client = Client("anthropic")
    client.headers = {"x-claude-code-session-id": "kept"}
    client.say("question")
    begun = keeper.begin(client.request())
    for number in range(5):
        other = Client("anthropic")
        walk(keeper, other, 1, f"o{number}")
    assert begun._log is not None
    key = begun._log.session.key
    assert key not in keeper._pool._sessions
    assert keeper._pool.get(key) is begun._log.session


class CountingStore(MemoryStore):
    """Counts the listings of its sessions, each of which looks at all of them."""

    listings = 0
    heads = 0

    def head(self, key: SessionKey) -> str:
        self.heads += 1
        return super().head(key)

    def sessions(self, **asked: Any) -> list[SessionInfo]:
        self.listings += 1
        return super().sessions(**asked)


@pytest.mark.files_only("it counts what its own store is asked for")
@dialects
def test_a_conversation_that_goes_on_lists_no_sessions(dialect: str) -> None:
    """A store of ten thousand sessions must not slow each request of one of them."""
    store = CountingStore()
    keeper, client = ProxyKeeper(store), Client(dialect)
    walk(keeper, client)
    before = store.listings
    walk(keeper, client, 5, "b")
    assert store.listings == before
    walk(ProxyKeeper(store), client, 1, "c")
    assert len(store.sessions(owner=ANY_OWNER)) == 1


@given(st.integers(0, 300), st.integers(0, 300))
@examples(200)
def test_the_last_number_is_found_by_few_looks(count: int, gap: int) -> None:
    """One whose successor is missing: the last where none is missing in between."""
    asked: list[int] = []

    def is_there(number: int) -> bool:
        asked.append(number)
        return number < count and number != gap

    found = last_number(is_there)
    assert found == -1 or is_there(found)
    assert not is_there(found + 1)
    if gap >= count:
        assert found == count - 1
    assert len(asked) <= 22


@pytest.mark.files_only("it counts what its own store is asked for")
@dialects
def test_a_new_conversation_lists_no_sessions(dialect: str) -> None:
    """Nor does its retry in another process, which finds it, nor one that began elsewhere; equal
    ones have one each, and those of another owner are not seen."""
    store = CountingStore()
    for number in range(7):
        client = Client(dialect)
        client.say("hello")
        ProxyKeeper(store).begin(client.request()).break_off("killed")
        exchange(ProxyKeeper(store), client, f"reply {number}")
    client = Client(dialect)
    client.say("hello")
    exchange(ProxyKeeper(store, owner=NamedOwner("other")), client, "reply of the other")
    client = Client(dialect)
    walk(ProxyKeeper(MemoryStore()), client)
    walk(ProxyKeeper(store), client, 1, "b")
    walk(ProxyKeeper(store), client, 1, "c")
    assert store.listings == 0
    assert len(store.sessions(owner=NamedOwner("other"))) == 1
    assert sorted(info.messages for info in store.sessions(owner=NO_OWNER))[-2:] == [2, 16]
    own = store.sessions(owner=NO_OWNER)
    found = [texts(path(store, info.key.session)) for info in own if info.messages == 2]
    assert sorted(found) == [["hello", f"reply {number}"] for number in range(7)]


@pytest.mark.files_only("it counts what its own store is asked for")
@dialects
def test_a_common_opening_costs_no_look_at_each_conversation(dialect: str) -> None:
    """A bot whose conversations all begin alike: a request looks at its own session alone."""

    def heads(conversations: int) -> int:
        store = CountingStore()
        keeper, clients = ProxyKeeper(store), [Client(dialect) for _ in range(conversations)]
        for number, client in enumerate(clients):
            client.say("hello")
            exchange(keeper, client, f"reply {number}")
        before = store.heads
        for client in clients[:4]:
            client.say("and?")
            exchange(keeper, client, "yes")
        return store.heads - before

    assert heads(40) == heads(10)


def test_a_response_is_gone_on_from_in_another_process(tmp_path: Path) -> None:
    with JsonlStore(tmp_path) as store:
        client = Client("openai-responses")
        client.say("question")
        exchange(ProxyKeeper(store), client, "first")
        for number, words in enumerate(("and?", "and then?"), 1):
            client.items, client.extra = [], {"previous_response_id": f"resp_call_{number}"}
            client.say(words)
            exchange(ProxyKeeper(store), client, f"answer {number}")
        (info,) = store.sessions(owner=ANY_OWNER)
        assert texts(path(store, info.key.session)) == [
            *("question", "first", "and?", "answer 1", "and then?", "answer 2")
        ]


@dialects
def test_a_first_request_with_more_messages_than_one_append_takes_is_logged(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may come with a conversation of any length; the next request adds what is new."""
    for module in (session_branches, sessions):
        monkeypatch.setattr(module, "BATCH_RECORDS_MAX", 7)
    store = MemoryStore()
    keeper, client = ProxyKeeper(store), Client(dialect)
    said = []
    for turn in range(20):
        client.say(f"question {turn}")
        client.hear(f"answer {turn}")
        said += [f"question {turn}", f"answer {turn}"]
    for words in ("and now?", "and then?"):
        client.say(words)
        exchange(keeper, client, f"after {words}")
        said += [words, f"after {words}"]
    (info,) = store.sessions(owner=ANY_OWNER)
    assert texts(path(store, info.key.session)) == said
    assert len(store.branches(info.key)) == 1


@dialects
def test_equal_first_requests_at_once_make_one_session(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that sends its first request eight times, before any is answered, has one
    session with one message."""
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    make, meeting = keeper._pool.make, threading.Barrier(8)

    def make_slowly(label: str) -> Any:
        made = make(label)
        with suppress(threading.BrokenBarrierError):
            meeting.wait(0.2)  # the others would look for it now
        return made

    monkeypatch.setattr(keeper._pool, "make", make_slowly)
    client = Client(dialect)
    client.say("hello")
    requests = [client.request() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(keeper.begin, requests))
    (info,) = store.sessions(owner=ANY_OWNER)
    assert texts(path(store, info.key.session)) == ["hello"]
