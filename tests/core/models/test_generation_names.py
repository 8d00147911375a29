"""A model's name taken apart: dates, windows and revisions are no version."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import check_all

from holdfast.core.models.generation import NEWEST, ModelName, read_model_name

CASES = {
    "claude-opus-5-5": ("anthropic", "opus", (5, 5)),
    "claude-opus-5.5": ("anthropic", "opus", (5, 5)),
    "claude-5-5-opus": ("anthropic", "opus", (5, 5)),
    "claude-opus-5-5@20260922": ("anthropic", "opus", (5, 5)),
    "claude-sonnet-4-20250514": ("anthropic", "sonnet", (4, 0)),
    "claude-opus-5-2026-07-24": ("anthropic", "opus", (5, 0)),
    "claude-3-5-sonnet-20241022": ("anthropic", "sonnet", (3, 5)),
    "claude-sonnet-4-5[1m]": ("anthropic", "sonnet", (4, 5)),
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0": ("anthropic", "sonnet", (4, 5)),
    "anthropic.claude-v2:1": ("anthropic", "", (2, 1)),
    "anthropic/claude-fable-5-2": ("anthropic", "fable", (5, 2)),
    "claude-opus-latest": ("anthropic", "opus", None),
    "claude-opus-6": ("anthropic", "opus", (6, 0)),
    "gpt-5": ("openai", "", (5, 0)),
    "gpt-5-2025-08-07": ("openai", "", (5, 0)),
    "gpt-5-6-terra": ("openai", "terra", (5, 6)),
    "gpt-6.1-terra-2026-10-26": ("openai", "terra", (6, 1)),
    "gpt-4-0613": ("openai", "", (4, 0)),
    "gpt-4-32k": ("openai", "", (4, 0)),
    "gpt-4o-mini-2024-07-18": ("openai", "4o", (4, 0)),
    "chatgpt-4o-latest": ("openai", "4o", (4, 0)),
    "o4-mini": ("openai", "o", (4, 0)),
    "gpt-7": ("openai", "", (7, 0)),
    "gpt-oss-120b": ("openai-oss", "", None),
    "GEMINI-2.5-PRO": ("google", "pro", (2, 5)),
    "gemini-2.5-flash-preview-05-20": ("google", "flash", (2, 5)),
    "gemini-4-argon": ("google", "argon", (4, 0)),
    "deepseek-v4-pro": ("deepseek", "pro", (4, 0)),
    "deepseek-r1-0528": ("deepseek", "", (1, 0)),
    "kimi-k2.7-code": ("moonshot", "code", (2, 7)),
    "grok-4.20": ("xai", "", (4, 20)),
    "mistral-large-2512": ("mistral", "large", None),
    "my-own-model": ("", "my-own-model", None),
    "offline": ("", "offline", None),
    "": ("", "", None),
}


def test_names_are_taken_apart() -> None:
    def check(model: str) -> None:
        name = read_model_name(model)
        assert (name.maker, name.line, name.version) == CASES[model]

    check_all(CASES, check)


def test_different_models_have_different_names() -> None:
    """The o-series and GPT-4o share a letter and a number; a second word tells two lines apart."""
    assert read_model_name("o4-mini") != read_model_name("gpt-4o-mini")
    assert read_model_name("gpt-6-sol-pro") != read_model_name("gpt-6-sol")
    assert read_model_name("claude-fable-5") != read_model_name("claude-fable-5-1")


@pytest.mark.parametrize("suffix", ["-20261109", "-2026-11-09", "@20261109", "[1m]", "-v1:0"])
def test_what_is_no_version_changes_nothing(suffix: str) -> None:
    for model in ("claude-fable-5-2", "claude-opus-5", "gpt-6.2-astra", "gpt-6-sol"):
        assert read_model_name(model + suffix) == read_model_name(model), model


def test_a_name_without_a_version_counts_as_the_newest() -> None:
    assert read_model_name("claude-opus-latest").numbers == NEWEST
    assert read_model_name("claude-opus-4-8").numbers < NEWEST


@given(st.text(max_size=60) | st.from_regex(r"[a-z0-9@:.\-/]{0,60}", fullmatch=True))
def test_any_text_is_a_name(text: str) -> None:
    assert isinstance(read_model_name(text), ModelName)
