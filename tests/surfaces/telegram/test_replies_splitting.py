"""Every part of a text fits a message, is whole by itself, and none of the words are lost."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.surfaces.telegram.replies import (
    TEXT_UNITS_MAX,
    TelegramPart,
    split_text,
    utf16_units,
)

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`\n]*)")
RUNS = st.builds(
    lambda word, count: word * count, st.sampled_from("a😀é\u0301 \n"), st.integers(0, 600)
)
MARKS = ("\n", "\n\n", " ", "```python\n", "```\n", "~~~\n", "````\n", "\n```\n", "`")
TEXTS = st.lists(st.text(max_size=40) | st.sampled_from(MARKS) | RUNS, max_size=25).map("".join)


def words_of(text: str) -> str:
    """Return what is said, without the fences of code blocks and the space between words."""
    words, opened = "", ""
    for line in text.splitlines():
        fence = FENCE.fullmatch(line)
        if fence is not None and not opened:
            opened = fence[1]
        elif fence is not None and fence[1].startswith(opened) and not fence[2].strip():
            opened = ""
        else:
            words += "".join(line.split())
    return words


def units_of(parts: list[TelegramPart]) -> list[int]:
    return [utf16_units(part.text) for part in parts]


def test_a_short_text_is_one_part() -> None:
    assert split_text("hello\n\nworld") == [("hello\n\nworld", [])]
    assert split_text("") == split_text(" \n\n ") == []


def test_units_are_those_of_utf16() -> None:
    assert [utf16_units(text) for text in ("a", "é", "😀", "e\u0301")] == [1, 1, 2, 2]
    assert units_of(split_text("😀" * 3_000)) == [4_096, 1_904]


def test_a_long_reply_with_code_is_split_into_whole_blocks() -> None:
    """9,000 characters of prose, emoji and code: in order, bounded, code stays code."""
    code = "\n".join(f"    print({number}, '😀')" for number in range(300))
    text = f"Here it is:\n\n```python\n{code}\n```\n\n" + "And then. " * 300
    parts = split_text(text)
    assert len(parts) > 2
    assert max(units_of(parts)) <= TEXT_UNITS_MAX
    assert parts[0].text.startswith("Here it is:")
    shown = "\n".join(part.text for part in parts)
    assert "```" not in shown
    assert "".join(shown.split()) == words_of(text)
    entities = [(part, entity) for part in parts for entity in part.entities]
    assert {entity["language"] for _part, entity in entities} == {"python"}
    assert "\n".join(coded(part, entity) for part, entity in entities) == code


def coded(part: TelegramPart, entity: Json) -> str:
    """Return the text of an entity."""
    units = part.text.encode("utf-16-le")
    start, end = entity["offset"], entity["offset"] + entity["length"]
    assert 0 <= start < end <= len(units) // 2
    return units[2 * start : 2 * end].decode("utf-16-le")


def test_blocks_stay_apart() -> None:
    (part,) = split_text("```\na\n```\n~~~js title\nb\n\n~~~\nend")
    assert part.text == "a\nb\n\nend"
    assert [coded(part, entity) for entity in part.entities] == ["a", "b"]
    assert [entity.get("language") for entity in part.entities] == [None, "js"]


def test_a_part_ends_between_paragraphs() -> None:
    text = "\n\n".join(f"paragraph {number} " + "word " * 60 for number in range(20))
    for part in split_text(text, 1_000):
        assert part.text.startswith("paragraph ")


def test_an_emoji_is_not_taken_apart() -> None:
    family = "👨\u200d👩\u200d👧\u200d👦"
    for part in split_text(family * 1_000, 300):
        assert not part.text.startswith("\u200d")
        assert not part.text.endswith("\u200d")


@examples(400)
@given(TEXTS, st.sampled_from([64, 300, 1_000, TEXT_UNITS_MAX]))
def test_every_part_fits_and_nothing_is_lost(text: str, limit: int) -> None:
    """The words are the same in the same order, and every entity is code within its part."""
    parts = split_text(text, limit)
    assert all(part.text.strip() for part in parts)
    assert max(units_of(parts), default=0) <= limit
    clean = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    expected = words_of(clean)
    shown = "".join("".join(part.text.split()) for part in parts)
    assert shown == (expected or shown)
    assert bool(parts) == bool(clean.strip())
    assert all(coded(part, entity).strip() for part in parts for entity in part.entities)


ODD = ("```\nno end", "a ``` b", "~~~\n```\n~~~", "    ```\nx", "```\n```", "```\n\n\nx\n```")


@pytest.mark.parametrize("text", ODD)
def test_odd_fences_keep_their_words(text: str) -> None:
    (part,) = split_text(text)
    assert "".join(part.text.split()) == (words_of(text) or "".join(text.split()))
