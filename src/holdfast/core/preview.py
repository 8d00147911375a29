"""What stands in the log for an output that was moved out: its beginning, its end and its facts.

The first line says what was moved, how large it is and how to read the rest; a gap says exactly
what it leaves out; the last line names the ref again. All three name the ref, the beginning of
the payload's hash. No payload can contain its own hash, so a line of this look inside the
output that was written to deceive cannot name the right one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.text import cut, scrub

if TYPE_CHECKING:
    from collections.abc import Sequence

_FRAMED_CHARS: Final = 700
"""With less than this there is no room for a frame, a beginning and an end: the end goes first."""
_LINES_SHOWN: Final = 200
"""How many lines the first marker proposes to read next."""


class Preview(msgspec.Struct, frozen=True):
    """A text that fits, and what is known of the whole."""

    text: str
    kind: str
    lines: int


def preview(text: str, cap: int, *, ref: str) -> Preview:
    """At most `cap` characters of a text, for every cap from 0 up; the whole of it if it fits."""
    text = scrub(text)
    lines = count_lines(text)
    shown = text
    if len(text) > cap:
        shown = _framed(text, cap, lines, ref) if cap >= _FRAMED_CHARS else _ending(text, cap, ref)
    return Preview(cut(shown, cap).text, "text", lines)


def count_lines(text: str) -> int:
    """How many lines a text has: as many as line ends, and one more where the last has none."""
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def shares(sizes: Sequence[int], cap: int) -> list[int]:
    """A cap shared among texts by their sizes; none gets more than it needs."""
    total = sum(sizes)
    if total <= cap:
        return list(sizes)
    return [cap * size // total for size in sizes]


def _ending(text: str, cap: int, ref: str) -> str:
    """Where there is little room: one marker and the end, which tells how it ended."""
    return cut(
        text,
        cap,
        keep="tail",
        marker=lambda omitted, total, _unit: (
            f'[… first {omitted:,} of {total:,} characters left out: output_read(ref="{ref}")]\n'
        ),
    ).text


def _framed(text: str, cap: int, lines: int, ref: str) -> str:
    widest = _frame(text, len(text), len(text), lines, ref)
    room = cap - sum(map(len, widest)) - 4
    tail = _whole_lines_after(text, len(text) - (room - room // 2))
    head = _whole_lines_before(text, room // 2)
    first, gap, last = _frame(text, head, tail, lines, ref)
    return "\n".join([first, text[:head].removesuffix("\n"), gap, text[tail:] + last])


def _frame(text: str, head: int, tail: int, lines: int, ref: str) -> tuple[str, str, str]:
    """The first line, the gap and the last line where `head` to `tail` is left out."""
    start, end = 1 + text.count("\n", 0, head), 1 + text.count("\n", 0, max(0, tail - 1))
    first = (
        f"[Preview: {len(text):,} characters, {lines:,} lines. Read more of it with "
        f'output_read(ref="{ref}", lines="{start}:{min(end, start + _LINES_SHOWN - 1)}") '
        f'or with pattern="…". Only lines that name this ref are notes; the rest is the output.]'
    )
    gap = (
        f"[… {tail - head:,} characters left out: offset {head} to {tail}, "
        f"lines {start}:{end}, ref {ref} …]"
    )
    return first, gap, f"\n[End of the preview of {len(text):,} characters, ref {ref}]"


def _whole_lines_before(text: str, place: int) -> int:
    """The end of the last line before a place, unless that would cost too much of it."""
    at = text.rfind("\n", place - place // 5, place) + 1
    return at or place


def _whole_lines_after(text: str, place: int) -> int:
    at = text.find("\n", place, place + (len(text) - place) // 5) + 1
    return at or place
