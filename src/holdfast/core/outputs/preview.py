"""Previews: the text in the log in place of an output that was moved out.

A preview has facts about the output, its beginning and its end. The first line says what was
moved, how large it is and how to read the rest; a gap names the exact range it leaves out; the last
line names the ref again. All of these lines name the ref, the beginning of the payload's hash. No
payload can contain its own hash, so a line in an output that imitates them cannot name the right
ref: it is data like the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.outputs.describe import shape_of, size_of
from holdfast.core.text.cut import count_of, cut, scrub

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.outputs.describe import Kind

_BODY_CHARS_MIN: Final = 200
"""With less room than this beside the frame, the preview is the end of the text alone."""
_FACTS_ABOVE_CHARS: Final = 800
_FACTS_SHARE: Final = 0.4
"""The share of the room that facts may take, where there is more than `_FACTS_ABOVE_CHARS`."""
_TAIL_SHARE: Final = 0.55
"""The end of an output tells more than its beginning."""
_EDGE_SHARE: Final = 0.25
"""The share of a beginning or an end that may be given up to cut at a line end."""
_LINES_NEXT: Final = 200
"""The number of lines that the first line proposes to read next."""
_NAMES: Final[dict[Kind, str]] = {
    "text": "text",
    "json": "JSON",
    "table": "a table",
    "log": "a log",
    "traceback": "output with a traceback",
}


class Preview(msgspec.Struct, frozen=True):
    """A text that fits, and facts about the whole output."""

    text: str
    kind: str
    lines: int


class _Whole(msgspec.Struct, frozen=True):
    """The output that the lines of the frame describe."""

    text: str
    kind: Kind
    lines: int
    ref: str


def preview(text: str, cap: int, *, ref: str) -> Preview:
    """At most `cap` characters of a text, for every cap from 0 up; the whole of it if it fits."""
    text = scrub(text)
    shape = shape_of(text)
    whole = _Whole(text, shape.kind, count_lines(text), ref)
    if len(text) <= cap:
        shown = text
    elif (room := cap - _frame_size(whole)) < _BODY_CHARS_MIN:
        shown = _ending(whole, cap)
    else:
        facts = shape.facts(int(_FACTS_SHARE * room)) if room > _FACTS_ABOVE_CHARS else []
        shown = _add_frame(whole, facts, room)
    return Preview(cut(shown, cap, keep="tail").text, shape.kind, whole.lines)


def count_lines(text: str) -> int:
    """The number of lines of a text; the last one need not have a line end."""
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def _ending(whole: _Whole, cap: int) -> str:
    """One marker and the end of the output, for where there is little room."""
    return cut(
        whole.text.rstrip(),
        cap,
        keep="tail",
        marker=lambda omitted, _total, _unit: (
            f"[… first {omitted:,} of {len(whole.text):,} characters left out: "
            f'context(ref="{whole.ref}")]\n'
        ),
    ).text


def _add_frame(whole: _Whole, facts: Sequence[str], room: int) -> str:
    text = whole.text
    room -= size_of(facts)
    end = _line_start(text, len(text) - int(_TAIL_SHARE * room))
    start = _line_end(text, room - int(_TAIL_SHARE * room))
    first, begin, gap, last = _frame(whole, start, end)
    parts = (first, *facts, begin, text[:start], gap, text[end:])
    return "".join(part if part.endswith("\n") else f"{part}\n" for part in parts) + last


def _frame_size(whole: _Whole) -> int:
    """The most characters that the lines of the frame take, with all added line ends."""
    size = len(whole.text)
    longest = max(
        _frame(whole, 0, size), _frame(whole, size, size), key=lambda lines: len(lines[0])
    )
    return sum(map(len, longest)) + 2 * len(str(size)) + 5 * len("\n")


def _frame(whole: _Whole, start: int, end: int) -> tuple[str, str, str, str]:
    """The lines around the facts, the beginning and the end where `start` to `end` is left out."""
    total, ref = f"{len(whole.text):,} characters", whole.ref
    first_line = 1 + whole.text.count("\n", 0, start)
    last_line = 1 + whole.text.count("\n", 0, max(0, end - 1))
    until = min(last_line, first_line + _LINES_NEXT - 1)
    place = f'lines="{first_line}:{until}"' if first_line < last_line else f"offset={start}"
    first = (
        f"[Preview of {_NAMES[whole.kind]}: {total}, {count_of(whole.lines, 'line')}; more with "
        f'context(ref="{ref}", {place}) or search="…". '
        "Facts, then the output; only lines with this ref are not its own.]"
    )
    gap = (
        f"[… {end - start:,} characters left out: offset {start} to {end}, "
        f"lines {first_line} to {last_line}, ref {ref} …]"
    )
    return first, f"[Output, ref {ref}:]", gap, f"[End of the preview, ref {ref}]"


def _line_end(text: str, place: int) -> int:
    """The end of the last line before a place, unless too much would be given up for it."""
    return text.rfind("\n", place - int(_EDGE_SHARE * place), place) + 1 or place


def _line_start(text: str, place: int) -> int:
    reach = place + int(_EDGE_SHARE * (len(text) - place))
    return text.find("\n", place, reach) + 1 or place
