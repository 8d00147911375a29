"""The ids that clients send, as real ones were seen to."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.proxy.identity import find_client_id, session_name, stable_system

UUID = "0b9f3a52-8f1e-4c1e-9d54-2f6f3c1d2e10"


@pytest.mark.parametrize(
    ("headers", "body", "name"),
    [
        ({"x-holdfast-session": "work", "session-id": "s"}, {}, "work"),
        ({"x-claude-code-session-id": UUID}, {}, f"proxy-{UUID}"),
        (
            {"x-claude-code-session-id": UUID, "x-claude-code-agent-id": "a1"},
            {},
            f"proxy-{UUID}-agent-a1",
        ),
        ({"session-id": "s", "thread-id": "t"}, {"prompt_cache_key": "k"}, "proxy-t"),
        ({"x-session-id": "ses_1"}, {}, "proxy-ses_1"),
        ({}, {"metadata": {"user_id": f'{{"session_id":"{UUID}"}}'}}, f"proxy-{UUID}"),
        ({}, {"metadata": {"user_id": f"user_1_account__session_{UUID}"}}, f"proxy-{UUID}"),
    ],
)
def test_a_client_names_its_session(headers: dict[str, str], body: Any, name: str) -> None:
    assert session_name(find_client_id(headers, body), "") == name


@pytest.mark.parametrize(
    "body",
    [
        {"prompt_cache_key": "my-app-v1"},
        {"metadata": {"user_id": "user-7"}},
        {"metadata": {"user_id": "{broken"}},
        {"metadata": "odd"},
        {},
    ],
)
def test_what_conversations_share_names_no_session(body: Any) -> None:
    assert find_client_id({}, body).session == ""


def test_the_line_that_changes_is_no_part_of_a_system_prompt() -> None:
    first = "x-anthropic-billing-header: cc_version=2.1.197.abc\nYou are an agent."
    second = "x-anthropic-billing-header: cc_version=2.1.197.def\nYou are an agent."
    assert stable_system(first) == stable_system(second) == "You are an agent."
