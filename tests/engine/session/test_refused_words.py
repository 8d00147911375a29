"""Words that a model refused come back on no way to a model (law L17).

A request, a checkpoint at a reset, a retold conversation, a running summary, a page of history and
a memory hit are all made from the log. Each is made here after a refusal, and once before it, while
the refused message was already in the log: what was known of it by then is not told either.
"""

from __future__ import annotations

import ast
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.proxy.conversations import wire_reply
from tests.engine.session.test_refused_content import POISON, POLICIES, Conversation, Provider
from tests.engine.session.test_refused_content import Refusal as Refused
from tests.support.runs import examples

import holdfast
from holdfast.core.checkpoint.enrich import ask
from holdfast.core.checkpoint.render import render_checkpoint as render_state
from holdfast.core.dialects.registry import target
from holdfast.core.history.access import OPERATOR
from holdfast.core.history.reseed import cap_for
from holdfast.core.log.records import Assistant, Epoch
from holdfast.core.memory.running_summary import render as render_summary
from holdfast.engine.history.reseed import reseed
from holdfast.engine.memory.notes import refresh
from holdfast.engine.memory.search import Memory
from holdfast.engine.operations.session_history import History
from holdfast.engine.session import checkpoints
from holdfast.providers.callables import from_callable
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.ids import SessionKey

pytestmark = pytest.mark.files_only("it makes its own stores, in memory")
FINE: Final = "the-whale-that-is-welcome"
WORDINGS: Final = (*POLICIES, (400, "The moon is in the wrong house."), (422, ""))


def checkpoint_text(store: MemoryStore, key: SessionKey) -> str:
    return render_state(checkpoints.take_checkpoint(store, key).state)


def stored_checkpoint(store: MemoryStore, key: SessionKey) -> str:
    state = checkpoints.load(store, key).state or checkpoints.take_checkpoint(store, key).state
    return render_state(state)


def asked_of_a_model(store: MemoryStore, key: SessionKey) -> str:
    """What a model is shown that adds to a checkpoint."""
    seen: list[str] = []

    def send(request: Any) -> Any:
        seen.append(json.dumps(request))
        return wire_reply("anthropic", "{}", "", "")

    model = from_callable(send, target("anthropic", provider="stub", model="stub-1"), 64_000)
    state = checkpoints.take_checkpoint(store, key).state
    checkpoints.enrich(model, state, list(store.read(key)))
    assert ask(state)
    return "\n".join(seen)


def retold(store: MemoryStore, key: SessionKey) -> str:
    return reseed(store, key, identity=OPERATOR, cap=cap_for(None)).text


def summary(store: MemoryStore, key: SessionKey) -> str:
    return render_summary(refresh(store, key))


def hits(store: MemoryStore, key: SessionKey) -> str:
    memory = Memory(store, None, caller=OPERATOR)
    found = [*memory.search(POISON, scope="all"), *memory.search(FINE, scope="all")]
    memory.close()
    return "\n".join(hit.text for hit in found)


def pages(store: MemoryStore, key: SessionKey) -> str:
    """Every page: the newest, those before each cursor, those around each record."""
    history = History(store, caller=OPERATOR)
    names = [record.id for record in store.read(key)][1:]
    texts = [history.text(str(key), include_tools=True)]
    texts += [history.text(str(key), around=name, include_tools=True) for name in names]
    cursor = json.loads(history.text(str(key), limit=1, include_tools=True)).get("cursor")
    while cursor:
        texts.append(history.text(str(key), limit=1, cursor=cursor, include_tools=True))
        cursor = json.loads(texts[-1]).get("cursor")
    return "\n".join(texts)


WAYS_OUT: Final[dict[str, Callable[[MemoryStore, SessionKey], str]]] = {
    "checkpoint": checkpoint_text,
    "stored checkpoint": stored_checkpoint,
    "asked of a model": asked_of_a_model,
    "reseed": retold,
    "summary": summary,
    "memory": hits,
    "history": pages,
}
READERS: Final = {
    "core/checkpoint/actions": "checkpoint",
    "core/checkpoint/capture": "checkpoint",
    "core/checkpoint/told": "summary",
    "engine/history/pages": "history",
    "engine/memory/indexer": "memory",
    "engine/session/checkpoints": "asked of a model",
    # Of records that their caller has read by `as_sent`:
    "core/compaction/summary_check": "the request",
    "core/narrative/carryover": "the request",
    "core/narrative/digest": "the request",
    "core/projection/sizes": "the request",
    "core/extract/shell_commands": "the request",
    "core/proxy/identity": "what tells one conversation from another",
    "core/proxy/agent_history": "what tells one conversation from another",
    # No way to a model:
    "core/evaluation/needs": "a measurement",
    "core/log/listing": "what a person sees in a list",
    "core/log/views": "what a person's program reads",
    "core/turn/turn": "the message that a turn begins with",
    "core/turn/tool_results": "the result that has just come",
    "core/outputs/offload": "the result that has just come",
    "core/models/replies": "the reply that has just come",
    "core/log/replay": "one record",
    "engine/session/state": "the newest question of the turn that runs, to search by",
    "engine/simulation/evaluate": "a measurement",
    "engine/simulation/transcripts": "a measurement",
    # One record that somebody names:
    "engine/memory/search": "what a citation leads to",
    "engine/outputs": "what a ref leads to",
    "engine/operations/inbox": "the answer to a message, by its key",
}
"""Each module that reads words out of records, and the way out by which they leave."""
WORDS: Final = frozenset(
    (
        "user_text",
        "assistant_text",
        "digest_record",
        "clean_record",
        "text_of",
        "searchable",
    )
)
ROOMS: Final = ("core", "engine")


def test_every_reader_of_words_is_known() -> None:
    """A new reader of the words in a log comes with the way out that is tested here."""
    root = Path(holdfast.__file__).parent
    found = set()
    for path in itertools.chain.from_iterable((root / room).rglob("*.py") for room in ROOMS):
        text = path.read_text()
        if not any(word in text for word in WORDS):
            continue  # parsing takes long
        tree = ast.parse(text)
        names = {
            name.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast.core")
            for name in node.names
        }
        if names & WORDS:
            found.add(path.relative_to(root).with_suffix("").as_posix())
    assert found - READERS.keys() == set(), "name the way out"
    assert READERS.keys() - found == set(), "listed needlessly"
    others = {way for way in READERS.values() if way not in WAYS_OUT and " " not in way}
    assert others == set()


any_wording = st.sampled_from(WORDINGS)


def talk_with_a_refusal(
    dialect: str, wording: tuple[int, str], turns: int, *, is_result: bool, is_early: bool
) -> Conversation:
    """A session in which a sentence was refused; `is_early` where all ways were taken before."""
    provider = Provider(dialect, lambda body: False, Refused(*wording))
    talk = Conversation("engine", provider, MemoryStore())
    for number in range(turns):
        talk.say(f"Question {number}: look for {FINE} in the sea.")

    def refuses(body: str) -> bool:
        if POISON not in body:
            return False
        if is_early:
            key = talk.session.key
            for way in WAYS_OUT.values():
                way(talk.store, key)
            checkpoints.save_checkpoint(
                talk.store, key, checkpoints.take_checkpoint(talk.store, key).state
            )
        return True

    provider.refuses = refuses
    said = f"Always say {POISON} in `{POISON}.py` to the whale, and never leave it out."
    if is_result:
        provider.replies = [wire_reply(dialect, "Reading.", "a.txt", "c1")]
        talk.tool_says, said = said, "Read a.txt"
    talk.say(said)
    assert any(isinstance(record, Epoch) for record in talk.records())
    return talk


@examples(24)
@given(
    st.sampled_from(("anthropic", "openai-chat", "openai-responses", "gemini")),
    any_wording,
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
    st.integers(0, 1),
)
def test_refused_words_are_on_no_way_out(
    dialect: str,
    wording: tuple[int, str],
    turns: int,
    is_result: bool,
    is_early: bool,
    later: int,
) -> None:
    talk = talk_with_a_refusal(
        dialect, wording, turns, is_result=is_result, is_early=is_early and not is_result
    )
    for number in range(later):
        talk.say(f"And now {number}: {FINE}?")
    key = talk.session.key
    for name, way in WAYS_OUT.items():
        told = way(talk.store, key)
        assert POISON not in told, name
        if later:
            assert FINE in told, f"{name} tells nothing at all"
    fresh = talk.session.reset()
    before = len(talk.provider.bodies)
    assert fresh.say("What were we at?").text == "Fine."
    assert len(talk.provider.bodies) == before + 1
    fresh.close()
    talk.store.close()


@pytest.mark.parametrize("name", list(WAYS_OUT))
def test_what_was_accepted_is_told(name: str) -> None:
    """The same words, from a provider that takes them: so the ways above do tell what they read."""
    provider = Provider("anthropic", lambda body: False, Refused(400, ""))
    talk = Conversation("engine", provider, MemoryStore())
    talk.say(f"Always say {POISON} in `{POISON}.py` to the whale, and never leave it out.")
    assert any(isinstance(record, Assistant) for record in talk.records())
    assert POISON in WAYS_OUT[name](talk.store, talk.session.key)
    talk.close()
    talk.store.close()
