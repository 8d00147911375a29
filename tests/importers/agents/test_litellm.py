"""A log of LiteLLM has the replies, and calls that go on from each other are one conversation."""

from __future__ import annotations

import json
from typing import Any

from tests.importers.samples import jsonl

from holdfast.core.log.records import Assistant, User, text_of
from holdfast.importers import detect_format, read_transcript


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
    assert detect_format(data, "calls.jsonl") == "litellm"
    talk, *rest = read_transcript(data, "calls.jsonl")
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


def test_nothing_of_a_log_is_lost_without_a_word() -> None:
    """Lines without messages, other shapes of messages and replies, and further choices."""
    talk = call([said("user", "Hi")], "Hello")
    talk["response"]["choices"].append({"message": said("assistant", "Good day")})
    packed = {**call([], "Packed reply"), "messages": json.dumps([said("user", "Packed")])}
    claude = call([said("user", "Claude?")], None)
    claude["response"] = {**said("assistant", "It is me"), "type": "message"}
    items = call([said("user", "Items?")], None)
    items["response"] = {"output": [{"type": "message"}]}
    odd: list[Any] = [said("user", "Odd"), "a text"]
    failed = {**call([], None), "messages": None}
    sessions = read_transcript(
        jsonl(talk, failed, packed, claude, items, call(odd, "Yes")), "calls.jsonl"
    )
    replies = [r for one in sessions for r in one.records if isinstance(r, Assistant)]
    spoken = [text_of(reply.content) for reply in replies]
    assert spoken == ["Hello", "Packed reply", "It is me", "Yes"]
    skipped = {(one.what, one.count) for session in sessions for one in session.skipped}
    assert skipped == {
        ("line without messages", 1),
        ("item that is not a message", 1),
        ("choice of a reply", 1),
        ("call without a reply", 1),
    }
    (told,) = [one.why for one in sessions[3].skipped]
    assert "`output`" in told
