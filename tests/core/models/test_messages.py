"""Blocks as they are stored become typed ones, whatever shape they came in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.conversations import PNG

from holdfast.core.dialects.registry import all_dialects, render_body, target
from holdfast.core.log.records import Assistant
from holdfast.core.models.messages import (
    Image,
    Message,
    Other,
    Prompt,
    Text,
    Thinking,
    Tool,
    ToolCall,
    read_blocks,
    read_pieces,
    read_tools,
)
from holdfast.core.narrative.digest import digest_record

if TYPE_CHECKING:
    from holdfast.core.dialects.dialect import Dialect


@pytest.mark.parametrize(
    ("block", "read"),
    [
        ({"type": "text", "text": "hi"}, Text("hi")),
        ({"type": "input_text", "text": "hi"}, Text("hi")),
        (
            {"type": "image", "source": {"media_type": "image/png", "data": PNG}},
            Image(data=PNG, media_type="image/png"),
        ),
        ({"type": "image", "data": PNG, "mimeType": "image/gif"}, Image(PNG, "image/gif")),
        ({"type": "image", "data": PNG}, Image(PNG, "image/png")),
        (
            {"type": "image_url", "image_url": "https://x.test/a.png"},
            Image(url="https://x.test/a.png"),
        ),
        (
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            Image(PNG, "image/png"),
        ),
        ({"type": "image"}, Other("image", {"type": "image"})),
        (
            {"type": "tool_use", "id": "c", "name": "x", "input": {"a": 1}},
            ToolCall("c", "x", {"a": 1}),
        ),
        (
            {"type": "tool_use", "id": "c", "name": "x", "input": '{"a": 1}'},
            ToolCall("c", "x", {"a": 1}),
        ),
        (
            {"type": "tool_use", "id": "c", "name": "x", "input": "plain"},
            ToolCall("c", "x", {"value": "plain"}),
        ),
        ({"type": "tool_use", "id": "c", "name": "x", "input": " "}, ToolCall("c", "x", {})),
        (
            {"type": "tool_use", "id": "c", "name": "x", "input": [1]},
            ToolCall("c", "x", {"value": [1]}),
        ),
        ({"type": "tool_use", "id": 7, "name": None}, ToolCall("", "", {})),
        (
            {"type": "redacted_thinking", "data": "x"},
            Thinking(redacted="x", provider="p", model="m"),
        ),
        ({"type": "document", "title": "t"}, Other("document", {"type": "document", "title": "t"})),
        ({}, Other("?", {})),
    ],
)
def test_every_known_shape_is_read(block: dict[str, Any], read: Any) -> None:
    assert read_blocks([block], provider="p", model="m") == (read,)


@pytest.mark.parametrize("block", [{"type": "text", "text": " "}, {"type": "thinking"}])
def test_empty_blocks_are_left_out(block: dict[str, Any]) -> None:
    assert read_blocks([block]) == ()


def test_results_hold_only_what_results_can() -> None:
    """A call inside a result is kept as it is, and is no call."""
    (piece,) = read_pieces([{"type": "tool_use", "id": "c", "name": "x", "input": {}}])
    assert isinstance(piece, Other)


@pytest.mark.parametrize(
    "value",
    [
        [{"name": "x", "description": "d", "input_schema": {"type": "object"}}],
        {"tools": [{"name": "x", "description": "d", "parameters": {"type": "object"}}]},
        [
            {
                "type": "function",
                "function": {"name": "x", "description": "d", "parameters": {"type": "object"}},
            }
        ],
        [
            {
                "functionDeclarations": [
                    {"name": "x", "description": "d", "parameters": {"type": "object"}}
                ]
            }
        ],
        {"name": "x", "description": "d", "inputSchema": {"type": "object"}},
    ],
)
def test_tools_of_every_provider_are_read(value: Any) -> None:
    assert read_tools(value) == (Tool("x", "d", {"type": "object"}),)


@pytest.mark.parametrize("value", [None, "x", 7, [], [7], [{"name": ""}]])
def test_what_is_no_tool_is_none(value: Any) -> None:
    assert read_tools(value) == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("The port is 8123.", "The port is 8123."),
        ([{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}], "One.\nTwo."),
        ("  ", ""),
        (None, ""),
        ([1, {"text": 2}], ""),
    ],
)
@pytest.mark.parametrize("dialect", all_dialects(), ids=lambda one: one.name)
def test_a_provider_s_compaction_has_words_for_every_other_reader(
    dialect: Dialect, content: Any, words: str
) -> None:
    """Each API that did not make it is told them as text, and so is the reader after a cut."""
    block = {"type": "compaction", "content": content, "signature": "c2ln"}
    (read,) = read_blocks([block])
    assert isinstance(read, Other)
    assert (read.words, read.raw) == (words, block)
    prompt = Prompt((Message("user", (Text("Hi"),)), Message("assistant", (read,))))
    body = str(render_body(prompt, target(dialect.name, model="m")))
    found = digest_record(Assistant(content=[block]))
    assert found is not None
    for word in words.split("\n") if words else ():
        assert word in body
        assert any(word in passage.text for passage in found.passages)
    if not words:
        assert "`compaction` was here" in body
