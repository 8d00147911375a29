"""Each epoch has a record with its cause, and within one nothing has."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest
from tests.conversations import said
from tests.core.turn.hand import SETTINGS, Hand

from holdfast.core.dialects.registry import render_body, target
from holdfast.core.failures.classify import Failure
from holdfast.core.flow.effects import FailedCall
from holdfast.core.flow.events import EpochBegun
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Epoch,
    Prune,
    PruneDecision,
    Record,
    Undo,
    User,
)
from holdfast.core.models.messages import Tool
from holdfast.core.models.replies import Reply
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.turn.compact import compact
from holdfast.core.turn.epochs import DETAILS, begins_epoch, find_cause
from holdfast.core.turn.options import RunOptions
from holdfast.core.turn.replies import ask
from holdfast.core.turn.run import RunSettings, RunState
from holdfast.core.window import Window

WORDS: Final = "word " * 400
USAGE: Final = {"input_tokens": 10, "output_tokens": 5}
THOUGHT: Final = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
MODEL: Final = "claude-opus-5-5"
BOUND: Final = msgspec.structs.replace(
    SETTINGS,
    target=target("anthropic", provider="anthropic", model=MODEL, thinking=True),
    options=RunOptions(system="Be brief.", summary="extract", notes="off", checkpoints="off"),
)


def reply(text: str = "Done.") -> Reply:
    content = [THOUGHT, {"type": "text", "text": text}]
    return Reply(content=content, raw_usage=USAGE, provider="anthropic", model=MODEL)


def a_talk(turns: int = 2, settings: RunSettings = BOUND) -> Hand:
    """A conversation with replies that tell what they were made from."""
    hand = Hand([], [reply(f"Done {number}.") for number in range(turns)], settings)
    for number in range(turns):
        hand.records = said([*hand.records, User(content=f"Part {number}. {WORDS}")])
        hand.run(ask(hand.state))
    return hand


def go_on(hand: Hand, settings: RunSettings | None = None) -> list[Epoch]:
    """Ask once more, with other settings; returns the epochs of the log."""
    if settings is not None:
        hand.state = RunState(settings, ProjectionCache)
    hand.records = said([*hand.records, User(content="And now?")])
    hand.answers.append(reply())
    hand.run(ask(hand.state))
    return [record for record in hand.records if isinstance(record, Epoch)]


def with_options(**options: Any) -> RunSettings:
    changed = msgspec.structs.replace(BOUND.options, **options)
    return msgspec.structs.replace(BOUND, options=changed)


TOOL: Final = Tool("look", "Looks.", {"type": "object"})
MORE: Final = Tool("more", "More.", {"type": "object"})
LAST: Final = Tool("last", "Last.", {"type": "object"})
NEXT: Final = Tool("next", "Next.", {"type": "object"})
OTHER_API: Final = target("openai-chat", provider="openai", model="gpt-4o")


def test_a_conversation_that_goes_on_begins_no_epoch() -> None:
    """Also for a reader that starts anew; reasoning goes back in every request."""
    hand = a_talk(3)
    assert go_on(hand) == []
    assert go_on(hand, BOUND) == []
    assert hand.of(EpochBegun) == []
    newest = hand.calls[-1].prompt.messages
    assert sum("Thinking" in repr(message) for message in newest) == 4


@pytest.mark.parametrize(
    ("cause", "settings"),
    [
        ("system", with_options(system="Be long.")),
        ("tools", msgspec.structs.replace(BOUND, tools=(TOOL,))),
        ("dialect", msgspec.structs.replace(BOUND, target=OTHER_API)),
    ],
)
def test_a_change_of_the_head_is_recorded_once(cause: str, settings: RunSettings) -> None:
    """Before the call, with the number of replies whose reasoning ends."""
    hand = a_talk()
    made = go_on(hand, settings)
    assert [(epoch.cause, epoch.detail, epoch.reasoning) for epoch in made] == [
        (cause, DETAILS[cause], 2)
    ]
    assert isinstance(hand.records[-2], Epoch)
    assert [event.cause for event in hand.of(EpochBegun)] == [cause]
    assert "Thinking" not in repr(hand.calls[-1].prompt.messages)
    again = go_on(hand)
    assert [epoch.cause for epoch in again] == [cause], "the next request goes on from this one"


def adding(*tools: Tool, api: str = "anthropic") -> RunSettings:
    """Settings with these tools, for a provider that takes tools amid the conversation."""
    taken = {
        "anthropic": target("anthropic", provider="anthropic", model=MODEL, thinking=True),
        "openai-responses": target("openai-responses", provider="openai", model="gpt-6.2-sol"),
    }[api]
    found = msgspec.structs.replace(taken, adds_tools=True)
    return msgspec.structs.replace(BOUND, target=found, tools=tools)


def sent_tools(hand: Hand) -> tuple[list[str], list[str]]:
    """The tools at the head of the newest request, and those that its messages add."""
    call = hand.calls[-1]
    body = render_body(call.prompt, call.target)
    items = body.get("messages") or body["input"]
    blocks = [block for item in items for block in item.get("content") or () if "tool" in block]
    defined = [block["tool"]["definition"]["name"] for block in blocks]
    added = [tool["name"] for item in items for tool in item.get("tools", ())]
    return [tool["name"] for tool in body.get("tools", ())], defined + added


@pytest.mark.parametrize("api", ["anthropic", "openai-responses"])
def test_tools_that_are_added_begin_no_epoch(api: str) -> None:
    """They stand where they were added, also for a reader that starts anew; reasoning stays."""
    hand = a_talk(settings=adding(TOOL, api=api))
    now = adding(TOOL, MORE, api=api)
    for added in ([], ["more"], ["more"], ["more", "last"]):
        settings = {0: adding(TOOL, api=api), 1: now}.get(len(added))
        assert go_on(hand, settings or adding(TOOL, MORE, LAST, api=api)) == []
        assert sent_tools(hand) == (["look"], added)
        newest = hand.calls[-1].prompt.messages
        replies = sum(isinstance(record, Assistant) for record in hand.records) - 1
        if api == "anthropic":
            assert sum("Thinking" in repr(message) for message in newest) == replies
    kinds = [record.kind for record in hand.records]
    assert kinds.count("tools") == 2
    assert kinds[-3:] == ["user", "tools", "assistant"]
    assert find_cause(hand.records, hand.state.plan(hand.records, 0.0)) == ""


CHANGES: Final = {
    "before others": (LAST, TOOL, MORE),
    "one is gone": (TOOL,),
    "one is another": (TOOL, Tool("more", "Another.", {"type": "object"})),
    "the first is another": (Tool("look", "Another.", {"type": "object"}), MORE),
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_changes_of_tools_begin_an_epoch(change: str) -> None:
    """All tools are at the head from then on, and what is added later is added again."""
    hand = a_talk(settings=adding(TOOL))
    go_on(hand, adding(TOOL, MORE))
    tools = CHANGES[change]
    assert [epoch.cause for epoch in go_on(hand, adding(*tools))] == ["tools"]
    names = [tool.name for tool in tools]
    assert sent_tools(hand) == (names, [])
    assert [epoch.cause for epoch in go_on(hand, adding(*tools, NEXT))] == ["tools"]
    assert sent_tools(hand) == (names, ["next"])


def test_where_no_tool_can_be_added_the_head_changes() -> None:
    """Through another host, by a loop of the caller's own, and after a move to another API."""
    hand = a_talk(settings=adding(TOOL))
    elsewhere = msgspec.structs.replace(adding(TOOL, MORE), target=BOUND.target)
    assert [epoch.cause for epoch in go_on(hand, elsewhere)] == ["tools"]
    assert sent_tools(hand) == (["look", "more"], [])

    own = a_talk(settings=adding(TOOL))
    own.state = RunState(adding(TOOL, MORE), ProjectionCache)
    own.state.is_own_loop = True
    assert [epoch.cause for epoch in go_on(own)] == ["tools"]
    assert sent_tools(own) == (["look", "more"], [])

    moved = a_talk(settings=adding(TOOL))
    go_on(moved, adding(TOOL, MORE))
    other = msgspec.structs.replace(adding(TOOL, MORE), target=OTHER_API)
    assert [epoch.cause for epoch in go_on(moved, other)] == ["dialect"]
    call = moved.calls[-1]
    body = render_body(call.prompt, call.target)
    assert [tool["function"]["name"] for tool in body["tools"]] == ["look", "more"]
    assert "more" not in str(body["messages"])


def test_a_cut_takes_added_tools_to_the_head() -> None:
    """Their place is cut; the model may call them all the same."""
    hand = a_talk(settings=adding(TOOL))
    go_on(hand, adding(TOOL, MORE))
    for number in range(4):
        hand.records = said([*hand.records, User(content=f"Part {number}. {WORDS}")])
        hand.answers.append(reply())
        hand.run(ask(hand.state))
    assert sent_tools(hand) == (["look"], ["more"])
    hand.run(compact(hand.state))
    go_on(hand)
    assert sent_tools(hand) == (["look", "more"], [])
    assert not [record for record in hand.records if isinstance(record, Epoch)]


def test_tools_that_a_provider_refuses_are_put_to_the_head() -> None:
    """The session goes on, and the refusal is asked for once."""
    hand = a_talk(settings=adding(TOOL))
    hand.state = RunState(adding(TOOL, MORE), ProjectionCache)
    hand.records = said([*hand.records, User(content="And now?")])
    failure = Failure(kind="ambiguous", action="decide_by_own_estimate", status=400)
    hand.answers += [FailedCall(failure, error=ValueError("Der Mond steht falsch.")), reply()]
    hand.run(ask(hand.state))
    assert sent_tools(hand) == (["look", "more"], [])
    hand.records = [*hand.records, User(id="x", content="And now?")]
    hand.answers.append(reply())
    hand.run(ask(hand.state))
    assert sent_tools(hand) == (["look", "more"], [])
    assert [record.cause for record in hand.records if isinstance(record, Epoch)] == ["refused"]


def test_a_larger_window_that_shows_more_is_recorded() -> None:
    """What was pruned for a smaller window is whole again."""
    hand = a_talk()
    first = hand.records[0].id
    decided = PruneDecision(record=first, action="trim", keep=300)
    pruned = Prune(decisions=[decided], window=20_000)
    hand.records = said([*hand.records, User(content="Part 9."), pruned])
    small = msgspec.structs.replace(BOUND, window=Window(20_000))
    hand.state = RunState(small, ProjectionCache)
    hand.answers.append(reply())
    hand.run(ask(hand.state))
    made = go_on(hand, BOUND)
    assert [epoch.cause for epoch in made] == ["window"]
    assert hand.calls[-2].prompt.messages[0] != hand.calls[-1].prompt.messages[0]


def test_a_log_of_an_earlier_version_is_recorded_once() -> None:
    """Its replies do not tell what they were made from."""
    hand = a_talk()
    hand.records = [
        msgspec.structs.replace(rec, sent=None) if isinstance(rec, Assistant) else rec
        for rec in hand.records
    ]
    made = go_on(hand)
    assert [epoch.cause for epoch in made] == ["upgrade"]
    assert [epoch.cause for epoch in go_on(hand)] == ["upgrade"]


def test_an_earlier_message_that_is_another_one_is_recorded() -> None:
    """Whoever changed it: an erasure, another program."""
    hand = a_talk()
    hand.records[0] = msgspec.structs.replace(hand.records[0], content="Part [erased].")
    assert [epoch.cause for epoch in go_on(hand, BOUND)] == ["view"]


def test_refused_reasoning_is_not_sent_again() -> None:
    """The epoch says so, for every later request, also by another reader."""
    hand = a_talk()
    refusal = FailedCall(
        Failure(kind="invalid_request", action="strip_or_restore_thinking_and_retry_once"),
        error=ValueError("invalid signature"),
    )
    hand.answers.append(refusal)
    hand.records = said([*hand.records, User(content="And now?")])
    hand.answers.append(reply("Without."))
    hand.run(ask(hand.state))
    made = [record for record in hand.records if isinstance(record, Epoch)]
    assert [(epoch.cause, epoch.drops_reasoning, epoch.reasoning) for epoch in made] == [
        ("refused", True, 2)
    ]
    assert "Thinking" in repr(hand.calls[-2].prompt.messages)
    assert "Thinking" not in repr(hand.calls[-1].prompt.messages)
    go_on(hand, BOUND)
    assert "'Done 0.'" in repr(hand.calls[-1].prompt.messages)
    thoughts = repr(hand.calls[-1].prompt.messages).count("Thinking(")
    assert thoughts == 1, "only what was made after the refusal"


@pytest.mark.parametrize(
    "record",
    [Compaction(summary="s"), Prune(decisions=[]), Undo(target="r"), Epoch(cause="system")],
)
def test_a_record_that_begins_an_epoch_accounts_for_the_change(record: Record) -> None:
    """No second record says the same."""
    assert begins_epoch(record)
    hand = a_talk()
    records = said([*hand.records, record, User(content="And now?")])
    other = RunState(with_options(system="Be long."), ProjectionCache)
    assert find_cause(records, other.plan(records, 0.0)) == ""
    assert find_cause(hand.records, other.plan(hand.records, 0.0)) == "system"


def test_a_log_without_a_reply_begins_with_nothing() -> None:
    hand = Hand([User(content="Go.")], settings=BOUND)
    assert find_cause(hand.records, hand.state.plan(hand.records, 0.0)) == ""
    assert not begins_epoch(User(content="Go."))
