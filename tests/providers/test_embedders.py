"""Embedders by name, by function, or as they are."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.config import EMBEDDER_DEFAULT, Settings
from holdfast.engine.memory.search import Memory
from holdfast.errors import BadSetting
from holdfast.integrations.claude_agent.store_hooks import RecallHook
from holdfast.integrations.google_adk.memory_service import MemoryServiceMethods
from holdfast.integrations.langgraph.store import BaseStoreMethods
from holdfast.providers.embedders import CallableEmbedder, OpenAIEmbedder, as_embedder, embedder
from holdfast.surfaces.serve_settings import MemoryTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def count_letters(texts: Sequence[str]) -> list[list[float]]:
    return [[float(text.count("a")), float(text.count("b"))] for text in texts]


def test_a_name_makes_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.config.provider_key", lambda name: f"key of {name}")
    assert embedder("off") is None
    found = embedder("openai:text-embedding-3-small", dimensions=256)
    assert isinstance(found, OpenAIEmbedder)
    assert found._key == "key of OPENAI_API_KEY"
    assert found.name == "openai:text-embedding-3-small@api.openai.com/v1/256"
    own = embedder("openai:nomic@http://user:word@127.0.0.1:8080/v1/")
    assert own is not None
    assert own.name == "openai:nomic@127.0.0.1:8080/v1"


@pytest.mark.parametrize(
    "door", [Memory.open, Memory, MemoryServiceMethods, BaseStoreMethods, RecallHook]
)
def test_vectors_are_made_where_they_are_asked_for_alone(door: Callable[..., object]) -> None:
    """Whatever is installed."""
    default = inspect.signature(door).parameters["embedder"].default
    for name in (default, EMBEDDER_DEFAULT, Settings().embedder, MemoryTable().embedder):
        assert as_embedder(name) is None


def test_a_server_of_ones_own_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.config.provider_key", lambda _name: "")
    assert embedder("openai:nomic@http://127.0.0.1:8080/v1") is not None
    with pytest.raises(BadSetting, match="no key"):
        embedder("openai:text-embedding-3-small")


@pytest.mark.parametrize(
    "name", ["", "auto", "minilm", "fastembed:", "openai", "openai:", "anthropic:x", "http://host"]
)
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(BadSetting):
        embedder(name)


def test_a_function_has_the_name_of_its_own() -> None:
    """And one that has none is refused: its vectors could be taken for another's."""
    found = as_embedder(count_letters)
    assert isinstance(found, CallableEmbedder)
    assert found.name == "tests.providers.test_embedders.count_letters"
    assert as_embedder(found) is found
    assert as_embedder(None) is None
    refused: list[Any] = [lambda texts: [[1.0]] * len(texts), partial(count_letters), 7, object()]
    for one in refused:
        with pytest.raises(BadSetting):
            as_embedder(one)
