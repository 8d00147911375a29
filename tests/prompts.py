"""Prompts for the tests: made by hand, and by hypothesis within the promises of `Prompt`."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from holdfast.core.dialects.registry import VARIANTS, target
from holdfast.core.models.messages import (
    Block,
    Image,
    Message,
    Other,
    Piece,
    Prompt,
    Text,
    Thinking,
    Tool,
    ToolAnswer,
    ToolCall,
)

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

    from holdfast.core.models.dialects import Target

PROVIDER, MODEL = "acme", "thinker-1"
"""Who made the thinking that the prompts' targets may see."""

NAMES = [f"{dialect}:{variant}" for dialect, variants in VARIANTS.items() for variant in variants]
"""Every dialect in every variant."""


def targets() -> list[Target]:
    """Every dialect in every variant, with and without thinking."""
    return [
        target(name, provider=PROVIDER, model=MODEL, thinking=thinking)
        for name in NAMES
        for thinking in (False, True)
    ]


def name_of(one: Target) -> str:
    return f"{one.dialect.full_name}{'+thinking' if one.thinking else ''}"


def png(width: int = 1, height: int = 1, padding: int = 0) -> str:
    """The base64 of a PNG with these dimensions; its pixels are never looked at."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"")
    beside = _chunk(b"prVt", bytes(padding))
    chunks = (_chunk(b"IHDR", header), beside, _chunk(b"IDAT", pixels), _chunk(b"IEND", b""))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(chunks)).decode()


def _chunk(name: bytes, data: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(name + data))
    return struct.pack(">I", len(data)) + name + data + checksum


JPEG = base64.b64encode(b"\xff\xd8\xff\xda\x00\x02" + bytes(16) + b"\xff\xd9").decode()


def pdf(pages: int = 1, extra: bytes = b"") -> str:
    """The base64 of a PDF with so many pages, none of which can be drawn."""
    tree = b"1 0 obj << /Type /Pages /Kids [] /Count %d >> endobj" % pages
    ending = b"trailer << /Root 2 0 R %b >> startxref 9 %%%%EOF" % extra
    return base64.b64encode(b"%PDF-1.7\n" + tree + b"\n" + ending).decode()


def conversation() -> Prompt:
    """Two turns with parallel calls, pictures, an error, foreign ids and foreign thinking."""
    return Prompt(
        system="You are careful.",
        tools=(
            Tool("read", "Reads a file", {"type": "object", "properties": {"path": {}}}),
            Tool("list"),
        ),
        output_tokens=4_000,
        stable=(0, 2),
        messages=(
            Message("user", (Text("What is in there?"), Image(png(), "image/jpeg"))),
            Message(
                "assistant",
                (
                    Thinking("I should look.", "c2ln", provider=PROVIDER, model=MODEL),
                    Text("Let me look."),
                    ToolCall("call_1|fc_1", "fs.read", {"path": "a"}),
                    ToolCall("toolu_01", "list", {}),
                ),
            ),
            Message(
                "user",
                (
                    ToolAnswer("call_1|fc_1", (Text("no such file"),), is_error=True),
                    ToolAnswer("toolu_01", (Text("a.png"), Image(png()))),
                ),
            ),
            Message(
                "assistant",
                (
                    Thinking("Elsewhere.", "c2ln", provider="other", model="other"),
                    Text("One picture."),
                ),
            ),
            Message("user", (Text("And now?"),)),
            Message("assistant", (ToolCall("x" * 200, "list", {"deep": [1, {"ä": "😀"}]}),)),
            Message("user", (ToolAnswer("x" * 200, ()), Text("Go on."))),
        ),
    )


def call_ids() -> SearchStrategy[str]:
    """Ids of every provider, and of none."""
    letters = st.text("abcXYZ019", min_size=9, max_size=9)
    return st.one_of(
        letters,
        letters.map(lambda end: f"toolu_{end}"),
        letters.map(lambda end: f"call_{end}|fc_{end}"),
        letters.map(lambda end: f"functions.read:{end}"),
        letters.map(lambda end: f"{end} ü 漢 😀"),
        letters.map(lambda end: end * 30),
        st.text(min_size=1, max_size=60).filter(lambda text: bool(text.strip())),
    ).filter(lambda text: text.isprintable())


def _words() -> SearchStrategy[str]:
    return st.sampled_from(
        ["yes", "漢字", "😀 fine", " padded ", "Error: no", "{}", "x" * 300, "line\nline"]
    )


def _pictures() -> SearchStrategy[Image]:
    return st.sampled_from(
        [
            Image(png(), "image/png"),
            Image(JPEG, "image/png"),
            Image(png(3_000, 20), ""),
            Image("PHN2Zz4=", "image/svg+xml"),
            Image(url="https://example.org/a.png"),
            Image(url="file:///a.png"),
            Image("not a picture", "image/png"),
        ]
    )


def _others(number: int) -> SearchStrategy[list[Other]]:
    """Blocks that only some API knows; server tools with and without their other half."""
    use = {"type": "server_tool_use", "id": f"srvtoolu_{number}", "name": "web_search", "input": {}}
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": f"srvtoolu_{number}",
        "content": [],
        "cache_control": {"type": "ephemeral"},
    }
    document = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "words"},
        "cache_control": {"type": "ephemeral"},
    }
    return st.sampled_from(
        [
            [Other("server_tool_use", use), Other("web_search_tool_result", found)],
            [Other("server_tool_use", use)],
            [Other("web_search_tool_result", found)],
            [Other("document", document)],
            [Other("refusal", {"type": "refusal", "refusal": "I will not."})],
            [Other("?", {})],
            [Other("text", {"type": "document"})],
        ]
    )


class _Maker:
    """Makes blocks, numbered so that what must be unique is."""

    def __init__(self, draw: DrawFn) -> None:
        self.draw = draw
        self.count = 0
        self.ids: set[str] = set()
        self.pictures = 0

    def number(self) -> int:
        self.count += 1
        return self.count

    def words(self) -> list[Block]:
        kind = self.draw(st.sampled_from(["text", "text", "text", "image", "other"]))
        if kind == "image" and self.pictures < 8:
            self.pictures += 1
            return [self.draw(_pictures())]
        if kind == "other":
            return list(self.draw(_others(self.number())))
        return [Text(self.draw(_words()))]

    def thinking(self) -> Thinking:
        number = self.number()
        whose = self.draw(st.sampled_from([(PROVIDER, MODEL), (PROVIDER, MODEL), ("", "")]))
        item = {
            "type": "reasoning",
            "id": f"rs_{number}",
            "encrypted_content": f"gAAAA{number}",
            "status": None,
        }
        fields: dict[str, Any] = self.draw(
            st.sampled_from(
                [
                    {"text": "Hm.", "signature": f"sig{number}"},
                    {"text": "Hm."},
                    {"text": "H\ud800m.", "signature": f"sig{number}"},
                    {"signature": f"sig{number}"},
                    {"redacted": f"secret{number}"},
                    {"item": item},
                    {"item": {"type": "reasoning", "id": f"rs_{number}"}},
                ]
            )
        )
        return Thinking(**fields, provider=whose[0], model=whose[1])

    def call(self) -> ToolCall:
        call_id = self.draw(call_ids().filter(lambda one: one not in self.ids))
        self.ids.add(call_id)
        name = self.draw(st.sampled_from(["read", "fs.read", "", "9 lives", "ü", "n" * 200]))
        arguments = self.draw(st.sampled_from([{}, {"a": [1, {"ü": None}]}]))
        signed = self.draw(
            st.sampled_from(
                [(), ("c2ln", PROVIDER, MODEL), ("c2ln", "x", "y"), ("\ud800!", PROVIDER, MODEL)]
            )
        )
        return ToolCall(call_id, name, arguments, *signed)

    def answer(self, call: ToolCall) -> ToolAnswer:
        pieces: list[Piece] = []
        for _ in range(self.draw(st.integers(0, 2))):
            pieces += [one for one in self.words() if isinstance(one, Text | Image | Other)]
        return ToolAnswer(call.id, tuple(pieces), self.draw(st.booleans()))

    def said(self) -> list[Block]:
        """An assistant's message: thinking wherever it may be, words, calls."""
        blocks: list[Block] = []
        for _ in range(self.draw(st.integers(0, 3))):
            is_thinking = self.draw(st.booleans())
            blocks += [self.thinking()] if is_thinking else self.words()
        blocks += [self.call() for _ in range(self.draw(st.sampled_from([0, 0, 1, 1, 2, 3])))]
        if self.draw(st.booleans()):
            blocks.append(self.thinking())
        return blocks or self.words()


@st.composite
def prompts(draw: DrawFn, max_turns: int = 4) -> Prompt:
    """Any prompt that keeps its promises, and thinking that should not have got this far."""
    make = _Maker(draw)
    messages = [Message("user", tuple(make.words()))]
    for _ in range(draw(st.integers(0, max_turns))):
        said = make.said()
        calls = [block for block in said if isinstance(block, ToolCall)]
        answers: list[Block] = [make.answer(call) for call in calls]
        if not answers or draw(st.booleans()):
            answers += make.words()
        messages += [Message("assistant", tuple(said)), Message("user", tuple(answers))]
    names = draw(st.lists(st.sampled_from(["read", "list", "a-b_c"]), unique=True, max_size=3))
    tools = tuple(Tool(name, draw(st.sampled_from(["", "Does it."]))) for name in names)
    return Prompt(
        messages=tuple(messages),
        system=draw(st.sampled_from(["", " ", "You are careful."])),
        tools=tools,
        output_tokens=draw(st.sampled_from([0, 1, 500, 1_024, 1_025, 20_000])),
        stable=tuple(sorted(draw(st.sets(st.integers(-1, 12), max_size=4)))),
    )
