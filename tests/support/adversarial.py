"""Texts that make a careless reader slow: each is one unit repeated to any length.

`long_texts` are the same for every reader. `near_matches` are written from a pattern: each part
that it repeats is run long, after what leads to it, and then broken off.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

c: Any = re._constants  # type: ignore[attr-defined]
parser: Any = re._parser  # type: ignore[attr-defined]

UNITS: Final = (
    *("a", "A", "aB", "Ab", "7", "0f3a9c", "é", "漢字仮名", "：。、「」", "👩‍👩", "\ud83d", "\0"),
    *(" ", "\t", "\n", "\r\n", "\u00a0 ", "\u200b", "\u202e", "a\n", " a\n", "a ", "A b. "),
    *(".", "/", "\\", "-", "_", "*", "#", "=", ",", ":", "!", "?", "%", '"', "'", "`", "~"),
    *("(", "[", "{", "<", ")]}>", "()", "[[", '{"a":', '"a": "b", ', '\\"', "\\n", "\\u0041"),
    *("a.", "a/", "a-", "a_", "a@", "a@b.", "%41", "1.2", "1,", "12:34:", "2024-01-01 ", " --a"),
    *(
        "http://a",
        "https://a.b/ ",
        "${a",
        "$(",
        "cd a && ",
        "a | ",
        "> a ",
        "<<EOF\n",
        "data: {}\n",
    ),
    *(
        "\x1b[",
        "\x1b]8;;",
        "\x1b[31ma\x1b[0m",
        "<a ",
        "<a></a>",
        "<!--",
        "<!-- hf:",
        "```\n",
        "~~~\n",
    ),
    *("data:image/png;base64,", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo", "QUJDREVGR0hJSktMTU5P\n"),
    *("password=", "api_key: x ", "Bearer ", "-----BEGIN PRIVATE KEY-----\n", "[masked: a] "),
    *("Error: ", '  File "a", line 1\n', "100 tokens > 50 ", "| a ", "|a|\n", "a,b\n", "- a\n"),
    *("- [ ] a\n", "1. a\n", "# a\n", "And so ", "always never ", "please do not ", "<tool_call"),
)
_BROKEN_OFF: Final = ("a", "7", " ", "0f3a9c", "漢字仮名", ".", "-", "/", "_", "a ", "\n")


def long_texts() -> list[tuple[str, str, str]]:
    """Every text as (before, unit, after); `grown` writes it out."""
    return [
        *(("", unit, "") for unit in UNITS),
        *(("", unit, "!\n\0") for unit in _BROKEN_OFF),
        *(('"', unit, "") for unit in _BROKEN_OFF),
    ]


def grown(shape: tuple[str, str, str], size: int) -> str:
    before, unit, after = shape
    return before + unit * max(1, size // len(unit)) + after


def near_matches(pattern: str, flags: int) -> list[tuple[str, str, str]]:
    """Texts that nearly match a pattern, in the form of `long_texts`."""
    tree = parser.parse(pattern, flags)
    found: dict[tuple[str, str], None] = {}
    for pick in range(3):
        found.update(dict.fromkeys(_runs(tree, "", pick)))
        whole = _example(tree, pick)
        found.update({("", text): None for text in (whole, whole[:-1]) if text})
    return [(before, unit, after) for before, unit in found for after in ("", "\0")]


_REPEATS: Final = (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT)


def _runs(tree: Any, before: str, pick: int) -> Iterator[tuple[str, str]]:
    """(what leads to a repeat, what it repeats) for every repeat in a pattern."""
    for op, value in tree:
        inner: list[Any] = []
        if op in _REPEATS:
            inner = [value[2]]
            unit = _example(value[2], pick)
            if unit and int(value[1]) >= 20:
                yield before, unit
                yield "", unit
                yield "", before + unit
        elif op is c.SUBPATTERN:
            inner = [value[3]]
        elif op is c.ATOMIC_GROUP:
            inner = [value]
        elif op is c.BRANCH:
            inner = value[1]
        elif op in {c.ASSERT, c.ASSERT_NOT}:
            inner = [value[1]]
        for part in inner:
            yield from _runs(part, before, pick)
        before += _example([(op, value)], pick)


def _example(tree: Any, pick: int) -> str:
    """A text that a pattern matches, or nearly; `pick` chooses among alternatives."""
    text = ""
    for op, value in tree:
        if op is c.LITERAL:
            text += chr(value)
        elif op is c.NOT_LITERAL:
            text += "a" if value != ord("a") else "b"
        elif op is c.ANY:
            text += "a. "[pick % 3]
        elif op is c.IN:
            text += _character(value, pick)
        elif op in _REPEATS:
            text += _example(value[2], pick) * max(value[0], min(pick % 2, int(value[1])))
        elif op is c.SUBPATTERN:
            text += _example(value[3], pick)
        elif op is c.ATOMIC_GROUP:
            text += _example(value, pick)
        elif op is c.BRANCH:
            text += _example(value[1][pick % len(value[1])], pick)
    return text


_OF_CATEGORY: Final = {
    c.CATEGORY_DIGIT: "7",
    c.CATEGORY_WORD: "a_0",
    c.CATEGORY_SPACE: " \n",
    c.CATEGORY_NOT_SPACE: "a./",
    c.CATEGORY_NOT_WORD: " .-",
    c.CATEGORY_NOT_DIGIT: "a ",
}


def _character(items: Any, pick: int) -> str:
    listed = ""
    for op, value in items:
        if op is c.LITERAL:
            listed += chr(value)
        elif op is c.RANGE:
            listed += chr(value[0]) + chr(value[1])
        elif op is c.CATEGORY:
            listed += _OF_CATEGORY[value]
    if items[0][0] is c.NEGATE:
        listed = "".join(char for char in "a 0.-/_\"'<(\nA" if char not in listed) or "é"
    return listed[pick % len(listed)]
