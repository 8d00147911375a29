"""Payloads in every shape become a note with their size, hash and ref."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from tests.conversations import PNG

from holdfast.core.limits import DATA_URI_CHARS_MAX
from holdfast.core.outputs.binaries import replace_payload, with_refs, without_payloads

RAW = base64.b64decode(PNG)
SHA256 = hashlib.sha256(RAW).hexdigest()
URI = f"data:image/png;base64,{PNG}"

SHAPES: dict[str, dict[str, Any]] = {
    "Anthropic": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PNG},
    },
    "OpenAI chat": {"type": "image_url", "image_url": {"url": URI, "detail": "high"}},
    "OpenAI responses": {"type": "input_image", "image_url": URI},
    "Gemini": {"inlineData": {"mimeType": "image/png", "data": PNG}},
    "Gemini in Python": {"inline_data": {"mime_type": "image/png", "data": PNG}},
    "MCP": {"type": "image", "data": PNG, "mimeType": "image/png"},
    "MCP resource": {"type": "resource", "resource": {"blob": PNG, "mimeType": "image/png"}},
    "url-safe alphabet": {
        "type": "image",
        "data": PNG.replace("+", "-").replace("/", "_"),
        "mimeType": "image/png",
    },
    "broken lines": {
        "type": "image",
        "data": "\n".join(PNG[at : at + 20] for at in range(0, len(PNG), 20)),
        "mimeType": "image/png",
    },
    "no padding": {"type": "image", "data": PNG.rstrip("="), "mimeType": "image/png"},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_picture_is_told_and_not_shown(shape: str) -> None:
    """Decoded size, media type, hash and ref, whoever shaped the block."""
    assert replace_payload(SHAPES[shape], "r1") == {
        "type": "image",
        "omitted": True,
        "mimeType": "image/png",
        "bytes": len(RAW),
        "sha256": SHA256,
        "ref": "r1",
    }


def test_case_8_says_the_decoded_size() -> None:
    """Base64 of 1,000 characters is 750 bytes."""
    data = base64.b64encode(b"p" * 750).decode()
    assert len(data) == 1_000

    note = replace_payload({"type": "image", "data": data}, "r1")

    assert note is not None
    assert note["bytes"] == 750
    assert note["sha256"] == hashlib.sha256(b"p" * 750).hexdigest()


def test_what_stands_beside_a_payload_stays() -> None:
    """A document keeps its title and what was said about it."""
    pdf = base64.b64encode(b"%PDF-1.7" + b"x" * 100).decode()
    source = {"type": "base64", "media_type": "application/pdf", "data": pdf}
    note = replace_payload({"type": "document", "title": "Plan", "source": source}, "r1")

    assert note is not None
    assert note["type"] == "document"
    assert note["title"] == "Plan"
    assert note["bytes"] == 108
    assert pdf not in str(note)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "hello"},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/cat.png"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "plain words"},
        },
        {"type": "file", "data": "readme"},
        {"name": "write", "data": "x" * 5_000},
        {"mimeType": "application/x-sh", "data": "#!/bin/sh\necho $HOME"},
        {},
    ],
)
def test_what_can_be_read_is_no_payload(block: dict[str, Any]) -> None:
    assert replace_payload(block, "r1") is None


def test_offloaded_payloads_are_told_by_their_own_ref() -> None:
    """The ref of the payload itself, not of the record that holds it."""
    sha256 = "ab" * 32
    block = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": ""},
        "output_refs": {"source.data": {"sha256": sha256, "bytes": 99, "kind": "image/png"}},
    }

    note = replace_payload(with_refs(block), "r1")

    assert note == {
        "type": "image",
        "omitted": True,
        "mimeType": "image/png",
        "bytes": 99,
        "sha256": sha256,
        "ref": sha256[:16],
    }


@pytest.mark.parametrize("refs", [None, [], "x", {"a": 1}, {"a.b": {"sha256": 3}}, {"": {}}])
def test_refs_that_are_none_are_left_alone(refs: Any) -> None:
    block = {"type": "text", "text": "hello", "output_refs": refs}

    assert with_refs(block).get("text") == "hello"


def test_payloads_in_a_text_become_notes() -> None:
    """Large data URIs, and a text that is nothing but a picture; small ones are texts."""
    assert without_payloads(f"before {URI} after", "r1") == f"before {URI} after"
    large = URI.rstrip("=") + "A" * DATA_URI_CHARS_MAX
    text = without_payloads(f"before {large} after {large}", "r1")

    assert text.startswith("before [image/png, ")
    assert text.count("left out; ref r1]") == 2
    assert PNG not in text
    assert " after " in text
    assert PNG not in without_payloads(PNG if len(PNG) >= 64 else PNG * 2, "r1")


def test_a_text_without_payloads_is_the_same_object() -> None:
    for text in ("", "hello", "x" * 5_000, "see data:text/plain,hello"):
        assert without_payloads(text, "r1") is text
