"""The laws of the projection, over sound and damaged logs, every window and every dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conversations import messy_logs, said, sound_logs
from tests.support.runs import examples

from holdfast.core.dialects.registry import VARIANTS, render_body, target, validate_body
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Prune,
    PruneDecision,
    Record,
    ToolResult,
    User,
    text_of,
)
from holdfast.core.models.messages import Block, Role, Text, Tool, ToolAnswer, text_of_blocks
from holdfast.core.projection.policy import Policy, PromptCache
from holdfast.core.projection.project import Plan, project
from holdfast.core.projection.prune import trim
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.projection.units import MessagePart
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.tokens.counting import Estimator, count_prompt, count_results
from holdfast.core.window import Window
from holdfast.errors import CannotFit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.models.dialects import Target

WINDOWS = (4_000, 8_000, 16_000, 32_000, 128_000, 200_000, 1_000_000)
TARGETS = [
    target(name, variant, provider="anthropic", model="claude-x")
    for name, variants in VARIANTS.items()
    for variant in variants
]
ANTHROPIC = target("anthropic")
COLD = PromptCache(idle_seconds=10_000.0)
WARM = PromptCache(idle_seconds=1.0)


CUTS = Policy(allow=("nothing",))
"""Shortens no result, so that a full view is cut."""


def plan_for(records: Sequence[Record], window: int = 32_000, **options: Any) -> Plan:
    options.setdefault("target", ANTHROPIC)
    options.setdefault("floor", 0)
    cache = options.pop("cache", None)
    return project(ProjectionRequest(records, Window(window), **options), cache)


def tried(records: Sequence[Record], window: int, **options: Any) -> tuple[Plan, CannotFit | None]:
    """The plan, or why there is none."""
    try:
        return plan_for(records, window, **options), None
    except CannotFit as error:
        return cast("Plan", None), error


def appended(records: Sequence[Record], plan: Plan) -> list[Record]:
    """The log after the plan's decisions were written to it."""
    start = len(records)
    decided = [
        msgspec.structs.replace(record, id=f"d{start + number:05d}", ts=2e9)
        for number, record in enumerate(plan.decisions)
    ]
    return [*records, *decided]


def blocks_of(plan: Plan) -> list[tuple[Role, Block]]:
    """Everything that is sent, in order, without the note that closes an unfinished list."""
    blocks = [(one.role, block) for one in plan.prompt.messages for block in one.blocks]
    return blocks[:-1] if blocks and blocks[-1][1] == Text("[Continue.]") else blocks


def text_in(plan: Plan) -> str:
    return "\n".join(text_of_blocks(message.blocks) for message in plan.prompt.messages)


def newest_words(records: Sequence[Record]) -> str:
    users = [text_of(one.content) for one in records if isinstance(one, User)]
    return next((text for text in reversed(users) if text.strip()), "")


# L1: bounded.


@examples(150)
@given(messy_logs(), st.sampled_from(WINDOWS), st.sampled_from((COLD, WARM)))
def test_any_log_fits_or_is_refused_with_sums(
    records: list[Record], window: int, cache: PromptCache
) -> None:
    """Counted anew, from the outside, the request is within the budget."""
    tools = (Tool("read_file", "Reads a file.", {"type": "object"}),)
    plan, refusal = tried(records, window, prompt_cache=cache, system="Be brief.", tools=tools)
    if refusal is not None:
        assert refusal.parts["budget"] < refusal.parts["newest_turn"]
        return
    tokens = plan.tokens
    counted = count_prompt(plan.prompt, Estimator())
    results = count_results(plan.prompt.messages)
    assert tokens.factor * counted + tokens.per_result * results <= tokens.total + 1
    assert tokens.messages <= plan.budget.tokens
    assert tokens.total + plan.budget.output_reserve <= window


@pytest.mark.sampled(1 / 2, "window")
@pytest.mark.parametrize("window", WINDOWS)
def test_long_conversation_fits_every_window(window: int) -> None:
    """Two hundred turns of tool output, far more than the small windows hold."""
    plan = plan_for(long_log(200), window)
    assert plan.tokens.total + plan.budget.output_reserve <= window
    assert plan.decisions or window > 200_000


def test_conversation_fits_beside_large_parts_of_the_caller() -> None:
    """Descriptions of tools, or a system prompt, of more than half of the window; the messages
    would fit without them."""
    for window in (16_000, 32_000, 128_000):
        words = "does what its name says " * (window * 6 // 10 // 5)
        tools = (Tool("read_file", words, {"type": "object"}),)
        log = long_log(window // 2_000, chars=2_800)
        assert plan_for(log, window).decisions == ()
        for parts in ({"tools": tools}, {"system": words}):
            plan = plan_for(log, window, **parts)
            counted = count_prompt(plan.prompt, Estimator())
            assert counted > window / 2
            assert counted + plan.budget.output_reserve <= window


def long_log(turns: int, chars: int = 4_000) -> list[Record]:
    records: list[Record] = []
    for number in range(turns):
        block = {"type": "tool_use", "id": f"c{number}", "name": "bash", "input": {"n": number}}
        records += [
            User(content=f"question {number}: what about file_{number}.py?"),
            Assistant(content=[{"type": "text", "text": f"Looking at {number}."}, block]),
            ToolResult(
                tool_use_id=f"c{number}", content=f"line {number} of output\n" * (chars // 20)
            ),
            Assistant(content=f"answer {number}"),
        ]
    records.append(User(content="And now, what is the state of file_7.py?"))
    return said(records)


def test_refusal_names_the_sums_and_the_largest_parts() -> None:
    """A static prompt that is larger than the window."""
    with pytest.raises(CannotFit) as caught:
        project(
            ProjectionRequest(
                said([User(content="hi")]), Window(16_384), ANTHROPIC, system="word " * 20_000
            )
        )
    parts = caught.value.parts
    assert parts["system"] > 16_384
    assert parts["output_reserve"] == 4_096
    assert "system" in str(caught.value)
    assert caught.value.hint


def test_windows_below_the_floor_are_refused_unless_it_is_lowered() -> None:
    """16,000 by default, whatever is in the log."""
    records = said([User(content="hi")])
    with pytest.raises(CannotFit, match="below the floor of 16,000"):
        project(ProjectionRequest(records, Window(8_000), ANTHROPIC))
    assert project(
        ProjectionRequest(records, Window(8_000), ANTHROPIC, floor=4_000)
    ).prompt.messages
    assert project(ProjectionRequest(records, Window(24_000), ANTHROPIC)).warnings
    assert not project(ProjectionRequest(records, Window(64_000), ANTHROPIC)).warnings


# L2: the newest survives.


@examples(100)
@given(sound_logs(), st.sampled_from((4_000, 8_000, 16_000)), st.sampled_from((COLD, WARM)))
def test_newest_user_message_is_in_every_projection(
    records: list[Record], window: int, cache: PromptCache
) -> None:
    """Whole, since none of these is larger than the smallest budget."""
    plan = plan_for(records, window, prompt_cache=cache)
    assert newest_words(records) in text_in(plan)


@pytest.mark.parametrize("window", [4_000, 8_000, 16_000, 32_000])
def test_newest_user_message_larger_than_the_budget_keeps_both_ends(window: int) -> None:
    """Head, tail, and the record that has all of it."""
    text = "BEGIN " + "filler words and more words " * 20_000 + " END"
    records = said([User(content="before"), Assistant(content="ok"), User(content=text)])
    plan = plan_for(records, window)
    shown = text_in(plan)
    assert "BEGIN" in shown
    assert " END" in shown
    assert "record r00002 has all of it" in shown


@pytest.mark.parametrize("window", [4_000, 8_000, 32_000])
def test_users_words_stay_when_one_turn_outgrows_the_window(window: int) -> None:
    """A hundred steps since the user spoke: the cut falls inside the turn."""
    records = said([User(content="Find the bug in parser.py and fix it.")])
    for number in range(100):
        block = {"type": "tool_use", "id": f"c{number}", "name": "bash", "input": {"n": number}}
        records += [
            Assistant(content=[block]),
            ToolResult(tool_use_id=f"c{number}", content="x " * 900),
        ]
    records = said(records)
    plan = plan_for(records, window, policy=CUTS)
    first = plan.prompt.messages[0]
    assert first.role == "user"
    assert "Find the bug in parser.py and fix it." in text_of_blocks(first.blocks)
    log = appended(records, plan)
    cut = next(one for one in log if isinstance(one, Compaction))
    kept = next(place for place, one in enumerate(log) if one.id == cut.first_kept)
    # What a store would hand out: only what is left of the cut.
    assert blocks_of(plan_for(log[kept:], window, policy=CUTS)) == blocks_of(plan)


def steps(start: int, count: int, chars: int = 1_800) -> list[Record]:
    made: list[Record] = []
    for number in range(start, start + count):
        block = {"type": "tool_use", "id": f"c{number}", "name": "bash", "input": {"n": number}}
        made += [
            Assistant(content=[block]),
            ToolResult(tool_use_id=f"c{number}", content="out " * (chars // 4)),
        ]
    return made


def live_part(log: Sequence[Record]) -> list[Record]:
    """What a store hands out: from the first record that the newest cut keeps."""
    cut = next(one for one in reversed(log) if isinstance(one, Compaction))
    wanted = cut.first_kept or cut.id
    return list(log[next(place for place, one in enumerate(log) if one.id == wanted) :])


def test_users_words_outlive_many_cuts_inside_one_turn() -> None:
    """Ten cuts in a row, each seeing only what the cut before it left."""
    words = "Find the bug in parser.py and fix it, but leave lexer.py alone."
    log = said([User(content=words)])
    unpruned = Policy(allow=("nothing",))
    cuts = 0
    for number in range(0, 400, 10):
        more = said(steps(number, 10))
        log += [
            msgspec.structs.replace(one, id=f"s{number:04d}{place:02d}")
            for place, one in enumerate(more)
        ]
        plan = plan_for(log, 16_000, policy=unpruned)
        assert text_in(plan).count(words) >= 1
        assert plan.prompt.messages[0].role == "user"
        if plan.decisions:
            cuts += 1
            log = live_part(appended(log, plan))
            assert blocks_of(plan_for(log, 16_000, policy=unpruned)) == blocks_of(plan)
    assert cuts >= 10


def test_carry_keeps_its_place_beside_a_step_that_would_take_all_of_it() -> None:
    """One huge result crowds the carry neither out of a request nor out of the log."""
    words = "Use the port 48123 and never touch legacy.py."
    log = said([User(content=words), Assistant(content="ok"), User(content="go"), *steps(0, 9)])
    huge = said(steps(90, 1, 400_000))
    log += [msgspec.structs.replace(one, id=f"h{n}") for n, one in enumerate(huge)]
    crowded = plan_for(log, 8_000)
    assert words in text_in(crowded)
    log = live_part(appended(log, crowded))
    more = said(steps(100, 12))
    log += [msgspec.structs.replace(one, id=f"m{n:02d}") for n, one in enumerate(more)]
    again = plan_for(log, 8_000)
    assert again.decisions
    assert words in text_in(again)


@pytest.mark.parametrize("window", [4_000, 8_000, 32_000])
def test_oversize_newest_step_is_shortened_inside_itself(window: int) -> None:
    """One result of 400,000 characters: both its ends, the question, and a ref to the rest."""
    call = {"type": "tool_use", "id": "c1", "name": "bash", "input": {"cmd": "make"}}
    text = "FIRST LINE\n" + "noise and more noise\n" * 20_000 + "LAST LINE: error 17"
    records = said(
        [
            User(content="Why?"),
            Assistant(content=[call]),
            ToolResult(tool_use_id="c1", content=text),
        ]
    )
    plan = plan_for(records, window)
    answer = plan.prompt.messages[-1].blocks[0]
    assert isinstance(answer, ToolAnswer)
    shown = text_of_blocks(answer.content)
    assert shown.startswith("FIRST LINE")
    assert shown.endswith("LAST LINE: error 17")
    assert "record r00002 has all of it" in shown
    assert "Why?" in text_in(plan)
    assert plan_for(appended(records, plan), window).decisions == ()


def test_newest_of_several_messages_in_a_turn_is_the_one_that_stays_whole() -> None:
    """A long paste, then the question about it."""
    paste, question = "pasted line of text\n" * 900, "What is wrong with this?"
    log = said([User(content=paste), User(content=question), *steps(0, 6, 4_000)])
    plan = plan_for(log, 8_000)
    assert question in text_in(plan)


def test_long_question_leaves_room_for_more_than_the_newest_step() -> None:
    """It takes most of the budget; a cut keeps as many steps as leave some room to go on."""
    log = said([User(content="word " * 4_200), *steps(0, 40, 400)])
    plan = plan_for(log, 12_000)
    kept = [line for line in plan.ledger if line.kind == "assistant" and line.action == "kept"]
    assert 2 <= len(kept) < 40
    assert "word " * 4_000 in text_in(plan)


def test_cut_that_would_free_nothing_is_not_made() -> None:
    """The question is most of it and stays in any case; its few steps fit beside it."""
    log = said([User(content="word " * 4_200), *steps(0, 12, 400)])
    plan = plan_for(log, 12_000)
    assert plan.tokens.messages > 0.8 * plan.budget.tokens
    assert not any(isinstance(one, Compaction) for one in plan.decisions)


def test_correction_is_learned_from_what_calls_reported() -> None:
    """A model that counts 1.4 for each of ours is believed; another starts from the base."""
    log: list[Record] = []
    for record in long_log(30, chars=2_000):
        if isinstance(record, Assistant):
            sent = plan_for(log, 900_000).prompt
            real = int(1.4 * count_prompt(sent, Estimator())) + 50
            record = msgspec.structs.replace(record, usage={"input_tokens": real}, model="m")
        log.append(record)
    for model, factor in (("m", 1.4), ("another", 1.1)):
        plan = plan_for(log, 900_000, target=target("anthropic", model=model))
        counted = count_prompt(plan.prompt, Estimator())
        results = count_results(plan.prompt.messages)
        expected = factor * counted + (20 * results if model == "another" else 50)
        assert plan.tokens.total == pytest.approx(expected, rel=0.03)


def test_step_that_cannot_be_shortened_enough_gives_way_to_the_question() -> None:
    """Two hundred calls at once, in a window that has no room for their answers."""
    calls = [
        {"type": "tool_use", "id": f"c{n}", "name": "bash", "input": {"n": n}} for n in range(200)
    ]
    results = [ToolResult(tool_use_id=f"c{n}", content="x " * 200) for n in range(200)]
    records = said([User(content="All of them, please."), Assistant(content=calls), *results])
    plan = plan_for(records, 4_000)
    assert "All of them, please." in text_in(plan)
    assert plan.tokens.messages <= plan.budget.tokens


def test_records_that_were_never_stored_go_by_their_place() -> None:
    """Straight from memory, without ids: cut, shortened and found again like any others."""
    records: list[Record] = []
    for number in range(10):
        records += [User(content=f"q{number} " * 5_000), Assistant(content="r " * 20_000)]
    plan = plan_for(records, 20_000)
    assert plan.decisions
    assert [line.record for line in plan.ledger if line.kind == "user"][:2] == ["@0", "@2"]
    again = plan_for(appended(records, plan), 20_000)
    assert blocks_of(again) == blocks_of(plan)
    assert again.decisions == ()


# L4: pairs are atomic, and what is sent is valid.


@examples(150)
@given(messy_logs(), st.sampled_from(TARGETS), st.sampled_from((4_000, 16_000, 200_000)))
def test_any_log_is_valid_for_every_dialect(
    records: list[Record], aim: Target, window: int
) -> None:
    """However damaged the log is, its provider's own rules hold."""
    try:
        plan = plan_for(records, window, target=aim, system="Be brief.")
    except CannotFit:
        return
    assert validate_body(render_body(plan.prompt, aim), aim) == []


# L5: every cut can be undone.


@examples(60)
@given(sound_logs(max_turns=8), st.sampled_from((4_000, 8_000)), st.sampled_from((COLD, WARM)))
def test_ledger_accounts_for_every_record_and_says_how_to_get_it_back(
    records: list[Record], window: int, cache: PromptCache
) -> None:
    """Each record once; whatever is not whole has a ref to a record that is in the log."""
    plan = plan_for(records, window, prompt_cache=cache)
    named = [line.record for line in plan.ledger if line.kind not in ("summary", "note")]
    assert named == [record.id for record in records]
    ids = {record.id for record in records}
    for line in plan.ledger:
        if line.action in ("trimmed", "cleared", "summarised", "dropped"):
            assert line.back.removeprefix("record ") in ids
            assert line.why
    shown = sum(line.after for line in plan.ledger)
    assert shown <= plan.tokens.messages


def test_bigger_window_later_gets_everything_back() -> None:
    """150k tokens, a switch to 32k and back to a million."""
    records = long_log(100)
    whole = plan_for(records, 1_000_000)
    small = plan_for(records, 32_000)
    assert small.decisions
    log = appended(records, small)
    assert blocks_of(plan_for(log, 1_000_000)) == blocks_of(whole)
    assert plan_for(log, 32_000).decisions == ()


# L6: deterministic.


@examples(80)
@given(messy_logs(), st.sampled_from((4_000, 32_000)))
def test_same_log_same_bytes(records: list[Record], window: int) -> None:
    """With and without a memory of earlier projections."""
    cache = ProjectionCache()
    try:
        for count in range(0, len(records), 3):
            plan_for(records[:count], window, cache=cache)
        plans = [plan_for(records, window), plan_for(records, window, cache=cache)]
    except CannotFit:
        return
    first, second = (msgspec.json.encode(plan.prompt) for plan in plans)
    assert first == second
    assert plans[0].tokens == plans[1].tokens
    assert plans[0].decisions == plans[1].decisions
    assert plans[0].ledger == plans[1].ledger


# L7: sticky.


@examples(80)
@given(messy_logs() | sound_logs(max_turns=8), st.sampled_from((4_000, 8_000, 16_000)))
def test_recorded_decisions_are_seen_again_and_decide_nothing_new(
    records: list[Record], window: int
) -> None:
    """Projecting the log with its decisions gives the same bytes."""
    try:
        plan = plan_for(records, window, prompt_cache=COLD)
    except CannotFit:
        return
    again = plan_for(appended(records, plan), window, prompt_cache=COLD)
    assert blocks_of(again) == blocks_of(plan)
    assert again.decisions == ()


@examples(80)
@given(messy_logs(40) | sound_logs(max_turns=8), st.sampled_from((4_000, 8_000, 16_000)))
def test_what_a_store_hands_out_after_a_cut_is_enough(records: list[Record], window: int) -> None:
    """Projecting only from the first record that the cut keeps gives the same bytes."""
    plan, refusal = tried(records, window, prompt_cache=COLD)
    if refusal is not None or not any(isinstance(one, Compaction) for one in plan.decisions):
        return
    again = plan_for(live_part(appended(records, plan)), window, prompt_cache=COLD)
    assert blocks_of(again) == blocks_of(plan)
    assert again.decisions == ()


@examples(60)
@given(sound_logs(max_turns=8, words=200), st.sampled_from((4_000, 8_000, 32_000)))
def test_another_turn_keeps_the_prefix_unless_a_decision_says_otherwise(
    records: list[Record], window: int
) -> None:
    """Fed as an agent would: project before each reply, append the decisions, go on."""
    log: list[Record] = []
    before: list[tuple[Role, Block]] = []
    for record in records:
        if isinstance(record, Assistant):
            plan = plan_for(log, window, prompt_cache=WARM)
            if not plan.decisions:
                assert blocks_of(plan)[: len(before)] == before
            log = appended(log, plan)
            before = blocks_of(plan)
        log.append(record)


def test_decisions_come_in_batches() -> None:
    """A long session at a small window: few decisions, and long stretches between them."""
    log: list[Record] = []
    breaks = calls = 0
    for record in long_log(120, chars=1_500):
        if isinstance(record, Assistant):
            plan = plan_for(log, 16_000, prompt_cache=WARM)
            calls += 1
            breaks += bool(plan.decisions)
            log = appended(log, plan)
        log.append(record)
    assert calls == 240
    assert 0 < breaks <= calls // 8


def test_decision_binds_its_window_and_smaller_ones_only() -> None:
    """A trim recorded for 32k is not there at 64k."""
    records = long_log(3)
    target_record = next(one.id for one in records if isinstance(one, ToolResult))
    log = [
        *records,
        Prune(
            id="p1",
            window=32_000,
            decisions=[PruneDecision(record=target_record, action="clear")],
        ),
    ]
    for window, is_cleared in ((16_000, True), (32_000, True), (64_000, False)):
        actions = {line.record: line.action for line in plan_for(log, window).ledger}
        assert (actions[target_record] == "cleared") is is_cleared


def test_summary_has_one_line_in_the_ledger() -> None:
    """It is put in; the record it comes from is not counted a second time."""
    records = long_log(3)
    cut = Compaction(
        id="cut", summary="What came before.", first_kept=records[-1].id, method="extract"
    )
    ledger = plan_for([*records, cut, User(id="next", content="go on")]).ledger
    about = [(line.kind, line.action, line.after > 0) for line in ledger if line.record == "cut"]
    assert about == [("summary", "injected", True), ("compaction", "silent", False)]


# Anchoring.


def test_reported_usage_is_the_anchor() -> None:
    """What the provider measured beyond what we see is kept free."""
    records = long_log(3)
    bare = plan_for(records, 64_000)
    spot = max(i for i, one in enumerate(records) if isinstance(one, Assistant))
    sent = plan_for(records[:spot], 64_000).tokens.messages
    usage = {"input_tokens": sent + 300, "cache_read_input_tokens": 0, "output_tokens": 9}
    log = list(records)
    log[spot] = msgspec.structs.replace(log[spot], usage=usage)
    plan = plan_for(log, 64_000)
    assert bare.tokens.basis == "estimated"
    assert plan.tokens.basis == "measured"
    assert plan.tokens.hidden == pytest.approx(300, abs=9)
    assert plan.budget.ratio > bare.budget.ratio


def test_too_much_for_the_tools_does_not_make_messages_smaller_than_nothing() -> None:
    """Where less was reported than we reckon with for the tools alone, messages still count."""
    tools = [Tool("look", "Look at something. " * 40, {"type": "object", "properties": {}})]
    static = plan_for([User(content="hi")], tools=tools).tokens.tools
    reply = Assistant(content="hello there", provider="anthropic", usage={"input_tokens": 100})

    plan = plan_for([User(content="hi"), reply], tools=tools)

    assert static > 110
    assert plan.tokens.basis == "measured"
    assert 0 < plan.tokens.messages < 50
    assert plan.tokens.factor > 0


def test_what_another_model_measured_is_not_the_anchor() -> None:
    """Its tokens are others, and so is its correction."""
    records = long_log(3)
    spot = max(i for i, one in enumerate(records) if isinstance(one, Assistant))
    sent = plan_for(records[:spot], 64_000).tokens.messages
    usage = {"input_tokens": sent + 300, "output_tokens": 9}
    records[spot] = msgspec.structs.replace(records[spot], usage=usage, model="one")
    basis = {
        name: plan_for(records, 64_000, target=target("anthropic", model=name)).tokens.basis
        for name in ("one", "other", "")
    }
    assert basis == {"one": "measured", "other": "estimated", "": "measured"}


def test_error_that_grows_with_the_messages_goes_when_they_go() -> None:
    """Five percent more than we count is a factor, not something that is always there."""
    records = long_log(20)
    spot = max(i for i, one in enumerate(records) if isinstance(one, Assistant))
    sent = plan_for(records[:spot], 200_000).tokens.messages
    usage = {"input_tokens": int(sent * 1.05), "output_tokens": 9}
    records[spot] = msgspec.structs.replace(records[spot], usage=usage)
    whole, small = plan_for(records, 200_000), plan_for(records, 12_000)
    assert whole.tokens.basis == small.tokens.basis == "measured"
    assert whole.tokens.total == pytest.approx(sent * 1.05, rel=0.01)
    assert small.tokens.hidden <= 500


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": 0}, {"input_tokens": 90_000}])
def test_usage_that_says_nothing_is_not_an_anchor(usage: dict[str, Any] | None) -> None:
    """Missing, zero, or of a request that was quite another."""
    records = long_log(3)
    spot = max(i for i, one in enumerate(records) if isinstance(one, Assistant))
    records[spot] = msgspec.structs.replace(records[spot], usage=usage)
    plan = plan_for(records, 200_000)
    assert plan.tokens.basis == "estimated"
    assert plan.tokens.messages > 0


def test_memory_is_only_a_memory() -> None:
    """The same object for another window, another target or another log changes nothing."""
    cache = ProjectionCache()
    one, other = long_log(20), said([User(content="something else")])
    for records in (one, other, one[:40], one):
        for window in (16_000, 64_000):
            for aim in (ANTHROPIC, target("gemini")):
                kept = plan_for(records, window, target=aim, cache=cache)
                fresh = plan_for(records, window, target=aim)
                assert msgspec.json.encode(kept.prompt) == msgspec.json.encode(fresh.prompt)


def test_trim_is_the_same_function_everywhere() -> None:
    """What the plan shows of a trimmed result is what `trim` makes of it."""
    part = MessagePart("r1", "tool_result", "user", (ToolAnswer("c1", (Text("x" * 20_000),)),))
    block = trim(part).blocks[0]
    assert isinstance(block, ToolAnswer)
    assert len(text_of_blocks(block.content)) <= 3_000


def test_policy_protects_what_it_names() -> None:
    """A denied tool's results are never pruned while another way is left."""
    records = long_log(30)
    plan = plan_for(records, 40_000, policy=Policy(deny=("BA*",)), prompt_cache=COLD)
    assert not [line for line in plan.ledger if line.action in ("trimmed", "cleared")]


def test_a_memory_does_not_hold_on_to_what_the_view_has_left() -> None:
    """A session that lives for months: what was weighed is let go of when the view turns."""
    cache = ProjectionCache()
    records: list[Record] = []
    most = 0
    for turn in range(70):
        for step in range(200):
            name = f"{turn:02d}{step:03d}"
            records.append(User(id=f"u{name}", content=f"Request {name}"))
            records.append(Assistant(id=f"a{name}", content=f"Answer {name}"))
        project(ProjectionRequest(records, Window(200_000), target("anthropic")), cache)
        most = max(most, cache.scale.cache_size)
        records = [Compaction(id=f"c{turn:02d}", summary="All is well.")]
    assert most < 3_000
