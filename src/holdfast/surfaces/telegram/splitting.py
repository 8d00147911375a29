"""Texts as Telegram takes them: parts of bounded size, with code blocks as entities.

Telegram counts in UTF-16 units. Entities are offsets, so that nothing that a model writes can make
a message malformed, and a code block that is split is a whole block in each part.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.text.cut import scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json

TEXT_UNITS_MAX: Final = 4_096
"""The longest message that Telegram takes, in UTF-16 units."""
_FENCE: Final = lazy_pattern(r" {0,3}(?P<marks>`{3,}|~{3,})(?P<info>[^`\n]*)\n?")
_LANGUAGE: Final = lazy_pattern(r"\s*(?P<name>[\w+#.-]{1,40})")
_JOINED: Final = lazy_pattern(
    "[\u0300-\u036f\u200d\ufe00-\ufe0f\u20d0-\u20ff\U0001f3fb-\U0001f3ff]"
)
"""Characters that change the one before them; no text is cut in front of one."""
_JOINED_MAX: Final = 16
"""The longest run of them that is kept together: it may be a whole text."""


class TelegramPart(NamedTuple):
    """A text for one message, without the fences of its code blocks, and their entities."""

    text: str
    entities: list[Json]


class _Block(NamedTuple):
    """A code block."""

    number: int
    """Which one of the text: two that follow each other stay two."""
    marks: str
    language: str


class _Line(NamedTuple):
    """A line, or a piece of a long one, and the code block that it is in."""

    text: str
    block: _Block | None


def utf16_units(text: str) -> int:
    """Return the length of a text as Telegram counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def split_text(text: str, limit: int = TEXT_UNITS_MAX) -> list[TelegramPart]:
    """Split a text into parts of at most `limit` UTF-16 units, none of them blank.

    A part ends between paragraphs or beside a code block where that fills half of it, else between
    lines, else between words.
    """
    clean = scrub(text)
    lines = list(_read_lines(clean, limit))
    parts: list[TelegramPart] = []
    start = 0
    while start < len(lines):
        end = _part_end(lines, start, limit)
        part = _join(lines[start:end])
        if part.text.strip():
            parts.append(part)
        start = end
    if not parts and clean.strip():  # code blocks without code
        return [TelegramPart(next(_cut_line(clean.strip(), limit)), [])]
    return parts


def _read_lines(text: str, limit: int) -> Iterator[_Line]:
    """Yield lines with their code blocks, without fences. Those too long for a part are cut."""
    block: _Block | None = None
    number = 0
    for line in text.splitlines(keepends=True):
        fence = _FENCE.fullmatch(line)
        if fence is not None and block is None:
            language = _LANGUAGE.match(fence["info"])
            number += 1
            block = _Block(number, fence["marks"], language["name"] if language else "")
        elif fence is not None and block is not None and _closes(block, *fence.groups()):
            block = None
        else:
            yield from (_Line(piece, block) for piece in _cut_line(line, limit))


def _closes(block: _Block, marks: str, info: str) -> bool:
    return marks.startswith(block.marks) and not info.strip()


def _cut_line(line: str, room: int) -> Iterator[str]:
    while utf16_units(line) > room:
        head = line.encode("utf-16-le")[: room * 2].decode("utf-16-le", "ignore")
        space = head.rfind(" ") + 1
        end = space if space >= len(head) // 2 else len(head)
        earliest = max(end - _JOINED_MAX, 1)
        while end > earliest and (_JOINED.match(line, end) or line[end - 1] == "\u200d"):
            end -= 1
        yield line[:end]
        line = line[end:]
    yield line


def _part_end(lines: list[_Line], start: int, limit: int) -> int:
    """Return the line before which a part ends that begins at `start`."""
    size, good = 0, start
    for end in range(start, len(lines)):
        size += utf16_units(lines[end].text)
        if size > limit:
            return good if good > start else end
        if size >= limit // 2 and _is_good_end(lines, end + 1):
            good = end + 1
    return len(lines)


def _is_good_end(lines: list[_Line], end: int) -> bool:
    """Return True between two paragraphs, and beside a code block."""
    if end == len(lines):
        return False
    last, following = lines[end - 1], lines[end]
    is_paragraph = following.block is None and not last.text.strip()
    return is_paragraph or last.block != following.block


def _join(lines: list[_Line]) -> TelegramPart:
    text = ""
    entities: list[Json] = []
    for block, group in groupby(lines, key=lambda line: line.block):
        words = "".join(line.text for line in group)
        if not text:
            words = words.lstrip("\n")
        code = words.rstrip("\n")
        if block is not None and code.strip():
            entity = {"type": "pre", "offset": utf16_units(text), "length": utf16_units(code)}
            entities.append({**entity, "language": block.language} if block.language else entity)
        text += words
    return TelegramPart(text.rstrip("\n"), entities)
