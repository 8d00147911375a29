"""What failed: the last exception with the end of its trace, exit codes, tests, compiler errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.outputs.describe.samples import counted, entry, listed
from holdfast.core.text.cut import cut, ellipsis
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from holdfast.core.outputs.describe.samples import Sample

_PYTHON: Final = "Traceback (most recent call last)"
_FRAME: Final = lazy_pattern(r"\s+at .+[(:]|\s+\.\.\. \d+ more|Caused by: ")
_RAISED: Final = lazy_pattern(
    r"(?:Uncaught |Exception in thread \S+ )?[\w.$]*(?:Error|Exception)\b"
)
_PANIC: Final = lazy_pattern(
    r"panic: |fatal error: |thread '.*' panicked at|goroutine \d+ \[running"
)
_FAILURE: Final = lazy_pattern(
    r"""
      (?: =+\ )? (?: [\w\ ]*\b )? \d+\ (?: failed | failing | failures? | errors? | passed )\b
    | FAILED?\b | ---\ FAIL | test\ result: | Tests?:\ +\d | Ran\ \d+\ tests? | E\ {2,}\S
    | (?: \[? (?: [Pp]rocess | [Cc]ommand )\b .* )?
      \b [Ee]xit(?:ed)?\ (?: with\ )? (?: code | status ) \W+ -?\d
    | exit(?:ed)?\ with\ \d | .*\ non-zero\ exit\ status | make(?: \[\d+\])?:\ \*\*\* | npm\ ERR!
    | \S+?:\d+(?: :\d+ )?:\ (?: fatal\ )?error | \S+\(\d+,\d+\):\ error
    | error(?: \[\w+\] | \ TS\d+ )?:
    | (?: ERROR | FATAL | fatal ) (?: : | \b )
    """,
    re.VERBOSE,
)
_LEAD: Final = lazy_pattern(r"[\s>|]{0,12}")
_LINE_CHARS: Final = 300
"""How far a line is looked at."""
_TRACE_LINES: Final = 12


class Trace(msgspec.Struct, frozen=True):
    """Where in the sample the last trace is: from its first line to what was raised."""

    start: int
    end: int
    raised: int


def last_trace(sample: Sample) -> Trace | None:
    """The last trace of an exception in any of the languages that print one."""
    lines = sample.lines
    place = len(lines)
    while place:
        place -= 1
        line = lines[place]
        if _PYTHON in line:
            return _python(lines, place)
        if _PANIC.match(line):
            return _panic(lines, place)
        if _is_frame(line):
            last = place
            while place and _is_frame(lines[place]):
                place -= 1
            if _RAISED.match(lines[place]):
                return Trace(place, last, place)
    return None


def _is_frame(line: str) -> bool:
    """Whether a line is one of those below what was raised, as in Java and JavaScript."""
    return line[:1] in " \tC" and _FRAME.match(line, 0, _LINE_CHARS) is not None


def _python(lines: list[str], start: int) -> Trace:
    """To the first line that is not indented more than the trace's first."""
    column = lines[start].index(_PYTHON)
    for place in range(start + 1, len(lines)):
        line = lines[place]
        if len(line) > column and not line[column].isspace():
            return Trace(start, place, place)
    return Trace(start, len(lines) - 1, len(lines) - 1)


def _panic(lines: list[str], place: int) -> Trace:
    """From what was said of the panic; the routines that were running follow it."""
    near = range(place, max(-1, place - _TRACE_LINES), -1)
    start = next((one for one in near if "panic: " in lines[one][:_LINE_CHARS]), place)
    return Trace(start, min(len(lines), place + _TRACE_LINES) - 1, start)


def trace_facts(sample: Sample, trace: Trace, room: int) -> list[str]:
    """What was raised, always, and as much of the end of the trace as there is room for."""
    title = "The last exception:"
    raised = entry(sample.number(trace.raised), sample.lines[trace.raised])
    raised = cut(raised, max(0, room - len(title) - 2), keep="head", marker=ellipsis).text
    left = room - len(title) - len(raised) - 2
    if left < 0:
        return []
    first = max(trace.start, trace.end - _TRACE_LINES)
    places = [place for place in range(first, trace.end + 1) if place != trace.raised]
    frames = [entry(sample.number(place), sample.lines[place]) for place in places]
    shown = listed(frames, left)
    order = [raised, *shown] if trace.raised == trace.start else [*shown, raised]
    return [title, *order]


def failure_facts(sample: Sample, room: int) -> list[str]:
    """Lines that say by themselves that something failed, or how it ended."""
    entries = [
        entry(sample.number(place), line)
        for place, line in enumerate(sample.lines)
        if says_failed(line)
    ]
    if not entries:
        return []
    title = f"{sample.note}{counted(len(entries), 'line')} about failures or results:"
    shown = listed(entries, room - len(title) - 1)
    return [title, *shown] if shown else []


def says_failed(line: str) -> bool:
    lead = _LEAD.match(line)
    return _FAILURE.match(line, lead.end() if lead else 0, _LINE_CHARS) is not None
