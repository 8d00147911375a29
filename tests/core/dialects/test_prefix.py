"""The prefix of a reply: digests that only grow, and reasoning behind its own prefix alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.dialects.prefix import (
    Prefixes,
    SentRequest,
    is_bound,
    may_return,
    origin_of,
    prefixes_of,
    provable,
)
from holdfast.core.dialects.registry import DIALECTS, target
from holdfast.core.log.records import Assistant
from holdfast.core.models.messages import Message, Text, Thinking, Tool, ToolAnswer, ToolCall

if TYPE_CHECKING:
    from holdfast.core.models.dialects import Target

TARGETS: Final = [target(name, provider="anthropic", model="claude-x") for name in DIALECTS]
TOOL: Final = Tool("look", "Looks.", {"type": "object"})
BOUND: Final = target("anthropic", provider="anthropic", model="claude-opus-5-5")
"""A model that takes its reasoning back behind the same prefix only."""
FREE: Final = target("anthropic", provider="anthropic", model="claude-sonnet-4-5")


def thought(text: str = "Hm.") -> Thinking:
    return Thinking(text, "c2ln", provider="anthropic", model="claude-x")


def exchanges() -> st.SearchStrategy[list[Message]]:
    """Conversations: each question with its answer, some through a tool."""
    words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).map(lambda t: f"w{t}")

    def exchange(question: str, answer: str, thinks: bool, asks: bool) -> list[Message]:
        said: tuple[Any, ...] = (thought(), Text(answer)) if thinks else (Text(answer),)
        made = [Message("user", (Text(question),))]
        if asks:
            call = ToolCall("c1", "look", {"at": question})
            made.append(Message("assistant", (*said, call)))
            made.append(Message("user", (ToolAnswer("c1", (Text("seen"),)),)))
            said = (Text(answer),)
        return [*made, Message("assistant", said)]

    one = st.builds(exchange, words, words, st.booleans(), st.booleans())
    return st.lists(one, min_size=1, max_size=4).map(
        lambda turns: [message for turn in turns for message in turn]
    )


@examples(60)
@given(exchanges(), st.sampled_from(TARGETS), st.data())
def test_digests_of_a_longer_conversation_extend_those_of_the_shorter(
    messages: list[Message], to: Target, data: st.DataObject
) -> None:
    """Appending changes nothing that was there."""
    cut = data.draw(st.integers(0, len(messages)))
    whole = prefixes_of(messages, "Be brief.", [TOOL], to)
    part = prefixes_of(messages[:cut], "Be brief.", [TOOL], to)
    assert len(whole.before) == len(messages) + 1
    assert whole.before[: cut + 1] == part.before
    assert (whole.system, whole.tools) == (part.system, part.tools)


@examples(60)
@given(exchanges(), st.sampled_from(TARGETS), st.data())
def test_a_change_reaches_every_later_digest_and_no_earlier_one(
    messages: list[Message], to: Target, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(messages) - 1))
    changed = list(messages)
    blocks = (*changed[place].blocks, Text("And more."))
    changed[place] = msgspec.structs.replace(changed[place], blocks=blocks)
    one, other = (prefixes_of(each, "", [], to).before for each in (messages, changed))
    assert one[: place + 1] == other[: place + 1]
    assert not set(one[place + 1 :]) & set(other[place + 1 :])


@pytest.mark.parametrize("to", TARGETS, ids=DIALECTS)
def test_system_and_tools_stand_before_every_message(to: Target) -> None:
    """Another system prompt, tool or API is another prefix from the first digest on."""
    messages = [Message("user", (Text("Go."),)), Message("assistant", (Text("Gone."),))]
    base = prefixes_of(messages, "Be brief.", [TOOL], to)
    other_tool = msgspec.structs.replace(TOOL, description="Looks twice.")
    for system, tools in (("Be long.", [TOOL]), ("Be brief.", []), ("Be brief.", [other_tool])):
        other = prefixes_of(messages, system, tools, to)
        assert not set(base.before) & set(other.before)
        assert (base.system == other.system) == (system == "Be brief.")
        assert (base.tools == other.tools) == (tools == [TOOL])
    for another in TARGETS:
        if another is not to:
            other = prefixes_of(messages, "Be brief.", [TOOL], another)
            assert not set(base.before) & set(other.before)


@examples(60)
@given(exchanges(), st.sampled_from(TARGETS))
def test_reasoning_is_no_part_of_the_prefix(messages: list[Message], to: Target) -> None:
    """It is checked by its chain: a block that is left out changes no digest."""
    bare = [
        msgspec.structs.replace(
            message, blocks=tuple(b for b in message.blocks if not isinstance(b, Thinking))
        )
        for message in messages
    ]
    assert prefixes_of(messages, "", [], to) == prefixes_of(bare, "", [], to)


class Talk:
    """A conversation whose replies are stored with what they were made from."""

    def __init__(self, to: Target, turns: int) -> None:
        self.to = to
        self.messages: list[Message] = []
        self.replies: dict[str, Assistant] = {}
        newest = ""
        for number in range(turns):
            self.messages.append(Message("user", (Text(f"Part {number}."),), f"u{number}"))
            sent = self.prefixes().make_origin(newest, f"u{number}")
            newest = f"a{number}"
            self.replies[newest] = Assistant(
                content="", id=newest, provider=to.provider, model=to.model, sent=sent.to_json()
            )
            blocks = (thought(f"Thought {number}."), Text(f"Done {number}."))
            self.messages.append(Message("assistant", blocks, newest))

    def prefixes(self, messages: list[Message] | None = None, system: str = "") -> Prefixes:
        return prefixes_of(self.messages if messages is None else messages, system, [], self.to)

    def provable(self, messages: list[Message] | None = None, system: str = "") -> frozenset[str]:
        shown = self.messages if messages is None else messages
        return provable(shown, self.prefixes(shown, system), self.replies, self.to)


def test_reasoning_behind_its_own_prefix_is_proven() -> None:
    """And none of it once the head, or the first message, is another one."""
    assert is_bound(BOUND, Talk(BOUND, 1).replies["a0"])
    talk = Talk(BOUND, 4)
    assert talk.provable() == {"a0", "a1", "a2", "a3"}
    assert talk.provable(system="Be brief.") == frozenset()
    first = msgspec.structs.replace(talk.messages[0], blocks=(Text("Part zero."),))
    assert talk.provable([first, *talk.messages[1:]]) == frozenset()


@given(st.integers(1, 7))
def test_a_change_ends_the_reasoning_behind_it(place: int) -> None:
    """What was made before it stays, up to there."""
    talk = Talk(BOUND, 4)
    changed = list(talk.messages)
    blocks = (*changed[place].blocks, Text("And more."))
    changed[place] = msgspec.structs.replace(changed[place], blocks=blocks)
    assert talk.provable(changed) == {f"a{n}" for n in range(4) if 2 * n + 1 <= place}


@given(st.sets(st.integers(0, 4)))
def test_reasoning_goes_back_as_one_chain(missing: set[int]) -> None:
    """From its newest link back to the first that is missing: none between two others is left
    out."""
    talk = Talk(BOUND, 5)
    for number in missing:
        record = talk.replies[f"a{number}"]
        talk.replies[record.id] = msgspec.structs.replace(record, sent=None)
    left = [number for number in range(5) if number not in missing]
    chain: set[str] = set()
    while left and (not chain or f"a{left[-1] + 1}" in chain):
        chain.add(f"a{left.pop()}")
    assert talk.provable() == chain


def test_unbound_reasoning_needs_no_proof() -> None:
    """The model that made it gets it back, also from a log that does not tell its prefix."""
    talk = Talk(FREE, 3)
    assert not is_bound(FREE, talk.replies["a0"])
    bare = {name: msgspec.structs.replace(rec, sent=None) for name, rec in talk.replies.items()}
    assert provable(talk.messages, talk.prefixes(), bare, FREE) == set(bare)


@pytest.mark.parametrize("wrong", [{}, {"dialect": 3}, {"dialect": "anthropic", "messages": []}])
def test_a_request_that_cannot_be_read_proves_nothing(wrong: dict[str, Any]) -> None:
    assert origin_of(Assistant(content="", id="a", sent=wrong)) is None
    assert origin_of(Assistant(content="", id="a")) is None
    sent = SentRequest("anthropic", "s", "t", "m", "a0", "u1")
    assert origin_of(Assistant(content="", id="a", sent=sent.to_json())) == sent


@pytest.mark.parametrize("to", [BOUND, FREE], ids=["bound", "unbound"])
def test_foreign_reasoning_does_not_go_back(to: Target) -> None:
    """Of another provider, API or maker; the model's own does."""
    own = SentRequest("anthropic").to_json()
    mine = Thinking("Hm.", "c2ln", provider=to.provider, model=to.model)
    record = Assistant(content="", id="a", provider=to.provider, model=to.model, sent=own)
    assert may_return(to, record, mine)
    for provider, model, dialect in (
        ("openai", "gpt-5.2", "openai-responses"),
        ("bedrock", to.model, "anthropic"),
    ):
        sent = SentRequest(dialect).to_json()
        foreign = Assistant(content="", id="a", provider=provider, model=model, sent=sent)
        theirs = Thinking("Hm.", "c2ln", provider=provider, model=model)
        assert not may_return(to, foreign, theirs)
