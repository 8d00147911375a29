"""Models by name: what each name means, and what is said about those that mean nothing."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.window import Window
from holdfast.errors import BadSetting
from holdfast.providers.models import NAMES, Name, async_model, model, read_name

NO_SDK: Any = type(
    "Client",
    (),
    {
        "messages": type("Messages", (), {"create": print}),
        "chat": type("Chat", (), {"completions": type("Completions", (), {"create": print})}),
        "responses": type("Responses", (), {"create": print}),
        "models": type("Models", (), {"generate_content": print}),
    },
)
"""Has the methods of every SDK; nothing is sent through it."""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("offline", Name("offline")),
        ("local", Name("local", "smollm2")),
        ("local:/tmp/a:b.gguf", Name("local", "/tmp/a:b.gguf")),
        ("anthropic:claude-opus-4-5", Name("anthropic", "claude-opus-4-5")),
        (
            "openai:qwen3:8b@http://localhost:11434/v1",
            Name("openai", "qwen3:8b", "http://localhost:11434/v1"),
        ),
        ("openai-chat:a@b", Name("openai-chat", "a@b")),
    ],
)
def test_names_are_taken_apart(text: str, name: Name) -> None:
    """Colons and at signs inside a model's own name are part of it."""
    assert read_name(text) == name


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("antropic:claude-opus-4-5", "`anthropic:claude-opus-4-5`"),
        ("claude-opus-4-5", "`anthropic:claude-opus-4-5`"),
        ("gpt-4o", "`openai:gpt-4o`"),
        ("ofline", "`offline`"),
        ("gemini-3-pro", "`gemini:gemini-3-pro`"),
        ("nonsense", "models: offline"),
        ("openai:", "names no model"),
        ("anthropic", "names no model"),
    ],
)
def test_unknown_names_get_the_nearest(text: str, hint: str) -> None:
    """What is no model is refused with what it may have been, and with all there is."""
    with pytest.raises(BadSetting) as caught:
        model(text)
    assert hint in f"{caught.value} {caught.value.hint}"


def test_every_listed_name_is_understood() -> None:
    """What an error lists can be typed."""
    assert {read_name(name).kind for name in NAMES} == {
        "offline",
        "local",
        "cli",
        "anthropic",
        "gemini",
        "openai",
        "openai-chat",
        "openai-responses",
    }


@pytest.mark.parametrize(
    ("text", "dialect", "provider"),
    [
        ("anthropic:claude-opus-4-5", "anthropic", "anthropic"),
        ("anthropic:claude-opus-4-5@http://proxy:1", "anthropic", "anthropic"),
        ("openai:gpt-4o", "openai-chat", "openai"),
        ("openai:gpt-5", "openai-responses", "openai"),
        ("openai:gpt-6-sol", "openai-responses", "openai"),
        ("openai:gpt-6.1-terra", "openai-responses", "openai"),
        ("openai:gpt-7", "openai-responses", "openai"),
        ("openai-chat:gpt-5", "openai-chat", "openai"),
        ("openai-responses:gpt-4o", "openai-responses", "openai"),
        ("openai:gpt-5@http://host:8000/v1", "openai-chat", "host:8000"),
        ("openai:gpt-5@https://api.openai.com/v1", "openai-chat", "openai"),
        ("openai:deepseek-chat@https://deep.example", "openai-chat:deepseek", "deep.example"),
        ("openai:kimi-k2@https://user:pw@kimi.example/v1", "openai-chat:kimi", "kimi.example"),
        ("openai:qwen3@http://127.0.0.1:1/v1", "openai-chat:local", "127.0.0.1:1"),
        ("openai:whatever@http://127.0.0.1:1/v1", "openai-chat:local", "127.0.0.1:1"),
        ("openai:claude-opus-4-5@http://proxy/v1", "openai-chat:local", "proxy"),
        ("openai:whatever", "openai-chat", "openai"),
        ("gemini:gemini-3-pro", "gemini", "google"),
        ("gemini:gemini-3-pro@http://proxy:1", "gemini", "google"),
    ],
)  # fmt: skip
def test_names_decide_the_dialect(text: str, dialect: str, provider: str) -> None:
    """The family and the server decide how a model is spoken to, and what the log calls it."""
    target = model(text, client=NO_SDK).target

    assert (target.dialect.full_name, target.provider) == (dialect, provider)


def test_settings_reach_the_target() -> None:
    """What the caller states is what is used."""
    made = model(
        "anthropic:claude-opus-4-5",
        client=NO_SDK,
        window=50_000,
        cache="1h",
        thinking=4_000,
        output_max=9_000,
        provider="proxy",
        variant="bedrock",
    )

    assert made.window == Window(50_000)
    target = made.target
    assert (target.cache, target.thinking, target.thinking_tokens) == ("1h", True, 4_000)
    assert (target.output_max, target.provider, target.variant) == (9_000, "proxy", "bedrock")


def test_windows_are_known_or_said_to_be_assumed() -> None:
    """Without a window, what is known of the model is used; else an assumption that says so."""
    assert model("anthropic:claude-opus-4-5", client=NO_SDK).window.confidence == "known"
    unknown = async_model("openai:whatever@http://127.0.0.1:1/v1", client=NO_SDK).window
    assert unknown.confidence == "assumed"
