"""Amp's results name their call in Amp's own words; its usage is Anthropic's."""

from __future__ import annotations

import json

from holdfast.core.log.records import Assistant, ToolResult, tool_calls
from holdfast.core.models.usage import read_usage
from holdfast.importers import detect_format, read_transcript


def test_a_thread_keeps_its_results_and_its_usage() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a"}}
    done = {"type": "tool_result", "toolUseID": "t1", "run": {"status": "done", "result": {"a": 1}}}
    failed = {
        "type": "tool_result",
        "toolUseID": "t1",
        "run": {"status": "error", "error": {"message": "gone"}},
    }
    usage = {"model": "claude-sonnet-4-5", "inputTokens": 7, "cacheReadInputTokens": 5}
    thread = {
        "v": 9,
        "id": "T-7",
        "title": "Read it",
        "env": {"initial": {"trees": []}},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Read a."}]},
            {"role": "assistant", "content": [call], "usage": {**usage, "outputTokens": 3}},
            {"role": "user", "content": [done]},
            {"role": "user", "content": [failed, {"type": "text", "text": "And now?"}]},
        ],
    }
    data = json.dumps(thread).encode()
    assert detect_format(data, "T-7.json") == "amp"
    (found,) = read_transcript(data, "T-7.json")
    _said, asked, first, second, more = found.records
    assert isinstance(asked, Assistant)
    assert [block["name"] for block in tool_calls(asked.content)] == ["Read"]
    counted = read_usage(asked.usage, "anthropic")
    assert counted is not None
    assert (counted.prompt, counted.cached_read, counted.output) == (12, 5, 3)
    assert isinstance(first, ToolResult)
    assert (first.tool_use_id, first.content, first.is_error) == ("t1", '{"a":1}', False)
    assert isinstance(second, ToolResult)
    assert second.is_error
    assert more.kind == "user"
    assert [(one.what, one.count) for one in found.skipped] == [("field `env`", 1)]


def test_what_stands_beside_the_content_is_counted() -> None:
    """Files that the user named, messages that are none; the reason of a refusal is its words."""
    asked = {
        "role": "user",
        "content": [{"type": "text", "text": "Hi"}],
        "fileMentions": {"files": [{"uri": "file:///a", "content": "words"}]},
    }
    call = {"type": "tool_use", "id": "u1", "name": "Bash", "input": {}}
    run = {"status": "rejected-by-user", "reason": "use git"}
    refused = {"type": "tool_result", "toolUseID": "u1", "run": run}
    messages = [
        asked,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [refused]},
        "no message",
    ]
    data = json.dumps({"v": 1, "id": "T-1", "messages": messages}).encode()
    assert detect_format(data, "T-1.json") == "amp"
    (found,) = read_transcript(data, "T-1.json")
    (result,) = [record for record in found.records if isinstance(record, ToolResult)]
    assert (result.content, result.refused, result.is_error) == ("use git", "use git", True)
    assert {(one.what, one.count) for one in found.skipped} == {
        ("field `fileMentions`", 1),
        ("item that is not a message", 1),
    }
