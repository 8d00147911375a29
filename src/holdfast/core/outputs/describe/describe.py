"""The kind of an output (JSON, a table, a log, a traceback or text) and facts about it.

Numbers are counted in the whole text, or the facts say in which part.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.outputs.describe.samples import (
    ends_of,
    entry,
    fit_both_ends,
    fit_first,
    fit_line,
    list_entries,
    sample_of,
    size_of,
)
from holdfast.core.outputs.describe.structured import (
    NOT_JSON,
    is_json_lines,
    json_facts,
    json_lines_facts,
    parse_json,
    read_table,
    table_facts,
)
from holdfast.core.text.cut import count_of, cut, ellipsis
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.outputs.describe.samples import Sample

Kind = Literal["text", "json", "table", "log", "traceback"]

_TRACEBACK_LINES: Final = 60
"""A log counts as a traceback if one ends within this many lines of its end."""
_LINE_CHARS: Final = 300
"""The part of a line that is examined."""


class Shape(msgspec.Struct, frozen=True):
    """The kind of a text, and the function that describes it."""

    kind: Kind
    describe: Callable[[int], list[str]]

    def facts(self, room: int) -> list[str]:
        """Lines about the text, of at most `room` characters together, line ends included."""
        lines = self.describe(room)
        assert size_of(lines) <= max(0, room), "facts exceed their room"
        return lines


def shape_of(text: str) -> Shape:
    """The shape of a text."""
    value = parse_json(text)
    if value is not NOT_JSON:
        return Shape("json", lambda room: json_facts(value, text, room))
    sample = sample_of(text)
    if is_json_lines(sample):
        return Shape("json", lambda room: json_lines_facts(sample, room))
    # The lines of a log may have equal numbers of commas; they are not the rows of a table.
    table = read_table(sample) if sample.lines and not _is_log_line(sample.lines[0]) else None
    if table is not None:
        return Shape("table", lambda room: table_facts(table, sample, room))
    trace = _last_trace(sample)
    if _is_log(sample):
        is_ending = trace is not None and trace.end >= len(sample.lines) - _TRACEBACK_LINES
        return Shape(
            "traceback" if is_ending else "log",
            lambda room: _facts_after_trace(sample, trace, room, _log_facts),
        )
    return Shape(
        "text" if trace is None else "traceback",
        lambda room: _facts_after_trace(sample, trace, room, _text_facts),
    )


def _facts_after_trace(
    sample: Sample, trace: _Trace | None, room: int, more: Callable[[Sample, int], list[str]]
) -> list[str]:
    facts = _trace_facts(sample, trace, room // 2) if trace is not None else []
    return [*facts, *more(sample, room - size_of(facts))]


def _text_facts(sample: Sample, room: int) -> list[str]:
    failures = _failure_facts(sample, room // 2)
    return [*failures, *_outline_facts(sample, room - size_of(failures))]


# Failures: the last exception with the end of its trace, exit codes, tests, compiler errors

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
_TRACE_LINES: Final = 12
"""The last frames and the error itself: what a reader of a traceback looks at."""


class _Trace(msgspec.Struct, frozen=True):
    """The places of the first line, the last line and the exception of a trace."""

    start: int
    end: int
    raised: int


def _last_trace(sample: Sample) -> _Trace | None:
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
                return _Trace(place, last, place)
    return None


def _is_frame(line: str) -> bool:
    """A line below the exception, as in Java and JavaScript."""
    return line[:1] in " \tC" and _FRAME.match(line, 0, _LINE_CHARS) is not None


def _python(lines: list[str], start: int) -> _Trace:
    """The trace up to the first line that is not indented more than its first."""
    column = lines[start].index(_PYTHON)
    for place in range(start + 1, len(lines)):
        line = lines[place]
        if len(line) > column and not line[column].isspace():
            return _Trace(start, place, place)
    return _Trace(start, len(lines) - 1, len(lines) - 1)


def _panic(lines: list[str], place: int) -> _Trace:
    """The trace from the message of the panic on; the running routines follow it."""
    near = range(place, max(-1, place - _TRACE_LINES), -1)
    start = next((at for at in near if "panic: " in lines[at][:_LINE_CHARS]), place)
    return _Trace(start, min(len(lines), place + _TRACE_LINES) - 1, start)


def _trace_facts(sample: Sample, trace: _Trace, room: int) -> list[str]:
    """The exception, and as much of the end of the trace as there is room for."""
    title = "The last exception:"
    raised = entry(sample.number(trace.raised), sample.lines[trace.raised])
    raised = fit_line(raised, room - len(title) - 1)
    left = room - len(title) - len(raised) - 2
    if left < 0:
        return []
    first = max(trace.start, trace.end - _TRACE_LINES)
    places = [place for place in range(first, trace.end + 1) if place != trace.raised]
    frames = [entry(sample.number(place), sample.lines[place]) for place in places]
    shown = fit_both_ends(frames, left)
    order = [raised, *shown] if trace.raised == trace.start else [*shown, raised]
    return [title, *order]


def _failure_facts(sample: Sample, room: int) -> list[str]:
    """Lines that say by themselves that something failed, or how it ended."""
    entries = [
        entry(sample.number(place), line)
        for place, line in enumerate(sample.lines)
        if _reports_failure(line)
    ]
    title = f"{sample.note}{count_of(len(entries), 'line')} about failures or results:"
    return list_entries(title, entries, room)


def _reports_failure(line: str) -> bool:
    lead = _LEAD.match(line)
    return _FAILURE.match(line, lead.end() if lead else 0, _LINE_CHARS) is not None


# Logs: time span, lines of each level, errors and warnings

_STAMP: Final = lazy_pattern(
    r"""[\[("]? (
      \d{4}[-/]\d\d[-/]\d\d [T ] \d\d:\d\d (?: :\d\d )? (?: [.,]\d+ )? (?: Z | [+-]\d\d:?\d\d )?
    | \d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d
    | [A-Z][a-z][a-z]\ [ \d]\d\ \d\d:\d\d:\d\d
    | \d\d:\d\d:\d\d (?: [.,]\d+ )?
    )""",
    re.VERBOSE,
)
_LEVEL: Final = lazy_pattern(
    r"""\b( TRACE | DEBUG | INFO | NOTICE | WARN(?:ING)? | ERROR | ERR | FATAL | CRITICAL
           | SEVERE )\b
    | (?: \[ | \blevel["']?[=:]\s?["']? ) ( trace | debug | info | notice | warn(?:ing)? | error
                                             | err | fatal | critical ) \b""",
    re.VERBOSE,
)
_LEVEL_CHARS: Final = 120
"""The part of a line in which its level is looked for."""
_LEVEL_NAMES: Final = {"WARNING": "WARN", "ERR": "ERROR", "SEVERE": "ERROR"}
_LEVELS: Final = ("FATAL", "CRITICAL", "ERROR", "WARN", "NOTICE", "INFO", "DEBUG", "TRACE")
_ERROR_LEVELS: Final = ("FATAL", "CRITICAL", "ERROR")
_VARYING: Final = lazy_pattern(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8,}\b|\d+")
_ENDS_LINES: Final = 50
_LOG_LINES_MIN: Final = 5
_FREQUENT_SHARE: Final = 0.05
_FREQUENT_LINES: Final = 10
_PATTERN_CHARS: Final = 120
"""Both ends tell whether a text is a log; a frequent pattern makes up a twentieth of its lines."""


def _is_log(sample: Sample) -> bool:
    """Most lines begin with a time or have a level."""
    lines = ends_of(sample.lines, _ENDS_LINES)
    marked = sum(map(_is_log_line, lines))
    return len(lines) >= _LOG_LINES_MIN and 2 * marked >= len(lines)


def _is_log_line(line: str) -> bool:
    return _stamp(line) is not None or _level(line) != ""


def _level(line: str) -> str:
    """The level a line was logged at, if it says so near its beginning."""
    found = _LEVEL.search(line, 0, _LEVEL_CHARS)
    if found is None:
        return ""
    name = (found[1] or found[2]).upper()
    return _LEVEL_NAMES.get(name, name)


def _log_facts(sample: Sample, room: int) -> list[str]:
    levels = [_level(line) for line in sample.lines]
    summary = filter(None, (_time_span(sample), _level_counts(levels)))
    facts = fit_first([f"{sample.note}{fact}" for fact in summary], room)
    # Errors come first, so that warnings get only the room that errors leave.
    for title, wanted in (("Errors", _ERROR_LEVELS), ("Warnings", ("WARN",))):
        entries = _distinct_entries(sample, levels, wanted)
        heading = f"{title}, {len(entries):,} different:"
        facts += list_entries(heading, entries, room - size_of(facts))
    return [*facts, *fit_first(_frequent_lines(sample), room - size_of(facts))]


def _stamp(line: str) -> str | None:
    found = _STAMP.match(line)
    return found[1] if found else None


def _time_span(sample: Sample) -> str:
    first = next(filter(None, map(_stamp, sample.lines)), None)
    last = next(filter(None, map(_stamp, reversed(sample.lines))), None)
    return f"First time {first}, last time {last}." if first and last else ""


def _level_counts(levels: list[str]) -> str:
    counts = Counter(levels)
    named = [f"{name} {counts[name]:,}" for name in _LEVELS if counts[name]]
    return f"Lines by level: {', '.join(named)}." if named else ""


def _distinct_entries(sample: Sample, levels: list[str], wanted: tuple[str, ...]) -> list[str]:
    """The lines of some levels, each pattern once: its first line, and the number alike."""
    first: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for place, level in enumerate(levels):
        if level in wanted:
            kind = _pattern(sample.lines[place])
            first.setdefault(kind, place)
            counts[kind] += 1
    return [
        entry(
            sample.number(place),
            sample.lines[place],
            note=f" and {counts[kind] - 1:,} alike" if counts[kind] > 1 else "",
        )
        for kind, place in first.items()
    ]


def _frequent_lines(sample: Sample) -> list[str]:
    """The most repeated lines, whatever their level."""
    counts = Counter(map(_pattern, sample.lines))
    least = max(_FREQUENT_LINES, int(_FREQUENT_SHARE * len(sample.lines)))
    return [
        f"{count:,} lines are, but for numbers: {cut(kind, _PATTERN_CHARS, marker=ellipsis).text}"
        for kind, count in counts.most_common(3)
        if count >= least and kind
    ]


def _pattern(line: str) -> str:
    """A line without its time and its numbers."""
    stamp = _STAMP.match(line)
    return _VARYING.sub("#", line[stamp.end() if stamp else 0 :]).strip(" ]\t")


# Outlines: the headings of a document, the definitions of a source, the files of a diff

_PART: Final = lazy_pattern(
    r"""
    (?: [ \t]* \d+ [→|:\t] [ ]? )?                   # tools that print files number their lines
    (?: (?P<fence> ``` )
      | (?P<diff> diff[ ]--git[ ].+ )
      | (?P<heading> \#{1,6}[ ]\S.* )
      | (?P<definition> \s*
          (?: (?: export | default | pub(?:\(\w+\))? | public | private | protected | internal
                | static | abstract | final | async | unsafe | declare | inline ) \s+ ){0,5}
          (?: def | defp | defmodule | defmacro | class | func | fn | function\*? | interface
            | struct | enum | trait | impl | module | namespace | type ) \s+ [^\s=] .* )
    )""",
    re.VERBOSE,
)
_PROSE: Final = lazy_pattern(r"\s*\w+\s+\w+[ ]\w+[ ]\w")
"""`type the word again` begins like a definition."""
_ENTRIES_MIN: Final = 2
"""A single entry is no outline."""


def _outline_facts(sample: Sample, room: int) -> list[str]:
    """The lines at which the parts of a text begin."""
    for title, entries in _outlines(sample).items():
        if len(entries) >= _ENTRIES_MIN:
            heading = f"{sample.note}{title}, {len(entries):,} in all:"
            return list_entries(heading, entries, room)
    return []


def _outlines(sample: Sample) -> dict[str, list[str]]:
    diffs: list[str] = []
    headings: list[str] = []
    definitions: list[str] = []
    deeper, is_code = 0, False
    for place, line in enumerate(sample.lines):
        found = _PART.match(line, 0, _LINE_CHARS)
        if found is None:
            continue
        what = found[found.lastgroup or 0]
        if found.lastgroup == "fence":
            is_code = not is_code
        elif found.lastgroup == "diff":
            diffs.append(entry(sample.number(place), what))
        elif found.lastgroup == "definition" and not _PROSE.match(what):
            definitions.append(entry(sample.number(place), what))
        elif found.lastgroup == "heading" and not is_code:
            headings.append(entry(sample.number(place), what))
            deeper += what.startswith("##")
    # One `#` is a comment in many languages; two are a heading.
    is_document = deeper >= _ENTRIES_MIN
    return {
        "Files of the diff": diffs,
        "Headings": headings if is_document else [],
        "Definitions": definitions,
    }
