"""Message lists of the four dialects: what they say beyond a plain conversation."""

from __future__ import annotations

from typing import Any

from tests.importers.samples import document, jsonl, only, shape, skipped

from holdfast.core.log.records import Assistant, ToolResult, User
from holdfast.importers import read_transcript

PNG = "data:image/png;base64,iVBO"
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}


def test_chat_system_prompt_and_tools_are_no_records() -> None:
    """They belong to a request; who counts it gets them beside the records."""
    function = {"name": "ls", "description": "List", "parameters": {"type": "object"}}
    found = only(
        document(
            {
                "model": "gpt-test",
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
                    {"role": "user", "content": "Hi"},
                    {"role": "system", "content": "It is late."},
                    {"role": "assistant", "content": "Good night."},
                ],
                "tools": [{"type": "function", "function": function}],
            }
        )
    )

    assert found.system == "Be brief.\n\nBe kind."
    assert found.tools == [function]
    assert shape(found.records) == [
        ("user", "Hi"),
        ("user", "It is late."),
        ("assistant", "Good night."),
    ]
    assert found.records[1].extra == {"role": "system", "meta": True}
    assert isinstance(found.records[2], Assistant)
    assert (found.records[2].model, found.records[2].content) == ("gpt-test", "Good night.")


def test_chat_pictures_names_and_thoughts_are_carried() -> None:
    """A data URI becomes a picture, and reasoning a thought, as our log keeps them."""
    found = only(
        document(
            [
                {
                    "role": "user",
                    "name": "Ann",
                    "content": [
                        {"type": "text", "text": "What is it?"},
                        {"type": "image_url", "image_url": {"url": PNG}},
                        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                    ],
                },
                {
                    "role": "assistant",
                    "content": "A cat.",
                    "reasoning_content": "It has whiskers.",
                    "usage": {"prompt_tokens": 9},
                    "finish_reason": "stop",
                },
            ]
        )
    )

    user, reply = found.records
    assert isinstance(user, User)
    assert isinstance(user.content, list)
    assert user.name == "Ann"
    assert user.content[1:] == [
        IMAGE,
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
    ]
    assert isinstance(reply, Assistant)
    assert reply.content == [
        {"type": "thinking", "thinking": "It has whiskers."},
        {"type": "text", "text": "A cat."},
    ]
    assert (reply.usage, reply.stop_reason) == ({"prompt_tokens": 9}, "stop")


def test_chat_file_with_many_lists_is_many_sessions() -> None:
    """As the files for fine-tuning are, one conversation a line."""
    line = {"messages": [{"role": "user", "content": "Hi"}]}

    found = read_transcript(jsonl(line, line, line), "tune.jsonl")

    assert [one.name for one in found] == ["tune", "tune-2", "tune-3"]


def test_old_function_calls_are_paired_by_name_and_order() -> None:
    """They have no ids: two calls of one function are answered first come, first served."""
    call = {"name": "ls", "arguments": "not json"}
    found = only(
        document(
            [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": None, "function_call": call},
                {"role": "function", "name": "ls", "content": "one"},
                {"role": "assistant", "content": None, "function_call": call},
                {"role": "function", "name": "ls", "content": "two"},
                {"role": "function", "name": "rm", "content": "nobody asked"},
            ]
        )
    )

    assert shape(found.records)[1:] == [
        ("assistant", "", ("call-1", "ls", {"value": "not json"})),
        ("result", "call-1", "one"),
        ("assistant", "", ("call-2", "ls", {"value": "not json"})),
        ("result", "call-2", "two"),
        ("result", "", "nobody asked"),
    ]


def test_items_that_are_no_messages_are_listed() -> None:
    """A list may hold anything; what is no message is counted."""
    found = only(
        document([{"role": "user", "content": "Hi"}, 7, {"role": "wizard", "content": "Zap"}])
    )

    assert shape(found.records) == [("user", "Hi")]
    assert skipped(found) == {"item that is not a message": 1, "message with the role 'wizard'": 1}


def test_unanswered_and_orphaned_calls_are_carried_as_they_are() -> None:
    """To repair them is the projection's job, which says that it did."""
    found = only(
        document(
            [
                {"role": "user", "content": "Hi"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}],
                },
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "t9", "content": "?"}],
                },
            ]
        )
    )

    assert shape(found.records)[1:] == [
        ("assistant", "", ("t1", "ls", {})),
        ("result", "t9", "?"),
    ]


def test_anthropic_blocks_stay_as_they_are() -> None:
    """Signed and encrypted thoughts go back to their provider unchanged or not at all."""
    said = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "eHh4"},
        {"type": "text", "text": "Yes."},
        {"type": "server_tool_use", "id": "w1", "name": "web_search", "input": {"query": "x"}},
    ]
    found = only(
        document(
            {
                "model": "claude-test-1",
                "system": "Be brief.",
                "tools": [{"name": "ls", "description": "", "input_schema": {"type": "object"}}],
                "messages": [
                    {"role": "user", "content": [IMAGE]},
                    {"role": "assistant", "content": said},
                ],
            }
        )
    )

    reply = found.records[1]
    assert isinstance(reply, Assistant)
    assert reply.content == said
    assert (reply.provider, reply.model) == ("anthropic", "claude-test-1")
    assert found.system == "Be brief."
    assert found.tools == [{"name": "ls", "description": "", "parameters": {"type": "object"}}]


def test_responses_items_of_one_reply_are_one_record() -> None:
    """Reasoning stays the raw item; calls of every kind become calls."""
    reasoning = {"type": "reasoning", "id": "rs1", "summary": [], "encrypted_content": "eHh4"}
    found = only(
        document(
            {
                "model": "gpt-test",
                "input": [
                    {"role": "user", "content": "Hi"},
                    reasoning,
                    {"type": "message", "role": "assistant", "content": "Look:"},
                    {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "+a"},
                    {"type": "local_shell_call", "call_id": "c2", "action": {"command": ["ls"]}},
                    {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
                    {
                        "type": "function_call_output",
                        "call_id": "c2",
                        "output": [{"type": "input_image", "image_url": PNG}],
                    },
                ],
            }
        )
    )

    _user, reply, _first, second = found.records
    assert isinstance(reply, Assistant)
    assert isinstance(reply.content, list)
    assert reply.content[0] == reasoning
    assert (reply.provider, reply.model) == ("openai", "gpt-test")
    assert shape([reply])[0][2:] == (
        ("c1", "patch", {"input": "+a"}),
        ("c2", "local_shell", {"command": ["ls"]}),
    )
    assert isinstance(second, ToolResult)
    assert second.content == [IMAGE]


def test_responses_items_of_a_later_time_are_kept_as_they_are() -> None:
    """A provider's compaction and an item of an unknown kind stay in order, with their fields."""
    kept: list[dict[str, Any]] = [
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "gBBB"},
        {"type": "novel_item", "id": "n_1", "z": {"a": [1, None]}},
    ]
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "r"}
    found = only(document([*kept, call, result]), "list.json")
    replies = [record for record in found.records if isinstance(record, Assistant)]
    assert isinstance(replies[0].content, list)
    assert replies[0].content[:2] == kept
    assert skipped(found) == {"block of the kind 'novel_item'": 1}, "kept, and counted"


def test_gemini_thoughts_signatures_pictures_and_errors_are_carried() -> None:
    """A signature stays with its call; an error is told from an output."""
    found = only(
        document(
            {
                "systemInstruction": {"parts": [{"text": "Be brief."}]},
                "tools": [{"functionDeclarations": [{"name": "ls", "parameters": {}}]}],
                "contents": [
                    {
                        "role": "user",
                        "parts": [
                            {"text": "Look"},
                            {"inlineData": {"mimeType": "image/png", "data": "iVBO"}},
                        ],
                    },
                    {
                        "role": "model",
                        "parts": [
                            {"text": "Hm.", "thought": True},
                            {
                                "functionCall": {"name": "ls", "args": {}},
                                "thoughtSignature": "c2ln",
                            },
                        ],
                    },
                    {
                        "role": "function",
                        "parts": [
                            {"functionResponse": {"name": "ls", "response": {"error": "gone"}}}
                        ],
                    },
                ],
            }
        )
    )

    user, reply, result = found.records
    assert isinstance(user, User)
    assert user.content == [{"type": "text", "text": "Look"}, IMAGE]
    assert isinstance(reply, Assistant)
    assert isinstance(reply.content, list)
    assert reply.content[0] == {"type": "thinking", "thinking": "Hm."}
    assert reply.content[1]["thought_signature"] == "c2ln"
    assert isinstance(result, ToolResult)
    assert (result.content, result.is_error) == ("gone", True)
    assert (found.system, found.tools[0]["name"]) == ("Be brief.", "ls")


def test_gemini_cli_takes_the_last_state_of_a_message_and_converts_its_tokens() -> None:
    """In the line format a message is written again when it has grown."""
    header = {"sessionId": "g1", "projectHash": "ab", "startTime": "x"}
    tokens = {"input": 100, "output": 7, "cached": 60, "total": 107}
    found = only(
        jsonl(
            header,
            {"id": "m1", "type": "user", "content": [{"text": "Hi"}]},
            {"$set": {"lastUpdated": "y"}},
            {"id": "m2", "type": "gemini", "content": "Hel"},
            {"id": "m2", "type": "gemini", "content": "Hello.", "tokens": tokens},
            {"id": "m3", "type": "info", "content": "Saved."},
        )
    )

    assert shape(found.records) == [("user", "Hi"), ("assistant", "Hello.")]
    reply = found.records[1]
    assert isinstance(reply, Assistant)
    assert reply.usage == {
        "promptTokenCount": 100,
        "candidatesTokenCount": 7,
        "cachedContentTokenCount": 60,
        "totalTokenCount": 107,
    }
    assert skipped(found) == {"update of the header": 1, "message `info`": 1}
