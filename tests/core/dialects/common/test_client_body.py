"""A shorter reply: the budget for thinking stays below it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.dialects.registry import find_dialect


@given(st.integers(1, 64_000), st.integers(1_024, 64_000))
def test_the_budget_for_thinking_is_below_the_limit_and_not_too_small(
    tokens: int, budget: int
) -> None:
    body = {"max_tokens": 64_000, "thinking": {"type": "enabled", "budget_tokens": budget}, "x": 1}
    limited = find_dialect("anthropic").body.limit_reply(body, tokens)
    assert (limited["max_tokens"], limited["x"]) == (tokens, 1)
    if "thinking" in limited:
        assert 1_024 <= limited["thinking"]["budget_tokens"] < tokens
    else:
        assert tokens <= 1_024
    if budget < tokens:
        assert limited["thinking"] == body["thinking"]
    assert body["max_tokens"] == 64_000


def test_other_thinking_is_left_alone() -> None:
    for thinking in ({"type": "adaptive"}, {"type": "disabled"}, None, "odd"):
        limited = find_dialect("anthropic").body.limit_reply({"thinking": thinking}, 100)
        assert limited == {"thinking": thinking, "max_tokens": 100}
