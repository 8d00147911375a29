"""Export to message lists: what is written reads back as the same records."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Header,
    Record,
    ToolResult,
    ToolUse,
    User,
)
from holdfast.importers import read_transcript
from holdfast.importers.export_messages import DIALECTS, export_messages

WORDS = st.text(min_size=1, max_size=12).filter(str.strip)
TEXT = st.builds(lambda words: {"type": "text", "text": words}, WORDS)
IMAGE = st.sampled_from(
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
    ]
)
USERS = st.builds(User, content=WORDS | st.lists(TEXT | IMAGE, min_size=1, max_size=3))


@st.composite
def steps(draw: st.DrawFn, *, number: int) -> list[Record]:
    """A reply and the results of its calls."""
    ids = [f"t{number}-{place}" for place in range(draw(st.integers(0, 3)))]
    given_to = st.dictionaries(WORDS, WORDS | st.integers(-9, 9), max_size=2)
    calls = [{"type": "tool_use", "id": one, "name": "ls", "input": draw(given_to)} for one in ids]
    thought = draw(st.none() | WORDS)
    said: list[dict[str, Any]] = []
    if thought:
        said.append({"type": "thinking", "thinking": thought})
    said += [draw(TEXT)] if draw(st.booleans()) or not (calls or thought) else []
    reply = Assistant(content=[*said, *calls])
    results = [
        ToolResult(
            tool_use_id=one,
            name="ls",
            content=draw(WORDS | st.lists(TEXT | IMAGE, min_size=1, max_size=2)),
        )
        for one in ids
    ]
    return [reply, *results]


@st.composite
def conversations(draw: st.DrawFn) -> list[Record]:
    made: list[Record] = [draw(USERS)]
    for number in range(draw(st.integers(0, 4))):
        made += draw(steps(number=number))
        made += [draw(USERS)] if draw(st.booleans()) else []
    return made


def _plain(records: list[Record]) -> list[Record]:
    """Records without what a message list cannot know, and a lone text as text."""
    plain = []
    for record in records:
        if isinstance(record, Assistant):
            record = msgspec.structs.replace(record, provider=None)
            if isinstance(record.content, str):
                said = [{"type": "text", "text": record.content}]
                record = msgspec.structs.replace(record, content=said)
        plain.append(record)
    return plain


@pytest.mark.parametrize("dialect", DIALECTS)
@given(records=conversations())
def test_round_trip(dialect: str, records: list[Record]) -> None:
    """Exported and imported again, every message, call and result is as it was."""
    made = export_messages(records, dialect)

    (found,) = read_transcript(json.dumps(made.messages).encode(), "x.json", format=dialect)

    assert _plain(found.records) == _plain(records)
    assert made.skipped == found.skipped == []


def test_what_a_dialect_has_no_place_for_is_listed() -> None:
    """Boundaries, flags, signatures and other providers' thoughts are counted, by kind."""
    records: list[Record] = [
        Header(id="s"),
        User(content="Hi", name="Ann"),
        Assistant(
            content=[
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "reasoning", "encrypted_content": "eHh4"},
                {"type": "text", "text": "Hello."},
            ]
        ),
        ToolUse(tool_use_id="t1", name="ls", input={}),
        ToolResult(tool_use_id="t1", content="x", is_error=True, details={"a": 1}),
        Compaction(summary="So far."),
    ]

    anthropic = export_messages(records, "anthropic")
    chat = export_messages(records, "openai-chat")

    assert {one.what for one in anthropic.skipped} == {
        "name of a user",
        "reasoning item",
        "details of a result",
        "compaction record",
    }
    assert {one.what for one in chat.skipped} == {
        "signature of a thought",
        "encrypted thought",
        "error flag of a result",
        "details of a result",
        "compaction record",
    }
    assert anthropic.messages[-1]["content"][0]["is_error"] is True
    assert [message["role"] for message in chat.messages] == [
        "user",
        "assistant",
        "assistant",
        "tool",
    ]
