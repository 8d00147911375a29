"""A log of LiteLLM has the replies, and calls that go on from each other are one conversation."""

from __future__ import annotations

from typing import Any

from tests.importers.samples import jsonl

from holdfast.core.log.records import Assistant, User, text_of
from holdfast.importers import detect, read


def call(messages: list[dict[str, Any]], reply: str | None) -> dict[str, Any]:
    choices = [] if reply is None else [{"message": {"role": "assistant", "content": reply}}]
    return {
        "call_type": "acompletion",
        "custom_llm_provider": "openai",
        "model": "gpt-5",
        "startTime": 1_770_000_000.0,
        "messages": messages,
        "response": {
            "choices": choices,
            "usage": {"prompt_tokens": 9, "completion_tokens": 2},
        },
    }


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}


def test_replies_are_carried_once() -> None:
    """The second call repeats the first; the third is another conversation; the last failed."""
    first = [said("system", "Be brief."), said("user", "Hi")]
    second = [*first, said("assistant", "Hello"), said("user", "And?")]
    other = [said("user", "Something else")]
    data = jsonl(
        call(first, "Hello"), call(second, "That is all."), call(other, "Yes"), call(other, None)
    )
    assert detect(data, "calls.jsonl") == "litellm"
    talk, *rest = read(data, "calls.jsonl")
    spoken = [record for record in talk.records if isinstance(record, User | Assistant)]
    assert [(record.kind, text_of(record.content)) for record in spoken] == [
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("user", "And?"),
        ("assistant", "That is all."),
    ]
    assert talk.system == "Be brief."
    replies = [record for record in talk.records if isinstance(record, Assistant)]
    assert all(reply.usage and reply.model == "gpt-5" for reply in replies)
    assert len(rest) == 2
    assert [one.what for one in rest[1].skipped] == ["call without a reply"]
