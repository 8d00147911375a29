"""What is said is the same, however a client spells it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.dialects.common.digests import extend_chain, start_chain
from holdfast.core.dialects.registry import find_dialect, target

TEXT = {"role": "user", "content": "x"}


def digests(*items: Any, dialect: Any = "anthropic") -> list[bytes]:
    return [atom.digest for atom in find_dialect(dialect).items.read_atoms(items)]


@pytest.mark.parametrize(
    "other",
    [
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        {"role": "user", "content": [{"type": "text", "text": "x ", "cache_control": {"a": 1}}]},
        {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "x"}]},
        {"content": "x", "role": "user", "name": "ada"},
    ],
)
def test_spellings_of_one_message_are_equal(other: Any) -> None:
    assert digests(TEXT) == digests(other)


@pytest.mark.parametrize(
    "other",
    [
        {"role": "user", "content": "y"},
        {"role": "user", "content": [{"type": "document", "text": "x"}]},
        {"role": "user", "content": [{"type": "tool_result", "content": "x"}]},
        {"role": "user", "content": [{"type": "text", "text": "x"}] * 2},
    ],
)
def test_other_messages_differ(other: Any) -> None:
    assert digests(TEXT) != digests(other)


def test_a_reply_is_the_same_in_every_dialect() -> None:
    stored: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "Hm"},
        {"type": "text", "text": "Look."},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a", "n": 1}},
    ]
    arguments = '{"n": 1,\n "path": "a"}'
    function = {"name": "read", "arguments": arguments}
    spellings = (
        ("anthropic", [{"role": "assistant", "content": stored[1:]}]),
        (
            "openai-chat",
            [
                TEXT,
                {
                    "role": "assistant",
                    "content": "Look.",
                    "refusal": None,
                    "tool_calls": [{"id": "c", "type": "function", "function": function}],
                },
            ],
        ),
        (
            "gemini",
            [
                {"role": "model", "parts": [{"text": "Hm", "thought": True}, {"text": "Lo"}]},
                {
                    "role": "model",
                    "parts": [{"text": "ok."}, {"text": "", "thoughtSignature": "s"}],
                },
                {
                    "role": "model",
                    "parts": [{"functionCall": {"name": "read", "args": {"n": 1, "path": "a"}}}],
                },
            ],
        ),
        (
            "openai-responses",
            [
                {"type": "reasoning", "id": "r", "summary": []},
                {"role": "assistant", "content": [{"type": "output_text", "text": "Look."}]},
                {"type": "function_call", "call_id": "c", **function},
            ],
        ),
    )
    for dialect, items in spellings:
        found = [
            atom.digest
            for atom in find_dialect(dialect).items.read_atoms(items)
            if atom.kind == "assistant"
        ]
        assert found == find_dialect(dialect).items.reply_digests(stored), dialect
        assert found == find_dialect("anthropic").items.reply_digests(stored), dialect


def test_a_client_need_not_send_the_fields_of_a_reply_back() -> None:
    """A reply of Chat Completions is found by its words and calls."""
    dialect = find_dialect("openai-chat")
    thoughts = [{"type": "reasoning.text", "text": "Hm."}]
    message = {"role": "assistant", "content": "x", "level": 3, "reasoning_details": thoughts}
    read = dialect.read({"choices": [{"message": message}]}, target("openai-chat"))
    assert [block["type"] for block in read.content] == ["thinking", "text", "message_fields"]
    bare = {"role": "assistant", "content": "x"}
    assert dialect.items.reply_digests(read.content) == digests(bare, dialect="openai-chat")


def test_leading_instructions_are_terms_and_later_ones_are_said() -> None:
    system = {"role": "developer", "content": "Be brief."}
    assert digests(system, TEXT, dialect="openai-responses") == digests(TEXT)
    assert len(digests(TEXT, system, dialect="openai-responses")) == 2
    assert len(digests(TEXT, {"role": "system", "content": "Be brief."})) == 2


@given(st.lists(st.binary(min_size=1, max_size=4), max_size=6), st.integers(0, 6))
def test_a_chain_goes_on_from_any_part_of_it(parts: list[bytes], at: int) -> None:
    start = start_chain()
    whole = extend_chain(start, parts)
    assert extend_chain(extend_chain(start, parts[:at]), parts[at:]) == whole
    if parts:
        assert extend_chain(start, parts[:-1]) != whole


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["text", "thought", "call", "code", "image"]),
            st.text("ab \n", max_size=4),
        ),
        max_size=8,
    ),
    st.integers(0, 2**8),
)
def test_a_reply_of_gemini_is_the_same_in_any_pieces(
    said: list[tuple[str, str]], cuts: int
) -> None:
    """The stream's reader joins texts, Google's packages keep a content for each piece: what the
    log has and what the next request repeats are equal."""
    parts: list[dict[str, Any]] = []
    blocks: list[dict[str, Any]] = []
    for kind, text in said:
        match kind:
            case "text":
                parts.append({"text": text})
                blocks.append({"type": "text", "text": text})
            case "thought":
                parts.append({"text": text, "thought": True})
                blocks.append({"type": "thinking", "thinking": text})
            case "call":
                parts.append({"function_call": {"name": text, "args": {"a": text}}})
                blocks.append({"type": "tool_use", "id": "x", "name": text, "input": {"a": text}})
            case "code":
                parts.append({"executableCode": {"code": text}, "thoughtSignature": "s"})
                code = {"code": text}
                blocks.append({"type": "executableCode", "executableCode": code})
            case _:
                parts.append({"inlineData": {"mimeType": "image/png", "data": "a-_b"}})
                source = {"type": "base64", "media_type": "image/png", "data": "a+/b"}
                blocks.append({"type": "image", "source": source})
    items: list[dict[str, Any]] = [{"role": "model", "parts": []}]
    for place, part in enumerate(parts):
        if cuts >> place & 1:
            items.append({"role": "model", "parts": []})
        items[-1]["parts"].append(part)
    assert digests(*items, dialect="gemini") == find_dialect("gemini").items.reply_digests(blocks)
