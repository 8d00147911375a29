"""Texts as Telegram takes them: parts of bounded size, with code blocks as entities.

Telegram counts in UTF-16 units. A code block that does not fit into one part is closed at its end
and opened again in the next one, so that every part is whole by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.text.cut import scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json

TEXT_UNITS_MAX: Final = 4_096
"""The longest message that Telegram takes, in UTF-16 units."""
LIMIT_MIN: Final = 256
"""Room for the fences of a block and some of its code in every part."""
_FENCE: Final = lazy_pattern(r" {0,3}(?P<marks>`{3,16}|~{3,16})(?P<info>[^`\n]{0,60})\n?")
_LANGUAGE: Final = lazy_pattern(r"[\w+#.-]+")
_JOINED: Final = lazy_pattern(
    "[\u0300-\u036f\u200d\ufe00-\ufe0f\u20d0-\u20ff\U0001f3fb-\U0001f3ff]"
)
"""Characters that change the one before them; no text is cut in front of one."""
_JOINED_MAX: Final = 16
"""The longest run of them that is kept together: it may be a whole text."""


class _Fence(NamedTuple):
    """The beginning of a code block."""

    line: str
    marks: str

    def is_closed_by(self, line: str) -> bool:
        found = _FENCE.fullmatch(line)
        return (
            found is not None
            and not found["info"].strip()
            and found["marks"][0] == self.marks[0]
            and len(found["marks"]) >= len(self.marks)
        )


class _Line(NamedTuple):
    """A line, or a piece of a long one, and the code blocks that it begins and ends in."""

    text: str
    before: _Fence | None
    after: _Fence | None


def utf16_units(text: str) -> int:
    """Return the length of a text as Telegram counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def split_text(text: str, limit: int = TEXT_UNITS_MAX) -> list[str]:
    """Split a text into parts of at most `limit` UTF-16 units, none of them blank.

    A part ends between paragraphs or code blocks where that fills half of it, else between lines,
    else between words.
    """
    assert limit >= LIMIT_MIN, f"a part needs at least {LIMIT_MIN} units, not {limit}"
    lines = list(_read_lines(scrub(text), limit))
    parts: list[str] = []
    start = 0
    while start < len(lines):
        end = _part_end(lines, start, limit)
        part = _join(lines[start:end])
        if part.strip():
            parts.append(part)
        start = end
    return parts


def format_part(part: str) -> tuple[str, list[Json]]:
    """Return a part without the fences of its code blocks, and the entities that stand for them."""
    shown, code = "", ""
    entities: list[Json] = []
    opened: _Fence | None = None
    for line in _read_lines(part, TEXT_UNITS_MAX):
        if line.before is None and line.after is not None:
            code, opened = "", line.after
        elif line.before is not None and line.after is not None:
            code += line.text
        elif line.before is not None and opened is not None:
            code = code.removesuffix("\n")
            if code.strip():
                entities.append(_code_entity(utf16_units(shown), code, opened))
            shown, opened = f"{shown}{code}\n", None
        else:
            shown += line.text
    if opened is not None:  # no block: its end is missing
        shown += opened.line + code
    if not shown.strip():
        return part, []
    return shown.rstrip("\n"), entities


def _code_entity(offset: int, code: str, fence: _Fence) -> Json:
    entity: Json = {"type": "pre", "offset": offset, "length": utf16_units(code)}
    language = _LANGUAGE.match(fence.line.strip().strip("`~").strip())
    return {**entity, "language": language[0]} if language else entity


def _read_lines(text: str, limit: int) -> Iterator[_Line]:
    """Yield lines with their code blocks. Those too long for a part are cut."""
    fence: _Fence | None = None
    for line in text.splitlines(keepends=True):
        before, found = fence, _FENCE.fullmatch(line)
        if fence is not None:
            fence = None if fence.is_closed_by(line) else fence
        elif found is not None:
            fence = _Fence(f"{line.strip()}\n", found["marks"])
        for piece in _cut_line(line, limit - _overhead(before or fence)):
            yield _Line(piece, before, fence)


def _overhead(fence: _Fence | None) -> int:
    """Return the units that a code block needs in a part besides its code."""
    return 0 if fence is None else utf16_units(fence.line) + len(fence.marks) + 1


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
    opened = lines[start].before
    size = utf16_units(opened.line) if opened is not None else 0
    end = good = start
    while end < len(lines):
        line = lines[end]
        grown = size + utf16_units(line.text)
        if end > start and grown + _closing_units(line.after) > limit:
            break
        size, end = grown, end + 1
        if size >= limit // 2 and _is_good_end(lines, end):
            good = end
    if end == len(lines) or good == start:
        return end - 1 if _opens_block(lines, start, end) else end
    return good


def _closing_units(fence: _Fence | None) -> int:
    return len(fence.marks) + 1 if fence is not None else 0


def _opens_block(lines: list[_Line], start: int, end: int) -> bool:
    """Return True where a part would end with the first line of a code block."""
    last = lines[end - 1]
    return start < end - 1 and end < len(lines) and last.before is None and last.after is not None


def _is_good_end(lines: list[_Line], end: int) -> bool:
    """Return True between two paragraphs, and before and after a code block."""
    if end >= len(lines) or lines[end].before is not None:
        return False
    last, following = lines[end - 1], lines[end]
    return not last.text.strip() or last.before is not None or following.after is not None


def _join(lines: list[_Line]) -> str:
    first, last = lines[0], lines[-1]
    if first.before is not None and first.after is None:
        lines = lines[1:]  # the part before has closed this block already
    text = "".join(line.text for line in lines)
    if first.before is not None and first.after is not None:
        text = first.before.line + text
    else:
        text = text.lstrip("\n")
    if last.after is None:
        return text.rstrip("\n")
    return f"{text.removesuffix(chr(10))}\n{last.after.marks}"
