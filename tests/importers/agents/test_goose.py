"""Goose's own parts become calls and results; nothing is lost in silence."""

from __future__ import annotations

from tests.importers.samples import jsonl

from holdfast.core.log.records import Assistant, Compaction, ToolResult, User, text_of, tool_calls
from holdfast.importers import detect_format, read_transcript


def lines(*contents: tuple[str, list[object]], title: bool = True) -> bytes:
    said = [
        {"role": role, "created": 1_770_000_000 + at, "content": content}
        for at, (role, content) in enumerate(contents)
    ]
    about = [{"working_dir": "/work", "description": "A fix", "message_count": 4}]
    return jsonl(*(about if title else []), *said)


REQUEST = {
    "type": "toolRequest",
    "id": "c1",
    "toolCall": {"status": "success", "value": {"name": "shell", "arguments": {"command": "ls"}}},
}
ANSWER = [{"type": "text", "text": "a.py"}]


def test_calls_and_results_are_carried() -> None:
    """In both shapes of a result, and as an error."""
    data = lines(
        ("user", [{"type": "text", "text": "Look."}]),
        ("assistant", [{"type": "text", "text": "I look."}, REQUEST, {**REQUEST, "id": "c2"}]),
        (
            "user",
            [
                {"type": "toolResponse", "id": "c1", "toolResult": {"value": ANSWER}},
                {
                    "type": "toolResponse",
                    "id": "c2",
                    "toolResult": {"status": "error", "error": "no such folder"},
                },
            ],
        ),
        ("assistant", [{"type": "conversationCompacted", "msg": "It was about a.py."}]),
        ("assistant", [{"type": "toolConfirmationRequest", "id": "x"}, {"type": "brandNew"}]),
        title=False,
    )
    assert detect_format(data, "s.jsonl") == "goose"
    (found,) = read_transcript(data, "s.jsonl")
    said, asked, first, second, cut, odd = found.records
    assert isinstance(said, User)
    assert isinstance(asked, Assistant)
    assert [(call["name"], call["input"]) for call in tool_calls(asked.content)] == [
        ("shell", {"command": "ls"})
    ] * 2
    assert isinstance(first, ToolResult)
    assert (first.tool_use_id, text_of(first.content)) == ("c1", "a.py")
    assert isinstance(second, ToolResult)
    assert (second.content, second.is_error, second.name) == ("no such folder", True, "shell")
    assert isinstance(cut, Compaction)
    assert isinstance(odd, Assistant)
    notes = {(one.what, one.count) for one in found.skipped}
    assert ("part `toolConfirmationRequest`", 1) in notes
    assert ("block of the kind 'brandNew'", 1) in notes
    assert lines(("user", []))
    assert (
        read_transcript(lines(("user", [{"type": "text", "text": "Hi"}])), "s.jsonl")[0].label
        == "A fix"
    )


def test_bare_texts_are_carried() -> None:
    """As the whole content, and between the parts."""
    asked = {"role": "user", "content": "Plain"}
    said = {"role": "assistant", "content": ["bare", {"type": "text", "text": "Yes"}]}
    data = jsonl({"working_dir": "/w", "description": "d"}, asked, said)
    assert detect_format(data, "a.jsonl") == "goose"
    (found,) = read_transcript(data, "a.jsonl")
    kept = str([getattr(record, "content", "") for record in found.records])
    assert all(text in kept for text in ("Plain", "bare", "Yes"))
    assert found.skipped == []
