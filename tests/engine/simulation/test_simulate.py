"""The simulator: a cache that charges as documented, and policies judged by the same measure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared_data import need_data

from holdfast import importers
from holdfast.core.evaluation.needs import facts_in
from holdfast.core.log.records import Assistant, Compaction, Label, Record, ToolResult, User
from holdfast.core.models.messages import Text, ToolAnswer
from holdfast.core.models.prices import Price
from holdfast.core.projection.policy import Policy, policy_of
from holdfast.core.projection.prune import clear
from holdfast.core.projection.units import MessagePart
from holdfast.core.projection.view import fence_summary
from holdfast.core.tokens.counting import Estimator
from holdfast.engine.simulation.policies import (
    ClearResults,
    Compact,
    DoNothing,
    Holdfast,
    KeepTurns,
    Plays,
    TrimTokens,
)
from holdfast.engine.simulation.prompt_cache import CacheRules, Charge, SimulatedPromptCache
from holdfast.engine.simulation.simulate import FactRecall, Run, rules_for, simulate
from holdfast.engine.simulation.transcripts import Transcript
from holdfast.errors import BadSetting

PRICE = Price(input=5.0, output=25.0, cache_read=0.5, cache_write=6.25, cache_write_hour=10.0)
POLICIES: tuple[Plays, ...] = (
    DoNothing(),
    KeepTurns(3),
    KeepTurns(8, "steps"),
    TrimTokens(),
    ClearResults(),
    Compact(),
    Holdfast(),
)


def a_session(
    turns: int = 12, steps: int = 5, *, lines: int = 60, gap: float = 900.0
) -> list[Record]:
    """An agent that reads files and edits them; between turns the user is away for `gap`."""
    records: list[Record] = []
    now = 1_000_000.0
    number = 0

    def add(record: type[Record], **fields: Any) -> None:
        records.append(record(id=f"r{len(records):04}", ts=now, **fields))

    for turn in range(turns):
        now += gap
        add(User, content=f"Please mend feature_{turn} in src/part_{turn}/main.py.")
        for step in range(steps):
            number += 1
            now += 10.0
            use = {
                "type": "tool_use",
                "id": f"call_{number}",
                "name": "edit" if step % 2 else "read",
                "input": {"path": f"src/part_{turn}/main.py", "old": f"symbol_{turn}_{step}"},
            }
            add(Assistant, content=[{"type": "text", "text": f"Step {step}."}, use])
            now += 5.0
            held = "\n".join(f"symbol_{turn}_{line} = value_{number}" for line in range(lines))
            add(ToolResult, tool_use_id=f"call_{number}", content=held)
        now += 10.0
        add(Assistant, content=f"feature_{turn} is mended.")
    return records


@pytest.fixture(scope="module")
def transcript() -> Transcript:
    return Transcript(a_session(), Estimator())


def run_of(transcript: Transcript, policy: Plays, window: int, **more: Any) -> Run:
    return simulate(transcript, policy, window=window, static=2_000, price=PRICE, **more)


# The cache


def sums(*tokens: int) -> list[int]:
    found = [0]
    for one in tokens:
        found.append(found[-1] + one)
    return found


def test_first_request_is_written_and_the_next_reads_it() -> None:
    """A conversation that grows pays for each token once, and a tenth each time after."""
    cache = SimulatedPromptCache(CacheRules())
    assert cache.request(sums(2_000, 500), now=0.0) == Charge(0, 2_500, 0)
    assert cache.request(sums(2_000, 500, 300), now=100.0) == Charge(2_500, 300, 0)


def test_cache_forgets_after_its_time_and_every_use_starts_it_again() -> None:
    """The time runs from the last use, not from the first."""
    cache = SimulatedPromptCache(CacheRules(ttl_seconds=300.0))
    for now in (0.0, 290.0, 580.0):
        cache.request(sums(2_000, 500), now=now)
    assert cache.request(sums(2_000, 500), now=880.0).read == 2_500
    assert cache.request(sums(2_000, 500), now=1_181.0) == Charge(0, 2_500, 0)


def test_cache_that_never_forgets() -> None:
    """A time of None is for ever."""
    cache = SimulatedPromptCache(CacheRules(ttl_seconds=None))
    cache.request(sums(2_000, 500), now=0.0)
    assert cache.request(sums(2_000, 500), now=1e9).read == 2_500


def test_change_in_the_middle_is_paid_from_there_on() -> None:
    """What stands before the change is read, what comes after it is written anew."""
    cache = SimulatedPromptCache(CacheRules())
    cache.request(sums(2_000, 500, 500, 500), now=0.0)
    assert cache.is_warm(2, 10.0)
    cache.change_after(2)
    assert not cache.is_warm(2, 10.0)
    # Marks are few: the nearest one that still stands is the end of the static part.
    assert cache.request(sums(2_000, 500, 100), now=10.0) == Charge(2_000, 600, 0)


def test_small_prefix_is_not_kept() -> None:
    """Below the minimum nothing is cached, and nothing is charged for it."""
    cache = SimulatedPromptCache(CacheRules(minimum_tokens=1_024))
    assert cache.request(sums(500, 400), now=0.0) == Charge(0, 0, 900)
    assert cache.request(sums(500, 400), now=1.0) == Charge(0, 0, 900)


@pytest.mark.parametrize(("marks", "read"), [(1, 0), (2, 2_000), (3, 2_100), (4, 2_100)])
def test_look_back_is_limited_and_marks_make_up_for_it(marks: int, read: int) -> None:
    """Thirty blocks later the last mark is out of sight, unless one is left where it was."""
    cache = SimulatedPromptCache(CacheRules(marks=marks, look_back=20))
    cache.request(sums(2_000, 100), now=0.0)
    assert cache.request(sums(2_000, 100, *[10] * 30), now=1.0).read == read


def test_no_marks_is_no_cache() -> None:
    """Everything is plain input, every time."""
    cache = SimulatedPromptCache(CacheRules(marks=0))
    for now in (0.0, 1.0):
        assert cache.request(sums(2_000, 500), now=now) == Charge(0, 0, 2_500)


@given(st.lists(st.integers(1, 3_000), min_size=1, max_size=40), st.integers(0, 4))
def test_every_token_is_charged_once(tokens: list[int], marks: int) -> None:
    """Read, written and plain together are the request."""
    cache = SimulatedPromptCache(CacheRules(marks=marks))
    for end in range(1, len(tokens) + 1):
        charge = cache.request(sums(*tokens[:end]), now=float(end))
        assert charge.read + charge.written + charge.plain == sum(tokens[:end])
        assert min(charge.read, charge.written, charge.plain) >= 0


def test_cache_rules_follow_the_price_and_the_time() -> None:
    """An hour costs more to write where it can be bought."""
    assert rules_for(PRICE, 300.0).write == 1.25
    assert rules_for(PRICE, 3_600.0).write == 2.0
    assert rules_for(PRICE, None).write == 1.25
    assert rules_for(PRICE, 300.0).read == 0.1
    with pytest.raises(BadSetting, match="marks"):
        CacheRules(marks=-1)


# The transcript


def test_transcript_starts_from_what_was_said(transcript: Transcript) -> None:
    """Boundaries, reported sizes and messages that no model wrote are left out."""
    records: list[Record] = [
        User(content="hello", id="a"),
        Compaction(summary="short", id="b"),
        Label(label="x", id="c"),
        Assistant(content="no model", id="d", extra={"synthetic": True}),
        Assistant(content="hi", id="e", usage={"input_tokens": 5}),
    ]
    found = Transcript(records, Estimator())
    assert [record.id for record in found.records] == ["a", "e"]
    assert found.records[1] == Assistant(content="hi", id="e")
    assert len(found.calls) == 1
    assert len(transcript.calls) == 12 * 6


@pytest.mark.parametrize("window", [32_000, 40_000])
def test_replies_report_the_size_of_their_requests(window: int) -> None:
    """A replay works in the budget that a session has whose provider reports what it was sent."""
    transcript = Transcript(a_session(turns=16, lines=120, gap=10.0), Estimator())
    runs = [
        simulate(transcript, Holdfast(reports_usage=is_told), window=window, static=6_000)
        for is_told in (True, False)
    ]
    assert all(run.cuts and not run.overflows and not run.invalid for run in runs)
    assert runs[0].tokens_sent > runs[1].tokens_sent


def test_a_call_that_used_what_is_not_in_view_is_incomplete() -> None:
    """The last call uses two names of the first turn: with all in view nothing is missing."""
    inputs = {"path": "src/part_0/main.py", "other": "src/part_1/main.py"}
    late = {"type": "tool_use", "id": "late", "name": "edit", "input": inputs}
    transcript = Transcript(
        [*a_session(turns=6), Assistant(content=[late], id="late", ts=2e6)], Estimator()
    )
    whole = simulate(transcript, DoNothing(), window=1_000_000)
    short = simulate(transcript, KeepTurns(1, "steps"), window=1_000_000)
    assert whole.recall.incomplete == 0
    assert short.recall.incomplete == 1
    assert short.recall.used - short.recall.verbatim == 2


def test_call_is_timed_by_what_it_was_sent(transcript: Transcript) -> None:
    """A request leaves when its last message is there, not when the answer is."""
    first, second = transcript.calls[:2]
    assert first.at == 1_000_900.0
    assert second.at == first.at + 15.0


def test_uses_are_facts_that_came_up_before() -> None:
    """A name is used where a call has it in its arguments; far means more than ten steps ago."""
    transcript = Transcript(a_session(turns=4), Estimator())
    names = transcript.fact_names
    first = transcript.calls[0]
    assert {names[use.fact] for use in first.uses} == {"src/part_0/main.py"}
    assert not any(use.is_far for call in transcript.calls for use in call.uses)
    records = a_session(turns=4)
    late = {
        "type": "tool_use",
        "id": "late",
        "name": "edit",
        "input": {"path": "src/part_0/main.py"},
    }
    records.append(Assistant(content=[late], id="late", ts=2e6))
    uses = Transcript(records, Estimator()).calls[-1].uses
    assert [use.is_far for use in uses] == [True]


@pytest.mark.parametrize(
    "fact",
    [
        "/etc/hosts",
        "src/a/b.go",
        "README.md",
        "snake_case",
        "camelCase",
        "a.b.c",
        "9fceb02",
        "8080",
    ],
)
def test_facts_are_what_has_to_be_spelled(fact: str) -> None:
    """Paths, symbols, ids and numbers; the definition is not the carry's."""
    assert fact in facts_in(f"so {fact} it is")


def test_facts_hold_quoted_strings() -> None:
    """An error's words are a fact where they are quoted."""
    assert "no such file" in facts_in('it said "no such file" twice')
    assert facts_in("nothing of note here") == set()


def test_lists_in_the_place_of_originals_are_told_from_them() -> None:
    """Names left in a cleared result, or in a carry, are seen but not verbatim."""
    transcript = Transcript(a_session(turns=1), Estimator())
    answer = ToolAnswer("c", (Text("symbol_0_1 = value_1\n" * 200),))
    whole = transcript.piece(answer)
    part = clear(MessagePart("r", "tool_result", "user", (answer,)))
    short = transcript.piece(part.blocks[0])
    assert whole.is_original
    assert whole.facts
    assert not short.is_original
    assert short.tokens < whole.tokens
    assert not transcript.piece(Text(fence_summary("symbol_0_1"))).is_original


# The policies


@pytest.mark.sampled(1 / 3, "window")
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("window", [12_000, 32_000, 200_000])
def test_sums_hold_for_every_policy(transcript: Transcript, policy: Plays, window: int) -> None:
    """Every call is played, every token charged once, and the cost is that of the charges."""
    run = run_of(transcript, policy, window)
    assert run.requests == len(transcript.calls)
    assert run.tokens_sent == run.tokens_read + run.tokens_written + run.tokens_plain
    by_hand = run.tokens_read * 0.5 + run.tokens_written * 6.25 + run.tokens_plain * 5.0
    assert run.cost == pytest.approx(by_hand / 1e6 + run.model_cost)
    recall = run.recall
    assert recall.used == sum(len(call.uses) for call in transcript.calls)
    assert recall.verbatim <= recall.seen <= recall.used
    assert recall.far_verbatim <= recall.far_seen <= recall.far_used
    assert run.said_chars_seen <= run.said_chars
    assert run == run_of(transcript, policy, window), "twice the same"


def test_doing_nothing_loses_nothing_and_overflows(transcript: Transcript) -> None:
    """The prefix never changes; the window is what breaks."""
    small = run_of(transcript, DoNothing(), 16_000)
    assert small.breaks == 0
    assert small.recall.lost == 0
    assert small.words_share == 1.0
    assert small.overflows > 0
    assert run_of(transcript, DoNothing(), 1_000_000).overflows == 0


def test_holdfast_fits_and_is_taken_by_the_provider(transcript: Transcript) -> None:
    """No request is too large or malformed, and what the user said stays in view."""
    run = run_of(transcript, Holdfast(), 16_000)
    assert run.overflows == run.invalid == 0
    assert run.cuts > 0
    assert run.messages_share > 0.9
    assert run.model_cost == 0.0


def test_holdfast_in_a_large_window_does_what_doing_nothing_does(transcript: Transcript) -> None:
    """Nothing is cut without need while the cache is warm."""
    still = run_of(transcript, Holdfast(), 1_000_000, ttl_seconds=None)
    nothing = run_of(transcript, DoNothing(), 1_000_000, ttl_seconds=None)
    assert still.cuts == still.prunes == still.breaks == 0
    assert still.recall == nothing.recall
    assert still.cost == pytest.approx(nothing.cost, rel=0.02)


def test_holdfast_cuts_at_cold_moments_for_free(transcript: Transcript) -> None:
    """Where every turn starts cold, the warm prefix is hardly ever broken."""
    cold = run_of(transcript, Holdfast(), 24_000, ttl_seconds=300.0)
    warm = run_of(transcript, Holdfast(), 24_000, ttl_seconds=None)
    assert cold.cuts + cold.prunes > 0
    assert cold.breaks < warm.breaks


def test_holdfast_is_cheaper_than_a_summary_and_remembers_more(transcript: Transcript) -> None:
    """The comparison that all of this is for, on a session that anybody can make."""
    ours = run_of(transcript, Holdfast(), 24_000)
    theirs = run_of(transcript, Compact(), 24_000)
    assert theirs.cuts > 0
    assert ours.cost < theirs.cost
    assert ours.recall.seen >= theirs.recall.seen


def test_trimming_at_every_call_breaks_the_prefix(transcript: Transcript) -> None:
    """The oldest message goes at each call, and with it everything that was cached."""
    trimming = run_of(transcript, TrimTokens(), 24_000)
    clearing = run_of(transcript, ClearResults(), 24_000)
    assert trimming.breaks > 2 * clearing.breaks
    assert trimming.cost > clearing.cost
    assert clearing.prunes > 0
    assert trimming.invalid > 0, "a conversation does not begin with the assistant"


def test_turns_are_kept_whole(transcript: Transcript) -> None:
    """A view of whole turns begins with the user, so it is valid."""
    assert run_of(transcript, KeepTurns(3), 200_000).invalid == 0
    assert run_of(transcript, KeepTurns(7, "steps"), 200_000).invalid > 0


def test_unrepaired_log_makes_invalid_requests() -> None:
    """An unanswered call stops everybody but those who repair it."""
    records = a_session(turns=3)
    del records[2]
    transcript = Transcript(records, Estimator())
    assert run_of(transcript, DoNothing(), 200_000).invalid > 0
    assert run_of(transcript, Holdfast(), 200_000).invalid == 0


def test_summary_call_rides_the_prefix(transcript: Transcript) -> None:
    """It is charged for what it reads and for what it writes."""
    paid = run_of(transcript, Compact(), 24_000)
    unpaid = run_of(transcript, Compact(pays_output=False), 24_000)
    written = 4_000 * 25.0 / 1e6
    assert paid.model_cost - unpaid.model_cost == pytest.approx(paid.cuts * written)
    assert unpaid.model_cost > 0


def test_better_summaries_hold_more(transcript: Transcript) -> None:
    """What a summary holds is a parameter, and counts as seen but not as verbatim."""
    shares = [run_of(transcript, Compact(holds=share), 16_000).recall for share in (0.0, 0.25, 1.0)]
    assert shares[0].seen == shares[0].verbatim
    assert shares[0].seen <= shares[1].seen <= shares[2].seen
    assert len({recall.verbatim for recall in shares}) == 1
    assert shares[2].lost == 0


def test_refusal_counts_as_overflow() -> None:
    """Where the static part leaves no room, a policy that says so has sent nothing."""
    transcript = Transcript([User(content="word " * 900), Assistant(content="ok")], Estimator())
    terms: dict[str, Any] = {"window": 4_000, "static": 5_000, "budget": 100, "price": PRICE}
    run = simulate(transcript, Holdfast(), **terms)
    assert (run.requests, run.overflows, run.tokens_sent) == (1, 1, 0)
    sent = simulate(transcript, DoNothing(), **terms)
    assert sent.overflows == 1
    assert sent.tokens_sent > 0


def test_policy_is_a_parameter(transcript: Transcript) -> None:
    """Another threshold, another course."""
    default = run_of(transcript, Holdfast(), 24_000)
    early = Policy(compact=0.5, keep=0.1, cold_cut=0.3)
    assert run_of(transcript, Holdfast(early), 24_000).tokens_sent < default.tokens_sent


def test_runs_add_up(transcript: Transcript) -> None:
    """Several sessions are one sum."""
    run = run_of(transcript, Compact(), 24_000)
    both = run + run
    assert both.requests == 2 * run.requests
    assert both.recall.used == 2 * run.recall.used
    assert both.read_share == run.read_share
    assert (both.policy, both.window) == (run.policy, run.window)
    assert FactRecall().pooled_share == 1.0


def test_progress_is_told(transcript: Transcript) -> None:
    """Once for each call, with the number of all."""
    told: list[tuple[int, int]] = []
    run_of(transcript, DoNothing(), 24_000, progress=lambda *state: told.append(state))
    assert told == [(n, len(transcript.calls)) for n in range(1, len(transcript.calls) + 1)]


def test_words_survive_a_step_that_leaves_no_room_for_them() -> None:
    """One huge result pushes the carry out of a request, not out of those that follow."""
    records = a_session(turns=9)
    place = next(i for i in range(25, 60) if isinstance(records[i], ToolResult))
    huge = ToolResult(
        id=records[place].id,
        ts=records[place].ts,
        tool_use_id=getattr(records[place], "tool_use_id", ""),
        content="filler words of no use " * 9_000,
    )
    records[place] = huge
    run = run_of(Transcript(records, Estimator()), Holdfast(), 16_000)
    assert run.overflows == 0
    assert run.messages_share > 0.9


def test_records_without_times_are_taken_as_warm() -> None:
    """A transcript that does not say when has no gaps."""
    records = [type(one)(**{**_fields(one), "ts": 0.0}) for one in a_session(turns=3)]
    run = simulate(records, DoNothing(), window=200_000, price=PRICE)
    assert run.read_share > 0.8


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_ids_of_records_change_nothing(policy: Plays) -> None:
    """Formats without ids are judged alike: one broken record makes the requests invalid that hold
    it, and no others."""
    records = a_session(turns=6)
    del records[2]  # the result of a call
    bare = [type(one)(**{**_fields(one), "id": ""}) for one in records]
    named, unnamed = (run_of(Transcript(r, Estimator()), policy, 16_000) for r in (records, bare))
    shown = [(run.invalid, run.recall, run.said_seen) for run in (named, unnamed)]
    assert shown[0] == shown[1]
    if isinstance(policy, KeepTurns | TrimTokens):
        assert named.invalid < named.requests


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("window", [16_000, 200_000])
def test_idle_seconds_replace_the_times_of_the_transcript(
    transcript: Transcript, policy: Plays, window: int
) -> None:
    """With no time between calls the cache never forgets; with more than its lifetime, nothing is
    ever read. The transcript keeps its times."""
    times = [call.at for call in transcript.calls]
    warm = run_of(transcript, policy, window, ttl_seconds=None)
    close = run_of(transcript, policy, window, ttl_seconds=300.0, idle_seconds=0.0)
    apart = run_of(transcript, policy, window, ttl_seconds=300.0, idle_seconds=301.0)
    assert (close.tokens_read, close.tokens_sent) == (warm.tokens_read, warm.tokens_sent)
    assert close.cost == pytest.approx(warm.cost)
    assert apart.tokens_read == 0
    assert apart.cost > close.cost
    assert [call.at for call in transcript.calls] == times


def _fields(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def test_real_session_is_cheaper_and_remembers_more() -> None:
    """The claim on one real session; the benchmark has all of them."""
    folder = need_data() / "agents" / "claude-code" / "entire"
    path = folder / "ee6078de-2c4f-428e-b137-aafce7251a7a.jsonl.gz"
    (session,) = importers.read_transcript(path.read_bytes(), path.name)
    transcript = Transcript(session.records, Estimator())
    terms: dict[str, Any] = {"window": 32_000, "static": 6_000, "price": PRICE, "output": 0}
    ours = simulate(transcript, Holdfast(), **terms)
    theirs = simulate(transcript, Compact(), **terms)
    thrifty = simulate(transcript, Holdfast(policy_of("thrifty")), **terms)
    assert thrifty.cost < 0.65 * theirs.cost
    assert ours.cost < 0.8 * theirs.cost
    assert ours.recall.pooled_share > theirs.recall.pooled_share
    assert ours.overflows == ours.invalid == 0
