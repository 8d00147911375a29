"""Whose request it is: by path, by headers, by the name of an upstream."""

from __future__ import annotations

import pytest

from holdfast.core.proxy.endpoints import find_endpoint
from holdfast.errors import BadSetting

NAMES = ("anthropic", "openai", "gemini", "groq")


@pytest.mark.parametrize(
    ("path", "headers", "upstream", "sent", "dialect", "is_turn"),
    [
        ("/v1/messages", {}, "anthropic", "/v1/messages", "anthropic", True),
        ("/messages/count_tokens", {}, "anthropic", "/messages/count_tokens", "anthropic", False),
        ("/v1/messages/batches", {}, "anthropic", "/v1/messages/batches", "anthropic", False),
        ("/v1/models", {"anthropic-version": "x"}, "anthropic", "/v1/models", "anthropic", False),
        ("/v1/models", {}, "openai", "/v1/models", "openai-chat", False),
        ("/v1/chat/completions", {}, "openai", "/v1/chat/completions", "openai-chat", True),
        ("/v1/responses", {}, "openai", "/v1/responses", "openai-responses", True),
        ("/v1/responses/r_1", {}, "openai", "/v1/responses/r_1", "openai-chat", False),
        ("/groq/v1/chat/completions", {}, "groq", "/v1/chat/completions", "openai-chat", True),
        ("/v1beta/models/m:x", {}, "gemini", "/v1beta/models/m:x", "gemini", False),
        ("/v1beta/models/m-1:generateContent", {}, "gemini",
         "/v1beta/models/m-1:generateContent", "gemini", True),
        ("/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent", {},
         "gemini", "/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent",
         "gemini", True),
        ("/v1beta/models/m:countTokens", {}, "gemini", "/v1beta/models/m:countTokens", "gemini",
         False),
        ("/v1beta/openai/chat/completions", {}, "gemini", "/v1beta/openai/chat/completions",
         "openai-chat", True),
        ("/x/unknown", {}, "openai", "/x/unknown", "openai-chat", False),
    ],
)  # fmt: skip
def test_a_path_leads_to_its_upstream(
    path: str, headers: dict[str, str], upstream: str, sent: str, dialect: str, is_turn: bool
) -> None:
    found = find_endpoint(path, headers, NAMES)
    assert (found.upstream, found.path, found.dialect) == (upstream, sent, dialect)
    assert found.is_turn is is_turn


def test_a_path_names_a_model() -> None:
    for path in (
        "/v1beta/models/gemini-2.5-pro:generateContent",
        "/groq/v1/tunedModels/x:streamGenerateContent",
    ):
        assert find_endpoint(path, {}, NAMES).model in ("gemini-2.5-pro", "x")


def test_a_path_names_a_session() -> None:
    found = find_endpoint("/holdfast/session/work/groq/v1/chat/completions", {}, NAMES)
    assert (found.session, found.upstream, found.path) == ("work", "groq", "/v1/chat/completions")
    with pytest.raises(BadSetting, match="has no address"):
        find_endpoint("/holdfast/other", {}, NAMES)
