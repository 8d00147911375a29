"""One reply: stored by the name it was asked for, and given back as it was."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.turn.hand import SETTINGS, Hand

from holdfast.core.failures.classify import Failure
from holdfast.core.flow.effects import FailedCall
from holdfast.core.flow.events import CallFailed, TroubleNoticed, TurnFinished, WindowLearned
from holdfast.core.log.records import Assistant, ModelChange, User
from holdfast.core.models.replies import Reply
from holdfast.core.turn.replies import PreparedCalls, ask, assistant_record, reply_of

TEXT = [{"type": "text", "text": "done"}]
USAGE = {"input_tokens": 10, "output_tokens": 5}


def not_asked(_error: object) -> FailedCall:
    raise AssertionError("nothing failed")


def test_a_stored_reply_is_given_back_as_it_was() -> None:
    """To whoever repeats a message that was answered."""
    reply = Reply(
        content=TEXT, stop_reason="end_turn", raw_usage=USAGE, provider="anthropic", model="m"
    )
    again = reply_of(assistant_record(reply, "anthropic", "m"))
    assert again == reply
    plain = reply_of(Assistant(content="done", id="r1"))
    assert (plain.text, plain.provider, plain.model, plain.record) == ("done", "", "", "r1")


@pytest.mark.parametrize("way", ["ask", "prepared"])
def test_a_reply_is_stored_by_the_name_its_model_was_called_by(way: str) -> None:
    """Thinking goes back only to the model that produced it; providers answer with longer names."""
    reply = Reply(content=TEXT, raw_usage=USAGE, provider="elsewhere", model="m-2025-09-29")
    hand = Hand([User(content="q")], [reply])
    if way == "ask":
        hand.run(ask(hand.state))
    else:
        prepared = PreparedCalls(hand.state, not_asked)
        hand.run(prepared.prepare())
        stored = hand.run(prepared.record(reply))
        assert stored.record == hand.records[-1].id
        assert hand.of(TurnFinished) == [TurnFinished(stored, 1)]
    record = hand.records[-1]
    assert isinstance(record, Assistant)
    assert (record.provider, record.model) == ("anthropic", "m")
    assert record.extra == {"served_model": "m-2025-09-29"}


def test_a_window_from_an_earlier_run_is_announced_once() -> None:
    answers = [Reply(content=TEXT, raw_usage=USAGE)] * 2
    hand = Hand([ModelChange(model="m", window=40_000), User(content="q")], answers)
    hand.state.recall_window(hand.records)
    for _ in range(2):
        hand.run(ask(hand.state))
    (event,) = hand.of(WindowLearned)
    assert (event.tokens, event.before) == (40_000, SETTINGS.window.tokens)


def test_a_window_that_a_refusal_stated_is_learned_once_a_smaller_request_is_answered() -> None:
    """In the log for the next run, and then announced."""
    words = [
        record
        for number in range(20)
        for record in (User(content=f"{number} " + "word " * 300), Assistant(content="text " * 200))
    ]
    refusal = Failure(kind="context_overflow", action="shrink_input", limit=32_000, input=40_000)
    hand = Hand([*words, User(content="q")], [FailedCall(refusal), Reply(content=TEXT)])
    hand.run(ask(hand.state))
    assert hand.of(WindowLearned) == [
        WindowLearned(32_000, 64_000, "said by the provider; 64,000 was stated")
    ]
    learned = [record for record in hand.records if isinstance(record, ModelChange)]
    assert [(record.model, record.window) for record in learned] == [("m", 32_000)]
    assert hand.state.window.tokens == 32_000


EMPTY: list[Any] = []


@pytest.mark.parametrize(
    ("stop", "reason", "prompt", "is_overflow"),
    [
        ("window", "model_context_window_exceeded", 10, True),
        ("window", "", 10, True),
        ("window", "a reason that nobody knows", 10, True),
        ("length", "max_tokens", 63_999, True),
        ("length", "length", 63_361, True),
        ("length", "a reason that nobody knows", 63_999, True),
        ("length", "max_tokens", 63_000, False),
        ("end", "end_turn", 63_999, False),
    ],
)
def test_an_empty_reply_of_a_full_window_is_an_overflow(
    stop: Any, reason: str, prompt: int, *, is_overflow: bool
) -> None:
    """By its own word, or because the window is full; the next request is smaller."""
    words = [
        record
        for number in range(20)
        for record in (User(content=f"{number} " + "word " * 300), Assistant(content="text " * 200))
    ]
    usage = {"input_tokens": prompt, "output_tokens": 1}
    empty = Reply(content=EMPTY, stop=stop, stop_reason=reason, raw_usage=usage)
    hand = Hand([*words, User(content="q")], [empty, Reply(content=TEXT, raw_usage=USAGE)])
    reply, _seen = hand.run(ask(hand.state))
    failures = [event.failure.kind for event in hand.of(CallFailed)]
    assert failures == (["silent_overflow"] if is_overflow else [])
    assert reply.text == ("done" if is_overflow else "")
    assert len(hand.calls) == len(failures) + 1


@pytest.mark.parametrize(
    ("reply", "kind", "is_cut_forced"),
    [
        (Reply(content=TEXT, stop="window", raw_usage=USAGE), "window-stop", True),
        (
            Reply(content=TEXT, raw_usage={"input_tokens": 64_001, "output_tokens": 1}),
            "over-window",
            True,
        ),
        (Reply(content=EMPTY, raw_usage=USAGE), "empty-reply", False),
        (Reply(content=TEXT, raw_usage={"something": "else"}), "zero-usage", False),
    ],
)
def test_what_looks_wrong_is_reported_and_a_full_window_forces_a_cut(
    reply: Reply, kind: str, *, is_cut_forced: bool
) -> None:
    """Before the next call, whoever sends the requests."""
    for is_prepared in (False, True):
        hand = Hand([User(content="q")], [reply])
        if is_prepared:
            prepared = PreparedCalls(hand.state, not_asked)
            hand.run(prepared.prepare())
            hand.run(prepared.record(reply))
        else:
            hand.run(ask(hand.state))
        assert [event.kind for event in hand.of(TroubleNoticed)] == [kind]
        assert hand.state.must_cut is is_cut_forced


@pytest.mark.parametrize(("prompt", "is_over"), [(64_000, False), (64_001, True)])
def test_a_window_may_be_full_to_its_last_token(prompt: int, *, is_over: bool) -> None:
    reply = Reply(content=TEXT, raw_usage={"input_tokens": prompt, "output_tokens": 1})
    hand = Hand([User(content="q")], [reply])
    hand.run(ask(hand.state))
    assert bool(hand.of(TroubleNoticed)) is is_over
