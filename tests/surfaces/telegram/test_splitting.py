"""Every part of a text fits a message, is whole by itself, and none of the words are lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.surfaces.telegram.splitting import (
    LIMIT_MIN,
    TEXT_UNITS_MAX,
    format_part,
    split_text,
    utf16_units,
)

FENCE = re.compile(r" {0,3}(`{3,16}|~{3,16})[^`\n]{0,60}")
RUNS = st.builds(
    lambda word, count: word * count, st.sampled_from("a😀é\u0301 \n"), st.integers(0, 600)
)
MARKS = ("\n", "\n\n", " ", "```python\n", "```\n", "~~~\n", "````\n", "\n```\n", "`")
TEXTS = st.lists(st.text(max_size=40) | st.sampled_from(MARKS) | RUNS, max_size=25).map("".join)


def words_of(texts: list[str]) -> str:
    """Return what is said outside of the marks of code blocks, without the space between."""
    lines = "\n".join(texts).splitlines()
    return "".join("".join(line.split()) for line in lines if not FENCE.fullmatch(line))


def test_a_short_text_is_one_part() -> None:
    assert split_text("hello\n\nworld") == ["hello\n\nworld"]
    assert split_text("") == split_text(" \n\n ") == []


def test_units_are_those_of_utf16() -> None:
    assert [utf16_units(text) for text in ("a", "é", "😀", "e\u0301")] == [1, 1, 2, 2]
    parts = split_text("😀" * 3_000)
    assert [utf16_units(part) for part in parts] == [4_096, 1_904]


def test_a_long_reply_with_code_is_split_between_whole_blocks() -> None:
    """9,000 characters of prose, emoji and code: in order, bounded, fences closed and reopened."""
    code = "\n".join(f"    print({number}, '😀')" for number in range(300))
    text = f"Here it is:\n\n```python\n{code}\n```\n\n" + "And then. " * 300
    parts = split_text(text)
    assert len(parts) > 2
    assert all(utf16_units(part) <= TEXT_UNITS_MAX for part in parts)
    assert parts[0].startswith("Here it is:")
    assert parts[0].endswith("\n```")
    assert parts[1].startswith("```python\n    print(")
    shown = [format_part(part) for part in parts]
    assert all("```" not in said for said, _ in shown)
    languages = [entity["language"] for _, entities in shown for entity in entities]
    assert languages
    assert set(languages) == {"python"}
    assert "".join(code.split()) in words_of([said for said, _ in shown])


def test_a_part_ends_between_paragraphs() -> None:
    text = "\n\n".join(f"paragraph {number} " + "word " * 60 for number in range(20))
    for part in split_text(text, 1_000):
        assert part.startswith("paragraph ")


def test_an_emoji_is_not_taken_apart() -> None:
    family = "👨\u200d👩\u200d👧\u200d👦"
    for part in split_text(family * 1_000, 300):
        assert not part.startswith("\u200d")
        assert not part.endswith("\u200d")


@examples(400)
@given(TEXTS, st.sampled_from([LIMIT_MIN, 300, 1_000, TEXT_UNITS_MAX]))
def test_every_part_fits_and_nothing_is_lost(text: str, limit: int) -> None:
    """A part is whole: split again, it stays as it is."""
    parts = split_text(text, limit)
    clean = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert all(part.strip() and utf16_units(part) <= limit for part in parts)
    assert words_of(parts) == words_of([clean])
    if all(utf16_units(line) < LIMIT_MIN - 90 for line in clean.splitlines()):
        assert all(split_text(part, limit) == [part] for part in parts)


@examples(400)
@given(TEXTS)
def test_entities_are_within_their_text(text: str) -> None:
    for part in split_text(text):
        shown, entities = format_part(part)
        assert shown.strip()
        assert utf16_units(shown) <= TEXT_UNITS_MAX
        units = shown.encode("utf-16-le")
        for entity in entities:
            start, end = entity["offset"], entity["offset"] + entity["length"]
            assert 0 <= start < end <= utf16_units(shown)
            assert units[2 * start : 2 * end].decode("utf-16-le").strip()


ODD = ("```\nno end", "```\n```", "a ``` b", "~~~\n```\n~~~", "    ```\nx")


@pytest.mark.parametrize("text", ODD)
def test_odd_fences_keep_their_words(text: str) -> None:
    (part,) = split_text(text)
    shown, _entities = format_part(part)
    assert words_of([shown]) == words_of([text])
