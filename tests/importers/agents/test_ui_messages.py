"""UI messages hold calls with their results, in the shapes of versions 4 and 5 of the SDK."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.log.records import Assistant, ToolResult, text_of, tool_calls
from holdfast.importers import detect_format, read_transcript

FIVE = [
    {"type": "step-start"},
    {"type": "reasoning", "text": "hm"},
    {
        "type": "tool-weather",
        "toolCallId": "c1",
        "state": "output-available",
        "input": {"city": "Bonn"},
        "output": {"degrees": 7},
    },
    {
        "type": "dynamic-tool",
        "toolName": "lookup",
        "toolCallId": "c2",
        "state": "output-error",
        "input": {},
        "errorText": "gone",
    },
    {"type": "source-url", "url": "https://x"},
    {"type": "step-start"},
    {"type": "text", "text": "Seven degrees."},
]
FOUR: list[dict[str, Any]] = [
    {
        "type": "tool-invocation",
        "toolInvocation": {
            "state": "result",
            "toolCallId": "c1",
            "toolName": "weather",
            "args": {"city": "Bonn"},
            "result": {"degrees": 7},
        },
    },
    {"type": "text", "text": "Seven degrees."},
]


@pytest.mark.parametrize("parts", [FIVE, FOUR], ids=["v5", "v4"])
def test_every_step_is_a_message_with_its_results(parts: list[dict[str, Any]]) -> None:
    asked = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Weather?"}]}
    data = json.dumps([asked, {"id": "m2", "role": "assistant", "parts": parts}]).encode()
    assert detect_format(data, "chat.json") == "vercel-ui"
    (found,) = read_transcript(data, "chat.json")
    replies = [record for record in found.records if isinstance(record, Assistant)]
    results = [record for record in found.records if isinstance(record, ToolResult)]
    assert len(replies) == 2
    names = [call["name"] for call in tool_calls(replies[0].content)]
    assert names == ["weather", "lookup"][: len(results)]
    assert results[0].content == '{"degrees":7}'
    assert [result.is_error for result in results] == [False, True][: len(results)]
    assert text_of(replies[1].content) == "Seven degrees."
    assert found.records.index(results[0]) < found.records.index(replies[1])
    if parts is FIVE:
        assert [(one.what, one.count) for one in found.skipped] == [("part `source-url`", 1)]


def test_what_stands_beside_the_parts_is_read_or_counted() -> None:
    """Version 4 has attachments, reasoning and calls beside the parts, and users without any."""
    call = FOUR[0]["toolInvocation"]
    picture = {"contentType": "image/png", "url": "https://x/a.png"}
    chat = {
        "id": "c",
        "messages": [
            {"role": "user", "content": "Look", "experimental_attachments": [picture]},
            {"role": "assistant", "content": "Well", "reasoning": "hm", "toolInvocations": [call]},
            {"role": "data", "content": "for the screen"},
            {"role": "user", "parts": ["bare"], "annotations": [{"a": 1}]},
            {"role": "assistant", "parts": FOUR, "toolInvocations": [call]},
            "no message",
        ],
    }
    data = json.dumps([chat, {"id": "d", "history": [{"role": "user"}]}]).encode()
    assert detect_format(data, "chat.json") == "vercel-ui"
    (found,) = read_transcript(data, "chat.json")
    kept = json.dumps([getattr(record, "content", "") for record in found.records])
    assert all(text in kept for text in ("https://x/a.png", "hm", "Well", "bare"))
    assert kept.count("tool_use") == 2
    assert {(one.what, one.count) for one in found.skipped} == {
        ("message with the role 'data'", 1),
        ("field `annotations`", 1),
        ("item that is not a message", 1),
        ("item without messages", 1),
    }
