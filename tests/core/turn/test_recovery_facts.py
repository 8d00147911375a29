"""A failure that its text leaves open is explained by the request and what was answered before."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.turn.test_recovery import OPTIONS, PLAN, picture_plan

from holdfast.core.failures.classify import Symptoms, built_in_rules, classify
from holdfast.core.turn.recovery import Tries, judge, remedy
from holdfast.core.turn.run import Bounds
from holdfast.core.window import Window

TOTAL, REPLY = PLAN.tokens.total, PLAN.prompt.output_tokens
FULL = msgspec.structs.replace(PLAN, window=Window(TOTAL))


@pytest.mark.parametrize(
    ("text", "status"), [("", 400), ("it did not work", 400), ("no", 422), ("Bad Request", 400)]
)
def test_what_is_not_said_is_decided_by_the_size(text: str, status: int) -> None:
    """Only near the window, and not where a larger request was answered."""
    failure = classify(Symptoms(status, message=text))
    assert not failure.is_overflow
    assert judge(failure, PLAN) == failure
    assert judge(failure, FULL, answered=TOTAL) == failure
    assert judge(failure, FULL).kind == "context_overflow"


@pytest.mark.parametrize(
    ("text", "status"), [("invalid x-api-key", 401), ("what nobody has heard of", 418), ("", 404)]
)
def test_what_is_said_is_believed(text: str, status: int) -> None:
    failure = classify(Symptoms(status, message=text))
    assert judge(failure, FULL) == failure


def test_a_cap_is_of_the_reply_or_of_the_window() -> None:
    """The same words: what was sent and what was asked for tell which."""
    small = msgspec.structs.replace(PLAN, prompt=msgspec.structs.replace(PLAN.prompt))
    window = classify(Symptoms(400, message=f"max tokens of {TOTAL - 1} exceeded"))
    assert judge(window, small).kind == "context_overflow"
    long_reply = msgspec.structs.replace(
        PLAN, prompt=msgspec.structs.replace(PLAN.prompt, output_tokens=TOTAL * 3)
    )
    reply = classify(Symptoms(400, message=f"max tokens of {TOTAL * 2} exceeded"))
    judged = judge(reply, long_reply)
    assert judged.kind == "output_limit"
    found = remedy(judged, long_reply, Bounds(), Tries(), OPTIONS)
    assert (found.step, found.bounds.output) == ("lower-output", TOTAL * 2)
    cap = classify(Symptoms(400, message=f"max_tokens is too large: at most {REPLY + 1}"))
    assert cap.kind == "output_limit"
    assert judge(cap, PLAN).kind == "context_overflow", "the reply was within that"


def test_too_large_without_a_word_costs_pictures_first() -> None:
    mute = classify(Symptoms(413))
    assert judge(mute, PLAN).kind == "context_overflow"
    plan = picture_plan(4)
    assert remedy(judge(mute, plan), plan, Bounds(), Tries(), OPTIONS).step == "drop-media"


@given(st.sampled_from(built_in_rules()), st.integers(0, 10**6), st.none() | st.integers(1, 10**6))
def test_rates_money_and_keys_stay_what_they_are(rule, answered: int, limit: int | None) -> None:  # type: ignore[no-untyped-def]
    """The facts explain size: they never turn another failure into one of size."""
    failure = msgspec.structs.replace(
        classify(Symptoms(500)), kind=rule.kind, action=rule.action, subclass=rule.subclass
    )
    failure = msgspec.structs.replace(failure, limit=limit)
    judged = judge(failure, FULL, answered)
    about_size = ("context_overflow", "output_limit", "payload_too_large", "invalid_request")
    if rule.kind not in (*about_size, "ambiguous"):
        assert judged == failure
