"""What providers report, in one shape; and what must not be taken for a prompt's size."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import json_values

from holdfast.core.models.usage import Usage, add_up, read_usage


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(
            {
                "input_tokens": 3,
                "cache_creation_input_tokens": 700,
                "cache_read_input_tokens": 40_000,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 200,
                    "ephemeral_1h_input_tokens": 500,
                },
                "output_tokens": 120,
                "service_tier": "standard",
            },
            Usage(40_703, 40_000, 700, 500, 120, "anthropic"),
            id="Anthropic splits its input",
        ),
        pytest.param(
            {
                "input_tokens": 10,
                "output_tokens": 5,
                "cache_read_input_tokens": None,
                "cache_creation_input_tokens": None,
            },
            Usage(10, output=5, source="anthropic"),
            id="Anthropic without a cache says null",
        ),
        pytest.param(
            {
                "prompt_tokens": 2_006,
                "completion_tokens": 300,
                "total_tokens": 2_306,
                "prompt_tokens_details": {"cached_tokens": 1_920, "audio_tokens": 0},
            },
            Usage(2_006, 1_920, output=300, source="openai-chat"),
            id="OpenAI's chat includes what was cached",
        ),
        pytest.param(
            {
                "input_tokens": 12_069,
                "input_tokens_details": {"cached_tokens": 11_502},
                "output_tokens": 147,
                "output_tokens_details": {"reasoning_tokens": 64},
                "total_tokens": 12_216,
            },
            Usage(12_069, 11_502, output=147, source="openai-responses"),
            id="OpenAI's responses include it too",
        ),
        pytest.param(
            {
                "promptTokenCount": 900,
                "cachedContentTokenCount": 600,
                "candidatesTokenCount": 40,
                "thoughtsTokenCount": 60,
                "totalTokenCount": 1_000,
            },
            Usage(900, 600, output=100, source="gemini"),
            id="Gemini includes it and tells thoughts apart",
        ),
        pytest.param(
            {"input": 12, "output": 7, "cacheRead": 5_000, "cacheWrite": 88, "totalTokens": 5_107},
            Usage(5_100, 5_000, 88, output=7, source="pi"),
            id="pi and OpenClaw split",
        ),
        pytest.param(
            {"input": 2, "output": 9, "reasoning": 1, "cache": {"read": 30, "write": 4}},
            Usage(36, 30, 4, output=10, source="pi"),
            id="opencode splits, one level down",
        ),
        pytest.param(
            {"inputOther": 271, "output": 119, "inputCacheRead": 14_080, "inputCacheCreation": 0},
            Usage(14_351, 14_080, output=119, source="kimi-cli"),
            id="Kimi's tool splits",
        ),
        pytest.param(
            {"input": 12_069, "output": 147, "cached": 11_502, "thoughts": 0, "tool": 0},
            Usage(12_069, 11_502, output=147, source="gemini-cli"),
            id="Gemini's tool includes",
        ),
        pytest.param(
            {
                "inputTokens": 50,
                "outputTokens": 5,
                "cacheReadInputTokens": 900,
                "cacheWriteInputTokens": 50,
            },
            Usage(1_000, 900, 50, output=5, source="bedrock"),
            id="Bedrock splits",
        ),
        pytest.param(
            {"inputTokens": 1_000, "outputTokens": 50, "cachedInputTokens": 800},
            Usage(1_000, 800, output=50, source="ai-sdk"),
            id="the AI SDK includes",
        ),
        pytest.param(
            {
                "prompt_tokens": 1_000,
                "completion_tokens": 5,
                "prompt_cache_hit_tokens": 900,
                "prompt_cache_miss_tokens": 100,
            },
            Usage(1_000, 900, output=5, source="openai-chat"),
            id="DeepSeek names its hits",
        ),
        pytest.param(
            {
                "prompt_tokens": 1_000,
                "completion_tokens": 5,
                "cache_read_input_tokens": 900,
                "cache_creation_input_tokens": 60,
                "prompt_tokens_details": {"cached_tokens": 900},
            },
            Usage(1_000, 900, 60, output=5, source="openai-chat"),
            id="a gateway mixes both and includes",
        ),
        pytest.param(
            {"prompt_tokens": 40, "completion_tokens": 5, "cache_read_input_tokens": 900},
            Usage(940, 900, output=5, source="openai-chat"),
            id="a gateway mixes both and splits: the sums say so",
        ),
        pytest.param(
            {
                "input_tokens": 350,
                "output_tokens": 24,
                "input_token_details": {"cache_read": 100, "cache_creation": 200},
            },
            Usage(350, 100, 200, output=24, source="langchain"),
            id="LangChain includes",
        ),
        pytest.param(
            {"input_tokens": 12, "output_tokens": 4},
            Usage(12, output=4, source="plain"),
            id="no word of a cache",
        ),
        pytest.param(
            {"prompt_eval_count": 26, "eval_count": 298},
            Usage(26, output=298, source="ollama"),
            id="Ollama",
        ),
    ],
)
def test_usage_is_read_per_provider(raw: dict[str, Any], expected: Usage) -> None:
    """All input tokens of the call, cached ones included, however the provider spells it."""
    assert read_usage(raw) == expected


def test_the_last_call_counts_not_the_session() -> None:
    """Codex reports both: the total over a session is no prompt's size."""
    last = {"input_tokens": 100, "cached_input_tokens": 80, "output_tokens": 10}
    total = {"input_tokens": 9_000, "cached_input_tokens": 8_000, "output_tokens": 900}
    found = read_usage({"total_token_usage": total, "last_token_usage": last})
    assert found == Usage(100, 80, output=10, source="codex")
    assert read_usage({"total_token_usage": total}) is None
    assert read_usage({"info": None, "total_token_usage": total, "input_tokens": 5}) is None


def test_sums_over_iterations_are_not_a_prompt() -> None:
    """Of a call that went round several times, the last round is what fills the window."""
    rounds = [
        {"input_tokens": 1_000, "output_tokens": 5, "cache_read_input_tokens": 0},
        {"input_tokens": 1_200, "output_tokens": 7, "cache_read_input_tokens": 300},
    ]
    summed = {"input_tokens": 2_200, "output_tokens": 12, "cache_read_input_tokens": 300}
    assert read_usage({**summed, "iterations": rounds}) == Usage(
        1_500, 300, output=7, source="anthropic"
    )
    assert read_usage({**summed, "iterations": []}) == Usage(
        2_500, 300, output=12, source="anthropic"
    )
    assert read_usage({**summed, "iterations": [None, "?"]}) is None


@pytest.mark.parametrize("wrapper", ["usage", "usageMetadata", "usage_metadata", "tokens"])
def test_usage_is_found_inside_a_response(wrapper: str) -> None:
    """A whole response may be given."""
    inner = {"input_tokens": 12, "output_tokens": 4}
    assert read_usage({"id": "x", wrapper: inner}) == Usage(12, output=4, source="plain")


BAD_COUNTS: tuple[object, ...] = (0, -1, math.nan, math.inf, "12", None, True, [], {}, 1.5)


@pytest.mark.parametrize("bad", BAD_COUNTS)
@pytest.mark.parametrize(
    "name", ["input_tokens", "prompt_tokens", "promptTokenCount", "input", "inputTokens"]
)
def test_what_is_no_count_is_unknown(name: str, bad: object) -> None:
    """Zero, negative, text, placeholders: unknown, which is not zero."""
    assert read_usage({name: bad, "output_tokens": 5}) is None


@pytest.mark.parametrize("bad", [-1, math.nan, "12", True, [], 1.5])
def test_a_bad_part_makes_the_sum_unknown(bad: object) -> None:
    """Without its cached part, a split input says nothing about the window."""
    raw = {"input_tokens": 10, "cache_read_input_tokens": bad, "output_tokens": 5}
    assert read_usage(raw) is None


@pytest.mark.parametrize("bad", [0, -1, "many", math.nan, None])
def test_an_unknown_output_leaves_the_prompt(bad: object) -> None:
    """The prompt's size is known all the same; the output is not zero."""
    assert read_usage({"input_tokens": 10, "output_tokens": bad}) == Usage(10, source="plain")


def test_synthetic_zeros_are_unknown() -> None:
    """Tools write zeros for messages that no model made."""
    raw = dict.fromkeys(
        ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
        0,
    )
    assert read_usage(raw) is None


def test_whole_floats_are_counts() -> None:
    """JSON from other languages writes 12.0."""
    assert read_usage({"input_tokens": 12.0, "output_tokens": 4.0}) == Usage(
        12, output=4, source="plain"
    )


def test_provider_settles_what_the_shape_leaves_open() -> None:
    """The same two numbers, with a hint."""
    found = read_usage({"input_tokens": 12, "output_tokens": 4}, provider="anthropic")
    assert found == Usage(12, output=4, source="anthropic")


def test_parts_add_up() -> None:
    """What is not cached is the rest."""
    assert Usage(100, 60, 30).plain_input == 10


@given(
    json_values() | st.dictionaries(st.sampled_from(("usage", "input", "tokens")), json_values())
)
def test_anything_may_stand_where_a_usage_should(raw: object) -> None:
    """No value makes it raise; what comes out is positive and consistent."""
    found = read_usage(raw)
    if found is not None:
        assert found.prompt > 0
        assert found.plain_input >= 0
        assert found.output is None or found.output > 0


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_split_and_whole_agree(fresh: int, read: int, write: int, output: int) -> None:
    """One call told in two spellings is one usage."""
    split = {
        "input_tokens": fresh,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
        "output_tokens": output,
    }
    whole = {
        "input_tokens": fresh + read + write,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": write},
        "output_tokens": output,
    }
    left, right = read_usage(split), read_usage(whole)
    if left is None or right is None:
        assert left is right
    else:
        assert (left.prompt, left.cached_read, left.cached_write, left.output) == (
            right.prompt,
            right.cached_read,
            right.cached_write,
            right.output,
        )


def test_several_reports_add_up_to_what_they_cost() -> None:
    """Numbers are summed at every depth; what is no number stays as the last one said it."""
    first = {"input_tokens": 10, "cache_creation": {"a": 1}, "service_tier": "standard"}
    second = {"input_tokens": 5, "cache_creation": {"a": 2, "b": 3}, "service_tier": "batch"}
    assert add_up([first, second]) == {
        "input_tokens": 15,
        "cache_creation": {"a": 3, "b": 3},
        "service_tier": "batch",
    }
    assert add_up([first]) == first
    assert add_up([]) is None
