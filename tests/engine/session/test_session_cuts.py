"""What every cut keeps: the user's words, in a summary that is never empty, in a smaller request.

Each case is one session, cut in one of the four ways there are. The test looks at the request that
the model gets next.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.engine.session.test_session_recovery import Refusal
from tests.engine.sessions import Bench, boundaries, check_requests, texts
from tests.support.runs import examples

from holdfast.core.flow.events import CallStarted, CompactionFinished, CompactionStarted
from holdfast.core.log.records import Assistant, Compaction, ToolResult, User
from holdfast.core.narrative.carryover import OLDER, carry_digests, read_back
from holdfast.core.narrative.digest import Digest, Passage
from holdfast.core.projection.policy import Policy
from holdfast.core.projection.units import LEAST_SUMMARY
from holdfast.core.tokens.counting import Estimator
from holdfast.core.turn.options import Limits
from holdfast.testing.scripted import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import SearchStrategy

WINDOW = 16_000
WAYS = ("asked", "full", "cold", "overflow")
RULES = (
    "Never write to /etc/hosts.",
    "Always answer in German, please.",
    "The deadline is 14 May and the ticket is ABC-1234.",
    "hello",
    "go on",
    "Look at src/app/main.py and tell me what you think of it, whatever that is.",
    "漢字で答えてください。",
)


def turns(max_turns: int, words_max: int) -> SearchStrategy[list[Any]]:
    """Questions of one line, each with its number, and answers with and without tools."""
    question = st.tuples(st.sampled_from(RULES), st.integers(0, words_max))
    answer = st.tuples(st.booleans(), st.sampled_from((0, 1, 5, 40, 200)))
    return st.lists(st.tuples(question, answer), min_size=1, max_size=max_turns)


def log_of(given_turns: Sequence[Any], ts: float) -> list[Any]:
    records: list[Any] = []
    for number, ((rule, words), (has_tool, size)) in enumerate(given_turns):
        chatter = " ".join(f"word{number}x{place}" for place in range(words))
        records.append(User(content=f"Turn {number}: {rule} {chatter}".strip(), ts=ts))
        body = "It went as expected and nothing is left to do here. " * size
        if has_tool:
            call = {"type": "tool_use", "id": f"c{number}", "name": "look", "input": {"n": number}}
            records.append(Assistant(content=[call], ts=ts))
            records.append(ToolResult(tool_use_id=f"c{number}", content=body or "ok", ts=ts))
        records.append(Assistant(content=body or f"Done {number}.", ts=ts))
    return records


def words_fit(messages: Sequence[str], budget: int, factor: float) -> bool:
    """Return whether all of them are whole in the room that every carry-over has for them."""
    cap = int(Policy().carry_cap(budget) / factor) - 61
    digests = [Digest("", (Passage("user", text),)) for text in messages]
    # What else there is to tell may take a part of it.
    made = carry_digests(digests, cap_tokens=max(0, cap // 2), counter=Estimator())
    told = {line.text for line in read_back(made.text).lines}
    return told == set(messages)


def check_summary(summary: str, messages: Sequence[str]) -> None:
    """It says something, and no message in it is torn without a marker."""
    assert summary.strip()
    if summary == LEAST_SUMMARY:
        return
    told = [line.text for line in read_back(summary).lines if line.kind == "user"]
    for quoted in told:
        assert quoted in messages or "…" in quoted, quoted


def cut_one_way(way: str, given_turns: Sequence[Any]) -> bool:
    """Cut a session, look at the next request; returns whether there was a cut."""
    bench = Bench("blocking")
    refusals = [Refusal(400, "prompt is too long: 9000 tokens > 8000 maximum")]
    model = ScriptedModel(refusals if way == "overflow" else [], otherwise="fine", window=WINDOW)
    session = bench.open(model, summary="extract", limits=Limits(floor=1_000), notes="off")
    log = log_of(given_turns, time.time() - (10_000 if way == "cold" else 0))
    if way in ("full", "overflow"):  # until a warm view is cut
        body = Assistant(content="The answer is long, and most of it is of no use. " * 1_000)
        log[-1:] = [body, User(content="Turn last: and then?"), Assistant(content="Then this.")]
    bench.store.append(session.key, log, expect=None)
    before = session.plan()
    if way == "asked" and session.compact().outcome == "skipped":
        assert not boundaries(bench.records())  # the next message may be what makes one worth it
    assert session.say("the newest words").text == "fine"
    cuts = boundaries(bench.records())
    messages = [str(one.content) for one in bench.records() if isinstance(one, User)]
    sent = texts(model.requests[-1])
    check_requests(model)
    for made in bench.of(CompactionFinished):
        if made.outcome == "applied":
            assert made.tokens_after < made.tokens_before
        else:
            assert made.detail
    for cut in cuts:
        check_summary(cut.summary, messages)
    plans = (before, session.plan())
    called = [event.budget for event in bench.of(CallStarted)]
    budget = min(*called, *(plan.budget.tokens for plan in plans))
    if words_fit(messages, budget, max(plan.tokens.factor for plan in plans)):
        missing = [text for text in messages if text not in sent]
        assert missing == []
    assert "the newest words" in sent
    bench.close()
    return bool(cuts)


@pytest.mark.parametrize("way", WAYS)
@examples(24)
@given(given_turns=turns(8, 12) | turns(40, 60))
@example(given_turns=[((RULES[0], 74), (True, 200)), ((RULES[0], 75), (False, 200))])
def test_a_cut_keeps_what_the_user_said(way: str, given_turns: list[Any]) -> None:
    """Short and long sessions: the words that fit are in the next request, whole."""
    cut_one_way(way, given_turns)


@pytest.mark.nightly
@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=1_000)
@given(given_turns=turns(8, 12) | turns(80, 200))
def test_thousands_of_cuts_keep_what_the_user_said(way: str, given_turns: list[Any]) -> None:
    """The same, with more and longer sessions."""
    cut_one_way(way, given_turns)


@pytest.mark.parametrize("way", WAYS)
def test_each_way_of_cutting_is_reached(way: str) -> None:
    """The cases above do cut."""
    rule = (RULES[0], 5)
    assert cut_one_way(way, [(rule, (True, 40)) for _ in range(16)])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 10])
def test_a_rule_survives_the_compaction_of_a_short_session(count: int) -> None:
    """Either nothing is cut and the reason is said, or the rule is in the next request."""
    rule = "Never write to /etc/hosts, and use tabs."
    bench = Bench("blocking")
    model = ScriptedModel(otherwise="fine", window=200_000)
    session = bench.open(model, summary="extract")
    session.say(rule)
    for number in range(count):
        session.say(f"hello {number}")
    done = session.compact()
    session.say("and now?")
    assert rule in texts(model.requests[-1])
    if done.outcome == "applied":
        assert rule in done.summary
        assert done.tokens_after < done.tokens_before
    else:
        assert "too few messages" in done.detail or "nothing would be gained" in done.detail
    bench.close()


def test_words_from_before_another_tools_compaction_are_told_by_our_cut() -> None:
    """The log has them, and no carry-over of ours does."""
    bench = Bench("blocking")
    model = ScriptedModel(otherwise="fine", window=WINDOW)
    session = bench.open(model, summary="extract", limits=Limits(floor=1_000), notes="off")
    early = log_of([((f"Rule {n}: {rule}", 3), (True, 5)) for n, rule in enumerate(RULES)], 1.0)
    theirs = Compaction(summary="1. Pending:\n- all of it", method="model")
    late = log_of([(("And now?", 5), (True, 40)) for _ in range(6)], time.time())
    bench.store.append(session.key, [*early, theirs, *late], expect=None)
    session.close()
    session = bench.open(model, summary="extract", limits=Limits(floor=1_000), notes="off")
    session.say("go on")
    assert "Rule 0" not in texts(model.requests[-1])
    for asked in ("and then?", "and after the second cut?"):
        assert session.compact().outcome == "applied"
        session.say(asked)
        sent = texts(model.requests[-1])
        assert all(sent.count(f"Rule {n}: {rule}") == 1 for n, rule in enumerate(RULES))
        assert sent.count("- all of it") == sent.count(OLDER) == 1
        bench.store.append(session.key, late, expect=None)
    bench.close()


def test_a_cut_that_takes_protected_steps_says_so() -> None:
    """Asked for, it works around them; forced by a full window, its events count them."""
    bench = Bench("blocking")
    model = ScriptedModel(otherwise="fine", window=WINDOW)
    policy = Policy(deny=("keep_*",))
    session = bench.open(
        model, summary="extract", limits=Limits(floor=1_000), notes="off", policy=policy
    )
    log = log_of([((RULES[0], 5), (True, 40)) for _ in range(6)], time.time())
    call = {"type": "tool_use", "id": "k1", "name": "keep_this", "input": {}}
    kept = [Assistant(content=[call]), ToolResult(tool_use_id="k1", content="<kept> " * 40)]
    bench.store.append(session.key, [log[0], *kept, *log[1:]], expect=None)
    assert session.compact().outcome == "applied"
    session.say("and now?")
    assert "<kept>" in texts(model.requests[-1])
    assert [made.protected for made in bench.of(CompactionStarted, CompactionFinished)] == [0, 0]
    big = [
        Assistant(content=[{**call, "id": "k2"}]),
        ToolResult(tool_use_id="k2", content="large " * 9_000),
    ]
    bench.store.append(session.key, big, expect=None)
    session.say("and then?")
    check_requests(model)
    assert "<kept>" not in texts(model.requests[-1])
    assert bench.of(CompactionStarted)[-1].protected > 0
    assert bench.of(CompactionFinished)[-1].protected > 0
    bench.close()


@given(cap=st.integers(0, 400), sizes=st.lists(st.integers(1, 200), min_size=1, max_size=6))
def test_a_carry_over_of_any_size_is_not_torn(cap: int, sizes: list[int]) -> None:
    """For every cap: whole messages, or messages with a marker, or nothing."""
    said = [" ".join(f"w{size}x{place}" for place in range(size)) for size in sizes]
    digests = [Digest("", (Passage("user", text),)) for text in said]
    made = carry_digests(digests, cap_tokens=cap, counter=Estimator())
    if made.text:
        check_summary(made.text, said)
