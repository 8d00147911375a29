"""Compaction as a flow: when it is refused, what it asks a model, what it reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.core.turn.hand import SETTINGS, Hand

from holdfast.core.flow.events import CallStarted, CompactionFinished, PruneStarted
from holdfast.core.log.records import Assistant, Compaction, Prune, ToolResult, User
from holdfast.core.models.replies import Reply
from holdfast.core.turn.compact import compact, fit
from holdfast.core.turn.options import RunOptions
from holdfast.core.turn.run import Bounds
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.core.log.records import Record

EXTRACT = msgspec.structs.replace(
    SETTINGS, options=RunOptions(summary="extract", checkpoints="off", notes="off")
)
MODEL = msgspec.structs.replace(SETTINGS, options=RunOptions(checkpoints="off", notes="off"))


def exchanges(count: int) -> list[Record]:
    return [
        record
        for number in range(count)
        for record in (
            User(content=f"question {number}"),
            Assistant(content=f"answer {number} " + "text " * 300, model="m"),
        )
    ]


@pytest.mark.parametrize("messages", range(8))
def test_four_messages_are_too_few_to_compact(messages: int) -> None:
    """Below that there is nothing to replace; above it, only what is gained decides."""
    hand = Hand([*exchanges(4)][:messages], settings=EXTRACT)
    done = hand.run(compact(hand.state))
    assert ("too few messages" in done.detail) is (messages <= 4)
    assert hand.of(CompactionFinished) == [done]


def test_a_refusal_says_what_was_in_view() -> None:
    """The user's own words stay, so there is nothing to gain."""
    words: list[Record] = [User(content=f"rule {number}: never do it") for number in range(9)]
    hand = Hand(words, settings=EXTRACT)
    done = hand.run(compact(hand.state))
    assert (done.outcome, done.reason) == ("skipped", "asked")
    assert "nothing would be gained" in done.detail
    seen = hand.state.plan(hand.records, 0.0, pressure="hold").tokens.messages
    assert f"of {seen:,} tokens in view" in done.detail


@pytest.mark.parametrize("count", [12, 400])
def test_a_compaction_that_was_asked_for_is_reported_as_stored(count: int) -> None:
    """In a view with room to spare, and in one that no longer fits."""
    hand = Hand(exchanges(count), settings=EXTRACT)
    shown = hand.run(compact(hand.state, is_preview=True))
    assert hand.effects == ["Read", "Now"]
    done = hand.run(compact(hand.state))
    made = next(record for record in hand.records if isinstance(record, Compaction))
    assert (shown.outcome, shown.reason, shown.covers) == ("preview", "asked", made.covers)
    assert (done.outcome, done.reason, done.record) == ("applied", "asked", made.id)
    assert (done.covers, done.summary, done.method) == (made.covers, made.summary, "extract")
    assert done.tokens_after < done.tokens_before
    assert hand.of(CompactionFinished)[-1] == done


def test_a_view_that_is_too_large_is_cut_as_any_other_is() -> None:
    """Whoever asks for a cut gets the one that leaves room, not the least that fits."""
    hand = Hand(exchanges(400), settings=EXTRACT)
    done = hand.run(compact(hand.state))
    plan = hand.state.plan(hand.records, 0.0, pressure="hold")
    assert plan.tokens.messages <= hand.state.policy.keeps(plan.budget.tokens)
    assert done.outcome == "applied"


@pytest.mark.parametrize(("name", "value"), [("focus", 5), ("preview", "yes")])
def test_a_wrong_argument_is_refused_by_its_name(name: str, value: Any) -> None:
    hand = Hand(exchanges(8), settings=EXTRACT)
    given = {"focus": value} if name == "focus" else {"is_preview": value}
    with pytest.raises(UsageError, match=f"`{name}`"):
        hand.run(compact(hand.state, **given))
    assert hand.effects == []


def test_a_summary_that_rides_on_the_conversation_has_a_bounded_reply() -> None:
    """The cached prefix is sent again with the question at its end, and room for the answer; what
    it took is in the record although the answer was of no use."""
    usage = {"input_tokens": 10, "output_tokens": 5}
    empty = Reply(content=[{"type": "text", "text": ""}], raw_usage=usage)
    hand = Hand(exchanges(40), [empty], settings=MODEL)
    done = hand.run(compact(hand.state, "the tests"))
    (call,) = hand.calls
    assert len(call.prompt.messages) > 10
    most = 2 * hand.state.options.limits.summary_tokens
    assert 0 < call.prompt.output_tokens <= most
    assert "the tests" in str(call.prompt.messages[-1])
    (started,) = hand.of(CallStarted)
    assert started.purpose == "summary"
    made = next(record for record in hand.records if isinstance(record, Compaction))
    assert (done.calls, made.usage, made.method) == (1, usage, "extract")


def results(count: int) -> list[Record]:
    found: list[Record] = []
    for number in range(count):
        call = {"type": "tool_use", "id": f"c{number}", "name": "bash", "input": {"n": number}}
        output = ToolResult(tool_use_id=f"c{number}", content=f"line {number}\n" * 200)
        found += [User(content=f"q{number}"), Assistant(content=[call]), output]
        found.append(Assistant(content="done"))
    return found


@pytest.mark.parametrize("is_denied", [False, True])
@pytest.mark.parametrize("is_recovery", [False, True])
@pytest.mark.parametrize("share", [0.6, 0.8, 0.95])
def test_a_request_keeps_to_its_bounds_whatever_a_listener_denies(
    share: float, *, is_recovery: bool, is_denied: bool
) -> None:
    """A smaller request after a refusal stays smaller; its decisions are in the log."""
    hand = Hand([*results(20), User(content="go on")], settings=EXTRACT)
    hand.denied = (PruneStarted,) if is_denied else ()
    whole = hand.state.plan(hand.records, 0.0, pressure="hold").tokens.total
    most = int(share * whole)
    plan, _newest = hand.run(fit(hand.state, Bounds(at_most=most), is_recovery=is_recovery))
    assert plan.tokens.total <= most
    made = [record for record in hand.records if isinstance(record, Compaction | Prune)]
    assert len(made) >= 1
