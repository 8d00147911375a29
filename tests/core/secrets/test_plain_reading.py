"""A key that is coloured, escaped or set in full-width letters is still a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.secrets.planted_secrets import TOKENS

from holdfast import Redactor, Secret, ToolResult, Vault
from holdfast.core.secrets.plain_reading import plain_reading

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUE = "correct horse battery 77"
"""Registered; the others are known by their shape."""
KEYS = (TOKENS["Anthropic"], TOKENS["GitHub"], TOKENS["AWS id"], VALUE)
ESCAPES = ("\x1b", "\\u001b", "\\u001B", "\\x1b", "\\033", "\\e")


def full_width(key: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in key)


def veils(key: str) -> Iterator[str]:
    """Yield a key as tools and encoders write it."""
    yield f"\\u2192{key}"
    yield f"\\u00e9{key}\\u00e9"
    yield f"\x1b]8;;http://x\x07{key}\x1b]8;;\x07"
    yield f"\x1b[01;31m\x1b[K{key}\x1b[m\x1b[K"
    yield f"\uff08{key}\uff09"
    yield f"key\uff1d{key}\uff0c"
    yield full_width(key)
    for escape in ESCAPES:
        yield f"{escape}[31m{key}{escape}[0m"
        yield f"{key[:9]}{escape}[1;31m{key[9:14]}{escape}[0m{key[14:]}"


@pytest.mark.parametrize(("key", "veiled"), [(key, veil) for key in KEYS for veil in veils(key)])
def test_a_veiled_key_is_masked(key: str, veiled: str) -> None:
    """Neither the key nor a half of it is left, and masking again changes nothing."""
    redactor = Redactor({"DB": VALUE})
    text = f"before {veiled} after"
    masked = redactor.text(text)
    assert "[masked" in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    read = plain_reading(masked)
    shown = masked if read is None else read.text
    assert not any(part in shown for part in (key[:9], key[9:14], key[-9:]) if len(part) > 4)
    assert redactor.text(masked) == masked


@pytest.mark.parametrize("escape", ESCAPES)
def test_a_coloured_value_is_stored_as_its_handle(escape: str) -> None:
    """A registered value that a tool coloured in part is not stored."""
    vault = Vault({"DB": Secret(VALUE)})
    text = f"found: {VALUE[:7]}{escape}[1m{VALUE[7:]}{escape}[0m and {VALUE}"
    stored = vault.mask_record(ToolResult(tool_use_id="c", content=text)).content
    assert stored == f"found: <secret:DB>{escape}[0m and <secret:DB>"


@given(st.text(st.sampled_from("aé：\x1b[31m;K\\u2192e0x~]\x07"), max_size=60))
def test_a_reading_knows_its_places(text: str) -> None:
    """Every part of the reading has a place in the text; a part of the text stays in order."""
    reading = plain_reading(text)
    if reading is None:
        return
    last = 0
    for position, char in enumerate(reading.text):
        start, end = reading.span(position, position + 1)
        assert last <= start < end <= len(text)
        if end - start == 1 and text[start] == char:
            assert char == text[start]
        last = end
