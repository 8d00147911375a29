"""Replies: what is read out of them is the same for every provider."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.models.replies import Reply

REPORTED: dict[str, dict[str, Any]] = {
    "anthropic": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 7},
    "openai": {
        "prompt_tokens": 100,
        "prompt_tokens_details": {"cached_tokens": 90},
        "completion_tokens": 7,
    },
    "gemini": {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 90,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 2,
    },
}


@pytest.mark.parametrize("provider", REPORTED)
def test_usage_means_the_same_for_every_provider(provider: str) -> None:
    """One call of 100 input tokens, 90 of them cached, and 7 of output; the report stays beside."""
    reply = Reply(content=[], raw_usage=REPORTED[provider], provider=provider)

    assert reply.usage is not None
    assert (reply.usage.prompt, reply.usage.cached_read, reply.usage.output) == (100, 90, 7)
    assert reply.usage.plain_input == 10
    assert reply.raw_usage == REPORTED[provider]


def test_without_a_report_the_usage_is_unknown() -> None:
    """Nothing reported is not zero."""
    assert Reply(content=[]).usage is None
