"""Transcripts in, on and back: the tool's own lines say the same as before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.importers.same_conversation import CONVERSATIONS
from tests.importers.samples import detect, read
from tests.shared_data import need_data
from tests.support.cases import check_all
from tests.support.runs import RUN

from holdfast.core.log.records import Assistant, Compaction, Record, ToolResult, User, tool_calls
from holdfast.core.models.usage import read_usage
from holdfast.importers.common.blocks import blocks_of
from holdfast.importers.export import TRANSCRIPTS, TranscriptAbout, export_transcript
from holdfast.importers.places import load

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.importers.common.base import Imported

ABOUT = TranscriptAbout("s", "/w", "Tea", 1_770_000_000.0)
MORE: list[Record] = [
    User(content="And now?", id="more-1", ts=1_790_000_000.0),
    Assistant(
        content=[{"type": "tool_use", "id": "call_more", "name": "ls", "input": {"a": 1}}],
        model="m",
        id="more-2",
        ts=1_790_000_001.0,
    ),
    ToolResult(tool_use_id="call_more", content="out", id="more-3", ts=1_790_000_002.0),
    Assistant(content="Done.", model="m", id="more-4", ts=1_790_000_003.0),
]


def written(records: list[Record], kind: str) -> bytes:
    return msgspec.json.Encoder().encode_lines(export_transcript(records, kind, ABOUT).lines)


def said(records: list[Record], *, has_thoughts: bool) -> list[Any]:
    """Return what a conversation says, without the ways in which formats spell it."""
    found: list[Any] = []
    for record in records:
        if isinstance(record, Compaction):
            found.append(("summary", record.summary))
        elif isinstance(record, ToolResult):
            found.append(("result", record.tool_use_id, blocks_of(record.content)))
        elif isinstance(record, Assistant):
            kinds = ("text", "thinking", "redacted_thinking") if has_thoughts else ("text",)
            blocks = blocks_of(record.content)
            found += [("says", block) for block in blocks if block.get("type") in kinds]
            found += [("calls", call["id"], call["input"]) for call in tool_calls(record.content)]
        elif isinstance(record, User):
            found.append(("user", blocks_of(record.content)))
    return found


def check_round_trip(found: Imported, kind: str, *, has_thoughts: bool) -> None:
    """In, on and back: what the tool reads is what was there, and what was added."""
    records = [*found.records, *MORE]
    data = written(records, kind)
    assert detect(data, "x.jsonl") in (kind, "pi" if kind == "openclaw" else kind)
    (back,) = [each for each in read(data, "x.jsonl") if each.records]
    assert said(back.records, has_thoughts=has_thoughts) == said(records, has_thoughts=has_thoughts)
    again = written(back.records, kind)
    assert [_words(line) for line in again.splitlines()] == [
        _words(line) for line in data.splitlines()
    ]


def _words(line: bytes) -> Any:
    """Return what a line says in the tool's own format."""
    value = msgspec.json.decode(line)
    message = value.get("message") or value.get("payload") or {}
    return value.get("type"), message.get("role"), message.get("content"), message.get("output")


def test_every_conversation_goes_to_every_tool_and_back() -> None:
    """Whatever format it came from."""
    pairs = [(name, kind) for name in CONVERSATIONS for kind in TRANSCRIPTS]

    def check(pair: tuple[str, str]) -> None:
        name, kind = pair
        source, data = CONVERSATIONS[name]
        for found in read(data, "s.jsonl", format=source):
            check_round_trip(found, kind, has_thoughts=False)

    check_all(pairs, check)


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        ("claude-code", "claude-code/*/*.jsonl.gz"),
        ("codex", "format-samples/codex*/*.jsonl"),
        ("codex", "format-samples/codex*.jsonl"),
        ("pi", "pi/**/*.jsonl*"),
        ("openclaw", "format-samples/openclaw/*.jsonl"),
    ],
)
def test_real_transcripts_come_back(kind: str, pattern: str) -> None:
    """Messages, calls, results and summaries of real sessions, in their own format."""
    files = sorted((need_data() / "agents").glob(pattern), key=lambda file: file.stat().st_size)
    assert files, pattern
    for file in files[: {"quick": 2, "test": 6}.get(RUN, 200)]:
        for found in read(load(str(file)), file.name):
            if found.records and found.format == kind:
                check_round_trip(found, kind, has_thoughts=kind == "pi")


def test_lines_of_claude_code_are_the_same_messages() -> None:
    """Each line of the original that a model saw is there with its uuid, role and content."""
    from tests.importers.samples import claude_reply, claude_user, jsonl, tool_result, tool_use

    uuid = "11111111-1111-4111-8111-11111111111{}".format
    lines = [
        claude_user(uuid(1), None, "Hi"),
        claude_reply(uuid(2), uuid(1), [tool_use("t1")], "m1"),
        claude_user(uuid(3), uuid(2), [tool_result("t1", "out", is_error=True)]),
        claude_reply(uuid(4), uuid(3), [{"type": "text", "text": "Done."}], "m2"),
    ]
    (found,) = read(jsonl(*lines), "x.jsonl")
    made = export_transcript(found.records, "claude-code", ABOUT).lines
    by_uuid = {line["uuid"]: line for line in made if "uuid" in line}
    for line in lines:
        ours = by_uuid[line["uuid"]]
        assert ours["parentUuid"] == line["parentUuid"]
        assert ours["message"]["role"] == line["message"]["role"]
        assert blocks_of(ours["message"]["content"]) == blocks_of(line["message"]["content"])
        assert ours["type"] == line["type"]


def test_what_has_no_place_is_listed() -> None:
    """Names, details, errors, thoughts: by format."""
    records: list[Record] = [
        User(content="a", name="ann", id="u"),
        Assistant(content=[{"type": "thinking", "thinking": "hm"}], id="a"),
        ToolResult(tool_use_id="t", content="b", details={"x": 1}, is_error=True, id="r"),
    ]
    listed = {
        kind: {each.what for each in export_transcript(records, kind, ABOUT).skipped}
        for kind in TRANSCRIPTS
    }
    assert listed["claude-code"] == {
        *("name of a user", "thought without a signature", "details of a result")
    }
    assert "error flag of a result" in listed["codex"]
    assert listed["pi"] == listed["openclaw"] == {"name of a user"}


def test_a_compaction_keeps_what_it_kept() -> None:
    """The view of the exported file begins where the view of the session begins."""
    records: list[Record] = [
        *MORE[:1],
        Assistant(content="old", model="m", id="old", ts=1.0),
        User(content="kept words", id="kept", ts=2.0),
        Compaction(summary="the gist", first_kept="kept", id="cut", ts=3.0),
        User(content="new words", id="new", ts=4.0),
    ]
    for kind in ("claude-code", "pi", "openclaw"):
        (back,) = read(written(records, kind), "x.jsonl")
        (cut,) = [each for each in back.records if isinstance(each, Compaction)]
        kept = {each.id: each for each in back.records}[cut.first_kept or ""]
        assert blocks_of(getattr(kept, "content", None))[0]["text"] == "kept words"
    (line,) = [each for each in export_transcript(records, "codex", ABOUT).lines
               if each["type"] == "compacted"]  # fmt: skip
    texts = [part["text"] for item in line["payload"]["replacement_history"]
             for part in item["content"]]  # fmt: skip
    assert texts == ["And now?", "the gist", "kept words"]


USAGES: dict[str, Json] = {
    "anthropic": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 7},
    "openai": {
        "prompt_tokens": 100,
        "prompt_tokens_details": {"cached_tokens": 90},
        "completion_tokens": 7,
    },
    "openai-responses": {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 90},
        "output_tokens": 7,
    },
    "gemini": {"promptTokenCount": 100, "cachedContentTokenCount": 90, "candidatesTokenCount": 7},
    "pi": {"input": 10, "cacheRead": 90, "cacheWrite": 0, "output": 7, "totalTokens": 107},
}


@pytest.mark.parametrize("provider", USAGES)
@pytest.mark.parametrize("kind", ["claude-code", "pi", "openclaw"])
def test_a_usage_keeps_its_meaning_in_every_tool(kind: str, provider: str) -> None:
    """Reported in any spelling, it is written in the tool's own; Anthropic's stays as it is."""
    reply = Assistant(content="yes", provider=provider, model="m", usage=USAGES[provider])
    made = export_transcript([User(content="well?"), reply], kind, ABOUT)
    (message,) = (
        line["message"] for line in made.lines if line.get("message", {}).get("role") == "assistant"
    )
    used = read_usage(message["usage"], "anthropic" if kind == "claude-code" else "")
    assert used is not None
    assert (used.prompt, used.cached_read, used.output) == (100, 90, 7)
    own = "input_tokens" if kind == "claude-code" else "input"
    assert message["usage"][own] == 10
    if (kind, provider) in {("claude-code", "anthropic"), ("pi", "pi")}:
        assert USAGES[provider].items() <= message["usage"].items()
