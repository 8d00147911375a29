"""Every host that takes the cache's key gets it, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from holdfast.core.dialects.registry import VARIANTS, render_body, target
from holdfast.core.models.generation import traits_of
from holdfast.core.models.messages import Message, Prompt, Text

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

ASKED = Prompt((Message("user", (Text("Well?"),)),), "Be brief.", (), 500)
KEY = "0123456789abcdef"

PATHS = [f"{name}:{variant}" for name, known in VARIANTS.items() for variant in known]
MODELS = {
    "claude-opus-5-5": "anthropic",
    "gpt-4o": "openai",
    "gpt-5.5": "openai",
    "gpt-6-sol": "openai",
    "gemini-3-pro": "gemini",
    "deepseek-v4": "deepseek",
    "grok-4.7": "xai",
    "kimi-k3": "moonshot",
    "mistral-large": "mistral",
}
"""Each with its maker's own host."""
HOSTS = [*sorted(set(MODELS.values())), "azure", "bedrock", "vertex", "api.x.ai", "localhost:8080"]
TAKEN = {
    *(
        (model, host)
        for model in ("gpt-4o", "gpt-5.5", "gpt-6-sol")
        for host in ("openai", "azure")
    ),
    *(("grok-4.7", host) for host in ("xai", "api.x.ai")),
}
"""The pairs of model and host whose pages name `prompt_cache_key`."""


def rendered(name: str, model: str, host: str, key: str = KEY, **settings: Any) -> Json:
    whom = target(name, provider=host, model=model, **settings)
    return render_body(ASKED, msgspec.structs.replace(whom, cache_key=key))


@pytest.mark.parametrize("name", PATHS)
def test_the_key_goes_to_each_host_that_takes_it(name: str) -> None:
    pairs = [(model, host) for model in MODELS for host in HOSTS]
    found = {pair for pair in pairs if rendered(name, *pair).get("prompt_cache_key") == KEY}
    assert found == (TAKEN if name.startswith("openai") else set())
    assert found == {pair for pair in pairs if KEY in str(rendered(name, *pair))}
    assert not [pair for pair in pairs if "prompt_cache_key" in rendered(name, *pair, key="")]


@pytest.mark.parametrize("cache", ["auto", "none", "5m", "1h"])
@pytest.mark.parametrize("name", ["openai-chat", "openai-responses"])
def test_a_host_with_an_automatic_cache_is_asked_for_no_lifetime(name: str, cache: str) -> None:
    body = rendered(name, "grok-4.7", "xai", cache=cache)
    assert [field for field in body if "cache" in field] == ["prompt_cache_key"]


@pytest.mark.parametrize("cache", ["auto", "30m", "none"])
@pytest.mark.parametrize("name", ["openai-chat", "openai-responses"])
def test_no_item_is_marked_where_the_host_marks_the_newest(name: str, cache: str) -> None:
    """Tool results and instructions can carry no mark, so the host's own ones are used; with no
    cache, the mode that writes only what is marked writes nothing."""
    body = rendered(name, "gpt-6-sol", "openai", cache=cache)
    wanted = {"mode": "explicit"} if cache == "none" else {"ttl": "30m"}
    assert body["prompt_cache_options"] == wanted
    assert "prompt_cache_breakpoint" not in str(body)


def test_a_header_is_named_only_where_the_key_is_taken() -> None:
    named = {
        (model, host): traits_of(host, model).cache_key_header
        for model in MODELS
        for host in HOSTS
        if traits_of(host, model).cache_key_header
    }
    assert named == dict.fromkeys((("grok-4.7", "xai"), ("grok-4.7", "api.x.ai")), "x-grok-conv-id")
