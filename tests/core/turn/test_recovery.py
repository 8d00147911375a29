"""What is done after a refusal, as a decision on values: no session, no model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conversations import PNG, said

from holdfast.core.dialects.registry import target
from holdfast.core.failures.classify import Failure, Symptoms, built_in_rules, classify
from holdfast.core.flow.effects import FailedCall
from holdfast.core.log.records import Assistant, ModelChange, ToolResult, User
from holdfast.core.projection.project import project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.turn.options import Limits
from holdfast.core.turn.recovery import (
    Recovery,
    Remedy,
    Tries,
    final_error,
    is_smaller,
    judge,
    remedy,
)
from holdfast.core.turn.run import Bounds, RunSettings, RunState
from holdfast.core.window import Window
from holdfast.errors import ContextOverflow, ModelError

if TYPE_CHECKING:
    from holdfast.core.projection.project import Plan

TARGET = target("anthropic", model="m")


def plan_of(pairs: int = 30, window: int = 32_000, **options: Any) -> Plan:
    records: list[Any] = []
    for number in range(pairs):
        records += [User(content=f"q{number} " + "word " * 80), Assistant(content="text " * 80)]
    log = said([*records, User(content="the question")])
    return project(ProjectionRequest(log, Window(window), TARGET, **options))


PLAN = plan_of()
OPTIONS = Limits()


def after(failure: Failure, tries: Tries | None = None, **options: Any) -> Remedy:
    return remedy(failure, PLAN, Bounds(), tries or Tries(), Limits(**options))


def overflow(**numbers: int) -> Failure:
    return Failure(kind="context_overflow", action="shrink_input", **numbers)  # type: ignore[arg-type]


@given(
    limit=st.none() | st.integers(-10, 10**9),
    taken=st.none() | st.integers(-10, 10**12),
    tries=st.integers(0, 3),
)
def test_whatever_an_overflow_says_the_next_request_is_smaller_and_not_nothing(
    limit: int | None, taken: int | None, tries: int
) -> None:
    """Strictly smaller, and never so small that nothing could be sent because of a lie."""
    failure = Failure(kind="context_overflow", action="shrink_input", limit=limit, input=taken)
    found = after(failure, Tries(recoveries=tries))
    assert found.step == "shrink"
    most = found.bounds.at_most
    assert most is not None
    assert 0 < most < PLAN.tokens.total
    is_plausible = limit is not None and 1_024 <= limit < PLAN.tokens.total
    if not is_plausible and (limit is None or limit < 1_024):
        assert most >= 0.02 * PLAN.tokens.total
    if found.learned is not None:
        assert found.learned == limit
        assert found.learned >= 1_024


def test_numbers_are_taken_at_the_providers_scale() -> None:
    """It counts twice what we do: what we send must come down by half of that."""
    sent = PLAN.tokens.total
    found = after(overflow(limit=sent, input=2 * sent))
    assert found.bounds.at_most is not None
    assert found.bounds.at_most <= sent // 2


@pytest.mark.parametrize("limit", [2_000, 4_000, 10_000, 40_000])
def test_a_smaller_window_leaves_a_quarter_for_the_reply_at_most(limit: int) -> None:
    """The reserve was a share of a window that turned out to be smaller; the request that follows
    takes what is left, by the provider's count, and no less."""
    sent, taken = PLAN.tokens.total, 2 * limit
    most = after(overflow(limit=limit, input=taken)).bounds.at_most
    assert most is not None
    reply = min(PLAN.budget.output_reserve, limit // 4)
    counted = most * taken / sent
    assert 0.94 * (limit - reply) <= counted <= 0.951 * (limit - reply)


def test_the_number_of_smaller_requests_is_bounded() -> None:
    for done in range(4):
        assert after(overflow(), Tries(recoveries=done)).step == "shrink"
    assert after(overflow(), Tries(recoveries=4)).step == "give-up"
    assert after(overflow(), Tries(), recovery_calls=0).step == "give-up"


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("invalid x-api-key", 401),
        ("Your credit balance is too low to access the API", 400),
        ("what nobody has ever heard of", 418),
        ("", 404),
    ],
)
def test_what_is_not_about_size_is_given_up(message: str, status: int) -> None:
    failure = classify(Symptoms(status=status, message=message))
    found = after(failure)
    assert found.step == "give-up"
    assert found.bounds == Bounds()
    assert found.learned is None
    error = final_error(FailedCall(failure), PLAN, found.detail)
    assert type(error) is ModelError
    assert error.failure is failure


def test_a_refusal_without_a_word_is_judged_by_our_own_count() -> None:
    mute = Failure(kind="ambiguous", action="decide_by_own_estimate")
    assert after(mute).step == "give-up"
    full = msgspec.structs.replace(PLAN, window=Window(PLAN.tokens.total))
    judged = judge(mute, full)
    assert remedy(judged, full, Bounds(), Tries(), OPTIONS).step == "shrink"
    error = final_error(FailedCall(judged), full, "x")
    assert isinstance(error, ContextOverflow)
    assert error.parts["request"] == error.parts["window"] == PLAN.tokens.total


def test_waits_grow_are_bounded_and_are_no_recoveries() -> None:
    busy = Failure(kind="rate_limit", action="wait_and_retry")
    waits = [after(busy, Tries(waits=done), waits=6, wait_seconds=20.0) for done in range(6)]
    assert [one.seconds for one in waits] == [2.0, 4.0, 8.0, 16.0, 20.0, 20.0]
    assert after(busy, Tries(waits=6), waits=6).step == "give-up"
    assert after(busy, Tries(recoveries=4)).step == "wait"
    asked = msgspec.structs.replace(busy, retry_after=7.5)
    assert after(asked, wait_seconds=20.0).seconds == 7.5
    assert after(asked, wait_seconds=5.0).step == "give-up"
    at_once = msgspec.structs.replace(busy, retry_after=0.0)
    assert after(at_once).seconds == 2.0


def test_an_output_cap_is_lowered_as_far_as_was_said() -> None:
    cap = Failure(kind="output_limit", action="lower_output", limit=1_000)  # type: ignore[arg-type]
    found = after(cap)
    assert (found.step, found.bounds.output) == ("lower-output", 1_000)
    assert found.bounds.at_most is None
    larger = msgspec.structs.replace(cap, limit=10**9)
    assert after(larger).step == "give-up"


def test_the_same_request_is_never_smaller_than_itself() -> None:
    assert not is_smaller(PLAN, PLAN)
    less = plan_of(pairs=20)
    assert is_smaller(less, PLAN)
    assert not is_smaller(PLAN, less)
    assert is_smaller(plan_of(output_tokens=100), PLAN)


def picture_plan(pictures: int) -> Plan:
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    records: list[Any] = [
        User(content=[*[{"type": "image", "source": source}] * pictures, text("look")]),
        Assistant(content=[thinking, text("seen")], provider="anthropic", model="m"),
        User(content="and now?"),
    ]
    named = msgspec.structs.replace(TARGET, provider="anthropic", thinking=True)
    return project(ProjectionRequest(said(records), Window(32_000), named))


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(("pictures", "kept"), [(1, 0), (2, 1), (5, 2)])
def test_too_many_bytes_are_half_the_pictures(pictures: int, kept: int) -> None:
    """The limit is on the target of the next request, which is otherwise the same."""
    plan = picture_plan(pictures)
    failure = Failure(kind="payload_too_large", action="shrink_or_drop_images")
    found = remedy(failure, plan, Bounds(output=700), Tries(), OPTIONS)
    assert (found.step, found.bounds.output) == ("drop-media", 700)
    assert found.bounds.target is not None
    assert found.bounds.target.dialect.images_max == kept
    limited = msgspec.structs.replace(plan.target.dialect, images_max=kept)
    assert found.bounds.target == msgspec.structs.replace(plan.target, dialect=limited)


def test_refused_thinking_is_left_out_of_the_next_request() -> None:
    """The epoch that begins with it bars the reasoning; the next request is otherwise the same."""
    plan = picture_plan(1)
    failure = Failure(kind="invalid_request", action="strip_or_restore_thinking_and_retry_once")
    found = remedy(failure, plan, Bounds(), Tries(), OPTIONS)
    assert found.step == "drop-thinking"
    assert found.bounds == Bounds()
    without = remedy(failure, PLAN, Bounds(), Tries(), OPTIONS)
    assert without.step != "drop-thinking"


def test_every_built_in_action_has_a_step() -> None:
    """No class of failure ends in an exception of our own making."""
    for rule in built_in_rules():
        failure = Failure(kind=rule.kind, action=rule.action)
        assert after(failure).step in (
            *("wait", "lower-output", "shrink", "drop-media", "drop-thinking", "drop-field"),
            *("leave-out", "end-turn", "give-up"),
        )


def chat(turns: int) -> list[Any]:
    return [
        record
        for number in range(turns)
        for record in (User(content=f"q{number} " + "word " * 300), Assistant(content="text " * 99))
    ]


def results(turns: int, words: int) -> list[Any]:
    found: list[Any] = []
    for number in range(turns):
        call = {"type": "tool_use", "id": f"c{number}", "name": "bash", "input": {"n": number}}
        output = ToolResult(tool_use_id=f"c{number}", content=f"line {number}\n" * words)
        found += [User(content=f"q{number}"), Assistant(content=[call]), output]
        found.append(Assistant(content="done"))
    return found


@pytest.mark.sampled(1 / 2, "taken")
@pytest.mark.parametrize("taken", [1.0, 1.4])
@pytest.mark.parametrize(
    "records",
    [
        chat(180),
        results(200, 120),
        [*chat(60), *results(60, 400)],
        results(24, 2_000),
        results(6, 4_000),
    ],
)
def test_after_a_refusal_by_two_per_cent_the_next_request_is_a_little_smaller(
    records: list[Any], taken: float
) -> None:
    """At least nine tenths of the limit, by the provider's count, whatever that count is."""
    log = said([*records, User(content="the question")])
    window = Window(128_000)
    refused = project(ProjectionRequest(log, window, TARGET, pressure="hold"))
    log = said([*log, *refused.decisions])
    refused = project(ProjectionRequest(log, window, TARGET, pressure="hold"))
    counted = int(taken * refused.tokens.total)
    limit = int(counted / 1.02)
    found = remedy(overflow(limit=limit, input=counted), refused, Bounds(), Tries(), OPTIONS)
    request = ProjectionRequest(
        log,
        window,
        TARGET,
        pressure="hold",
        at_most=found.bounds.at_most,
        output_tokens=found.bounds.output,
    )
    plan = project(request)
    assert 0.9 * limit <= taken * plan.tokens.total <= limit - plan.prompt.output_tokens
    assert is_smaller(plan, refused)


def run_of(window: Window, **settings: Any) -> RunState:
    return RunState(RunSettings(target=TARGET, window=window, **settings), ProjectionCache)


def test_a_number_that_moves_with_the_request_is_no_window() -> None:
    """One token less than was sent, again and again."""
    recovery = Recovery(run_of(Window(32_000)))
    for sent in (30_000, 27_000, 24_000):
        recovery.take(PLAN, FailedCall(overflow(limit=sent - 1, input=sent)))
    assert recovery.stated_window() is None
    honest = Recovery(run_of(Window(32_000)))
    for sent in (30_000, 27_000):
        honest.take(PLAN, FailedCall(overflow(limit=20_000, input=sent)))
    assert honest.stated_window() == 20_000


def test_a_window_is_learned_above_the_floor_and_above_what_was_answered() -> None:
    run = run_of(Window(200_000))
    assert not run.learn_window(2_088, "said")
    run.answered = 90_000
    assert not run.learn_window(80_000, "said")
    assert run.learn_window(100_000, "said")
    assert run.window.source == "said; 200,000 was stated"
    assert run.forget_window() is not None
    assert run.window == Window(200_000)
    assert run.forget_window() is None


def test_a_poor_number_in_the_log_is_not_recalled() -> None:
    """A log from before has 2,088 tokens in it; what was answered in it counts as well."""
    run = run_of(Window(200_000))
    answered = Assistant(
        content="x", model="m", provider="anthropic", usage={"input_tokens": 50_000}
    )
    run.recall_window(said([answered, ModelChange(model="m", window=2_088)]))
    assert run.window.tokens == 200_000
    run.recall_window(said([answered, ModelChange(model="m", window=40_000)]))
    assert run.window.tokens == 200_000
    run.recall_window(said([answered, ModelChange(model="m", window=60_000)]))
    assert run.window.tokens == 60_000
    assert run.recalled_window
