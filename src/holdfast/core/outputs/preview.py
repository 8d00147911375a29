"""What stands in the log for an output that was moved out: its facts, its beginning, its end.

The first line says what was moved, how large it is and how to read the rest; a gap says exactly
what it leaves out; the last line names the ref again. All of them name the ref, the beginning of
the payload's hash. No payload can contain its own hash, so a line of this look that somebody
wrote into an output cannot name the right one: it is data like the rest of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.outputs.describe.describe import shape_of
from holdfast.core.outputs.describe.samples import counted
from holdfast.core.text.cut import cut, scrub

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.outputs.describe.describe import Kind

_BODY_CHARS_MIN: Final = 200
"""With less than this beside the frame, there is no frame: the end of the text goes first."""
_FACTS_ABOVE_CHARS: Final = 800
_FACTS_SHARE: Final = 0.4
"""What facts may take of what is beside the frame, where that is enough to share."""
_TAIL_SHARE: Final = 0.55
"""How something ended tells more than how it began."""
_EDGE_SHARE: Final = 0.25
"""How much of a beginning or an end may be given up to cut it at a line."""
_LINES_NEXT: Final = 200
"""How many lines the first line proposes to read next."""
_NAMES: Final[dict[Kind, str]] = {
    "text": "text",
    "json": "JSON",
    "table": "a table",
    "log": "a log",
    "traceback": "output with a traceback",
}


class Preview(msgspec.Struct, frozen=True):
    """A text that fits, and what is known of the whole."""

    text: str
    kind: str
    lines: int


class _Whole(msgspec.Struct, frozen=True):
    """What the lines of the frame tell about."""

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
        shown = _framed(whole, facts, room)
    return Preview(cut(shown, cap, keep="tail").text, shape.kind, whole.lines)


def count_lines(text: str) -> int:
    """How many lines a text has: as many as line ends, and one more where the last has none."""
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def shares(sizes: Sequence[int], cap: int) -> list[int]:
    """A cap shared among texts by their sizes; none gets more than it needs."""
    total = sum(sizes)
    if total <= cap:
        return list(sizes)
    return [cap * size // total for size in sizes]


def _ending(whole: _Whole, cap: int) -> str:
    """Where there is little room: one marker and the end, which tells how it ended."""
    return cut(
        whole.text.rstrip(),
        cap,
        keep="tail",
        marker=lambda omitted, _total, _unit: (
            f"[… first {omitted:,} of {len(whole.text):,} characters left out: "
            f'output_read(ref="{whole.ref}")]\n'
        ),
    ).text


def _framed(whole: _Whole, facts: Sequence[str], room: int) -> str:
    text = whole.text
    room -= sum(len(one) + 1 for one in facts)
    end = _line_start(text, len(text) - int(_TAIL_SHARE * room))
    start = _line_end(text, room - int(_TAIL_SHARE * room))
    first, begin, gap, last = _frame(whole, start, end)
    parts = (first, *facts, begin, text[:start], gap, text[end:])
    return "".join(one if one.endswith("\n") else f"{one}\n" for one in parts) + last


def _frame_size(whole: _Whole) -> int:
    """The most that the lines of the frame take, with every line end that is added."""
    size = len(whole.text)
    longest = max(_frame(whole, 0, size), _frame(whole, size, size), key=lambda one: len(one[0]))
    return sum(map(len, longest)) + 2 * len(str(size)) + 5 * len("\n")


def _frame(whole: _Whole, start: int, end: int) -> tuple[str, str, str, str]:
    """The lines around the facts, the beginning and the end where `start` to `end` is left out."""
    total, ref = f"{len(whole.text):,} characters", whole.ref
    first_line = 1 + whole.text.count("\n", 0, start)
    last_line = 1 + whole.text.count("\n", 0, max(0, end - 1))
    until = min(last_line, first_line + _LINES_NEXT - 1)
    place = f'lines="{first_line}:{until}"' if first_line < last_line else f"offset={start}"
    first = (
        f"[Preview of {_NAMES[whole.kind]}: {total}, {counted(whole.lines, 'line')}; more with "
        f'output_read(ref="{ref}", {place}) or pattern="…". '
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
