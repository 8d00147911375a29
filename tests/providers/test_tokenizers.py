"""The counter for a model: exact where its vocabulary is known, and never in the way."""

from __future__ import annotations

import base64
import random
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import texts

from holdfast.core.text.cut import scrub
from holdfast.core.tokens.counting import Estimator, tokens_max
from holdfast.providers import tokenizers
from holdfast.providers.tokenizers import (
    BASE_VOCABULARY,
    SLICE_CHARS,
    Vocabulary,
    counter_for,
    slices,
    vocabulary_for,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

needs_splintr = pytest.mark.skipif(
    find_spec("splintr") is None,
    reason="exact counting needs splintr-rs (`pip install 'holdfast[tokens]'`)",
)


class Words:
    """A tokenizer that makes one token of each word, and says how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode_ordinary(self, text: str) -> list[int]:
        text.encode()  # as the real one: lone surrogates are refused
        self.asked.append(text)
        return list(range(len(text.split())))


@pytest.mark.parametrize(
    ("model", "vocabulary"),
    [
        ("gpt-5", "o200k_base"),
        ("gpt-5.2-codex", "o200k_base"),
        ("gpt-4o-mini-2024-07-18", "o200k_base"),
        ("openai/gpt-4.1", "o200k_base"),
        ("o3", "o200k_base"),
        ("azure/o4-mini", "o200k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("gpt-oss-120b", "gpt-oss"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3"),
        ("Qwen/Qwen3-Coder-480B", "qwen3"),
        ("deepseek-chat", "deepseek_v3"),
        ("mistral-large-latest", "mistral_v3"),
        ("gemma-3-27b-it", "gemma3"),
        ("kimi-k2-instruct", "kimi_k2"),
        ("glm-4.6", "glm4"),
        ("claude-opus-4-6", None),
        ("gemini-3-pro", None),
        ("qwen3.5-max", None),
        ("llama-4-scout", None),
        ("foo1", None),
        ("", None),
        (None, None),
    ],
)
def test_vocabularies_by_model(model: str | None, vocabulary: str | None) -> None:
    """Known families by their names; nothing is claimed for the others."""
    assert vocabulary_for(model) == vocabulary


@needs_splintr
def test_exact_where_the_vocabulary_is_the_model_s_own() -> None:
    """Claude's is not public: the base counts for it and says that it is not exact."""
    assert counter_for("gpt-5").is_exact
    assert not counter_for("claude-opus-4-6").is_exact
    assert counter_for("claude-opus-4-6").name == BASE_VOCABULARY
    assert not counter_for(None).is_exact


@needs_splintr
@pytest.mark.parametrize(
    "model",
    ["gpt-5", "gpt-4", "gpt-oss-20b", "llama-3", "qwen3", "deepseek-chat", "kimi-k2", "glm-4"],
)
def test_every_named_vocabulary_is_there(model: str) -> None:
    """A name in the table that the package does not know would count with another vocabulary."""
    counter = counter_for(model)
    assert counter.is_exact
    assert counter.name == vocabulary_for(model)
    assert counter.count("hello world") in range(2, 4)


@needs_splintr
def test_known_counts() -> None:
    """o200k, as its makers' own tool counts."""
    counter = counter_for("gpt-4o")
    assert counter.count("") == 0
    assert counter.count("hello world") == 2
    assert counter.count("The quick brown fox jumps over the lazy dog.") == 10
    assert counter.count("<|endoftext|>") > 1, "special tokens in a text are plain text"


@pytest.fixture
def without_splintr(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    tokenizers._vocabulary.cache_clear()
    monkeypatch.setattr(tokenizers, "_splintr", lambda: None)
    yield
    tokenizers._vocabulary.cache_clear()


@pytest.mark.usefixtures("without_splintr")
def test_without_the_package_the_estimate_stands_in() -> None:
    """Nothing fails, nothing is fetched, and nothing claims to be exact."""
    for model in ("gpt-5", "claude-opus-4-6", None):
        assert isinstance(counter_for(model), Estimator)


def test_an_older_package_without_a_vocabulary_is_not_called_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The base counts instead, and says so."""

    class Older:
        class Tokenizer:
            @staticmethod
            def from_pretrained(name: str) -> Words:
                if name != BASE_VOCABULARY:
                    raise ValueError(f"Unknown pretrained model: {name}")
                return Words()

    tokenizers._vocabulary.cache_clear()
    monkeypatch.setattr(tokenizers, "_splintr", lambda: Older)
    try:
        counter = counter_for("kimi-k2")
        assert (counter.name, counter.is_exact) == (BASE_VOCABULARY, False)
        assert counter.count("two words") == 2
    finally:
        tokenizers._vocabulary.cache_clear()


@needs_splintr
@given(texts())
def test_any_text_can_be_counted(text: str) -> None:
    """Lone surrogates and all; 0 only for nothing; never more tokens than bytes."""
    tokens = counter_for("gpt-5").count(text)
    assert (tokens == 0) == (text == "")
    assert tokens <= tokens_max(scrub(text))


def test_a_text_is_counted_once() -> None:
    """Short texts are remembered by themselves, long ones by their digest."""
    tokenizer = Words()
    counter = Vocabulary("words", tokenizer)
    long = "word " * 1_000
    assert [counter.count("a b"), counter.count(long)] == [2, 1_000]
    assert [counter.count("a b"), counter.count("word " * 1_000)] == [2, 1_000]
    assert tokenizer.asked == ["a b", long]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was counted long ago is forgotten; what is asked for again and again is not."""
    monkeypatch.setattr(tokenizers, "MEMO_ENTRIES", 10)
    tokenizer = Words()
    counter = Vocabulary("words", tokenizer)
    for number in range(200):
        assert counter.count(f"text {number}") == 2
        assert counter.count("kept") == 1
    assert tokenizer.asked.count("kept") == 1
    asked = len(tokenizer.asked)
    counter.count("text 0")
    assert len(tokenizer.asked) == asked + 1
    assert len(counter._young) + len(counter._old) <= 20


def test_long_texts_are_counted_in_slices() -> None:
    """No call to the tokenizer holds the interpreter for long."""
    tokenizer = Words()
    text = "some words\n" * 40_000
    assert Vocabulary("words", tokenizer).count(text) == 80_000
    assert len(tokenizer.asked) >= 4
    assert max(map(len, tokenizer.asked)) <= SLICE_CHARS


@given(
    st.sampled_from(["a", "word ", "line\n", "  \n", "字", "x/\n/", "\r\n", "😀"]),
    st.integers(0, 3 * SLICE_CHARS),
)
def test_slices_are_the_text(unit: str, length: int) -> None:
    """Nothing lost, nothing twice, nothing too long, nothing empty in between."""
    text = (unit * (length // len(unit) + 1))[:length]
    parts = list(slices(text))
    assert "".join(parts) == text
    assert all(len(part) <= SLICE_CHARS for part in parts)
    assert all(parts[:-1])


@needs_splintr
def test_slices_count_like_the_whole() -> None:
    """Cut where no token crosses: lines and words add up to the token."""
    splintr = pytest.importorskip("splintr")
    whole = splintr.Tokenizer.from_pretrained("o200k_base").encode_ordinary
    dice = random.Random(5)
    words = ["foo", "Bar", "it's", "x=1;", "//", "-", "9999", "{", "}", "é", "字", "\t"]
    for separators in ([" ", "\n", "\n\n", "  "], [" "]):
        text = "".join(dice.choice(words) + dice.choice(separators) for _ in range(200_000))
        assert len(text) > 3 * SLICE_CHARS
        assert counter_for("gpt-5").count(text) == len(whole(text))


@needs_splintr
@pytest.mark.parametrize(
    "text",
    ["a" * 1_000_000, " " * 1_000_000, base64.b64encode(bytes(range(256)) * 3_000).decode()],
    ids=["one letter", "spaces", "base64"],
)
def test_a_megabyte_without_a_break_is_counted(text: str) -> None:
    """Nowhere to cut safely: still sliced, and within a token or two per slice of the whole."""
    splintr = pytest.importorskip("splintr")
    whole = len(splintr.Tokenizer.from_pretrained("o200k_base").encode_ordinary(text))
    assert counter_for("gpt-5").count(text) == pytest.approx(whole, abs=2 * len(text) / SLICE_CHARS)
